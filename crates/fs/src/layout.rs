//! The bytes of a volume and nothing else. Format: docs/formats/volume.md.
//!
//! Places are numbers of pages from the start of the object, so that a copy of the object means the
//! same. Page 0 is the object's prime page, page 1 holds the copy of the head.

use everbyte_media::sealed::{seal_low, unseal_low};
use everbyte_media::{Checked, Length};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `b"EVRBVOLU"`.
pub const MAGIC: [u8; 8] = *b"EVRBVOLU";
/// The newest format this program reads and writes.
pub const FORMAT: u32 = 4;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages of a large page of 2 MiB.
pub const LARGE_PAGES: u64 = 512;
/// Pages of a large page of 1 GiB.
pub const GIANT_PAGES: u64 = LARGE_PAGES * LARGE_PAGES;
/// Offset of the head from the start of the prime page.
pub const HEAD_AT: u64 = 512;
/// Offset of the head's copy from the start of the object.
pub const HEAD_COPY_AT: u64 = PAGE;
/// Offset, from the start of the prime page, of the word that leads to the inode table.
pub const TABLE_AT: u64 = 1024;
/// Offset, from the start of the prime page, of the place of the saved state; 0: none. It needs no
/// copy: without it the volume is scanned.
pub const SAVED_AT: u64 = TABLE_AT + 8;
/// Offset, from the start of the prime page, of the number of openings, in the line of
/// [`SAVED_AT`].
pub const OPENED_AT: u64 = TABLE_AT + 16;
/// Offset, from the start of the prime page, of the sealed number of the directory of snapshots; 0:
/// the volume has had no snapshot.
pub const SNAPSHOTS_AT: u64 = TABLE_AT + 24;
/// Offset, from the start of the prime page, of the place of the list of quotas; 0: the volume has
/// none.
pub const QUOTAS_AT: u64 = TABLE_AT + 32;
/// Offset, from the start of the prime page, of the place of the table of checksums of data; 0: the
/// volume has none.
pub const SUMS_AT: u64 = TABLE_AT + 40;
/// Offset, from the start of the prime page, of the sealed number of pages that the volume may
/// have; 0: as many as its span has.
pub const SIZE_AT: u64 = TABLE_AT + 48;
/// Page of the first lane.
pub const LANES_PAGE: u64 = 2;
/// Bytes of a lane.
pub const LANE_LEN: u64 = PAGE;
/// The most lanes.
pub const LANES_MAX: u32 = 256;

/// The head of a volume; it never changes after the volume is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 256 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// The volume's own identity.
    pub uuid: [u8; 16],
    /// UTF-8, zeros behind it.
    pub label: [u8; 64],
    /// Nanoseconds since 1970.
    pub created: i64,
    /// Number of lanes, each of [`LANE_LEN`] bytes, from [`LANES_PAGE`] on.
    pub lanes: u32,
    /// The binary logarithm of the page size of new files: 21, 30, or 0 for pages of 4 KiB.
    pub page_size: u32,
    /// Bytes of a lane.
    pub lane_len: Length,
    /// Zeros.
    pub reserved: [u8; 136],
}
const _: () = assert!(size_of::<Head>() == 256);

impl Checked for Head {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// `b"EVRBSAVE"`.
pub const SAVED_MAGIC: [u8; 8] = *b"EVRBSAVE";

/// The head of the saved state. Its sections follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SavedHead {
    /// [`SAVED_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 96 bytes with this field zero.
    pub checksum: u32,
    /// Number of sections.
    pub sections: u32,
    /// Bytes of all sections.
    pub len: u64,
    /// CRC-32C of them.
    pub content: u32,
    /// Zeros.
    pub reserved_word: u32,
    /// The identity of the volume.
    pub uuid: [u8; 16],
    /// The number of openings when the state was saved.
    pub opened: u64,
    /// Pages of the volume.
    pub pages: u64,
    /// Pages of them that are free, those of the state among them.
    pub free_pages: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Zeros.
    pub reserved: [u8; 16],
}
const _: () = assert!(size_of::<SavedHead>() == 96);

impl Checked for SavedHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// The head of a section of the saved state. A program that does not know a section scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SavedSection {
    /// [`SAVED_PAGES`], [`SAVED_INODES`], [`SAVED_USAGE`], [`SAVED_SHARED`].
    pub kind: u32,
    /// Zeros.
    pub reserved: u32,
    /// Bytes that follow, a multiple of 8.
    pub len: u64,
}
const _: () = assert!(size_of::<SavedSection>() == 16);

