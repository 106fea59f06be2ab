//! The producer's end: records are encoded straight into the ring, past the cache, and made
//! recoverable by a flush.

use super::layout::{TAIL_AT, position_word, record_word};
use super::{Form, Full, Position, Ring, SharedPositions, codec};
use crate::{Error, Result};
use crossbeam_utils::Backoff;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use zerocopy::IntoBytes;

/// Ring words of the longest record that is written faster through the cache: four lines.
const CACHED_MAX: usize = 32;

/// Appends records and makes them recoverable. One per log.
#[derive(Debug)]
pub struct Producer {
    pub(super) ring: Ring,
    pub(super) shared: Arc<SharedPositions>,
    pub(super) full: Full,
    /// Position of the next record; records up to `shared.tail` are flushed.
    pub(super) tail: u64,
    /// `shared.head` as last read, so that it is read only when space seems short.
    pub(super) head: u64,
    /// Buffer for one record.
    pub(super) scratch: Vec<u64>,
}

impl Producer {
    /// Appends one record. It is recoverable only after [`Producer::flush`], and comes back whole
    /// or not at all.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::TooLarge`]; nothing has been appended then.
    pub fn append(&mut self, words: &[u64]) -> Result<()> {
        let len = self.reserve(words.len() as u64)?;
        if self.scratch.len() < len as usize {
            self.scratch.resize(len as usize, 0);
        }
        let (ring, record) = (&self.ring, &mut self.scratch[..len as usize]);
        let place = ring.place(self.tail, len);
        // One lap, one sense; a record that wraps has two, and gets them as it is written.
        let sense = place.map_or(0, |(_, sense)| sense);
        record[0] = record_word(ring.salt, self.tail, words) | sense;
        match ring.form {
            Form::Torn => codec::encode(words, sense, &mut record[1..]),
            Form::Base => record[1..].copy_from_slice(words),
        }
        let _section = ring.media.section();
        match place {
            Some((offset, _)) if record.len() <= CACHED_MAX => ring.media.rewrite(offset, record.as_bytes()),
            // whole lines, since the store goes past the cache
            Some((offset, _)) => ring.media.copy_nt(offset, record.as_bytes()),
            None => write_around(ring, self.tail, record),
        }
        self.tail += len;
        Ok(())
    }

    /// Makes sure that an append of the next record, of at most `words`, will not fail. Returns the
    /// ring words of a record of this length.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::TooLarge`].
    #[inline]
    pub fn reserve(&mut self, words: u64) -> Result<u64> {
        let most = self.ring.payload_max();
        if words > most {
            return Err(Error::TooLarge { at: self.ring.at, words, most });
        }
        let len = self.ring.record_len(words);
        self.make_room(len)?;
        Ok(len)
    }

    /// Orders every record appended so far: later stores of this thread survive only with them. The
    /// consumer sees them from now on. One fence in the torn-bit form, two in the base form, none
    /// if nothing was appended.
    ///
    /// Ordered is not settled: before an answer to a client, call [`Producer::barrier`], or settle
    /// a mark taken now.
    pub fn flush(&mut self) -> Position {
        if self.tail != self.shared.tail.load(Acquire) {
            self.before_publish();
            self.ring.media.fence_unless("log-ring-no-fence");
            self.shared.tail.store(self.tail, Release);
        }
        Position(self.tail)
    }

    /// Settles every record appended so far, and lets the consumer see them. Costs as
    /// [`Producer::flush`], and the wait on media where a fence does not settle.
    ///
    /// # Errors
    /// The media's: the outcome is unknown until the store is opened again.
    pub fn barrier(&mut self) -> Result<Position> {
        if self.tail != self.shared.tail.load(Acquire) {
            self.before_publish();
        }
        self.ring.media.barrier()?;
        self.shared.tail.store(self.tail, Release);
        Ok(Position(self.tail))
    }

    /// Base form: the tail word, after the fence that orders what it covers (RING-4).
    fn before_publish(&mut self) {
        if self.ring.form == Form::Base {
            let media = &self.ring.media;
            media.fence_unless("log-ring-tail-unfenced");
            let _section = media.section();
            media.copy_nt(self.ring.at + TAIL_AT, &position_word(self.ring.salt, self.tail).to_le_bytes());
        }
    }

    /// The end of the flushed records.
    pub fn flushed(&self) -> Position {
        Position(self.shared.tail.load(Acquire))
    }

    /// Whether more than half of the ring waits to be truncated.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        (self.tail - self.shared.head.load(Acquire)) * 2 > self.ring.words
    }

    /// Payload words of the longest record this log takes.
    pub fn payload_max(&self) -> u64 {
        self.ring.payload_max()
    }

    /// Payload words, `words` at the least, of a next record that ends with its line: whole lines
    /// go past the cache at once, and no later record stores to them. `words` itself if the log
    /// takes no such record.
    #[inline]
    pub fn whole_lines(&self, words: u64) -> u64 {
        let end = (self.tail + self.ring.record_len(words)).next_multiple_of(8);
        let whole = self.ring.payload_in(end - self.tail);
        if whole <= self.ring.payload_max() { whole } else { words }
    }

    /// The form the log was created with.
    pub fn form(&self) -> Form {
        self.ring.form
    }

    /// Makes sure that `needed` words fit and one stays free (RING-3).
    #[inline]
    fn make_room(&mut self, needed: u64) -> Result<()> {
        if self.tail + needed - self.head < self.ring.words {
            return Ok(());
        }
        self.wait_for_room(needed)
    }

    #[cold]
    fn wait_for_room(&mut self, needed: u64) -> Result<()> {
        let backoff = Backoff::new();
        loop {
            self.head = self.shared.head.load(Acquire);
            let end = self.tail + needed - self.head;
            if end < self.ring.words {
                return Ok(());
            }
            let full = Error::Full { at: self.ring.at, needed: (end + 1 - self.ring.words) * 8 };
            if self.full == Full::Error || Arc::strong_count(&self.shared) == 1 {
                return Err(full);
            }
            self.flush(); // a consumer cannot truncate records that it cannot see
            if backoff.is_completed() {
                std::thread::yield_now();
            } else {
                backoff.snooze();
            }
        }
    }
}

/// Gives words their torn bit and writes them at `tail`, where the ring wraps.
#[cold]
fn write_around(ring: &Ring, mut tail: u64, mut words: &mut [u64]) {
    while !words.is_empty() {
        let left = ring.words - tail % ring.words;
        let sense = ring.sense(tail);
        let (now, later) = words.split_at_mut((words.len() as u64).min(left) as usize);
        now.iter_mut().for_each(|word| *word |= sense);
        ring.media.copy_nt(ring.offset(tail), now.as_bytes());
        tail += now.len() as u64;
        words = later;
    }
}
