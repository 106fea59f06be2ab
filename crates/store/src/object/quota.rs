//! Quotas, in clusters: what one object may have, and what the objects of one user may have
//! together. Asked whenever an object is to get clusters, its first one included, and nowhere else:
//! who has more keeps them.
//!
//! Threads: any; while those of a user are counted, and until who asked has got them, nobody else
//! gets any.

use crate::catalogue::record::{Entry, Slot};
use crate::layout::{SUPERBLOCKS, Superblock, header};
use crate::store::Inner;
use crate::{Engine, Error, Result, Store, Want, object, superblock};
use everbyte_space::{CLUSTER, unseal};
use parking_lot::MutexGuard;

impl Store {
    /// Says how many clusters an object may have; `None`: as many as its span holds. An object that
    /// has more keeps them, and gets no others. Settled on return.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Damaged`], [`Error::Media`].
    pub fn set_quota(&self, name: &str, clusters: Option<u64>) -> Result<()> {
        let _exclusive = self.changing()?;
        let entry = self.inner.live(&mut self.inner.table.lock(), name)?;
        self.require_access(&entry, Want::Write)?;
        self.inner.extent(&entry)?;
        self.inner.set_limit(&entry, header::QUOTA, clusters.map(|clusters| clusters.max(1)))
    }

    /// Says how many clusters the objects of one user, other than root, may have together in this
    /// store; `None`: as many as there are. Each growth then costs a look at every object. Settled
    /// on return; a crash leaves the old quota or the new one.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn set_user_quota(&self, clusters: Option<u64>) -> Result<()> {
        let _exclusive = self.renaming()?; // which makes others read the superblock again
        let mut current = self.inner.current.write();
        let user_quota = clusters.map_or(0, |clusters| clusters.clamp(1, 1 << 31) * CLUSTER);
        let next = Superblock { user_quota, sequence: current.sequence + 1, ..*current };
        superblock::write(self.media(), next, &SUPERBLOCKS)?;
        *current = next.sealed();
        Ok(())
    }

    /// How many clusters the objects of one user may have together, if that is limited.
    pub fn user_quota(&self) -> Option<u64> {
        Some(self.inner.superblock().user_quota / CLUSTER).filter(|&clusters| clusters > 0)
    }
}

impl Inner {
    /// Refuses clusters beyond a quota to an object that ends at `backed` now. What is returned is
    /// kept until it has them.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`], [`Error::UserQuotaExceeded`].
    pub(crate) fn require_quota(&self, entry: &Entry, backed: u64, bytes: u64) -> Result<Option<MutexGuard<'_, ()>>> {
        let asked = bytes / CLUSTER;
        let quota = unseal(self.media.load(entry.span.at() + header::QUOTA)).unwrap_or(0) / CLUSTER;
        if quota > 0 {
            let has = self.clusters_of(entry, backed);
            if has + asked > quota {
                return Err(Error::QuotaExceeded { object: entry.name.clone(), quota, has, asked });
            }
        }
        self.require_user_quota(entry, backed, bytes)
    }

    /// The part of [`Inner::require_quota`] that concerns the user's other objects, those that are
    /// being made included.
    pub(crate) fn require_user_quota(
        &self,
        entry: &Entry,
        backed: u64,
        bytes: u64,
    ) -> Result<Option<MutexGuard<'_, ()>>> {
        let (quota, user, asked) = (self.superblock().user_quota / CLUSTER, entry.access.owner, bytes / CLUSTER);
        if quota == 0 || user == 0 || entry.engine == Engine::Names {
            return Ok(None);
        }
        let counting = self.counting.lock();
        let all = self.all_slots(&self.table.lock())?;
        let others = all.iter().filter_map(|(_, slot)| match slot {
            Slot::Creating(other) | Slot::Live(other) => Some(other),
            _ => None,
        });
        let others = others.filter(|other| other.access.owner == user && other.id != entry.id).map(|other| {
            object::find_header(&self.media, other).map_or(0, |extent| self.clusters_of(other, extent.backed))
        });
        let has = others.sum::<u64>() + self.clusters_of(entry, backed);
        if has + asked > quota {
            return Err(Error::UserQuotaExceeded { object: entry.name.clone(), user, quota, has, asked });
        }
        Ok(Some(counting))
    }

    /// Clusters of an object that ends at `backed`, cold ones and its cold table among them.
    fn clusters_of(&self, entry: &Entry, backed: u64) -> u64 {
        let runs = self.space.bitmap().runs(&self.media, entry.span.at()..backed, true);
        if backed == entry.span.at() {
            return 0; // it has no header yet
        }
        let tail = unseal(self.media.load(entry.span.at() + header::TAIL)).unwrap_or(0).min(entry.span.len());
        (runs.iter().map(|run| run.end - run.start).sum::<u64>() + tail) / CLUSTER
    }
}
