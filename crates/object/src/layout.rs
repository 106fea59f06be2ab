//! The bytes of a pool's header. Format: docs/formats/object.md.

use everbyte_media::{Checked, Length};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of the header in the prime page: behind the table of lanes.
pub const HEADER: u64 = 2176;
/// `b"EVRBTYPE"`.
pub const MAGIC: [u8; 8] = *b"EVRBTYPE";
/// The newest format this program reads, and the one it writes. Pools of format 2 do not say how
/// maps lie, and those of format 1 say less of an `Option`, too.
pub const FORMAT: u32 = 3;

/// The header, at `prime + 2176`. The first line is written once, when the pool is made; the second
/// changes in transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// Zeros.
    pub reserved: [u8; 48],
    /// Raised by every opening, before anything else.
    pub generation: u64,
    /// Offset of the root, from the prime page.
    pub root: Length,
    /// Bytes of the root.
    pub root_len: Length,
    /// Hash of the root type's description.
    pub fingerprint: u64,
    /// Offset of the description, from the prime page.
    pub schema: Length,
    /// Bytes of the description.
    pub schema_len: Length,
    /// CRC-32C of the five words before it.
    pub root_checksum: u64,
    /// Zeros.
    pub reserved_tail: u64,
}
const _: () = assert!(size_of::<Header>() == 128); // two lines

/// Bytes of the header that its checksum covers.
pub const FIXED: usize = 64;
/// Offset of [`Header::generation`] from the prime page: the second line.
pub const GENERATION: u64 = HEADER + std::mem::offset_of!(Header, generation) as u64;
/// The longest description that is believed.
pub const SCHEMA_MAX: Length = Length::new(1 << 20);

impl Header {
    /// The root's checksum that its fields ask for.
    pub fn root_sum(&self) -> u64 {
        u64::from(crc32c::crc32c(&self.as_bytes()[FIXED + 8..FIXED + 48]))
    }
}

impl Checked for Header {
    const COVERED: usize = FIXED;

    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// The number that stands for a description.
pub fn fingerprint(text: &str) -> u64 {
    let (mut low, mut high) = (0x4556_5242u32, 0x5459_5045u32);
    low = crc32c::crc32c_append(low, text.as_bytes());
    for byte in text.bytes().rev() {
        high = high.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    }
    (u64::from(high) << 32 | u64::from(low)).max(1)
}
