//! Flush, fence and barrier of the `file` backend, with group commit.
//!
//! A flush copies its lines into the open batch under one lock. A barrier seals the batch and
//! writes it as one record; threads that wait meanwhile fill the next batch, and one of them writes
//! it for all. A batch that is half full is written by a thread of the store, so that a flush waits
//! for the disk only if both buffers are full.
//!
//! The order of flushes under the lock is the order of the log. Every prefix of the log is a state
//! that the crash rule allows: the lines between two fences may be cut anywhere, and lines on both
//! sides of a fence may share a record, which replays whole.
//!
//! Invariants
//!   FILE-1  Lines are copied and appended in one locked step, so no older copy of a line follows a
//!           newer one.
//!
//! Threads: any. Elsewhere: the bytes (`layout`), the record's write (`record_writer`), space in
//! the log (`checkpoint`), recovery (`replay`).

use super::dirty_pages::LINES_PER_PAGE;
use super::file_store::{FileStore, Unfinished};
use super::log::Log;
use super::record_writer::RecordWriter;
use crate::counters::Counter;
use crate::museum::misplaced;
use crate::open::layout::{COPIES, HEAD_END};
use crate::{Durability, Mark, Result, Words};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

impl FileStore {
    /// Copies the lines of `at..at+len` into the open batch and returns their number. Waits only
    /// for space in the log.
    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64) -> u64 {
        let (first, end) = crate::bytes::mapping::line_range(at, len);
        self.mapping.check_len(first, end - first);
        assert!(self.may_log(first, end), "FILE: flush of {at:#x} + {len}, which belongs to the media itself");
        if self.disk.is_child() {
            return 0;
        }
        let (first, end) = (first / crate::LINE, end / crate::LINE);
        let mut log = self.log.lock();
        for line in first..end {
            while !log.admits_line() {
                match self.make_space(log) {
                    Some(guard) => log = guard,
                    None => return end - first,
                }
            }
            log.open.put_line(line, &self.mapping);
            log.dirty.insert(line / LINES_PER_PAGE);
        }
        if first < end {
            self.appended(log);
        }
        end - first
    }

    /// [`FileStore::flush`] for single words.
    pub(crate) fn flush_words(&self, list: &[Words]) {
        if self.disk.is_child() || list.is_empty() {
            return;
        }
        let mut log = self.log.lock();
        for words in list {
            let at = words.line();
            self.mapping.check_len(at, crate::LINE);
            assert!(self.may_log(at, at + crate::LINE), "FILE: flush at {at:#x}, which belongs to the media itself");
            while !log.admits_line() {
                match self.make_space(log) {
                    Some(guard) => log = guard,
                    None => return,
                }
            }
            let line = at / crate::LINE;
            log.open.put_words(line, words.mask(), &self.mapping);
            log.dirty.insert(line / LINES_PER_PAGE);
        }
        self.appended(log);
    }

    /// Records in the log that a range was backed, before any later flush.
    pub(crate) fn log_allocation(&self, at: u64, len: u64) {
        let mut log = self.log.lock();
        while !log.admits_line() {
            match self.make_space(log) {
                Some(guard) => log = guard,
                None => return,
            }
        }
        log.open.put_allocation(at, len);
        self.appended(log);
    }

    /// Ends the locked step of a flush.
    #[inline(always)]
    fn appended(&self, mut log: MutexGuard<'_, Log>) {
        if self.progress.appended.load(Acquire) != log.sequence {
            self.progress.appended.store(log.sequence, Release);
        }
        if log.is_half_full() && !log.asked && (log.is_nearly_full() || !self.early.looks()) {
            log.asked = true;
            drop(log);
            self.early.want_record();
        }
    }

    /// Whether a range lies outside the heads and the log, which no flush may touch.
    #[inline(always)]
    pub(crate) fn may_log(&self, first: u64, end: u64) -> bool {
        let RecordWriter { log_at, log_len, .. } = self.writer;
        (first >= log_at + log_len || end <= log_at) && (first >= HEAD_END || end <= COPIES[0])
    }

    /// Makes space for one more line: writes a full batch, or checkpoints a full log. `None` if the
    /// store is poisoned.
    #[cold]
    fn make_space<'a>(&'a self, mut log: MutexGuard<'a, Log>) -> Option<MutexGuard<'a, Log>> {
        if self.disk.is_poisoned() {
            return None;
        }
        if log.writing {
            self.record_done.wait(&mut log);
            return Some(log);
        }
        if log.words_max == log.open.capacity() {
            let (log, written) = self.write_open(log);
            return written.is_ok().then_some(log);
        }
        log.starved = true;
        drop(log);
        self.checkpoint_when(|log| !log.admits_line() && log.words_max < log.open.capacity()).ok()?;
        Some(self.log.lock())
    }

    /// Writes the open batch as long as it is half full, and returns whether it was. Before another
    /// thread gets the lock, the next record has been taken, so a flush that waits for a buffer has
    /// one.
    pub(crate) fn write_early(&self) -> Result<bool> {
        let mut log = self.log.lock();
        let mut wrote = false;
        loop {
            self.disk.check_alive()?; // a poisoned writer never ends
            if log.writing {
                self.record_done.wait(&mut log);
                continue;
            }
            if !log.is_half_full() {
                return Ok(wrote);
            }
            misplaced("media-early-acknowledged", || self.acknowledge(log.sequence));
            let (guard, written) = self.write_open(log);
            (log, wrote) = (guard, written.map(|()| true)?);
            misplaced("media-early-open-acknowledged", || self.acknowledge(log.sequence));
        }
    }

    /// Publishes that the records up to `sequence` are written, and synced where a write syncs.
    fn acknowledge(&self, sequence: u64) {
        self.progress.written.store(sequence, Release);
        if self.writer.syncs {
            self.progress.synced.fetch_max(sequence, Release);
        }
    }

    /// The newest position that a fence has ordered.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.progress.appended.load(Acquire))
    }

    /// Waits until everything before `mark` is written or synced, as the durability mode requires.
    pub(crate) fn settle(&self, mark: Mark) -> Result<()> {
        self.disk.check_alive()?;
        let reached = match self.durability {
            Durability::Always => &self.progress.synced,
            Durability::Interval(_) | Durability::Process => &self.progress.written,
        };
        if reached.load(Acquire) >= mark.0 {
            return Ok(());
        }
        let mut log = self.log.lock();
        log.waiting += 1;
        if log.gathering && log.waiting >= log.group {
            self.gathered.notify_one();
        }
        let settled = loop {
            let alive = self.disk.check_alive();
            if alive.is_err() || reached.load(Acquire) >= mark.0 {
                break alive;
            }
            if log.writing {
                self.record_done.wait(&mut log);
                continue;
            }
            self.gather(&mut log);
            log.group = log.waiting;
            let (guard, written) = self.write_open(log);
            log = guard;
            if written.is_err() {
                break written;
            }
        };
        log.waiting -= 1;
        settled
    }

    /// Waits a little for the threads that the newest record served. They were woken just now, and
    /// most of them flush and come here again. Without the wait, the first one would write a record
    /// of its own lines only, and the others one more.
    fn gather(&self, log: &mut MutexGuard<'_, Log>) {
        if log.waiting < log.group && self.durability == Durability::Always {
            (log.writing, log.gathering) = (true, true);
            let limit = log.write_time / 4;
            let _ = self.gathered.wait_for(log, limit);
            (log.writing, log.gathering) = (false, false);
        }
    }

    /// Syncs the log as it stands, in every durability mode.
    pub(crate) fn sync_log(&self) -> Result<()> {
        self.sync_to(self.mark())
    }

    /// Waits until everything before `mark` is synced, in every durability mode.
    pub(crate) fn sync_to(&self, mark: Mark) -> Result<()> {
        self.settle(mark)?;
        if self.progress.synced.load(Acquire) < mark.0 {
            self.sync_written()?;
        }
        Ok(())
    }

    /// Syncs records that were written without a sync of their own.
    pub(crate) fn sync_written(&self) -> Result<()> {
        let written = self.progress.written.load(Acquire);
        self.try_io("sync the log", |disk| disk.sync())?;
        self.disk.count(Counter::Syncs, 1);
        self.progress.synced.fetch_max(written, Release);
        Ok(())
    }

    /// Writes the open batch as one record. The caller holds the lock, and no record is being
    /// written.
    fn write_open<'a>(&'a self, mut log: MutexGuard<'a, Log>) -> (MutexGuard<'a, Log>, Result<()>) {
        assert!(!log.writing, "FILE-3");
        if log.open.is_empty() {
            return (log, Ok(()));
        }
        let mut record = self.writer.take(&mut log, self.progress.synced.load(Acquire) + 1);
        let crowded = log.is_crowded();
        drop(log);
        let unfinished = Unfinished { store: self, what: "write the log" };

        if crowded {
            self.tasks.want_checkpoint();
        }
        let (first, sequence) = (record.first, record.header.sequence);
        let (chain, place, bytes) = record.seal();
        let start = Instant::now();
        // HEAD-4
        let opened = if first { self.write_both_heads(|head| head.log_clean = 0) } else { Ok(()) };
        let written = opened.and_then(|()| self.writer.write(&self.disk, place, bytes));
        let write_time = start.elapsed();
        let buffer = record.into_buffer();

        std::mem::forget(unfinished);
        let (mut log, mut is_due) = (self.log.lock(), false);
        log.write_time = write_time;
        if written.is_ok() {
            log.chain = chain;
            self.acknowledge(sequence);
            if let Durability::Interval(_) = self.durability {
                self.tasks.want_sync(); // after `written`: the sync covers this record, too
                is_due = self.tasks.take_due_alone();
            }
        }
        log.spare = Some(buffer);
        log.writing = false;
        self.record_done.notify_all();
        if is_due {
            let synced = MutexGuard::unlocked(&mut log, || self.sync_written());
            return (log, synced);
        }
        (log, written)
    }
}
