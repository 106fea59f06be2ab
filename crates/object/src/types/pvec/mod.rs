//! [`PVec`]: a growing array in a block of the pool.
//!
//! Invariants
//!   VEC-1  Elements that were there before the transaction are logged before they change; the
//!          bytes behind them are unused and are overwritten without a log entry. Their number is
//!          kept by buffer ([`Running::held`]) from the first change of a length on.
//!   VEC-2  `len <= cap`, and the block holds `cap` elements; without a block both are 0.
//!
//! Elsewhere: every `&mut PVec` of the pool comes from a loan that has logged its three words
//! (OBJ-1).

mod whole;

use crate::description::schema::{Schema, Shape, TypeName};
use crate::migrate::{Moving, PartId, PartKind, Planner, Refusal};
use crate::transaction::running::{self, Ring, Running};
use crate::{Journal, MemPool, PSafe, Tracer, transaction::pool};
use everbyte_media::seeded;
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Deref, Index, IndexMut, RangeBounds};
use std::panic::RefUnwindSafe;
use std::ptr;
use std::slice::SliceIndex;

/// As `Vec`: dereferences to a slice; methods that change it take a journal. Change elements with
/// [`PVec::get_mut`], [`PVec::set`] or [`PVec::as_mut_slice`].
#[repr(C)]
pub struct PVec<T: PSafe<P>, P: MemPool> {
    /// From the pool's base; 0: no block.
    offset: u64,
    len: u64,
    cap: u64,
    marker: PhantomData<(T, P)>,
    local: PhantomData<*mut ()>,
}

// SAFETY: as `Vec`: `&PVec` gives `&T`.
unsafe impl<T: PSafe<P> + Sync, P: MemPool> Sync for PVec<T, P> {}
// SAFETY: as `Vec`, for elements in the pool (a static brand).
unsafe impl<T: PSafe<crate::Out<G>> + Send, G: crate::PoolTag> Send for PVec<T, crate::Out<G>> {}
impl<T: PSafe<P>, P: MemPool> RefUnwindSafe for PVec<T, P> {}

impl<T: PSafe<P>, P: MemPool> PVec<T, P> {
    const SIZE: usize = {
        assert!(align_of::<T>() <= 16, "types of a pool are aligned to 16 bytes at most");
        size_of::<T>()
    };

    /// An empty vector; allocates nothing.
    pub const fn new() -> PVec<T, P> {
        PVec { offset: 0, len: 0, cap: 0, marker: PhantomData, local: PhantomData }
    }

    /// An empty vector with space for `count` elements.
    pub fn with_capacity(count: usize, j: &Journal<P>) -> PVec<T, P> {
        let mut all = PVec::new();
        all.reserve(count, j);
        all
    }

    /// A vector of the elements of `items`, as [`PVec::from_iter`].
    pub fn from(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PVec<T, P> {
        PVec::from_iter(items, j)
    }

    /// A vector of the elements of `items`.
    pub fn from_iter(items: impl IntoIterator<Item = T>, j: &Journal<P>) -> PVec<T, P> {
        let mut all = PVec::new();
        all.extend(items, j);
        all
    }

    /// Elements that fit without a larger block.
    pub fn capacity(&self) -> usize {
        if Self::SIZE == 0 { usize::MAX } else { self.cap as usize }
    }

    /// The elements.
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY:
        // - in bounds and valid: the first `len` elements of the block are alive (VEC-2);
        // - alive: the pool is open (POOL-2), and the block is freed with its only owner;
        // - no writer: a change of them borrows `self` mutably.
        unsafe { std::slice::from_raw_parts(self.address(0), self.len as usize) }
    }

    /// The elements, to be changed. All of them are logged.
    pub fn as_mut_slice<'s>(&'s mut self, j: &'s Journal<P>) -> &'s mut [T] {
        self.log_elements(j, 0, self.len);
        // SAFETY: as in `as_slice`; borrowed mutably, and logged (OBJ-1).
        unsafe { std::slice::from_raw_parts_mut(self.address(0), self.len as usize) }
    }

