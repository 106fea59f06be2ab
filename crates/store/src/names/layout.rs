//! The bytes of the name space: words, head, slabs, nodes. Format: docs/formats/names.md.
//!
//! Everything that changes is one sealed word (`everbyte_space::seal`); a node's head has a
//! checksum and never changes while the node can be reached.

use everbyte_space::{CLUSTER, seal, unseal};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBNAME"`.
pub const HEAD_MAGIC: [u8; 8] = *b"EVRBNAME";
/// The newest format of the name space.
pub const FORMAT: u32 = 1;

/// What the prime page of the name space says behind the object's header. Section 2 of the format
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
    /// The record whose name a change is for, then the blocks it makes or gives back.
    pub const DOUBT: u64 = 640;
    /// Words there.
    pub const DOUBT_WORDS: u64 = 32;
    /// Records that are being made, removed or grown.
    pub const FLIGHT: u64 = 1024;
    /// Words there.
    pub const FLIGHT_WORDS: u64 = 64;
}
const _: () =
    assert!(head::DOUBT + head::DOUBT_WORDS * 8 <= head::FLIGHT && head::FLIGHT + head::FLIGHT_WORDS * 8 <= 4096);

/// What the blocks of a cluster are. The number is the one on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A node of the trie.
    Node = 1,
    /// A container: [`CONTAINER`] entries.
    Container = 2,
    /// A record of the object table.
    Record = 3,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Node, Kind::Container, Kind::Record];

    /// The kind of a number read from media.
    pub fn from_code(code: u64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u64 == code)
    }

    /// Bytes of a block.
    pub fn size(self) -> u64 {
        match self {
            Kind::Node => NODE_HEAD + 256 * 8,
            Kind::Container => CONTAINER * 8,
            Kind::Record => 256,
        }
    }
}

/// Entries of a container: two lines.
pub const CONTAINER: u64 = 16;

/// What tells the first word of a cluster of blocks from others, in its upper half: `SLAB`.
const SLAB_MAGIC: u64 = 0x534c_4142;

/// The word that a cluster of blocks of this kind begins with. Section 3 of the format page.
pub fn slab_word(kind: Kind) -> u64 {
    seal((SLAB_MAGIC << 8 | kind as u64) << 16)
}

/// The kind of a cluster's blocks; `None` if the word is none that exists.
pub fn of_slab_word(word: u64) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| slab_word(*kind) == word)
}

/// Where, from the slab's start, the words lie that say which blocks are taken: 48 bits in each,
/// sealed.
pub const SLAB_BITS: u64 = 64;
/// Words there; of records none is used, they say so themselves.
pub const SLAB_WORDS: u64 = 12;
/// Where its blocks start.
pub const SLAB_BLOCKS: u64 = 256;
const _: () =
    assert!(SLAB_BITS + SLAB_WORDS * 8 <= SLAB_BLOCKS && SLAB_WORDS * 48 >= (CLUSTER - SLAB_BLOCKS) / (CONTAINER * 8));

/// What a node begins with; then come its 256 children. Section 4 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NodeHead {
    /// CRC-32C of these 192 bytes with this field zero.
    pub checksum: u32,
    /// Bytes of the skip in use.
    pub skip_len: u32,
    /// What all names below have in common from here on.
    pub skip: [u8; 128],
    /// Zeros.
    pub reserved: [u8; 56],
}
/// Where a node's children start.
pub const NODE_HEAD: u64 = 192;
const _: () = assert!(size_of::<NodeHead>() as u64 == NODE_HEAD);

impl Head {
    /// The one there is in this format.
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
    /// The one of a node with this skip.
    ///
    /// # Panics
    /// If the skip is longer than a name can be.
    pub fn new(skip: &[u8]) -> NodeHead {
        let mut head = NodeHead { skip_len: skip.len() as u32, ..NodeHead::new_zeroed() };
        head.skip[..skip.len()].copy_from_slice(skip);
        NodeHead { checksum: head.sum(), ..head }
    }

    /// The checksum its fields ask for.
    pub fn sum(&self) -> u32 {
        crc32c::crc32c(NodeHead { checksum: 0, ..*self }.as_bytes())
    }
}

/// A node or a container, and where it lies: what a child word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Which of the two.
    pub kind: Kind,
    /// Where.
    pub at: u64,
}

impl Block {
    /// The word of a child: its place in lines above, its kind below.
    pub fn word(self) -> u64 {
        seal((self.at >> 6 << 8 | self.kind as u64) << 16)
    }

    /// The block a word speaks of; `None` if a bit of the word has changed. Whether a block is
    /// there is for others to say.
    pub fn of_word(word: u64) -> Option<Block> {
        unseal(word).and_then(Block::of_unchecked)
    }

    /// The block that a word speaks of, if no bit of it has changed.
    pub fn of_unchecked(word: u64) -> Option<Block> {
        let value = word >> 16;
        let kind = Kind::from_code(value & 0xff).filter(|kind| *kind != Kind::Record)?;
        Some(Block { kind, at: value >> 8 << 6 })
    }
}

/// Bits of a name's hash in its entry.
const TAG_BITS: u32 = 10;

/// The hash of a name that its entry shows, so that few records are looked at in vain.
pub fn tag(name: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(name)) & ((1 << TAG_BITS) - 1)
}

/// The word of an entry: its record's place above, its name's tag below.
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
