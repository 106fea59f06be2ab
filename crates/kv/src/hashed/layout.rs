//! The bytes of a hash table on media, and nothing else. Format: docs/formats/hashed.md.
//!
//! Words that change after they were written carry a sum of their own ([`SummedWord`]): an entry's
//! sum cannot cover them.

use crate::tree::{Sum, Version};
use everbyte_media::{Checked, LINE, Offset};
use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const HASH_MAGIC: [u8; 8] = *b"EVRBCDHT";
pub(crate) const HASH_FORMAT: u32 = 1;
/// The fingerprint of objects that hold a hash table.
pub(crate) const HASH_FINGERPRINT: u64 = u64::from_le_bytes(HASH_MAGIC);

/// The first line of a table's page. Never changes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct HashHeader {
    pub magic: [u8; 8],
    pub format: u32,
    /// crc32c of the header with this field zero.
    pub checksum: u32,
    /// Keys are hashed under it.
    pub seed: [u64; 2],
    /// The block that holds two ledgers of [`LEDGER_WORDS`].
    pub area: Offset,
    pub reserved: [u64; 3],
}
const _: () = assert!(size_of::<HashHeader>() == LINE as usize);

/// A committed version: two of these, used in turn; the commit word says which counts.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct HashState {
    pub version: Version,
    /// Buckets in use.
    pub buckets: u64,
    /// Live keys.
    pub keys: u64,
    /// Offset of the ledger.
    pub ledger: Offset,
    /// Heap operations in it.
    pub ops: u32,
    /// Stores in it, after the operations: two words each.
    pub stores: u32,
    /// crc32c of the ledger's words.
    pub ledger_sum: u32,
    /// crc32c of this record with this field zero.
    pub checksum: u32,
    pub reserved: [u64; 2],
}
const _: () = assert!(size_of::<HashState>() == LINE as usize);

/// Segments that a table may have.
pub(crate) const SEGMENTS: usize = 40;
/// Buckets of the first segment.
pub(crate) const FIRST_SEGMENT: u64 = 16;

/// The fixed parts of a table, in the engine's part of the object's prime page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct HashPage {
    pub header: HashHeader,
    /// The newest version, shifted by one, and the state that counts in the lowest bit.
    pub commit: u64,
    pub reserved: [u64; 7],
    pub states: [HashState; 2],
    /// Summed: where each segment lies; 0: not made yet.
    pub segments: [u64; SEGMENTS],
}
const _: () = assert!(size_of::<HashPage>() == 576);

/// Offset of the table's page in the object's prime page.
pub(crate) const PAGE_AT: u64 = 2048;
/// Offset of the commit word in the page.
pub(crate) const COMMIT_AT: u64 = offset_of!(HashPage, commit) as u64;
/// Offsets of the two states.
pub(crate) const STATES_AT: [u64; 2] =
    [offset_of!(HashPage, states) as u64, (offset_of!(HashPage, states) + size_of::<HashState>()) as u64];
/// Offset of the places of segments.
pub(crate) const SEGMENTS_AT: u64 = offset_of!(HashPage, segments) as u64;

/// Words of a ledger that fits the area.
pub(crate) const LEDGER_WORDS: usize = 512;
/// Bytes of the area.
pub(crate) const AREA: u64 = 2 * LEDGER_WORDS as u64 * 8;

/// The beginning of an entry, a block of the heap. The key and the value follow, each padded with
/// zeros to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct EntryHead {
    /// Summed: the next entry of the chain; 0: none.
    pub next: u64,
    /// Summed: the first version that no longer sees it; 0: live.
    pub end: u64,
    /// The first version that sees it.
    pub start: Version,
    /// Hash of the key.
    pub hash: u64,
    pub value_len: u64,
    pub key_len: u32,
    /// Sum of `start` to `key_len`.
    pub head_sum: u32,
    /// Sum of the same, the key and the value.
    pub sum: u32,
    pub reserved: u32,
}
const _: () = assert!(size_of::<EntryHead>() == 56);

/// Bytes before the key of an entry.
pub(crate) const ENTRY_HEAD: u64 = size_of::<EntryHead>() as u64;
/// Offset of `next` in an entry.
pub(crate) const NEXT_AT: u64 = offset_of!(EntryHead, next) as u64;
/// Offset of `end` in an entry.
pub(crate) const END_AT: u64 = offset_of!(EntryHead, end) as u64;
/// The bytes that `head_sum` covers.
const SUMMED: std::ops::Range<usize> = offset_of!(EntryHead, start)..offset_of!(EntryHead, head_sum);

impl EntryHead {
    /// The sum that `head_sum` holds the value of.
    #[inline]
    pub(crate) fn summed(&self) -> Sum {
        Sum::NONE.and(&self.as_bytes()[SUMMED])
    }

    /// Bytes of the whole entry.
    pub(crate) fn size(&self) -> u64 {
        let padded = |len: u64| len.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        ENTRY_HEAD.saturating_add(padded(self.key_len.into())).saturating_add(padded(self.value_len))
    }
}

/// A word that changes in place: 48 bits of an offset or a version, and 16 bits of their sum above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SummedWord(pub u64);

/// One more than the largest number that a [`SummedWord`] holds.
pub(crate) const SUMMED_END: u64 = 1 << 48;

impl SummedWord {
    /// The word of a number below [`SUMMED_END`].
    #[inline]
    pub(crate) fn of(number: u64) -> SummedWord {
        debug_assert!(number < SUMMED_END);
        let sum = crc32c::crc32c(&number.to_le_bytes()[..6]) as u16;
        SummedWord(number | u64::from(sum) << 48)
    }

    /// The number; `None` if a bit of the word has flipped.
    #[inline]
    pub(crate) fn number(self) -> Option<u64> {
        let number = self.0 & (SUMMED_END - 1);
        everbyte_media::sums_agree(SummedWord::of(number), self).then_some(number)
    }
}

impl Checked for HashHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl Checked for HashState {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_flipped_bits_of_a_summed_word_show() {
        for number in [0, 1, 0x1000, 0x7fff_ffff_f000, SUMMED_END - 1] {
            let word = SummedWord::of(number);
            assert_eq!(word.number(), Some(number));
            for one in 0..64 {
                for other in 0..=one {
                    let flipped = SummedWord(word.0 ^ 1 << one ^ u64::from(other != one) << other);
                    assert_eq!(flipped.number(), None, "bits {one} and {other} of {number:#x}");
                }
            }
        }
    }
}
