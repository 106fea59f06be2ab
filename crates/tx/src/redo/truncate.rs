//! Truncation: what committed transactions stored is flushed, and their logs forget them.
//!
//! One pass, a fence between the lines:
//!   1. records up to the settled clock are read, from every log; each line they stored to is flushed once
//!   2. the floor is raised to that clock: those records are nothing any more, in whatever log a crash leaves them
//!   3. the heads of the logs move; blocks that were freed become allocatable once nobody can look at them
//!
//! A transaction that truncates its own record at its commit does without the floor: it still holds its locks, and no
//! record that stores to the same bytes is left in any log.
//!
//! Invariants
//!   REDO-4  A record is truncated only together with all records of smaller timestamps, or under its locks while none waits.
//!   REDO-5  A record is truncated only after what it stored is flushed and fenced.
//!   REDO-6  A block is allocatable again only after the record that freed it is truncated, and when no transaction runs
//!           that began before that commit.

use super::engine::{Inner, Log};
use super::layout::FLOOR;
use super::record::Record;
use super::recover::raise_floor;
use crate::Result;
use everbyte_heap::{Block, Op};
use everbyte_log::Consumer;
use everbyte_log::ring::Position;
use everbyte_media::{LINE, seeded};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;

/// When records are truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// By the transaction, at its commit: its log is empty when it returns. Three fences.
    #[default]
    Synchronous,
    /// By a thread, when a log is half full. One fence, and lines that many transactions store to are flushed once.
    Asynchronous,
}

/// The consuming end of a log.
pub(super) struct Reader {
    pub consumer: Consumer,
    /// A record that was read and is to be truncated later.
    ahead: Option<(Record, Position)>,
    words: Vec<u64>,
}

impl Reader {
    pub(super) fn new(consumer: Consumer) -> Reader {
        Reader { consumer, ahead: None, words: Vec::new() }
    }
}

#[derive(Default)]
pub(super) struct Truncator {
    asynchronous: AtomicBool,
    /// Records that were left for a pass.
    pub waiting: AtomicU64,
    /// One pass at a time.
    turn: Mutex<()>,
    /// Frees whose records are truncated, by timestamp (REDO-6).
    ripening: Mutex<VecDeque<(u64, Vec<Op>)>>,
    thread: OnceLock<Thread>,
    called: AtomicBool,
}

