//! Pages of a mapping whose bytes the system cannot give: an uncorrectable memory error, a sector
//! that cannot be read, a file that was truncated from outside. Each is a SIGBUS for the
//! instruction that touches the page.
//!
//! The handler of SIGBUS, for an address inside a mapping of this process:
//!   1. the page is noted in the list of its mapping, and counted in [`COUNT`]
//!   2. the page is replaced by a private page of zeros
//!   3. the instruction runs again, and finds zeros
//!
//! A thread that has read asks [`Media::require_readable`] before it answers its caller, and a
//! thread that commits asks for all of its object before it does. A signal for any other address
//! goes to the handler that was there before.
//!
//! Invariants
//!   BUS-1  The handler calls nothing but system calls, takes no lock, allocates nothing, and
//!          touches static memory only.
//!   BUS-2  A page is noted before it is replaced: a thread that has read its zeros finds it noted.
//!   BUS-3  No byte of a replaced page reaches the medium: stores there stay in this process,
//!          `file` neither logs nor checkpoints them, and the next barrier of the thread that
//!          flushed them is an error.
//!
//! Threads: any. A program that sets a handler of its own for SIGBUS afterwards must call the one
//! that it finds. Design: docs/design/memory-errors.md.

use crate::bytes::mapping::{LARGE, Mapping};
use crate::media::Media;
use crate::pages::page_watch::pass_on;
use crate::{BackendKind, Error, Result, seeded};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};

const PAGE: u64 = 4096;
/// Pages that are noted one by one. Beyond that all of the mapping counts as unreadable.
const PAGES: usize = 64;
/// `BUS_ADRERR`, `BUS_MCEERR_AR` and `BUS_MCEERR_AO`: no such bytes, and a memory error that this
/// thread or the kernel has met.
const CODES: [c_int; 3] = [2, 4, 5];

/// Unreadable pages that were noted in this process, whatever their mapping: while it is 0 there is
/// nothing to ask for.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The action for SIGBUS before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Mappings of this process; further blocks are allocated outside of the handler, and never freed.
static FIRST: Block = Block::new();

thread_local! {
    /// The first flush of an unreadable page that this thread has not been told of: mapping and
    /// offset.
    static LOST: Cell<Option<(usize, u64)>> = const { Cell::new(None) };
}

struct Block {
    slots: [Slot; 32],
    next: AtomicPtr<Block>,
}

/// One mapping.
pub(crate) struct Slot {
    /// Its first address; [`FREE`], or [`TAKEN`] while the rest is filled in.
    start: AtomicUsize,
    end: AtomicUsize,
    process: AtomicU32,
    /// Pages noted; more than [`PAGES`]: all of them.
    count: AtomicUsize,
    /// Their offsets, plus 1; 0: about to be stored.
    pages: [AtomicU64; PAGES],
}

const FREE: usize = 0;
const TAKEN: usize = usize::MAX;

impl Block {
    const fn new() -> Block {
        Block { slots: [const { Slot::new() }; 32], next: AtomicPtr::new(null_mut()) }
    }

    fn next(&self) -> Option<&'static Block> {
        // SAFETY: null, or a block that was leaked before it was linked, and is never freed.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
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
            // Not given to another mapping in between.
            && self.start.load(Ordering::Acquire) == start
    }

    /// Notes the page of offset `at`.
    fn note(&self, at: u64) {
        let (page, known) = (at & !(PAGE - 1), self.count.load(Ordering::Acquire).min(PAGES));
        if self.pages[..known].iter().any(|noted| noted.load(Ordering::Acquire) == page + 1) {
            return; // two threads have touched it at once
        }
        let place = self.count.fetch_add(1, Ordering::AcqRel);
        if let Some(free) = self.pages.get(place) {
            free.store(page + 1, Ordering::Release);
        }
        COUNT.fetch_add(1, Ordering::SeqCst);
    }

    /// The pages noted; `None`: more than are noted one by one.
    fn noted(&self) -> Option<impl Iterator<Item = u64>> {
        let count = self.count.load(Ordering::Acquire);
        let noted =
            self.pages[..count.min(PAGES)].iter().filter_map(|page| page.load(Ordering::Acquire).checked_sub(1));
        (count <= PAGES).then_some(noted)
    }

    /// The first byte of a range that cannot be read.
    fn find(&self, range: &Range<u64>) -> Option<u64> {
        match self.noted() {
            None => Some(range.start),
            Some(noted) => noted
                .filter(|page| *page < range.end && range.start < page + PAGE)
                .min()
                .map(|page| page.max(range.start)),
        }
    }
}

