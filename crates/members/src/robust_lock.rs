//! A lock in shared memory that survives the death of its holder.
//!
//! The lock is one word, never flushed: 0, or the token of the member that holds it. One
//! compare-and-exchange takes a free lock. A thread that finds it taken checks whether the holder
//! is alive, then waits on the word. The lock of a dead holder passes to the next thread that asks;
//! that thread learns of the death, repairs the guarded data, and then continues.
//!
//! States: free -> held (`acquire`) -> free (`release`), or abandoned (`abandon`, or the holder's
//! death) -> held by a successor that learns of it (`acquire`).
//!
//! Invariants
//!   ROBUST-1  After a holder that did not release the lock, every `acquire` says so until one
//!             holder has released it.
//!
//! Threads: one thread of a process at a time; the holder is the process.

use crate::membership::Membership;
use crate::{Result, SharedWords};
use std::sync::Arc;
use std::time::Duration;

/// Tokens are 1 to this, inclusive: 30 bits.
pub const TOKEN_MAX: u32 = ABANDONED as u32 - 1;
/// The lock is free, and the guarded data may be incomplete.
const ABANDONED: u64 = (1 << 30) - 1;
/// A thread waits on the word.
const WAITED: u64 = 1 << 31;
/// Loads of a taken lock before its holder is checked: most locks are held for a moment.
const SPINS: u32 = 200;
/// A waiter checks the holder again after this time. A death is noticed at most so much later.
const NAP: Duration = Duration::from_millis(10);

/// A lock in the word at an offset of shared memory.
pub struct RobustLock<W> {
    words: W,
    at: u64,
    member: Arc<Membership>,
}

/// The way in which the previous holder gave up the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predecessor {
    /// It released the lock, or there was none.
    Released,
    /// It died with the lock, or abandoned it: the guarded data may be incomplete.
    Died,
}

impl<W: SharedWords> RobustLock<W> {
    /// The lock in the word at `at`, for this member. A word of zeros is a free lock.
    pub fn new(words: W, at: u64, member: Arc<Membership>) -> RobustLock<W> {
        RobustLock { words, at, member }
    }

    /// Takes the lock; waits while another process holds it.
    ///
    /// # Errors
    /// [`crate::Error::Forked`] in a forked child; [`crate::Error::Io`] if the system does not say
    /// which members are alive.
    ///
    /// # Panics
    /// If this process holds it.
    #[inline]
    pub fn acquire(&self) -> Result<Predecessor> {
        self.member.require_here()?;
        let me = u64::from(self.member.token());
        match self.words.compare_exchange(self.at, 0, me) {
            Ok(_) => Ok(Predecessor::Released),
            Err(found) => self.wait(found, me),
        }
    }

    #[cold]
    fn wait(&self, mut found: u64, me: u64) -> Result<Predecessor> {
        let taken = |from, to| self.words.compare_exchange(self.at, from, to);
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.words.load(self.at) == 0 && taken(0, me).is_ok() {
                return Ok(Predecessor::Released);
            }
        }
        loop {
            // `release` wakes one thread: the bit stays set for further waiters.
            let mine = me | WAITED;
            let holder = found & ABANDONED;
            if found == 0 {
                match taken(0, mine) {
                    Ok(_) => return Ok(Predecessor::Released),
                    Err(other) => found = other,
                }
                continue;
            }
            assert!(holder != me, "ROBUST-1: a process takes a lock that it holds");
            if holder == ABANDONED || !self.member.is_alive(holder as u32)? {
                match taken(found, mine) {
                    Ok(_) if self.words.seeded("robust-death-unsaid") => return Ok(Predecessor::Released),
                    Ok(_) => return Ok(Predecessor::Died),
                    Err(other) => found = other,
                }
                continue;
            }
            if found & WAITED == 0
                && let Err(other) = taken(found, found | WAITED)
            {
                found = other;
                continue;
            }
            self.words.wait(self.at, (found | WAITED) as u32, NAP);
            found = self.words.load(self.at);
        }
    }

    /// Releases the lock.
    #[inline]
    pub fn release(&self) {
        self.leave(0);
    }

    /// Releases the lock while the guarded data is incomplete: the next holder learns it, as after
    /// a death.
    pub fn abandon(&self) {
        self.leave(ABANDONED);
    }

    #[inline]
    fn leave(&self, with: u64) {
        let mut found = self.words.load(self.at);
        while let Err(other) = self.words.compare_exchange(self.at, found, with) {
            found = other; // a thread has begun to wait
        }
        if found & WAITED != 0 {
            self.words.wake(self.at);
        }
    }
}
