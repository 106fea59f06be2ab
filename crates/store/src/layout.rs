//! The bytes of a store: superblock, object records, object headers. Format: docs/formats/store.md.
//!
//! Everything is little-endian. A record has a checksum, or is a single word with check bits
//! (`everbyte_media::sealed::seal`, or one of the `STATE_` words), so that no change needs more
//! than the crash rule gives.

use everbyte_media::{Checked, Length, Offset};
use everbyte_space::ObjectId;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The offsets of the two copies of the superblock; each has a page of its own.
pub const SUPERBLOCKS: [u64; 2] = [0, 4096];
/// The offset of the words that change at every opening, relative to each superblock.
pub const WORDS: u64 = 1024;
/// `b"EVRBSTOR"`.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"EVRBSTOR";
/// The newest store format this program reads and writes.
pub const FORMAT: u32 = 1;

/// The store has a trie of names, and records outside of its table.
pub const FEATURE_NAMES: u64 = 1;
/// The store has small objects.
pub const FEATURE_SMALL: u64 = 2;
/// Records have access words, and may be renamed.
pub const FEATURE_ACCESS: u64 = 4;
/// Objects have cold clusters, whose bytes lie in backing files.
pub const FEATURE_COLD: u64 = 8;
/// The store has more addresses than its maximum.
pub const FEATURE_ADDRESSES: u64 = 16;
/// The features that this program knows.
pub const FEATURES: u64 = FEATURE_NAMES | FEATURE_SMALL | FEATURE_ACCESS | FEATURE_COLD | FEATURE_ADDRESSES;

/// One copy of the superblock. Section 2 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Superblock {
    /// [`SUPERBLOCK_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 512 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`]; magic, checksum and this field keep their place in every format.
    pub format: u32,
    /// Raised by every change of the superblock.
    pub sequence: u64,
    /// Random; a clone gets another.
    pub identity: [u8; 16],
    /// Declared maximum of the store: bytes of its file that may have space on the disk.
    pub max: Length,
    /// Bytes in a cluster: 65536.
    pub cluster: Length,
    /// The start of the object table.
    pub table_at: Offset,
    /// Records in it.
    pub table_slots: u64,
    /// The start of the bitmap of backed clusters.
    pub bitmap_at: Offset,
    /// The start of the bitmap of clusters that were ever used.
    pub used_at: Offset,
    /// Bytes of each bitmap.
    pub bitmap_len: Length,
    /// The start of the log of the `file` backend. Recovery uses the copy in the media head.
    pub log_at: Offset,
    /// Its size.
    pub log_len: Length,
    /// The lowest address a span may have.
    pub spans_at: Offset,
    /// The address the store is bound to; 0 for an unbound store.
    pub binding: u64,
    /// Reserved: the name space is found by its record.
    pub names_root: u64,
    /// Reserved: root of the access lists.
    pub access_root: u64,
    /// Reserved: list of domain files.
    pub domains_root: u64,
    /// Reserved: backing files are found by the objects that they belong to.
    pub swap_root: u64,
    /// Features that a reader must know to touch the store: `FEATURE_` bits.
    pub features: u64,
    /// Bytes of clusters that the objects of one user, other than root, may have together; 0: no
    /// limit.
    pub user_quota: Length,
    /// One past the last address that a span may have; 0: the maximum. With [`FEATURE_ADDRESSES`],
    /// and not otherwise.
    pub addresses: u64,
    /// Zeros.
    pub reserved: [u8; 328],
}
const _: () = assert!(size_of::<Superblock>() == 512);

impl Superblock {
    /// One past the last address that a span may have.
    pub fn end(&self) -> u64 {
        if self.addresses == 0 { self.max.get() } else { self.addresses }
    }
}