/// A bit for each page of the volume, for whole blocks of 512 pages; a set bit: the page is free.
pub const SAVED_PAGES: u32 = 1;
/// A bit for each inode of the table; a set bit: the inode is free.
pub const SAVED_INODES: u32 = 2;

/// Five words for each owner of a volume with quotas: its kind and its number, pages, inodes, and
/// since when both are above their soft limits.
pub const SAVED_USAGE: u32 = 3;
/// Three words for each run of pages that several extents lead to: its first page, its length, and
/// the number of other extents.
pub const SAVED_SHARED: u32 = 4;

/// `b"EVRBQUOT"`.
pub const QUOTAS_MAGIC: [u8; 8] = *b"EVRBQUOT";

/// The head of the list of quotas. Its records follow, in the order of kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QuotaHead {
    /// [`QUOTAS_MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// Number of records.
    pub count: u32,
    /// Zeros.
    pub reserved: [u8; 48],
}
const _: () = assert!(size_of::<QuotaHead>() == 64);

impl Checked for QuotaHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// The limits of one user, group or project; a limit of 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QuotaRecord {
    /// CRC-32C of these 64 bytes with this field zero.
    pub checksum: u32,
    /// 0: a user, 1: a group, 2: a project.
    pub kind: u32,
    /// Its number.
    pub id: u32,
    /// Seconds that its bytes may stay above the soft limit.
    pub bytes_grace: u32,
    /// Seconds that its inodes may stay above the soft limit.
    pub inodes_grace: u32,
    /// Zeros.
    pub reserved: [u8; 12],
    /// Soft limit of bytes.
    pub bytes_soft: u64,
    /// Hard limit of bytes.
    pub bytes_hard: u64,
    /// Soft limit of inodes.
    pub inodes_soft: u64,
    /// Hard limit of inodes.
    pub inodes_hard: u64,
}
const _: () = assert!(size_of::<QuotaRecord>() == 64);

impl Checked for QuotaRecord {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// Bytes of an inode.
pub const INODE: u64 = size_of::<Inode>() as u64;
/// Inodes of a group.
pub const GROUP_INODES: u64 = 256;
/// Pages of a group.
pub const GROUP_PAGES: u64 = GROUP_INODES * INODE / PAGE;
/// Words of a page of the inode table.
pub const TABLE_WORDS: u64 = PAGE / 8;
/// Bytes of an inode that hold data, a link's target, or extents.
pub const INLINE: u64 = 128;

/// An inode. The words of the first line change by stores of their own; the second line changes by
/// a journaled change. The first three words carry a check, since opening a volume frees inodes
/// and pages by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Inode {
    /// Type and permission bits, flags, generation: see [`State`].
    pub state: u64,
    /// Names that lead here; of a directory 2 and its subdirectories: a sealed word, see
    /// [`number`].
    pub links: u64,
    /// Bytes of the file; of a directory whole pages: a sealed word, see [`number`].
    pub size: u64,
    /// Last change of the bytes, in nanoseconds since 1970.
    pub modified: i64,
    /// Last change of the bytes or of the inode.
    pub changed: i64,
    /// Last read.
    pub accessed: i64,
    /// The place of the first page of further extents; 0: none.
    pub list: u64,
    /// The place of the extended attributes; 0: none.
    pub attributes: u64,
    /// CRC-32C of the fields of the second line that follow.
    pub checksum: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project of quotas.
    pub project: u32,
    /// When the inode was made.
    pub born: i64,
    /// The number of a device.
    pub device: u64,
    /// The directory that holds this directory; 0 in other files.
    pub parent: u64,
    /// The root of the snapshot that the inode belongs to; 0: the inode is the volume's own.
    pub snapshot: u64,
    /// In the root of a snapshot: when it was made.
    pub taken: i64,
    /// Zeros.
    pub reserved: [u8; 8],
    /// Data, a link's target, or eight extents.
    pub inline: [u8; INLINE as usize],
}
const _: () = assert!(size_of::<Inode>() == 256);
const _: () = assert!(std::mem::offset_of!(Inode, inline) == 128);

