//! The bytes of a word log and nothing else. Format: docs/formats/word-log.md.
//!
//! A header line, a line for the head word, a line for the tail word (base form), then the ring of
//! words.

use crate::journal::layout::fold;
use everbyte_media::Checked;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first bytes of a word log.
pub(crate) const MAGIC: [u8; 8] = *b"EVRBWORD";
/// The newest word-log format this program reads and writes.
pub(crate) const FORMAT: u32 = 1;
/// Offset of the head word from the log's start: the consumer's line.
pub(crate) const HEAD_AT: u64 = 64;
/// Offset of the tail word from the log's start: the producer's line. Base form only.
pub(crate) const TAIL_AT: u64 = 128;
/// Offset of the ring from the log's start.
pub(crate) const RING_AT: u64 = 192;
/// Bit 63 of a ring word in the torn-bit form.
pub(crate) const TORN: u64 = 1 << 63;

/// The first line of a word log.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RingHeader {
    pub magic: [u8; 8],
    /// Covers the line with this field zero.
    pub checksum: u32,
    pub format: u32,
    /// Mixed into every checksum of the log.
    pub salt: u64,
    /// Words of the ring.
    pub words: u64,
    /// 1 torn-bit form, 2 base form.
    pub form: u64,
    pub reserved: [u8; 24],
}
const _: () = assert!(size_of::<RingHeader>() == 64);

impl Checked for RingHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// Positions count words since creation, in 56 bits: eighteen years at a gigabyte a second. The
/// place in the ring is the remainder by its size, the lap the quotient: position and lap in one
/// durable word.
pub(crate) const POSITION: u64 = (1 << 56) - 1;

/// Head and tail words: a position under 8 check bits.
pub(crate) fn position_word(salt: u64, position: u64) -> u64 {
    position | fold(salt ^ 0x9e37_79b9_7f4a_7c15, position ^ 0x1319_8a2e_0370_7345) << 56
}

/// The words that follow a record's first one, in a record's first one.
pub(crate) const LENGTH: u64 = (1 << 31) - 1;

/// A record's first word, without its torn bit: payload words in bits 0..31, a hash of payload and
/// position in 31..63.
///
/// Four lanes, so that the products overlap: a record of 8 KiB is hashed in 0.4 us where one lane
/// takes 1.3.
pub(crate) fn record_word(salt: u64, position: u64, payload: &[u64]) -> u64 {
    const KEYS: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];
    let start = fold(salt ^ KEYS[0], position ^ (payload.len() as u64) << 32 ^ KEYS[2]);
    let mut lanes = KEYS.map(|key| start ^ key);
    let blocks = payload.chunks_exact(8);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, pair) in block.chunks_exact(2).enumerate() {
            lanes[lane] = fold(lanes[lane] ^ pair[0], pair[1] ^ KEYS[lane]);
        }
    }
    let mut hash = start;
    if payload.len() >= 8 {
        hash = fold(lanes[0] ^ lanes[1].rotate_left(17), lanes[2] ^ lanes[3].rotate_left(43));
    }
    for &word in rest {
        hash = fold(hash ^ word, 0x4528_21e6_38d0_1377);
    }
    payload.len() as u64 | (hash >> 13 & 0xffff_ffff) << 31
}
