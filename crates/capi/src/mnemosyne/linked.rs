//! Opening the persistent variables that an executable or a library was linked with, before `main`:
//!   1. the build is read from the file it was loaded from; the variables that a library exports
//!      must be those that others use by their names
//!   2. the object that keeps the variables is opened, or created with their initial values
//!   3. its pages are mapped over the section; if the store's mapping is private to the process,
//!      they are copied there
//!
//! Threads: the thread that starts the program or loads the library.

use super::sections::{self, Owner};
use super::{elf, pdata, regions};
use crate::fault::{Fault, Result};
use crate::process::Process;
use everbyte_mnemosyne::{Program, Regions, Variables};
use std::ffi::{CString, OsStr, c_void};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// The maximum size of the heap of a program's variables, in a store with addresses for several
/// such heaps; unused addresses cost nothing.
const SPAN: u64 = 8 << 30;

/// The kind of variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VariableKind {
    /// Variables of a program, as in Mnemosyne: found by its name, and kept by a later build with
    /// the same variables.
    Pstatic,
    /// Variables of an executable file, as in HEAPO: deleted with the file.
    Pdata,
}

/// # Safety
/// `start..end` is a section of the caller's executable or library, readable and writable, to which
/// no thread stores meanwhile.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn everbyte_open_pstatic(start: *mut c_void, end: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { open_or_exit(start, end, VariableKind::Pstatic) }
}

/// # Safety
/// As [`everbyte_open_pstatic`].
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn everbyte_open_pdata(start: *mut c_void, end: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { open_or_exit(start, end, VariableKind::Pdata) }
}

/// # Safety
/// As [`everbyte_open_pstatic`].
unsafe fn open_or_exit(start: *mut c_void, end: *mut c_void, kind: VariableKind) {
    // SAFETY: the caller's promise.
    let opened = unsafe { open(start, end, kind) };
    if let Err(fault) = opened {
        eprintln!("everbyte: persistent variables: {}", fault.message());
        std::process::exit(78); // EX_CONFIG: a program must not run without its variables
    }
}

/// # Safety
/// As [`everbyte_open_pstatic`].
unsafe fn open(start: *mut c_void, end: *mut c_void, kind: VariableKind) -> Result<()> {
    let addresses = start.expose_provenance()..end.addr();
    if addresses.is_empty() || sections::is_open(&addresses) {
        return Ok(());
    }
    if [addresses.start, addresses.end].iter().any(|address| !address.is_multiple_of(4096)) {
        return Err(Fault::invalid(format!(
            "the section at {addresses:#x?} is not whole pages, so other data shares them: some file defines variables in it without including everbyte/pstatic.h or pdata.h"
        )));
    }
    let path = loaded_from(addresses.start)?;
    let io = |error: std::io::Error| Fault::new(libc::EIO, format!("{}: cannot be read: {error}", path.display()));
    let file = File::open(&path).map_err(io)?;
    let mut head = Vec::new();
    (&file).take(1 << 16).read_to_end(&mut head).map_err(io)?;
    let build = elf::build(&head).unwrap_or_default();
    let (name, section) = match kind {
        VariableKind::Pstatic => {
            (format!("pstatic/{}", path.file_name().unwrap_or_default().to_string_lossy()), "persistent")
        }
        VariableKind::Pdata => (pdata::name(&file.metadata().map_err(io)?, build), "PDATA"),
    };
    require_own(&path, section, &addresses)?;
    // SAFETY: the caller's promise: readable, and unchanged while this lives, which is until the
    // mapping below.
    let initial = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), addresses.len()) };
    let variables = Variables { initial, build, layout: &|| layout(&path, section) };
    let process = Process::get()?;
    let room = process.media().max() / 8;
    let span = SPAN.min(1 << room.max(1 << 20).ilog2());
    let program = Program::open(process.store(), &name, span, &variables)?;
    let at = program.variables().start;
    let place = NonNull::new(start.cast()).expect("checked not to be empty");
    // SAFETY: the section is the caller's to give, and `initial` is not used any more.
    let mapped = unsafe { program.media().map_over(at, addresses.len() as u64, place) }?;
    if mapped {
        everbyte_recorded::also(addresses.clone(), at)?;
    } else {
        let kept = program.media().read_vec(at, addresses.len());
        // SAFETY: `start..end` is writable, and no thread stores there: the caller's promise.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(&kept[..]).cast(), kept.len()) };
    }
    if kind == VariableKind::Pdata {
        pdata::settle(process.store(), &program, &path)?;
    }
    let regions = Regions::open(&program)?;
    regions::protect_all(program.media(), &regions)?;
    sections::add(addresses, Owner { program, regions }, !mapped);
    Ok(())
}

/// Refuses a library whose variables are not those that the program uses by their names: an
/// executable that was not compiled with -fPIC gets copies at load time, which the library itself
/// then uses.
fn require_own(path: &Path, section: &str, addresses: &Range<usize>) -> Result<()> {
    if std::fs::read_link("/proc/self/exe").is_ok_and(|executable| executable == path) {
        return Ok(()); // an executable comes first in the lookup
    }
    let file = std::fs::read(path).unwrap_or_default();
    for (at, name) in elf::exported(&file, section) {
        let symbol = CString::new(name).expect("names of symbols end with a zero byte");
        // SAFETY: looks a name up, which ends with a zero byte.
        let used = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
        if !used.is_null() && used.addr() != addresses.start + at {
            return Err(Fault::invalid(format!(
                "`{name}` of {}: the program has a copy of this variable, which would not be kept; compile the executable with -fPIC, or let functions of the library use the variable",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The symbols of a section in a file; refuses variables whose initial values are addresses.
fn layout(path: &Path, section: &str) -> std::result::Result<Option<u64>, String> {
    let file = std::fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    let Some(contents) = elf::contents(&file, section) else { return Ok(None) };
    match contents.address_in {
        Some(variable) => Err(format!(
            "{variable} begins as an address of the program, which lies elsewhere in each run; set it at run time, or link with -no-pie"
        )),
        None => Ok(contents.layout),
    }
}

/// The file that the kernel mapped at `address`. File names are bytes.
fn loaded_from(address: usize) -> Result<PathBuf> {
    let table = std::fs::read("/proc/self/maps").unwrap_or_default();
    let path = table.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let (start, end) = str::from_utf8(fields.next()?).ok()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (start..end).contains(&address).then(|| fields.nth(4).unwrap_or_default().trim_ascii_start())
    });
    let path = path.filter(|path| path.starts_with(b"/") && !path.ends_with(b" (deleted)"));
    let path = path.ok_or_else(|| {
        Fault::new(libc::ENOENT, "the file of this program is gone, so nothing says which variables it has")
    })?;
    Ok(OsStr::from_bytes(path).into())
}