/// Offsets of the words of an inode.
pub mod inode {
    use super::Inode;
    use std::mem::offset_of;

    /// Of [`Inode::state`].
    pub const STATE: u64 = offset_of!(Inode, state) as u64;
    /// Of [`Inode::links`].
    pub const LINKS: u64 = offset_of!(Inode, links) as u64;
    /// Of [`Inode::size`].
    pub const SIZE: u64 = offset_of!(Inode, size) as u64;
    /// Of [`Inode::modified`].
    pub const MODIFIED: u64 = offset_of!(Inode, modified) as u64;
    /// Of [`Inode::changed`].
    pub const CHANGED: u64 = offset_of!(Inode, changed) as u64;
    /// Of [`Inode::accessed`].
    pub const ACCESSED: u64 = offset_of!(Inode, accessed) as u64;
    /// Of [`Inode::list`].
    pub const LIST: u64 = offset_of!(Inode, list) as u64;
    /// Of [`Inode::attributes`].
    pub const ATTRIBUTES: u64 = offset_of!(Inode, attributes) as u64;
    /// Of the second line.
    pub const OWNER: u64 = offset_of!(Inode, checksum) as u64;
    /// Of [`Inode::parent`].
    pub const PARENT: u64 = offset_of!(Inode, parent) as u64;
    /// Of [`Inode::inline`].
    pub const INLINE: u64 = offset_of!(Inode, inline) as u64;
}

impl Inode {
    /// The number of [`Inode::links`].
    pub fn link_count(&self) -> u64 {
        number(self.links)
    }

    /// The number of [`Inode::size`].
    pub fn file_size(&self) -> u64 {
        number(self.size)
    }

    /// The checksum of the second line.
    pub fn owner_sum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[inode::OWNER as usize + 4..inode::INLINE as usize])
    }
}

/// The number of a word that holds 48 bits and a check of them, whether or not the check agrees.
pub fn number(word: u64) -> u64 {
    word & (NUMBER_MAX - 1)
}

const NUMBER_MAX: u64 = 1 << 48;

/// The first word of an inode: one store makes it live, or free. It holds 48 bits and a check of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Type and permission bits as `stat` has them; 0: the inode is free.
    pub mode: u16,
    /// [`STATE_INLINE`], [`STATE_SNAPSHOT`], [`STATE_LARGE`], [`STATE_GIANT`], [`STATE_PROJECT`].
    pub flags: u16,
    /// Counts the files that the inode held, in 24 bits.
    pub generation: u32,
}

/// The largest generation; 0 follows it.
const GENERATIONS: u32 = (1 << 24) - 1;

/// The bytes of the file lie in the inode.
pub const STATE_INLINE: u16 = 1;
/// The inode belongs to a snapshot, and does not change.
pub const STATE_SNAPSHOT: u16 = 2;
/// New files of the directory belong to its project.
pub const STATE_PROJECT: u16 = 16;

/// The file has pages of 2 MiB, where aligned ones are free.
pub const STATE_LARGE: u16 = 4;
/// The file has pages of 1 GiB, where aligned ones are free. Not together with [`STATE_LARGE`].
pub const STATE_GIANT: u16 = 8;

impl State {
    /// The fields of a word, whether or not its check agrees.
    pub fn of(word: u64) -> State {
        State { mode: word as u16, flags: u16::from((word >> 16) as u8), generation: (word >> 24) as u32 & GENERATIONS }
    }

    /// The fields of a word; `None` if a bit of it has changed. An inode that never held a file is
    /// zeros.
    pub fn checked(word: u64) -> Option<State> {
        (word == 0 || unseal_low(word).is_some()).then(|| State::of(word))
    }

    /// The word; never 0.
    pub fn word(self) -> u64 {
        debug_assert!(self.flags < 256, "flags of 8 bits: {:#x}", self.flags);
        let generation = u64::from(self.generation & GENERATIONS);
        seal_low(u64::from(self.mode) | u64::from(self.flags) << 16 | generation << 24)
    }
}

/// Extents in an inode.
pub const INLINE_EXTENTS: u32 = 8;
/// Bytes of an extent.
pub const EXTENT: u64 = 16;
/// Bytes at the start of a page of extents: the place of the next one, and zeros.
pub const LIST_HEAD: u64 = 64;
/// Extents of such a page.
pub const LIST_EXTENTS: u32 = ((PAGE - LIST_HEAD) / EXTENT) as u32;

