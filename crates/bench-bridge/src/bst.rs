//! A binary tree that is not balanced.

use everbyte_object::{Journal, MemPool, PCell, PRefCell, PSafe, Pbox};
use std::cmp::Ordering;

/// A node, or none.
pub type Link<P> = PRefCell<Option<Pbox<Node<P>, P>>, P>;

/// A key, its value, smaller keys and larger ones.
#[derive(PSafe)]
#[repr(C)]
pub struct Node<P: MemPool> {
    item: PCell<Item, P>,
    left: Link<P>,
    right: Link<P>,
}

#[derive(PSafe, Clone, Copy)]
#[repr(C)]
struct Item {
    key: u64,
    value: u64,
}

/// The value of `key`, or 0.
pub fn get<P: MemPool>(link: &Link<P>, key: u64) -> u64 {
    let here = link.borrow();
    let Some(node) = &*here else { return 0 };
    let item = node.item.get();
    match key.cmp(&item.key) {
        Ordering::Less => get(&node.left, key),
        Ordering::Greater => get(&node.right, key),
        Ordering::Equal => item.value,
    }
}

/// Puts a value; 1 if the key is new.
pub fn put<P: MemPool>(link: &Link<P>, key: u64, value: u64, j: &Journal<P>) -> u64 {
    if let Some(node) = &*link.borrow() {
        return match key.cmp(&node.item.get().key) {
            Ordering::Less => put(&node.left, key, value, j),
            Ordering::Greater => put(&node.right, key, value, j),
            Ordering::Equal => {
                node.item.set(Item { key, value }, j);
                0
            }
        };
    }
    let item = PCell::new(Item { key, value });
    *link.borrow_mut(j) = Some(Pbox::new(Node { item, left: PRefCell::new(None), right: PRefCell::new(None) }, j));
    1
}

/// Removes a key; its value, or 0.
pub fn remove<P: MemPool>(link: &Link<P>, key: u64, j: &Journal<P>) -> u64 {
    if let Some(node) = &*link.borrow() {
        match key.cmp(&node.item.get().key) {
            Ordering::Less => return remove(&node.left, key, j),
            Ordering::Greater => return remove(&node.right, key, j),
            Ordering::Equal => {}
        }
    }
    let mut here = link.borrow_mut(j);
    let Some(node) = &*here else { return 0 };
    let item = node.item.get();
    if node.left.borrow().is_some() && node.right.borrow().is_some() {
        node.item.set(take_least(&node.right, j), j);
    } else {
        let gone = here.take().expect("found").into_inner(j);
        *here = gone.left.into_inner().or(gone.right.into_inner());
    }
    item.value
}

/// Takes the node with the least key of a tree that has one out.
fn take_least<P: MemPool>(link: &Link<P>, j: &Journal<P>) -> Item {
    if let Some(node) = &*link.borrow()
        && node.left.borrow().is_some()
    {
        return take_least(&node.left, j);
    }
    let mut here = link.borrow_mut(j);
    let gone = here.take().expect("a tree with nodes").into_inner(j);
    *here = gone.right.into_inner();
    gone.item.get()
}
