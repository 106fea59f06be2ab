//! One mapped range of bytes: the address arithmetic and every load and store of mapped memory.
//!
//! Invariants
//!   MAP-1  `base..base+reserve` is mapped until drop: readable and writable, but for what
//!          `Media::protect` says.
//!   MAP-2  Only `0..limit` is backed by the file; nothing beyond it is ever touched. `limit` only
//!          grows.
//!   MAP-3  Memory is touched through atomics of 8 bytes (and 1 byte at ragged ends) only, so
//!          concurrent access by threads and processes is a race of words, never undefined, and no
//!          word is ever torn by the compiler.
//!
//! Threads: any. What a racing reader sees is validated above (sequence words, checksums).

use crate::bytes::extent::Extent;
use crate::bytes::isa::{self, FlushKind};
use crate::bytes::sizes::{LARGE, WORD};
use crate::open::chunks::slot::{SEGMENTS, SLOTS};
use crate::pages::unreadable::{self, Watched};
use parking_lot::Mutex;
use std::cmp::Ordering as Cmp;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// What is mapped of a file whose chunks lie elsewhere than their offsets say.
struct Pieces {
    mode: Mode,
    /// By number of a chunk's slot: whether it is mapped here.
    shown: Box<[AtomicU8]>,
    /// What pages may be used for that had no place in the file then.
    protected: Mutex<Vec<(Range<u64>, rustix::mm::MprotectFlags)>>,
}

/// States of a piece.
const ABSENT: u8 = 0;
const COMING: u8 = 1;
const SHOWN: u8 = 2;

impl Pieces {
    fn new(mode: Mode) -> Pieces {
        let shown = (0..=SEGMENTS * SLOTS).map(|_| AtomicU8::new(ABSENT)).collect();
        Pieces { mode, shown, protected: Mutex::default() }
    }

    /// Takes a piece that is to be mapped; `false`: it is mapped, by another thread perhaps, and
    /// there on return.
    fn claim(&self, slot: usize) -> bool {
        loop {
            match self.shown[slot].compare_exchange(ABSENT, COMING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(SHOWN) => return false,
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

/// `MADV_COLLAPSE` (Linux 6.1), which libc does not name yet.
const COLLAPSE: i32 = 25;

/// How the file is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Stores reach the file: tmpfs, memfd.
    Shared,
    /// Stores reach persistent memory without the page cache; fails where that is not so.
    SharedSync,
    /// Stores stay in the process; the `file` backend carries them to the disk.
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
    /// Set where the file is mapped in pieces.
    pieces: Option<Pieces>,
    /// The process whose mapping this is alone: a child of fork has nothing here, or something else
    /// by now.
    owner: OnceLock<u32>,
    /// `None` only while it is dropped.
    watched: Option<Watched>,
}

// SAFETY: the mapping is plain memory that lives until drop, and all access to it is atomic
// (MAP-3).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
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
        // SAFETY: exactly the range just reserved, which nothing else uses, is replaced.
        let base = unsafe { rustix::mm::mmap(place, reserve as usize, access, flags | MapFlags::FIXED, file, 0) };
        let base = base.inspect_err(|_| {
            // SAFETY: the reservation is ours and goes unused. An error would leave it, which harms
            // nobody.
            let _ = unsafe { rustix::mm::munmap(place, reserve as usize) };
        })?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap returned null");
        let watched = watch(base, reserve);
        let mapping = Mapping {
            base,
            reserve,
            limit: AtomicU64::new(limit),
            pieces: None,
            owner: OnceLock::new(),
            watched: Some(watched),
        };
        if mode == Mode::Private {
            mapping.keep_from_children()?; // whose copy could diverge
        }
        Ok(mapping)
    }

    /// Reserves `reserve` bytes of addresses, at `place` or anywhere, and maps `extents` of `file`
    /// there. What has no place in the file reads as zeros; with `guarded` a load there is a fault
    /// from `zeros` on, too, since another process may have given it one.
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
        let mapping = Mapping { base, reserve, limit, pieces, owner: OnceLock::new(), watched: Some(watched) };
        mapping.lay_zeros(0, guarded.unwrap_or(reserve).min(reserve), rustix::mm::ProtFlags::READ)?;
        mapping.show(file, extents)?;
        if mode == Mode::Private {
            mapping.keep_from_children()?; // whose copy could diverge
        }
        Ok(mapping)
    }

    /// Maps `extents` of `file` privately over private zeros of `reserve` bytes: whatever is stored
    /// stays in this process, and all of it may be touched. At `place`, if one is given, where as
    /// many bytes are reserved.
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

