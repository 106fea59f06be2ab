//! The bytes of the stores of this crate. Format: docs/formats/hkv.md.

use everbyte_media::{Checked, Offset};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBHKVH"`.
pub const HASH_MAGIC: [u8; 8] = *b"EVRBHKVH";
/// `b"EVRBHKVT"`.
pub const TREE_MAGIC: [u8; 8] = *b"EVRBHKVT";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 3;
/// Buckets of the first segment; each further one has as many as all before it.
pub const FIRST_SEGMENT: u64 = 16;
/// Segments that a root can name.
pub const SEGMENTS: usize = 40;

/// The head of the root of every store, at the object's root word. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RootHead {
    /// [`HASH_MAGIC`] or [`TREE_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// The seed of the hash of keys; zeros in a tree.
    pub seed: [u64; 2],
    /// Zeros.
    pub reserved: [u8; 32],
}
const _: () = assert!(size_of::<RootHead>() == 64);

/// The root of a hash store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HashRoot {
    /// The common head.
    pub head: RootHead,
    /// Buckets in use; grows by four, or by one.
    pub buckets: u64,
    /// Zeros; the word has a line of its own.
    pub reserved_buckets: [u8; 56],
    /// Offsets of the segments; 0: not made yet.
    pub segments: [Offset; SEGMENTS],
}
const _: () = assert!(size_of::<HashRoot>() == 448);

/// Offset of [`HashRoot::buckets`].
pub const BUCKETS_AT: u64 = std::mem::offset_of!(HashRoot, buckets) as u64;
/// Offset of [`HashRoot::segments`].
pub const SEGMENTS_AT: u64 = std::mem::offset_of!(HashRoot, segments) as u64;

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TreeRoot {
    /// The common head.
    pub head: RootHead,
    /// Offset of the topmost node.
    pub top: Offset,
    /// Zeros; the word has a line of its own.
    pub reserved_top: [u8; 56],
}
const _: () = assert!(size_of::<TreeRoot>() == 128);

/// Offset of [`TreeRoot::top`].
pub const TOP_AT: u64 = std::mem::offset_of!(TreeRoot, top) as u64;

/// Slots of a node of a tree.
pub const FAN_OUT: usize = 14;

/// A node of a tree: four lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Node {
    /// Fourteen nibbles, the lowest first: the slots in use in the order of their keys, then the
    /// others. The highest byte is how many are in use.
    pub order: u64,
    /// 0: a leaf.
    pub level: u32,
    /// Bytes that all keys of this node's range have in common: prefixes begin behind them.
    pub skip: u32,
    /// The record with the least key of this node's range; 0: the range has no lower bound.
    pub low: Offset,
    /// Zeros.
    pub reserved: u64,
    /// The slots.
    pub slots: [NodeSlot; FAN_OUT],
}
const _: () = assert!(size_of::<Node>() == 256);

/// Bytes of a node.
pub const NODE: u64 = size_of::<Node>() as u64;
/// Offset of [`Node::low`].
pub const LOW_AT: u64 = std::mem::offset_of!(Node, low) as u64;
/// Offset of [`Node::slots`].
pub const SLOTS_AT: u64 = std::mem::offset_of!(Node, slots) as u64;

/// A slot of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NodeSlot {
    /// Eight bytes of the key, the first of them the highest, behind the node's [`Node::skip`]; a
    /// shorter key ends in zeros. In an inner node, of the child's [`Node::low`]; unused in its
    /// first slot.
    pub prefix: u64,
    /// Offset of the record; in an inner node, of the child.
    pub place: Offset,
}
const _: () = assert!(size_of::<NodeSlot>() == 16);

/// Offset of [`NodeSlot::prefix`].
pub const PREFIX_AT: u64 = std::mem::offset_of!(NodeSlot, prefix) as u64;
/// Offset of [`NodeSlot::place`].
pub const PLACE_AT: u64 = std::mem::offset_of!(NodeSlot, place) as u64;

/// Bytes of a bucket: one line, of seven slots and a link.
pub const BUCKET: u64 = 64;
/// Slots of a bucket.
pub const SLOTS: u64 = 7;
/// Offset of the link to the next bucket of a chain; 0: none.
pub const LINK: u64 = SLOTS * 8;

/// A slot is the upper 16 bits of a hash and the offset of the record; 0: empty.
pub const PLACE_BITS: u32 = 48;

/// Offset of the first of two log records from the object's prime page.
pub const LOG_RECORD_AT: u64 = 2176;
/// Distance between the two log records.
pub const LOG_RECORD_STEP: u64 = 64;
/// Words of a log record, which is a line: a check, up to four operations of the heap, and up to
/// three places and words.
///
/// The check is 56 bits of a hash; above them the lap of the log record, three bits, the number of
/// operations, three, and that of places, two.
pub const LOG_RECORD_WORDS: usize = 8;

/// The head of a record, before the key and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordHead {
    /// The hash of the key; 0 in a tree.
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

impl RootHead {
    /// The head of a new store.
    pub fn new(magic: [u8; 8], seed: [u64; 2]) -> RootHead {
        let head = RootHead { magic, checksum: 0, format: FORMAT, seed, reserved: [0; 32] };
        head.sealed()
    }
}

impl Checked for RootHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl RecordHead {
    /// The checksum of its fields, the key and the value.
    pub fn sum(&self, key: &[u8], value: &[u8]) -> u32 {
        let head = RecordHead { checksum: 0, ..*self };
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(head.as_bytes()), key), value)
    }
}