    /// Element `index`, to be changed. It alone is logged.
    #[inline]
    pub fn get_mut<'s>(&'s mut self, index: usize, j: &'s Journal<P>) -> Option<&'s mut T> {
        if index as u64 >= self.len {
            return None;
        }
        self.log_elements(j, index as u64, 1);
        // SAFETY: an element, as in `as_slice`; borrowed mutably, and logged (OBJ-1).
        Some(unsafe { &mut *self.address(index as u64) })
    }

    /// Replaces element `index` and answers the old one.
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn set(&mut self, index: usize, value: T, j: &Journal<P>) -> T {
        let len = self.len;
        let old = self.get_mut(index, j).unwrap_or_else(|| panic!("element {index} of {len}"));
        std::mem::replace(old, value)
    }

    /// The elements one after the other, to be changed; each is logged when it is reached.
    pub fn iter_mut<'s>(
        &'s mut self,
        j: &'s Journal<P>,
    ) -> impl DoubleEndedIterator<Item = &'s mut T> + ExactSizeIterator {
        let this = &*self;
        (0..this.len()).map(move |index| {
            this.log_elements(j, index as u64, 1);
            // SAFETY: each element once, as in `get_mut`; `self` stays borrowed mutably.
            unsafe { &mut *this.address(index as u64) }
        })
    }

    /// Adds an element at the end.
    #[inline]
    pub fn push(&mut self, value: T, j: &Journal<P>) {
        if self.len as usize >= self.capacity() {
            self.grow(1, j);
        }
        self.open(j.running(), self.len);
        // SAFETY: inside the block, behind the last element, and logged or unused (VEC-1).
        unsafe { self.address(self.len).write(value) };
        self.len += 1;
    }

    /// Takes the last element out.
    #[inline]
    pub fn pop(&mut self, j: &Journal<P>) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        self.floor(j.running());
        self.len -= 1;
        // SAFETY: an element, which is not read again.
        Some(unsafe { self.address(self.len).read() })
    }

    /// Puts an element before element `index`.
    ///
    /// # Panics
    /// If `index` lies behind the end.
    #[track_caller]
    pub fn insert(&mut self, index: usize, value: T, j: &Journal<P>) {
        assert!(index as u64 <= self.len, "insertion at {index} of {}", self.len);
        if self.len as usize >= self.capacity() {
            self.grow(1, j);
        }
        let index = index as u64;
        self.open(j.running(), self.len);
        self.log_elements(j, index, self.len - index);
        let at = self.address(index);
        // SAFETY: the elements from `index` on and the place behind them, all logged or unused.
        unsafe { ptr::copy(at, at.wrapping_add(1), (self.len - index) as usize) };
        // SAFETY: its element has moved.
        unsafe { at.write(value) };
        self.len += 1;
    }

    /// Takes element `index` out and moves those behind it.
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn remove(&mut self, index: usize, j: &Journal<P>) -> T {
        assert!((index as u64) < self.len, "removal of element {index} of {}", self.len);
        let index = index as u64;
        self.floor(j.running());
        self.log_elements(j, index, self.len - index);
        let at = self.address(index);
        // SAFETY: an element; it is overwritten or behind the end from here on.
        let value = unsafe { at.read() };
        // SAFETY: the elements behind it, logged.
        unsafe { ptr::copy(at.wrapping_add(1), at, (self.len - index - 1) as usize) };
        self.len -= 1;
        value
    }

    /// Takes element `index` out and puts the last one in its place.
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn swap_remove(&mut self, index: usize, j: &Journal<P>) -> T {
        assert!((index as u64) < self.len, "removal of element {index} of {}", self.len);
        let last = self.pop(j).expect("not empty");
        if index as u64 == self.len { last } else { self.set(index, last, j) }
    }

    /// Drops the elements from `len` on.
    pub fn truncate(&mut self, len: usize, j: &Journal<P>) {
        if (len as u64) < self.len {
            self.floor(j.running());
            let gone = ptr::slice_from_raw_parts_mut(self.address(len as u64), self.len as usize - len);
            self.len = len as u64;
            // SAFETY: elements that are behind the end from here on; destructors log what they
            // change.
            unsafe { gone.drop_in_place() };
        }
    }

    /// Drops all elements; the block stays.
    pub fn clear(&mut self, j: &Journal<P>) {
        self.truncate(0, j);
    }

    /// Makes space for `more` elements.
    pub fn reserve(&mut self, more: usize, j: &Journal<P>) {
        if self.capacity() - (self.len as usize) < more {
            self.grow(more, j);
        }
    }

    /// Adds the elements of `items` at the end.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>, j: &Journal<P>) {
        let items = items.into_iter();
        self.open_room(items.size_hint().0, j);
        items.for_each(|item| self.push(item, j));
    }

    /// Adds copies of `items` at the end: all, or none if the engine stops the body.
    pub(crate) fn add_all(&mut self, items: &[T], j: &Journal<P>)
    where
        T: Copy,
    {
        self.open_room(items.len(), j);
        // SAFETY: into the block behind the last element: logged or unused (VEC-1). `items` is
        // borrowed, and no borrow reaches these places.
        unsafe { ptr::copy_nonoverlapping(items.as_ptr(), self.address(self.len), items.len()) };
        self.len += items.len() as u64;
    }

    /// Makes space for `more` elements, and lets them be stored behind the last one: one fence for
    /// all of them.
    fn open_room(&mut self, more: usize, j: &Journal<P>) {
        self.reserve(more, j);
        self.open_all(j.running(), more as u64);
    }

    /// Takes the elements of a range out.
    ///
    /// # Panics
    /// If the range does not lie inside.
    pub fn drain(&mut self, range: impl RangeBounds<usize>, j: &Journal<P>) -> Vec<T> {
        let std::ops::Range { start, end } = bounds(&range, self.len as usize);
        if start == end {
            return Vec::new();
        }
        self.floor(j.running());
        self.log_elements(j, start as u64, self.len - start as u64);
        // SAFETY: elements, each read once; the remaining ones move to their places.
        let out = (start..end).map(|index| unsafe { self.address(index as u64).read() }).collect();
        let (from, to) = (self.address(end as u64), self.address(start as u64));
        // SAFETY: logged elements; those behind the range, to the place of those before.
        unsafe { ptr::copy(from, to, self.len as usize - end) };
        self.len -= (end - start) as u64;
        out
    }

    #[inline(always)]
    fn address(&self, index: u64) -> *mut T {
        let base = if self.offset == 0 { ptr::dangling_mut::<T>().cast() } else { pool::base::<P>() };
        base.wrapping_add(self.offset as usize + index as usize * Self::SIZE).cast()
    }

    /// Notes elements that are about to change.
    #[inline]
    fn log_elements(&self, j: &Journal<P>, index: u64, count: u64) {
        if Self::SIZE > 0 && count > 0 {
            j.running().log(self.address(index).cast(), count as usize * Self::SIZE);
        }
    }

    /// VEC-1: how many elements there were before the transaction. To be asked before the length
    /// changes.
    #[inline]
    fn floor(&self, running: &Running) -> u64 {
        if Self::SIZE == 0 || running.owns(self.offset, 1) {
            return 0;
        }
        running.held.borrow_mut().entry(self.offset).or_insert(Ring { first: 0, len: self.len }).len
    }

    /// VEC-1 for the place behind the last element.
    #[inline]
    fn open(&self, running: &Running, index: u64) {
        if Self::SIZE == 0 {
            return;
        }
        if index < self.floor(running) && !seeded("object-vector-overwrites") {
            running.log(self.address(index).cast(), Self::SIZE);
        } else {
            running.overwrite(self.offset + index * Self::SIZE as u64, Self::SIZE as u64);
        }
    }

    /// VEC-1 for `count` places behind the last element.
    fn open_all(&self, running: &Running, count: u64) {
        if Self::SIZE == 0 || count == 0 {
            return;
        }
        let floor = if seeded("object-vector-append-overwrites") { 0 } else { self.floor(running) };
        let known = floor.clamp(self.len, self.len + count) - self.len;
        running.log(self.address(self.len).cast(), known as usize * Self::SIZE);
        let unused = (count - known) * Self::SIZE as u64;
        if unused > 0 {
            running.overwrite(self.offset + (self.len + known) * Self::SIZE as u64, unused);
        }
    }

    /// Moves the elements to a larger block.
    #[cold]
    fn grow(&mut self, more: usize, j: &Journal<P>) {
        let wanted = (self.len as usize).checked_add(more).expect("a length beyond usize");
        let least = if Self::SIZE <= 8 { 8 } else { 4 };
        self.with_block(wanted.max(self.cap as usize * 2).max(least), j);
    }

    /// Moves the elements to a block of `wanted` places.
    fn with_block(&mut self, wanted: usize, j: &Journal<P>) {
        let running = j.running();
        let bytes = wanted.checked_mul(Self::SIZE).filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.expect("more bytes than there are addresses");
        let (offset, size) = running.allocate_sized(bytes);
        let to = pool::base::<P>().wrapping_add(offset as usize).cast::<T>();
        // SAFETY: the elements, into a block of this transaction's own that is larger; the old ones
        // are not read again.
        unsafe { ptr::copy_nonoverlapping(self.address(0).cast_const(), to, self.len as usize) };
        if self.offset != 0 {
            running.free(self.offset);
        }
        (self.offset, self.cap) = (offset, size / Self::SIZE as u64);
    }
}

