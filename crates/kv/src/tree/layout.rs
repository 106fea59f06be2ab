//! The bytes of a tree on media, and nothing else. Format: docs/formats/tree.md.
//!
//! A node is a header, in leaves a line about what was appended and fingerprints, then an array of
//! key heads, an array of slots, and records. The first `base` slots were written with the node,
//! sorted by key; the last [`APPENDS`] are filled later, in any order, and are sorted by the
//! permutation word `order`.

use crate::tree::key::{TABLE_BITS, TABLE_LEN, TableNumber};
use crate::tree::number::Version;
use crate::tree::record::block_len;
use everbyte_media::{Checked, LINE, Offset};
use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots of a node that may be filled after the node was written: as many as a permutation word can
/// sort.
pub(crate) const APPENDS: usize = 15;
/// Most slots a leaf starts with: as many as it has fingerprints for.
pub(crate) const LEAF_BASE_MAX: usize = 48;
/// Most slots an inner node starts with.
pub(crate) const INNER_BASE_MAX: usize = 128;
/// Most slots an inner node may start with where a batch has ended nearly all: dead entries, up to
/// as many as a full node has, stay in one node with a live one.
pub(crate) const INNER_BASE_LIMIT: usize = INNER_BASE_MAX + 4 * (APPENDS + 1);
/// A leaf whose live records exceed this many bytes is split even when it has few.
pub(crate) const LEAF_BYTES: usize = 6 << 10;
/// Keys up to this many bytes lie in the node; longer ones in a block of their own.
pub(crate) const INLINE_KEY: usize = 256;
/// Values up to this many bytes lie in the leaf; longer ones in a block of their own.
pub(crate) const INLINE_VALUE: usize = 512;
/// Values above this many bytes have a table behind them in their block: a sum for each chunk of so
/// many bytes.
pub(crate) const CHUNK: u64 = 64 << 10;
/// Of a key in a block of its own, this much is repeated in the node.
pub(crate) const OUT_KEY_HEAD: usize = 32;
/// Most bytes of a common prefix kept in the header.
pub(crate) const PREFIX_MAX: usize = 24;
/// Longest key: 16 MiB.
pub const KEY_MAX: usize = 16 << 20;
/// Longest value: 1 TiB less 64 MiB. With the sums of its chunks it fills the largest block.
pub const VALUE_MAX: u64 = (1 << 40) - (64 << 20);
const _: () = assert!(block_len(VALUE_MAX) <= everbyte_heap::BLOCK_MAX);
/// Largest node.
pub(crate) const NODE_MAX: usize = 256 << 10;
/// Largest leaf: as far as a claim reaches.
pub(crate) const LEAF_MAX: usize = 64 << 10;

/// First two bytes of a node.
pub(crate) const NODE_MAGIC: u16 = 0x4e45;

/// The first line of a node. All but `order` is written once.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct NodeHeader {
    pub magic: u16,
    /// 0 for a leaf, else the height above the leaves.
    pub level: u8,
    /// Length of the prefix that all base keys share.
    pub prefix_len: u8,
    /// Slots written with the node.
    pub base: u16,
    pub reserved: u16,
    /// Bytes of the node.
    pub size: u32,
    /// End of the base's records; appended records may begin there.
    pub base_end: u32,
    /// The version that made the node.
    pub birth: Version,
    /// Inner nodes: which appended slots are in use, in key order: count in the low 4 bits, then 4
    /// bits a slot. Leaves: zero.
    pub order: u64,
    /// crc32c of the header with `order` and this field zero.
    pub checksum: u32,
    pub reserved2: u32,
    pub prefix: [u8; PREFIX_MAX],
}
const _: () = assert!(size_of::<NodeHeader>() == 64);

/// Offset of `order` in an inner node: the one word of the header that changes.
pub(crate) const ORDER_AT: usize = offset_of!(NodeHeader, order);
/// Offset of `birth` in a node.
pub(crate) const BIRTH_AT: usize = offset_of!(NodeHeader, birth);
/// Offset of the common prefix in a node.
pub(crate) const PREFIX_AT: usize = offset_of!(NodeHeader, prefix);
const _: () = assert!(ORDER_AT.is_multiple_of(8) && BIRTH_AT.is_multiple_of(8)); // loaded and stored as words
const _: () = assert!(PREFIX_AT.is_multiple_of(8) && PREFIX_MAX.is_multiple_of(8)); // compared a word at a time
/// Bytes of the header that are read when a node is opened: its sizes and what it is.
pub(crate) const SHAPE_WORDS: usize = 2;

