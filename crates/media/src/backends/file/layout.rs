//! Bytes of the log, and nothing else. Format: docs/formats/media.md, section 2.
//!
//! A record is a header and a payload, padded with zeros to whole sectors. The payload is a list of
//! *runs*: one word with the first line and the number of lines, then the lines' bytes. A run of
//! zero lines is an *allocation*: the next word is a length, and the range was backed before any
//! later line in the log was flushed. A run whose count has its highest bit set is *words* of one
//! line: the low 8 bits are their mask, and these words follow.
//!
//! Invariants
//!   REC-1  A record counts only if its checksum covers its header and its whole payload.
//!   REC-2  A record names the checksum of the record before it, so a record of another lap or life
//!          joins no chain.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The unit that a disk writes whole or not at all. Records start and end on this boundary, so no
/// write of a later record touches a sector of an earlier one.
pub(crate) const SECTOR: u64 = 512;

pub(crate) const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"EVLR");

/// The head of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordHeader {
    /// CRC-32C of everything after this field, payload included, padding not (REC-1).
    pub checksum: u32,
    pub magic: u32,
    /// One more than the record before.
    pub sequence: u64,
    /// The life of the log that wrote it; each recovery begins a new one.
    pub incarnation: u64,
    /// The checksum of the record before (REC-2).
    pub chain: u64,
    /// All records below this sequence were on the medium when this record was written.
    pub synced: u64,
    /// Bytes of payload; a multiple of 8.
    pub payload_len: u64,
    pub reserved: [u64; 2],
}
// one line, and 7/8 of the first sector left for payload
const _: () = assert!(size_of::<RecordHeader>() == 64);

pub(crate) const HEADER_LEN: u64 = size_of::<RecordHeader>() as u64;
pub(crate) const HEADER_WORDS: usize = size_of::<RecordHeader>() / 8;
pub(crate) const LINE_WORDS: usize = 8;

/// The most lines of one run.
pub(crate) const RUN_MAX: u64 = 0x7fff;
/// In place of the count: words of one line follow, those that the low 8 bits name.
pub(crate) const RUN_WORDS: u64 = 0x8000;

/// The word that begins a run: 48 bits of line number, 16 bits of count.
#[inline(always)]
pub(crate) fn run_word(line: u64, count: u64) -> u64 {
    line << 16 | count
}

/// Line number and count of a run.
#[inline(always)]
pub(crate) fn run_parts(word: u64) -> (u64, u64) {
    (word >> 16, word & 0xffff)
}

/// The mask of the words that follow, if the run is words of one line.
#[inline(always)]
pub(crate) fn words_mask(count: u64) -> Option<u8> {
    (count & RUN_WORDS != 0).then_some(count as u8)
}

/// Bytes a record of that payload takes in the log.
#[inline(always)]
pub(crate) fn padded(payload_len: u64) -> u64 {
    (HEADER_LEN + payload_len).next_multiple_of(SECTOR)
}