/// The indices of a range of `len` elements.
///
/// # Panics
/// If it does not lie inside.
#[track_caller]
pub(crate) fn bounds(range: &impl RangeBounds<usize>, len: usize) -> std::ops::Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.checked_add(1).expect("the range begins behind every index"),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1).expect("the range ends behind every index"),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "elements {start}..{end} of {len}");
    start..end
}

impl<T: PSafe<P> + Clone, P: MemPool> PVec<T, P> {
    /// A vector with clones of the elements.
    pub fn from_slice(items: &[T], j: &Journal<P>) -> PVec<T, P> {
        PVec::from_iter(items.iter().cloned(), j)
    }

    /// A vector with clones of this one's elements.
    pub fn pclone(&self, j: &Journal<P>) -> PVec<T, P> {
        PVec::from_slice(self, j)
    }

    /// Adds clones of `items` at the end.
    pub fn extend_from_slice(&mut self, items: &[T], j: &Journal<P>) {
        self.extend(items.iter().cloned(), j);
    }
}

impl<T: PSafe<P>, P: MemPool> Deref for PVec<T, P> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: PSafe<P>, P: MemPool> Borrow<[T]> for PVec<T, P> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<T: PSafe<P>, P: MemPool> PVec<T, P> {
    /// Frees the block of a vector whose elements have other owners.
    fn free_block(&self) {
        if self.offset != 0 {
            running::with_current::<P::Tag, _>(|running| running.map(|running| running.free(self.offset)));
        }
    }
}

