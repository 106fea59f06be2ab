//! [`Words`]: some words of one line.

use crate::LINE;

/// Words of one line, what [`crate::Media::flush_words`] takes. Eight bytes, ordered by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Words(u64);

impl Words {
    /// Those words of the line at `line` that `mask` names, its lowest bit the first.
    ///
    /// # Panics
    /// If `line` is not a multiple of 64.
    #[inline]
    pub fn new(line: u64, mask: u8) -> Words {
        assert!(line.is_multiple_of(LINE), "{line:#x} is not the start of a line");
        // a line number needs 58 bits, the mask 8: media end long before
        Words(line << 2 | u64::from(mask))
    }

    /// Where the line begins.
    #[inline]
    pub fn line(self) -> u64 {
        self.0 >> 8 << 6
    }

    /// Which of its words.
    #[inline]
    pub fn mask(self) -> u8 {
        self.0 as u8
    }

    /// Both, if they are words of one line.
    #[inline]
    pub fn joined(self, other: Words) -> Option<Words> {
        (self.0 >> 8 == other.0 >> 8).then_some(Words(self.0 | other.0))
    }
}
