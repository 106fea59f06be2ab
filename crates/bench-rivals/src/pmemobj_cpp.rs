//! libpmemobj-cpp, the C++ of libpmemobj, through `c/pmemobj_cpp.cc`. Its headers are no package of
//! Debian 12: `LIBPMEMOBJ_CPP` of the build is the folder that has them, if that is not
//! `/usr/include`.

use crate::Failure;
use crate::work::CppRow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

unsafe extern "C" {
    fn cpp_rival_create(path: *const c_char, size: usize) -> *mut c_void;
    fn cpp_rival_said() -> *const c_char;
    fn cpp_rival_close(pool: *mut c_void);
    fn cpp_rival_row(pool: *mut c_void, row: c_int, count: u64) -> u64;
}

/// A pool with a number, and with a hundred behind pointers.
pub struct PmemobjCpp(NonNull<c_void>);

impl PmemobjCpp {
    /// Creates a pool of `size` bytes at `path`, which does not exist.
    ///
    /// # Errors
    /// The library's own words.
    pub fn create(path: &Path, size: usize) -> Result<Option<PmemobjCpp>, Failure> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| Failure(error.to_string()))?;
        // SAFETY: a string ended by zero.
        let pool = unsafe { cpp_rival_create(name.as_ptr(), size) };
        match NonNull::new(pool) {
            Some(pool) => Ok(Some(PmemobjCpp(pool))),
            None => {
                // SAFETY: takes nothing.
                let said = unsafe { cpp_rival_said() };
                // SAFETY: ended by zero, and this thread alone changes it.
                let said = unsafe { CStr::from_ptr(said) };
                Err(Failure(format!("libpmemobj-cpp: {}", said.to_string_lossy())))
            }
        }
    }

    /// How long `count` operations take.
    pub fn row(&self, row: CppRow, count: u64) -> Duration {
        // SAFETY: an open pool; no other thread uses it, since the type is not `Sync`.
        Duration::from_nanos(unsafe { cpp_rival_row(self.0.as_ptr(), row as c_int, count) })
    }
}

impl Drop for PmemobjCpp {
    fn drop(&mut self) {
        // SAFETY: made by `create`, closed once.
        unsafe { cpp_rival_close(self.0.as_ptr()) }
    }
}
