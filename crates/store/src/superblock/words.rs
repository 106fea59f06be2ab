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
        let start = both(words::SUSPECT_START).into_iter().flatten().min().unwrap_or(0);
        Ok(Words {
            opened: good(words::OPENED)? >> 16,
            closed: good(words::CLOSED)? >> 16,
            suspect: start..good(words::SUSPECT_END)?,
            accounted: good(words::ACCOUNTED)?,
        })
    }

    /// The offsets of words that are bad, for `check`.
    pub(crate) fn bad(media: &Media) -> Vec<u64> {
        let places = SUPERBLOCKS.iter().flat_map(|page| (0..words::LEN / 8).map(move |word| page + WORDS + word * 8));
        places.filter(|&at| media.holds(at, 8) && unseal(media.load(at)).is_none()).collect()
    }

    /// Stores the range of bytes from outside beside both superblocks and flushes it; no fence.
    pub(crate) fn write_suspect(&self, media: &Media) {
        let _section = media.section();
        for at in SUPERBLOCKS.map(|page| page + WORDS) {
            media.store(at + words::SUSPECT_START, seal(self.suspect.start));
            media.store(at + words::SUSPECT_END, seal(self.suspect.end));
            media.flush(at, words::LEN);
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
            media.flush(at, words::LEN);
        }
    }
}