impl Truncator {
    pub(super) fn set_mode(&self, truncation: Truncation) {
        self.asynchronous.store(truncation == Truncation::Asynchronous, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_asynchronous(&self) -> bool {
        self.asynchronous.load(Ordering::Acquire)
    }

    /// Frees that are truncated and not yet known to be unseen.
    pub(super) fn ripen(&self, timestamp: u64, ops: &[Op]) {
        let frees: Vec<Op> = ops.iter().copied().filter(|op| op.frees()).collect();
        if !frees.is_empty() {
            self.ripening.lock().push_back((timestamp, frees));
        }
    }
}

impl Inner {
    /// Truncates everything up to the settled clock.
    pub(super) fn truncate(&self) {
        if self.truncator.waiting.load(Ordering::Acquire) == 0 {
            return self.finish_ripe();
        }
        let _turn = self.truncator.turn.lock();
        let clock = self.settled_clock();
        let (mut records, mut ends) = (Vec::new(), Vec::new());
        for log in &self.logs {
            let mut reader = log.reader.lock();
            match read_up_to(self, &mut reader, clock, &mut records) {
                Ok(Some(end)) => ends.push((log, end)),
                Ok(None) => {}
                // Somebody wrote over the log: what is in it stays, and nobody commits any more.
                Err(_) => return self.poisoned.store(true, Ordering::Release),
            }
        }
        if ends.is_empty() {
            return self.finish_ripe();
        }
        {
            let _section = self.media.section();
            if !seeded("redo-not-flushed") {
                let mut lines: Vec<u64> =
                    records.iter().flat_map(Record::stores).map(|(at, ..)| at & !(LINE - 1)).collect();
                self.flush_lines(&mut lines); // 1
            }
            records.iter().for_each(|record| self.heap.flush(&record.ops));
        }
        self.media.fence();
        if !seeded("redo-floor-forgotten") {
            raise_floor(&self.media, self.heap.object().prime() + FLOOR, clock); // 2
            self.media.fence();
        }
        for (log, end) in ends {
            log.reader.lock().consumer.truncate(end); // 3
        }
        self.truncator.waiting.fetch_sub(records.len() as u64, Ordering::AcqRel);
        for record in &records {
            self.give_back(&record.extents);
            self.truncator.ripen(record.timestamp, &record.ops);
        }
        self.finish_ripe();
    }

    /// Makes blocks allocatable that were freed, and that nobody can look at any more (REDO-6).
    pub(super) fn finish_ripe(&self) {
        let mut ripening = self.truncator.ripening.lock();
        if ripening.is_empty() {
            return;
        }
        let oldest = self.active.oldest();
        ripening.retain(|(timestamp, frees)| {
            let ripe = *timestamp <= oldest;
            if ripe {
                self.heap.finish(frees);
            }
            !ripe
        });
    }

    /// Flushes lines, each once.
    pub(super) fn flush_lines(&self, lines: &mut Vec<u64>) {
        lines.sort_unstable();
        lines.dedup();
        lines.iter().for_each(|&line| self.media.flush(line, LINE));
    }

    pub(super) fn give_back(&self, extents: &[Block]) {
        extents.iter().for_each(|block| self.heap.cancel(*block));
    }

    /// Has the thread truncate, for a log is half full.
    #[cold]
    pub(super) fn call_truncator(self: &Arc<Inner>) {
        if !self.truncator.called.swap(true, Ordering::AcqRel) {
            let thread = self.truncator.thread.get_or_init(|| {
                let engine = Arc::downgrade(self);
                let named = std::thread::Builder::new().name("everbyte-truncate".into());
                // Without a thread, transactions that find their log full truncate themselves.
                named.spawn(move || serve(&engine)).map_or_else(|_| std::thread::current(), |it| it.thread().clone())
            });
            thread.unpark();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(thread) = self.truncator.thread.get() {
            thread.unpark(); // it finds that nobody is left
        }
    }
}

/// Truncates whenever it is called, as long as the engine is open.
fn serve(engine: &Weak<Inner>) {
    while let Some(engine) = engine.upgrade() {
        if engine.truncator.called.swap(false, Ordering::AcqRel) {
            engine.truncate();
            continue;
        }
        drop(engine);
        std::thread::park();
    }
}

/// Reads what a log has up to a timestamp; where that ends.
fn read_up_to(engine: &Inner, reader: &mut Reader, clock: u64, into: &mut Vec<Record>) -> Result<Option<Position>> {
    let mut end = None;
    loop {
        let (record, at) = match reader.ahead.take() {
            Some(ahead) => ahead,
            None => match reader.consumer.next(&mut reader.words)? {
                Some(at) => (engine.understand(&reader.words)?, at),
                None => return Ok(end),
            },
        };
        if record.timestamp > clock {
            reader.ahead = Some((record, at));
            return Ok(end);
        }
        end = Some(at);
        into.push(record);
    }
}

impl Inner {
    fn understand(&self, words: &[u64]) -> Result<Record> {
        let damaged = || crate::Error::Damaged {
            object: self.name(),
            at: self.log_bytes.start,
            detail: "a record of this process's own contradicts itself".into(),
        };
        Record::read(&self.media, words).ok_or_else(damaged)
    }

    /// A transaction's own record, while it holds its locks (REDO-4): `lines` are where it stored.
    pub(super) fn truncate_own(&self, log: &Log, end: Position, lines: &mut Vec<u64>) {
        {
            let _section = self.media.section();
            if !seeded("redo-not-flushed") {
                self.flush_lines(lines);
            }
        }
        self.media.fence();
        log.reader.lock().consumer.truncate(end);
    }
}
