//! The bytes of a heap. Format: docs/formats/heap.md.
//!
//! All addresses are store offsets; a *cluster* is 64 KiB of the object's span, numbered from 0 at
//! the prime page, a *page* 4 KiB. A *zone* is 128 clusters; its *table* is 128 records of 512
//! bytes, one for each cluster, and lies apart from the data of the zone.
//!
//! A record is eight lines: word 0 is the kind of the cluster, words 1..64 are its bitmap. Zeros
//! are a free cluster.

use crate::classes::{BITMAP_WORDS, COUNT};
use everbyte_media::sealed::{mix, seal_for, unseal_for};
use everbyte_media::{Checked, Length, Offset};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a cluster.
pub const CLUSTER: u64 = 65536;
/// Clusters in a zone.
pub const ZONE_CLUSTERS: u64 = 128;
/// Bytes of a zone.
pub const ZONE: u64 = ZONE_CLUSTERS * CLUSTER;
/// Bytes of a record.
pub const RECORD: u64 = 512;
/// Offset of the heap's header in the prime page.
pub const HEADER: u64 = 512;
/// End of the heap's part of the prime page.
pub const HEADER_END: u64 = 2048;
/// Offset of the heap's own log from the prime page; one page.
pub const LOG: u64 = 4096;
/// Offset of the table of zone 0 from the prime page.
pub const FIRST_TABLE: u64 = 8192;
/// Zones whose tables the header itself names; zone 0's place is fixed.
pub const DIRECT: u64 = 32;
/// Directories that the header names.
pub const DIRECTORIES: u64 = 128;
/// Zones in a directory.
pub const DIRECTORY_ZONES: u64 = CLUSTER / 8;
/// Zones that a heap can have; bytes of the span beyond them are not used.
pub const ZONES_MAX: u64 = DIRECT + DIRECTORIES * DIRECTORY_ZONES;

/// `b"EVRBHEAP"`.
pub const MAGIC: [u8; 8] = *b"EVRBHEAP";
/// The newest heap format this program reads and writes.
pub const FORMAT: u32 = 3;
/// The format whose tables were made one by one, each where the heap ended; read and written as it
/// is.
pub const FORMAT_SINGLE_TABLES: u32 = 1;
/// The format whose largest class has 8192 bytes; read and written as it is.
pub const FORMAT_27_CLASSES: u32 = 2;
/// Zones whose tables are made together when the second zone begins.
pub const FIRST_TABLES: u64 = 8;
/// The most tables that are made together: those of 8 GiB.
pub const TABLES_MAX: u64 = 1024;

/// The heap's header, at `prime + 512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HeapHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of the first 64 bytes with this field zero.
    pub checksum: u32,
    /// [`FORMAT`].
    pub format: u32,
    /// Bytes of the object's span at the creation of the heap.
    pub span_len: Length,
    /// Records in the table of zone 0: one for each cluster of a small span, else 128.
    pub first_records: u64,
    /// Zones of the span for which the tables were laid out (section 2 of the format page); 0 in
    /// format 1.
    pub zones: u64,
    /// Zeros.
    pub reserved: [u8; 24],
    /// Clusters of the heap; sealed with its offset. On a line of its own.
    pub end: u64,
    /// Zeros.
    pub reserved_end: [u8; 56],
    /// The cluster that holds the table of zone `index`; sealed; the first is unused.
    pub direct: [u64; DIRECT as usize],
    /// The cluster that holds directory `index`: 8192 sealed words like those of `direct`; sealed;
    /// 0: none yet.
    pub directories: [u64; DIRECTORIES as usize],
    /// Zeros.
    pub reserved_tail: [u8; 128],
}
const _: () = assert!(size_of::<HeapHeader>() == (HEADER_END - HEADER) as usize);

/// Bytes of the header that its checksum covers.
pub const HEADER_FIXED: usize = 64;
/// Offset of [`HeapHeader::end`] from the prime page.
pub const END: u64 = HEADER + std::mem::offset_of!(HeapHeader, end) as u64;
/// Offset of [`HeapHeader::direct`] from the prime page.
pub const DIRECT_AT: u64 = HEADER + std::mem::offset_of!(HeapHeader, direct) as u64;
/// Offset of [`HeapHeader::directories`] from the prime page.
pub const DIRECTORIES_AT: u64 = HEADER + std::mem::offset_of!(HeapHeader, directories) as u64;

impl Checked for HeapHeader {
    const COVERED: usize = HEADER_FIXED;

    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

/// Zones that have a table once `begun` zones have begun, in a heap laid out for `zones` (0: format
/// 1).
///
/// Tables are made in batches that double, side by side: the free space between two batches serves
/// large blocks.
pub fn tabled_zones(begun: u64, zones: u64) -> u64 {
    if zones == 0 || begun <= 1 {
        return begun;
    }
    let batch = begun.next_power_of_two().clamp(FIRST_TABLES, TABLES_MAX);
    let tabled = begun.next_multiple_of(batch).min(ZONES_MAX);
    if begun <= zones { tabled.min(zones) } else { tabled }
}

/// One word of the heap's own log: a slot of two lines. Section 5 of the format page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Slot {
    /// Hash of the four words after it; 0 in an empty slot.
    pub check: u64,
    /// The operation on the bitmap.
    pub op: u64,
    /// The word that receives `value`.
    pub target: Offset,
    /// The new value of that word.
    pub value: u64,
    /// Raised by every use of the slot.
    pub lap: u64,
    /// Zeros.
    pub reserved: [u64; 3],
}
const _: () = assert!(size_of::<Slot>() == 64); // one line

