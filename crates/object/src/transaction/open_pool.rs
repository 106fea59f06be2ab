//! [`OpenPool`]: an open pool.

use crate::transaction::counts::SharedCounts;
use crate::transaction::locks::LockTable;
use crate::transaction::sync::{AtomicBool, Mutex, meanwhile};
use crate::{Error, Result};
use everbyte_media::museum::unless;
use everbyte_media::{Media, Unsettled};
use everbyte_store::{Claim, Object};
use everbyte_tx::Undo;
use std::sync::atomic::Ordering;

/// An open pool, shared by its root, its tag's slot and its transactions.
pub(crate) struct OpenPool {
    pub undo: Undo,
    pub object: Object,
    #[allow(dead_code)] // held
    pub claim: Claim,
    /// The address of the prime page.
    pub base: *mut u8,
    /// Bytes of the span.
    pub len: usize,
    pub generation: u64,
    pub counts: SharedCounts,
    pub locks: LockTable,
    /// The newest transaction that has met others (LOCK-4).
    pub newest: Mutex<Unsettled<()>>,
    /// The newest transaction that returned unsettled, and whether there is one.
    pub buffered: Mutex<Unsettled<()>>,
    pub is_buffered: AtomicBool,
}

// SAFETY: `base` is an address in a mapping that `object` keeps; everything else is shared by
// itself.
unsafe impl Send for OpenPool {}
// SAFETY: as above.
unsafe impl Sync for OpenPool {}

impl OpenPool {
    pub(crate) fn media(&self) -> &Media {
        self.undo.media()
    }

    /// Settles the transactions that returned before their marks were settled.
    pub(crate) fn sync(&self) -> Result<()> {
        if !self.is_buffered.load(Ordering::Acquire) {
            return Ok(());
        }
        let waiting = *self.buffered.lock();
        if !waiting.is_nothing() {
            self.settle(waiting)?;
            let mut buffered = self.buffered.lock();
            if *buffered == waiting {
                *buffered = Unsettled::default();
                self.is_buffered.store(false, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Adds a transaction that returns before it is settled.
    pub(crate) fn add_buffered(&self, done: Unsettled<()>) {
        if !done.is_nothing() {
            let mut buffered = self.buffered.lock();
            *buffered = buffered.after(&done);
            self.is_buffered.store(true, Ordering::Release);
        }
    }

    /// `done` and what the transaction may have seen of others that met it (LOCK-4).
    pub(crate) fn with_newest(&self, done: Unsettled<()>) -> Unsettled<()> {
        if self.ordered().is_settled(self.media()) {
            return done; // no thread can have seen anything unsettled
        }
        let mut newest = self.newest.lock();
        *newest = newest.after(&done);
        *newest
    }

    /// Settles a transaction and the transactions that returned unsettled before it.
    #[inline]
    pub(crate) fn settle_all(&self, done: Unsettled<()>) -> Result<()> {
        if self.is_buffered.load(Ordering::Relaxed) {
            self.sync()?; // the body may have seen it
        }
        match done.is_nothing() {
            true => Ok(()),
            false => unless("object-answer-unsettled", || self.settle(done)),
        }
    }

    /// Settles everything that is ordered.
    pub(crate) fn settle_ordered(&self) -> Result<()> {
        let ordered = self.ordered();
        if ordered.is_settled(self.media()) { Ok(()) } else { self.settle(ordered) }
    }

    /// Everything that is ordered.
    fn ordered(&self) -> Unsettled<()> {
        Unsettled::new(self.media(), ())
    }

    fn settle(&self, done: Unsettled<()>) -> Result<()> {
        meanwhile();
        done.settle(self.media()).map_err(|error| Error::Tx(error.into()))
    }
}
