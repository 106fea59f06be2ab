//! Values of parts, each read as its own type, for the implementations of [`PSafe::moved`].

use super::Moving;
use super::moving::read_tag;
use super::plan::{PartId, PartKind};
use crate::{MemPool, PSafe};

impl<P: MemPool> Moving<'_, P> {
    /// The value of `part` at `from`.
    ///
    /// # Safety
    /// `part` was planned for a `T`, and its stored value lies at `from`. It is read once.
    pub unsafe fn read<T: PSafe<P>>(&self, from: *const u8, part: PartId) -> T {
        if self.plan.part(part).same {
            // SAFETY: the caller's; the bytes are those of a `T` of the program (PLAN-1).
            return unsafe { from.cast::<T>().read() };
        }
        // SAFETY: the caller's.
        unsafe { T::moved(from, part, self) }
    }

    /// Field `index` of a struct, a tuple or a wrapper.
    ///
    /// # Safety
    /// As [`Moving::read`], for the whole; `T` is the type of that field.
    pub unsafe fn field<T: PSafe<P>>(&self, from: *const u8, part: PartId, index: usize) -> T {
        let PartKind::Fields(fields) = &self.plan.part(part).kind else { unreachable!("PLAN-1: planned with fields") };
        let (offset, part) = fields[index];
        // SAFETY: the caller's, and PLAN-1.
        unsafe { self.read::<T>(from.wrapping_add(offset), part) }
    }

    /// Which variant lies at `from`, by the order of the program.
    ///
    /// # Safety
    /// As [`Moving::read`].
    pub unsafe fn variant(&self, from: *const u8, part: PartId) -> usize {
        let PartKind::Variants(tag, variants) = &self.plan.part(part).kind else { unreachable!("PLAN-1: an enum") };
        // SAFETY: the caller's.
        let tag = unsafe { read_tag(from, tag) };
        variants.iter().position(|(known, _)| *known == tag).expect("MOVE-2: looked at when its block was entered")
    }

    /// Field `index` of that variant.
    ///
    /// # Safety
    /// As [`Moving::field`].
    pub unsafe fn variant_field<T: PSafe<P>>(&self, from: *const u8, part: PartId, variant: usize, index: usize) -> T {
        let PartKind::Variants(_, variants) = &self.plan.part(part).kind else { unreachable!("PLAN-1: an enum") };
        let (offset, part) = variants[variant].1[index];
        // SAFETY: the caller's, and PLAN-1.
        unsafe { self.read::<T>(from.wrapping_add(offset), part) }
    }

    /// The part of the older type, if the value is to be made from one.
    pub fn older(&self, part: PartId) -> Option<PartId> {
        let PartKind::Older(of, _) = self.plan.part(part).kind else { return None };
        *self.made.borrow_mut().entry(part.number()).or_insert(0) += 1;
        Some(of)
    }

    /// The new offset of the object that `at` pointed to.
    pub(crate) fn block(&self, at: u64) -> u64 {
        self.blocks.borrow()[&at].new
    }

    /// [`Moving::block`] of an array, and how many bytes are there.
    pub(crate) fn array(&self, at: u64) -> (u64, u64) {
        let block = self.blocks.borrow()[&at];
        (block.new, block.room)
    }

    /// Element `index` of an array that lies by value at `from`.
    ///
    /// # Safety
    /// As [`Moving::field`].
    pub(crate) unsafe fn element<T: PSafe<P>>(&self, from: *const u8, part: PartId, index: usize) -> T {
        let PartKind::Array(of) = self.plan.part(part).kind else { unreachable!("PLAN-1: an array") };
        let stride = self.plan.part(of).stored.0;
        // SAFETY: the caller's, and PLAN-1.
        unsafe { self.read::<T>(from.wrapping_add(index * stride), of) }
    }

    /// The value of the `Option` at `from`.
    ///
    /// # Safety
    /// As [`Moving::read`].
    pub(crate) unsafe fn option<T: PSafe<P>>(&self, from: *const u8, part: PartId) -> Option<T> {
        let PartKind::Option(of) = self.plan.part(part).kind else { unreachable!("PLAN-1: an option") };
        // SAFETY: the caller's.
        let value = unsafe { self.inside(from, of) }?;
        // SAFETY: the caller's; a value of that part lies there.
        Some(unsafe { self.read::<T>(value, of) })
    }

    /// The value of the `Option` at `from` whose part is `of`.
    ///
    /// # Safety
    /// It was planned there.
    pub(super) unsafe fn inside(&self, from: *const u8, of: PartId) -> Option<*const u8> {
        let option = self.plan.part(of).option.expect("PLAN-1: planned if it can be looked into");
        // SAFETY: the caller's.
        unsafe { (option.inside)(from) }
    }
}
