//! Pages of a mapping that the system cannot read: after an uncorrectable memory error, a bad
//! sector, or a truncation of the file from outside. Touching such a page raises SIGBUS.
//!
//! The handler of SIGBUS, for an address inside a mapping of this process:
//!   1. records the page in the list of its mapping, and counts it in [`COUNT`]
//!   2. replaces the page by a private page of zeros
//!   3. returns, and the instruction runs again and finds zeros
//!
//! A thread that has read calls [`crate::Media::require_readable`] before it answers its caller,
//! and a thread that commits calls it for its whole object first. A signal for any other address
//! goes to the handler that was installed before.
//!
//! Invariants
//!   BUS-1  The handler calls nothing but system calls, takes no lock, allocates nothing, and
//!          touches static memory only.
//!   BUS-2  A page is recorded before it is replaced: a thread that has read its zeros finds it in
//!          the list.
//!   BUS-3  No byte of a replaced page reaches the medium: stores there stay in this process,
//!          `file` neither logs nor checkpoints them, and the next barrier of the thread that
//!          flushed them, through the store's mapping or a view, is an error.
//!
//! Threads: any. A program that installs a handler for SIGBUS later must call the handler that it
//! replaces. Elsewhere: the questions of callers (`readable`). Design:
//! docs/design/memory-errors.md.

use crate::bytes::sizes::{LARGE, PAGE};
use crate::pages::signals;
use crate::seeded;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Pages that are recorded one by one. With more, the whole mapping counts as unreadable.
const PAGES: usize = 64;
/// `BUS_ADRERR`, `BUS_MCEERR_AR` and `BUS_MCEERR_AO`: the file has no such bytes, and a memory
/// error found by this thread or by the kernel.
pub(super) const CODES: [c_int; 3] = [2, 4, 5];

/// Unreadable pages recorded in this process, of all mappings. While it is 0, no list is read.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The action for SIGBUS before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// The mappings of this process. Further blocks are allocated outside of the handler and never
/// freed.
static FIRST: Block = Block::new();

