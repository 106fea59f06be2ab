//! Write windows: guarded pages are read-only to this process outside of sections, so that a stray
//! store of the program is a fault and reaches no medium.
//!
//! By keys (`keys`) a window is one thread's, and opening it takes an instruction. By the page
//! table it is the whole process's, opened by the first section and closed by the last, with a
//! system call each. Pages that a program may store to at any time are exempt.
//!
//! Invariants
//!   WIN-1  While no section is open, every guarded page that is mapped and not exempt is
//!          read-only; while one is open that began after the guard, the page can be stored to.
//!   WIN-2  Pages without a chunk are never made writable: a store there would be lost.
//!
//! Threads: any. The lock is the last of all: under it are system calls only. A forked child has no
//! windows; memory that is inherited whole is writable there from its first section on.
//! Elsewhere: which pages are guarded (`fs`), and that each store is inside a section. Design:
//! docs/design/volume.md.

use crate::bytes::mapping::Mapping;
use crate::counters::{Counter, Counters};
use crate::pages::keys;
use everbyte_members::Birth;
use parking_lot::Mutex;
use rustix::mm::MprotectFlags;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// The protection of pages outside of write windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteWindows {
    /// Keys where the CPU and the kernel have them and one is left, else none.
    #[default]
    Default,
    /// Protection keys: a window is one thread's.
    Keys,
    /// The page table: a window is the process's.
    PageTable,
    /// None: pages are always writable.
    Off,
}

impl WriteWindows {
    /// A word for figures.
    pub fn name(self) -> &'static str {
        match self {
            WriteWindows::Default => "default",
            WriteWindows::Keys => "keys",
            WriteWindows::PageTable => "page-table",
            WriteWindows::Off => "off",
        }
    }

    fn bit(self) -> u8 {
        match self {
            WriteWindows::Keys => KEYS,
            WriteWindows::PageTable => PAGE_TABLE,
            WriteWindows::Default | WriteWindows::Off => 0,
        }
    }
}

const KEYS: u8 = 1;
const PAGE_TABLE: u8 = 2;

/// The guarded pages of a mapping.
pub(crate) struct Windows {
    /// The kinds of protection that a page has.
    kinds: AtomicU8,
    guarded: Mutex<Guarded>,
    /// The process that has the mapping.
    birth: Birth,
}

struct Guarded {
    ranges: Vec<(Range<u64>, WriteWindows)>,
    /// Ranges that are not protected; a range may be there several times.
    exempt: Vec<Range<u64>>,
    /// The parts of the mapping that show the file, in order, none adjacent to the next; `None`:
    /// all of it does.
    mapped: Option<Vec<Range<u64>>>,
    /// Open sections that began with protection by the page table.
    open: u32,
}

/// The part of a section that keeps a window open.
pub(crate) struct OpenWindow<'m> {
    mapping: &'m Mapping,
    kinds: u8,
    /// A window by keys belongs to its thread.
    thread: PhantomData<*const ()>,
}

fn overlap(left: &Range<u64>, right: &Range<u64>) -> Option<Range<u64>> {
    let part = left.start.max(right.start)..left.end.min(right.end);
    (part.start < part.end).then_some(part)
}

impl Guarded {
    /// The parts of a range that are protected while no window is open (WIN-2).
    fn parts(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<_> = match &self.mapped {
            Some(mapped) => mapped.iter().filter_map(|part| overlap(part, range)).collect(),
            None => vec![range.clone()],
        };
        for exempt in &self.exempt {
            let cut = |part: Range<u64>| match overlap(&part, exempt) {
                Some(_) => [part.start..exempt.start, exempt.end..part.end],
                None => [part, 0..0],
            };
            parts = parts.into_iter().flat_map(cut).filter(|part| part.start < part.end).collect();
        }
        parts
    }

    /// Protects the parts of a range that are guarded, as they are now.
    fn apply(&self, mapping: &Mapping, range: &Range<u64>) -> io::Result<()> {
        for (guarded, kind) in &self.ranges {
            let Some(range) = overlap(guarded, range) else { continue };
            self.parts(&range).iter().try_for_each(|part| match kind {
                WriteWindows::Keys => mapping.set_key(part, true),
                _ => put_writable(mapping, part, self.open > 0),
            })?;
        }
        Ok(())
    }

    /// Opens or closes the windows of the process.
    fn turn(&self, mapping: &Mapping, open: bool) -> io::Result<()> {
        let ranges = self.ranges.iter().filter(|(_, kind)| *kind == WriteWindows::PageTable);
        ranges.flat_map(|(range, _)| self.parts(range)).try_for_each(|part| put_writable(mapping, &part, open))
    }
}

fn put_writable(mapping: &Mapping, part: &Range<u64>, is_writable: bool) -> io::Result<()> {
    let mut access = MprotectFlags::READ;
    access.set(MprotectFlags::WRITE, is_writable);
    mapping.protect(part.start, part.end - part.start, access)
}

impl Windows {
    fn new(mapped: Option<Vec<Range<u64>>>) -> Windows {
        let guarded = Guarded { ranges: Vec::new(), exempt: Vec::new(), mapped, open: 0 };
        Windows { kinds: AtomicU8::new(0), guarded: Mutex::new(guarded), birth: Birth::new() }
    }

    /// Of a mapping that shows its file everywhere.
    pub(crate) fn whole() -> Windows {
        Windows::new(None)
    }

    /// Of a mapping of which [`Windows::mapped`] tells the parts.
    pub(crate) fn in_pieces() -> Windows {
        Windows::new(Some(Vec::new()))
    }

