//! [`Head`]: the superblock in use and the words beside it.
//!
//! Threads: any; one lock for the superblock, one for the words.

use super::copies;
use super::words::Words;
use crate::Result;
use crate::layout::{SUPERBLOCKS, Superblock};
use everbyte_media::lock_order::{RankedMutex, RankedRwLock, rank};
use everbyte_media::{Checked, Media};
use everbyte_space::CLUSTER;

/// The part of an open store that owns its superblock.
pub(crate) struct Head {
    media: Media,
    current: RankedRwLock<{ rank::SUPERBLOCK }, Superblock>,
    words: RankedMutex<{ rank::WORDS }, Words>,
}

impl Head {
    pub(crate) fn new(media: Media, superblock: Superblock, words: Words) -> Head {
        Head { media, current: RankedRwLock::new(superblock), words: RankedMutex::new(words) }
    }

    /// The superblock in use.
    pub(crate) fn superblock(&self) -> Superblock {
        *self.current.read()
    }

    /// Reads the superblock again, which another process may have changed.
    pub(crate) fn refresh(&self) -> Result<Superblock> {
        let (superblock, _) = copies::choose(&self.media)?;
        *self.current.write() = superblock;
        Ok(superblock)
    }

    /// Changes the superblock; settled on return. A crash leaves the old one or the new one.
    /// `change` returns `None` for a superblock that stays as it is; no other thread changes it
    /// meanwhile.
    ///
    /// # Errors
    /// Those of `change`, and [`crate::Error::Media`].
    pub(crate) fn change(&self, change: impl FnOnce(&Superblock) -> Result<Option<Superblock>>) -> Result<Superblock> {
        let mut current = self.current.write();
        if let Some(next) = change(&current)? {
            let next = Superblock { sequence: current.sequence + 1, ..next };
            copies::write(&self.media, next, &SUPERBLOCKS)?;
            *current = next.sealed();
        }
        Ok(*current)
    }

    /// Adds `feature` to the features that a reader must know. Settled.
    pub(crate) fn require_feature(&self, feature: u64) -> Result<()> {
        let add = |current: &Superblock| {
            let missing = current.features & feature != feature;
            Ok(missing.then_some(Superblock { features: current.features | feature, ..*current }))
        };
        self.change(add).map(drop)
    }

    /// Writes that the store is closed, and that all bytes of its file are accounted for; flushed,
    /// not fenced.
    pub(crate) fn write_closed(&self) {
        let mut words = self.words.lock();
        words.closed = words.opened;
        // with clusters that were prepared
        words.accounted = words.accounted.max(self.media.len().next_multiple_of(CLUSTER));
        words.write(&self.media);
    }
}
