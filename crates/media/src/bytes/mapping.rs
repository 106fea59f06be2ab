//! One mapped range of bytes: the address arithmetic and every load and store of mapped memory.
//!
//! Invariants
//!   MAP-1  `base..base+reserve` is mapped until drop: readable and writable, except where
//!          `Media::protect` has set other rights, and outside of write windows.
//!   MAP-2  Only `0..limit` is backed by the file, and no byte beyond it is ever touched. `limit`
//!          only grows, but of recorded media between two images.
//!   MAP-3  Memory is touched through atomics of 8 bytes (and 1 byte at ragged ends), or by
//!          instructions that take and put each word whole, so concurrent access by threads and
//!          processes is a race of words, never undefined, and no word is ever torn.
//!   MAP-4  Addresses are unmapped only while they are known to be ours. A file system may refuse a
//!          mapping after the kernel has freed the addresses that it was to replace, and another
//!          thread's mapping may have taken them: so the file system is asked first.
//!
//! Threads: any. Crates above validate the bytes of a racing read (sequence words, checksums).

use crate::bytes::extent::Extent;
use crate::bytes::isa::{self, FlushKind};
use crate::bytes::sizes::{LARGE, WORD};
use crate::open::chunks::slot::{SEGMENTS, SLOTS};
use crate::pages::unreadable::{self, Watched};
use crate::pages::write_windows::Windows;
use parking_lot::Mutex;
use std::cmp::Ordering as Cmp;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The mapped chunks of a file whose offsets differ from the store's.
struct Pieces {
    mode: Mode,
    /// The state of each chunk, by the number of its slot.
    shown: Box<[AtomicU8]>,
    /// Rights of pages that had no chunk when the rights were set.
    protected: Mutex<Vec<(Range<u64>, rustix::mm::MprotectFlags)>>,
}

/// Bytes by which a long read prefetches ahead, and that it prefetches at its start: more lines
/// than the loop has in flight by itself. Fewer make reads at random slower, more those in order.
const AHEAD: u64 = 24 * isa::LINE;

/// States of a piece.
const ABSENT: u8 = 0;
const MAPPING: u8 = 1;
const SHOWN: u8 = 2;

impl Pieces {
    fn new(mode: Mode) -> Pieces {
        let shown = (0..=SEGMENTS * SLOTS).map(|_| AtomicU8::new(ABSENT)).collect();
        Pieces { mode, shown, protected: Mutex::default() }
    }

