//! Asking for the lines of a leaf's records before they are read. All of it is a hint: any offset
//! is harmless.

use crate::tree::claims::Claim;
use crate::tree::layout::{CLAIMS_AT, PLACE_AT, record_of};
use crate::tree::node::Node;
use everbyte_media::LINE;

/// Lines of a record that are asked for before its slot is known.
const RECORD_LINES: u64 = 3;

impl Node<'_> {
    /// Asks for the record of an appended slot.
    #[inline]
    pub(crate) fn prefetch_appended(&self, append: usize) {
        let word = self.window.load(CLAIMS_AT + Claim::word_of(append) * 8);
        self.prefetch_lines(Claim::in_word(word, append).at);
    }

    #[inline]
    fn prefetch_lines(&self, at: u64) {
        (0..RECORD_LINES).for_each(|line| self.media().prefetch(self.at + at + line * LINE));
    }

    /// Asks for the record of a leaf's slot, which has come already.
    #[inline(always)]
    pub(crate) fn prefetch_record_of(&self, index: usize) {
        let place = self.window.load(self.slot_offset(index) + PLACE_AT as usize);
        self.prefetch_lines(record_of(place));
    }

    /// Asks for the record of a leaf's slot together with the slot: in the base, where records lie
    /// in order, about where it is if they are of like length.
    #[inline(always)]
    pub(crate) fn prefetch_record(&self, index: usize) {
        match index.checked_sub(self.base()) {
            Some(append) => self.prefetch_appended(append),
            None => {
                let records = self.records();
                let len = u64::from(self.base_end) - records;
                self.prefetch_lines(records + len * index as u64 / self.base().max(1) as u64);
            }
        }
    }
}
