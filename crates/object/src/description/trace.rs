//! [`Tracer`]: walks a pool as the program's own types say, each by its [`PSafe::trace`].

use crate::transaction::counts::Counted;
use crate::transaction::inner::Inner;
use crate::types::entry::Entry;
use crate::verify::deep::maps::NodeShape;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::walk::{Held, Owner, Visit, Walk};
use crate::{MemPool, PSafe};

/// Looks at a value.
type See = unsafe fn(*const u8, &mut Tracer<'_>);

/// The contents of a block.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    see: See,
    /// Bytes of one value.
    size: usize,
}

impl Seen {
    fn of<T: PSafe<P>, P: MemPool>() -> Seen {
        Seen { see: see::<T, P>, size: size_of::<T>() }
    }

    fn of_entry<K: PSafe<P>, V: PSafe<P>, P: MemPool>() -> Seen {
        Seen { see: see_entry::<K, V, P>, size: Entry::<K, V>::SIZE }
    }
}

/// A walk in which types say what they hold; see [`PSafe::trace`].
pub struct Tracer<'t> {
    base: usize,
    prime: u64,
    walk: Walk<'t, Seen>,
}

impl<'t> Tracer<'t> {
    pub(crate) fn new(inner: &Inner, walk: Walk<'t, Seen>) -> Tracer<'t> {
        Tracer { base: inner.base as usize, prime: inner.object.prime(), walk }
    }

    /// Follows everything that the root leads to, an `R` at `offset` of the pool.
    pub(crate) fn run<R: PSafe<P>, P: MemPool>(mut self, from: u64, offset: u64) -> Walk<'t, Seen> {
        self.walk.pointer(from, offset, size_of::<R>() as u64, Owner::Alone, Held::One, Seen::of::<R, P>());
        while let Some(Visit { at, elements, what }) = self.walk.next() {
            let at = (self.base + (at - self.prime) as usize) as *const u8;
            let Some(elements) = elements else {
                // SAFETY: the heap has a block there, large enough for the value.
                unsafe { (what.see)(at, &mut self) };
                continue;
            };
            for index in elements {
                self.walk.trail.enter_index(index);
                // SAFETY: as above, for each of its elements.
                unsafe { (what.see)(at.wrapping_add(index as usize * what.size), &mut self) };
                self.walk.trail.leave();
            }
        }
        self.walk
    }

    /// The store offset of `this`.
    fn place(&self, this: *const u8) -> u64 {
        self.prime + (this as usize).wrapping_sub(self.base) as u64
    }

    /// Everything visited before [`Tracer::leave`] lies in this field.
    #[doc(hidden)]
    pub fn enter(&mut self, field: &'static str) {
        self.walk.trail.enter(field);
    }

    pub(crate) fn enter_index(&mut self, index: usize) {
        self.walk.trail.enter_index(index as u64);
    }

    /// The end of a field.
    #[doc(hidden)]
    pub fn leave(&mut self) {
        self.walk.trail.leave();
    }

    /// The bytes at `this` are no value of their type.
    #[doc(hidden)]
    pub fn invalid(&mut self, this: *const u8, what: &str) {
        let at = self.place(this);
        self.walk.fault(FaultKind::Value, at, what.into());
    }

    /// The owning pointer at `this`, to a `T`.
    ///
    /// # Safety
    /// A word lies at `this`.
    pub(crate) unsafe fn owned<T: PSafe<P>, P: MemPool>(&mut self, this: *const u8) {
        // SAFETY: the caller's.
        unsafe { self.word(this, "Pbox", size_of::<T>(), Owner::Alone, Seen::of::<T, P>()) };
    }

    /// The counting pointer at `this`, to a `T`.
    ///
    /// # Safety
    /// A word lies at `this`.
    pub(crate) unsafe fn counted<T: PSafe<P>, P: MemPool>(&mut self, this: *const u8, kind: &str, owner: Owner) {
        let what = Seen { see: see_counted::<T, P>, size: 0 };
        // SAFETY: the caller's.
        unsafe { self.word(this, kind, size_of::<Counted<T>>(), owner, what) };
    }

    unsafe fn word(&mut self, this: *const u8, kind: &str, size: usize, owner: Owner, what: Seen) {
        // SAFETY: the caller's.
        let word = unsafe { this.cast::<u64>().read() };
        if word == 0 {
            return self.invalid(this, &format!("not a `{kind}`"));
        }
        self.walk.pointer(self.place(this), word, size as u64, owner, Held::One, what);
    }

    /// The words of a vector of `T`s at `this`.
    pub(crate) fn array<T: PSafe<P>, P: MemPool>(&mut self, this: *const u8, words: [u64; 3]) {
        let (size, held) = (size_of::<T>() as u64, Held::Elements(words[1]));
        self.walk.vector(self.place(this), words, size, held, Seen::of::<T, P>());
    }

    /// The hash map of `K`s and `V`s at `this`.
    pub(crate) fn table<K: PSafe<P>, V: PSafe<P>, P: MemPool>(&mut self, this: *const u8) {
        self.walk.table(self.place(this), Entry::<K, V>::SIZE as u64, Seen::of_entry::<K, V, P>());
    }

    /// The ordered map of `K`s and `V`s at `this`, whose nodes are of that shape.
    pub(crate) fn tree<K: PSafe<P>, V: PSafe<P>, P: MemPool>(&mut self, this: *const u8, shape: NodeShape) {
        self.walk.tree(self.place(this), shape, Seen::of_entry::<K, V, P>());
    }

    /// The words of a text at `this`.
    pub(crate) fn text<P: MemPool>(&mut self, this: *const u8, words: [u64; 3]) {
        self.walk.vector(self.place(this), words, 1, Held::Text(words[1]), Seen::of::<u8, P>());
    }
}

/// [`PSafe::trace`] without its type.
unsafe fn see<T: PSafe<P>, P: MemPool>(at: *const u8, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's.
    unsafe { T::trace(at.cast::<T>(), tracer) }
}

/// An entry of a map.
unsafe fn see_entry<K: PSafe<P>, V: PSafe<P>, P: MemPool>(at: *const u8, tracer: &mut Tracer<'_>) {
    let entry = at.cast_mut().cast::<Entry<K, V>>();
    tracer.enter("key");
    // SAFETY: the caller's; an entry begins with its key.
    unsafe { K::trace(entry.cast(), tracer) };
    tracer.leave();
    tracer.enter("value");
    // SAFETY: the caller's.
    unsafe { V::trace(Entry::value(entry), tracer) };
    tracer.leave();
}

/// A counted object: its counts are remembered, and its value is looked at if it has strong
/// pointers.
unsafe fn see_counted<T: PSafe<P>, P: MemPool>(at: *const u8, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's: a block that is large enough; two words come first, and any bits are a
    // count.
    let [strong, weak] = unsafe { at.cast::<[u64; 2]>().read() };
    if tracer.walk.stored(tracer.place(at), (strong, weak)) {
        let value = at.wrapping_add(std::mem::offset_of!(Counted<T>, value)).cast();
        // SAFETY: inside that block.
        unsafe { T::trace(value, tracer) }
    }
}
