//! A list of numbers.

use everbyte::{Journal, MemPool, PSafe, Pbox};

/// The rest of a list.
pub type Link<P> = Option<Pbox<Node<P>, P>>;

/// A number and what follows it.
#[derive(PSafe)]
#[repr(C)]
pub struct Node<P: MemPool> {
    value: i64,
    next: Link<P>,
}

/// The list.
#[derive(PSafe)]
#[repr(C)]
pub struct List<P: MemPool>(Link<P>);

impl<P: MemPool> List<P> {
    /// A list without numbers.
    pub const fn empty() -> Self {
        Self(None)
    }

    /// Puts a number in front.
    pub fn push(&mut self, value: i64, j: &Journal<P>) {
        let next = self.0.take();
        self.0 = Some(Pbox::new(Node { value, next }, j));
    }

    /// Takes the first number away.
    pub fn pop(&mut self, j: &Journal<P>) -> Option<i64> {
        let mut node = self.0.take()?;
        self.0 = node.as_mut(j).next.take();
        Some(node.value)
    }

    /// Puts a number at the end.
    pub fn append(&mut self, value: i64, j: &Journal<P>) {
        let mut link = &mut self.0;
        while let Some(node) = link {
            link = &mut node.as_mut(j).next;
        }
        *link = Some(Pbox::new(Node { value, next: None }, j));
    }

    /// Turns the list around.
    pub fn reverse(&mut self, j: &Journal<P>) {
        let mut rest = self.0.take();
        while let Some(mut node) = rest {
            rest = std::mem::replace(&mut node.as_mut(j).next, self.0.take());
            self.0 = Some(node);
        }
    }

    /// Calls `each` with every number.
    pub fn each(&self, mut each: impl FnMut(i64)) {
        let mut link = &self.0;
        while let Some(node) = link {
            each(node.value);
            link = &node.next;
        }
    }
}