/// The second line of a leaf: all that an appended entry changes beside its slot and its record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct AppendLine {
    /// As [`NodeHeader::order`] of inner nodes.
    pub order: u64,
    /// Fingerprints of the appended entries.
    pub fingerprints: [u8; APPENDS + 1],
    /// The places of the records of the appended entries (`claims.rs`).
    pub claims: [u64; CLAIM_WORDS],
}
const _: () = assert!(size_of::<AppendLine>() == LINE as usize);
const _: () = assert!(size_of::<NodeHeader>() == LINE as usize); // and the append line behind it

/// Words of claims.
pub(crate) const CLAIM_WORDS: usize = 5;
/// Offset of the order word in a leaf.
pub(crate) const LEAF_ORDER_AT: usize = size_of::<NodeHeader>() + offset_of!(AppendLine, order);
/// Offset of the fingerprints of a leaf's appended entries.
pub(crate) const APPENDED_FINGERPRINTS_AT: usize = size_of::<NodeHeader>() + offset_of!(AppendLine, fingerprints);
/// Offset of the claims in a leaf.
pub(crate) const CLAIMS_AT: usize = size_of::<NodeHeader>() + offset_of!(AppendLine, claims);
/// Offset of the fingerprints of a leaf's base: one byte for each slot.
pub(crate) const FINGERPRINTS_AT: usize = size_of::<NodeHeader>() + size_of::<AppendLine>();
const _: () = assert!(APPENDED_FINGERPRINTS_AT.is_multiple_of(8) && FINGERPRINTS_AT.is_multiple_of(8)); // read a word at a time
const _: () = assert!(LEAF_BASE_MAX.is_multiple_of(8) && (APPENDS + 1).is_multiple_of(8));

/// Bytes of the field that `of` chooses.
pub(crate) const fn field_size<T, F>(_of: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// The number `$field` of a `$Type`, of which `$words` are the first words, as a `u64`. Does not
/// compile if the field lies elsewhere or crosses a word.
macro_rules! field_of {
    ($words:expr, $Type:ident, $field:ident) => {{
        const AT: usize = std::mem::offset_of!($Type, $field);
        const SIZE: usize = $crate::tree::layout::field_size(|all: &$Type| &all.$field);
        const { assert!(AT / 8 < $crate::tree::layout::SHAPE_WORDS && AT % 8 + SIZE <= 8, "in one of the first words") };
        $words[const { AT / 8 }] << (64 - 8 * (AT % 8 + SIZE)) >> (64 - 8 * SIZE)
    }};
}
pub(crate) use field_of;

/// One entry: which versions see it, where its key is, what it holds. In the slot of an entry that
/// was appended to a leaf, the head of its key takes the place of `value`, which precedes the
/// record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Slot {
    /// First version that sees it; 0: the slot is empty.
    pub start: Version,
    /// First version that no longer sees it; 0: live.
    pub end: Version,
    /// Record offset / 8 (16 bits), key length (25 bits), flags (3 bits), table (20 bits; leaves
    /// only).
    pub place: u64,
    /// Leaf: value length in bytes. Inner: offset of the child.
    pub value: u64,
}
const _: () = assert!(size_of::<Slot>() == 32); // two to a line

/// Bytes of a slot.
pub(crate) const SLOT: u64 = size_of::<Slot>() as u64;
/// Words of a slot.
pub(crate) const SLOT_WORDS: usize = size_of::<Slot>() / 8;
/// Offset of `start` in a slot: it is read before the rest.
pub(crate) const START_AT: u64 = offset_of!(Slot, start) as u64;
const _: () = assert!(START_AT == 0);
/// Offset of `end` in a slot.
pub(crate) const END_AT: u64 = offset_of!(Slot, end) as u64;
/// Offset of `place` in a slot.
pub(crate) const PLACE_AT: u64 = offset_of!(Slot, place) as u64;
/// Offset of `value` in a slot.
pub(crate) const VALUE_AT: u64 = offset_of!(Slot, value) as u64;
/// Bytes of the value's length in front of a record that was appended to a leaf.
pub(crate) const LENGTH: u64 = 8;
/// The key is in a block of its own: the record holds its offset and its first [`OUT_KEY_HEAD`]
/// bytes.
pub(crate) const KEY_OUT: u64 = 1 << FLAGS_AT;
/// The value is in a block of its own: the record holds its offset.
pub(crate) const VALUE_OUT: u64 = 2 << FLAGS_AT;
/// On a dead inner entry: nothing below was moved elsewhere, everything is freed.
pub(crate) const WHOLE: u64 = 4 << FLAGS_AT;
/// First bit of the key's length in [`Slot::place`].
const KEY_LEN_AT: u32 = 16;
/// First bit of the flags.
const FLAGS_AT: u32 = 41;
/// First bit of the table's number.
const TABLE_AT: u32 = 44;
const _: () = assert!(KEY_MAX + TABLE_LEN < 1 << (FLAGS_AT - KEY_LEN_AT)); // of a separator
const _: () = assert!(TABLE_AT + TABLE_BITS == 64);

