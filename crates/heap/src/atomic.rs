//! Allocation outside transactions: a block's bit and one word of the caller's change together, by
//! the heap's own log.
//!
//! One use of a slot, a fence between the lines:
//!   1. the new block's content, if the caller gave one
//!   2. the slot: operation, target, value, and a check over them that makes it valid
//!   3. the bit and the target word change
//!   4. the slot's check becomes 0, and a barrier
//!
//! A crash before 2 leaves nothing; after a later crash recovery does 3 and 4 again.
//!
//! Invariants
//!   HEAP-8  A slot is valid only if its check covers its words; it is one line, written whole.
//!           Recovery empties invalid ones: their next use has the same lap, and together with
//!           their old parts it could pass the check.
//!   HEAP-9  A slot is retired and fenced before its target is unlocked for other stores.
//!
//! Threads: a thread uses the slot of its shard and waits while another thread has it.

use crate::heap::HeapState;
use crate::layout::{self, HEADER, HEADER_END, SLOT_STEP, SLOTS, Slot};
use crate::{Block, Error, Heap, Op, Result};
use crossbeam_utils::CachePadded;
use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_media::{Media, Offset, PublishWord, sums_agree};
use zerocopy::IntoBytes;

/// The slots of the log, each locked by its thread, with the lap of its last use.
pub(crate) struct Slots(Box<[CachePadded<RankedMutex<{ rank::HEAP_SLOT }, u64>>]>);

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots((0..SLOTS).map(|_| CachePadded::new(RankedMutex::new(0))).collect())
    }

    /// Sets the lap of a slot's last use, read from media.
    pub(crate) fn set_lap(&self, number: u64, lap: u64) {
        *self.0[number as usize].lock() = lap;
    }
}

impl Heap {
    /// Allocates a block of at least `size` bytes and stores its address to the word at `target`:
    /// both or neither, after any crash. Settled on return. The old value of `target` is
    /// overwritten; the block's bytes are unspecified.
    ///
    /// # Errors
    /// [`Error::BadDestination`] unless `target` is an aligned word of this object, outside the
    /// heap's own bytes, that no transaction is changing; otherwise as [`Heap::reserve`].
    /// [`Error::Media`]: the outcome is unknown.
    pub fn alloc_into(&self, size: u64, target: impl Into<Offset>) -> Result<Block> {
        let target = target.into().get();
        self.alloc(size, target, |_, _| false)
    }

    /// [`Heap::alloc_into`] of a block whose bytes are all `fill`: content, allocation and address
    /// appear together.
    ///
    /// # Errors
    /// As [`Heap::alloc_into`].
    pub fn alloc_set(&self, size: u64, target: impl Into<Offset>, fill: u8) -> Result<Block> {
        let target = target.into().get();
        self.alloc_with(size, target, |media, block| {
            let bytes = [fill; 4096];
            for done in (0..block.size.get()).step_by(4096) {
                media.write(block.at + done, &bytes[..(block.size.get() - done).min(4096) as usize]);
            }
        })
    }

    /// [`Heap::alloc_into`] of a block that `fill` has written: content, allocation and address
    /// appear together. `fill` stores into the block alone, and need not flush.
    ///
    /// # Errors
    /// As [`Heap::alloc_into`].
    pub fn alloc_with(&self, size: u64, target: impl Into<Offset>, fill: impl FnOnce(&Media, Block)) -> Result<Block> {
        let target = target.into().get();
        self.alloc(size, target, |media, block| {
            fill(media, block);
            media.flush(block.at, block.size);
            true
        })
    }

    fn alloc(&self, size: u64, target: u64, fill: impl FnOnce(&Media, Block) -> bool) -> Result<Block> {
        let inner = &*self.inner;
        inner.check_target(target)?;
        let block = self.reserve(size)?;
        let _section = inner.media.section();
        if fill(&inner.media, block) {
            inner.media.fence_unless("heap-fill-unfenced"); // 1
        }
        self.publish(self.op_allocate(&block), target, self.base + block.at.get())?;
        Ok(block)
    }

    /// Frees the block whose address the word at `target` holds, and stores 0 there: both or
    /// neither, after any crash. Settled on return.
    ///
    /// # Errors
    /// [`Error::BadDestination`]; [`Error::NotABlock`], [`Error::NotAllocated`] and
    /// [`Error::BeingFreed`] for the value of the word. [`Error::Media`]: the outcome is unknown.
    pub fn free_from(&self, target: impl Into<Offset>) -> Result<()> {
        let target = target.into().get();
        let inner = &*self.inner;
        inner.check_target(target)?;
        let op = self.op_free(inner.media.load(target).wrapping_sub(self.base))?;
        self.publish(op, target, 0)?;
        self.finish(&[op]);
        Ok(())
    }

