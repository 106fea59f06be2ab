//! The bytes of a program's object. Format: docs/formats/program.md.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBPROG"`.
pub const MAGIC: [u8; 8] = *b"EVRBPROG";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 1;
/// Bytes of a build's identity that are kept.
pub const BUILD_MAX: usize = 32;

/// The block that the object's root word leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 128 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// Bytes of the variables: whole pages.
    pub variables_len: u64,
    /// What the variables' names, places and sizes hash to; 0: not known.
    pub layout: u64,
    /// Bytes of `build` that count; 0: not known.
    pub build_len: u64,
    /// What the linker called the build that made this, cut where it is longer.
    pub build: [u8; BUILD_MAX],
    /// Zeros.
    pub reserved: [u8; 56],
    /// Where the variables lie: whole pages.
    pub variables: u64,
    /// Where the path of the executable lies: a word that says how many bytes, and the bytes; 0: not known.
    pub path: u64,
    /// Zeros.
    pub reserved_words: [u64; 14],
}
const _: () = assert!(size_of::<Header>() == 256);

/// Bytes of the header that its checksum covers.
pub const HEADER_FIXED: usize = 128;
/// Offset of [`Header::variables`].
pub const VARIABLES_AT: u64 = std::mem::offset_of!(Header, variables) as u64;

/// Offset of [`Header::path`].
pub const PATH_AT: u64 = std::mem::offset_of!(Header, path) as u64;

impl Header {
    /// The checksum its fields ask for.
    pub fn sum(&self) -> u32 {
        let plain = Header { checksum: 0, ..*self };
        crc32c::crc32c(&plain.as_bytes()[..HEADER_FIXED])
    }
}
