//! The bytes of cold clusters: the head of a cold table, the head of a backing file. Format:
//! docs/formats/swap.md.

use everbyte_media::{Checked, Length};
use everbyte_space::ObjectId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The head of a cold table. Section 2 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ColdHeader {
    /// [`COLD_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the 4096 bytes with this field zero.
    pub checksum: u32,
    /// Bytes of the path of the backing file; 0: the file lies beside the store.
    pub path_len: u32,
    /// Random; the backing file of this table bears the same.
    pub pair: [u8; 16],
    /// The path; zeros after it.
    pub path: [u8; 4064],
}
const _: () = assert!(size_of::<ColdHeader>() == 4096);

/// The head of a backing file. Section 1 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SwapHeader {
    /// [`SWAP_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 4096 bytes with this field zero.
    pub checksum: u32,
    /// [`SWAP_FORMAT`].
    pub format: u32,
    /// The identity of the store, as in its superblock when the file was made.
    pub store: [u8; 16],
    /// The id of the object.
    pub object: ObjectId,
    /// Bytes of a slot: 65536.
    pub slot: Length,
    /// As in the cold table.
    pub pair: [u8; 16],
    /// Bytes of the path of the store; 0: the file lies beside it.
    pub home_len: u32,
    /// Zeros.
    pub reserved: [u8; 4],
    /// The path of the store that the file was given to; zeros after it.
    pub home: [u8; 4024],
}
const _: () = assert!(size_of::<SwapHeader>() == SWAP_SLOTS as usize);

/// `b"EVRBCOLD"`.
pub const COLD_MAGIC: [u8; 8] = *b"EVRBCOLD";
/// `b"EVRBSWAP"`.
pub const SWAP_MAGIC: [u8; 8] = *b"EVRBSWAP";
/// The newest format of backing files that this program reads and writes.
pub const SWAP_FORMAT: u32 = 2;
/// The offset of the first slot in a backing file.
pub const SWAP_SLOTS: u64 = 4096;
/// The word of a cold cluster of zeros, which has no slot.
pub const COLD_ZEROS: u64 = 0xffff_ffff << 32;

impl Checked for ColdHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl Checked for SwapHeader {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
