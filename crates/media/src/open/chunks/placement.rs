//! The size of a new chunk, and its place in the file.
//!
//! A chunk is as large as the run of chunks that it continues, so an object of any size takes few
//! of them. A budget keeps the file shorter than twice its backed bytes: when it is spent, a chunk
//! is as small as possible.

use crate::bytes::extent::Extent;
use crate::bytes::sizes::LARGE;
use std::collections::BTreeMap;
use std::ops::Range;

/// The smallest chunk, except for a gap between two others.
pub(crate) const MIN: u64 = 64 << 10;
/// The largest chunk, unless one request is larger.
const MOST: u64 = 1 << 30;
/// Bytes of file that the budget does not count: the smallest chunks of the object table, bitmaps
/// and small objects.
const SLACK: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// The content of a file, by store offset and by file offset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// By store offset.
    pub extents: BTreeMap<u64, Extent>,
    /// File offset and length of all taken ranges: extents, and segments of the map.
    pub taken: BTreeMap<u64, u64>,
}

impl Layout {
    /// One past the last taken byte of the file.
    pub(crate) fn end(&self) -> u64 {
        self.taken.last_key_value().map_or(0, |(at, len)| at + len)
    }

    /// The extent that holds `at`.
    pub(crate) fn find(&self, at: u64) -> Option<Extent> {
        self.extents.range(..=at).next_back().map(|(_, extent)| *extent).filter(|extent| at < extent.end())
    }