/// A mapping is watched until this is dropped.
pub(crate) struct Watched(&'static Slot);

impl Watched {
    pub(crate) fn new(addresses: Range<usize>) -> Watched {
        install();
        let mut block: &'static Block = &FIRST;
        loop {
            for slot in &block.slots {
                if slot.start.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                slot.pages.iter().for_each(|page| page.store(0, Ordering::Relaxed));
                slot.count.store(0, Ordering::Relaxed);
                slot.process.store(std::process::id(), Ordering::Relaxed);
                slot.end.store(addresses.end, Ordering::Release);
                slot.start.store(addresses.start, Ordering::Release);
                return Watched(slot);
            }
            block = block.next().unwrap_or_else(|| {
                let new: &'static mut Block = Box::leak(Box::new(Block::new()));
                let _ = block.next.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
                // one that lost the race stays unused
                block.next().expect("linked by this thread or another")
            });
        }
    }

    /// The first byte of `at..at+len` that cannot be read, of what this process has touched so far.
    pub(crate) fn find(&self, at: u64, len: u64) -> Option<u64> {
        if seeded("media-zeros-answered") { None } else { self.0.find(&(at..at.saturating_add(len.max(1)))) }
    }

    /// Notes a flush of `at..at+len` if it carries bytes that stay in this process (BUS-3).
    fn loses(&self, at: u64, len: u64) -> bool {
        let lost = self.find(at, len);
        if let Some(at) = lost {
            LOST.set(LOST.get().or(Some((std::ptr::from_ref(self.0).addr(), at))));
        }
        lost.is_some()
    }

    /// What this thread has flushed in vain since it was last told.
    fn take_lost(&self) -> Option<u64> {
        let (slot, at) = LOST.get()?;
        (slot == std::ptr::from_ref(self.0).addr() && !seeded("media-lost-flush-acknowledged")).then(|| {
            LOST.set(None);
            at
        })
    }

    /// Pages that are known to be unreadable, in order; those that have been touched.
    fn pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> =
            self.0.pages.iter().filter_map(|page| page.load(Ordering::Acquire).checked_sub(1)).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.start.store(FREE, Ordering::Release);
    }
}

/// Takes SIGBUS, once in the life of a process.
fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: zeros are a valid sigaction: no flags, nothing blocked, the default action.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        let mut before = ours;
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both point to values that live through the call; `handle` is a handler of this
        // form.
        let refused = unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before) };
        assert_eq!(refused, 0, "the arguments are what the system asks for");
        before
    });
}

/// The handler of SIGBUS (BUS-1).
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: a function without conditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own errno, which no other thread touches, and which outlives the call.
    let errno = unsafe { &mut *errno };
    // SAFETY: the kernel hands a handler with SA_SIGINFO what happened.
    let what = unsafe { &*info };
    // SAFETY: SIGBUS fills this field; for a signal that a process has sent it is some number, and
    // its code none of ours.
    let (code, address) = (what.si_code, unsafe { what.si_addr() }.addr());
    let kept = *errno;
    let again = CODES.contains(&code) && replace(address);
    *errno = kept;
    if !again && let Some(before) = BEFORE.get() {
        // SAFETY: with what the kernel has handed to us.
        unsafe { pass_on(before, signal, info, context) };
    }
}

/// Steps 1 and 2. `false`: the address is in no mapping of this process, or the system refuses.
fn replace(address: usize) -> bool {
    let mut block = Some(&FIRST);
    while let Some(slots) = block {
        if let Some(slot) = slots.slots.iter().find(|slot| slot.holds(address)) {
            // SAFETY: a system call without arguments.
            let mine = slot.process.load(Ordering::Relaxed) == unsafe { libc::getpid() } as u32;
            return mine && slot.replace(address);
        }
        block = slots.next();
    }
    false
}

impl Slot {
    fn replace(&self, address: usize) -> bool {
        let (start, end) = (self.start.load(Ordering::Acquire), self.end.load(Ordering::Acquire));
        self.note((address - start) as u64); // BUS-2
        let page = address & !(PAGE as usize - 1);
        // Pages that nothing is answered from any more are replaced many at a time: the system
        // counts mappings.
        let many = self.count.load(Ordering::Acquire) > PAGES;
        let large = (address & !(LARGE as usize - 1)).max(start)..((address | (LARGE as usize - 1)) + 1).min(end);
        (!many && lay_zeros(page, PAGE as usize)) || lay_zeros(large.start, large.end - large.start)
    }
}