/// An element, or a range of elements, to be changed: as [`PVec::get_mut`] and
/// [`PVec::slice_mut`], by the transaction that runs.
///
/// # Panics
/// If it does not lie inside.
impl<T: PSafe<P>, P: MemPool, I: SliceIndex<[T]>> IndexMut<I> for PVec<T, P> {
    fn index_mut(&mut self, index: I) -> &mut I::Output {
        // SAFETY: as in `as_slice`, borrowed mutably; what is lent of it is logged below (OBJ-1).
        let all = unsafe { std::slice::from_raw_parts_mut(self.address(0), self.len as usize) };
        let part = &mut all[index];
        running::with_current::<P::Tag, _>(|running| {
            // A `&mut` to a vector with elements is lent by a transaction of its pool, which runs.
            running.expect("a transaction runs").log((&raw const *part).cast(), size_of_val(part));
        });
        part
    }
}

impl<T: PSafe<P>, P: MemPool, I: SliceIndex<[T]>> Index<I> for PVec<T, P> {
    type Output = I::Output;

    #[inline]
    fn index(&self, index: I) -> &I::Output {
        &(**self)[index]
    }
}

impl<T: PSafe<P>, P: MemPool> Drop for PVec<T, P> {
    fn drop(&mut self) {
        if self.offset == 0 && (self.len == 0 || !std::mem::needs_drop::<T>()) {
            return;
        }
        running::with_current::<P::Tag, _>(|running| {
            let Some(running) = running else { return };
            if std::mem::needs_drop::<T>() && self.offset != 0 {
                // SAFETY: the block holds so many elements, whose only owner is going.
                return unsafe { running.drop_block(self.offset, self.len, contents::<T>) };
            }
            if std::mem::needs_drop::<T>() {
                let at = self.address(0).cast();
                // SAFETY: elements without bytes, whose only owner is going.
                unsafe { contents::<T>(at, self.len) };
            }
            if self.offset != 0 {
                running.free(self.offset);
            }
        });
    }
}