    /// A part shows the file now.
    pub(crate) fn mapped(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<()> {
        let mut guarded = self.guarded.lock();
        if let Some(mapped) = &mut guarded.mapped {
            let mut whole = range.clone();
            mapped.retain(|part| {
                let touches = part.start <= whole.end && whole.start <= part.end;
                if touches {
                    whole = part.start.min(whole.start)..part.end.max(whole.end);
                }
                !touches
            });
            let place = mapped.partition_point(|part| part.start < whole.start);
            mapped.insert(place, whole);
        }
        guarded.apply(mapping, &range)
    }

    /// A part shows the file no more.
    pub(crate) fn unmapped(&self, range: Range<u64>) {
        if let Some(mapped) = &mut self.guarded.lock().mapped {
            let cut = |part: Range<u64>| match overlap(&part, &range) {
                Some(_) => [part.start..range.start, range.end..part.end],
                None => [part, 0..0],
            };
            *mapped = mapped.drain(..).flat_map(cut).filter(|part| part.start < part.end).collect();
        }
    }

    /// Opens the windows for a section of this thread.
    #[inline]
    pub(crate) fn open<'m>(&self, mapping: &'m Mapping, counters: &Counters) -> Option<OpenWindow<'m>> {
        let kinds = self.kinds.load(Ordering::Acquire);
        if kinds == 0 { None } else { self.open_kinds(mapping, counters, kinds) }
    }

    #[inline(never)]
    fn open_kinds<'m>(&self, mapping: &'m Mapping, counters: &Counters, kinds: u8) -> Option<OpenWindow<'m>> {
        let mut opened = 0;
        if kinds & KEYS != 0 {
            opened += u64::from(keys::open());
        }
        if kinds & PAGE_TABLE != 0 {
            if self.birth.is_child() {
                // Another thread may have held the lock at the fork.
                return mapping.open_in_child(kinds & KEYS);
            }
            let mut guarded = self.guarded.lock();
            guarded.open += 1;
            if guarded.open == 1 {
                opened += 1;
                let turned = guarded.turn(mapping, true);
                turned.expect("the system makes pages writable that were so before");
            }
        }
        counters.add(Counter::Windows, opened);
        Some(OpenWindow { mapping, kinds, thread: PhantomData })
    }

    fn close_page_table(&self, mapping: &Mapping) {
        let mut guarded = self.guarded.lock();
        guarded.open -= 1;
        if guarded.open == 0 {
            // Pages that the system refuses to protect stay writable.
            let _ = guarded.turn(mapping, false);
        }
    }

    /// Guards pages by one kind of protection.
    pub(super) fn guard(&self, mapping: &Mapping, range: &Range<u64>, kind: WriteWindows) -> io::Result<()> {
        let mut guarded = self.guarded.lock();
        guarded.ranges.push((range.clone(), kind));
        self.kinds.fetch_or(kind.bit(), Ordering::AcqRel);
        guarded.apply(mapping, range)
    }

    /// Ends one [`Windows::guard`].
    pub(super) fn unguard(&self, mapping: &Mapping, range: &Range<u64>, kind: WriteWindows) {
        if self.birth.is_child() {
            return;
        }
        let mut guarded = self.guarded.lock();
        for part in guarded.parts(range) {
            // The pages stay as they are where the system refuses.
            let _ = release(mapping, &part, kind);
        }
        let place = guarded.ranges.iter().position(|(old, other)| old == range && *other == kind);
        place.map(|place| guarded.ranges.swap_remove(place));
        let _ = guarded.apply(mapping, range); // another guard of the same pages stays
        let kinds = guarded.ranges.iter().fold(0, |kinds, (_, kind)| kinds | kind.bit());
        self.kinds.store(kinds, Ordering::Release);
    }

    /// Leaves pages out of all guards.
    pub(super) fn exempt(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<()> {
        let mut guarded = self.guarded.lock();
        for (old, kind) in &guarded.ranges {
            let Some(part) = overlap(old, &range) else { continue };
            guarded.parts(&part).iter().try_for_each(|part| release(mapping, part, *kind))?;
        }
        guarded.exempt.push(range);
        Ok(())
    }

    /// Ends one [`Windows::exempt`].
    pub(super) fn end_exempt(&self, mapping: &Mapping, range: &Range<u64>) -> io::Result<()> {
        let mut guarded = self.guarded.lock();
        let place = guarded.exempt.iter().position(|exempt| exempt == range);
        guarded.exempt.swap_remove(place.expect("a range that was made exempt"));
        guarded.apply(mapping, range)
    }
}

/// Makes pages writable for good.
fn release(mapping: &Mapping, part: &Range<u64>, kind: WriteWindows) -> io::Result<()> {
    match kind {
        WriteWindows::Keys => mapping.set_key(part, false),
        _ => put_writable(mapping, part, true),
    }
}

impl Mapping {
    /// Gives pages the key of write windows, or takes it away.
    fn set_key(&self, range: &Range<u64>, is_guarded: bool) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.reserve(), "pages of the mapping: {range:?}");
        let place = self.address().as_ptr().wrapping_add(range.start as usize);
        // SAFETY: whole pages of the mapping (asserted), which lives as long as `self` (MAP-1).
        unsafe { keys::set(place, (range.end - range.start) as usize, is_guarded) }
    }

    /// A section of a forked child. Memory that the child has whole is writable from then on.
    #[cold]
    fn open_in_child(&self, kinds: u8) -> Option<OpenWindow<'_>> {
        if self.is_inherited() {
            let _ = put_writable(self, &(0..self.reserve()), true);
        }
        Some(OpenWindow { mapping: self, kinds, thread: PhantomData })
    }
}

impl Drop for OpenWindow<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.kinds & PAGE_TABLE != 0 {
            self.mapping.windows().close_page_table(self.mapping);
        }
        if self.kinds & KEYS != 0 {
            keys::close();
        }
    }
}
