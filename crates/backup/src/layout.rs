//! The bytes of a backup's file. Format: docs/formats/backup.md.
//!
//! A head, then chunks: pages, the table of the image, the end mark. Little-endian.

use everbyte_media::Checked;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBBKUP"`.
pub const MAGIC: [u8; 8] = *b"EVRBBKUP";
/// `b"EVRBCHNK"`.
pub const CHUNK_MAGIC: [u8; 8] = *b"EVRBCHNK";
/// The newest format that this program reads, and the one it writes.
pub const FORMAT: u32 = 1;
/// Bytes of a page of the image.
pub const PAGE: u64 = 4096;
/// Pages in a chunk at most.
pub const PAGES_MAX: u64 = 256;
/// Entries of the table in a chunk at most.
pub const ENTRIES_MAX: u64 = 16_384;

/// Pages and their numbers.
pub const KIND_PAGES: u32 = 1;
/// Entries of the table.
pub const KIND_TABLE: u32 = 2;
/// The end mark.
pub const KIND_END: u32 = 3;

/// The first 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 512 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`]; magic, checksum and this field keep their place in every format.
    pub format: u32,
    /// The identity of the store.
    pub store: [u8; 16],
    /// Random, unlike any other backup's.
    pub identity: [u8; 16],
    /// The identity of the backup whose pages this one leaves out; zeros: it holds all pages.
    pub parent: [u8; 16],
    /// The number of backups below it: 0 for one that holds all pages.
    pub depth: u64,
    /// The largest offset that the store's mapping reserves.
    pub max: u64,
    /// Bytes at the start of the store that lie at the same offset in its file.
    pub linear: u64,
    /// Offset of the log of backend `file`, which is not in the image.
    pub log_at: u64,
    /// Its length.
    pub log_len: u64,
    /// The address the store is bound to; 0: none.
    pub binding: u64,
    /// Zeros.
    pub reserved: [u8; 400],
}
const _: () = assert!(size_of::<Head>() == 512);

/// The head of a chunk; its body follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChunkHead {
    /// [`CHUNK_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// One of the `KIND_` numbers.
    pub kind: u32,
    /// Offset of this chunk in the file.
    pub place: u64,
    /// The first eight bytes of the backup's identity.
    pub backup: [u8; 8],
    /// Pages, or entries of the table; 1 in the end mark.
    pub count: u64,
    /// Bytes of the body.
    pub body_len: u64,
    /// CRC-32C of the body.
    pub body_sum: u32,
    /// Zeros.
    pub reserved: [u8; 12],
}
const _: () = assert!(size_of::<ChunkHead>() == 64);

/// One page of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Entry {
    /// The number of the page: its offset in the store is as many times 4096.
    pub page: u64,
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
}
const _: () = assert!(size_of::<Entry>() == 40);

/// The body of the end mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct End {
    /// Bytes of the store.
    pub len: u64,
    /// The moment of the image: nanoseconds since 1970.
    pub moment: u64,
    /// Pages of the image: entries of the table. All other pages are zeros.
    pub pages: u64,
    /// Pages in this file; a page that changed while it was copied counts again.
    pub stored: u64,
    /// Offset of the first chunk of the table.
    pub table_at: u64,
    /// Zeros.
    pub reserved: [u8; 24],
}
const _: () = assert!(size_of::<End>() == 64);

/// Bytes of the end mark, head included: the last ones of the file.
pub const END_LEN: u64 = (size_of::<ChunkHead>() + size_of::<End>()) as u64;
/// The offset of the first chunk.
pub const HEAD_LEN: u64 = size_of::<Head>() as u64;

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

impl Head {
    /// Whether the image has this page: the pages of the media's heads and of the log belong to the
    /// media, not to the store.
    pub fn has(&self, page: u64) -> bool {
        let heads = 2..4;
        let log = self.log_at / PAGE..(self.log_at + self.log_len).div_ceil(PAGE);
        !heads.contains(&page) && !log.contains(&page)
    }
}

/// The hash of a page.
pub(crate) fn hash(page: &[u8]) -> [u8; 32] {
    *blake3::hash(page).as_bytes()
}
