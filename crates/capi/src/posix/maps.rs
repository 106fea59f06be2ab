//! Ranges of open files that are mapped: loads and stores on the medium itself.
//!
//! Invariants
//!   CMAP-1  A mapping is in the list from the return of `eb_mmap` to `eb_munmap`, or to the end of
//!           its process, and keeps its file and its volume in use.
//!   CMAP-2  Of mappings with one address and one length, one that takes stores stays longest:
//!           the address takes stores as long as the program may have that mapping.
//!
//! Threads: any. The lock of the list is taken alone; a mapping ends outside of it.

use super::table::{self, OpenVolume};
use super::{bad_address, done, positive};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{FileMap, MapOptions};
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The system maps whole pages.
const PAGE: usize = 4096;

struct Mapping {
    address: usize,
    /// Bytes, up to the end of the last page.
    len: usize,
    takes_stores: bool,
    map: FileMap,
    volume: Arc<OpenVolume>,
}

static MAPPINGS: Mutex<Vec<Arc<Mapping>>> = Mutex::new(Vec::new());

/// The options of protection and flags.
fn options(protection: c_int, flags: c_int) -> Result<MapOptions> {
    if protection & libc::PROT_EXEC != 0 {
        return Err(Fault::new(libc::EPERM, "programs are not run from a mapping"));
    }
    if protection & !(libc::PROT_READ | libc::PROT_WRITE) != 0 || protection == libc::PROT_NONE {
        return Err(Fault::invalid(format!("no mapping has the protection {protection:#x}")));
    }
    let private = match flags & libc::MAP_TYPE {
        libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => false,
        libc::MAP_PRIVATE => true,
        _ => return Err(Fault::invalid("a mapping is MAP_SHARED or MAP_PRIVATE")),
    };
    match flags & !(libc::MAP_TYPE | libc::MAP_POPULATE | libc::MAP_NORESERVE) {
        0 => (),
        other if flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE => {
            return Err(Fault::new(libc::EOPNOTSUPP, format!("no mapping has the flags {other:#x}")));
        }
        other => return Err(Fault::invalid(format!("no mapping has the flags {other:#x}"))),
    }
    let (writable, populate) = (protection & libc::PROT_WRITE != 0, flags & libc::MAP_POPULATE != 0);
    Ok(MapOptions { writable, private, populate, ..MapOptions::default() })
}

fn map(len: usize, protection: c_int, flags: c_int, fd: c_int, at: i64) -> Result<usize> {
    let open = table::get(fd)?;
    let options = options(protection, flags)?;
    let at = positive(at)?;
    let is_shared = open.volume.files.volume().object().media().capabilities().shared;
    if !options.private && !is_shared {
        let text = "stores by address could be lost on this store's medium; use MAP_PRIVATE, or eb_pwrite";
        return Err(Fault::new(libc::ENODEV, text));
    }
    let rounded = len.checked_next_multiple_of(PAGE).ok_or_else(|| Fault::invalid("the length does not fit"))?;
    let map = open.file.map(at, len as u64, &options)?;
    if (map.len() as usize).next_multiple_of(PAGE) != rounded {
        return Err(Fault::new(libc::ENXIO, "the range reaches behind the last page of the file"));
    }
    let address = map.as_ptr().ok_or_else(|| Fault::new(libc::ENODEV, "the range has no address"))?;
    let address = address.as_ptr().expose_provenance();
    let takes_stores = options.writable && !options.private;
    let volume = Arc::clone(&open.volume);
    MAPPINGS.lock().push(Arc::new(Mapping { address, len: rounded, takes_stores, map, volume }));
    Ok(address)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_mmap(
    hint: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: i64,
) -> *mut c_void {
    let _ = hint; // as Linux without MAP_FIXED: the place is the library's choice
    answer(map(len, protection, flags, fd, at), libc::MAP_FAILED, |address| {
        std::ptr::with_exposed_provenance_mut(address)
    })
}

/// An address of the program, at the start of a page.
fn page(address: *const c_void) -> Result<usize> {
    match address.addr() {
        0 => Err(bad_address("a mapping")),
        address if !address.is_multiple_of(PAGE) => Err(Fault::invalid("the address is no start of a page")),
        address => Ok(address),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_munmap(address: *mut c_void, len: usize) -> c_int {
    done(page(address).and_then(|address| {
        let rounded = len.checked_next_multiple_of(PAGE);
        let mut mappings = MAPPINGS.lock();
        let of_these = |mapping: &Arc<Mapping>| mapping.address == address && Some(mapping.len) == rounded;
        let found = mappings.iter().position(|mapping| of_these(mapping) && !mapping.takes_stores);
        let found = found.or_else(|| mappings.iter().position(of_these));
        let found = found.ok_or_else(|| Fault::invalid("no mapping has this address and this length"))?;
        mappings[found].volume.require_here()?;
        let mapping = mappings.swap_remove(found);
        drop(mappings);
        drop(mapping); // flushes
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_msync(address: *mut c_void, len: usize, flags: c_int) -> c_int {
    done(page(address).and_then(|address| {
        super::require_flags(flags, libc::MS_SYNC | libc::MS_ASYNC | libc::MS_INVALIDATE)?;
        if flags & libc::MS_SYNC != 0 && flags & libc::MS_ASYNC != 0 {
            return Err(Fault::invalid("MS_SYNC and MS_ASYNC exclude each other"));
        }
        let outside = || Fault::new(libc::ENOMEM, "the range lies in no mapping");
        let end = address.checked_add(len).ok_or_else(outside)?;
        let holds = |mapping: &&Arc<Mapping>| mapping.address <= address && end <= mapping.address + mapping.len;
        let found: Vec<_> = MAPPINGS.lock().iter().filter(holds).map(Arc::clone).collect();
        if found.is_empty() {
            return Err(outside());
        }
        for mapping in found.iter().filter(|mapping| mapping.takes_stores) {
            mapping.volume.require_here()?;
            let map = &mapping.map;
            let at = ((address - mapping.address) as u64).min(map.len());
            let len = (len as u64).min(map.len() - at);
            match flags & libc::MS_ASYNC {
                0 => map.sync(at, len)?,
                _ => {
                    map.flush(at, len)?;
                    map.fence();
                }
            }
        }
        Ok(())
    }))
}

/// Ends the mappings of a volume, when the process ends.
pub(super) fn end_all(volume: u64) {
    let of_it = |mapping: &mut Arc<Mapping>| mapping.volume.id == volume;
    let ended: Vec<_> = MAPPINGS.lock().extract_if(.., of_it).collect();
    drop(ended);
}
