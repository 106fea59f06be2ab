//! Visits of a [`Tracer`] to values, pointers and containers of types of the program.

use crate::description::node_shape::NodeShape;
use crate::description::trace::{Seen, Tracer};
use crate::transaction::counts::Counted;
use crate::types::entry::MapEntry;
use crate::verify::deep::walk::{BlockForm, HeapWalk, Owner, Visit};
use crate::{MemPool, PSafe};

impl Seen {
    fn of<T: PSafe<P>, P: MemPool>() -> Seen {
        Seen { see: see::<T, P>, size: size_of::<T>() }
    }

    fn of_entry<K: PSafe<P>, V: PSafe<P>, P: MemPool>() -> Seen {
        Seen { see: see_entry::<K, V, P>, size: MapEntry::<K, V>::SIZE }
    }
}

impl<'t> Tracer<'t> {
    /// The root, an `R` at `offset` of the pool.
    pub(crate) fn root<R: PSafe<P>, P: MemPool>(&mut self, from: u64, offset: u64) {
        self.walk.pointer(from, offset, size_of::<R>() as u64, Owner::Alone, BlockForm::One, Seen::of::<R, P>());
    }

    /// Follows everything that the blocks met so far lead to.
    pub(crate) fn run(mut self) -> HeapWalk<'t, Seen> {
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
        self.walk.pointer(self.place(this), word, size as u64, owner, BlockForm::One, what);
    }

    /// The words of a vector of `T`s at `this`.
    pub(crate) fn array<T: PSafe<P>, P: MemPool>(&mut self, this: *const u8, words: [u64; 3]) {
        let size = size_of::<T>() as u64;
        // elements without bytes may be any number
        let held = BlockForm::Elements(if size > 0 { words[1] } else { 0 });
        self.walk.vector(self.place(this), words, size, held, Seen::of::<T, P>());
    }

    /// The words of a queue of `T`s at `this`.
    pub(crate) fn ring<T: PSafe<P>, P: MemPool>(&mut self, this: *const u8, words: [u64; 4]) {
        self.walk.ring(self.place(this), words, size_of::<T>() as u64, true, Seen::of::<T, P>());
    }

    /// The hash map of `K`s and `V`s at `this`.
    pub(crate) fn table<K: PSafe<P>, V: PSafe<P>, P: MemPool>(&mut self, this: *const u8) {
        self.walk.table(self.place(this), MapEntry::<K, V>::SIZE as u64, Seen::of_entry::<K, V, P>());
    }

    /// The ordered map of `K`s and `V`s at `this`, whose nodes are of that shape.
    pub(crate) fn tree<K: PSafe<P>, V: PSafe<P>, P: MemPool>(&mut self, this: *const u8, shape: NodeShape) {
        self.walk.tree(self.place(this), shape, Seen::of_entry::<K, V, P>());
    }

    /// The words of a text at `this`.
    pub(crate) fn text<P: MemPool>(&mut self, this: *const u8, words: [u64; 3]) {
        self.walk.vector(self.place(this), words, 1, BlockForm::Text(words[1]), Seen::of::<u8, P>());
    }
}

/// [`PSafe::trace`] without its type.
unsafe fn see<T: PSafe<P>, P: MemPool>(at: *const u8, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's.
    unsafe { T::trace(at.cast::<T>(), tracer) }
}

/// An entry of a map.
unsafe fn see_entry<K: PSafe<P>, V: PSafe<P>, P: MemPool>(at: *const u8, tracer: &mut Tracer<'_>) {
    let entry = at.cast_mut().cast::<MapEntry<K, V>>();
    tracer.enter("key");
    // SAFETY: the caller's; an entry begins with its key.
    unsafe { K::trace(entry.cast(), tracer) };
    tracer.leave();
    tracer.enter("value");
    // SAFETY: the caller's.
    unsafe { V::trace(MapEntry::value(entry), tracer) };
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
