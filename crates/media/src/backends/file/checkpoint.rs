//! Checkpoint: flushed lines move from the log to their place, and the log's space becomes free.
//!
//! 1. take the set of dirty pages, and the log's end: `target`
//! 2. for each batch of pages: copy them from memory; sync the log as it stands; write them
//! 3. measure the file, then sync it
//! 4. write and sync a head with `target` and the measured length
//! 5. the log up to `target` is free
//! 6. if the log proves too small, it grows (`log_growth`)
//!
//! A page is copied as memory holds it, with stores that were never flushed, or flushed after
//! `target`. The sync in step 2 makes that safe: everything that the crash rule requires to survive
//! with such a store was flushed before it, so it is in the log by then, and recovery replays the
//! log over the page.
//!
//! Invariants
//!   CKPT-1  No page is written before the log on the medium holds everything that was flushed
//!           before the page was copied.
//!   CKPT-2  No head passes a record before every page that the record touched is on the medium.
//!   CKPT-3  Log space is reused only after a head that passes it is on the medium.
//!   CKPT-4  No head promises a length of the file that is not on the medium: another thread may
//!           let the file grow between any two steps, and a synced write of the head need not
//!           carry the length along.
//!
//! Threads: one checkpoint at a time, beside any number of writers. It waits for no section and no
//! flush.

use super::checkpoint_pages::CheckpointPages;
use super::dirty_pages::PAGE;
use super::disk::Page;
use super::file_store::{FileStore, Unfinished};
use super::log::Log;
use crate::counters::Counter;
use crate::museum::{misplaced, unless};
use crate::{Result, seeded};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Release, fence};
use zerocopy::IntoBytes;

/// Pages copied and written between two syncs of the log.
const BATCH_PAGES: usize = 256;
/// Pages of one write. Meanwhile the file system, or the device, lets no log record pass.
const WRITE_PAGES: usize = 64;

impl FileStore {
    /// Checkpoints everything flushed before.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.sync_log()?;
        self.checkpoint_when(|log| !log.is_idle())
    }

    /// Checkpoints, leaves an empty log, and says so in the head.
    pub(crate) fn close(&self) -> Result<()> {
        self.checkpoint()?;
        if self.punched.swap(false, AcqRel) {
            // No data depends on a hole. But after a clean close no record is left of the holes
            // that were to be made.
            self.try_io("sync holes", |disk| disk.sync())?;
            self.disk.count(Counter::Syncs, 1);
        }
        let mut head = self.head.lock();
        {
            let mut log = self.log.lock();
            if log.clean || !log.is_idle() {
                return Ok(()); // another thread still stores, and will close
            }
            // From here on the next record waits for the head's lock and rewrites the head.
            log.clean = true;
        }
        head.log_clean = 1;
        self.put_head(&mut head)
    }

    /// Checkpoints if `wanted` still holds when no other checkpoint runs.
    pub(crate) fn checkpoint_when(&self, wanted: impl Fn(&Log) -> bool) -> Result<()> {
        let mut buffers = self.checkpointing.lock();
        let CheckpointPages { pages, copies, log_backed, .. } = &mut *buffers;
        self.disk.check_alive()?;
        let (target, freed) = {
            let mut log = self.log.lock();
            while log.writing {
                self.disk.check_alive()?; // a poisoned writer never ends
                self.record_done.wait(&mut log);
            }
            if !wanted(&log) {
                return Ok(());
            }
            log.dirty.take(pages);
            ((log.tail, log.sequence, log.chain), log.tail - log.start)
        };
        // The pages are no longer in the dirty set, and not yet written.
        let unfinished = Unfinished { store: self, what: "checkpoint" };
        let done = misplaced("media-head-before-pages", || self.pass(target, self.measure()?))
            .and_then(|()| self.write_pages(pages, copies))
            .and_then(|len| self.pass(target, len));
        let done = done.and_then(|()| {
            let needed = self.log.lock().should_grow(freed, pages.len() as u64);
            self.grow_log(log_backed, needed)
        });
        std::mem::forget(unfinished);
        if done.is_ok() && self.releases_pages {
            buffers.cool();
        }
        buffers.pages.clear();
        done
    }

    /// Steps 2 and 3. Returns the length of the file on the medium.
    fn write_pages(&self, pages: &mut [u64], copies: &mut Box<[Page]>) -> Result<u64> {
        pages.sort_unstable();
        if copies.len() < pages.len().min(BATCH_PAGES) {
            *copies = Page::buffer(pages.len().min(BATCH_PAGES));
        }
        for batch in pages.chunks(BATCH_PAGES) {
            for (page, copy) in batch.iter().zip(&mut *copies) {
                self.mapping.read(page * PAGE, copy.as_mut_bytes());
                if self.mapping.unreadable(page * PAGE, PAGE).is_some() && !seeded("media-zeros-checkpointed") {
                    let detail = format!("the page at {:#x} cannot be read", page * PAGE);
                    // BUS-3
                    self.try_io("copy pages", |_| Err(std::io::Error::other(detail.clone())))?;
                }
            }
            // Pairs with the fence of the thread that stored the bytes just read: the sync below
            // covers that thread's earlier flushes.
            fence(Acquire);
            unless("media-page-before-log", || self.sync_log())?; // CKPT-1
            let mut copied = 0;
            for run in batch.chunk_by(|page, next| page + 1 == *next).flat_map(|run| run.chunks(WRITE_PAGES)) {
                let bytes = copies[copied..copied + run.len()].as_bytes();
                self.try_io("write pages", |disk| disk.write_pages_at(run[0] * PAGE, bytes))?;
                copied += run.len();
                self.sync_if_due();
            }
        }
        let mut len = self.measure()?; // CKPT-4
        unless("media-pages-unsynced", || self.sync_pages())?; // CKPT-2
        misplaced("media-measure-after-sync", || self.measure().map(|after| len = after))?;
        Ok(len)
    }

    fn sync_pages(&self) -> Result<()> {
        self.punched.store(false, Release);
        self.try_io("sync pages", |disk| disk.sync())?;
        self.disk.count(Counter::Syncs, 1);
        Ok(())
    }

    fn measure(&self) -> Result<u64> {
        let mut len = 0;
        self.try_io("measure the file", |disk| disk.len().map(|found| len = found))?;
        Ok(len.min(self.mapping.reserve()))
    }

    /// Steps 4 and 5.
    fn pass(&self, (tail, sequence, chain): (u64, u64, u64), file_len: u64) -> Result<()> {
        let synced = self.progress.synced.load(Acquire) + 1;
        let place = tail % self.log.lock().ring_len;
        if !seeded("media-reuse-before-head") {
            self.write_head(|head| {
                head.file_len = file_len;
                (head.log_head, head.log_sequence, head.log_chain) = (place, sequence, chain);
                head.log_synced = synced.max(sequence);
                head.incarnation = self.incarnation;
            })?;
        }
        let mut log = self.log.lock();
        log.start = tail; // CKPT-3
        log.limit();
        self.progress.passed.store(sequence - 1, Release);
        Ok(())
    }
}

impl FileStore {
    /// Between two pieces of a long task: does a sync that is due. A failure poisons the store, and
    /// the next piece finds it poisoned.
    pub(crate) fn sync_if_due(&self) {
        if self.tasks.take_due() {
            let _ = self.sync_written();
        }
    }
}
