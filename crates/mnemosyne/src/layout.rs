//! The bytes of a program's object. Format: docs/formats/program.md.

use everbyte_media::{Checked, Length, Offset};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBPROG"`.
pub const MAGIC: [u8; 8] = *b"EVRBPROG";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 1;
/// Bytes of a build's identity that are kept.
pub const BUILD_MAX: usize = 32;

/// The block at the object's root word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProgramHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 128 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// Bytes of the variables: whole pages.
    pub variables_len: Length,
    /// A hash of the variables' names, offsets and sizes; 0: not known.
    pub layout: u64,
    /// Bytes of `build` in use; 0: not known.
    pub build_len: Length,
    /// The linker's identity of the build that created this object, cut at [`BUILD_MAX`].
    pub build: [u8; BUILD_MAX],
    /// Zeros.
    pub reserved: [u8; 56],
    /// Offset of the variables: whole pages.
    pub variables: Offset,
    /// Offset of the path of the executable: a word with its length in bytes, and the bytes; 0: not
    /// known.
    pub path: Offset,
    /// Offset of the first page of the table of regions; 0: there is none yet.
    pub regions: Offset,
    /// Zeros.
    pub reserved_words: [u64; 13],
}
const _: () = assert!(size_of::<ProgramHeader>() == 256);

/// Bytes of the header that its checksum covers.
pub const HEADER_FIXED: usize = 128;
/// Offset of [`ProgramHeader::variables`].
pub const VARIABLES_AT: u64 = std::mem::offset_of!(ProgramHeader, variables) as u64;

/// Offset of [`ProgramHeader::path`].
pub const PATH_AT: u64 = std::mem::offset_of!(ProgramHeader, path) as u64;

/// Offset of [`ProgramHeader::regions`].
pub const REGIONS_AT: u64 = std::mem::offset_of!(ProgramHeader, regions) as u64;

/// A piece of a region: one line of a page of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Piece {
    /// [`FREE`], [`MAKING`], [`LIVE`] or [`CUTTING`].
    pub state: u64,
    /// The region's number, the end of its object's name.
    pub number: u64,
    /// Offset of its first byte: a whole page.
    pub at: Offset,
    /// Bytes: whole pages; 0: given up.
    pub len: Length,
    /// The access of the program: bits of `mprotect`.
    pub access: u64,
    /// While `MAKING`: the word that receives its address.
    pub target: Offset,
    /// While `MAKING`: the earlier value of that word.
    pub old: u64,
    /// While `CUTTING`: the line of the piece that it was part of, counted from 0 over all pages.
    pub parent: u64,
}
const _: () = assert!(size_of::<Piece>() == 64); // one line

/// An unused line.
pub const FREE: u64 = 0;
/// Its object is being created: recovery undoes it.
pub const MAKING: u64 = 1;
/// A piece in use.
pub const LIVE: u64 = 2;
/// A piece cut off another one, valid after that one has shrunk.
pub const CUTTING: u64 = 3;
/// Bytes of a page of the table: a line that begins with the offset of the next page, then pieces.
pub const PAGE: u64 = 4096;
/// Pieces of a page.
pub const PIECES: u64 = PAGE / 64 - 1;

impl Checked for ProgramHeader {
    const COVERED: usize = HEADER_FIXED;

    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
