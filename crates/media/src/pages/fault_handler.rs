//! The handler of SIGSEGV: it looks at the rights of protection keys, asks the watcher of the
//! touched range, then the resolver of chunks, and the instruction runs again if one of them says
//! so.
//!
//! Invariants
//!   HIDE-1  The handler takes no lock that is held while watched pages are touched: a watcher
//!           touches them through the second mapping only.
//!   HIDE-2  Only the process that watches gets answers: a forked child has none of these pages.
//!
//! Threads: any. A program that installs a handler for SIGSEGV later must call the handler that it
//! replaces.

use crate::pages::{keys, signals};
use parking_lot::RwLock;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Decides the effect of a touch of a hidden page.
pub trait Watcher: Send + Sync {
    /// The byte at `at` was touched, and the protection stopped the access. `true` repeats the
    /// access; `false` makes it a fault.
    fn touched(&self, at: u64) -> bool;
}

/// A watched range; watching ends when the value is dropped.
pub struct Watch {
    number: u64,
}

struct WatchedRange {
    number: u64,
    addresses: Range<usize>,
    /// The offset of the first address.
    at: u64,
    process: u32,
    watcher: Arc<dyn Watcher>,
}

/// The watched ranges, and the number of ranges ever watched.
static WATCHED: RwLock<(Vec<WatchedRange>, u64)> = RwLock::new((Vec::new(), 0));
/// The action for SIGSEGV before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Maps the chunk of a touched address; set by the map of chunks.
static RESOLVER: OnceLock<fn(usize) -> bool> = OnceLock::new();

/// Installs the handler, once in the life of a process.
pub(crate) fn install() {
    // On the stack of the thread that faults, which is larger than a signal stack: a watcher reads
    // and writes files.
    BEFORE.get_or_init(|| signals::install(libc::SIGSEGV, handle, 0));
}

/// Installs the handler, which asks `resolve` about addresses that no watcher answers.
pub(crate) fn install_resolver(resolve: fn(usize) -> bool) {
    RESOLVER.get_or_init(|| resolve);
    install();
}

impl Watch {
    /// Watches `addresses`, of which the first is offset `at` of the watcher's store.
    pub(crate) fn new(addresses: Range<usize>, at: u64, watcher: Arc<dyn Watcher>) -> Watch {
        install();
        let (list, count) = &mut *WATCHED.write();
        *count += 1;
        let (number, process) = (*count, std::process::id());
        list.push(WatchedRange { number, addresses, at, process, watcher });
        Watch { number }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.write().0.retain(|watched| watched.number != self.number);
    }
}

/// The handler of SIGSEGV.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments are the kernel's.
    if unsafe { keys::resolve(info, context) } {
        return;
    }
    // SAFETY: the kernel calls a handler with SA_SIGINFO with a valid `siginfo_t`.
    let (_, address) = unsafe { signals::code_and_address(info) };
    let again = signals::keep_errno(|| {
        let found = WATCHED.read().0.iter().find(|watched| watched.addresses.contains(&address)).map(|watched| {
            let at = watched.at + (address - watched.addresses.start) as u64;
            (Arc::clone(&watched.watcher), at, watched.process)
        });
        found.is_some_and(|(watcher, at, process)| process == std::process::id() && watcher.touched(at))
            || RESOLVER.get().is_some_and(|resolve| resolve(address))
    });
    if !again {
        // SAFETY: the arguments are the kernel's.
        unsafe { signals::pass_on(BEFORE.get().expect("the handler was installed"), signal, info, context) };
    }
}

#[cfg(test)]
pub(crate) fn watched_ranges() -> usize {
    WATCHED.read().0.len()
}
