//! The bytes of the name space: words, head, slabs, nodes. Format: docs/formats/names.md.
//!
//! Each change is a store of one sealed word (`everbyte_media::sealed::seal`). A node's head has a
//! checksum and never changes while a word leads to the node.

use everbyte_media::Checked;
use everbyte_media::sealed::{seal, unseal};
use everbyte_space::CLUSTER;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBNAME"`.
pub const HEAD_MAGIC: [u8; 8] = *b"EVRBNAME";
/// The newest format of the name space.
pub const FORMAT: u32 = 1;

/// The head of the trie in the prime page, behind the header of the object. Section 2 of the format
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// [`HEAD_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// Zeros.
    pub reserved: [u8; 48],
}
const _: () = assert!(size_of::<Head>() == 64);

/// Places in the prime page.
pub mod head {
    /// [`super::Head`].
    pub const AT: u64 = 512;
    /// The child that is the trie's root; alone in its line.
    pub const ROOT: u64 = 576;
    /// The intent list: the record whose name a change of form is for, then the blocks that the
    /// change makes or gives back.
    pub const INTENT: u64 = 640;
    /// Words of the intent list.
    pub const INTENT_WORDS: u64 = 32;
    /// The list of pending changes: records that are being made, removed or grown.
    pub const PENDING: u64 = 1024;
    /// Words of the list of pending changes.
    pub const PENDING_WORDS: u64 = 64;
}
const _: () =
    assert!(head::INTENT + head::INTENT_WORDS * 8 <= head::PENDING && head::PENDING + head::PENDING_WORDS * 8 <= 4096);

/// The kind of the blocks of a cluster. The number is the one on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// A node of the trie.
    Node = 1,
    /// A container: [`CONTAINER`] entries.
    Container = 2,
    /// A record of the object table.
    Record = 3,
}

impl BlockKind {
    /// All of them.
    pub const ALL: [BlockKind; 3] = [BlockKind::Node, BlockKind::Container, BlockKind::Record];

    /// The kind of a number read from media.
    pub fn from_code(code: u64) -> Option<BlockKind> {
        BlockKind::ALL.into_iter().find(|kind| *kind as u64 == code)
    }

    /// Bytes of a block.
    pub fn size(self) -> u64 {
        match self {
            BlockKind::Node => NODE_HEAD + 256 * 8,
            BlockKind::Container => CONTAINER * 8,
            BlockKind::Record => 256,
        }
    }
}

/// Entries of a container: two lines.
pub const CONTAINER: u64 = 16;

/// The upper half of the first word of a cluster of blocks: `SLAB`.
const SLAB_MAGIC: u64 = 0x534c_4142;

/// The word that a cluster of blocks of this kind begins with. Section 3 of the format page.
pub fn slab_word(kind: BlockKind) -> u64 {
    seal((SLAB_MAGIC << 8 | kind as u64) << 16)
}

/// The kind of a cluster's blocks; `None` for a word of no kind.
pub fn of_slab_word(word: u64) -> Option<BlockKind> {
    BlockKind::ALL.into_iter().find(|kind| slab_word(*kind) == word)
}

/// The offset from the slab's start of the words that mark taken blocks: 48 bits in each, sealed.
pub const SLAB_BITS: u64 = 64;
/// The number of these words. A slab of records uses none: the state words of records tell.
pub const SLAB_WORDS: u64 = 12;
/// The offset of the first block from the slab's start.
pub const SLAB_BLOCKS: u64 = 256;
const _: () =
    assert!(SLAB_BITS + SLAB_WORDS * 8 <= SLAB_BLOCKS && SLAB_WORDS * 48 >= (CLUSTER - SLAB_BLOCKS) / (CONTAINER * 8));

/// The head of a node; its 256 children follow. Section 4 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NodeHead {
    /// CRC-32C of these 192 bytes with this field zero.
    pub checksum: u32,
    /// Bytes of the skip in use.
    pub skip_len: u32,
    /// The bytes that all names below have in common from here on.
    pub skip: [u8; 128],
    /// Zeros.
    pub reserved: [u8; 56],
}
/// The offset of a node's first child.
pub const NODE_HEAD: u64 = 192;
const _: () = assert!(size_of::<NodeHead>() as u64 == NODE_HEAD);

impl Head {
    /// The only head in this format.
    pub fn new() -> Head {
        let head = Head { magic: HEAD_MAGIC, format: FORMAT, ..Head::new_zeroed() };
        Head { checksum: crc32c::crc32c(head.as_bytes()), ..head }
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

impl NodeHead {
    /// The head of a node with this skip.
    ///
    /// # Panics
    /// If the skip is longer than a name can be.
    pub fn new(skip: &[u8]) -> NodeHead {
        let mut head = NodeHead { skip_len: skip.len() as u32, ..NodeHead::new_zeroed() };
        head.skip[..skip.len()].copy_from_slice(skip);
        head.sealed()
    }
}

impl Checked for NodeHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// A node or a container: the content of a child word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Node or container.
    pub kind: BlockKind,
    /// Its offset.
    pub at: u64,
}

impl Block {
    /// The word of a child: its offset in lines in the upper bits, its kind in the lower ones.
    pub fn word(self) -> u64 {
        seal((self.at >> 6 << 8 | self.kind as u64) << 16)
    }

    /// The block that a word names; `None` if a bit of the word has changed. The caller checks that
    /// a block lies there.
    pub fn of_word(word: u64) -> Option<Block> {
        unseal(word).and_then(Block::of_unchecked)
    }

    /// The block that a word names, provided that no bit of the word has changed.
    pub fn of_unchecked(word: u64) -> Option<Block> {
        let value = word >> 16;
        let kind = BlockKind::from_code(value & 0xff).filter(|kind| *kind != BlockKind::Record)?;
        Some(Block { kind, at: value >> 8 << 6 })
    }
}

/// Bits of a name's hash in its entry.
const TAG_BITS: u32 = 10;

/// The hash of a name in its entry. It spares most looks at records of other names.
pub fn tag(name: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(name)) & ((1 << TAG_BITS) - 1)
}

/// The word of an entry: its record's offset in the upper bits, its name's tag in the lower ones.
pub fn entry_word(record: u64, name: &[u8]) -> u64 {
    seal((record >> 8 << TAG_BITS | tag(name)) << 16)
}

/// The record and the tag of an entry's word; `None` if a bit of it has changed.
pub fn of_entry_word(word: u64) -> Option<(u64, u64)> {
    let value = unseal(word)? >> 16;
    Some((value >> TAG_BITS << 8, value & ((1 << TAG_BITS) - 1)))
}

/// Whether an entry's word, if it is undamaged, has this tag.
pub fn may_have_tag(word: u64, tag: u64) -> bool {
    word >> 16 & ((1 << TAG_BITS) - 1) == tag
}

/// The word that names a record.
pub fn record_word(record: u64) -> u64 {
    seal(record >> 8 << 16)
}

/// The record that a word names; `None` if a bit of it has changed.
pub fn of_record_word(word: u64) -> Option<u64> {
    Some(unseal(word)? >> 16 << 8)
}
