//! The log: flush, fence and barrier of the `file` backend, with group commit.
//!
//! A flush copies its lines into the open batch under one lock. A barrier seals the batch and
//! writes it as one record; threads that wait meanwhile fill the next batch, and one of them writes
//! it for all.
//!
//! The order of flushes under the lock is the order of the log, and any beginning of it is a state
//! the rule allows: an epoch may be cut anywhere, and epochs may share a record, which replays
//! whole.
//!
//! Invariants
//!   FILE-1  Lines are copied and appended in one locked step, so no older copy of a line follows a
//!           newer one.
//!   FILE-2  The open batch always fits into the free part of the log: only a flush waits for
//!           space, a barrier and a checkpoint never do.
//!   FILE-3  One record is written at a time; in `always` mode the next is not begun before it is
//!           on the medium.
//!   FILE-4  After a write or sync that failed, or panicked, nothing is written any more.
//!
//! Threads: any. Elsewhere: the bytes (`layout`), making room (`checkpoint`), reading it back
//! (`replay`).

use super::batch::Batch;
use super::dirty_pages::{DirtyPages, LINES_PER_PAGE, PAGE};
use super::layout::{LINE_WORDS, RECORD_MAGIC, RecordHeader, SECTOR};
use super::{Pending, Shared};
use crate::counters::Counter;
use crate::open::head::{COPIES, Head};
use crate::{Durability, Error, Mark, Result, Words, seeded};
use parking_lot::MutexGuard;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

/// Bytes of the longest record that a log with room for so many bytes has.
pub(crate) fn record_max(log_room: u64) -> u64 {
    (log_room / 4).clamp(4096, 1 << 20) & !4095
}

/// What the log's lock guards.
pub(crate) struct Log {
    open: Batch,
    /// The other buffer, while no record is being written.
    spare: Option<Batch>,
    /// How many words `open` may come to, by its buffer and by the free part of the log (FILE-2).
    words_max: usize,
    /// A record is being written (FILE-3), or none may be.
    pub writing: bool,
    /// The sequence that the open batch will carry.
    pub sequence: u64,
    /// Where it will be written. Positions count on; modulo the log's room they are places.
    pub tail: u64,
    /// The checksum of the newest written record.
    pub chain: u64,
    /// Bytes of the log that are in use; see `Head::log_room`.
    pub room: u64,
    /// Everything before this position has been checkpointed, by a head that is on the medium.
    pub start: u64,
    incarnation: u64,
    /// The head on the medium says that the log is empty, so it must be rewritten before the first
    /// record.
    pub clean: bool,
    pub dirty: DirtyPages,
    /// A flush has found the log full since the room was last looked at.
    pub starved: bool,
    /// Threads that wait for a record.
    waiting: u32,
    /// How many of them the newest record served: as many will come again, if they are let.
    group: u32,
    /// One of them waits for the others to come.
    gathering: bool,
    /// What the newest record took to write.
    took: Duration,
}

impl Log {
    /// An empty log, or one that goes on behind what `resumed` has found: pages that it speaks of
    /// are dirty.
    pub(crate) fn new(head: &Head, resumed: Option<&Pending>) -> Log {
        let bytes = record_max(head.log_room);
        let mut log = Log {
            open: Batch::new(bytes as usize),
            spare: Some(Batch::new(bytes as usize)),
            words_max: 0,
            writing: false,
            sequence: head.log_sequence,
            tail: head.log_head,
            chain: head.log_chain,
            start: head.log_head,
            room: head.log_room,
            incarnation: head.incarnation,
            clean: head.log_clean == 1,
            dirty: DirtyPages::new(head.max),
            starved: false,
            waiting: 0,
            group: 0,
            gathering: false,
            took: Duration::ZERO,
        };
        if let Some(found) = resumed {
            (log.sequence, log.chain, log.incarnation) = (found.sequence, found.chain, found.incarnation);
            log.tail += found.position;
            found.lines(|line| log.dirty.insert(line / LINES_PER_PAGE));
        }
        log.limit();
        log
    }

    /// Recomputes what the open batch may come to, after the log's ends have moved.
    pub(crate) fn limit(&mut self) {
        let free = self.start + self.room - self.tail;
        self.words_max = self.open.capacity().min((free / 8) as usize);
    }

    /// Whether one more line (and the word that begins its run) fits.
    #[inline(always)]
    pub(crate) fn admits_line(&self) -> bool {
        self.open.used() + 1 + LINE_WORDS <= self.words_max
    }

    /// Whether the log holds nothing at all and nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.writing && self.tail == self.start && self.dirty.is_empty()
    }

    /// Whether half of the log waits for a checkpoint.
    pub(crate) fn is_crowded(&self) -> bool {
        self.tail - self.start > self.room / 2
    }

    /// Whether a checkpoint that freed so much of the log by writing so many pages shows that the
    /// log should be larger: it was half full at least, and either a flush had to wait, or the
    /// pages cost more than the records did.
    pub(crate) fn should_grow(&mut self, freed: u64, pages: u64) -> bool {
        let starved = std::mem::take(&mut self.starved);
        freed > self.room / 2 && (starved || pages * PAGE > freed)
    }
}

