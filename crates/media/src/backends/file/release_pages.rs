//! Releasing clean pages, so that memory stays within twice the live set plus the log.
//!
//! A page that was written becomes a private copy beside the system's own copy of the file. After a
//! checkpoint the two are equal in most cases, and the private one can go: the next load finds the
//! file's bytes.
//!
//! A page that is written again and again would be copied anew each time. So the background thread
//! releases only *cold* pages: pages that a checkpoint cleaned and the next one did not find dirty
//! again.
//!
//! Invariants
//!   BACK-1  A page is released only while no section is open, and only if its bytes equal the
//!           file's. So a page with a store that was never flushed, or flushed since, stays.
//!   BACK-2  The wait for the gate is bounded: a section may itself wait for a checkpoint.
//!
//! Threads: one at a time, beside readers. Loads may race with it: they find the same bytes before
//! and after.

use super::checkpoint_pages::CheckpointPages;
use super::dirty_pages::PAGE;
use super::file_store::FileStore;
use parking_lot::MutexGuard;
use std::time::Duration;

/// Pages read at a time.
const BATCH_PAGES: usize = 64;
/// Pages compared and released while the gate is closed once. Each release interrupts the other
/// CPUs, which takes some microseconds; a section that waits for the gate waits for all of them.
const GATE_PAGES: usize = 4;
const GATE_WAIT: Duration = Duration::from_millis(2);

impl FileStore {
    /// Releases cold pages; with `all` also those that the newest checkpoint cleaned. Never dirty
    /// pages. Between two pages it does a sync that is due, and between two batches it lets a
    /// checkpoint run that a flush waits for.
    pub(crate) fn release_pages(&self, all: bool) {
        let mut buffers = self.checkpointing.lock(); // no checkpoint changes the file's bytes
        if all {
            let CheckpointPages { cleaned, cold, .. } = &mut *buffers;
            cold.append(cleaned);
        }
        let mut bytes = vec![0; BATCH_PAGES * PAGE as usize];
        while !buffers.cold.is_empty() && !self.disk.is_poisoned() {
            let cold = &mut buffers.cold;
            let rest = cold.len().saturating_sub(BATCH_PAGES);
            for (page, bytes) in cold[rest..].iter().zip(bytes.chunks_exact_mut(PAGE as usize)) {
                if self.disk.disk().read_at(page * PAGE, bytes).is_err() {
                    return; // the pages are kept
                }
                self.sync_if_due();
            }
            for (pages, bytes) in cold[rest..].chunks(GATE_PAGES).zip(bytes.chunks(GATE_PAGES * PAGE as usize)) {
                {
                    // The pages wait for the next call (BACK-2).
                    let Some(_gate) = self.gate.close_within(GATE_WAIT) else { return };
                    self.release_equal(pages, bytes);
                }
                self.sync_if_due();
            }
            cold.truncate(rest);
            MutexGuard::bump(&mut buffers);
        }
    }

    /// Releases those of `pages` that are clean and equal the file's `bytes`. The gate is closed.
    fn release_equal(&self, pages: &[u64], bytes: &[u8]) {
        let log = self.log.lock();
        let is_equal =
            |page: u64, bytes| !log.dirty.contains(page) && self.mapping.compare(page * PAGE, PAGE, bytes).is_eq();
        let equal: Vec<u64> = pages
            .iter()
            .zip(bytes.chunks_exact(PAGE as usize))
            .filter(|&(&page, bytes)| is_equal(page, bytes))
            .map(|(&page, _)| page)
            .collect();
        for run in equal.chunk_by(|page, next| page + 1 == *next) {
            // A refusal only keeps the pages.
            let _ = self.mapping.release_pages(run[0] * PAGE, run.len() as u64 * PAGE);
        }
    }
}
