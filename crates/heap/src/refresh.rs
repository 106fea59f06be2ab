//! A heap that other processes change, too: the state in memory is stale after another process has
//! changed the heap.
//!
//! Processes share the heap under its object's lock (`Object::turn`); every caller here holds it,
//! before it uses the heap. No reservation outlives the lock, so everything can be read again.
//!
//! Invariants
//!   HEAP-12  A process without the lock has no reservation, and is freeing no block.
//!
//! Threads: no other thread of this process uses the heap meanwhile.

use crate::layout::{self, SLOT_STEP, SLOTS, Slot};
use crate::pool::Pool;
use crate::shard::Shard;
use crate::{Heap, Result, format};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Heap {
    /// Makes the state in memory stale: other processes have changed the heap, and released the
    /// lock in good order. Zones are loaded again when they are needed.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn refresh(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.end.store(format::read(&inner.object)?.end, Ordering::Release);
        *inner.pool.lock() = Pool::new();
        inner.shards.iter().for_each(|shard| *shard.lock() = Shard::new());
        inner.zones.expire();
        for number in 0..SLOTS {
            let slot: Slot = inner.media.get(inner.prime + layout::LOG + number * SLOT_STEP);
            inner.slots.set_lap(number, slot.lap);
        }
        Ok(())
    }

    /// [`Heap::refresh`] after a process that died with the lock: finishes the operation that it
    /// left in the heap's log, as opening does.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn refresh_after_death(&self) -> Result<()> {
        self.refresh()?;
        Arc::clone(&self.inner).recover()
    }
}