/// Drops the elements of a vector: a vector in a vector in a vector does not overflow the stack.
unsafe fn contents<T>(at: *mut u8, len: u64) {
    let all = ptr::slice_from_raw_parts_mut(at.cast::<T>(), len as usize);
    // SAFETY: the caller's: so many elements lie there, aligned, and nothing else owns them.
    unsafe { all.drop_in_place() };
}

impl<T: PSafe<P>, P: MemPool> Default for PVec<T, P> {
    fn default() -> Self {
        PVec::new()
    }
}

impl<'s, T: PSafe<P>, P: MemPool> IntoIterator for &'s PVec<T, P> {
    type Item = &'s T;
    type IntoIter = std::slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

// SAFETY: an offset in the same pool and two numbers; `At` differs in the brand.
unsafe impl<T: PSafe<P>, P: MemPool> PSafe<P> for PVec<T, P> {
    type At<'x> = PVec<T::At<'x>, P::At<'x>>;
    type Outside = PVec<T::Outside, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: crate::Niche = crate::Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        let of = T::describe(schema);
        schema.define::<Self, P>(format!("PVec<{of}>").into(), |_| Shape::opaque::<Self>())
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's: any bits are three numbers.
        let words = unsafe { this.cast::<[u64; 3]>().read() };
        tracer.array::<T, P>(this.cast(), words);
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.elements::<Self, T>(stored, "PVec", PartKind::Elements)
    }

    unsafe fn moved(from: *const u8, _: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's: any bits are three numbers.
        let [offset, len, _] = unsafe { from.cast::<[u64; 3]>().read() };
        let (offset, room) = if offset == 0 { (0, 0) } else { moving.array(offset) };
        let cap = room.checked_div(Self::SIZE as u64).unwrap_or(0);
        PVec { offset, len, cap, marker: PhantomData, local: PhantomData }
    }
}

impl<T: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for PVec<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PSafe<P> + PartialEq, P: MemPool> PartialEq for PVec<T, P> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: PSafe<P> + Eq, P: MemPool> Eq for PVec<T, P> {}

impl<T: PSafe<P> + PartialEq<U>, U, P: MemPool, const N: usize> PartialEq<[U; N]> for PVec<T, P> {
    fn eq(&self, other: &[U; N]) -> bool {
        **self == *other
    }
}

impl<T: PSafe<P> + PartialEq<U>, U, P: MemPool> PartialEq<[U]> for PVec<T, P> {
    fn eq(&self, other: &[U]) -> bool {
        **self == *other
    }
}

impl<T: PSafe<P> + PartialEq<U>, U, P: MemPool> PartialEq<&[U]> for PVec<T, P> {
    fn eq(&self, other: &&[U]) -> bool {
        **self == **other
    }
}

impl<T: PSafe<P> + PartialEq<U>, U, P: MemPool> PartialEq<Vec<U>> for PVec<T, P> {
    fn eq(&self, other: &Vec<U>) -> bool {
        **self == **other
    }
}

impl<T: PSafe<P> + PartialOrd, P: MemPool> PartialOrd for PVec<T, P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: PSafe<P> + Ord, P: MemPool> Ord for PVec<T, P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: PSafe<P> + std::hash::Hash, P: MemPool> std::hash::Hash for PVec<T, P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
