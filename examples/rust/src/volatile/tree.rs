//! A search tree: numbers by number, in order.

/// A tree, or a part of one.
pub type Tree = Option<Box<Node>>;

/// An entry, and what is smaller and larger.
pub struct Node {
    key: u64,
    value: u64,
    parts: [Tree; 2],
}

/// Sets the value of `key`; answers the old one.
pub fn insert(mut at: &mut Tree, key: u64, value: u64) -> Option<u64> {
    while let Some(node) = at {
        let node = node.as_mut();
        if node.key == key {
            return Some(std::mem::replace(&mut node.value, value));
        }
        at = &mut node.parts[usize::from(key > node.key)];
    }
    *at = Some(Box::new(Node { key, value, parts: [None, None] }));
    None
}

/// The value of `key`.
pub fn get(mut at: &Tree, key: u64) -> Option<u64> {
    while let Some(node) = at {
        if node.key == key {
            return Some(node.value);
        }
        at = &node.parts[usize::from(key > node.key)];
    }
    None
}

/// Calls `each` with every entry, in order.
pub fn each(at: &Tree, seen: &mut impl FnMut(u64, u64)) {
    if let Some(node) = at {
        each(&node.parts[0], seen);
        seen(node.key, node.value);
        each(&node.parts[1], seen);
    }
}
