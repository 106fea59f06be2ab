//! Checkpoint: flushed lines move from the log to their place, and the log's space becomes free.
//!
//! 1. take the set of dirty pages, and note where the log ends: `target`
//! 2. for each batch of pages: copy them from memory; sync the log as it stands; write them
//! 3. measure the file, then sync it
//! 4. write and sync a head that says `target`, and the length that was measured
//! 5. the log up to `target` is free
//! 6. if the log proves too small, it grows (`room`)
//!
//! A page is copied as memory holds it, with stores in it that were never flushed, or flushed after
//! `target`. That is safe because of the sync in step 2: all that the law wants to survive together
//! with such a store was flushed before it, so it is in the log by then, and recovery replays the
//! log over the page.
//!
//! Invariants
//!   CKPT-1  No page is written before the log holds, on the medium, all that was flushed before
//!           the page was copied.
//!   CKPT-2  No head passes a record before every page that the record touched is on the medium.
//!   CKPT-3  Log space is reused only after a head that passes it is on the medium.
//!   CKPT-4  No head promises a length of the file that is not on the medium: another thread may
//!           let the file grow between any two steps, and a synced write of the head need not bring
//!           the length along.
//!
//! Threads: one checkpoint at a time, beside any number of writers. It waits for no section and no
//! flush.

use super::Shared;
use super::dirty_pages::PAGE;
use super::disk::Page;
use super::log::{Log, Unfinished};
use crate::counters::Counter;
use crate::{Result, seeded};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Release, fence};
use zerocopy::IntoBytes;

/// Pages copied and written between two syncs of the log.
const BATCH_PAGES: usize = 256;
/// Pages of one write: meanwhile the file system, or the device, lets no log record pass.
const WRITE_PAGES: usize = 64;

/// Buffers that live from checkpoint to checkpoint.
#[derive(Default)]
pub(crate) struct Room {
    pages: Vec<u64>,
    copies: Box<[Page]>,
    /// Pages of the newest checkpoint, in order.
    pub cleaned: Vec<u64>,
    /// Pages of earlier checkpoints that the one after did not find dirty again: candidates for
    /// being given back.
    pub cold: Vec<u64>,
    /// How far the log is ready to be used; up to its room it always is.
    pub log_backed: u64,
}

impl Room {
    /// The newest checkpoint cleaned `pages`, in order: those of the one before that are not among
    /// them are cold.
    fn cool(&mut self) {
        let known = self.cold.len();
        let mut pages = self.pages.iter().peekable();
        self.cold.extend(self.cleaned.iter().filter(|page| {
            while pages.next_if(|next| next < page).is_some() {}
            pages.peek() != Some(page)
        }));
        if known > 0 {
            self.cold.sort_unstable();
            self.cold.dedup();
        }
        std::mem::swap(&mut self.pages, &mut self.cleaned);
    }
}

impl Shared {
    /// Checkpoints everything flushed before.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.sync_log()?;
        self.checkpoint_when(|log| !log.is_idle())
    }

    /// Checkpoints, leaves an empty log, and says so in the head.
    pub(crate) fn close(&self) -> Result<()> {
        self.checkpoint()?;
        if self.punched.swap(false, AcqRel) {
            // Nothing relies on a hole. But after a clean close nobody remembers which holes were
            // to be made.
            self.try_io("sync holes", |shared| shared.disk.sync())?;
            self.counters.add(Counter::Syncs, 1);
        }
        let mut head = self.head.lock();
        {
            let mut log = self.log.lock();
            if log.clean || !log.is_idle() {
                return Ok(()); // others are still storing, and will close
            }
            // from here on the next record waits for the head's lock and rewrites it
            log.clean = true;
        }
        head.log_clean = 1;
        self.put_head(&mut head)
    }

    /// Checkpoints if `wanted` says so once the turn has come.
    pub(crate) fn checkpoint_when(&self, wanted: impl Fn(&Log) -> bool) -> Result<()> {
        let mut room = self.checkpointing.lock();
        let Room { pages, copies, log_backed, .. } = &mut *room;
        self.check_alive()?;
        let (target, freed) = {
            let mut log = self.log.lock();
            while log.writing {
                self.check_alive()?; // else nobody may end it
                self.turn.wait(&mut log);
            }
            if !wanted(&log) {
                return Ok(());
            }
            log.dirty.take(pages);
            ((log.tail, log.sequence, log.chain), log.tail - log.start)
        };
        // its pages are dirty no more, and not written yet
        let unfinished = Unfinished { shared: self, what: "checkpoint" };
        let done = if seeded("media-head-before-pages") {
            self.measure()
                .and_then(|len| self.pass(target, len))
                .and_then(|()| self.write_pages(pages, copies).map(drop))
        } else {
            self.write_pages(pages, copies).and_then(|len| self.pass(target, len))
        };
        let done = done.and_then(|()| {
            let needed = self.log.lock().should_grow(freed, pages.len() as u64);
            self.grow_log(log_backed, needed)
        });
        std::mem::forget(unfinished);
        if done.is_ok() && self.gives_back {
            room.cool();
        }
        room.pages.clear();
        done
    }

    /// Step 2 and 3; returns the length of the file that is on the medium.
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
            // Pairs with the fence of whoever stored what was just read: its earlier flushes are
            // seen below.
            fence(Acquire);
            if !seeded("media-page-before-log") {
                self.sync_log()?; // CKPT-1
            }
            let mut copied = 0;
            for run in batch.chunk_by(|page, next| page + 1 == *next).flat_map(|run| run.chunks(WRITE_PAGES)) {
                let bytes = copies[copied..copied + run.len()].as_bytes();
                self.try_io("write pages", |shared| shared.disk.write_pages_at(run[0] * PAGE, bytes))?;
                copied += run.len();
                self.sync_if_due();
            }
        }
        let len = self.measure()?; // CKPT-4
        if seeded("media-pages-unsynced") {
            return Ok(len);
        }
        self.punched.store(false, Release);
        self.try_io("sync pages", |shared| shared.disk.sync())?; // CKPT-2
        self.counters.add(Counter::Syncs, 1);
        if seeded("media-measure-after-sync") { self.measure() } else { Ok(len) }
    }

    fn measure(&self) -> Result<u64> {
        let mut len = 0;
        self.try_io("measure the file", |shared| shared.disk.len().map(|found| len = found))?;
        Ok(len.min(self.mapping.reserve()))
    }

    /// Step 4 and 5.
    fn pass(&self, (tail, sequence, chain): (u64, u64, u64), file_len: u64) -> Result<()> {
        let synced = self.synced.load(Acquire) + 1;
        let place = tail % self.log.lock().room;
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
        self.passed.store(sequence - 1, Release);
        Ok(())
    }
}