    /// Claims a piece in order to map it. `false`: the piece is mapped on return, possibly by
    /// another thread.
    fn claim(&self, slot: usize) -> bool {
        loop {
            match self.shown[slot].compare_exchange(ABSENT, MAPPING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(SHOWN) => return false,
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

/// `MADV_COLLAPSE` (Linux 6.1), which libc does not name yet.
const COLLAPSE: i32 = 25;

/// The kind of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Stores reach the file: tmpfs, memfd.
    Shared,
    /// Stores reach persistent memory without the page cache; mapping fails on any other file.
    SharedSync,
    /// Stores stay in the process; the `file` backend writes them to the disk.
    Private,
}

impl Mode {
    fn flags(self) -> rustix::mm::MapFlags {
        use rustix::mm::MapFlags;
        match self {
            Mode::Shared => MapFlags::SHARED,
            Mode::SharedSync => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Mode::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
        }
    }
}

pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserve: u64,
    limit: AtomicU64,
    /// Set if the file is mapped in pieces.
    pieces: Option<Pieces>,
    /// Set if forked children do not inherit the mapping: the process that has it. In a child the
    /// addresses are free, or belong to another mapping.
    owner: OnceLock<u32>,
    /// `None` only during drop.
    watched: Option<Watched>,
    windows: Windows,
}

// SAFETY: the mapping is plain memory that lives until drop, and all access to it is atomic
// (MAP-3).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// An error if a mapping of `file` cannot be [`Mode::SharedSync`] (MAP-4): the kernel refuses
    /// the flag on all files but those on DAX, whatever the access. So this asks for reading, which
    /// a file that is open for reading alone allows, too.
    pub(crate) fn try_sync(file: BorrowedFd<'_>) -> io::Result<()> {
        use rustix::mm::{ProtFlags, mmap, munmap};
        let (anywhere, len) = (std::ptr::null_mut(), 4096);
        // SAFETY: the kernel chooses a free range, whose bytes are never touched.
        let page = unsafe { mmap(anywhere, len, ProtFlags::READ, Mode::SharedSync.flags(), file, 0) }?;
        // SAFETY: the range was mapped above, and no reference to it exists.
        Ok(unsafe { munmap(page, len) }?)
    }

    /// Maps `reserve` bytes of `file`, of which `limit` are backed, at an address of the kernel's
    /// choice.
    pub(crate) fn of_file(file: BorrowedFd<'_>, mode: Mode, reserve: u64, limit: u64) -> io::Result<Mapping> {
        Mapping::over(Self::reserve_aligned(reserve)?, file, mode, reserve, limit)
    }

    /// Maps `reserve` bytes of `file`, of which `limit` are backed, at `place`, where as many are
    /// reserved for it.
    pub(crate) fn over(
        place: NonNull<u8>,
        file: BorrowedFd<'_>,
        mode: Mode,
        reserve: u64,
        limit: u64,
    ) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags};
        let flags = mode.flags();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let place = place.as_ptr().cast();
        // SAFETY: the call replaces exactly the range just reserved, which no other code uses.
        // After a failure the range may be another thread's (MAP-4): it is left as it is.
        let base = unsafe { rustix::mm::mmap(place, reserve as usize, access, flags | MapFlags::FIXED, file, 0) }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap returned null");
        let mapping = Mapping::in_one_piece(base, reserve, limit);
        if mode == Mode::Private {
            mapping.keep_from_children()?; // a child's copy could diverge
        }
        Ok(mapping)
    }

    /// The value for addresses that are mapped.
    fn in_one_piece(base: NonNull<u8>, reserve: u64, limit: u64) -> Mapping {
        let (limit, owner, watched) = (AtomicU64::new(limit), OnceLock::new(), Some(watch(base, reserve)));
        Mapping { base, reserve, limit, pieces: None, owner, watched, windows: Windows::whole() }
    }

    /// Reserves `reserve` bytes of addresses, at `place` or anywhere, and maps `extents` of `file`
    /// there. Pages without a chunk read as zeros. With `guarded`, a load of such a page at or
    /// above that offset is a fault, since another process may have made its chunk.
    pub(crate) fn of_pieces(
        place: Option<NonNull<u8>>,
        file: BorrowedFd<'_>,
        mode: Mode,
        (reserve, limit): (u64, u64),
        extents: &[Extent],
        guarded: Option<u64>,
    ) -> io::Result<Mapping> {
        let base = place.map_or_else(|| Self::reserve_aligned(reserve), Ok)?;
        let (limit, pieces) = (AtomicU64::new(limit), Some(Pieces::new(mode)));
        let watched = watch(base, reserve);
        let (owner, windows) = (OnceLock::new(), Windows::in_pieces());
        let mapping = Mapping { base, reserve, limit, pieces, owner, watched: Some(watched), windows };
        mapping.lay_zeros(0, guarded.unwrap_or(reserve).min(reserve), rustix::mm::ProtFlags::READ)?;
        mapping.show(file, extents)?;
        if mode == Mode::Private {
            mapping.keep_from_children()?; // a child's copy could diverge
        }
        Ok(mapping)
    }

    /// Maps `extents` of `file` privately over private zeros of `reserve` bytes: stores stay in
    /// this process, and every byte may be touched. At `place`, if given, where as many bytes are
    /// reserved.
    pub(crate) fn copy_of_file(
        file: BorrowedFd<'_>,
        place: Option<NonNull<u8>>,
        (reserve, limit): (u64, u64),
        extents: &[Extent],
    ) -> io::Result<Mapping> {
        let mut mapping = Mapping::private_zeros(place, reserve, limit)?;
        mapping.pieces = Some(Pieces::new(Mode::Private));
        mapping.show(file, extents)?;
        mapping.pieces = None;
        Ok(mapping)
    }

    /// Maps pieces of `file`, each an offset in it and a length, side by side behind `lead` bytes
    /// without rights, at a multiple of [`LARGE`]. A piece without an offset is zeros.
    pub(crate) fn side_by_side(
        file: BorrowedFd<'_>,
        mode: Mode,
        lead: u64,
        pieces: &[(Option<u64>, u64)],
    ) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags};
        let reserve = lead + pieces.iter().map(|(_, len)| len).sum::<u64>();
        let base = Self::reserve_aligned(reserve)?;
        // Unmapped when it is dropped, after a failure too.
        let mapping = Mapping::in_one_piece(base, reserve, reserve);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, mode.flags() | MapFlags::FIXED);
        let mut at = lead;
        for &(file_at, len) in pieces {
            let Some(file_at) = file_at else {
                mapping.lay_zeros(at, len, access)?;
                at += len;
                continue;
            };
            // SAFETY:
            // - in bounds: pages of the range just reserved, whose length is that of all pieces;
            // - alive: the reservation lives until drop;
            // - no writer: no other code uses the range;
            // - valid: any bytes are words.
            unsafe { rustix::mm::mmap(mapping.pointer(at).cast(), len as usize, access, flags, file, file_at) }?;
            at += len;
        }
        Ok(mapping)
    }

    /// Asks the system to map small pages alone. A hint.
    pub(crate) fn keep_small(&self) {
        let (base, advice) = (self.base.as_ptr().cast(), rustix::mm::Advice::LinuxNoHugepage);
        // SAFETY: advice on our own mapping changes no content.
        let _ = unsafe { rustix::mm::madvise(base, self.reserve as usize, advice) };
    }

    /// [`Mapping::gather`] of every large page that lies in the mapping.
    pub(crate) fn gather_all(&self) {
        (0..self.reserve / LARGE).for_each(|index| self.gather(index * LARGE));
    }

    /// Replaces pages by zeros, to which no byte is stored.
    fn lay_zeros(&self, at: u64, len: u64, access: rustix::mm::ProtFlags) -> io::Result<()> {
        use rustix::mm::MapFlags;
        if len == 0 {
            return Ok(());
        }
        assert!(at + len <= self.reserve, "pages of the mapping");
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY:
        // - in bounds: pages of our own reservation, as asserted;
        // - alive: the reservation lives until drop;
        // - no writer: no byte of these pages is in use, and all access is atomic (MAP-3);
        // - valid: zeros are words.
        unsafe { rustix::mm::mmap_anonymous(self.pointer(at).cast(), len as usize, access, flags) }?;
        if self.owner.get().is_some() {
            // SAFETY: advice on the pages just mapped; it affects forked children only.
            unsafe { rustix::mm::madvise(self.pointer(at).cast(), len as usize, rustix::mm::Advice::LinuxDontFork) }?;
        }
        Ok(())
    }

    /// Unmaps an extent: it reads as zeros, to which no byte is stored, until another extent takes
    /// its offsets.
    pub(crate) fn hide(&self, extent: &Extent) -> io::Result<()> {
        let Some(pieces) = &self.pieces else { return Ok(()) };
        let end = extent.end().min(self.reserve);
        if extent.at < end {
            self.windows.unmapped(extent.at..end);
            self.lay_zeros(extent.at, end - extent.at, rustix::mm::ProtFlags::READ)?;
        }
        pieces.shown[extent.slot].store(ABSENT, Ordering::Release);
        Ok(())
    }

    /// Maps zeros over a page that has no chunk.
    pub(crate) fn show_zeros(&self, at: u64) -> io::Result<()> {
        self.lay_zeros(at & !4095, 4096, rustix::mm::ProtFlags::READ)
    }

    /// Maps those of `extents` that are not mapped yet; whether there was one. All threads that ask
    /// for one extent find it mapped on return.
    pub(crate) fn show(&self, file: BorrowedFd<'_>, extents: &[Extent]) -> io::Result<bool> {
        let Some(pieces) = &self.pieces else { return Ok(false) };
        let mut shown = false;
        let mut rest = extents.iter().filter(|extent| extent.at < self.reserve).peekable();
        while let Some(first) = rest.next() {
            if !pieces.claim(first.slot) {
                continue;
            }
            let (mut slots, mut end) = (vec![first.slot], first.end());
            let follows = |next: &Extent, end: u64| next.at == end && next.file == first.file + (end - first.at);
            while let Some(next) = rest.next_if(|next| follows(next, end) && pieces.claim(next.slot)) {
                slots.push(next.slot);
                end = next.end();
            }
            let mapped = self.map_piece(file, pieces, first.at..end.min(self.reserve), first.file);
            let state = if mapped.is_ok() { SHOWN } else { ABSENT };
            slots.iter().for_each(|&slot| pieces.shown[slot].store(state, Ordering::Release));
            mapped?;
            shown = true;
        }
        Ok(shown)
    }

    fn map_piece(&self, file: BorrowedFd<'_>, pieces: &Pieces, range: Range<u64>, file_at: u64) -> io::Result<()> {
        use rustix::mm::{Advice, MapFlags, ProtFlags};
        let (place, len) = (self.pointer(range.start), (range.end - range.start) as usize);
        let (flags, access) = (pieces.mode.flags() | MapFlags::FIXED, ProtFlags::READ | ProtFlags::WRITE);
        // Without rights until the pages are kept from children: a child forked in between cannot
        // touch them.
        let first = if self.owner.get().is_some() { ProtFlags::empty() } else { access };
        // SAFETY:
        // - in bounds: pages of our own reservation, as the caller has checked;
        // - alive: the reservation lives until drop;
        // - no writer: until now they held zeros to which no byte was stored, and all access is
        //   atomic (MAP-3);
        // - valid: any bytes are words.
        unsafe { rustix::mm::mmap(place.cast(), len, first, flags, file, file_at) }?;
        if self.owner.get().is_some() {
            // SAFETY: advice on the pages just mapped; it affects forked children only.
            unsafe { rustix::mm::madvise(place.cast(), len, Advice::LinuxDontFork) }?;
            self.protect(range.start, len as u64, rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE)?;
        }
        for (protected, access) in pieces.protected.lock().iter() {
            let part = range.start.max(protected.start)..range.end.min(protected.end);
            if part.start < part.end {
                self.protect(part.start, part.end - part.start, *access)?;
            }
        }
        self.windows.mapped(self, range)
    }

    /// Sets the rights of pages; [`Mapping::remember`] is for pages without a chunk.
    pub(crate) fn protect(&self, at: u64, len: u64, access: rustix::mm::MprotectFlags) -> io::Result<()> {
        // SAFETY: pages of our own mapping (MAP-1), into which no reference exists.
        Ok(unsafe { rustix::mm::mprotect(self.pointer(at).cast(), len as usize, access) }?)
    }

    /// Remembers the rights of pages that have no chunk yet, for the time when they have one.
    pub(crate) fn remember(&self, range: Range<u64>, access: rustix::mm::MprotectFlags) {
        let Some(pieces) = &self.pieces else { return };
        let mut protected = pieces.protected.lock();
        protected.retain(|(old, _)| !(range.start <= old.start && old.end <= range.end));
        protected.push((range, access));
    }

    /// Reserves addresses for `reserve` bytes at a multiple of [`LARGE`]: more are reserved, and
    /// the ends are unmapped.
    fn reserve_aligned(reserve: u64) -> io::Result<NonNull<u8>> {
        use rustix::mm::{MapFlags, ProtFlags};
        let (len, flags) = ((reserve + LARGE) as usize, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags) }?;
        let start = start.cast::<u8>();
        let head = start.align_offset(LARGE as usize);
        let end = (head + reserve as usize).next_multiple_of(4096);
        for (from, len) in [(0, head), (end, len.next_multiple_of(4096) - end)] {
            if len > 0 {
                // SAFETY: whole pages of the mapping just made, outside of the range returned.
                unsafe { rustix::mm::munmap(start.wrapping_add(from).cast(), len) }?;
            }
        }
        Ok(NonNull::new(start.wrapping_add(head)).expect("mmap returned null"))
    }

    /// Collapses the small pages of each large page that ends in `at..=at+len`: a walk from the
    /// root of a tree to a record then misses the TLB once instead of three times. A hint; if the
    /// kernel refuses, pages stay small.
    ///
    /// Only large pages that growth has filled: a small store takes no more memory than it needs.
    pub(crate) fn collapse(&self, at: u64, len: u64) {
        self.check(at, len);
        for end in ((at + 1).next_multiple_of(LARGE)..=at + len).step_by(LARGE as usize) {
            self.gather(end - LARGE);
        }
    }

    /// Makes one large page at `at` of its small pages and of its holes.
    pub(crate) fn gather(&self, at: u64) {
        assert!(at.is_multiple_of(LARGE) && at + LARGE <= self.reserve, "a large page of the mapping: {at:#x}");
        // SAFETY: advice on our own mapping, in bounds as asserted; it moves bytes and changes
        // none.
        unsafe { libc::madvise(self.pointer(at).cast(), LARGE as usize, COLLAPSE) };
    }

    /// Keeps forked children from inheriting this mapping.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        let (base, advice) = (self.base.as_ptr().cast(), rustix::mm::Advice::LinuxDontFork);
        // SAFETY: advice on our own mapping; it affects forked children only.
        unsafe { rustix::mm::madvise(base, self.reserve as usize, advice) }?;
        self.owner.get_or_init(std::process::id);
        Ok(())
    }

    /// Zeroed private memory of `reserve` bytes.
    pub(crate) fn anonymous(reserve: u64, limit: u64) -> io::Result<Mapping> {
        Mapping::private_zeros(None, reserve, limit)
    }

    fn private_zeros(place: Option<NonNull<u8>>, reserve: u64, limit: u64) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let fixed = if place.is_some() { MapFlags::FIXED } else { MapFlags::empty() };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | fixed;
        let place = place.map_or(std::ptr::null_mut(), NonNull::as_ptr).cast();
        // SAFETY: a fresh mapping at an address of the kernel's choice, or over a range reserved
        // for it.
        let base = unsafe { rustix::mm::mmap_anonymous(place, reserve as usize, access, flags) }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap returned null");
        // A hint: if the system refuses it, pages are small.
        // SAFETY: advice on our own fresh mapping changes no content.
        let _ =
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), reserve as usize, rustix::mm::Advice::LinuxHugepage) };
        Ok(Mapping::in_one_piece(base, reserve, limit))
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Whether a forked child has all of it at the same addresses.
    pub(crate) fn is_inherited(&self) -> bool {
        self.pieces.is_none() && self.owner.get().is_none()
    }

    /// Its guarded pages.
    #[inline(always)]
    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Its unreadable pages.
    #[inline(always)]
    pub(crate) fn watched(&self) -> &Watched {
        self.watched.as_ref().expect("there until it is dropped")
    }

    /// The first byte of `at..at+len` that cannot be read, of the pages that this process has
    /// touched.
    #[inline(always)]
    pub(crate) fn unreadable(&self, at: u64, len: u64) -> Option<u64> {
        if unreadable::count() == 0 { None } else { self.watched().find(at, len) }
    }

    #[inline(always)]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Raises the backed length to `limit` bytes; a smaller value changes nothing (MAP-2).
    pub(crate) fn raise_limit(&self, limit: u64) {
        assert!(limit <= self.reserve, "MAP-2: backing beyond the reserved range");
        self.limit.fetch_max(limit, Ordering::Release);
    }

    /// Lowers the backed length: no thread uses what lies above, which is zeros.
    pub(crate) fn lower_limit(&self, limit: u64) {
        self.limit.fetch_min(limit, Ordering::Release);
    }

    /// Whether `at..at+len` is backed.
    #[inline(always)]
    pub(crate) fn holds(&self, at: u64, len: u64) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.limit())
    }

    /// Panics unless the range is backed: for callers that allocate before they read.
    #[inline(always)]
    pub(crate) fn check_len(&self, at: u64, len: u64) {
        self.check(at, len);
    }

    #[inline(always)]
    pub(super) fn check(&self, at: u64, len: u64) {
        if !self.holds(at, len) {
            out_of_range(at, len, self.limit());
        }
    }

    /// The address of `at..at+len` if it is backed.
    #[inline(always)]
    pub(crate) fn range_start(&self, at: u64, len: u64) -> Option<NonNull<u8>> {
        if self.holds(at, len) { NonNull::new(self.pointer(at)) } else { None }
    }

    /// The address of offset 0.
    #[inline(always)]
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub(super) fn pointer(&self, at: u64) -> *mut u8 {
        // In bounds for every caller: each has checked `at` against `limit`, and `limit <= reserve`
        // (MAP-1).
        self.base.as_ptr().wrapping_add(at as usize)
    }

    #[inline(always)]
    fn word(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(WORD) && self.holds(at, WORD));
        // SAFETY:
        // - in bounds and aligned: callers checked `at..at+8` and `at % 8 == 0`, and the base is
        //   page-aligned;
        // - alive: the reference cannot outlive `self`, which owns the mapping (MAP-1);
        // - other writers: threads and processes, all through atomics (MAP-3);
        // - valid: any 8 bytes are a u64.
        unsafe { AtomicU64::from_ptr(self.pointer(at).cast()) }
    }

    #[inline(always)]
    fn byte(&self, at: u64) -> &AtomicU8 {
        debug_assert!(self.holds(at, 1));
        // SAFETY: as in `word`, for one byte.
        unsafe { AtomicU8::from_ptr(self.pointer(at)) }
    }

    #[inline(always)]
    pub(crate) fn get_word(&self, at: u64) -> Option<u64> {
        (at.is_multiple_of(WORD) && self.holds(at, WORD)).then(|| self.word(at).load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(crate) fn load(&self, at: u64) -> u64 {
        self.check(at, WORD);
        assert!(at.is_multiple_of(WORD), "a word load must be aligned: {at:#x}");
        self.word(at).load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn store(&self, at: u64, value: u64) {
        self.check(at, WORD);
        assert!(at.is_multiple_of(WORD), "a word store must be aligned: {at:#x}");
        self.word(at).store(value, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.check(at, WORD);
        assert!(at.is_multiple_of(WORD), "a word exchange must be aligned: {at:#x}");
        self.word(at).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Copies out of the mapping, whole words wherever the range covers them.
    #[inline]
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) {
        self.check(at, into.len() as u64);
        let (mut at, mut rest) = (at, into);
        while at % WORD != 0 && !rest.is_empty() {
            rest[0] = self.byte(at).load(Ordering::Relaxed);
            (at, rest) = (at + 1, &mut rest[1..]);
        }
        let (lines, rest) = rest.as_chunks_mut::<64>();
        let (wide, end) = (at.is_multiple_of(16), at + lines.len() as u64 * isa::LINE);
        if wide && lines.len() >= 8 {
            (at..end.min(at + AHEAD)).step_by(isa::LINE as usize).for_each(|line| self.prefetch(line));
        }
        for line in lines {
            if wide {
                if at + AHEAD < end {
                    self.prefetch(at + AHEAD); // a line behind the range would be loaded for nothing
                }
                // SAFETY: 64 bytes of the range checked above; aligned, since the base is
                // page-aligned. No word is torn (MAP-3).
                unsafe { isa::load_line(self.pointer(at), line) };
            } else {
                for (index, chunk) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    *chunk = self.word(at + index as u64 * WORD).load(Ordering::Relaxed).to_le_bytes();
                }
            }
            at += isa::LINE;
        }
        let mut words = rest.chunks_exact_mut(8);
        for chunk in &mut words {
            chunk.copy_from_slice(&self.word(at).load(Ordering::Relaxed).to_le_bytes());
            at += WORD;
        }
        for byte in words.into_remainder() {
            *byte = self.byte(at).load(Ordering::Relaxed);
            at += 1;
        }
    }

    /// Copies one line out of the mapping by eight loads; `at` is line-aligned and checked by the
    /// caller.
    #[inline(always)]
    pub(crate) fn load_line(&self, at: u64, into: &mut [u64; 8]) {
        debug_assert!(at.is_multiple_of(isa::LINE));
        for (index, word) in into.iter_mut().enumerate() {
            *word = self.word(at + index as u64 * WORD).load(Ordering::Relaxed);
        }
    }

    /// Copies into the mapping, whole words wherever the range covers them.
    #[inline]
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.check(at, bytes.len() as u64);
        let (mut at, mut rest) = (at, bytes);
        while at % WORD != 0 && !rest.is_empty() {
            self.byte(at).store(rest[0], Ordering::Relaxed);
            (at, rest) = (at + 1, &rest[1..]);
        }
        let words = rest.chunks_exact(8);
        let tail = words.remainder();
        for chunk in words {
            self.word(at).store(u64::from_le_bytes(chunk.try_into().expect("eight bytes")), Ordering::Relaxed);
            at += WORD;
        }
        for &byte in tail {
            self.byte(at).store(byte, Ordering::Relaxed);
            at += 1;
        }
    }

    /// Copies into the mapping past the cache; ragged ends go through the cache and are flushed.
    pub(crate) fn copy_nt(&self, kind: FlushKind, at: u64, bytes: &[u8]) {
        self.check(at, bytes.len() as u64);
        let head = (at.next_multiple_of(WORD) - at).min(bytes.len() as u64) as usize;
        let (head, rest) = bytes.split_at(head);
        if !head.is_empty() {
            self.write(at, head);
            self.flush(kind, at, 1);
        }
        let mut at = at + head.len() as u64;
        let words_at = at;
        let lines = if at.is_multiple_of(isa::LINE) { rest.len() & !(isa::LINE as usize - 1) } else { 0 };
        let (lines, rest) = rest.split_at(lines);
        for line in lines.as_chunks().0 {
            // SAFETY: in bounds, aligned, and stored word by word (MAP-3).
            unsafe { isa::store_line_nt(self.pointer(at), line) };
            at += isa::LINE;
        }
        let words = rest.chunks_exact(8);
        let tail = words.remainder();
        for chunk in words {
            let value = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
            // SAFETY: in bounds and aligned as in `word`; a movnti is one 8-byte store (MAP-3).
            unsafe { isa::store_nt(self.pointer(at).cast(), value) };
            at += WORD;
        }
        if isa::STORE_NT_NEEDS_FLUSH {
            self.flush(kind, words_at, at - words_at);
        }
        if !tail.is_empty() {
            self.write(at, tail);
            self.flush(kind, at, 1);
        }
    }

    /// Starts the write-back of the lines that hold `at..at+len`; returns their number.
    #[inline]
    pub(crate) fn flush(&self, kind: FlushKind, at: u64, len: u64) -> u64 {
        self.check(at, len);
        let (first, end) = line_range(at, len);
        if kind != FlushKind::None {
            for line in (first..end).step_by(isa::LINE as usize) {
                // SAFETY: the line holds a byte of the checked range, and mappings are whole pages;
                // `kind` was checked against the CPU when the media was opened.
                unsafe { isa::flush_line(kind, self.pointer(line)) };
            }
        }
        (end - first) / isa::LINE
    }

    /// Compares mapped bytes with `key`, as byte strings.
    #[inline]
    pub(crate) fn compare(&self, at: u64, len: u64, key: &[u8]) -> Cmp {
        self.check(at, len);
        let common = (len as usize).min(key.len());
        let mut done = 0;
        if at.is_multiple_of(WORD) {
            while done + 8 <= common {
                let ours = u64::from_be(self.word(at + done as u64).load(Ordering::Relaxed).to_le());
                let theirs = u64::from_be_bytes(key[done..done + 8].try_into().expect("eight bytes"));
                if ours != theirs {
                    return ours.cmp(&theirs);
                }
                done += 8;
            }
        }
        for (index, theirs) in key[done..common].iter().enumerate() {
            let ours = self.byte(at + (done + index) as u64).load(Ordering::Relaxed);
            if ours != *theirs {
                return ours.cmp(theirs);
            }
        }
        (len as usize).cmp(&key.len())
    }

    /// Prefetches a line; a hint, harmless for any `at`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        isa::prefetch(self.base.as_ptr().wrapping_add(at as usize));
    }

    /// Drops the private copies of whole pages, so that the file's content shows again.
    pub(crate) fn release_pages(&self, at: u64, len: u64) -> io::Result<()> {
        self.check(at, len);
        assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096), "pages are released whole");
        // SAFETY: whole pages of our own mapping (checked); the `file` backend has compared them
        // with the file's bytes, which they then show (BACK-1).
        unsafe { rustix::mm::madvise(self.pointer(at).cast(), len as usize, rustix::mm::Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.watched = None; // before the addresses are reused
        if self.owner.get().is_some_and(|owner| *owner != std::process::id()) {
            return;
        }
        // SAFETY: the mapping is ours, of exactly this size, and no reference into it outlives
        // `self`. A failure leaves it mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.reserve as usize) };
    }
}