/// The beginning of a record. The key, or a [`LongKey`], follows, and then, in a leaf, the value or
/// the offset of its block; each starts at a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordSums {
    /// Sum of the key and, in a leaf, of the value or its table.
    pub whole: u32,
    /// Leaf: sum of the key and the value's length.
    pub head: u32,
}
const _: () = assert!(size_of::<RecordSums>() == 8); // read in one piece

/// Offset of the key in a record.
pub(crate) const RECORD_KEY_AT: usize = size_of::<RecordSums>();

/// The key of a record that lies in a block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LongKey {
    /// Offset of the block.
    pub block: Offset,
    /// The first bytes of the key.
    pub head: [u8; OUT_KEY_HEAD],
}
const _: () = assert!(size_of::<LongKey>() == 8 + OUT_KEY_HEAD && offset_of!(LongKey, block) == 0);

/// Bytes of the offset of a value's block in a record.
pub(crate) const LONG_VALUE: usize = 8;

/// Offset of the record in its node that [`Slot::place`] says.
#[inline]
pub(crate) fn record_of(place: u64) -> u64 {
    (place & 0xffff) * 8
}

impl Slot {
    /// The slot of these words.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; SLOT_WORDS]) -> Slot {
        Slot {
            start: Version::new(words[const { START_AT as usize / 8 }]),
            end: Version::new(words[const { END_AT as usize / 8 }]),
            place: words[const { PLACE_AT as usize / 8 }],
            value: words[const { VALUE_AT as usize / 8 }],
        }
    }
    /// Offset of the record in its node.
    #[inline]
    pub(crate) fn record(&self) -> u64 {
        record_of(self.place)
    }
    /// Length of the whole key.
    pub(crate) fn key_len(&self) -> usize {
        (self.place >> KEY_LEN_AT & ((1 << (FLAGS_AT - KEY_LEN_AT)) - 1)) as usize
    }
    /// The table of a leaf's entry.
    pub(crate) fn table(&self) -> TableNumber {
        TableNumber((self.place >> TABLE_AT) as u32)
    }
    /// Whether `flag` is set.
    pub(crate) fn has(&self, flag: u64) -> bool {
        self.place & flag != 0
    }
    /// Bytes of the key part of the record.
    pub(crate) fn key_bytes(&self) -> u64 {
        (if self.has(KEY_OUT) { size_of::<LongKey>() } else { self.key_len().next_multiple_of(8) }) as u64
    }
    /// Bytes of the whole record of a leaf or inner entry.
    pub(crate) fn record_bytes(&self, leaf: bool) -> u64 {
        let value = match leaf {
            true if self.has(VALUE_OUT) => LONG_VALUE as u64,
            // torn slots claim anything
            true => self.value.checked_next_multiple_of(8).unwrap_or(u64::MAX),
            false => 0,
        };
        (RECORD_KEY_AT as u64 + self.key_bytes()).saturating_add(value)
    }
    /// The `place` word of a record at `record` with this key length and flags.
    pub(crate) fn place(record: usize, key_len: usize, flags: u64, table: TableNumber) -> u64 {
        debug_assert!(record.is_multiple_of(8) && record / 8 < 1 << 16);
        (record / 8) as u64 | (key_len as u64) << KEY_LEN_AT | flags | u64::from(table.0) << TABLE_AT
    }
}

/// The state of a committed version: two of these, used alternately; the commit word says which
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct State {
    /// The version that wrote this state; later versions that change nothing here keep using it.
    pub version: Version,
    pub root: Offset,
    /// Live keys of all tables.
    pub keys: u64,
    /// Offset of the ledger of `version`.
    pub ledger: Offset,
    /// Heap operations in it.
    pub ops: u64,
    /// Slots to empty, after the operations.
    pub drops: u64,
    /// crc32c of the ledger's words.
    pub ledger_sum: u32,
    /// crc32c of this record with this field zero.
    pub checksum: u32,
    /// Live keys of the table [`TableNumber::MAIN`].
    pub main_keys: u64,
}
const _: () = assert!(size_of::<State>() == 64);

/// The tree's own page, in the engine's part of the object's prime page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TreeHeader {
    pub magic: [u8; 8],
    pub format: u32,
    /// crc32c of the header with this field zero.
    pub checksum: u32,
    /// The block that holds ledgers and void list.
    pub area: Offset,
    pub reserved: [u64; 5],
}
const _: () = assert!(size_of::<TreeHeader>() == 64);

pub(crate) const TREE_MAGIC: [u8; 8] = *b"EVRBCDDS";
/// Format 2 has another sum than format 1; format 3 adds head sums and tables of chunks; format 4
/// adds the table to keys; format 5 gathers what an appended entry changes in a leaf. No release
/// wrote formats 1 to 4.
pub(crate) const TREE_FORMAT: u32 = 5;

