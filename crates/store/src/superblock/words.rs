//! The words beside both copies of the superblock, which change at every opening.

use crate::layout::{SUPERBLOCKS, WORDS, words};
use crate::{Error, Result};
use everbyte_media::sealed::{seal, unseal};
use everbyte_media::{Damage, Media};

use std::ops::Range;

/// The words, as one value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Words {
    /// The number of openings of the store.
    pub opened: u64,
    /// The value of `opened` at the last clean close.
    pub closed: u64,
    /// Bytes of the file that came from outside.
    pub suspect: Range<u64>,
    /// Bytes of the file that are accounted for.
    pub accounted: u64,
    /// The value of `opened` of the last opening that followed a process's death; 0: of none.
    pub after_death: u64,
}

impl Words {
    /// The words, each from its good copy; of two good copies the later one counts.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a word is bad in both copies.
    pub(crate) fn read(media: &Media) -> Result<Words> {
        let both = |offset: u64| SUPERBLOCKS.map(|page| unseal(media.load(page + WORDS + offset)));
        let good = |offset: u64| {
            both(offset).into_iter().flatten().max().ok_or_else(|| {
                let detail = "a word of the superblock: its check bits are wrong in both copies";
                Error::from(Damage::at(SUPERBLOCKS[0] + WORDS + offset, detail).of_file(media.path()))
            })
        };
        // Zeros without check bits: a store of which no process has died.
        let deaths = SUPERBLOCKS.map(|page| match media.load(page + WORDS + words::AFTER_DEATH) {
            0 => 0,
            word => unseal(word).unwrap_or(u64::MAX) >> 16,
        });
        let start = both(words::SUSPECT_START).into_iter().flatten().min().unwrap_or(0);
        Ok(Words {
            opened: good(words::OPENED)? >> 16,
            closed: good(words::CLOSED)? >> 16,
            suspect: start..good(words::SUSPECT_END)?,
            accounted: good(words::ACCOUNTED)?,
            after_death: deaths[0].max(deaths[1]),
        })
    }

    /// The offsets of words that are bad, for `check`.
    pub(crate) fn bad(media: &Media) -> Vec<u64> {
        let words = (0..words::LEN).step_by(8);
        let places = SUPERBLOCKS.iter().flat_map(|page| words.clone().map(move |word| (word, page + WORDS + word)));
        let is_bad = |&(word, at): &(u64, u64)| {
            let is_bare = word == words::AFTER_DEATH && media.load(at) == 0;
            !is_bare && unseal(media.load(at)).is_none()
        };
        places.filter(|&(_, at)| media.holds(at, 8)).filter(is_bad).map(|(_, at)| at).collect()
    }

    /// Stores the range of bytes from outside beside both superblocks and flushes it; no fence.
    pub(crate) fn write_suspect(&self, media: &Media) {
        let _section = media.section();
        for at in SUPERBLOCKS.map(|page| page + WORDS) {
            media.store(at + words::SUSPECT_START, seal(self.suspect.start));
            media.store(at + words::SUSPECT_END, seal(self.suspect.end));
            media.flush(at, words::AFTER_DEATH);
        }
    }

    /// Stores the words beside both superblocks and flushes; no fence.
    pub(crate) fn write(&self, media: &Media) {
        let _section = media.section();
        for page in SUPERBLOCKS {
            let at = page + WORDS;
            media.store(at + words::OPENED, seal(self.opened << 16));
            media.store(at + words::CLOSED, seal(self.closed << 16));
            media.store(at + words::SUSPECT_START, seal(self.suspect.start));
            media.store(at + words::SUSPECT_END, seal(self.suspect.end));
            media.store(at + words::ACCOUNTED, seal(self.accounted));
            let mut len = words::AFTER_DEATH;
            if self.after_death != 0 {
                media.store(at + words::AFTER_DEATH, seal(self.after_death << 16));
                len = words::LEN;
            }
            media.flush(at, len);
        }
    }
}
