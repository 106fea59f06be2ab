//! The bytes of an undo journal and nothing else. Format: docs/formats/undo-journal.md.
//!
//! A lane is a header line, a line with the lane word and 56 bytes of its owner's, and lines of
//! entries; its last line is kept for the link to a further segment. A further segment is entry
//! lines alone, the last kept likewise.

use everbyte_media::{Checked, Length};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first bytes of a lane.
pub(crate) const MAGIC: [u8; 8] = *b"EVRBUNDO";
/// The newest journal format this program reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// Bytes of an entry, of a header, and of everything's alignment.
pub(crate) const LINE: u64 = 64;
/// Offset of the lane word from the lane's start.
pub(crate) const WORD_AT: u64 = 64;
/// Offset of the owner's bytes from the lane's start. The journal never reads them.
pub(crate) const OWNER_AT: u64 = 72;
/// Number of the owner's bytes.
pub(crate) const OWNER_BYTES: u64 = 56;
/// Offset of the entries from the lane's start.
pub(crate) const ENTRIES_AT: u64 = 128;
/// Old bytes that one entry holds.
pub(crate) const INLINE: u64 = 48;
/// Old bytes that the header line of a bulk entry holds; the rest follows in lines of its own.
pub(crate) const BULK_INLINE: u64 = 32;

/// The first line of a lane.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LaneHeader {
    pub magic: [u8; 8],
    /// Covers the line with this field zero.
    pub checksum: u32,
    pub format: u32,
    /// Mixed into every checksum of the lane, so that entries of another lane or of an earlier
    /// format of the same bytes are never valid.
    pub salt: u64,
    /// Bytes of the lane, this line included.
    pub len: Length,
    pub reserved: [u8; 32],
}
const _: () = assert!(size_of::<LaneHeader>() == LINE as usize);

/// One line of the journal.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct JournalEntry {
    /// The generation's low 16 bits; above them 48 bits of a hash that covers `place` and `data`,
    /// the whole generation, the lane's salt and this line's own position.
    pub proof: u64,
    /// Target offset in bits 0..48, bytes of `data` used in 48..56, kind in 56..64.
    pub place: u64,
    pub data: [u8; INLINE as usize],
}
const _: () = assert!(size_of::<JournalEntry>() == LINE as usize);

/// `data` of a bulk entry.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct BulkData {
    /// Old bytes in all, those in `first` included.
    pub len: Length,
    /// Checksum of the old bytes after the first 32.
    pub rest_sum: u32,
    pub reserved: u32,
    pub first: [u8; BULK_INLINE as usize],
}
const _: () = assert!(size_of::<BulkData>() == INLINE as usize);

/// The kind of an entry; the top byte of `place`. Zero is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// 1..=48 old bytes of `place`'s target.
    Range = 1,
    /// A long range: [`BulkData`], then whole lines of old bytes, the last padded with zeros.
    Bulk = 2,
    /// Up to three pairs of an offset and the old word found there.
    Words = 3,
    /// Up to six operations, opaque here.
    Ops = 4,
    /// The chain goes on in the segment at `place`'s target, whose length is the first word of
    /// `data`.
    Link = 5,
}

impl EntryKind {
    pub(crate) fn of(place: u64) -> Option<EntryKind> {
        match (place >> 56) as u8 {
            1 => Some(EntryKind::Range),
            2 => Some(EntryKind::Bulk),
            3 => Some(EntryKind::Words),
            4 => Some(EntryKind::Ops),
            5 => Some(EntryKind::Link),
            _ => None,
        }
    }
}

/// Packs target, length and kind of an entry into one word.
#[inline(always)]
pub(crate) fn place(kind: EntryKind, target: u64, len: u64) -> u64 {
    debug_assert!(target < 1 << 48 && len <= INLINE);
    target | len << 48 | (kind as u64) << 56
}

/// Target offset of an entry.
#[inline(always)]
pub(crate) fn target(place: u64) -> u64 {
    place & ((1 << 48) - 1)
}

/// Bytes of `data` in use.
#[inline(always)]
pub(crate) fn used(place: u64) -> u64 {
    place >> 48 & 0xff
}

/// Generations count in 48 bits: nine years at a million transactions a second and lane.
pub(crate) const GENERATION: u64 = (1 << 48) - 1;
/// Set in the lane word from commit to retirement.
pub(crate) const COMMITTED: u64 = 1 << 63;

/// The lane word: committed or not, 15 check bits, the generation. `digest` stands for the
/// operations that the commit makes valid and is 0 while nothing is committed.
#[inline]
pub(crate) fn lane_word(salt: u64, generation: u64, committed: bool, digest: u64) -> u64 {
    let state = generation & GENERATION | if committed { COMMITTED } else { 0 };
    state | (fold(salt ^ KEYS[0] ^ digest, state ^ KEYS[1]) & 0x7fff) << 48
}

/// The start value of the checksums of one generation.
#[inline]
pub(crate) fn seed(salt: u64, generation: u64) -> u64 {
    fold(salt ^ KEYS[2], generation ^ KEYS[3])
}

impl JournalEntry {
    /// The proof of an entry at `at`: a hash of four products. It reads the line once, in parallel,
    /// and costs 2 ns where a CRC of 56 bytes costs 19. A CRC detects bursts, but torn lines are
    /// mixtures of words.
    #[inline]
    pub(crate) fn proof(&self, seed: u64, generation: u64, at: u64) -> u64 {
        let word =
            |index: usize| u64::from_le_bytes(self.data[8 * index..8 * index + 8].try_into().expect("eight bytes"));
        let one = fold(self.place ^ KEYS[0] ^ seed, at ^ KEYS[1] ^ seed.rotate_left(32));
        let two = fold(word(0) ^ KEYS[1] ^ seed, word(1) ^ KEYS[2]);
        let three = fold(word(2) ^ KEYS[2] ^ seed, word(3) ^ KEYS[3]);
        let four = fold(word(4) ^ KEYS[3] ^ seed, word(5) ^ KEYS[0]);
        let sum =
            fold(one.wrapping_add(two.rotate_left(17)) ^ KEYS[0], three.wrapping_add(four.rotate_left(43)) ^ KEYS[3]);
        generation & 0xffff | sum << 16
    }
}

/// Odd constants without a pattern: the first 256 bits of the fraction of pi.
const KEYS: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

/// The two halves of a product, folded: each bit of the result depends on all bits of both.
#[inline(always)]
pub(crate) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Checked for LaneHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
