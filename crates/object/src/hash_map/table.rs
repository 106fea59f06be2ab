//! [`Table`]: the block of a hash map, as addresses. Format: docs/formats/object.md.
//!
//! A block holds groups of eight places: first a word of tags for each group, then the places, group after group. A tag
//! is a byte: 0 the place is empty, 1 it was taken once and is free, 128 to 255 it holds an entry, the lower seven bits
//! being bits of its hash. A key is looked for in the group that its hash names and in those that follow in the order of
//! [`Table::probe`], up to one with an empty place.
//!
//! Invariants
//!   TABLE-1  A key lies in a group of its probe before which every group was full when it came, so those have no empty
//!            place: a place becomes empty again only if its group has an empty one anyway.
//!   TABLE-2  Each group has an empty place on the average (`7` of `8` may be used), so a probe ends.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;

/// Places of a group: the bytes of a word.
pub(super) const GROUP: u64 = 8;
/// Places of a group that may be used, on the average.
pub(super) const USED: u64 = 7;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;
const EMPTY: u8 = 0;
const GONE: u8 = 1;

/// What lies at a place.
#[repr(C)]
pub(super) struct Slot<K, V> {
    pub key: K,
    pub value: V,
}

/// A block of `groups` groups. `groups` is a power of two, and whoever makes a table vouches for the block.
pub(super) struct Table<K, V> {
    block: *mut u8,
    groups: u64,
    marker: PhantomData<*mut Slot<K, V>>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Table<K, V> {}

/// Of the tags of one group, those that something holds for: the upper bits of their bytes.
#[derive(Clone, Copy)]
struct Tags(u64);

impl Tags {
    #[inline(always)]
    fn first(self) -> Option<u64> {
        (self.0 != 0).then(|| u64::from(self.0.trailing_zeros()) / 8)
    }
}

impl Iterator for Tags {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// Exactly the bytes with the upper bit.
#[inline(always)]
fn full(word: u64) -> Tags {
    Tags(word & HIGH)
}

/// Exactly the bytes that are [`EMPTY`]; those that are no tag count by their lowest bit.
#[inline(always)]
fn empty(word: u64) -> Tags {
    Tags(!word & !(word << 7) & HIGH)
}

/// The bytes that are `tag`, and perhaps others of entries.
#[inline(always)]
fn alike(word: u64, tag: u8) -> Tags {
    let differ = word ^ LOW.wrapping_mul(u64::from(tag));
    Tags(differ.wrapping_sub(LOW) & !differ & HIGH)
}

/// The tag of an entry with this hash.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    (hash >> 57) as u8 | 0x80
}

impl<K, V> Table<K, V> {
    const SLOT: usize = {
        assert!(align_of::<Slot<K, V>>() <= 16, "types of a pool are aligned to 16 bytes at most");
        size_of::<Slot<K, V>>()
    };

    #[inline(always)]
    pub(super) fn new(block: *mut u8, groups: u64) -> Table<K, V> {
        Table { block, groups, marker: PhantomData }
    }

    /// Bytes of a block of `groups` groups; `None`: more than there are addresses.
    pub(super) fn bytes(groups: u64) -> Option<usize> {
        let places = usize::try_from(groups).ok()?.checked_mul(GROUP as usize)?;
        let bytes = places.checked_mul(Self::SLOT)?.checked_add(places)?.checked_add(16)?;
        (bytes <= isize::MAX as usize).then(|| Self::before(groups) + places * Self::SLOT)
    }

    /// Bytes of tags: a table of one group has eight more, so that places are aligned.
    #[inline(always)]
    fn before(groups: u64) -> usize {
        (groups * GROUP).max(16) as usize
    }

    /// Where the tags of a group lie.
    #[inline(always)]
    pub(super) fn tags(self, group: u64) -> *mut u64 {
        self.block.wrapping_add((group * GROUP) as usize).cast()
    }

