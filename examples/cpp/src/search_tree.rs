//! A binary search tree: numbers by number.

use everbyte_bridge::{Extern, export};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox};

type Branch<P> = Option<Pbox<TreeNode<P>, P>>;

/// An entry, and what is smaller and larger.
#[derive(PSafe)]
#[repr(C)]
pub struct TreeNode<P: MemPool> {
    key: u64,
    value: u64,
    parts: [Branch<P>; 2],
}

/// Numbers by number, in order; not balanced.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct SearchTree<P: MemPool> {
    top: PRefCell<Branch<P>, P>,
}

#[export]
impl<P: MemPool> SearchTree<P> {
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        SearchTree { top: PRefCell::new(None) }
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<u64> {
        let top = self.top.borrow();
        let mut at = &*top;
        while let Some(node) = at {
            if node.key == key {
                return Some(node.value);
            }
            at = &node.parts[usize::from(key > node.key)];
        }
        None
    }

    /// The least key.
    pub fn least(&self) -> Option<u64> {
        let top = self.top.borrow();
        let mut at = top.as_ref()?;
        while let Some(smaller) = &at.parts[0] {
            at = smaller;
        }
        Some(at.key)
    }

    /// Sets the value of a key; returns the old one.
    pub fn insert(&self, j: &Journal<P>, key: u64, value: u64) -> Option<u64> {
        let mut top = self.top.borrow_mut(j);
        let at = find(&mut top, key, j);
        match at {
            Some(node) => Some(std::mem::replace(&mut node.as_mut(j).value, value)),
            None => {
                *at = Some(Pbox::new(TreeNode { key, value, parts: [None, None] }, j));
                None
            }
        }
    }

    /// Removes a key; returns its value.
    pub fn remove(&self, j: &Journal<P>, key: u64) -> Option<u64> {
        let mut top = self.top.borrow_mut(j);
        let at = find(&mut top, key, j);
        let TreeNode { value, parts: [smaller, larger], .. } = at.take()?.into_inner(j);
        *at = match (smaller, larger) {
            (Some(smaller), Some(mut larger)) => {
                // Smaller keys go below the least of the larger ones.
                let mut least = &mut larger;
                while least.parts[0].is_some() {
                    least = least.as_mut(j).parts[0].as_mut().expect("looked at");
                }
                least.as_mut(j).parts[0] = Some(smaller);
                Some(larger)
            }
            (one, other) => one.or(other),
        };
        Some(value)
    }
}

/// The place of a key: its node, or where that would be.
fn find<'t, P: MemPool>(mut at: &'t mut Branch<P>, key: u64, j: &Journal<P>) -> &'t mut Branch<P> {
    while at.as_ref().is_some_and(|node| node.key != key) {
        let node = at.as_mut().expect("looked at").as_mut(j);
        at = &mut node.parts[usize::from(key > node.key)];
    }
    at
}
