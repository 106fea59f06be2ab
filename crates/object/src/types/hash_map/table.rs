//! [`EntryTable`]: the block of a hash map, as addresses. Format: docs/formats/object.md.
//!
//! A key is looked for in the group that its hash names and in those that follow in the order of
//! [`EntryTable::probe`], up to one with an empty place.
//!
//! Invariants
//!   TABLE-1  A key lies in a group of its probe before which every group was full when it came, so
//!            those have no empty place: a place becomes empty again only if its group has an empty
//!            one anyway.
//!   TABLE-2  Each group has an empty place on the average (`7` of `8` may be used), so a probe
//!            ends.

use super::tags::{EMPTY, GONE, GROUP, Tags, alike, before, empty, free, full, tag_of};
use crate::types::entry::MapEntry;
use std::marker::PhantomData;
use std::ptr;

/// A block of `groups` groups. `groups` is a power of two, and the maker of a table vouches for the
/// block.
pub(super) struct EntryTable<K, V> {
    block: *mut u8,
    groups: u64,
    marker: PhantomData<*mut MapEntry<K, V>>,
}

impl<K, V> Clone for EntryTable<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for EntryTable<K, V> {}

impl<K, V> EntryTable<K, V> {
    #[inline(always)]
    pub(super) fn new(block: *mut u8, groups: u64) -> EntryTable<K, V> {
        EntryTable { block, groups, marker: PhantomData }
    }

    /// Offset of the tags of a group.
    #[inline(always)]
    pub(super) fn tags(self, group: u64) -> *mut u64 {
        self.block.wrapping_add((group * GROUP) as usize).cast()
    }

    #[inline(always)]
    fn word(self, group: u64) -> u64 {
        // SAFETY: inside the block, aligned; a change of tags borrows the map mutably.
        unsafe { self.tags(group).read() }
    }

    /// Offset of the entry at a place.
    #[inline(always)]
    pub(super) fn entry(self, place: u64) -> *mut MapEntry<K, V> {
        self.block.wrapping_add(before(self.groups) as usize + place as usize * MapEntry::<K, V>::SIZE).cast()
    }

    /// Groups in the order in which a key is looked for in them: each once.
    #[inline(always)]
    fn probe(self, hash: u64) -> impl Iterator<Item = u64> {
        let mask = self.groups - 1;
        let mut group = hash & mask;
        (1..=self.groups).map(move |step| {
            let here = group;
            group = (group + step) & mask; // triangular numbers meet all groups of a power of two
            here
        })
    }

    /// The place of the entry with this hash for which `is` is true.
    #[inline]
    pub(super) fn find(self, hash: u64, is: impl Fn(&u64) -> bool) -> Option<u64> {
        for group in self.probe(hash) {
            let word = self.word(group);
            let mut places = alike(word, tag_of(hash)).map(|index| group * GROUP + index);
            if let Some(place) = places.find(&is) {
                return Some(place);
            }
            if empty(word).first().is_some() {
                return None; // TABLE-1
            }
        }
        None
    }

    /// A free place for a key with this hash, and whether it is empty.
    #[inline]
    pub(super) fn free(self, hash: u64) -> (u64, bool) {
        let free = |group: u64| {
            let word = self.word(group);
            let index = free(word).first()?;
            Some((group * GROUP + index, (word >> (index * 8)) as u8 == EMPTY))
        };
        self.probe(hash).find_map(free).expect("TABLE-2")
    }

    /// Marks a free place as that of an entry.
    #[inline]
    pub(super) fn take(self, place: u64, hash: u64) {
        self.mark(place, tag_of(hash));
    }

    /// Marks the place of an entry as free; answers whether it is empty.
    #[inline]
    pub(super) fn give_back(self, place: u64) -> bool {
        let is_empty = empty(self.word(place / GROUP)).first().is_some(); // TABLE-1
        self.mark(place, if is_empty { EMPTY } else { GONE });
        is_empty
    }

    #[inline(always)]
    fn mark(self, place: u64, tag: u8) {
        // SAFETY: a byte of the tags; the caller borrows the map mutably, or has made the block.
        unsafe { self.block.wrapping_add(place as usize).write(tag) }
    }

    /// Marks every place as empty.
    pub(super) fn clear(self) {
        // SAFETY: the tags, in a block that the caller has made.
        unsafe { ptr::write_bytes(self.block, EMPTY, before(self.groups) as usize) }
    }

    /// The places of entries.
    #[inline]
    pub(super) fn places(self) -> Places<K, V> {
        Places { table: self, next: 0, tags: Tags::default() }
    }

    /// The places of entries behind the one at `place`, in the order of [`EntryTable::places`].
    pub(super) fn places_after(self, place: u64) -> Places<K, V> {
        let mut places = Places { next: place / GROUP, ..self.places() };
        places.find(|one| *one == place);
        places
    }
}

/// The places of entries, group by group.
pub(super) struct Places<K, V> {
    table: EntryTable<K, V>,
    /// The group after that of `tags`.
    next: u64,
    tags: Tags,
}

impl<K, V> Iterator for Places<K, V> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        loop {
            if let Some(index) = self.tags.next() {
                return Some((self.next - 1) * GROUP + index);
            }
            if self.next == self.table.groups {
                return None;
            }
            self.tags = full(self.table.word(self.next));
            self.next += 1;
        }
    }
}

impl<K, V> Clone for Places<K, V> {
    fn clone(&self) -> Self {
        Places { ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_probe_meets_every_group_once(hash: u64, power in 0u32..12) {
            let table = EntryTable::<u8, u8>::new(ptr::null_mut(), 1 << power);
            let mut met: Vec<u64> = table.probe(hash).collect();
            met.sort_unstable();
            prop_assert!(met.into_iter().eq(0..1 << power));
        }
    }
}
