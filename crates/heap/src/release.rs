//! Gives free clusters back to the object, so that the store's file shrinks after many blocks were
//! freed, and backs them again.
//!
//! Nothing of the heap's own on media changes: a free cluster is free whether it is backed or not,
//! and the store's bitmap tells which. Released clusters have a list of their own; blocks are
//! handed out of backed ones only.
//!
//! The heap keeps a reserve of free clusters: half of the used ones, a megabyte at least, so that a
//! heap that grows and shrinks by little does not call the file system each time. The highest
//! clusters are released first: low ones are used first.
//!
//! Invariants
//!   HEAP-11  A cluster is released after its last block's lane is retired and fenced (HEAP-6), and
//!            backed, fenced, before a block of it is handed out: no block that a crash leaves
//!            allocated lies in a cluster that is not backed. Recovery of the heap's log releases
//!            nothing: blocks that the log of an engine names are free on media until that log has
//!            been read.
//!
//! Threads: everything here happens under the pool's lock.

use crate::Result;
use crate::extents::CLUSTER_PAGES;
use crate::heap::HeapState;
use crate::pool::Pool;
use everbyte_media::seeded;
use std::ops::Range;

/// Clusters of the reserve at least, and the least that is released at once.
const KEEP_MIN: u64 = 16;
/// Clusters backed at once if that many adjacent ones are released.
const BACK_AHEAD: u32 = 16;

impl HeapState {
    /// Releases free clusters beyond the reserve. To be called whenever pages have become free.
    #[inline]
    pub(crate) fn release_some(&self, pool: &mut Pool) {
        if pool.extents.pages() >= pool.release_at {
            self.release_now(pool);
        }
    }

    #[cold]
    fn release_now(&self, pool: &mut Pool) {
        let pages = u64::from(CLUSTER_PAGES);
        let free = pool.extents.pages() / pages;
        let used = self.end().saturating_sub(free + pool.released.pages() / pages);
        let keep = (used / 2).max(KEEP_MIN);
        if free >= keep + KEEP_MIN {
            let mut excess = free - keep;
            for range in pool.extents.whole_clusters() {
                let count = u64::from((range.end - range.start) / CLUSTER_PAGES).min(excess);
                let from = range.end - count as u32 * CLUSTER_PAGES;
                // Behind a damaged bitmap the clusters stay unchanged, for `check` to report.
                if self.object.release(self.bytes_of(from..range.end)).is_ok() {
                    let free = pool.extents.take_at(from, range.end - from);
                    assert!(free, "HEAP-11: pages that were found free are not");
                    pool.released.insert(from, range.end - from);
                }
                excess -= count;
                if excess == 0 {
                    break;
                }
            }
        }
        // Free pages outside whole clusters must not start a search for every page freed.
        pool.release_at = (keep + KEEP_MIN).max(pool.extents.pages() / pages + KEEP_MIN) * pages;
    }

    /// Backs released clusters for `count` adjacent pages, and some more. `false`: not so many lie
    /// side by side.
    pub(crate) fn back_released(&self, pool: &mut Pool, count: u32) -> Result<bool> {
        let needed = count.next_multiple_of(CLUSTER_PAGES);
        let ahead = needed.max(BACK_AHEAD * CLUSTER_PAGES);
        // A disk without space for the further clusters may have space for the needed ones.
        Ok(self.back_run(pool, ahead)? || ahead > needed && self.back_run(pool, needed)?)
    }

    /// Backs `count` adjacent released pages. `false`: there are not so many, or the disk has no
    /// space for them.
    fn back_run(&self, pool: &mut Pool, count: u32) -> Result<bool> {
        let Some(first) = pool.released.take(count) else { return Ok(false) };
        if !seeded("heap-released-handed-out")
            && let Err(error) = self.object.back_as_is(self.bytes_of(first..first + count))
        {
            pool.released.insert(first, count);
            let error = crate::Error::from(error);
            return if error.is_full() { Ok(false) } else { Err(error) };
        }
        pool.extents.insert(first, count);
        pool.release_at = pool.release_at.max(pool.extents.pages() + u64::from(CLUSTER_PAGES) * KEEP_MIN);
        Ok(true)
    }

    fn bytes_of(&self, pages: Range<u32>) -> Range<u64> {
        let at = |page: u32| self.at(u64::from(page / CLUSTER_PAGES));
        at(pages.start)..at(pages.end)
    }
}