/// Slots of the log.
pub const SLOTS: u64 = 32;
/// Bytes from slot to slot: two lines, because neighbours are written by different threads.
pub const SLOT_STEP: u64 = 128;
const _: () = assert!(SLOTS * SLOT_STEP == 4096);

impl Slot {
    /// The check over its words; never 0.
    pub fn sum(&self) -> u64 {
        [self.op, self.target.get(), self.value, self.lap]
            .iter()
            .fold(0x4556_5242_4845_4150, |sum, &word| mix(sum ^ word))
            | 1
    }
}

/// The use of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterKind {
    /// Pages: word 1 has the used pages and the starts of blocks.
    Pages,
    /// A run of blocks of one class: words 1..64 have a bit for each block.
    Run(usize),
    /// A table or a directory of the heap itself.
    System,
}

const KIND_RUN: u32 = 0x5255_0000;
const KIND_SYSTEM: u32 = 0x5359_0000;

/// Word 0 of the record of `cluster`.
pub fn seal_kind(kind: ClusterKind, cluster: u64) -> u64 {
    match kind {
        ClusterKind::Pages => 0,
        ClusterKind::Run(class) => seal_for(cluster, KIND_RUN | class as u32),
        ClusterKind::System => seal_for(cluster, KIND_SYSTEM),
    }
}

/// The kind in word 0 of the record of `cluster`; `None` if a bit of it has changed.
pub fn unseal_kind(word: u64, cluster: u64) -> Option<ClusterKind> {
    if word == 0 {
        return Some(ClusterKind::Pages);
    }
    match unseal_for(cluster, word)? {
        KIND_SYSTEM => Some(ClusterKind::System),
        value if value & 0xffff_0000 == KIND_RUN && ((value & 0xffff) as usize) < COUNT => {
            Some(ClusterKind::Run((value & 0xffff) as usize))
        }
        _ => None,
    }
}

/// Relative to a record: word `index` of its bitmap.
#[inline(always)]
pub fn bitmap_at(record: u64, index: usize) -> u64 {
    debug_assert!(index < BITMAP_WORDS);
    record + 8 + index as u64 * 8
}

/// In the page word of a record: the pages in use; the bits above are the pages at which blocks
/// start.
pub const PAGES_USED: u64 = 0xffff;
/// The lowest bit of the starts of blocks in the page word.
pub const START_SHIFT: u32 = 16;
/// Offset in a record of the page word.
pub const PAGE_WORD: u64 = 8;
/// Offset in a record: pages of the block that starts in this cluster and goes on behind it.
pub const TAIL_WORD: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_in_batches_that_double() {
        let batches = |zones| (1..=5000).map(|begun| tabled_zones(begun, zones)).collect::<Vec<_>>();
        let all = batches(ZONES_MAX);
        assert!(all.is_sorted());
        for (begun, &tabled) in (1..).zip(&all) {
            assert!(tabled >= begun, "a zone that has begun has a table");
        }
        let mut ends = all;
        ends.dedup();
        assert_eq!(ends, [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 5120]);
        assert_eq!(tabled_zones(2, 4), 4, "no tables for zones that the span does not have");
        assert_eq!(tabled_zones(5, 4), 8, "a heap that was copied to a larger span goes on");
        assert_eq!((1..100).map(|begun| tabled_zones(begun, 0)).collect::<Vec<_>>(), (1..100).collect::<Vec<_>>());
        assert_eq!(tabled_zones(ZONES_MAX, ZONES_MAX), ZONES_MAX);
    }

    #[test]
    fn a_changed_bit_or_a_wrong_place_is_found() {
        for kind in [ClusterKind::Run(0), ClusterKind::Run(28), ClusterKind::System] {
            let word = seal_kind(kind, 77);
            assert_eq!(unseal_kind(word, 77), Some(kind));
            assert_eq!(unseal_kind(word, 78), None);
            for bit in 0..64 {
                assert_eq!(unseal_kind(word ^ 1 << bit, 77), None, "bit {bit}");
            }
        }
        assert_eq!(unseal_kind(0, 77), Some(ClusterKind::Pages));
    }

    #[test]
    fn a_torn_log_slot_is_not_a_record() {
        let slot = Slot { check: 0, op: 1, target: Offset::new(2), value: 3, lap: 4, reserved: [0; 3] };
        for change in [
            Slot { op: 9, ..slot },
            Slot { target: Offset::new(9), ..slot },
            Slot { value: 9, ..slot },
            Slot { lap: 9, ..slot },
        ] {
            assert_ne!(change.sum(), slot.sum());
        }
        assert_ne!(Slot { check: 0, op: 0, target: Offset::new(0), value: 0, lap: 0, reserved: [0; 3] }.sum(), 0);
    }
}
