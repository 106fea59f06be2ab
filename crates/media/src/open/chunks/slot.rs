//! Bytes of the chunk map, and nothing else. Format: docs/formats/media.md, section 2.

use crate::open::layout::COPIES;
use std::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one copy of a segment of the map. The second copy follows the first.
pub(crate) const SEGMENT: u64 = 4096;
/// Slots of a segment; the last one leads to the next segment.
pub(crate) const SLOTS: usize = SEGMENT as usize / size_of::<Slot>();
/// The largest number of segments.
pub(crate) const SEGMENTS: usize = 256;
/// Sectors hold whole slots: a disk that does not tear sectors tears no slot.
pub(crate) const SECTOR: usize = 512;

/// The slot was used and is free again.
pub(crate) const FREE: u64 = 1;
/// `len` bytes of the store from `at` lie at `file`.
pub(crate) const CHUNK: u64 = 2;
/// The next segment lies at `file`.
pub(crate) const LINK: u64 = 3;

/// One slot of the map; all zeros before its first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Slot {
    /// A store offset.
    pub at: u64,
    /// A file offset.
    pub file: u64,
    pub len: u64,
    /// The low 4 bits are the kind of the slot, the next 28 count its changes. The upper half is a
    /// CRC-32C of the other bits and of the slot's number (CHUNK-1).
    pub tag: u64,
}
const _: () = assert!(size_of::<Slot>() == 32 && SECTOR.is_multiple_of(size_of::<Slot>()));
const _: () = assert!(offset_of!(Slot, tag) == 24 && COPIES[0] > 0);

/// The content of one copy of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    Empty,
    /// Its bytes contradict their checksum, or cannot be read.
    Bad,
    Good(Slot),
}

impl Slot {
    pub(crate) fn new(kind: u64, count: u64, (at, file, len): (u64, u64, u64), number: usize) -> Slot {
        let mut slot = Slot { at, file, len, tag: kind | (count & 0xfff_ffff) << 4 };
        slot.tag |= u64::from(slot.sum(number)) << 32;
        slot
    }

    fn sum(&self, number: usize) -> u32 {
        let mut plain = *self;
        plain.tag &= 0xffff_ffff;
        crc32c::crc32c_append(crc32c::crc32c(plain.as_bytes()), &(number as u64).to_le_bytes())
    }

    pub(crate) fn kind(&self) -> u64 {
        self.tag & 15
    }

    pub(crate) fn count(&self) -> u64 {
        self.tag >> 4 & 0xfff_ffff
    }

    /// Parses these bytes as the slot of that number.
    pub(crate) fn parse(bytes: Option<&[u8]>, number: usize) -> Copy {
        let Some(slot) = bytes.and_then(|bytes| Slot::read_from_bytes(bytes).ok()) else { return Copy::Bad };
        if slot == Slot::default() {
            return Copy::Empty;
        }
        let good = slot.tag >> 32 == u64::from(slot.sum(number)) && (FREE..=LINK).contains(&slot.kind());
        if good { Copy::Good(slot) } else { Copy::Bad }
    }

    /// The content of a slot by its two copies. `Err`: both are damaged.
    ///
    /// A slot is used after both copies are on the medium. If one copy is empty, either the other
    /// was never used, or the empty one was lost: the whole copy counts in both cases.
    pub(crate) fn choose(copies: [Copy; 2]) -> Result<Option<Slot>, ()> {
        match copies {
            [Copy::Good(one), Copy::Good(two)] => Ok(Some(if two.count() > one.count() { two } else { one })),
            [Copy::Good(slot), _] | [_, Copy::Good(slot)] => Ok(Some(slot)),
            [Copy::Empty, _] | [_, Copy::Empty] => Ok(None),
            [Copy::Bad, Copy::Bad] => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_good_in_its_own_place_alone() {
        let slot = Slot::new(CHUNK, 1, (1 << 20, 8192, 65536), 7);
        assert_eq!(Slot::parse(Some(slot.as_bytes()), 7), Copy::Good(slot));
        assert_eq!(Slot::parse(Some(slot.as_bytes()), 8), Copy::Bad);
        for bit in 0..256 {
            let mut bytes = slot.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::parse(Some(&bytes), 7), Copy::Bad, "bit {bit}");
        }
        assert_eq!((Slot::parse(Some(&[0; 32]), 7), Slot::parse(None, 7)), (Copy::Empty, Copy::Bad));
    }

    #[test]
    fn the_newer_whole_copy_counts_and_two_bad_ones_are_damage() {
        let old = Copy::Good(Slot::new(CHUNK, 1, (1 << 20, 8192, 65536), 7));
        let new = Copy::Good(Slot::new(FREE, 2, (1 << 20, 8192, 65536), 7));
        let Copy::Good(newer) = new else { unreachable!() };
        for pair in [[old, new], [new, old], [new, Copy::Bad], [Copy::Empty, new]] {
            assert_eq!(Slot::choose(pair), Ok(Some(newer)), "{pair:?}");
        }
        assert_eq!(Slot::choose([Copy::Bad, Copy::Empty]), Ok(None), "torn before the second copy was begun");
        assert_eq!(Slot::choose([Copy::Bad, Copy::Bad]), Err(()));
    }
}
