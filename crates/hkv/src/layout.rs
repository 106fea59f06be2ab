//! The bytes of a hash store. Format: docs/formats/hkv.md.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBHKVH"`.
pub const HASH_MAGIC: [u8; 8] = *b"EVRBHKVH";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 1;
/// Buckets of the first segment; each further one has as many as all before it.
pub const FIRST_SEGMENT: u64 = 16;
/// Segments that a root can name.
pub const SEGMENTS: usize = 40;

/// The root of a hash store; the object's root word leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HashRoot {
    /// [`HASH_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// What keys are hashed under.
    pub seed: [u64; 2],
    /// Zeros.
    pub reserved: [u8; 32],
    /// Buckets in use; grows by one.
    pub buckets: u64,
    /// Zeros; the word has a line of its own.
    pub reserved_buckets: [u8; 56],
    /// Where the segments lie; 0: not made yet.
    pub segments: [u64; SEGMENTS],
}
const _: () = assert!(size_of::<HashRoot>() == 448);

/// Bytes of the root that its checksum covers.
pub const ROOT_FIXED: usize = 64;
/// Offset of [`HashRoot::buckets`].
pub const BUCKETS_AT: u64 = std::mem::offset_of!(HashRoot, buckets) as u64;
/// Offset of [`HashRoot::segments`].
pub const SEGMENTS_AT: u64 = std::mem::offset_of!(HashRoot, segments) as u64;

/// Bytes of a bucket: one line, of seven slots and a link.
pub const BUCKET: u64 = 64;
/// Slots of a bucket.
pub const SLOTS: u64 = 7;
/// Offset of the link to the next bucket of a chain; 0: none.
pub const LINK: u64 = SLOTS * 8;

/// A slot is the upper 16 bits of a hash and where the record lies; 0: empty.
pub const PLACE_BITS: u32 = 48;

/// What lies before the key and the value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHead {
    /// The hash of the key.
    pub hash: u64,
    /// Bytes of the key, which follows.
    pub key_len: u32,
    /// Bytes of the value, which follows the key.
    pub value_len: u32,
    /// CRC-32C of hash, lengths, key and value.
    pub checksum: u32,
    /// Zeros.
    pub reserved: u32,
}
const _: () = assert!(size_of::<RecordHead>() == 24);

/// Bytes of a record's head.
pub const RECORD_HEAD: u64 = size_of::<RecordHead>() as u64;

impl HashRoot {
    /// The checksum its fields ask for.
    pub fn sum(&self) -> u32 {
        crc32c::crc32c(&HashRoot { checksum: 0, ..*self }.as_bytes()[..ROOT_FIXED])
    }
}

impl RecordHead {
    /// The checksum its fields, the key and the value ask for.
    pub fn sum(&self, key: &[u8], value: &[u8]) -> u32 {
        let head = RecordHead { checksum: 0, ..*self };
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(head.as_bytes()), key), value)
    }
}