fn lay_zeros(address: usize, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let place = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: whole pages of a mapping of this process, which the thread that runs this touches, so
    // it is not being unmapped; their bytes are gone, and all access of the rooms above is atomic
    // (MAP-3). References that typed pools lend out find zeros there, which need be no value of
    // their type: no such transaction commits or answers (docs/design/memory-errors.md).
    let placed = unsafe { libc::mmap(place, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    placed != libc::MAP_FAILED
}

/// Names of ranges, for errors; see [`Media::name_range`].
#[derive(Default)]
pub(crate) struct Names(Mutex<BTreeMap<u64, Name>>);

/// The end of a range, its name, and how many users it has.
type Name = (u64, Arc<str>, usize);

impl Names {
    fn of(&self, at: u64) -> Option<String> {
        let names = self.0.lock();
        let (_, (end, name, _)) = names.range(..=at).next_back()?;
        (at < *end).then(|| name.to_string())
    }
}

/// A range has a name until this is dropped.
pub struct NamedRange {
    names: Arc<Names>,
    start: u64,
}

impl Drop for NamedRange {
    fn drop(&mut self) {
        let mut names = self.names.0.lock();
        if let Some((.., users)) = names.get_mut(&self.start) {
            *users -= 1;
            if *users == 0 {
                names.remove(&self.start);
            }
        }
    }
}

impl Mapping {
    /// The first byte of `at..at+len` that cannot be read, of what this process has touched so far.
    #[inline(always)]
    pub(crate) fn unreadable(&self, at: u64, len: u64) -> Option<u64> {
        if count() == 0 { None } else { self.watched().find(at, len) }
    }
}

/// How many unreadable pages this process has met.
#[inline(always)]
fn count() -> u64 {
    // Pairs with the count of a thread that has replaced a page: zeros that were read before this
    // line are known of (BUS-2).
    fence(Ordering::Acquire);
    COUNT.load(Ordering::Relaxed)
}

impl Media {
    /// Refuses a range with a page whose bytes the system could not give when it was touched: to be
    /// asked after reading, before anything is answered. A load and a comparison while there is no
    /// such page in the process.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    #[inline(always)]
    pub fn require_readable(&self, at: u64, len: u64) -> Result<()> {
        if count() == 0 { Ok(()) } else { self.search(at, len) }
    }

    #[cold]
    #[inline(never)]
    fn search(&self, at: u64, len: u64) -> Result<()> {
        self.inner.mapping.watched().find(at, len).map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// Whether a flush of `at..at+len` carries bytes that must not reach the log of backend `file`;
    /// the thread's next barrier is an error (BUS-3).
    #[inline(always)]
    pub(crate) fn loses(&self, at: u64, len: u64) -> bool {
        count() != 0 && self.inner.mapping.watched().loses(at, len) && self.kind() == BackendKind::File
    }

    /// Refuses a barrier of a thread that has flushed an unreadable page.
    #[inline(always)]
    pub(crate) fn require_nothing_lost(&self) -> Result<()> {
        if count() == 0 { Ok(()) } else { self.tell_lost() }
    }

    #[cold]
    #[inline(never)]
    fn tell_lost(&self) -> Result<()> {
        self.inner.mapping.watched().take_lost().map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// How many unreadable pages this process has met on any media: a number that has changed says
    /// that something read meanwhile may be zeros.
    #[inline(always)]
    pub fn unreadable_count() -> u64 {
        count()
    }

    /// For engines that have refused a change because of an unreadable page, and have told their
    /// caller: the flushes of what they took back there do not fail the thread's next barrier.
    #[inline]
    pub fn forget_lost(&self) {
        if count() != 0 {
            let _ = self.inner.mapping.watched().take_lost();
        }
    }

    /// The pages of this media that could not be read, with the name of the range each lies in;
    /// those that were touched.
    pub fn unreadable_pages(&self) -> Vec<(u64, Option<String>)> {
        let mut pages = self.inner.mapping.watched().pages();
        if let Some(beneath) = self.inner.beneath.get() {
            pages.extend(beneath.watched().pages());
            pages.sort_unstable();
            pages.dedup();
        }
        pages.into_iter().map(|at| (at, self.inner.names.of(at))).collect()
    }

    /// Names a range in errors about unreadable pages. Ranges do not overlap, unless they are the
    /// same.
    pub fn name_range(&self, range: Range<u64>, name: &str) -> NamedRange {
        let start = range.start;
        let mut names = self.inner.names.0.lock();
        names.entry(start).or_insert_with(|| (range.end, name.into(), 0)).2 += 1;
        NamedRange { names: Arc::clone(&self.inner.names), start }
    }

    /// For tests: sends this thread the signal of an uncorrectable memory error at `at`. What the
    /// page held is gone for this media, as with a real error; the file keeps it.
    ///
    /// # Panics
    /// If the offset is not backed.
    #[doc(hidden)]
    pub fn raise_memory_error(&self, at: u64) {
        /// What the kernel fills of `siginfo_t` for SIGBUS.
        #[repr(C, align(8))]
        struct Info {
            signal: c_int,
            errno: c_int,
            code: c_int,
            pad: c_int,
            address: usize,
            lsb: u64,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<Info>() == size_of::<libc::siginfo_t>());
        self.inner.mapping.check_len(at, 1);
        let address = self.address().addr().get() + at as usize;
        let info = Info { signal: libc::SIGBUS, errno: 0, code: CODES[1], pad: 0, address, lsb: 12, rest: [0; 12] };
        // SAFETY: a system call without arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        let (call, process) = (libc::SYS_rt_tgsigqueueinfo, std::process::id());
        // SAFETY: a signal to the calling thread, with a record that lives through the call; the
        // handler takes it before the call returns.
        let refused = unsafe { libc::syscall(call, process, thread, libc::SIGBUS, &raw const info) };
        assert_eq!(refused, 0, "a process may send itself any signal");
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn unreadable_at(&self, at: u64) -> Error {
        Error::Unreadable { path: self.inner.path.clone(), object: self.inner.names.of(at), at }
    }
}