impl Shared {
    /// Copies the lines of `at..at+len` into the open epoch; returns how many. Waits only for space
    /// in the log.
    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64) -> u64 {
        let (first, end) = crate::bytes::mapping::line_range(at, len);
        self.mapping.check_len(first, end - first);
        assert!(self.may_log(first, end), "FILE: flush of {at:#x} + {len}, which belongs to the media itself");
        if self.fork.is_child() {
            return 0;
        }
        let (first, end) = (first / crate::LINE, end / crate::LINE);
        let mut log = self.log.lock();
        for line in first..end {
            while !log.admits_line() {
                match self.make_room(log) {
                    Some(guard) => log = guard,
                    None => return end - first,
                }
            }
            log.open.put_line(line, &self.mapping);
            log.dirty.insert(line / LINES_PER_PAGE);
        }
        if first < end {
            self.note_appended(&log);
        }
        end - first
    }

    /// As [`Shared::flush`], for single words.
    pub(crate) fn flush_words(&self, list: &[Words]) {
        if self.fork.is_child() || list.is_empty() {
            return;
        }
        let mut log = self.log.lock();
        for words in list {
            let at = words.line();
            self.mapping.check_len(at, crate::LINE);
            assert!(self.may_log(at, at + crate::LINE), "FILE: flush at {at:#x}, which belongs to the media itself");
            while !log.admits_line() {
                match self.make_room(log) {
                    Some(guard) => log = guard,
                    None => return,
                }
            }
            let line = at / crate::LINE;
            log.open.put_words(line, words.mask(), &self.mapping);
            log.dirty.insert(line / LINES_PER_PAGE);
        }
        self.note_appended(&log);
    }

    /// Notes in the log that a range was backed, before anything flushed later.
    pub(crate) fn log_allocation(&self, at: u64, len: u64) {
        let mut log = self.log.lock();
        while !log.admits_line() {
            match self.make_room(log) {
                Some(guard) => log = guard,
                None => return,
            }
        }
        log.open.put_allocation(at, len);
        self.note_appended(&log);
    }

    #[inline(always)]
    fn note_appended(&self, log: &Log) {
        if self.appended.load(Acquire) != log.sequence {
            self.appended.store(log.sequence, Release);
        }
    }

    /// Whether a range lies outside the heads and the log, which no flush may touch.
    #[inline(always)]
    pub(crate) fn may_log(&self, first: u64, end: u64) -> bool {
        let (log_at, log_len) = self.log_place;
        (first >= log_at + log_len || end <= log_at)
            && (first >= crate::HEAD_END || end <= crate::open::head::COPIES[0])
    }

    /// Makes room for one more line: writes a full batch, or checkpoints a full log. `None` once
    /// poisoned.
    #[cold]
    fn make_room<'a>(&'a self, mut log: MutexGuard<'a, Log>) -> Option<MutexGuard<'a, Log>> {
        if self.poison.get().is_some() {
            return None;
        }
        if log.writing {
            self.turn.wait(&mut log);
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

    /// The newest point that a fence has ordered.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.appended.load(Acquire))
    }

    /// Waits until everything before `mark` is settled in the sense of the durability mode.
    pub(crate) fn settle(&self, mark: Mark) -> Result<()> {
        self.check_alive()?;
        let reached = match self.durability {
            Durability::Always => &self.synced,
            Durability::Interval(_) | Durability::Process => &self.written,
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
            let alive = self.check_alive();
            if alive.is_err() || reached.load(Acquire) >= mark.0 {
                break alive;
            }
            if log.writing {
                self.turn.wait(&mut log);
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

    /// Waits a little for those whom the newest record served. They were woken just now, and each
    /// will flush something and come here: without this, the first one back would write a record
    /// for itself alone, and the others one more.
    fn gather(&self, log: &mut MutexGuard<'_, Log>) {
        if log.waiting < log.group && self.durability == Durability::Always {
            (log.writing, log.gathering) = (true, true);
            let patience = log.took / 4;
            let _ = self.gathered.wait_for(log, patience);
            (log.writing, log.gathering) = (false, false);
        }
    }

    /// Brings the log, as it stands, to the medium, in every durability mode.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let mark = self.mark();
        self.settle(mark)?;
        if self.synced.load(Acquire) < mark.0 {
            self.sync_written()?;
        }
        Ok(())
    }

    /// Syncs what was written to the log without a sync of its own.
    pub(crate) fn sync_written(&self) -> Result<()> {
        let written = self.written.load(Acquire);
        self.try_io("sync the log", |shared| shared.disk.sync())?;
        self.counters.add(Counter::Syncs, 1);
        self.synced.fetch_max(written, Release);
        Ok(())
    }

    /// Seals the open batch and writes it as one record; the caller holds the lock and no record is
    /// being written.
    fn write_open<'a>(&'a self, mut log: MutexGuard<'a, Log>) -> (MutexGuard<'a, Log>, Result<()>) {
        assert!(!log.writing, "FILE-3");
        if log.open.is_empty() {
            return (log, Ok(()));
        }
        let spare = log.spare.take().expect("FILE-3: a spare buffer while no record is being written");
        let mut batch = std::mem::replace(&mut log.open, spare);
        let header = RecordHeader {
            checksum: 0,
            magic: RECORD_MAGIC,
            sequence: log.sequence,
            incarnation: log.incarnation,
            chain: log.chain,
            synced: self.synced.load(Acquire) + 1,
            payload_len: 0,
            reserved: [0; 2],
        };
        let (place, room, len) = (log.tail % log.room, log.room, batch.padded());
        log.writing = true;
        log.sequence += 1;
        log.tail += len;
        log.limit();
        let was_clean = std::mem::take(&mut log.clean);
        let crowded = log.is_crowded();
        drop(log);
        let unfinished = Unfinished { shared: self, what: "write the log" };

        if crowded {
            self.keeper.want_checkpoint();
        }
        let (chain, bytes) = batch.seal(header);
        let start = Instant::now();
        let written = self.write_record(was_clean, (place, room), bytes);
        let took = start.elapsed();
        batch.reset();

        std::mem::forget(unfinished);
        let mut log = self.log.lock();
        log.took = took;
        if written.is_ok() {
            log.chain = chain;
            self.written.store(header.sequence, Release);
            match self.durability {
                Durability::Always => drop(self.synced.fetch_max(header.sequence, Release)),
                // of what `written` now says, not less
                Durability::Interval(_) => self.keeper.want_sync(),
                Durability::Process => {}
            }
        }
        log.spare = Some(batch);
        log.writing = false;
        self.turn.notify_all();
        (log, written)
    }

    /// Writes a record at its place in a ring of so much room; it may go over the ring's end.
    fn write_record(&self, was_clean: bool, (place, room): (u64, u64), bytes: &[u8]) -> Result<()> {
        if was_clean {
            self.write_both_heads(|head| head.log_clean = 0)?; // HEAD-4
        }
        let (log_at, _) = self.log_place;
        let first = bytes.len().min((room - place) as usize);
        let sync = self.durability == Durability::Always && !seeded("media-barrier-unsynced");
        debug_assert!(place.is_multiple_of(SECTOR) && (bytes.len() as u64).is_multiple_of(SECTOR));
        for (at, part) in [(log_at + place, &bytes[..first]), (log_at, &bytes[first..])] {
            if part.is_empty() {
                continue;
            }
            self.try_io("write the log", |shared| {
                if sync { shared.disk.write_sync_at(at, part) } else { shared.disk.write_at(at, part) }
            })?;
            self.counters.add(Counter::Syncs, sync.into());
        }
        self.counters.add(Counter::LogBytes, bytes.len() as u64);
        Ok(())
    }

    /// Changes the head and brings it to the medium.
    pub(crate) fn write_head(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        let mut head = self.head.lock();
        change(&mut head);
        self.put_head(&mut head)
    }

    /// Changes the head and brings both copies to the medium (HEAD-4).
    pub(crate) fn write_both_heads(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        let mut head = self.head.lock();
        change(&mut head);
        self.try_io("write the media head", |shared| head.write_both(&*shared.disk))?;
        self.counters.add(Counter::Syncs, COPIES.len() as u64);
        Ok(())
    }

    /// As [`Shared::write_head`], for callers that hold the head.
    pub(crate) fn put_head(&self, head: &mut Head) -> Result<()> {
        let (at, bytes) = head.next();
        self.try_io("write the media head", |shared| shared.disk.write_sync_at(at, bytes))?;
        self.counters.add(Counter::Syncs, 1);
        Ok(())
    }

    /// Writes or syncs; a failure poisons (FILE-4).
    pub(crate) fn try_io(&self, action: &str, io: impl FnOnce(&Shared) -> io::Result<()>) -> Result<()> {
        self.check_alive()?;
        io(self).map_err(|source| {
            self.poison(format!("could not {action}: {source}"), &mut self.log.lock());
            self.poisoned()
        })
    }

    /// Nothing is written any more (FILE-4). The caller holds the lock: nobody may miss it between
    /// its check and its wait.
    fn poison(&self, cause: String, _log: &mut Log) {
        let _ = self.poison.set(cause); // the first cause stays
        self.turn.notify_all();
    }

    /// Refuses after a failure and in a forked child.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.fork.is_child() {
            return Err(Error::Forked { owner: self.fork.owner() });
        }
        if self.poison.get().is_some() { Err(self.poisoned()) } else { Ok(()) }
    }

    fn poisoned(&self) -> Error {
        let cause = self.poison.get().cloned().unwrap_or_default();
        Error::Poisoned { path: self.path.clone(), cause }
    }
}

/// Work that others wait for or build on; forgotten once it is done. A panic meanwhile leaves the
/// store poisoned.
pub(crate) struct Unfinished<'a> {
    pub shared: &'a Shared,
    pub what: &'static str,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let cause = format!("could not {}: its thread panicked", self.what);
        self.shared.poison(cause, &mut self.shared.log.lock());
    }
}
