//! [`Maps`]: the ranges of files that are mapped now, in memory alone.
//!
//! Invariants
//!   FS-30  A page of a mapped range keeps its place: no call moves it, frees it or shares it while
//!          the mapping lives. A write changes its bytes at their place, under undo records.
//!
//! A mapping begins under the file's lock and may end without it. So a caller that holds the lock
//! may see a mapping that has just ended, and never misses one.

use crate::Ino;
use crate::node::Node;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The mapped ranges of all files, in pages of the file.
#[derive(Default)]
pub(crate) struct Maps(Mutex<HashMap<Ino, Vec<Range<u64>>>>);

impl Maps {
    /// Begins a mapping; the caller holds the file's lock.
    pub(crate) fn add(&self, node: &Node, pages: Range<u64>) {
        let mut maps = self.0.lock();
        maps.entry(node.ino).or_default().push(pages);
        node.is_mapped.store(true, Ordering::Release);
    }

    /// Ends a mapping of this range.
    pub(crate) fn remove(&self, node: &Node, pages: &Range<u64>) {
        let mut maps = self.0.lock();
        let Some(ranges) = maps.get_mut(&node.ino) else { return };
        if let Some(index) = ranges.iter().position(|range| range == pages) {
            ranges.swap_remove(index);
        }
        if ranges.is_empty() {
            maps.remove(&node.ino);
            node.is_mapped.store(false, Ordering::Release);
        }
    }

    /// The mapped parts of a range of pages, in order and apart from each other.
    pub(crate) fn within(&self, node: &Node, pages: &Range<u64>) -> Vec<Range<u64>> {
        match node.is_mapped.load(Ordering::Acquire) {
            true => self.of(node.ino, pages),
            false => Vec::new(),
        }
    }

    /// Whether a page of the range is mapped.
    pub(crate) fn meet(&self, node: &Node, pages: &Range<u64>) -> bool {
        !self.within(node, pages).is_empty()
    }

    /// As [`Maps::within`], of a file whose node may not be loaded.
    pub(crate) fn of(&self, ino: Ino, pages: &Range<u64>) -> Vec<Range<u64>> {
        let maps = self.0.lock();
        let ranges = maps.get(&ino).map_or(&[][..], Vec::as_slice);
        let cut = |range: &Range<u64>| range.start.max(pages.start)..range.end.min(pages.end);
        let mut parts: Vec<Range<u64>> = ranges.iter().map(cut).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable_by_key(|part| part.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for part in parts {
            match joined.last_mut().filter(|last| last.end >= part.start) {
                Some(last) => last.end = last.end.max(part.end),
                None => joined.push(part),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_parts_are_joined_and_end_one_by_one() {
        let (maps, node, other) = (Maps::default(), Node::new(Ino(5), 0), Node::new(Ino(6), 0));
        for range in [4..8, 6..9, 20..30, 4..8] {
            maps.add(&node, range);
        }
        assert_eq!(maps.within(&node, &(0..100)), [4..9, 20..30]);
        assert_eq!(maps.within(&node, &(8..21)), [8..9, 20..21]);
        assert!(!maps.meet(&node, &(9..20)) && !maps.meet(&other, &(0..100)));
        maps.remove(&node, &(4..8));
        assert!(maps.of(Ino(5), &(0..10)).iter().eq([&(4..9)]));
        for range in [4..8, 6..9, 20..30] {
            maps.remove(&node, &range);
        }
        assert!(!node.is_mapped.load(Ordering::Acquire) && !maps.meet(&node, &(0..100)));
    }
}
