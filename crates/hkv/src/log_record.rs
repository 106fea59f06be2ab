//! Log records: a change of a pair, new buckets, the halving of a node or the joining of two,
//! written whole before it is applied. Format: docs/formats/hkv.md.
//!
//! A change, with one fence:
//!   1. new bytes are written to unused places; the log record has the operations on blocks, and
//!      the words to change with their new values
//!   2. after the fence, bits and words change and are flushed; the fence of the next change orders
//!      them
//!
//! There are two places for log records, used alternately: the older one is intact while the newer
//! one is written. A crash before the fence leaves nothing; after a later crash recovery does 2
//! again, of the older record first. A transaction retires both, by an empty log record: one word.
//! So does a split that gathers a chain.
//!
//! Invariants
//!   HKV-7  A log record is valid only if its check covers its words and the checksum of the bytes
//!          written for it, and those are whole. So both share a fence.
//!   HKV-8  Blocks that a log record frees become free for other changes when recovery cannot apply
//!          that record again.
//!   HKV-9  A log record is retired only when its changes are made and ordered, and nothing of a
//!          transaction, or of the next log record, survives before.
//!   HKV-10 A log record is overwritten only when a fence has ordered its changes. A thread orders
//!          its own flushes; another thread flushes the same words again.
//!
//! Threads: the caller holds the store's lock for changing.

use crate::base::Base;
use crate::layout::{LOG_RECORD_AT, LOG_RECORD_STEP, LOG_RECORD_WORDS};
use crate::record::Draft;
use crate::{Result, hasher};
use everbyte_heap::{Block, Op};
use everbyte_media::museum::unless;
use everbyte_media::{Flusher, Unsettled, seeded};
use everbyte_tx::Tx;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::IntoBytes;

/// The state of a store's log in memory.
#[derive(Default)]
pub(crate) struct LogState {
    /// The newest commit (HKV-3).
    pub last: Unsettled<()>,
    /// Bytes of log records.
    pub logged: u64,
    /// Log records that were written.
    lap: u64,
    /// Whether there are log records that recovery would apply again.
    redoable: bool,
    /// The newest log record, whose changes are not ordered yet, and the thread that made them
    /// (HKV-10).
    unordered: Option<(u64, Words)>,
    /// Blocks that the log records in either place free (HKV-8).
    freed: [Vec<Op>; 2],
}

pub(crate) type Words = [u64; LOG_RECORD_WORDS];

/// A log record, decoded.
pub(crate) struct LogRecord {
    pub lap: u64,
    pub ops: Vec<Op>,
    pub words: Vec<(u64, u64)>,
}

impl LogState {
    /// The state of a store whose next log record has that lap.
    pub(crate) fn new(lap: u64) -> LogState {
        LogState { lap, ..LogState::default() }
    }
}

/// The number of this thread, which no other one gets. Unlike its `ThreadId` it is also known while
/// the thread ends.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl LogRecord {
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.words.is_empty()
    }
}

impl Base {
    /// Changes words, writes a record for the first of them to lead to, and frees the record at
    /// `old`: all of it or nothing. Ordered on return. `words` gets the offset of the new record,
    /// or 0.
    pub(crate) fn change<const N: usize>(
        &self,
        log: &mut LogState,
        new: Option<&Draft>,
        old: Option<u64>,
        words: impl FnOnce(u64) -> [(u64, u64); N],
    ) -> Result<()> {
        let heap = self.heap();
        let block = new.map(|draft| self.reserve(log, draft.len())).transpose()?;
        let freed = match old.map(|at| heap.op_free(at)).transpose() {
            Ok(freed) => freed,
            Err(error) => {
                block.into_iter().for_each(|block| heap.cancel(block));
                return Err(error.into());
            }
        };
        let _section = self.media().section();
        let taken = block.map(|block| heap.op_allocate(&block));
        let ops: Vec<Op> = taken.into_iter().chain(freed).collect();
        if let (Some(draft), Some(block)) = (new, block) {
            draft.write(self.media(), block.at.get());
        }
        let words = words(block.map_or(0, |block| block.at.get()));
        self.write_log_record(log, &ops, &words, new.map_or(0, Draft::checksum));
        Ok(())
    }

    /// Writes a log record of bytes that are already written, with their checksum, and applies it.
    pub(crate) fn write_log_record(&self, log: &mut LogState, ops: &[Op], words: &[(u64, u64)], checksum: u32) {
        let (heap, media, place) = (self.heap(), self.media(), log.lap % 2);
        let (record, len) = encode(log.lap, ops, words, checksum);
        media.rewrite(self.log_record_at(place), &record.as_bytes()[..len * 8]); // 1
        self.flush_unordered(log);
        media.fence_unless("hkv-note-unfenced");
        log.last = Unsettled::new(media, ());
        let freed = &mut log.freed[place as usize];
        heap.finish(freed);
        freed.clear();
        freed.extend(ops.iter().filter(|op| op.frees()));
        self.redo(ops, words); // 2
        log.unordered = Some((thread_number(), record));
        log.lap += if seeded("hkv-note-alone") { 2 } else { 1 };
        (log.redoable, log.logged) = (true, log.logged + len as u64 * 8);
    }

