//! A search tree: numbers by number, in order.

use everbyte::{Journal, MemPool, PSafe, Pbox};

/// A tree, or a part of one.
pub type Tree<P> = Option<Pbox<Node<P>, P>>;

/// An entry, and what is smaller and larger.
#[derive(PSafe)]
#[repr(C)]
pub struct Node<P: MemPool> {
    key: u64,
    value: u64,
    parts: [Tree<P>; 2],
}

/// Sets the value of `key`; answers the old one.
pub fn insert<P: MemPool>(mut at: &mut Tree<P>, key: u64, value: u64, j: &Journal<P>) -> Option<u64> {
    while let Some(node) = at {
        let node = node.as_mut(j);
        if node.key == key {
            return Some(std::mem::replace(&mut node.value, value));
        }
        at = &mut node.parts[usize::from(key > node.key)];
    }
    *at = Some(Pbox::new(Node { key, value, parts: [None, None] }, j));
    None
}

/// The value of `key`.
pub fn get<P: MemPool>(mut at: &Tree<P>, key: u64) -> Option<u64> {
    while let Some(node) = at {
        if node.key == key {
            return Some(node.value);
        }
        at = &node.parts[usize::from(key > node.key)];
    }
    None
}

/// Calls `each` with every entry, in order.
pub fn each<P: MemPool>(at: &Tree<P>, seen: &mut impl FnMut(u64, u64)) {
    if let Some(node) = at {
        each(&node.parts[0], seen);
        seen(node.key, node.value);
        each(&node.parts[1], seen);
    }
}
