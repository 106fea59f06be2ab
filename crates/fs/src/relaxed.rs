//! [`Relaxed`]: relaxed commit. A file grows without a wait for the last fence of the call, so that
//! a crash may roll the newest calls back.
//!
//! A size is stored after the fence of everything that it covers, and nothing is freed by it, so it
//! may survive or not. Calls stay in order: the first fence of a thread's next call orders the size
//! that it left, and a call of another thread flushes that word again before its own first fence.
//!
//! Invariants
//!   FS-40  The first fence of a call that changes the volume follows a flush, by its thread, of
//!          each size that a thread had left unfenced when the call began, and of the size of a
//!          file that it copies from, when it has that file's lock.
//!
//! Threads: any. A thread leaves at most one size, in the slot of its number; threads whose numbers
//! share a slot take turns, with a fence. Elsewhere: the sizes that are left (`file`).

use everbyte_media::{Media, seeded};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 16;
/// A slot holds the number of a thread above the offset of a word.
const AT_BITS: u32 = 48;
/// The number of threads beyond the last one that has its own: none of them owns a slot.
const NAMELESS: u64 = u16::MAX as u64;

/// The size that a thread left unfenced, in lines of its own; 0: none.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// The sizes that are not fenced yet.
#[derive(Default)]
pub(crate) struct Relaxed([Slot; SLOTS]);

/// Threads that have a number.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: Cell<u64> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed).min(NAMELESS));
}

fn owner(slot: u64) -> u64 {
    slot >> AT_BITS
}

fn at(slot: u64) -> u64 {
    slot & ((1 << AT_BITS) - 1)
}

impl Relaxed {
    /// Flushes the sizes that other threads have left: the caller's next fence orders them.
    pub(crate) fn adopt(&self, media: &Media) {
        let own = NUMBER.get();
        let used = (THREADS.load(Ordering::Relaxed) as usize).min(SLOTS);
        for slot in &self.0[..used] {
            let left = slot.0.load(Ordering::Acquire);
            if left != 0 && (owner(left) != own || own == NAMELESS) && !seeded("fs-relaxed-unadopted") {
                media.flush(at(left), 8);
            }
        }
    }

    /// Leaves the flushed word at `size_at` unfenced, or fences it.
    pub(crate) fn leave(&self, media: &Media, size_at: u64) {
        let own = NUMBER.get();
        let slot = &self.0[own as usize % SLOTS].0;
        let before = slot.load(Ordering::Acquire);
        let is_free = before == 0 || owner(before) == own;
        let is_left = is_free
            && own != NAMELESS
            && size_at <= at(u64::MAX)
            && slot.compare_exchange(before, own << AT_BITS | size_at, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_left {
            return;
        }
        if before != 0 {
            media.flush(at(before), 8);
        }
        media.fence();
        // Fenced now; another thread may have left one since.
        let _ = slot.compare_exchange(before, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
