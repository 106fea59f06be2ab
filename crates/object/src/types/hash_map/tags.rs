//! Tags: the states of the places in the block of a hash map. Format: docs/formats/object.md.
//!
//! A block holds groups of eight places: first a word of tags for each group, then the places,
//! group after group. A tag is a byte: 0 the place is empty, 1 it was taken once and is free, 128
//! to 255 it holds an entry, the lower seven bits being bits of its hash.

/// Places of a group: the bytes of a word.
pub(crate) const GROUP: u64 = 8;
/// Places of a group that may be used, on the average.
pub(crate) const USED: u64 = 7;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;
pub(super) const EMPTY: u8 = 0;
pub(super) const GONE: u8 = 1;

/// Bytes of a block of `groups` groups, and of an entry; `None`: more than there are addresses.
pub(crate) fn bytes(groups: u64, entry: u64) -> Option<u64> {
    let places = groups.checked_mul(GROUP)?.checked_mul(entry)?;
    places.checked_add(before(groups)).filter(|bytes| isize::try_from(*bytes).is_ok())
}

/// Bytes of tags: a table of one group has eight more, so that places are aligned.
#[inline(always)]
pub(crate) fn before(groups: u64) -> u64 {
    (groups * GROUP).max(16)
}

/// Whether a place with this tag holds an entry.
pub(crate) fn is_entry(tag: u8) -> bool {
    tag >= 0x80
}

/// The tags of a group: entries, and empty places; `None`: some byte is no tag.
pub(crate) fn count(word: u64) -> Option<(u64, u64)> {
    let is_tag = |&tag: &u8| tag == EMPTY || tag == GONE || is_entry(tag);
    let is_sane = word.to_le_bytes().iter().all(is_tag);
    is_sane.then(|| (full(word).count() as u64, empty(word).count() as u64))
}

/// Of the tags of one group, those that something holds for: the upper bits of their bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Tags(u64);

impl Tags {
    #[inline(always)]
    pub(super) fn first(self) -> Option<u64> {
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
pub(super) fn full(word: u64) -> Tags {
    Tags(word & HIGH)
}

/// Exactly the bytes that are [`EMPTY`]; those that are no tag count by their lowest bit.
#[inline(always)]
pub(super) fn empty(word: u64) -> Tags {
    Tags(!word & !(word << 7) & HIGH)
}

/// Exactly the bytes without the upper bit.
#[inline(always)]
pub(super) fn free(word: u64) -> Tags {
    Tags(!word & HIGH)
}

/// The bytes that are `tag`, and perhaps others of entries.
#[inline(always)]
pub(super) fn alike(word: u64, tag: u8) -> Tags {
    let differ = word ^ LOW.wrapping_mul(u64::from(tag));
    Tags(differ.wrapping_sub(LOW) & !differ & HIGH)
}

/// The tag of an entry with this hash.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u8 {
    (hash >> 57) as u8 | 0x80
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
    }

    #[test]
    fn blocks_have_room_for_tags_and_places() {
        assert_eq!(bytes(1, 16), Some(16 + 8 * 16));
        assert_eq!(bytes(4, 16), Some(32 + 32 * 16));
        assert_eq!(bytes(1, 0), Some(16));
        assert_eq!(bytes(1 << 60, 16), None);
        assert_eq!(bytes(1 << 40, 8 << 20), None);
    }
}