    /// Replaces pages by zeros that nothing is stored to.
    fn lay_zeros(&self, at: u64, len: u64, access: rustix::mm::ProtFlags) -> io::Result<()> {
        use rustix::mm::MapFlags;
        if len == 0 {
            return Ok(());
        }
        assert!(at + len <= self.reserve, "pages of the mapping");
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: pages of our own reservation, in bounds as asserted; they hold nothing that
        // counts, and all access is atomic (MAP-3), so no reference says otherwise.
        unsafe { rustix::mm::mmap_anonymous(self.pointer(at).cast(), len as usize, access, flags) }?;
        if self.owner.get().is_some() {
            // SAFETY: advice on the pages just mapped; it changes what children inherit, and
            // nothing here.
            unsafe { rustix::mm::madvise(self.pointer(at).cast(), len as usize, rustix::mm::Advice::LinuxDontFork) }?;
        }
        Ok(())
    }

    /// What is mapped of an extent is so no more: it reads as zeros, which nothing is stored to,
    /// until another takes its offsets.
    pub(crate) fn hide(&self, extent: &Extent) -> io::Result<()> {
        let Some(pieces) = &self.pieces else { return Ok(()) };
        let end = extent.end().min(self.reserve);
        if extent.at < end {
            self.lay_zeros(extent.at, end - extent.at, rustix::mm::ProtFlags::READ)?;
        }
        pieces.shown[extent.slot].store(ABSENT, Ordering::Release);
        Ok(())
    }

    /// A page that has no place in the file reads as zeros from now on.
    pub(crate) fn show_zeros(&self, at: u64) -> io::Result<()> {
        self.lay_zeros(at & !4095, 4096, rustix::mm::ProtFlags::READ)
    }