    #[inline(always)]
    fn word(self, group: u64) -> u64 {
        // SAFETY: inside the block, aligned; whoever changes tags borrows the map mutably.
        unsafe { self.tags(group).read() }
    }

    /// Where the place of an entry lies.
    #[inline(always)]
    pub(super) fn slot(self, place: u64) -> *mut Slot<K, V> {
        self.block.wrapping_add(Self::before(self.groups) + place as usize * Self::SLOT).cast()
    }

    /// Where the value of an entry lies.
    #[inline(always)]
    pub(super) fn value(self, place: u64) -> *mut V {
        self.slot(place).wrapping_byte_add(offset_of!(Slot<K, V>, value)).cast()
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
    pub(super) fn find(self, hash: u64, mut is: impl FnMut(*mut Slot<K, V>) -> bool) -> Option<u64> {
        for group in self.probe(hash) {
            let word = self.word(group);
            let mut places = alike(word, tag_of(hash)).map(|index| group * GROUP + index);
            if let Some(place) = places.find(|&place| is(self.slot(place))) {
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
            let index = Tags(!word & HIGH).first()?;
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
        // SAFETY: a byte of the tags; whoever calls this borrows the map mutably, or has made the block.
        unsafe { self.block.wrapping_add(place as usize).write(tag) }
    }

    /// Marks every place as empty.
    pub(super) fn clear(self) {
        // SAFETY: the tags, in a block that the caller has made.
        unsafe { ptr::write_bytes(self.block, EMPTY, Self::before(self.groups)) }
    }

    /// The places of entries.
    #[inline]
    pub(super) fn places(self) -> Places<K, V> {
        Places { table: self, next: 0, tags: Tags(0) }
    }

    /// What the tags say: entries, empty places, and whether each tag is one.
    pub(super) fn count(self) -> (u64, u64, bool) {
        let words = (0..self.groups).map(|group| self.word(group));
        words.fold((0, 0, true), |(entries, empties, sane), word| {
            let known = word.to_le_bytes().iter().all(|&tag| tag == EMPTY || tag == GONE || tag >= 0x80);
            (entries + full(word).count() as u64, empties + empty(word).count() as u64, sane && known)
        })
    }
}

/// The places of entries, group by group.
pub(super) struct Places<K, V> {
    table: Table<K, V>,
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
        /// The tricks with words against bytes looked at one by one.
        #[test]
        fn tags_are_told_apart(tags in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), 128u8..=255], 8), tag in 128u8..=255) {
            let word = u64::from_le_bytes(tags.clone().try_into().unwrap());
            let those = |is: &dyn Fn(u8) -> bool| (0..8).filter(|&index| is(tags[index as usize])).collect::<Vec<u64>>();
            prop_assert_eq!(full(word).collect::<Vec<_>>(), those(&|one| one >= 128));
            prop_assert_eq!(empty(word).collect::<Vec<_>>(), those(&|one| one == 0));
            let alike: Vec<u64> = alike(word, tag).collect();
            prop_assert!(those(&|one| one == tag).iter().all(|index| alike.contains(index)));
            prop_assert!(alike.iter().all(|index| tags[*index as usize] >= 128));
        }

        #[test]
        fn a_probe_meets_every_group_once(hash: u64, power in 0u32..12) {
            let table = Table::<u8, u8>::new(ptr::null_mut(), 1 << power);
            let mut met: Vec<u64> = table.probe(hash).collect();
            met.sort_unstable();
            prop_assert!(met.into_iter().eq(0..1 << power));
        }
    }

    #[test]
    fn blocks_have_room_for_tags_and_places() {
        assert_eq!(Table::<u64, u64>::bytes(1), Some(16 + 8 * 16));
        assert_eq!(Table::<u64, u64>::bytes(4), Some(32 + 32 * 16));
        assert_eq!(Table::<(), ()>::bytes(1), Some(16));
        assert_eq!(Table::<u64, u64>::bytes(1 << 60), None);
        assert_eq!(Table::<[u64; 1 << 20], u64>::bytes(1 << 40), None);
    }
}
