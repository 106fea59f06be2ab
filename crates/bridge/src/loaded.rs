//! Reads the description out of a library file, by loading it.

use crate::passed::RawText;
use crate::{Description, Error};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The symbol that answers the description.
const SYMBOL: &CStr = c"everbyte_bridge_description";

/// The description of the library at `path`. The file is loaded, which runs its initialisers: it is
/// to be one that the caller would link with.
///
/// # Errors
/// [`Error`].
pub fn describe_library(path: &Path) -> Result<Description, Error> {
    let shown = || path.display().to_string();
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::Loader { detail: format!("{}: a zero byte in its name", shown()) })?;
    // SAFETY: a name that ends with a zero byte; the file is the caller's choice.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(Error::Loader { detail: last_error() });
    }
    // SAFETY: a library that is loaded, and stays so.
    let symbol: *mut c_void = unsafe { libc::dlsym(library, SYMBOL.as_ptr()) };
    if symbol.is_null() {
        return Err(Error::NoBridge { path: shown() });
    }
    // SAFETY: `library!` makes that symbol, a function of this type.
    let description: extern "C" fn() -> RawText = unsafe { std::mem::transmute(symbol) };
    // SAFETY: its text is never freed.
    let text = unsafe { description().read() };
    let text = text.map_err(|fault| Error::Loader { detail: format!("{}: {}", shown(), fault.message()) })?;
    Description::parse(text)
}

/// The loader's last words.
fn last_error() -> String {
    // SAFETY: it has no conditions.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the loader refused".into();
    }
    // SAFETY: text that ends with a zero byte, valid until this thread's next call of the loader.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}
