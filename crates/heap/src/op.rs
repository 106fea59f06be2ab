//! [`Op`]: a change of one block's bits, as a number that can be written to a log and applied any
//! number of times.
//!
//! Bits 0..4 are the action. For a block of a class: class in bits 4..12, its index in the run in
//! 12..24, the cluster in 24..56, zeros above. For a run of pages: their number in bits 4..32, the
//! first page in 32..64.

use crate::classes;
use crate::classes::COUNT;

/// One operation on the bitmaps of a heap, as it is written to a log. [`crate::Heap::validate`]
/// checks an operation from a log before it is applied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(u64);

impl From<u64> for Op {
    fn from(word: u64) -> Op {
        Op(word)
    }
}

impl From<Op> for u64 {
    fn from(op: Op) -> u64 {
        op.0
    }
}

/// An operation taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A block of a class.
    Small { set: bool, class: usize, index: u32, cluster: u64 },
    /// A run of pages.
    Pages { set: bool, first: u64, count: u64 },
}

const SMALL_SET: u64 = 1;
const SMALL_CLEAR: u64 = 2;
const PAGES_SET: u64 = 3;
const PAGES_CLEAR: u64 = 4;
/// Pages of one operation at most: 1 TiB less one page.
pub(crate) const PAGES_MAX: u64 = (1 << 28) - 1;
/// Bytes of the largest block.
pub const BLOCK_MAX: u64 = PAGES_MAX * classes::PAGE;

impl Op {
    #[inline(always)]
    pub(crate) fn small(set: bool, class: usize, index: u32, cluster: u64) -> Op {
        debug_assert!(class < COUNT && index < 4096 && cluster < 1 << 32);
        Op(if set { SMALL_SET } else { SMALL_CLEAR } | (class as u64) << 4 | u64::from(index) << 12 | cluster << 24)
    }

    pub(crate) fn pages(set: bool, first: u64, count: u64) -> Op {
        debug_assert!(first < 1 << 32 && count <= PAGES_MAX);
        Op(if set { PAGES_SET } else { PAGES_CLEAR } | count << 4 | first << 32)
    }

    /// `None`: no operation of any heap.
    #[inline(always)]
    pub(crate) fn decode(self) -> Option<Change> {
        let kind = self.0 & 15;
        match kind {
            SMALL_SET | SMALL_CLEAR => {
                let class = (self.0 >> 4 & 0xff) as usize;
                let index = (self.0 >> 12 & 0xfff) as u32;
                let good = class < COUNT && self.0 >> 56 == 0 && index < classes::count_of(class);
                good.then_some(Change::Small { set: kind == SMALL_SET, class, index, cluster: self.0 >> 24 })
            }
            PAGES_SET | PAGES_CLEAR => {
                let (first, count) = (self.0 >> 32, self.0 >> 4 & PAGES_MAX);
                (count > 0).then_some(Change::Pages { set: kind == PAGES_SET, first, count })
            }
            _ => None,
        }
    }

    /// Whether this operation frees a block.
    pub fn frees(self) -> bool {
        matches!(self.0 & 15, SMALL_CLEAR | PAGES_CLEAR)
    }

    /// The operation that undoes this one's effect on the bits; for tests and repair.
    pub fn inverse(self) -> Op {
        Op(match self.0 & 15 {
            SMALL_SET => self.0 ^ SMALL_SET ^ SMALL_CLEAR,
            SMALL_CLEAR => self.0 ^ SMALL_SET ^ SMALL_CLEAR,
            PAGES_SET => self.0 ^ PAGES_SET ^ PAGES_CLEAR,
            _ => self.0 ^ PAGES_SET ^ PAGES_CLEAR,
        })
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.decode() {
            Some(change) => write!(f, "Op({change:?})"),
            None => write!(f, "Op({:#x}: none)", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_as_numbers() {
        for set in [true, false] {
            let small = Op::small(set, 26, 7, 0x1234_5678);
            let again = Op::from(u64::from(small));
            assert_eq!(again.decode(), Some(Change::Small { set, class: 26, index: 7, cluster: 0x1234_5678 }));
            let pages = Op::pages(set, 0xffff_fff0, PAGES_MAX);
            assert_eq!(pages.decode(), Some(Change::Pages { set, first: 0xffff_fff0, count: PAGES_MAX }));
            assert_eq!((small.frees(), pages.frees()), (!set, !set));
            assert_eq!(
                small.inverse().decode(),
                Some(Change::Small { set: !set, class: 26, index: 7, cluster: 0x1234_5678 })
            );
        }
    }

    #[test]
    fn other_numbers_are_no_operations() {
        for word in [0, 5, 15, u64::MAX, 1 | 29 << 4, 1 | 28 << 4 | 6 << 12, 1 | 26 << 4 | 8 << 12, 1 | 1 << 60, 3] {
            assert_eq!(Op::from(word).decode(), None, "{word:#x}");
        }
    }
}
