//! Stores of a transaction: they take the lock of their stripe, and wait in memory until the
//! commit.
//!
//! Blocks that the transaction has allocated are its own, and free on media until it commits: they
//! are stored to in place.

use super::locks::{FOREIGN, Locks, STRIPE, Word};
use super::recover::store_masked;
use super::stripe::{NONE, Stripe};
use super::worker::{Replaced, STRIPES_MAX};
use super::{Stop, Worker};
use crate::Result;
use crossbeam_utils::Backoff;
use everbyte_media::{Media, Offset};
use std::sync::atomic::Ordering;

impl Worker {
    /// Takes the lock of the word at `address`, a multiple of 8, which is no store's. The caller
    /// may change it in place until the transaction ends, and before [`Worker::abort`] puts back
    /// what was there.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    #[inline]
    pub fn lock_foreign(&mut self, address: u64) -> Result<(), Stop> {
        self.own(address | FOREIGN)?;
        self.changed_foreign = true;
        Ok(())
    }

    /// Stores the word at `at`, a multiple of 8.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::BadRange`]; [`Error::TooLong`].
    #[inline]
    pub fn store(&mut self, at: impl Into<Offset>, value: u64) -> Result<()> {
        let at = at.into().get();
        self.store_masked(at, 0xff, value).map_err(|stop| self.error(stop, at, 8))
    }

    /// Stores those bytes of the word at `at`, a multiple of 8, that `mask` has bits for.
    ///
    /// # Errors
    /// As it says.
    #[inline(always)]
    pub fn store_masked(&mut self, at: impl Into<Offset>, mask: u8, value: u64) -> Result<(), Stop> {
        let at = at.into().get();
        if self.store_again(at, mask, value) { Ok(()) } else { self.store_elsewhere(at, mask, value) }
    }

    /// [`Worker::store_masked`] as most are: to the line that the last one went to. `false`: it is
    /// another, and nothing is done.
    #[inline(always)]
    pub fn store_again(&mut self, at: impl Into<Offset>, mask: u8, value: u64) -> bool {
        let at = at.into().get();
        let newest = self.stripes.last_mut();
        let Some(newest) = newest.filter(|newest| newest.base == at & !(STRIPE - 1) && newest.is_data) else {
            return false;
        };
        // Blocks of its own, which are stored to in place, may share the line.
        let goes = self.checkpoints == 0 && self.blocks.is_empty() && at.is_multiple_of(8);
        if goes {
            newest.put(Stripe::word(at), mask, value);
        }
        goes
    }

    #[inline(never)]
    fn store_elsewhere(&mut self, at: u64, mask: u8, value: u64) -> Result<(), Stop> {
        if !self.blocks.is_empty() && self.blocks.holds(at, at + 8) {
            self.store_own(at, mask, value);
            return Ok(());
        }
        if at >= FOREIGN || !at.is_multiple_of(8) {
            return Err(Stop::Outside);
        }
        let (index, word) = (self.own(at)?, Stripe::word(at));
        if !self.stripes[index].is_data && !self.engine.may_change(at, 8) {
            return Err(Stop::Outside);
        }
        if self.checkpoints > 0 {
            let (mask, value) = self.stripes[index].waiting(word);
            self.replaced.push(Replaced::Waiting { stripe: index as u32, word: word as u8, mask, value });
        }
        self.stripes[index].put(word, mask, value);
        Ok(())
    }

    /// Stores whole words of one stripe.
    #[inline]
    fn store_words(&mut self, at: u64, values: &[[u8; 8]]) -> Result<(), Stop> {
        if self.checkpoints == 0 && self.blocks.is_empty() && at < FOREIGN {
            let index = self.own(at)?;
            let stripe = &mut self.stripes[index];
            if stripe.is_data {
                stripe.put_words(Stripe::word(at), values);
                return Ok(());
            }
        }
        let mut words = values.iter().zip((at..).step_by(8));
        words.try_for_each(|(value, at)| self.store_masked(at, 0xff, u64::from_le_bytes(*value)))
    }

