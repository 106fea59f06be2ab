//! Growing and shrinking a heap on request. Without requests it grows when it is full, and gives
//! back free clusters beyond its reserve (`release`).

use crate::classes::{self, COUNT};
use crate::extents::CLUSTER_PAGES;
use crate::heap::HeapState;
use crate::layout::{CLUSTER, ZONE_CLUSTERS};
use crate::{Error, Heap, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Heap {
    /// Grows by at least `bytes`, in whole clusters that are backed on return: later allocations of
    /// these bytes do not ask the file system.
    ///
    /// # Errors
    /// [`Error::Store`] when the span or the disk is full: nothing has changed.
    pub fn expand(&self, bytes: u64) -> Result<()> {
        self.inner.expand(bytes)
    }

    /// Gives the clusters that lie wholly in `range`, offsets of the store, back to the file
    /// system. They are backed again when the heap needs them.
    ///
    /// # Errors
    /// [`Error::NotFree`] if one of them holds a block, or is the heap's own: nothing has changed.
    pub fn shrink(&self, range: Range<u64>) -> Result<()> {
        let inner = &*self.inner;
        let clusters = inner.whole_clusters(&range);
        inner.load(&clusters)?;
        inner.retire_idle_runs();
        let mut pool = inner.pool.lock();
        let pages = |cluster: u64| cluster as u32 * CLUSTER_PAGES;
        let mut taken = Vec::new();
        for cluster in clusters {
            if pool.extents.take_at(pages(cluster), CLUSTER_PAGES) {
                taken.push(cluster);
            } else if !pool.released.holds(pages(cluster), CLUSTER_PAGES) {
                taken.iter().for_each(|&cluster| pool.extents.insert(pages(cluster), CLUSTER_PAGES));
                return Err(Error::NotFree { at: inner.at(cluster), object: inner.name() });
            }
        }
        for cluster in taken {
            let bytes = inner.at(cluster)..inner.at(cluster + 1);
            match inner.object.release(bytes) {
                Ok(()) => pool.released.insert(pages(cluster), CLUSTER_PAGES),
                // the bitmap is damaged, and `check` reports it
                Err(_) => pool.extents.insert(pages(cluster), CLUSTER_PAGES),
            }
        }
        Ok(())
    }

    /// Gives every free cluster back to the file system. Looks at the whole heap.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a table of the heap is.
    pub fn shrink_all(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.load(&(0..inner.end()))?;
        inner.retire_idle_runs();
        let free = inner.pool.lock().extents.whole_clusters();
        for pages in free {
            let at = |page: u32| inner.at(u64::from(page / CLUSTER_PAGES));
            self.shrink(at(pages.start)..at(pages.end))?;
        }
        Ok(())
    }
}

impl HeapState {
    /// The clusters of the heap that lie wholly in a range, which may be anything.
    fn whole_clusters(&self, range: &Range<u64>) -> Range<u64> {
        let from = |at: u64| at.saturating_sub(self.prime);
        let end = (from(range.end) / CLUSTER).min(self.end());
        from(range.start).div_ceil(CLUSTER).min(end)..end
    }

    fn load(&self, clusters: &Range<u64>) -> Result<()> {
        let mut zones = clusters.start / ZONE_CLUSTERS..clusters.end.div_ceil(ZONE_CLUSTERS);
        zones.try_for_each(|zone| self.zone(zone).map(|_| ()))
    }

    /// Makes free clusters of empty runs that shards allocate from.
    fn retire_idle_runs(&self) {
        for number in 0..self.shards.len() {
            let mut shard = self.lock_shard(number);
            for class in 0..COUNT {
                let Some(run) = shard.current(class) else { continue };
                if self.cluster(run).free.load(Ordering::Relaxed) == classes::count_of(class) {
                    shard.drop_current(class);
                    self.retire_run(&mut self.pool.lock(), run);
                }
            }
        }
    }
}