impl Checked for Superblock {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// Offsets of the words after each superblock, relative to [`WORDS`]; all sealed.
pub mod words {
    /// How often the store was opened; the generation of the volatile shared areas.
    pub const OPENED: u64 = 0;
    /// The value of `OPENED` at the last clean close.
    pub const CLOSED: u64 = 8;
    /// Start of the bytes that came from outside; see `Space::suspect`.
    pub const SUSPECT_START: u64 = 16;
    /// Their end.
    pub const SUSPECT_END: u64 = 24;
    /// Bytes of the file that were accounted for when it was opened or closed last; a file longer
    /// than this and than all its objects has grown from outside.
    pub const ACCOUNTED: u64 = 32;
    /// Not 0, in a good copy: a process has died with stores that may be unflushed still. The count
    /// of the opening that found it. Bare zeros until then.
    pub const AFTER_DEATH: u64 = 40;
    /// Bytes of all words.
    pub const LEN: u64 = 48;
}

/// The volatile words of a shared store, behind the words of the first superblock. They are never
/// flushed, and mean nothing after an opening by the first process.
pub mod shared {
    /// The store's shared lock: a lock word, its opening, a count of changes.
    pub const AT: u64 = 2048;
    /// A count of changes of names.
    pub const NAMES: u64 = AT + 64;
    /// Objects made in this opening.
    pub const CREATED: u64 = AT + 72;
    /// The number of members that have joined; the token of the newest one.
    pub const JOINED: u64 = AT + 128;
    /// The number of members that have left.
    pub const LEFT: u64 = AT + 136;
    /// Bytes of all of them.
    pub const LEN: u64 = 192;
}

/// One record of the object table. Section 3 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// One of the `STATE_` words; changes alone, by one 8-byte store, and is not under the
    /// checksum.
    pub state: u64,
    /// CRC-32C of the 256 bytes with this field and `state` zero.
    pub checksum: u32,
    /// See [`crate::Engine`].
    pub engine: u32,
    /// Never given to two objects of a store.
    pub id: ObjectId,
    /// The start of the span.
    pub span_at: Offset,
    /// Its size.
    pub span_len: Length,
    /// The type fingerprint its engine gave it.
    pub fingerprint: u64,
    /// Bytes of the name in use.
    pub name_len: u32,
    /// [`FLAG_SMALL`], or 0.
    pub flags: u32,
    /// The identity of the store that the object was copied from.
    pub origin_store: [u8; 16],
    /// Its id there; 0: it was made here.
    pub origin_object: ObjectId,
    /// Two copies of the rights; not under the checksum, each has its own.
    pub access: [AccessWords; 2],
    /// The copy that counts: 1 or 2, shifted up by 16, sealed. 0 beside zeros: the object is older
    /// than rights. Not under the checksum.
    pub choice: u64,
    /// The offset of the record that this one was made to replace; 0: none.
    pub replaces: Offset,
    /// UTF-8; zeros after `name_len`.
    pub name: [u8; 128],
}
const _: () = assert!(size_of::<Record>() == 256);

/// Owner, group and mode. Section 3 of the format page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AccessWords {
    /// The user.
    pub owner: u32,
    /// The group.
    pub group: u32,
    /// Read 4, write 2, for owner, group and others, as octal digits.
    pub mode: u32,
    /// CRC-32C of the twelve bytes before.
    pub checksum: u32,
}
const _: () = assert!(size_of::<AccessWords>() == 16);

/// A small object: of its first cluster only the prime page has space on the disk, until it grows.
pub const FLAG_SMALL: u32 = 1;
/// A free record.
pub const STATE_FREE: u64 = 0;
/// An unfinished creation: its span is taken, its name is not published. Recovery frees it.
pub const STATE_CREATING: u64 = u64::from_le_bytes(*b"creating");
/// An object.
pub const STATE_LIVE: u64 = u64::from_le_bytes(*b"live obj");
/// An object whose record takes the place of another, which has its former name. Recovery frees
/// that one.
pub const STATE_REPLACING: u64 = u64::from_le_bytes(*b"replaces");
/// An unfinished removal: the name is gone, the clusters are being released. Recovery finishes it.
pub const STATE_REMOVING: u64 = u64::from_le_bytes(*b"removing");