thread_local! {
    /// For each mapping, by its number, the offset of this thread's first flush of an unreadable
    /// page that no barrier has reported. Without a destructor, since a thread that is ending makes
    /// barriers, too; an empty list holds no memory.
    static LOST: ManuallyDrop<RefCell<Vec<(u64, u64)>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// The number of the newest mapping. A number, and not the entry: another mapping takes the entry
/// of one that is dropped.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

struct Block {
    mappings: [WatchedMapping; 32],
    next: AtomicPtr<Block>,
}

/// The unreadable pages of one mapping.
pub(crate) struct WatchedMapping {
    /// Its first address; [`FREE`], or [`TAKEN`] while the other fields are being stored.
    start: AtomicUsize,
    end: AtomicUsize,
    process: AtomicU32,
    /// Pages recorded. More than [`PAGES`] means all pages of the mapping.
    count: AtomicUsize,
    /// Their offsets plus 1; 0 before the store.
    pages: [AtomicU64; PAGES],
}

const FREE: usize = 0;
const TAKEN: usize = usize::MAX;

impl Block {
    const fn new() -> Block {
        Block { mappings: [const { WatchedMapping::new() }; 32], next: AtomicPtr::new(null_mut()) }
    }

    fn next(&self) -> Option<&'static Block> {
        // SAFETY:
        // - in bounds, alive: the pointer is null, or leads to a block that was leaked before it
        //   was linked and is never freed;
        // - no writer: all fields are atomics;
        // - valid: `Block::new` has initialised it.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

impl WatchedMapping {
    const fn new() -> WatchedMapping {
        WatchedMapping {
            start: AtomicUsize::new(FREE),
            end: AtomicUsize::new(0),
            process: AtomicU32::new(0),
            count: AtomicUsize::new(0),
            pages: [const { AtomicU64::new(0) }; PAGES],
        }
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != FREE
            && start <= address
            && address < self.end.load(Ordering::Acquire)
            // The entry was not reused for another mapping in between.
            && self.start.load(Ordering::Acquire) == start
    }

    /// Records the page of offset `at`.
    fn record(&self, at: u64) {
        let (page, known) = (at & !(PAGE - 1), self.count.load(Ordering::Acquire).min(PAGES));
        if self.pages[..known].iter().any(|recorded| recorded.load(Ordering::Acquire) == page + 1) {
            return; // two threads have touched it at the same time
        }
        let place = self.count.fetch_add(1, Ordering::AcqRel);
        if let Some(free) = self.pages.get(place) {
            free.store(page + 1, Ordering::Release);
        }
        COUNT.fetch_add(1, Ordering::SeqCst);
    }

    /// The recorded pages; `None` if there are more than [`PAGES`].
    fn recorded(&self) -> Option<impl Iterator<Item = u64>> {
        let count = self.count.load(Ordering::Acquire);
        let recorded =
            self.pages[..count.min(PAGES)].iter().filter_map(|page| page.load(Ordering::Acquire).checked_sub(1));
        (count <= PAGES).then_some(recorded)
    }

    /// The first byte of a range that cannot be read.
    fn find(&self, range: &Range<u64>) -> Option<u64> {
        match self.recorded() {
            None => Some(range.start),
            Some(recorded) => recorded
                .filter(|page| *page < range.end && range.start < page + PAGE)
                .min()
                .map(|page| page.max(range.start)),
        }
    }
}

/// The registration of a mapping with the handler; it ends when the value is dropped.
pub(crate) struct Watched {
    slot: &'static WatchedMapping,
    number: u64,
}

impl Watched {
    pub(crate) fn new(addresses: Range<usize>) -> Watched {
        install();
        let mut block: &'static Block = &FIRST;
        loop {
            for slot in &block.mappings {
                if slot.start.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                slot.pages.iter().for_each(|page| page.store(0, Ordering::Relaxed));
                slot.count.store(0, Ordering::Relaxed);
                slot.process.store(std::process::id(), Ordering::Relaxed);
                slot.end.store(addresses.end, Ordering::Release);
                slot.start.store(addresses.start, Ordering::Release);
                return Watched { slot, number: NUMBERS.fetch_add(1, Ordering::Relaxed) };
            }
            block = block.next().unwrap_or_else(|| {
                let new: &'static mut Block = Box::leak(Box::new(Block::new()));
                let _ = block.next.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
                // A block that lost the race stays unused.
                block.next().expect("linked by this thread or another")
            });
        }
    }

    /// The first byte of `at..at+len` that cannot be read, of the pages that this process has
    /// touched.
    pub(crate) fn find(&self, at: u64, len: u64) -> Option<u64> {
        if seeded("media-zeros-answered") { None } else { self.slot.find(&(at..at.saturating_add(len.max(1)))) }
    }

    /// Whether a flush of `at..at+len` carries bytes that stay in this process (BUS-3). The first
    /// such flush is kept for the thread's next barrier.
    pub(super) fn loses(&self, at: u64, len: u64) -> bool {
        let lost = self.find(at, len);
        if let Some(at) = lost {
            self.lose(at);
        }
        lost.is_some()
    }

    /// Keeps a flush without effect for the thread's next barrier (BUS-3).
    pub(super) fn lose(&self, at: u64) {
        LOST.with(|lost| {
            let mut lost = lost.borrow_mut();
            if lost.iter().all(|(number, _)| *number != self.number) {
                lost.push((self.number, at));
            }
        });
    }

    /// The first of this thread's flushes without effect since the last report.
    pub(super) fn take_lost(&self) -> Option<u64> {
        if seeded("media-lost-flush-acknowledged") {
            return None;
        }
        LOST.with(|lost| {
            let mut lost = lost.borrow_mut();
            let place = lost.iter().position(|(number, _)| *number == self.number)?;
            let at = lost.swap_remove(place).1;
            if lost.is_empty() {
                *lost = Vec::new();
            }
            Some(at)
        })
    }

    /// The recorded pages in order, at most [`PAGES`].
    pub(super) fn pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> =
            self.slot.pages.iter().filter_map(|page| page.load(Ordering::Acquire).checked_sub(1)).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.slot.start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler of SIGBUS, once in the life of a process.
fn install() {
    BEFORE.get_or_init(|| signals::install(libc::SIGBUS, handle, libc::SA_ONSTACK));
}

/// The handler of SIGBUS (BUS-1).
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel calls a handler with SA_SIGINFO with a valid `siginfo_t`.
    let (code, address) = unsafe { signals::code_and_address(info) };
    let again = signals::keep_errno(|| CODES.contains(&code) && replace(address));
    if !again && let Some(before) = BEFORE.get() {
        // SAFETY: the arguments are the kernel's.
        unsafe { signals::pass_on(before, signal, info, context) };
    }
}

/// Steps 1 and 2. `false`: the address is in no mapping of this process, or the system refuses.
fn replace(address: usize) -> bool {
    let mut block = Some(&FIRST);
    while let Some(present) = block {
        if let Some(slot) = present.mappings.iter().find(|slot| slot.holds(address)) {
            // SAFETY: a system call without arguments.
            let mine = slot.process.load(Ordering::Relaxed) == unsafe { libc::getpid() } as u32;
            return mine && slot.replace(address);
        }
        block = present.next();
    }
    false
}

impl WatchedMapping {
    fn replace(&self, address: usize) -> bool {
        let (start, end) = (self.start.load(Ordering::Acquire), self.end.load(Ordering::Acquire));
        self.record((address - start) as u64); // BUS-2
        let page = address & !(PAGE as usize - 1);
        // With the whole mapping unreadable, pages are replaced many at a time: the system limits
        // the number of mappings.
        let many = self.count.load(Ordering::Acquire) > PAGES;
        let large = (address & !(LARGE as usize - 1)).max(start)..((address | (LARGE as usize - 1)) + 1).min(end);
        (!many && lay_zeros(page, PAGE as usize)) || lay_zeros(large.start, large.end - large.start)
    }
}

fn lay_zeros(address: usize, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let place = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY:
    // - in bounds: whole pages of a mapping of this process;
    // - alive: the thread that runs this touches the mapping, so it is not being unmapped;
    // - no writer: the bytes are lost already, and all access through the crate is atomic (MAP-3);
    // - valid: references that typed pools lend out find zeros, which need not be a value of their
    //   type; no such transaction commits or answers (docs/design/memory-errors.md).
    let placed = unsafe { libc::mmap(place, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    placed != libc::MAP_FAILED
}

/// The number of unreadable pages that this process has met.
#[inline(always)]
pub(crate) fn count() -> u64 {
    // Pairs with the increment of a thread that has replaced a page: if zeros of that page were
    // read before this line, the page is in the list (BUS-2).
    fence(Ordering::Acquire);
    COUNT.load(Ordering::Relaxed)
}
