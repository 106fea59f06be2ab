//! A lock that processes share, and that survives the death of its holder.
//!
//! It is one word of the mapping, never flushed: 0, or the token of the user that holds it. To take
//! it free is one compare-and-exchange. Who finds it taken looks whether the holder is alive and
//! waits on the word; a dead holder's lock goes to who asks next, who is told, puts right what was
//! left half done, and only then goes on.
//!
//! States: free -> held (`acquire`) -> free (`release`), or abandoned (`abandon`, or the holder's
//! death) -> held by an heir, who is told so (`acquire`).
//!
//! Invariants
//!   ROBUST-1  Who takes the lock after a holder that did not release it is told, until somebody
//!             has released it.
//!
//! Threads: one of a process at a time; who holds it is the process.

use crate::media::Media;
use crate::processes::members::User;
use crate::{Result, seeded};
use std::sync::Arc;
use std::time::Duration;

/// Tokens are 1 to this: 30 bits.
pub const TOKEN_MAX: u32 = ABANDONED as u32 - 1;
/// Nobody holds it, and what it guards is half done.
const ABANDONED: u64 = (1 << 30) - 1;
/// Somebody waits.
const WAITED: u64 = 1 << 31;
/// Looks at a held lock before its holder is looked for: most are held for a moment.
const PATIENCE: u32 = 200;
/// After so long a waiter looks again whether the holder is alive. Nothing but a late answer
/// depends on it.
const NAP: Duration = Duration::from_millis(10);

/// A lock in the word at an offset of a shared media. See the [module](self).
pub struct RobustLock {
    media: Media,
    at: u64,
    user: Arc<User>,
}

/// What the one before left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has released the lock, or there was none.
    InOrder,
    /// It died with the lock, or could not put right what a dead one left.
    HalfDone,
}

impl RobustLock {
    /// The lock in the word at `at`, for this user. A word of zeros is a free lock.
    pub fn new(media: Media, at: u64, user: Arc<User>) -> RobustLock {
        RobustLock { media, at, user }
    }

    /// Takes it, and waits for it if need be.
    ///
    /// # Errors
    /// [`crate::Error::Forked`] in a child of fork; [`crate::Error::Io`] if the system does not say
    /// who is alive.
    ///
    /// # Panics
    /// If this process holds it.
    #[inline]
    pub fn acquire(&self) -> Result<Left> {
        self.user.require_here()?;
        let me = u64::from(self.user.token());
        match self.media.compare_exchange(self.at, 0, me) {
            Ok(_) => Ok(Left::InOrder),
            Err(found) => self.wait(found, me),
        }
    }

    #[cold]
    fn wait(&self, mut found: u64, me: u64) -> Result<Left> {
        let taken = |from, to| self.media.compare_exchange(self.at, from, to);
        for _ in 0..PATIENCE {
            std::hint::spin_loop();
            if self.media.load(self.at) == 0 && taken(0, me).is_ok() {
                return Ok(Left::InOrder);
            }
        }
        loop {
            // Others may wait, too: who wakes us knows of one.
            let mine = me | WAITED;
            let holder = found & ABANDONED;
            if found == 0 {
                match taken(0, mine) {
                    Ok(_) => return Ok(Left::InOrder),
                    Err(other) => found = other,
                }
                continue;
            }
            assert!(holder != me, "ROBUST-1: a process takes a lock that it holds");
            if holder == ABANDONED || !self.user.is_alive(holder as u32)? {
                match taken(found, mine) {
                    Ok(_) if seeded("robust-death-unsaid") => return Ok(Left::InOrder),
                    Ok(_) => return Ok(Left::HalfDone),
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
            self.media.wait_for_word(self.at, (found | WAITED) as u32, NAP);
            found = self.media.load(self.at);
        }
    }

    /// Gives it back.
    #[inline]
    pub fn release(&self) {
        self.leave(0);
    }

    /// Gives it back with what it guards half done: who takes it next is told so.
    pub fn abandon(&self) {
        self.leave(ABANDONED);
    }

    #[inline]
    fn leave(&self, with: u64) {
        let mut found = self.media.load(self.at);
        while let Err(other) = self.media.compare_exchange(self.at, found, with) {
            found = other; // somebody waits now
        }
        if found & WAITED != 0 {
            self.media.wake_word(self.at);
        }
    }
}