/// The first 512 bytes of a prime page. Section 4 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// [`HEADER_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 128 bytes with this field zero.
    pub checksum: u32,
    /// As in the record.
    pub engine: u32,
    /// As in the record.
    pub id: ObjectId,
    /// As in the record.
    pub span_at: Offset,
    /// As in the record.
    pub span_len: Length,
    /// As in the record.
    pub fingerprint: u64,
    /// As in the record.
    pub flags: u32,
    /// Zeros.
    pub reserved: [u8; 76],
    /// The engine's own word: where its data starts. Not under the checksum.
    pub root: Offset,
    /// Zeros; the root word has a line of its own.
    pub reserved_root: [u8; 56],
    /// One past the last cluster that was ever handed out; sealed.
    pub backed: u64,
    /// The end of the bits that an unfinished growth may have set; equal to `backed` otherwise;
    /// sealed.
    pub reach: u64,
    /// The start of the volatile shared area; sealed; 0: there is none. Reserved in format 1.
    pub shared_at: u64,
    /// Its size; sealed.
    pub shared_len: u64,
    /// Bytes of clusters that it may have at most; sealed; 0: as many as its span holds.
    pub quota: u64,
    /// Bytes of clusters that may be in memory at once; sealed; 0: all of them.
    pub resident: u64,
    /// Bytes at the end of the span that hold its cold table; sealed; 0: it has none.
    pub tail: u64,
    /// A cold table in the making takes so much; equal to `tail` otherwise.
    pub tail_reach: u64,
    /// The shared lock of the object, in a line of its own; volatile, as the store's ([`shared`]).
    pub shared: [u8; 64],
    /// Zeros.
    pub reserved_end: [u8; 192],
}
const _: () = assert!(size_of::<Header>() == 512);

/// `b"EVRBOBJT"`.
pub const HEADER_MAGIC: [u8; 8] = *b"EVRBOBJT";
/// Bytes of the header that its checksum covers.
pub const HEADER_FIXED: usize = 128;

/// Offsets of the header's words.
pub mod header {
    /// [`super::Header::root`].
    pub const ROOT: u64 = 128;
    /// [`super::Header::backed`].
    pub const BACKED: u64 = 192;
    /// [`super::Header::reach`].
    pub const REACH: u64 = 200;
    /// [`super::Header::shared_at`].
    pub const SHARED_AT: u64 = 208;
    /// [`super::Header::quota`].
    pub const QUOTA: u64 = 224;
    /// [`super::Header::resident`].
    pub const RESIDENT: u64 = 232;
    /// [`super::Header::tail`].
    pub const TAIL: u64 = 240;
    /// [`super::Header::tail_reach`].
    pub const TAIL_REACH: u64 = 248;
    /// [`super::Header::shared`].
    pub const SHARED: u64 = 256;
}
const _: () = assert!(std::mem::offset_of!(Header, root) == header::ROOT as usize);
const _: () = assert!(std::mem::offset_of!(Header, backed) == header::BACKED as usize);
const _: () = assert!(std::mem::offset_of!(Header, reach) == header::REACH as usize);
const _: () = assert!(std::mem::offset_of!(Header, shared_at) == header::SHARED_AT as usize);
const _: () = assert!(std::mem::offset_of!(Header, quota) == header::QUOTA as usize);
const _: () = assert!(std::mem::offset_of!(Header, tail_reach) == header::TAIL_REACH as usize);
const _: () = assert!(std::mem::offset_of!(Header, shared) == header::SHARED as usize);

impl Superblock {
    /// A superblock of zeros with its magic and format.
    pub fn new() -> Superblock {
        Superblock { magic: SUPERBLOCK_MAGIC, format: FORMAT, ..Superblock::new_zeroed() }
    }
}

impl Default for Superblock {
    fn default() -> Superblock {
        Superblock::new()
    }
}

impl Checked for Record {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }

    fn fixed(self) -> Record {
        Record { state: 0, access: [AccessWords::default(); 2], choice: 0, ..self }
    }
}

impl AccessWords {
    /// With their checksum.
    pub fn new(owner: u32, group: u32, mode: u32) -> AccessWords {
        let words = AccessWords { owner, group, mode, checksum: 0 };
        AccessWords { checksum: crc32c::crc32c(&words.as_bytes()[..12]), ..words }
    }
}

impl Checked for Header {
    const COVERED: usize = HEADER_FIXED;

    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}
