//! The bytes of a dump, and nothing else. Format: docs/formats/kv-dump.md.
//!
//! A head, then chunks: tables, entries, what named versions change, the end mark. Little-endian.

use everbyte_media::Checked;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of a dump.
pub(super) const MAGIC: [u8; 8] = *b"EVRBKVDP";
/// First bytes of a chunk.
pub(super) const CHUNK_MAGIC: [u8; 8] = *b"EVRBDCHK";
/// The newest format that this program reads: that of dumps with named versions.
pub(super) const FORMAT: u32 = 2;
/// The format of dumps of one version, which older programs read too.
pub(super) const FORMAT_ONE: u32 = 1;
/// A chunk of entries ends with the entry that makes its body as long as this.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Longest body of a table's chunk.
pub(super) const TABLE_BODY_MAX: u64 = 16 << 20;

/// A table begins.
pub(super) const KIND_TABLE: u32 = 1;
/// Entries of the table that began last.
pub(super) const KIND_ENTRIES: u32 = 2;
/// The end mark.
pub(super) const KIND_END: u32 = 3;
/// All of the dump before this chunk, taken together, is the version of this name.
pub(super) const KIND_VERSION: u32 = 4;
/// Behind a version: changes of a table that is there already begin.
pub(super) const KIND_CHANGED: u32 = 5;
/// Changes of the table that began last.
pub(super) const KIND_CHANGES: u32 = 6;
/// Behind a version: a table goes.
pub(super) const KIND_DROPPED: u32 = 7;

/// The first 64 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Head {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`]; magic, checksum and this field keep their place in every format.
    pub format: u32,
    /// Random, unlike any other dump's.
    pub dump: u64,
    /// The version of the store that was dumped.
    pub version: u64,
    /// The moment at which dumping began: seconds since 1970.
    pub moment: u64,
    pub reserved: [u8; 24],
}
const _: () = assert!(size_of::<Head>() == 64);

/// The head of a chunk; its body follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct ChunkHead {
    /// [`CHUNK_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// One of the `KIND_` numbers.
    pub kind: u32,
    /// Offset of this chunk in the dump.
    pub place: u64,
    /// [`Head::dump`].
    pub dump: u64,
    /// Entries or changes; 1 in other chunks.
    pub count: u64,
    /// Bytes of the body.
    pub body_len: u64,
    /// CRC-32C of the body.
    pub body_sum: u32,
    pub reserved: [u8; 12],
}
const _: () = assert!(size_of::<ChunkHead>() == 64);

/// The body of a table's chunk begins with this; its name follows, and then its description.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct TableHead {
    /// Bytes of the name; 0: the main table.
    pub name_len: u64,
    /// Bytes of the stored description of its type; 0: none.
    pub description_len: u64,
}
const _: () = assert!(size_of::<TableHead>() == 16);

/// The body of a version's chunk begins with this; its name follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct VersionHead {
    /// Its number in the store that was dumped.
    pub version: u64,
    /// When it got its name: seconds since 1970.
    pub named_at: u64,
}
const _: () = assert!(size_of::<VersionHead>() == 16);

/// The body of the end mark.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct End {
    /// Tables of the last version, the main one included.
    pub tables: u64,
    /// Entries and changes of all tables.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Named versions.
    pub versions: u64,
}
const _: () = assert!(size_of::<End>() == 32);

impl Checked for Head {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

impl Checked for ChunkHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// Appends a length: 7 bits a byte, the lowest first; the highest bit says that more follow.
pub(super) fn push_length(bytes: &mut Vec<u8>, mut length: u64) {
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// Takes a length from the front of `bytes`. `None`: there is none, or it is not in its shortest
/// form.
pub(super) fn take_length(bytes: &mut &[u8]) -> Option<u64> {
    let mut length = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(9) {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return (byte != 0 || index == 0).then_some(length);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_one_form() {
        for length in [0, 1, 127, 128, 300, 16 << 20, (1 << 40) - 1, u64::MAX >> 1] {
            let mut bytes = Vec::new();
            push_length(&mut bytes, length);
            assert_eq!((take_length(&mut &*bytes), bytes.len() <= 9), (Some(length), true));
        }
        for wrong in [&b""[..], b"\x80", b"\x80\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"] {
            assert_eq!(take_length(&mut { wrong }), None, "{wrong:x?}");
        }
    }
}