    /// Orders the changes of the newest log record.
    pub(crate) fn order(&self, log: &mut LogState) {
        self.flush_unordered(log);
        self.media().fence();
    }

    /// Flushes the changes of the newest log record for the next fence, if another thread made
    /// them.
    fn flush_unordered(&self, log: &mut LogState) {
        let Some((_, record)) = log.unordered.take().filter(|(thread, _)| *thread != thread_number()) else {
            return;
        };
        let Some(LogRecord { ops, words, .. }) = decode(&record) else { return };
        self.heap().flush(&ops);
        let mut flusher = Flusher::new(self.media());
        words.iter().for_each(|&(at, _)| flusher.touch(at, 8));
    }

    /// Runs a transaction; ordered on return.
    pub(crate) fn run<T>(&self, log: &mut LogState, body: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.retire(log);
        let done = self.undo.run_ordered(body)?;
        log.last = log.last.after(&done.result);
        Ok(done.result.value)
    }

    /// A block of the heap; if there is no other, of those that log records have freed.
    pub(crate) fn reserve(&self, log: &mut LogState, len: u64) -> Result<Block> {
        match self.heap().reserve(len) {
            Err(error) if error.is_full() && log.freed.iter().any(|freed| !freed.is_empty()) => {
                self.retire(log);
                Ok(self.heap().reserve(len)?)
            }
            reserved => Ok(reserved?),
        }
    }

    /// Retires the log records (HKV-9), and fences: neither a transaction nor the next log record
    /// survives without it. Their freed blocks are free for others (HKV-8).
    pub(crate) fn retire(&self, log: &mut LogState) {
        if !log.redoable {
            return;
        }
        unless("hkv-note-retired-early", || self.order(log));
        self.retire_by(log.lap);
        log.lap += 1;
        self.media().fence(); // HKV-8, HKV-9
        log.freed.iter_mut().for_each(|freed| {
            self.heap().finish(freed);
            freed.clear();
        });
        log.redoable = false;
    }

    /// Overwrites the older log record with an empty one that makes the newer one invalid. No
    /// fence.
    pub(crate) fn retire_by(&self, lap: u64) {
        self.set_word(lap % 2, encode(lap, &[], &[], 0).0[0]);
    }

    pub(crate) fn set_word(&self, place: u64, word: u64) {
        let _section = self.media().section();
        self.media().store(self.log_record_at(place), word);
        self.media().flush(self.log_record_at(place), 8);
    }

    pub(crate) fn redo(&self, ops: &[Op], words: &[(u64, u64)]) {
        self.heap().apply(ops);
        let mut flusher = Flusher::new(self.media());
        for &(at, word) in words {
            self.media().store(at, word);
            flusher.touch(at, 8);
        }
    }

    pub(crate) fn log_record_at(&self, place: u64) -> u64 {
        (self.object().prime() + LOG_RECORD_AT + place * LOG_RECORD_STEP).get()
    }
}

/// Laps that a log record tells apart.
pub(crate) const LAPS: u64 = 8;

/// The parts of a log record, if it is one.
pub(crate) fn decode(record: &Words) -> Option<LogRecord> {
    let (lap, ops, pairs) = (record[0] >> 5 & 7, (record[0] >> 2 & 7) as usize, (record[0] & 3) as usize);
    let rest = record.get(1..1 + ops + 2 * pairs).filter(|_| record[0] != 0)?;
    let (ops, pairs) = rest.split_at(ops);
    let ops = ops.iter().map(|&op| Op::from(op)).collect();
    Some(LogRecord { lap, ops, words: pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() })
}

/// The words of a log record, and their number.
pub(crate) fn encode(lap: u64, ops: &[Op], words: &[(u64, u64)], checksum: u32) -> (Words, usize) {
    let mut record = [0; LOG_RECORD_WORDS];
    let pairs = words.iter().flat_map(|&(at, word)| [at, word]);
    let rest = ops.iter().map(|&op| u64::from(op)).chain(pairs);
    let len = 1 + record[1..].iter_mut().zip(rest).map(|(place, word)| *place = word).count();
    assert_eq!(len, 1 + ops.len() + 2 * words.len(), "a log record has space for a change of one pair");
    let shape = ((lap % LAPS) << 5) | (ops.len() << 2 | words.len()) as u64;
    let check = hasher::hash([u64::from(checksum), shape], record[1..len].as_bytes());
    record[0] = check & !0xff | shape;
    (record, len)
}
