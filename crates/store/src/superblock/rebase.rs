//! Rebasing a store: another identity, for a copy made by hand.
//!
//! Such a copy may have holes where the original had space on the disk. Steps, a barrier between
//! them:
//!   1. the file system is asked for space for every cluster that is backed (SPACE-2); may fail:
//!      nothing has changed
//!   2. the superblock's copy A with the new identity; then copy B

use crate::layout::Superblock;
use crate::object::header;
use crate::{PRIME_LEN, Result, Store};
use everbyte_space::CLUSTER;
use std::collections::BTreeMap;

impl Store {
    /// Gives the store this identity, which must be no other store's. Asks the file system again
    /// for space for every backed cluster: a copy made by hand may lack it. Settled on return; a
    /// crash leaves the old identity or the new one.
    ///
    /// # Errors
    /// [`crate::Error::OutOfSpace`], [`crate::Error::SameIdentity`]: nothing has changed.
    /// [`crate::Error::Media`].
    pub fn rebase(&self, identity: [u8; 16]) -> Result<()> {
        let (media, head) = (self.media(), self.parts().head());
        media.require_opener()?;
        // the file has this space already, or had it until it was copied
        media.limit_room(u64::MAX);
        let backed = self.back_again(); // 1
        self.parts().growth().limit(&head.superblock());
        backed?;
        let rebased = |current: &Superblock| {
            self.parts().identity().replace(identity, media.path())?;
            Ok(Some(Superblock { identity, ..*current }))
        };
        head.change(rebased).map(drop) // 2
    }

    /// Asks for space for every backed cluster and for the pages of the bitmaps that cover them.
    /// Small objects stay small, and cold clusters cold.
    fn back_again(&self) -> Result<()> {
        let (media, space) = (self.media(), self.space());
        let superblock = self.parts().head().superblock();
        let (spans_at, end) = (superblock.spans_at, media.len().min(superblock.end()) / CLUSTER * CLUSTER);
        let backed = space.bitmap().set_runs(media, spans_at.get()..end.max(spans_at.get()));
        let parts = self.clusters_in_part();
        for run in backed {
            let mut at = run.start;
            for (&start, &part) in parts.range(run.clone()) {
                if at < start {
                    drop(space.reserve(&(at..start))?);
                }
                at = start + CLUSTER;
                space.reserve_part(&(start..at), &(start..start + part))?;
            }
            if at < run.end {
                drop(space.reserve(&(at..run.end))?);
            }
        }
        Ok(())
    }

    /// The clusters that have space for a part of them, with the bytes of that part: those of small
    /// objects for their prime page, cold clusters for nothing. None if names are damaged, and then
    /// every object gets whole clusters.
    fn clusters_in_part(&self) -> BTreeMap<u64, u64> {
        let mut parts = BTreeMap::new();
        let all = self.parts().catalogue().lock().list("").unwrap_or_default();
        for entry in all {
            let Ok(extent) = header::read(self.media(), &entry) else { continue };
            if entry.small && extent.backed == entry.span.at() + CLUSTER {
                parts.insert(entry.span.at(), PRIME_LEN);
            }
            let cold = self.parts().backing().cold_clusters(&entry, &extent);
            parts.extend(cold.into_iter().map(|at| (at, 0)));
        }
        parts
    }
}