/// A run of pages of a file: the first word of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page, counted from the start of the file.
    pub first: u64,
    /// Pages; at least 1.
    pub len: u64,
}

const RUN_FIRST_BITS: u32 = 36;
const RUN_LEN_BITS: u32 = 20;
/// The most pages of one extent.
pub const RUN_LEN_MAX: u64 = (1 << RUN_LEN_BITS) - 1;
/// The most pages of a file.
pub const FILE_PAGES_MAX: u64 = 1 << RUN_FIRST_BITS;
/// The largest file in bytes: 256 TiB without a page, so that a size has 48 bits.
pub const FILE_MAX: u64 = (FILE_PAGES_MAX - 1) * PAGE;
const _: () = assert!(FILE_MAX < NUMBER_MAX);

impl Run {
    /// The word; never 0.
    pub fn word(self) -> u64 {
        debug_assert!(self.first < FILE_PAGES_MAX && (1..=RUN_LEN_MAX).contains(&self.len));
        let value = self.first | self.len << RUN_FIRST_BITS;
        value | u64::from(crc32c::crc32c(&value.to_le_bytes()) as u8) << 56
    }

    /// The run of a word; `None` if a bit of it has changed, or its length is 0.
    pub fn of(word: u64) -> Option<Run> {
        let value = word & ((1 << 56) - 1);
        let run = Run { first: value & (FILE_PAGES_MAX - 1), len: value >> RUN_FIRST_BITS };
        (run.len > 0 && run.word() == word).then_some(run)
    }

    /// The number of pages that a word names, whether or not it is whole.
    pub fn raw_len(word: u64) -> u64 {
        word >> RUN_FIRST_BITS & RUN_LEN_MAX
    }
}

/// A place in the volume: the second word of an extent, and every pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The page, counted from the start of the object.
    pub page: u64,
    /// The tier; 0: this object.
    pub tier: u8,
    /// The rights class; 0 today.
    pub class: u8,
    /// [`PLACE_UNWRITTEN`], [`PLACE_SEALED`], [`PLACE_PINNED`], [`PLACE_SHARED`].
    pub flags: u8,
}

const PAGE_BITS: u32 = 36;
/// Pages have smaller numbers.
pub const PAGES_MAX: u64 = 1 << PAGE_BITS;
/// The pages belong to the file and read as zeros.
pub const PLACE_UNWRITTEN: u8 = 1;
/// Checksums cover the pages, and they may not be stored to. Never together with
/// [`PLACE_UNWRITTEN`].
pub const PLACE_SEALED: u8 = 2;
/// The pages may not move. Not in use yet.
pub const PLACE_PINNED: u8 = 4;
/// Other extents may lead to the pages, and they may not be stored to. Never together with
/// [`PLACE_UNWRITTEN`].
pub const PLACE_SHARED: u8 = 8;

impl Place {
    /// A page of this object.
    pub fn page(page: u64) -> Place {
        Place { page, tier: 0, class: 0, flags: 0 }
    }

    /// The word; never 0.
    pub fn word(self) -> u64 {
        debug_assert!(self.page < PAGES_MAX && self.tier < 16 && self.class < 16 && self.flags < 16);
        let value = self.page
            | u64::from(self.tier) << PAGE_BITS
            | u64::from(self.class) << (PAGE_BITS + 4)
            | u64::from(self.flags) << (PAGE_BITS + 8);
        seal_low(value)
    }

    /// The place of a word; `None` if a bit of it has changed, or it names no page.
    pub fn of(word: u64) -> Option<Place> {
        let value = unseal_low(word)?;
        let nibble = |at: u32| (value >> (PAGE_BITS + at) & 15) as u8;
        let place = Place { page: value & (PAGES_MAX - 1), tier: nibble(0), class: nibble(4), flags: nibble(8) };
        (place.page > 0).then_some(place)
    }

    /// The page that a word names, whether or not it is whole.
    pub fn raw_page(word: u64) -> u64 {
        word & (PAGES_MAX - 1)
    }

    /// Whether the pages read as zeros.
    pub fn is_unwritten(self) -> bool {
        self.flags & PLACE_UNWRITTEN != 0
    }

    /// Whether checksums cover the pages.
    pub fn is_sealed(self) -> bool {
        self.flags & PLACE_SEALED != 0
    }