    /// The first part of `range` without a chunk.
    pub(crate) fn gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        while at < range.end {
            match self.find(at) {
                Some(extent) => at = extent.end(),
                None => {
                    let next = self.extents.range(at..).next().map_or(u64::MAX, |(next, _)| *next);
                    return Some(at..range.end.min(next));
                }
            }
        }
        None
    }

    /// Adds an extent. `Err`: it shares bytes of the store or of the file with another.
    pub(crate) fn insert(&mut self, extent: Extent) -> Result<(), ()> {
        if self.gap(extent.at..extent.end()) != Some(extent.at..extent.end()) {
            return Err(());
        }
        self.take(extent.file, extent.len)?;
        self.extents.insert(extent.at, extent);
        Ok(())
    }

    /// Takes a range of the file. `Err`: it is taken.
    pub(crate) fn take(&mut self, at: u64, len: u64) -> Result<(), ()> {
        let before = self.taken.range(..at + len).next_back();
        if before.is_some_and(|(start, len)| start + len > at) {
            return Err(());
        }
        self.taken.insert(at, len);
        Ok(())
    }

    /// Removes an extent; its range of the file stays taken.
    pub(crate) fn remove(&mut self, at: u64) {
        self.extents.remove(&at);
    }

    /// Frees a range of the file.
    pub(crate) fn release(&mut self, file: u64) {
        self.taken.remove(&file);
    }

    /// The length of the run of chunks that ends at store offset `at`, and the file offset behind
    /// it.
    fn run(&self, at: u64) -> (u64, Option<u64>) {
        let (mut start, mut behind) = (at, None);
        for (_, extent) in self.extents.range(..at).rev() {
            if extent.end() != start || at - start >= MOST {
                break;
            }
            behind = behind.or(Some(extent.file + extent.len));
            start = extent.at;
        }
        (at - start, behind)
    }

    /// The chunk for `wanted`, which has none. The store ends at `most`. The file takes `backed`
    /// bytes on the disk, of which `apart` belong to the log, which the budget leaves out. If the
    /// file would become longer than `longest`, the chunk is as small as possible.
    pub(crate) fn choose(&self, wanted: Range<u64>, most: u64, (backed, longest): (u64, u64), apart: u64) -> Extent {
        let before = self.extents.range(..wanted.start).next_back().map_or(0, |(_, extent)| extent.end());
        let next = self.extents.range(wanted.start..).next().map_or(most, |(next, _)| *next);
        let (run, behind) = if before == wanted.start { self.run(wanted.start) } else { (0, None) };
        // With many chunks, each is larger: one of them then serves several objects.
        let min = MIN << (4 * (self.extents.len() as u64 / 4096)).min(14);
        let start = if run > 0 { wanted.start } else { (wanted.start & !(min - 1)).max(before) };
        let least = wanted.end.max((start + 1).next_multiple_of(min)).min(next) - start;
        let len = run.clamp(least, MOST.max(least)).next_multiple_of(PAGE).min(next - start);
        let best = self.place(start, len, behind);
        let budget = (2 * (backed.saturating_sub(apart) + wanted.end - wanted.start) + SLACK + apart).min(longest);
        if len == least || best.file + best.len <= self.end().max(budget) {
            return best;
        }
        // The rest of the budget.
        let left = budget.saturating_sub(self.end()) & !(min - 1);
        self.place(start, left.clamp(least, len), behind)
    }

    /// The place of a chunk in the file: behind the chunk before it, so that both are one mapping;
    /// else the lowest gap that is large enough; else the end. Large chunks have the same alignment
    /// in the file as in memory, for large pages.
    fn place(&self, at: u64, len: u64, behind: Option<u64>) -> Extent {
        let extent = |file| Extent { at, file, len, slot: 0, changes: 0 };
        if let Some(file) = behind.filter(|&file| self.is_free(file, len))
            && (len < LARGE || file % LARGE == at % LARGE)
        {
            return extent(file);
        }
        extent(self.free(at, len))
    }

    fn is_free(&self, file: u64, len: u64) -> bool {
        self.taken.range(..file + len).next_back().is_none_or(|(start, len)| start + len <= file)
    }

    /// The lowest free file offset for `len` bytes. A large chunk gets the same offset within a
    /// large page as `at`.
    pub(crate) fn free(&self, at: u64, len: u64) -> u64 {
        let fitting = |from: u64| {
            if len < LARGE {
                return from.next_multiple_of(PAGE);
            }
            let behind = (at % LARGE + LARGE - from % LARGE) % LARGE;
            from + behind
        };
        let mut from = 0;
        for (start, taken) in &self.taken {
            if fitting(from) + len <= *start {
                break;
            }
            from = start + taken;
        }
        fitting(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Layout {
        let mut layout = Layout::default();
        layout.insert(Extent { at: 0, file: 0, len: 80 << 10, slot: 0, changes: 0 }).unwrap();
        layout.take(80 << 10, 8 << 10).unwrap();
        layout
    }

    /// Backs clusters one by one, in the given order. Returns the backed bytes and the number of
    /// chunks.
    fn back(layout: &mut Layout, clusters: impl Iterator<Item = u64>) -> (u64, usize) {
        let (mut backed, before) = (88 << 10, layout.extents.len());
        for at in clusters {
            while let Some(gap) = layout.gap(at..at + MIN) {
                let chunk = layout.choose(gap.clone(), 1 << 42, (backed, u64::MAX), 0);
                assert!(chunk.at <= gap.start && gap.end <= chunk.end(), "{chunk:x?} for {gap:x?}");
                layout.insert(chunk).unwrap();
            }
            backed += MIN;
            assert!(layout.end() <= 2 * backed + (4 << 20), "{:#x} for {backed:#x}", layout.end());
        }
        (backed, layout.extents.len() - before)
    }

    #[test]
    fn one_object_of_a_gibibyte_takes_few_chunks_and_its_large_pages_are_large() {
        let mut layout = fresh();
        let (backed, chunks) = back(&mut layout, (0..16384).map(|index| (1 << 40) + index * MIN));
        assert!(chunks <= 16, "{chunks} chunks");
        assert!(layout.end() <= 2 * backed + (2 << 20));
        for extent in layout.extents.values().filter(|extent| extent.len >= LARGE) {
            assert_eq!(extent.at % LARGE, extent.file % LARGE, "{extent:x?}");
        }
    }

    #[test]
    fn eight_objects_that_grow_alternately_take_few_chunks() {
        let mut layout = fresh();
        let (_, chunks) = back(&mut layout, (0..8192).map(|index| ((index % 8 + 1) << 38) + index / 8 * MIN));
        assert!(chunks <= 8 * 14, "{chunks} chunks");
    }

    /// Adjacent spans of a MiB with one cluster each: a chunk as large as the run before it would
    /// be sixteen times too large.
    #[test]
    fn small_objects_side_by_side_keep_to_the_budget() {
        back(&mut fresh(), (1..3000).map(|index| index << 20));
    }

    #[test]
    fn small_spans_share_chunks() {
        let (_, chunks) = back(&mut fresh(), (2..4000).map(|index| index * MIN));
        assert!(chunks < 20, "{chunks} chunks");
    }
}