    /// Maps those of `extents` that are not mapped yet; whether there was one. Threads that ask for
    /// one extent at once all find it mapped.
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
        // Without rights until children are kept out: one that is forked in between has nothing
        // that it could touch.
        let first = if self.owner.get().is_some() { ProtFlags::empty() } else { access };
        // SAFETY: pages of our own reservation, in bounds as the caller saw to; until now they held
        // nothing but zeros, which nothing was stored to; all access is atomic (MAP-3), so no
        // reference says otherwise.
        unsafe { rustix::mm::mmap(place.cast(), len, first, flags, file, file_at) }?;
        if self.owner.get().is_some() {
            // SAFETY: advice on the pages just mapped; it changes what children inherit, and
            // nothing here.
            unsafe { rustix::mm::madvise(place.cast(), len, Advice::LinuxDontFork) }?;
            self.protect(range.start, len as u64, rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE)?;
        }
        for (protected, access) in pieces.protected.lock().iter() {
            let part = range.start.max(protected.start)..range.end.min(protected.end);
            if part.start < part.end {
                self.protect(part.start, part.end - part.start, *access)?;
            }
        }
        Ok(())
    }

    /// Says what may be done with pages; [`Mapping::remember`] is for those without a place in the
    /// file.
    pub(crate) fn protect(&self, at: u64, len: u64, access: rustix::mm::MprotectFlags) -> io::Result<()> {
        // SAFETY: pages of our own mapping, all of which is reserved (MAP-1); nothing holds a
        // reference into it.
        Ok(unsafe { rustix::mm::mprotect(self.pointer(at).cast(), len as usize, access) }?)
    }

    /// Remembers what may be done with pages that have no place in the file yet: it holds once they
    /// do.
    pub(crate) fn remember(&self, range: Range<u64>, access: rustix::mm::MprotectFlags) {
        let Some(pieces) = &self.pieces else { return };
        let mut protected = pieces.protected.lock();
        protected.retain(|(old, _)| !(range.start <= old.start && old.end <= range.end));
        protected.push((range, access));
    }

    /// Addresses for `reserve` bytes, from a multiple of [`LARGE`]: reserved with some to spare,
    /// and trimmed.
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
                // SAFETY: whole pages of the mapping just made, outside what is returned.
                unsafe { rustix::mm::munmap(start.wrapping_add(from).cast(), len) }?;
            }
        }
        Ok(NonNull::new(start.wrapping_add(head)).expect("mmap returned null"))
    }

    /// Gathers each large page that ends in `at..=at+len` from its small ones: a walk from the root
    /// of a tree to a record then misses the TLB once where it missed three times. A hint; where
    /// the kernel cannot, pages stay small.
    ///
    /// Only pages behind which growth has passed: a small store takes no more memory than it asked
    /// for.
    pub(crate) fn collapse(&self, at: u64, len: u64) {
        self.check(at, len);
        for end in ((at + 1).next_multiple_of(LARGE)..=at + len).step_by(LARGE as usize) {
            self.gather(end - LARGE);
        }
    }

    /// Gathers the large page at `at` from its small ones, and from what is not backed yet.
    pub(crate) fn gather(&self, at: u64) {
        assert!(at.is_multiple_of(LARGE) && at + LARGE <= self.reserve, "a large page of the mapping: {at:#x}");
        // SAFETY: advice on our own mapping, in bounds as asserted; it changes where bytes lie, not
        // what they are.
        unsafe { libc::madvise(self.pointer(at).cast(), LARGE as usize, COLLAPSE) };
    }

    /// Leaves children of fork without this mapping.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        let (base, advice) = (self.base.as_ptr().cast(), rustix::mm::Advice::LinuxDontFork);
        // SAFETY: advice on our own mapping; it changes what children inherit, and nothing here.
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
        // SAFETY: a fresh mapping at an address of the kernel's choice, or over a range that is
        // reserved for it.
        let base = unsafe { rustix::mm::mmap_anonymous(place, reserve as usize, access, flags) }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap returned null");
        // A hint: where the system refuses it, pages are small.
        // SAFETY: advice on our own fresh mapping changes no content.
        let _ =
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), reserve as usize, rustix::mm::Advice::LinuxHugepage) };
        let watched = watch(base, reserve);
        Ok(Mapping {
            base,
            reserve,
            limit: AtomicU64::new(limit),
            pieces: None,
            owner: OnceLock::new(),
            watched: Some(watched),
        })
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// What is known of its unreadable pages.
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

    /// Backing has grown to `limit` bytes; a smaller value changes nothing (MAP-2).
    pub(crate) fn raise_limit(&self, limit: u64) {
        assert!(limit <= self.reserve, "MAP-2: backing beyond the reserved range");
        self.limit.fetch_max(limit, Ordering::Release);
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
    fn check(&self, at: u64, len: u64) {
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
    fn pointer(&self, at: u64) -> *mut u8 {
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
        // - valid: any 8 bytes are a u64, whatever a crash left.
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
        let (lines, rest) = rest.as_chunks_mut::<64>(); // eight words a turn
        for line in lines {
            for (index, chunk) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *chunk = self.word(at + index as u64 * WORD).load(Ordering::Relaxed).to_le_bytes();
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

    /// Starts the write-back of the lines that hold `at..at+len`; returns how many.
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

    /// Asks the CPU to bring a line in; a hint, harmless for any `at`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        isa::prefetch(self.base.as_ptr().wrapping_add(at as usize));
    }

    /// Waits until [`Mapping::wake`] is called for this word, here or in another process that maps
    /// the file, unless its lower half is not `expected`; at most so long, and perhaps for nothing.
    pub(crate) fn wait(&self, at: u64, expected: u32, most: Duration) {
        self.check(at, WORD);
        let most = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
        // SAFETY: the lower half of a mapped word (checked), which the kernel reads, and a time
        // that lives through the call. Whatever it answers, the caller looks again.
        unsafe { libc::syscall(libc::SYS_futex, self.pointer(at), libc::FUTEX_WAIT, expected, &raw const most) };
    }

    /// Wakes one that waits for this word.
    pub(crate) fn wake(&self, at: u64) {
        self.check(at, WORD);
        // SAFETY: the address of a mapped word, checked; the kernel reads nothing of ours.
        unsafe { libc::syscall(libc::SYS_futex, self.pointer(at), libc::FUTEX_WAKE, 1) };
    }

    /// Drops the private copies of whole pages, so that the file's content shows again.
    pub(crate) fn release_pages(&self, at: u64, len: u64) -> io::Result<()> {
        self.check(at, len);
        assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096), "pages are given back whole");
        // SAFETY: our own mapping; the `file` backend has made sure that the file holds the same
        // bytes (BACK-1).
        unsafe { rustix::mm::madvise(self.pointer(at).cast(), len as usize, rustix::mm::Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.watched = None; // before other bytes may lie here
        if self.owner.get().is_some_and(|owner| *owner != std::process::id()) {
            return;
        }
        // SAFETY: the mapping is ours, of exactly this size, and no reference into it outlives
        // `self`. An error would leave it mapped, which harms nobody.
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

    /// Large pages of the file can only be mapped as such if file and address agree where they
    /// begin.
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

    /// Every offset and length: exactly the lines that hold a byte of the range, no line before,
    /// none behind.
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
