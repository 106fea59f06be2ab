//! [`Words`]: some words of one line.

use crate::LINE;

/// Words of one line, for [`crate::Media::flush_words`]. Eight bytes, ordered by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Words(u64);

impl Words {
    /// The words of the line at `line` that `mask` names; the lowest bit is the first word.
    ///
    /// # Panics
    /// If `line` is not a multiple of 64.
    #[inline]
    pub fn new(line: u64, mask: u8) -> Words {
        assert!(line.is_multiple_of(LINE), "{line:#x} is not the start of a line");
        // A line number needs 58 bits and the mask 8; media are shorter than 2^62 bytes.
        Words(line << 2 | u64::from(mask))
    }

    /// Offset of the line.
    #[inline]
    pub fn line(self) -> u64 {
        self.0 >> 8 << 6
    }

    /// The words of the line.
    #[inline]
    pub fn mask(self) -> u8 {
        self.0 as u8
    }

    /// The union, if both are words of one line.
    #[inline]
    pub fn joined(self, other: Words) -> Option<Words> {
        (self.0 >> 8 == other.0 >> 8).then_some(Words(self.0 | other.0))
    }
}