    /// Makes an operation and a store happen together.
    fn publish(&self, op: Op, target: u64, value: u64) -> Result<()> {
        let inner = &*self.inner;
        let media = &inner.media;
        let _section = media.section();
        let number = inner.shard_hint() as u64 % SLOTS;
        let mut lap = inner.slots.0[number as usize].lock();
        let at = inner.prime + layout::LOG + number * SLOT_STEP;
        *lap += 1;
        let mut slot =
            Slot { check: 0, op: op.into(), target: Offset::new(target), value, lap: *lap, reserved: [0; 3] };
        slot.check = slot.sum();
        media.rewrite(at, slot.as_bytes()); // 2
        let ordered = media.fence_after_unless("heap-slot-unfenced", at);
        self.apply(&[op]); // 3
        PublishWord::new(Offset::new(target)).publish(media, value, &ordered);
        media.fence();
        inner.empty(at); // 4, HEAP-9
        Ok(media.barrier()?)
    }
}

impl HeapState {
    fn check_target(&self, target: u64) -> Result<()> {
        let page = target.wrapping_sub(self.prime);
        let good = match page {
            _ if !target.is_multiple_of(8) => false,
            0..HEADER => target == self.object.root_at().get(),
            HEADER..HEADER_END => false,
            HEADER_END..4096 => true,
            _ => self.may_hold_blocks(target, 8),
        };
        if good { Ok(()) } else { Err(Error::BadDestination { at: target, object: self.name() }) }
    }

    /// Finishes the operations that a crash left in the log.
    pub(crate) fn recover(self: &std::sync::Arc<HeapState>) -> Result<()> {
        let heap = Heap { inner: std::sync::Arc::clone(self), base: 0 };
        let _section = self.media.section();
        let mut found = Vec::new();
        for number in 0..SLOTS {
            let at = self.prime + layout::LOG + number * SLOT_STEP;
            let slot: Slot = self.media.get(at);
            // A process may have died before it flushed the slot, valid or retired: the changes
            // from here on must not survive without it (HEAP-8, HEAP-10).
            self.media.reflush(at, size_of::<Slot>() as u64);
            self.slots.set_lap(number, slot.lap);
            if slot.check == 0 || !sums_agree(slot.check, slot.sum()) {
                if slot.check != 0 {
                    self.empty(at); // torn: step 2 did not end (HEAP-8)
                }
                continue;
            }
            let op = Op::from(slot.op);
            heap.validate(op)?;
            self.check_target(slot.target.get())
                .map_err(|_| self.damaged(at, "an entry of the heap's log changes a word that it may not"))?;
            found.push((at, op, slot));
        }
        // Empty slots too: if a retirement were lost after a cluster has changed its kind, recovery
        // would do its operation again.
        self.media.fence();
        if found.is_empty() {
            return Ok(());
        }
        for (_, op, slot) in &found {
            heap.apply(&[*op]);
            self.media.store(slot.target, slot.value);
            self.media.flush(slot.target, 8);
        }
        self.media.fence();
        found.iter().for_each(|(at, _, _)| self.empty(*at));
        self.media.fence();
        // HEAP-11: the log of an engine, which is read later, names clusters that look free.
        self.pool.lock().release_at = u64::MAX;
        found.iter().for_each(|(_, op, _)| heap.finish(&[*op]));
        self.pool.lock().release_at = 0;
        Ok(())
    }

    /// Has the next fence empty the slot at `at`.
    fn empty(&self, at: u64) {
        self.media.store(at, 0);
        self.media.flush(at, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Options;
    use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};

    /// The slot becomes valid word by word together with the remains of the next use of its lap.
    #[test]
    fn a_torn_slot_is_emptied() {
        let media = Media::anonymous(4 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions { log_len: 0, identity: None }).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(2 << 20) };
        let object = store.create_object("heap", options, Heap::format).unwrap();
        let at = object.prime() + layout::LOG + SLOT_STEP;
        let mut slot = Slot { check: 0, op: 1, target: Offset::new(2), value: 3, lap: 4, reserved: [0; 3] };
        slot.check = slot.sum();
        media.write(at, Slot { lap: 3, ..slot }.as_bytes());
        drop(object);
        drop(store);
        let store = Store::attach(media.clone()).unwrap();
        Heap::open(store.object("heap").unwrap()).unwrap();
        assert_eq!(media.get::<Slot>(at).check, 0);
    }
}
