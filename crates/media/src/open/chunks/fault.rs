//! Accesses to chunks that another process has made and this process has not mapped yet.
//!
//! A process reads the map of chunks when it takes the store's lock, and maps new ones. It may see
//! a pointer into a chunk earlier, through memory that it shares with the other process. The load
//! then hits addresses that are reserved and not mapped: the handler of SIGSEGV (`fault_handler`)
//! looks the offset up in the map, maps the chunk, and the instruction runs again. System calls do
//! not fault: one that is given such an address fails with EFAULT.
//!
//! A load of a page without a chunk reads zeros from a private page. The page stays until this
//! process maps the chunk that covers it: a pointer to bytes that no process has backed yet must
//! not be followed.
//!
//! Threads: any. The handler takes no lock that is held while mapped bytes are touched.

use super::Chunks;
use crate::backends::file::disk::Disk;
use crate::bytes::mapping::Mapping;
use crate::pages::fault_handler;
use parking_lot::RwLock;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

struct Guarded {
    addresses: Range<usize>,
    mapping: Weak<Mapping>,
    chunks: Weak<Chunks>,
    file: Arc<File>,
    process: u32,
    number: u64,
}

/// The guarded mappings, and the number of mappings ever guarded.
static GUARDED: RwLock<(Vec<Arc<Guarded>>, u64)> = RwLock::new((Vec::new(), 0));

/// The process that guards mappings.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Keeps a mapping guarded until it is dropped.
pub(crate) struct Guard {
    number: u64,
}

impl Guard {
    pub(crate) fn new(mapping: &Arc<Mapping>, chunks: &Arc<Chunks>, file: &Arc<File>) -> Guard {
        fault_handler::install_resolver(resolve);
        OWNER.store(std::process::id(), Ordering::Relaxed);
        let start = mapping.address().addr().get();
        let (list, count) = &mut *GUARDED.write();
        *count += 1;
        list.push(Arc::new(Guarded {
            addresses: start..start + mapping.reserve() as usize,
            mapping: Arc::downgrade(mapping),
            chunks: Arc::downgrade(chunks),
            file: Arc::clone(file),
            process: std::process::id(),
            number: *count,
        }));
        Guard { number: *count }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDED.write().0.retain(|guarded| guarded.number != self.number);
    }
}

/// Whether the instruction that touched `address` is to run again.
fn resolve(address: usize) -> bool {
    // A forked child has none of these mappings, and another thread may have held the lock.
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return false;
    }
    let guarded = GUARDED.read().0.iter().find(|guarded| guarded.addresses.contains(&address)).cloned();
    guarded.is_some_and(|guarded| guarded.process == std::process::id() && guarded.resolve(address))
}

impl Guarded {
    fn resolve(&self, address: usize) -> bool {
        let (Some(mapping), Some(chunks)) = (self.mapping.upgrade(), self.chunks.upgrade()) else { return false };
        let at = (address - self.addresses.start) as u64;
        if chunks.find(at).is_none() && chunks.refresh(&*self.file).is_err() {
            return false;
        }
        match chunks.find(at) {
            // If it was mapped already, another thread was faster, or the protection forbids the
            // access.
            Some(extent) => match mapping.show(self.file.mappable(), &[extent]) {
                Ok(true) => true,
                Ok(false) => is_first(address),
                Err(_) => false,
            },
            // No byte was ever stored there. A load reads zeros; a store faults again.
            None => is_first(address) && mapping.show_zeros(at).is_ok(),
        }
    }
}

/// Whether this thread's last fault of this kind was at another address.
fn is_first(address: usize) -> bool {
    static LAST: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    // SAFETY: a system call without arguments: it accesses no memory of ours.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
    let key = (address as u64).rotate_left(16) ^ thread;
    let last = &LAST[(thread % 64) as usize];
    let first = last.load(Ordering::Relaxed) != key;
    last.store(if first { key } else { 0 }, Ordering::Relaxed);
    first
}
