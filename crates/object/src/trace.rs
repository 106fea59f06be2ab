//! [`Tracer`]: walks what a root can reach, and believes no pointer that the heap does not know.
//!
//! Pointers are followed from a list, not by recursion, so a long list does not overflow the stack.

use crate::counts::Counted;
use crate::inner::Inner;
use crate::{MemPool, PSafe};
use std::collections::HashMap;
use std::marker::PhantomData;

/// Looks at one object.
type Visit = unsafe fn(*const u8, u64, &mut Tracer<'_>);

/// What a walk has found; see [`PSafe::trace`].
pub struct Tracer<'t> {
    base: usize,
    prime: u64,
    /// Usable bytes of the block at a store offset, if there is one.
    size_of: Box<dyn Fn(u64) -> Option<u64> + 't>,
    /// Blocks by store offset: how many owners were met.
    pub(crate) met: HashMap<u64, Met>,
    pub(crate) faults: Vec<(u64, String)>,
    /// Counted objects: strong and weak counts as they stand on media.
    pub(crate) counts: HashMap<u64, (u64, u64)>,
    waiting: Vec<(u64, u64, Visit)>,
    marker: PhantomData<&'t Inner>,
}

/// How a block was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Owners that must be alone.
    pub owned: u64,
    /// Counting owners.
    pub strong: u64,
    /// Weak pointers.
    pub weak: u64,
}

impl<'t> Tracer<'t> {
    pub(crate) fn new(inner: &'t Inner) -> Tracer<'t> {
        let heap = inner.undo.heap();
        Tracer {
            base: inner.base as usize,
            prime: inner.object.prime(),
            size_of: Box::new(|at| heap.size_of(at).ok()),
            met: HashMap::new(),
            faults: Vec::new(),
            counts: HashMap::new(),
            waiting: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Where `this` lies, as a store offset.
    fn place(&self, this: *const u8) -> u64 {
        self.prime + (this as usize).wrapping_sub(self.base) as u64
    }

    /// The bytes at `this` are no value of their type.
    #[doc(hidden)]
    pub fn invalid(&mut self, this: *const u8, what: &str) {
        let at = self.place(this);
        self.faults.push((at, what.into()));
    }

    /// An owning pointer to a `T`; 0 is none.
    pub(crate) fn owned<T: PSafe<P>, P: MemPool>(&mut self, word: u64) {
        self.block(word, size_of::<T>() as u64, 1, |met| met.owned += 1, visit::<T, P>);
    }

    /// An owning pointer to a block of `cap` elements, the first `len` of which are alive.
    pub(crate) fn array<T: PSafe<P>, P: MemPool>(&mut self, word: u64, len: u64, cap: u64) {
        let size = (size_of::<T>() as u64).saturating_mul(cap);
        self.block(word, size, len, |met| met.owned += 1, visit::<T, P>);
    }

    /// An owning pointer to a block of `cap` bytes, the first `len` of which are text.
    pub(crate) fn text(&mut self, word: u64, len: u64, cap: u64) {
        self.block(word, cap, len, |met| met.owned += 1, visit_text);
    }

    /// A pointer to a counted object: strong, or weak.
    pub(crate) fn counted<T: PSafe<P>, P: MemPool>(&mut self, word: u64, strong: bool) {
        let size = size_of::<Counted<T>>() as u64;
        let count = |met: &mut Met| if strong { met.strong += 1 } else { met.weak += 1 };
        self.block(word, size, 1, count, visit_counted::<T, P>);
    }

    /// A pointer to a block of `size` bytes: the first time it is met, `visit` looks at it later.
    pub(crate) fn block(&mut self, word: u64, size: u64, len: u64, count: impl FnOnce(&mut Met), visit: Visit) {
        if self.meets(word, size, count) {
            self.waiting.push((word, len, visit));
        }
    }

    /// An owning pointer to a block of `size` bytes, which the caller looks at itself if this answers `true`.
    pub(crate) fn part(&mut self, word: u64, size: u64) -> bool {
        self.meets(word, size, |met| met.owned += 1)
    }

    /// Whether `word` points to a block of `size` bytes that was not met before.
    fn meets(&mut self, word: u64, size: u64, count: impl FnOnce(&mut Met)) -> bool {
        if word == 0 {
            return false;
        }
        let Some(at) = self.prime.checked_add(word) else {
            self.faults.push((word, "a pointer that leads nowhere".into()));
            return false;
        };
        match (self.size_of)(at) {
            Some(found) if found >= size => {
                let first = !self.met.contains_key(&at);
                count(self.met.entry(at).or_default());
                return first;
            }
            Some(found) => self.faults.push((at, format!("a block of {found} bytes is to hold {size}"))),
            None => self.faults.push((at, "a pointer to what is no allocated block".into())),
        }
        false
    }

    /// The address of what lies at `word` from the base.
    pub(crate) fn address(&self, word: u64) -> *mut u8 {
        (self.base + word as usize) as *mut u8
    }

    /// Walks everything that is waiting.
    pub(crate) fn run(&mut self) {
        while let Some((word, len, visit)) = self.waiting.pop() {
            // SAFETY: the heap has a block there, large enough for what `visit` reads.
            unsafe { visit(self.address(word), len, self) }
        }
    }
}

/// [`PSafe::trace`] without its type.
unsafe fn visit<T: PSafe<P>, P: MemPool>(at: *const u8, len: u64, tracer: &mut Tracer<'_>) {
    for index in 0..len as usize {
        // SAFETY: the caller's, for each of `len` elements.
        unsafe { T::trace(at.cast::<T>().wrapping_add(index), tracer) }
    }
}

/// Text must be text.
unsafe fn visit_text(at: *const u8, len: u64, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's: a block of at least `len` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(at, len as usize) };
    if std::str::from_utf8(bytes).is_err() {
        tracer.invalid(at, "text that is not UTF-8");
    }
}

/// A counted object: its value is looked at if it has strong pointers, and its counts are remembered.
unsafe fn visit_counted<T: PSafe<P>, P: MemPool>(at: *const u8, _: u64, tracer: &mut Tracer<'_>) {
    let counted = at.cast::<Counted<T>>();
    // SAFETY: the caller's: a block that is large enough; two words come first, and any bits are a count.
    let [strong, weak] = unsafe { at.cast::<[u64; 2]>().read() };
    let place = tracer.place(at);
    tracer.counts.insert(place, (strong, weak));
    if strong > 0 {
        let value = counted.wrapping_byte_add(std::mem::offset_of!(Counted<T>, value)).cast();
        // SAFETY: inside that block.
        unsafe { T::trace(value, tracer) }
    }
}
