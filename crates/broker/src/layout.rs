//! The bytes of a domain's entry in the broker's own store. Format: docs/formats/broker.md.
//!
//! Two records of a line each, written alternately: the whole record with the higher `turn` is
//! valid. So a change of rights is whole or absent.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The properties of a domain. They lie behind the store's part of the prime page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Entry {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// As in the store's `Access`.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Raised by every change.
    pub turn: u64,
    /// The number in its file's name.
    pub number: u64,
    /// The address that its store is bound to.
    pub base: u64,
    /// Bytes that it may grow to.
    pub max: u64,
    /// Zeros.
    pub reserved: u64,
}
const _: () = assert!(size_of::<Entry>() == 64); // a line

/// `b"EVRBDOMN"`; a newer format has another.
pub(crate) const MAGIC: [u8; 8] = *b"EVRBDOMN";
/// Bytes of both records.
pub(crate) const ENTRIES: u64 = 128;

impl Entry {
    /// The checksum of its fields.
    pub(crate) fn sum(&self) -> u32 {
        crc32c::crc32c(Entry { checksum: 0, ..*self }.as_bytes())
    }

    /// With its checksum set.
    pub(crate) fn sealed(self) -> Entry {
        Entry { checksum: self.sum(), ..self }
    }

    /// Whether its magic and its checksum agree.
    pub(crate) fn is_whole(&self) -> bool {
        self.magic == MAGIC && self.checksum == self.sum()
    }
}
