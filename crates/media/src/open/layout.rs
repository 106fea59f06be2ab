//! Bytes of the media head, and nothing else. Format: docs/formats/media.md, section 1. The log's
//! bytes are described in `backends/file/layout.rs`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offsets of the two copies.
pub(crate) const COPIES: [u64; 2] = [8 << 10, 12 << 10];
/// Bytes below this belong to the superblock and the heads; logs and spans start later.
pub const HEAD_END: u64 = 16 << 10;

pub(crate) const MAGIC: [u8; 8] = *b"EVRBMDIA";
/// The newest media format this program reads, and the one it writes. 1 had no `log_room`, nor
/// lives and words in its log; 2 had no map of chunks.
pub const FORMAT: u32 = 3;

/// One copy of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    pub magic: [u8; 8],
    /// Covers every other byte of the head (HEAD-1).
    pub checksum: u32,
    pub format: u32,
    /// Larger is newer.
    pub sequence: u64,
    /// The declared maximum of the store in bytes; the mapping reserves as much.
    pub max: u64,
    /// The length of the store. Without a map of chunks, a shorter file has been truncated from
    /// outside.
    pub file_len: u64,
    pub log_at: u64,
    pub log_len: u64,
    /// 0: the log was never used and is not backed. 1: it is preallocated and zeroed.
    pub log_ready: u64,
    /// Offset of the first record not yet checkpointed, relative to `log_at`.
    pub log_head: u64,
    /// The sequence number of that record; the first is 1.
    pub log_sequence: u64,
    /// The checksum of the record before it, to which it is chained.
    pub log_chain: u64,
    /// Raised by each recovery of the log: records of an earlier life never join a later chain.
    pub incarnation: u64,
    /// 1: the log is empty and stays so until a head says 0; opening need not read it.
    pub log_clean: u64,
    /// All records below this sequence were on the medium when this head was written.
    pub log_synced: u64,
    /// Length of the ring: the first bytes of the log, which are backed and hold the records.
    pub log_room: u64,
    /// The address the store is bound to; 0: it maps anywhere.
    pub binding: u64,
    /// Length of the linear part, whose offsets are the same in the file and in the store; the map
    /// of chunks lies behind it. 0: the whole file is linear.
    pub map_at: u64,
    pub reserved: [u8; 376],
}
const _: () = assert!(size_of::<Head>() == 512);