/// The tree's fixed parts, from its header on: each in lines of its own.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TreePage {
    pub header: TreeHeader,
    /// The newest version, shifted by one, and the state that counts in the lowest bit.
    pub commit: u64,
    /// The version at which the tree was closed, or 0.
    pub closed: Version,
    pub reserved: [u64; 6],
    pub states: [State; 2],
}
const _: () = assert!(size_of::<TreePage>() == 256);

/// Offset of the commit word from the tree's header.
pub(crate) const COMMIT_AT: u64 = offset_of!(TreePage, commit) as u64;
/// Offset of the word of a clean close; it is flushed together with the commit word.
pub(crate) const CLOSED_AT: u64 = offset_of!(TreePage, closed) as u64;
/// In the word of a close: an earlier process may have died with stores that no later one has
/// flushed.
pub(crate) const AFTER_DEATH: u64 = 1 << 63;
const _: () = assert!(COMMIT_AT.is_multiple_of(LINE) && CLOSED_AT == COMMIT_AT + 8);
/// Offsets of the two states.
pub(crate) const STATES_AT: [u64; 2] =
    [offset_of!(TreePage, states) as u64, (offset_of!(TreePage, states) + size_of::<State>()) as u64];

/// Readers in other processes that one tree can have at once.
pub(crate) const READERS_MAX: usize = 22;

/// The pin of a reader in another process, in a line of its own.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ReaderSlot {
    /// The number of the reader's process among those that share the store; 0: free.
    pub token: u64,
    /// The oldest version that it reads; 0: none.
    pub version: u64,
    pub reserved: [u64; 6],
}
const _: () = assert!(size_of::<ReaderSlot>() == LINE as usize);

/// The page of readers (`readers.rs`), at the end of the prime page. Nothing of it survives an
/// opening of the store, and nothing is flushed.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ReadersPage {
    /// The object and the opening of the store that the page belongs to.
    pub object: u64,
    pub generation: u64,
    /// The number of the writer's opening of the tree.
    pub opening: u64,
    /// The number of the writer's process; 0: it has closed the tree.
    pub writer: u64,
    /// Versions before this one are not kept.
    pub expired: u64,
    /// Slots that were ever in use.
    pub used: u64,
    pub reserved: [u64; 2],
    /// Odd while the writer publishes, or opens the tree.
    pub sequence: u64,
    pub version: u64,
    pub root: u64,
    pub keys: u64,
    pub main_keys: u64,
    /// Bytes of the store that the version may lie in.
    pub len: u64,
    pub reserved2: [u64; 2],
    pub slots: [ReaderSlot; READERS_MAX],
}
const _: () = assert!(READERS_AT + size_of::<ReadersPage>() as u64 == 4096); // the end of the prime page
const _: () = assert!(offset_of!(ReadersPage, sequence) == LINE as usize);

/// Offset of the page of readers in the prime page: behind the [`TreePage`].
pub(crate) const READERS_AT: u64 = 2560;

/// Words of a ledger that fits the area.
pub(crate) const LEDGER_WORDS: usize = 512;
/// Ranges of the void list.
pub(crate) const VOIDS_MAX: usize = 256;

/// A range of versions that never committed.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct VoidRange {
    pub first: Version,
    pub last: Version,
}
const _: () = assert!(size_of::<VoidRange>() == 16);

/// The block that holds ledgers and void list.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TreeArea {
    pub ledgers: [[u64; LEDGER_WORDS]; 2],
    /// Ranges in use: a line of its own.
    pub void_count: u64,
    pub reserved: [u64; 7],
    pub voids: [VoidRange; VOIDS_MAX],
}
const _: () = assert!(size_of::<TreeArea>() == 12352);

/// Offsets of the two ledgers in the area.
pub(crate) const LEDGERS_AT: [u64; 2] =
    [offset_of!(TreeArea, ledgers) as u64, (offset_of!(TreeArea, ledgers) + LEDGER_WORDS * 8) as u64];
/// Offset of the count of void ranges in the area.
pub(crate) const VOID_COUNT_AT: u64 = offset_of!(TreeArea, void_count) as u64;
/// Offset of the void ranges in the area.
pub(crate) const VOIDS_AT: u64 = offset_of!(TreeArea, voids) as u64;
/// Bytes of a void range.
pub(crate) const VOID_RANGE: u64 = size_of::<VoidRange>() as u64;
/// Bytes of the area.
pub(crate) const AREA: u64 = size_of::<TreeArea>() as u64;
const _: () = assert!(VOID_COUNT_AT < VOIDS_AT && VOIDS_AT + VOIDS_MAX as u64 * VOID_RANGE == AREA);

impl Checked for TreeHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl Checked for State {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl Checked for NodeHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }

    fn fixed(self) -> NodeHeader {
        NodeHeader { order: 0, ..self }
    }
}
