//! Loads of a transaction.
//!
//! A load reads the lock before and after: its result was there at the time up to which the
//! transaction is known to be valid. If it meets a newer commit, everything read so far is
//! validated again, and that time moves on, or there is a conflict. The transaction's own buffered
//! stores hide the bytes in memory.

use super::locks::{FOREIGN, Locks, STRIPE, Word};
use super::stripe::Stripe;
use super::{Stop, Worker};
use crate::Result;
use everbyte_media::{Media, Offset};
use std::sync::atomic::Ordering;

impl Worker {
    /// The word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::BadRange`].
    #[inline(always)]
    pub fn load(&mut self, at: impl Into<Offset>) -> Result<u64> {
        let at = at.into().get();
        self.load_by(at, |media| media.get_word(at)).map_err(|stop| self.error(stop, at, 8))
    }

    /// The word with this key, a multiple of 8, as `value` finds it in memory, by one load with
    /// acquire order: for rooms that know where the bytes are mapped. `None`: they are not.
    ///
    /// # Errors
    /// [`Stop::Conflict`]; [`Stop::Outside`].
    #[inline(always)]
    pub fn load_by(&mut self, key: u64, value: impl Fn(&Media) -> Option<u64>) -> Result<u64, Stop> {
        match self.look(key, &value) {
            Some(found) => Ok(found),
            None => self.load_slowly(key, value),
        }
    }

    /// [`Worker::load_by`] in the common case: the word is unlocked and unchanged since. `None`:
    /// another case, and nothing is done.
    #[inline(always)]
    pub fn look(&mut self, key: u64, value: &impl Fn(&Media) -> Option<u64>) -> Option<u64> {
        let lock = Locks::index(key);
        let word = self.engine.locks.word(lock);
        let before = Word(word.load(Ordering::Acquire));
        let found = value(&self.media)?;
        if !before.is_unchanged_since(self.valid_at) || word.load(Ordering::Acquire) != before.0 {
            return None;
        }
        if self.reads.last() != Some(&lock) {
            if self.reads.len() == self.reads.capacity() {
                return None; // it grows elsewhere
            }
            self.reads.push(lock);
        }
        Some(found)
    }

    #[cold]
    #[inline(never)]
    fn load_slowly(&mut self, key: u64, value: impl Fn(&Media) -> Option<u64>) -> Result<u64, Stop> {
        loop {
            self.reads.reserve(1);
            if let Some(found) = self.look(key, &value) {
                return Ok(found);
            }
            let word = Word(self.engine.locks.word(Locks::index(key)).load(Ordering::Acquire));
            if word.is_held() {
                return self.load_held(key, word, value);
            }
            value(&self.media).ok_or(Stop::Outside)?;
            if !word.is_unchanged_since(self.valid_at) {
                self.move_on()?;
            }
        }
    }

    fn load_held(&mut self, key: u64, word: Word, value: impl Fn(&Media) -> Option<u64>) -> Result<u64, Stop> {
        if !word.is_held_by(self.number) {
            return Err(Stop::Conflict);
        }
        let found = value(&self.media).ok_or(Stop::Outside)?;
        let Some(stripe) = self.find(key & !(STRIPE - 1), word.index()) else { return Ok(found) };
        Ok(self.stripes[stripe].over(Stripe::word(key), found))
    }

    /// The same for memory that is no store's, at `address`; the caller has not changed it, or by
    /// leave of [`Worker::lock_foreign`].
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline(always)]
    pub fn load_foreign(&mut self, address: u64, value: impl Fn(&Media) -> u64) -> Result<u64, Stop> {
        self.load_by(address | FOREIGN, |media| Some(value(media)))
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// As [`Worker::load`].
    pub fn read(&mut self, at: impl Into<Offset>, into: &mut [u8]) -> Result<()> {
        let at = at.into().get();
        let (mut at, mut into) = (at, into);
        while !into.is_empty() {
            let (skip, word) = ((at % 8) as usize, self.load(at & !7)?.to_le_bytes());
            let count = into.len().min(8 - skip);
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&word[skip..skip + count]);
            (at, into) = (at + count as u64, later);
        }
        Ok(())
    }

    /// Moves on to the present, if the loaded bytes are still valid (REDO-2).
    #[cold]
    pub(super) fn move_on(&mut self) -> Result<(), Stop> {
        let now = self.engine.clock.load(Ordering::Acquire);
        if !self.is_valid() {
            return Err(Stop::Conflict);
        }
        self.valid_at = now;
        self.since.store(now, Ordering::Release);
        Ok(())
    }

    /// Whether nothing that was loaded has changed since.
    pub(super) fn is_valid(&self) -> bool {
        self.reads.iter().all(|&lock| {
            let word = Word(self.engine.locks.word(lock).load(Ordering::Acquire));
            word.is_unchanged_since(self.valid_at) || word.is_held_by(self.number)
        })
    }
}
