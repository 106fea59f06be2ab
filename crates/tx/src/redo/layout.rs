//! The bytes of the redo engine, beside its lane table and its word logs. Format:
//! docs/formats/redo.md.

use crate::layout::TABLE;

/// `b"EVRBREDO"`: what the lane table of this engine begins with. Its lanes are word logs.
pub const MAGIC: [u8; 8] = *b"EVRBREDO";
/// Offset of the floor in the prime page, on a line of its own: the timestamp up to which records
/// are nothing any more, sealed by `seal_low`.
pub const FLOOR: u64 = TABLE + 128;
/// End of the engine's part of the prime page.
pub const ENGINE_END: u64 = FLOOR + 64;

/// Timestamps are less: nine years at a million transactions a second.
pub const TIMESTAMPS: u64 = 1 << 48;
/// No transaction begins once the clock has come here. Each takes at most two timestamps after it
/// has begun, so those that run then stay below [`TIMESTAMPS`].
pub const TIMESTAMPS_LAST: u64 = TIMESTAMPS - (1 << 24);

/// The format of the lane table of this engine, and of its records.
pub const FORMAT: u32 = 2;

/// Bits 48..64 of a record's first word: operations and runs follow in the record itself.
pub const WHOLE: u64 = 1 << 48;
/// Bits 48..64 of a record's first word: they lie in extents, which the record names.
pub const SPILLED: u64 = 2 << 48;
/// Words before them: timestamp and form; operations in bits 0..32, words of runs in 32..64.
pub const HEAD: usize = 2;
/// Zeros that may follow a record, so that the next one begins on a line.
pub const PADDING_MAX: usize = 7;
/// Words by which a record names an extent: place, words in it, CRC-32C of them.
pub const EXTENT: usize = 3;

/// Words of the longest run.
pub const RUN_MAX: u64 = 255;
/// Places are less: no mapping is longer.
pub const PLACES: u64 = 1 << 48;
/// One word more, in a run's first word.
pub const RUN_ONE: u64 = 1 << 56;

/// The first word of a run of one: where, and which of the eight bytes. The values follow.
pub fn pack_run(at: u64, mask: u8) -> u64 {
    debug_assert!(at < PLACES);
    at | u64::from(mask) << 48 | RUN_ONE
}

/// Start of a run, the mask of bytes of each word, number of words.
pub fn unpack_run(word: u64) -> (u64, u8, u64) {
    (word & (PLACES - 1), (word >> 48) as u8, word >> 56)
}