    /// Stores to a block of this transaction's own: in place, for on media it is free until the
    /// commit.
    fn store_own(&mut self, at: u64, mask: u8, value: u64) {
        let media = &self.engine.media;
        if self.checkpoints > 0 {
            self.replaced.push(Replaced::Own { at, value: media.load(at) });
        }
        store_through(media, at, mask, value);
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// As [`Worker::store`].
    pub fn write(&mut self, at: impl Into<Offset>, bytes: &[u8]) -> Result<()> {
        let at = at.into().get();
        self.write_by(at, bytes).map_err(|stop| self.error(stop, at, bytes.len() as u64))
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// As it says.
    pub fn write_by(&mut self, at: impl Into<Offset>, bytes: &[u8]) -> Result<(), Stop> {
        let at = at.into().get();
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            let room = (STRIPE - at % STRIPE).min(bytes.len() as u64) as usize / 8 * 8;
            if at.is_multiple_of(8) && room > 0 {
                let (now, later) = bytes.split_at(room);
                self.store_words(at, now.as_chunks().0)?;
                (at, bytes) = (at + room as u64, later);
                continue;
            }
            let (skip, mut word) = ((at % 8) as usize, [0; 8]);
            let (now, later) = bytes.split_at(bytes.len().min(8 - skip));
            word[skip..skip + now.len()].copy_from_slice(now);
            self.store_masked(at & !7, (((1u32 << now.len()) - 1) << skip) as u8, u64::from_le_bytes(word))?;
            (at, bytes) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// The stripe of a key, under a lock of this transaction's.
    #[inline]
    fn own(&mut self, key: u64) -> Result<usize, Stop> {
        let (base, lock) = (key & !(STRIPE - 1), Locks::index(key));
        if self.stripes.last().is_some_and(|newest| newest.base == base) {
            return Ok(self.stripes.len() - 1);
        }
        let backoff = Backoff::new();
        loop {
            let seen = Word(self.engine.locks.word(lock).load(Ordering::Acquire));
            if seen.is_held_by(self.number) {
                return match self.find(base, seen.index()) {
                    Some(index) => Ok(index),
                    None => self.own_another(key, lock, seen.index()),
                };
            }
            if seen.is_held() {
                if backoff.is_completed() {
                    return Err(Stop::Conflict);
                }
                backoff.spin(); // its holder may be about to commit
                continue;
            }
            if !seen.is_unchanged_since(self.valid_at) {
                self.move_on()?;
                continue;
            }
            let is_data = self.require_changeable(key)?;
            // the commit stores there; of an address that is no store's, a hint at nothing
            self.media.prefetch(base);
            let held = Word::held(self.number, self.stripes.len());
            let word = self.engine.locks.word(lock);
            if word.compare_exchange(seen.0, held.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.stripes.push(Stripe::new(base, lock, seen, is_data));
                return Ok(self.stripes.len() - 1);
            }
        }
    }

    /// Another stripe under a lock that this transaction holds.
    #[cold]
    fn own_another(&mut self, key: u64, lock: u32, first: u32) -> Result<usize, Stop> {
        let is_data = self.require_changeable(key)?;
        let (base, index) = (key & !(STRIPE - 1), self.stripes.len());
        let mut stripe = Stripe::new(base, lock, Word::held(self.number, first as usize), is_data);
        stripe.next = std::mem::replace(&mut self.stripes[first as usize].next, index as u32);
        self.stripes.push(stripe);
        Ok(index)
    }

    /// Whether all of a key's stripe is data; an error unless the word may be changed.
    #[inline]
    fn require_changeable(&self, key: u64) -> Result<bool, Stop> {
        if self.stripes.len() == STRIPES_MAX {
            return Err(Stop::TooLong);
        }
        if self.engine.may_change(key & !(STRIPE - 1), STRIPE) {
            return Ok(true);
        }
        if key & FOREIGN != 0 || self.engine.may_change(key, 8) { Ok(false) } else { Err(Stop::Outside) }
    }

    #[inline]
    pub(super) fn find(&self, base: u64, first: u32) -> Option<usize> {
        let mut index = first;
        while index != NONE {
            let stripe = &self.stripes[index as usize];
            if stripe.base == base {
                return Some(index as usize);
            }
            index = stripe.next;
        }
        None
    }
}

/// Stores to media that no other thread reads; on private memory they are flushed at once: no
/// section is open that would keep them until the commit.
pub(super) fn store_through(media: &Media, at: u64, mask: u8, value: u64) {
    let _section = media.section();
    store_masked(media, at, mask, value);
    if !media.fences_settle() {
        media.flush(at, 8);
    }
}
