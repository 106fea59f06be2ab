//! A list over a class that only C++ knows, whose links are Rust's; and a counter that threads
//! share.

use everbyte_bridge::{ByteArray, Copied, CppClass, Equal, Extern, Gen, export};
use everbyte_object::{Journal, MemPool, PCell, PMutex, PRefCell, PSafe, Pbox};

type Next<K, P> = Option<Pbox<Link<K, P>, P>>;

/// A value, and the link behind it.
#[derive(PSafe)]
#[persist(marker = K)]
#[repr(C)]
pub struct Link<K: CppClass, P: MemPool> {
    value: ByteArray<K, P>,
    next: Next<K, P>,
}

/// Values of any class, the last one first.
#[derive(PSafe, Extern)]
#[persist(marker = K)]
#[repr(C)]
pub struct List<K: CppClass, P: MemPool> {
    size: PCell<u64, P>,
    first: PRefCell<Next<K, P>, P>,
}

#[export]
impl<K: CppClass, P: MemPool> List<K, P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        List { size: PCell::new(0), first: PRefCell::new(None) }
    }

    /// How many values there are.
    pub fn size(&self) -> u64 {
        self.size.get()
    }

    /// The first value.
    pub fn front(&self) -> Option<Copied<K>> {
        self.first.borrow().as_ref().map(|link| link.value.copied())
    }

    /// Whether there is such a value.
    pub fn contains(&self, value: Gen<'_, K>, equal: Equal<'_, K>) -> bool {
        let first = self.first.borrow();
        let mut rest = first.as_ref();
        while let Some(link) = rest {
            if equal.of(&link.value, &value) {
                return true;
            }
            rest = link.next.as_ref();
        }
        false
    }

    /// Puts a value before all others.
    pub fn push_front(&self, value: Gen<'_, K>, j: &Journal<P>) {
        let rest = self.first.take(j);
        let link = Link { value: ByteArray::from(value, j), next: rest };
        self.first.replace(Some(Pbox::new(link, j)), j);
        self.size.update(|size| size + 1, j);
    }

    /// Takes the first value out.
    pub fn pop_front(&self, j: &Journal<P>) -> Option<Copied<K>> {
        let link = self.first.take(j)?.into_inner(j);
        self.first.replace(link.next, j);
        self.size.update(|size| size - 1, j);
        Some(link.value.copied())
    }
}

/// A number that threads share: each method locks it, to the end of its transaction, and a
/// transaction may lock again what it holds.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Tally<P: MemPool> {
    number: PMutex<i64, P>,
}

#[export]
impl<P: MemPool> Tally<P> {
    /// Begins at 0.
    pub fn new(_: &Journal<P>) -> Self {
        Tally { number: PMutex::new(0) }
    }

    /// The number.
    pub fn value(&self, j: &Journal<P>) -> i64 {
        *self.number.lock(j)
    }

    /// Sets the number.
    pub fn set(&self, to: i64, j: &Journal<P>) {
        *self.number.lock(j) = to;
    }

    /// One more, or one less; returns the number.
    pub fn step(&self, up: bool, j: &Journal<P>) -> i64 {
        let mut number = self.number.lock(j);
        *number += if up { 1 } else { -1 };
        *number
    }
}
