//! [`PVecDeque`] as a persistent type: dropped, described, traced, moved.

use super::PVecDeque;
use crate::description::schema::{Schema, Shape, TypeName};
use crate::migrate::{Moving, PartId, PartKind, Planner, Refusal};
use crate::transaction::running;
use crate::{MemPool, Niche, PSafe, Tracer};
use std::ptr;

impl<T: PSafe<P>, P: MemPool> Drop for PVecDeque<T, P> {
    fn drop(&mut self) {
        if self.len == 0 && self.offset == 0 {
            return;
        }
        running::with_current::<P::Tag, _>(|running| {
            let Some(running) = running else { return };
            if self.offset == 0 {
                // SAFETY: elements without bytes, whose only owner is going.
                return unsafe { contents::<T>(self.place(0).cast(), self.len) };
            }
            if !std::mem::needs_drop::<T>() || self.len == 0 {
                return running.free(self.offset);
            }
            // Blocks are freed at the commit, so the order of the two parts is free.
            let ahead = self.len.min(self.cap - self.first);
            let from = self.offset + self.first * Self::SIZE as u64;
            // SAFETY: the block holds so many elements from that place on, whose only owner is
            // going.
            unsafe { running.drop_part(self.offset, from, ahead, contents::<T>) };
            // SAFETY: as above, from the beginning of the block, which is freed at the commit.
            unsafe { running.drop_part(0, self.offset, self.len - ahead, contents::<T>) };
        });
    }
}

/// Drops so many elements.
unsafe fn contents<T>(at: *mut u8, len: u64) {
    let all = ptr::slice_from_raw_parts_mut(at.cast::<T>(), len as usize);
    // SAFETY: the caller's: so many elements lie there, aligned, and nothing else owns them.
    unsafe { all.drop_in_place() };
}

// SAFETY: an offset in the same pool and three numbers; `At` differs in the brand.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PVecDeque<T, P> {
    type At<'x> = PVecDeque<T::At<'x>, P::At<'x>>;
    type Outside = PVecDeque<T::Outside, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        let of = T::describe(schema);
        schema.define::<Self, P>(format!("PVecDeque<{of}>").into(), |_| Shape::opaque::<Self>())
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's: any bits are four numbers.
        let words = unsafe { this.cast::<[u64; 4]>().read() };
        tracer.ring::<T, P>(this.cast(), words);
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.elements::<Self, T>(stored, "PVecDeque", PartKind::Ring)
    }

    /// The elements of the new block begin at its beginning.
    unsafe fn moved(from: *const u8, _: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's: any bits are four numbers.
        let [offset, len, ..] = unsafe { from.cast::<[u64; 4]>().read() };
        let (offset, room) = if offset == 0 { (0, 0) } else { moving.array(offset) };
        let cap = room.checked_div(Self::SIZE as u64).unwrap_or(Self::UNBOUNDED);
        PVecDeque { offset, len, cap, ..PVecDeque::new() }
    }
}
