//! [`Quotas`]: the part of an open store that bounds the clusters of an object and of a user.
//!
//! Quotas are checked whenever an object is about to get clusters, its first one included, and
//! nowhere else: an object keeps clusters beyond a quota that was lowered.
//!
//! Threads: any. While a thread counts the clusters of a user, and until it has got its clusters,
//! no other thread gets any.

use super::header;
use crate::catalogue::part::Catalogue;
use crate::catalogue::record::{Entry, Slot};
use crate::layout::header as words;
use crate::object::growth::Growth;
use crate::superblock::head::Head;
use crate::{Engine, Error, Result};
use everbyte_media::Media;
use everbyte_media::lock_order::{RankedMutex, RankedMutexGuard, rank};
use everbyte_media::sealed::unseal;
use everbyte_space::CLUSTER;
use std::sync::Arc;

/// The quotas of an open store.
pub(crate) struct Quotas {
    media: Media,
    head: Arc<Head>,
    growth: Arc<Growth>,
    catalogue: Arc<Catalogue>,
    counting: RankedMutex<{ rank::QUOTA }, ()>,
}

impl Quotas {
    pub(crate) fn new(media: Media, (head, growth): (Arc<Head>, Arc<Growth>), catalogue: Arc<Catalogue>) -> Quotas {
        Quotas { media, head, growth, catalogue, counting: RankedMutex::default() }
    }

    /// Refuses `bytes` beyond a quota to an object that ends at `backed` now. The caller keeps the
    /// guard until the object has them.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`], [`Error::UserQuotaExceeded`].
    pub(crate) fn require(&self, entry: &Entry, backed: u64, bytes: u64) -> Result<Option<RankedMutexGuard<'_, ()>>> {
        let asked = bytes / CLUSTER;
        let quota = unseal(self.media.load(entry.span.at() + words::QUOTA)).unwrap_or(0) / CLUSTER;
        if quota > 0 {
            let has = self.clusters_of(entry, backed);
            if has + asked > quota {
                return Err(Error::QuotaExceeded { object: entry.name.clone(), quota, has, asked });
            }
        }
        self.require_of_user(entry, backed, bytes)
    }

    /// The part of [`Quotas::require`] about all objects of the user, unfinished ones included.
    pub(crate) fn require_of_user(
        &self,
        entry: &Entry,
        backed: u64,
        bytes: u64,
    ) -> Result<Option<RankedMutexGuard<'_, ()>>> {
        let quota = self.head.superblock().user_quota.get() / CLUSTER;
        let (user, asked) = (entry.access.owner, bytes / CLUSTER);
        if quota == 0 || user == 0 || entry.engine == Engine::Names {
            return Ok(None);
        }
        let counting = self.counting.lock();
        let all = self.catalogue.lock().all_slots()?;
        let others = all.iter().filter_map(|(_, slot)| match slot {
            Slot::Creating(other) | Slot::Live(other) => Some(other),
            _ => None,
        });
        let others = others
            .filter(|other| other.access.owner == user && other.id != entry.id)
            .map(|other| header::find(&self.media, other).map_or(0, |extent| self.clusters_of(other, extent.backed)));
        let has = others.sum::<u64>() + self.clusters_of(entry, backed);
        if has + asked > quota {
            return Err(Error::UserQuotaExceeded { object: entry.name.clone(), user, quota, has, asked });
        }
        Ok(Some(counting))
    }

    /// Clusters of an object that ends at `backed`, cold ones and its cold table among them.
    fn clusters_of(&self, entry: &Entry, backed: u64) -> u64 {
        let runs = self.growth.space().bitmap().set_runs(&self.media, entry.span.at()..backed);
        if backed == entry.span.at() {
            return 0; // it has no header yet
        }
        let tail = unseal(self.media.load(entry.span.at() + words::TAIL)).unwrap_or(0).min(entry.span.len());
        (runs.iter().map(|run| run.end - run.start).sum::<u64>() + tail) / CLUSTER
    }
}
