//! The bytes of the lane table. Format: docs/formats/lane.md. A lane itself is an undo journal.

use everbyte_media::{Checked, Length, Offset};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of the lane table in the prime page.
pub const TABLE: u64 = 2048;
/// `b"EVRBLANE"`.
pub const MAGIC: [u8; 8] = *b"EVRBLANE";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 1;
/// Lanes that a table can name.
pub const LANES_MAX: u32 = 1024;

/// The lane table, at `prime + 2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Table {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// How many lanes there are.
    pub lanes: u32,
    /// Zeros.
    pub reserved_lanes: u32,
    /// Bytes of each.
    pub lane_len: Length,
    /// Zeros.
    pub reserved: [u8; 32],
    /// Offset of the lanes, one after the other, in a block of the heap. On a line of its own: the
    /// heap stores it together with the block's bits.
    pub lanes_at: Offset,
    /// Zeros.
    pub reserved_at: [u8; 56],
}
const _: () = assert!(size_of::<Table>() == 128); // two lines

/// Bytes of the table that its checksum covers.
pub const TABLE_FIXED: usize = 64;
/// End of the undo engine's part of the prime page.
pub const ENGINE_END: u64 = TABLE + size_of::<Table>() as u64;
/// Offset of [`Table::lanes_at`] from the prime page.
pub const LANES_AT: u64 = TABLE + std::mem::offset_of!(Table, lanes_at) as u64;

impl Checked for Table {
    const COVERED: usize = TABLE_FIXED;

    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
