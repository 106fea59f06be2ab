//! The bytes of a domain's entry in the broker's own store. Format: docs/formats/broker.md.
//!
//! Two records of a line each, written alternately: the whole record with the higher `turn` is
//! valid. So a change of rights is whole or absent.

use everbyte_media::{Checked, Length};
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
    pub max: Length,
    /// Zeros.
    pub reserved: u64,
}
const _: () = assert!(size_of::<Entry>() == 64); // a line

/// `b"EVRBDOMN"`; a newer format has another.
pub(crate) const MAGIC: [u8; 8] = *b"EVRBDOMN";
/// Bytes of both records.
pub(crate) const ENTRIES: u64 = 128;

impl Entry {
    /// Whether its magic and its checksum agree.
    pub(crate) fn is_whole(&self) -> bool {
        self.magic == MAGIC && self.checksum_agrees()
    }
}

impl Checked for Entry {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
