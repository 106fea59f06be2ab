//! Giving clean pages back, so that memory stays within twice the live set plus the log.
//!
//! A page that was written becomes a private copy beside the system's own copy of the file. After a
//! checkpoint the two are equal, mostly, and the private one can go: the next load finds the file's
//! bytes.
//!
//! A page that is written again and again would be copied anew each time. So in the background only
//! *cold* pages go: those that a checkpoint cleaned and the next one did not find dirty again.
//!
//! Invariants
//!   BACK-1  A page is given back only while no section is open, and only if its bytes equal the
//!           file's. So a store that was never flushed, or flushed since, keeps its page.
//!   BACK-2  The gate is waited for in bounded time: a section may itself wait for a checkpoint.
//!
//! Threads: one at a time, beside readers. Loads may race with it: they find the same bytes before
//! and after.

use super::Shared;
use super::checkpoint::Room;
use super::dirty_pages::PAGE;
use std::time::Duration;

/// Pages looked at while the gate is closed once: some tens of microseconds.
const BATCH_PAGES: usize = 64;
const PATIENCE: Duration = Duration::from_millis(2);

impl Shared {
    /// Gives back cold pages; with `all` also those that the newest checkpoint cleaned. Never pages
    /// that are dirty.
    pub(crate) fn give_back(&self, all: bool) {
        let mut room = self.checkpointing.lock(); // so the file's bytes stay what they are
        let Room { cleaned, cold, .. } = &mut *room;
        if all {
            cold.append(cleaned);
        }
        let mut bytes = vec![0; BATCH_PAGES * PAGE as usize];
        while !cold.is_empty() {
            let rest = cold.len().saturating_sub(BATCH_PAGES);
            let batch = &cold[rest..];
            // The reading is done before the gate closes, the comparing and giving back behind it.
            for (page, bytes) in batch.iter().zip(bytes.chunks_exact_mut(PAGE as usize)) {
                if self.disk.read_at(page * PAGE, bytes).is_err() {
                    return; // the pages are kept
                }
            }
            // another time (BACK-2)
            let Some(_gate) = self.gate.try_write_for(PATIENCE) else { return };
            let log = self.log.lock();
            for (&page, bytes) in batch.iter().zip(bytes.chunks_exact(PAGE as usize)) {
                if !log.dirty.contains(page) && self.mapping.compare(page * PAGE, PAGE, bytes).is_eq() {
                    // a refusal only keeps the page
                    let _ = self.mapping.give_back(page * PAGE, PAGE);
                }
            }
            drop(log);
            cold.truncate(rest);
        }
    }
}
