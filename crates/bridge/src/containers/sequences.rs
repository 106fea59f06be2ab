//! Sequences: elements in one block, and elements in a block each.

use crate::passed::RawText;
use crate::{ByteArray, CppClass, Extern, Gen, Lent, export};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, PVec, PVecDeque};
use std::marker::PhantomData;

/// Elements of one size behind each other: `std::vector` of a class that lists its fields, and
/// `std::string`. Places and sizes are in bytes; std.hpp counts elements.
#[derive(PSafe, Extern)]
#[persist(marker = T)]
#[repr(C)]
pub struct Vector<T: CppClass, P: MemPool> {
    bytes: PRefCell<PVec<u8, P>, P>,
    marker: PhantomData<T>,
}

#[export]
impl<T: CppClass, P: MemPool> Vector<T, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Vector { bytes: PRefCell::new(PVec::new()), marker: PhantomData }
    }

    /// All elements, valid until the next change of their number.
    pub fn view(&self) -> Lent<T> {
        Lent::of_bytes(RawText::lent(&self.bytes.borrow()))
    }

    /// Adds an element at a place.
    pub fn put(&self, j: &Journal<P>, at: usize, element: Gen<'_, T>) {
        let mut bytes = self.bytes.borrow_mut(j);
        assert!(at <= bytes.len(), "an element is added behind the end");
        let (is_last, size) = (at == bytes.len(), element.bytes.len());
        bytes.extend_from_slice(element.bytes, j);
        if !is_last {
            bytes.slice_mut(at.., j).rotate_right(size);
        }
    }

    /// Removes the bytes from one place to another.
    pub fn cut(&self, j: &Journal<P>, from: usize, to: usize) {
        let mut bytes = self.bytes.borrow_mut(j);
        match to == bytes.len() {
            true => bytes.truncate(from, j),
            false => drop(bytes.drain(from..to, j)),
        }
    }

    /// Makes space for more bytes.
    pub fn room(&self, j: &Journal<P>, more: usize) {
        self.bytes.borrow_mut(j).reserve(more, j);
    }
}

/// Elements of any size, each at a place of its own: `std::deque`, `std::list`, and `std::vector`
/// of texts.
#[derive(PSafe, Extern)]
#[persist(marker = T)]
#[repr(C)]
pub struct Deque<T: CppClass, P: MemPool> {
    elements: PRefCell<PVecDeque<ByteArray<T, P>, P>, P>,
}

#[export]
impl<T: CppClass, P: MemPool> Deque<T, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Deque { elements: PRefCell::new(PVecDeque::new()) }
    }

    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.elements.borrow().len()
    }

    /// An element, valid until it is removed or replaced; null behind the end.
    pub fn view(&self, index: usize) -> Lent<T> {
        Lent::of(self.elements.borrow().get(index))
    }

    /// Adds an element at a place.
    pub fn put(&self, j: &Journal<P>, at: usize, element: Gen<'_, T>) {
        let (mut elements, element) = (self.elements.borrow_mut(j), ByteArray::from(element, j));
        match at {
            0 => elements.push_front(element, j),
            at if at == elements.len() => elements.push_back(element, j),
            at => elements.insert(at, element, j),
        }
    }

    /// Replaces an element.
    pub fn replace(&self, j: &Journal<P>, at: usize, element: Gen<'_, T>) {
        let mut elements = self.elements.borrow_mut(j);
        elements.get_mut(at, j).expect("an element behind the end is replaced").update(element, j);
    }

    /// Removes the elements from one place to another.
    pub fn cut(&self, j: &Journal<P>, from: usize, to: usize) {
        let mut elements = self.elements.borrow_mut(j);
        match (from, to == elements.len()) {
            (_, true) => elements.truncate(from, j),
            (0, _) if to == 1 => drop(elements.pop_front(j)),
            _ => drop(elements.drain(from..to, j)),
        }
    }
}