    /// Whether other extents may lead to the pages.
    pub fn is_shared(self) -> bool {
        self.flags & PLACE_SHARED != 0
    }
}

/// The head of a run of pages with extended attributes. Behind it, for each in the order of names:
/// a byte, the length of the name; four bytes, that of the value; the name; the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct XattrsHead {
    /// CRC-32C of these 16 bytes with this field zero.
    pub checksum: u32,
    /// Bytes behind the head.
    pub len: u32,
    /// CRC-32C of them.
    pub content: u32,
    /// Zeros.
    pub reserved: u32,
}
const _: () = assert!(size_of::<XattrsHead>() == 16);

impl Checked for XattrsHead {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// The most bytes behind the head.
pub const XATTRS_MAX: u64 = 64 << 10;

/// Bytes of a line of a directory.
pub const LINE: u64 = 64;
/// Lines of a page of a directory.
pub const PAGE_LINES: u32 = (PAGE / LINE) as u32;
/// The longest name in bytes.
pub const NAME_MAX: usize = 255;
/// Bytes of a name in the first line of its entry.
pub const NAME_FIRST: usize = 48;
/// Bytes of a name in each further line, behind a word of zeros.
pub const NAME_FURTHER: usize = 56;
/// Offset of the name in the first line.
pub const NAME_AT: u64 = 16;

/// The second word of an entry; the first is the sealed number of the inode, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// CRC-32C of the name.
    pub hash: u32,
    /// Bytes of the name.
    pub len: u8,
    /// The type bits of the inode's mode, shifted down by 12.
    pub kind: u8,
}

impl EntryHead {
    /// The head of the entry of a name.
    pub fn new(name: &[u8], kind: u8) -> EntryHead {
        EntryHead { hash: crc32c::crc32c(name), len: name.len() as u8, kind }
    }

    /// The word.
    pub fn word(self) -> u64 {
        u64::from(self.hash) | u64::from(self.len) << 32 | u64::from(self.kind) << 40
    }

    /// The fields of a word.
    pub fn of(word: u64) -> EntryHead {
        EntryHead { hash: word as u32, len: (word >> 32) as u8, kind: (word >> 40) as u8 }
    }

    /// Lines that the entry takes.
    pub fn lines(self) -> u32 {
        lines(usize::from(self.len))
    }
}

/// Lines of an entry whose name has `len` bytes.
pub fn lines(len: usize) -> u32 {
    1 + len.saturating_sub(NAME_FIRST).div_ceil(NAME_FURTHER) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each changed bit of a word is found.
    #[test]
    fn a_flipped_bit_of_a_run_or_a_place_is_found() {
        for number in [1, 77, 0x0123_4567_89ab] {
            let run = Run { first: number % FILE_PAGES_MAX, len: 1 + number % 9 };
            let place = Place { page: number % PAGES_MAX, tier: 3, class: 1, flags: 1 };
            assert_eq!(Run::of(run.word()), Some(run));
            assert_eq!(Place::of(place.word()), Some(place));
            for bit in 0..64 {
                assert_eq!(Run::of(run.word() ^ 1 << bit), None, "bit {bit} of {run:?}");
                assert_eq!(Place::of(place.word() ^ 1 << bit), None, "bit {bit} of {place:?}");
            }
        }
    }

    /// A state, too; the word of an inode that never held a file is no state with a changed bit.
    #[test]
    fn a_flipped_bit_of_a_state_is_found() {
        for (mode, flags, generation) in [(0, 0, 0), (0, 0, 1), (0o100_644, 31, 0xff_ffff), (0o40_755, 2, 7)] {
            let state = State { mode, flags, generation };
            assert_eq!(State::checked(state.word()), Some(state));
            for bit in 0..64 {
                assert_eq!(State::checked(state.word() ^ 1 << bit), None, "bit {bit} of {state:?}");
            }
        }
        assert_eq!(State::checked(0), Some(State { mode: 0, flags: 0, generation: 0 }));
        let last = State { mode: 0, flags: 0, generation: GENERATIONS + 1 };
        assert_eq!(State::of(last.word()).generation, 0);
    }

    #[test]
    fn an_entry_takes_one_to_five_lines() {
        assert_eq!([1, 48, 49, 104, 105, 255].map(lines), [1, 1, 2, 2, 3, 5]);
    }
}
