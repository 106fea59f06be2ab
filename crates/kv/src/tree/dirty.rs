//! [`Dirty`]: the words that a batch has stored and not flushed yet.

use everbyte_media::{LINE, Media, Words, seeded};

/// So many lines are flushed while they are still in the first-level cache, before the batch goes
/// on: a large batch would bring each of them back for its commit.
const FULL: usize = 32;

/// Ranges to flush before the first fence (BATCH-1).
#[derive(Default)]
pub(crate) struct Dirty {
    list: Vec<Words>,
    /// Whether anything was noted since [`Dirty::clear`], flushed or not.
    any: bool,
}

impl Dirty {
    /// Nothing is noted; the list keeps its room.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.any = false;
    }

    /// Whether nothing was ever stored.
    pub(crate) fn is_clean(&self) -> bool {
        !self.any
    }

    /// Notes that `at..at+len` was stored, in whole words.
    #[inline]
    pub(crate) fn note(&mut self, at: u64, len: u64) {
        let (first, end) = (at / 8, (at + len).div_ceil(8));
        for line in first / 8..end.div_ceil(8) {
            let (from, to) = (first.max(line * 8) % 8, (end - line * 8).min(8));
            let words = Words::new(line * LINE, (0xff >> (8 - to)) & (0xff << from) as u8);
            match self.list.last_mut().and_then(|last| Some((last.joined(words)?, last))) {
                Some((joined, last)) => *last = joined,
                None => self.list.push(words),
            }
        }
        self.any = true;
    }

    /// Whether [`Dirty::flush`] should come soon.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= FULL
    }

    /// Drops what was noted: nothing is flushed.
    pub(crate) fn forget(&mut self) {
        self.list.clear();
    }

    /// Flushes what was noted, each line once.
    pub(crate) fn flush(&mut self, media: &Media) {
        self.list.sort_unstable();
        if seeded("tree-dropped-flush") {
            self.list.pop();
        }
        self.list.dedup_by(|next, kept| match kept.joined(*next) {
            Some(joined) => {
                *kept = joined;
                true
            }
            None => false,
        });
        media.flush_words(&self.list);
        self.list.clear();
    }
}
