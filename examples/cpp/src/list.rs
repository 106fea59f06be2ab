//! A list of numbers.

use everbyte_bridge::{Extern, export};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox};

type Link<P> = Option<Pbox<Node<P>, P>>;

/// A number and what follows it.
#[derive(PSafe)]
#[repr(C)]
pub struct Node<P: MemPool> {
    value: i64,
    next: Link<P>,
}

/// Numbers, the newest in front.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct List<P: MemPool> {
    head: PRefCell<Link<P>, P>,
}

#[export]
impl<P: MemPool> List<P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        List { head: PRefCell::new(None) }
    }

    /// How many numbers there are.
    pub fn size(&self) -> usize {
        self.fold(0, |size, _| size + 1)
    }

    /// The sum of the numbers.
    pub fn sum(&self) -> i64 {
        self.fold(0, |sum, value| sum + value)
    }

    /// Puts a number in front.
    pub fn push(&self, value: i64, j: &Journal<P>) {
        let mut head = self.head.borrow_mut(j);
        let next = head.take();
        *head = Some(Pbox::new(Node { value, next }, j));
    }

    /// Takes the first number away.
    pub fn pop(&self, j: &Journal<P>) -> Option<i64> {
        let mut head = self.head.borrow_mut(j);
        let Node { value, next } = head.take()?.into_inner(j);
        *head = next;
        Some(value)
    }
}

impl<P: MemPool> List<P> {
    fn fold<T>(&self, mut so_far: T, with: impl Fn(T, i64) -> T) -> T {
        let head = self.head.borrow();
        let mut link = &*head;
        while let Some(node) = link {
            so_far = with(so_far, node.value);
            link = &node.next;
        }
        so_far
    }
}
