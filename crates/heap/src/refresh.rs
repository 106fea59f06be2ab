//! A heap that other processes change, too: what this one knows of it is stale when somebody else
//! has been there.
//!
//! Processes take turns on the heap's object (`Object::turn`); everything here is called by who has
//! the turn, before it uses the heap. No reservation outlives a turn, so all that is known can be
//! read again.
//!
//! Invariants
//!   HEAP-12  Between turns a process has nothing reserved, and is freeing nothing.
//!
//! Threads: nobody else uses the heap in this process meanwhile.

use crate::layout::{self, SLOT_STEP, SLOTS, Slot};
use crate::pool::Pool;
use crate::shard::Shard;
use crate::{Heap, Result, format};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Heap {
    /// Forgets what this process knows of the heap: others have changed it, in good order. Zones
    /// are loaded again when they are needed.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn refresh(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.end.store(format::read(&inner.object)?.end, Ordering::Release);
        *inner.pool.lock() = Pool::new();
        inner.shards.iter().for_each(|shard| *shard.lock() = Shard::new());
        inner.zones.forget();
        for number in 0..SLOTS {
            let slot: Slot = inner.media.get(inner.prime + layout::LOG + number * SLOT_STEP);
            inner.slots.set_turn(number, slot.turn);
        }
        Ok(())
    }

    /// [`Heap::refresh`] after a process that died in its turn: finishes what it left in the heap's
    /// log, as opening does.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn inherit(&self) -> Result<()> {
        self.refresh()?;
        Arc::clone(&self.inner).recover()
    }
}