fn watch(base: NonNull<u8>, reserve: u64) -> Watched {
    let start = base.addr().get();
    Watched::new(start..start + reserve as usize)
}

/// The whole lines that hold `at..at+len`: first byte of the first, end of the last.
#[inline(always)]
pub(crate) fn line_range(at: u64, len: u64) -> (u64, u64) {
    if len == 0 { (at, at) } else { (at & !(isa::LINE - 1), (at + len).next_multiple_of(isa::LINE)) }
}

#[cold]
#[inline(never)]
fn out_of_range(at: u64, len: u64, limit: u64) -> ! {
    panic!(
        "MAP-2: {at:#x} + {len} lies outside the backed {limit:#x} bytes; offsets from media are validated before use"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large page of the file is mapped as such only if it begins at a multiple of its size in
    /// memory, too.
    #[test]
    fn mappings_of_files_begin_with_a_large_page() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LARGE).unwrap();
        for mode in [Mode::Shared, Mode::Private] {
            for reserve in [4096, LARGE - 4096, LARGE, 5 * LARGE + 4096] {
                let mapping = Mapping::of_file(std::os::fd::AsFd::as_fd(&file), mode, reserve, 4096).unwrap();
                assert!(mapping.base.as_ptr().addr().is_multiple_of(LARGE as usize), "{mode:?} {reserve}");
                mapping.store(4088, 7);
                assert_eq!(mapping.load(4088), 7);
            }
        }
    }

    /// Reads take the same bytes whatever their place in a line and their length: by bytes, by
    /// words, by lines.
    #[test]
    fn reads_of_every_place_and_length() {
        let mapping = Mapping::anonymous(8192, 8192).unwrap();
        let bytes: Vec<u8> = (0..8192_u32).map(|index| (index * 7 + index / 256) as u8).collect();
        mapping.write(0, &bytes);
        for at in 0..70 {
            for len in (0..200).chain([4096, 8192 - at]) {
                let mut into = vec![0; len];
                mapping.read(at as u64, &mut into);
                assert_eq!(into, bytes[at..at + len], "{at} + {len}");
            }
        }
    }

    /// For every offset and length: exactly the lines that hold a byte of the range.
    #[test]
    fn flush_ranges_are_rounded_to_the_lines_they_touch() {
        for at in 0..200_u64 {
            assert_eq!(line_range(at, 0), (at, at));
            for len in 1..200 {
                let touched: std::collections::BTreeSet<u64> = (at..at + len).map(|byte| byte / isa::LINE).collect();
                let (first, end) = line_range(at, len);
                assert!((first / isa::LINE..end / isa::LINE).eq(touched), "{at} + {len}");
            }
        }
    }
}
