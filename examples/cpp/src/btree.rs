//! A B+tree: values in leaves, nodes that become full are split, leaves may become empty. The types
//! and the order that it is compiled for are named in `library!`.

use everbyte_bridge::{Extern, Passed, Returned, export};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, PVec};

/// A node. Key `i` of an inner node is the least that may lie in child `i + 1`; a leaf has a value
/// for each key, and no children.
#[derive(PSafe)]
#[repr(C)]
pub struct BtreeNode<K: PSafe<P>, V: PSafe<P>, const ORDER: usize, P: MemPool> {
    keys: PVec<K, P>,
    values: PVec<V, P>,
    children: PVec<BtreeNode<K, V, ORDER, P>, P>,
}

/// Values by keys, in order. A node has up to `ORDER` children.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Btree<K: PSafe<P>, V: PSafe<P>, const ORDER: usize, P: MemPool> {
    top: PRefCell<BtreeNode<K, V, ORDER, P>, P>,
}

#[export(instances)]
impl<K, V, const ORDER: usize, P: MemPool> Btree<K, V, ORDER, P>
where
    K: PSafe<P> + Passed + Returned + Copy + Ord,
    V: PSafe<P> + Passed + Returned + Copy,
    Option<V>: Returned,
{
    /// Empty.
    pub fn new(_: &Journal<P>) -> Self {
        Btree { top: PRefCell::new(BtreeNode::empty()) }
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<V> {
        let top = self.top.borrow();
        let mut node = &*top;
        while !node.children.is_empty() {
            node = &node.children[node.place(key)];
        }
        let place = node.place(key).checked_sub(1)?;
        (node.keys[place] == key).then(|| node.values[place])
    }

    /// Sets the value of a key; returns whether the key is new.
    pub fn insert(&self, j: &Journal<P>, key: K, value: V) -> bool {
        let mut top = self.top.borrow_mut(j);
        let (is_new, split) = top.insert(key, value, j);
        if let Some((least, right)) = split {
            let left = std::mem::replace(&mut *top, BtreeNode::empty());
            top.keys.push(least, j);
            top.children.extend([left, right], j);
        }
        is_new
    }

    /// Removes a key; returns its value.
    pub fn remove(&self, j: &Journal<P>, key: K) -> Option<V> {
        let mut top = self.top.borrow_mut(j);
        let mut node = &mut *top;
        while !node.children.is_empty() {
            let place = node.place(key);
            node = node.children.get_mut(place, j).expect("a child more than keys");
        }
        let place = node.place(key).checked_sub(1).filter(|place| node.keys[*place] == key)?;
        node.keys.remove(place, j);
        Some(node.values.remove(place, j))
    }

    /// How many levels of nodes there are.
    pub fn height(&self) -> usize {
        let top = self.top.borrow();
        std::iter::successors(Some(&*top), |node| node.children.first()).count()
    }
}

impl<K: PSafe<P> + Copy + Ord, V: PSafe<P> + Copy, const ORDER: usize, P: MemPool> BtreeNode<K, V, ORDER, P> {
    fn empty() -> Self {
        BtreeNode { keys: PVec::new(), values: PVec::new(), children: PVec::new() }
    }

    /// How many keys are not greater.
    fn place(&self, key: K) -> usize {
        self.keys.partition_point(|here| *here <= key)
    }

    /// Whether the key is new; and, if the node became full, its other half with the least key
    /// there.
    fn insert(&mut self, key: K, value: V, j: &Journal<P>) -> (bool, Option<(K, Self)>) {
        let place = self.place(key);
        if self.children.is_empty() {
            if place > 0 && self.keys[place - 1] == key {
                self.values.set(place - 1, value, j);
                return (false, None);
            }
            self.keys.insert(place, key, j);
            self.values.insert(place, value, j);
            return (true, self.split(j));
        }
        let child = self.children.get_mut(place, j).expect("a child more than keys");
        let (is_new, split) = child.insert(key, value, j);
        let Some((least, right)) = split else { return (is_new, None) };
        self.keys.insert(place, least, j);
        self.children.insert(place + 1, right, j);
        (is_new, self.split(j))
    }

    fn split(&mut self, j: &Journal<P>) -> Option<(K, Self)> {
        if self.keys.len() < ORDER {
            return None;
        }
        let half = ORDER / 2;
        let mut right = BtreeNode::empty();
        right.keys = self.keys.split_off(half, j);
        if self.children.is_empty() {
            right.values = self.values.split_off(half, j);
            return Some((right.keys[0], right));
        }
        right.children = self.children.split_off(half + 1, j);
        Some((right.keys.remove(0, j), right))
    }
}
