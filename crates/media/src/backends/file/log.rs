//! State of the log, guarded by one lock: the open batch, the ring's two ends, and the threads that
//! wait for a record.
//!
//! Positions in the log only grow; modulo the ring's length they are offsets in the ring.
//!
//! Invariants
//!   FILE-2  The open batch always fits into the free part of the log: only a flush waits for
//!           space, a barrier and a checkpoint never do.

use super::batch::{EpochBatch, record_max};
use super::dirty_pages::{DirtyPages, LINES_PER_PAGE, PAGE};
use super::layout::LINE_WORDS;
use super::replay::LogContent;
use crate::open::layout::Head;
use std::time::Duration;

pub(crate) struct Log {
    /// Lines flushed since the last record was sealed.
    pub open: EpochBatch,
    /// The thread that writes records has been asked to write `open`.
    pub asked: bool,
    /// The other buffer, while no record is being written.
    pub spare: Option<EpochBatch>,
    /// The largest number of words in `open`, by its buffer and by the free part of the log
    /// (FILE-2).
    pub words_max: usize,
    /// A record is being written (FILE-3), or none may be.
    pub writing: bool,
    /// The sequence that the open batch will carry.
    pub sequence: u64,
    /// The position at which it will be written.
    pub tail: u64,
    /// The checksum of the newest written record.
    pub chain: u64,
    /// Bytes of the ring; see `Head::log_room`.
    pub ring_len: u64,
    /// Records before this position are checkpointed, and a head on the medium says so.
    pub start: u64,
    pub incarnation: u64,
    /// The head on the medium says that the log is empty, so it must be rewritten before the first
    /// record.
    pub clean: bool,
    pub dirty: DirtyPages,
    /// A flush has found the log full since the last decision about growth.
    pub starved: bool,
    /// Threads that wait for a record.
    pub waiting: u32,
    /// The number of waiting threads that the newest record served; as many are expected again.
    pub group: u32,
    /// A thread waits for the rest of the group before it writes a record.
    pub gathering: bool,
    /// The time that writing the newest record took.
    pub write_time: Duration,
}

impl Log {
    /// An empty log, or one that continues behind the records of `resumed`, whose pages are dirty.
    pub(crate) fn new(head: &Head, resumed: Option<&LogContent>) -> Log {
        let bytes = record_max(head.log_room);
        let mut log = Log {
            open: EpochBatch::new(bytes as usize),
            asked: false,
            spare: Some(EpochBatch::new(bytes as usize)),
            words_max: 0,
            writing: false,
            sequence: head.log_sequence,
            tail: head.log_head,
            chain: head.log_chain,
            start: head.log_head,
            ring_len: head.log_room,
            incarnation: head.incarnation,
            clean: head.log_clean == 1,
            dirty: DirtyPages::new(head.max),
            starved: false,
            waiting: 0,
            group: 0,
            gathering: false,
            write_time: Duration::ZERO,
        };
        if let Some(found) = resumed {
            (log.sequence, log.chain, log.incarnation) = (found.sequence, found.chain, found.incarnation);
            log.tail += found.position;
            found.lines(|line| log.dirty.insert(line / LINES_PER_PAGE));
        }
        log.limit();
        log
    }

    /// Recomputes `words_max` after one of the ring's ends has moved.
    pub(crate) fn limit(&mut self) {
        let free = self.start + self.ring_len - self.tail;
        self.words_max = self.open.capacity().min((free / 8) as usize);
    }

    /// Whether one more line, and the word that begins its run, fits.
    #[inline(always)]
    pub(crate) fn admits_line(&self) -> bool {
        self.open.used() + 1 + LINE_WORDS <= self.words_max
    }

    /// Whether more than half of the open batch's buffer is in use. The free part of the log does
    /// not matter: where it is short, a record written early would be short, too.
    #[inline(always)]
    pub(crate) fn is_half_full(&self) -> bool {
        self.open.used() * 2 > self.open.capacity()
    }

    /// Whether more than three quarters of that buffer are in use.
    #[inline(always)]
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.open.used() * 4 > self.open.capacity() * 3
    }

    /// Whether the log holds no record, no flushed line and no record being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.writing && self.tail == self.start && self.dirty.is_empty()
    }

    /// Whether half of the ring waits for a checkpoint.
    pub(crate) fn is_crowded(&self) -> bool {
        self.tail - self.start > self.ring_len / 2
    }

    /// Whether a checkpoint that freed `freed` bytes by writing `pages` pages shows that the ring
    /// is too small: it was half full at least, and a flush had to wait or the pages cost more than
    /// the records.
    pub(crate) fn should_grow(&mut self, freed: u64, pages: u64) -> bool {
        let starved = std::mem::take(&mut self.starved);
        freed > self.ring_len / 2 && (starved || pages * PAGE > freed)
    }
}
