//! A plain B+-tree in memory: no versions, no checksums, nothing durable. The measure of what those
//! cost.
//!
//! Leaves and inner nodes have as many entries as those of the versioned tree. Keys and values of a
//! leaf stay where they were put; an array of places is sorted. Keys that are put again are
//! overwritten in place. One thread; keys are never removed.

use crate::pairs::{KEY, VALUE};

/// Entries of a leaf.
const LEAF: usize = 48;
/// Children of an inner node.
const INNER: usize = 128;

type Key = [u8; KEY];
type Value = [u8; VALUE];

struct LeafNode {
    /// Eight bytes of each key, in the order of keys ([`head`]).
    heads: [u64; LEAF],
    order: [u8; LEAF],
    keys: [Key; LEAF],
    values: [Value; LEAF],
    count: usize,
    next: Option<usize>,
}

struct InnerNode {
    /// The smallest key of each child but the first.
    keys: Vec<Key>,
    children: Vec<usize>,
}

/// The tree.
pub struct PlainTree {
    leaves: Vec<Box<LeafNode>>,
    inner: Vec<InnerNode>,
    root: usize,
    /// Levels above the leaves.
    height: usize,
    len: u64,
}

/// The bytes of a key behind the prefix that all keys of the benches share.
fn head(key: &Key) -> u64 {
    u64::from_be_bytes(*key[4..].first_chunk().expect("longer keys"))
}

impl LeafNode {
    fn empty() -> Box<LeafNode> {
        Box::new(LeafNode {
            heads: [0; LEAF],
            order: [0; LEAF],
            keys: [[0; KEY]; LEAF],
            values: [[0; VALUE]; LEAF],
            count: 0,
            next: None,
        })
    }

    fn key(&self, rank: usize) -> &Key {
        &self.keys[usize::from(self.order[rank])]
    }

    fn value(&self, rank: usize) -> &Value {
        &self.values[usize::from(self.order[rank])]
    }

    fn rank(&self, key: &Key) -> Result<usize, usize> {
        let head = head(key);
        let mut rank = self.heads[..self.count].partition_point(|its| *its < head);
        while rank < self.count && self.heads[rank] == head {
            match self.key(rank).cmp(key) {
                std::cmp::Ordering::Less => rank += 1,
                std::cmp::Ordering::Equal => return Ok(rank),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(rank)
    }

    fn insert(&mut self, rank: usize, key: &Key, value: &Value) {
        let (place, count) = (self.count, self.count);
        self.heads.copy_within(rank..count, rank + 1);
        self.order.copy_within(rank..count, rank + 1);
        (self.heads[rank], self.order[rank]) = (head(key), place as u8);
        (self.keys[place], self.values[place]) = (*key, *value);
        self.count += 1;
    }

    /// The entries from `rank` on, as a new leaf; the others stay.
    fn split(&mut self, rank: usize) -> Box<LeafNode> {
        let (mut left, mut right) = (LeafNode::empty(), LeafNode::empty());
        for index in 0..self.count {
            let half = if index < rank { &mut left } else { &mut right };
            half.insert(half.count, self.key(index), self.value(index));
        }
        right.next = self.next;
        *self = *left;
        right
    }
}

impl Default for PlainTree {
    fn default() -> PlainTree {
        PlainTree { leaves: vec![LeafNode::empty()], inner: Vec::new(), root: 0, height: 0, len: 0 }
    }
}

impl PlainTree {
    /// Keys.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The leaf of `key`; `path` receives the inner nodes on the way, and the child taken in each.
    fn descend(&self, key: &Key, mut path: Option<&mut Vec<(usize, usize)>>) -> usize {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inner[node];
            let child = inner.keys.partition_point(|its| its <= key);
            if let Some(path) = &mut path {
                path.push((node, child));
            }
            node = inner.children[child];
        }
        node
    }

    /// Binds a value to a key.
    pub fn put(&mut self, key: &Key, value: &Value) {
        let mut path = Vec::new();
        let at = self.descend(key, Some(&mut path));
        let leaf = &mut self.leaves[at];
        let rank = match leaf.rank(key) {
            Ok(rank) => {
                let place = usize::from(leaf.order[rank]);
                leaf.values[place] = *value;
                return;
            }
            Err(rank) => rank,
        };
        self.len += 1;
        if leaf.count < LEAF {
            return leaf.insert(rank, key, value);
        }
        let mut right = leaf.split(LEAF / 2);
        let separator = *right.key(0);
        let half = if *key < separator { &mut *leaf } else { &mut right };
        let rank = half.rank(key).expect_err("a new key");
        half.insert(rank, key, value);
        let new = self.leaves.len();
        self.leaves[at].next = Some(new);
        self.leaves.push(right);
        self.add_child(path, separator, new);
    }

    fn add_child(&mut self, mut path: Vec<(usize, usize)>, mut separator: Key, mut new: usize) {
        while let Some((at, child)) = path.pop() {
            let inner = &mut self.inner[at];
            inner.keys.insert(child, separator);
            inner.children.insert(child + 1, new);
            if inner.children.len() <= INNER {
                return;
            }
            let keys = inner.keys.split_off(INNER / 2);
            let children = inner.children.split_off(INNER / 2);
            separator = inner.keys.pop().expect("one between the halves");
            new = self.inner.len();
            self.inner.push(InnerNode { keys, children });
        }
        self.inner.push(InnerNode { keys: vec![separator], children: vec![self.root, new] });
        self.root = self.inner.len() - 1;
        self.height += 1;
    }

    /// The value of a key.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        let leaf = &self.leaves[self.descend(key, None)];
        Some(leaf.value(leaf.rank(key).ok()?))
    }

    /// Up to `count` pairs from `key` on.
    pub fn scan(&self, key: &Key, count: usize, mut each: impl FnMut(&Key, &Value)) {
        let mut leaf = &self.leaves[self.descend(key, None)];
        let mut rank = leaf.rank(key).unwrap_or_else(|rank| rank);
        for _ in 0..count {
            while rank == leaf.count {
                let Some(next) = leaf.next else { return };
                (leaf, rank) = (&self.leaves[next], 0);
            }
            each(leaf.key(rank), leaf.value(rank));
            rank += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::{key, value};
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_sorted_map() {
        let (mut tree, mut model) = (PlainTree::default(), BTreeMap::new());
        for number in 0..30_000 {
            let number = number % 20_000;
            tree.put(&key(number), &value(number, model.len() as u64));
            model.insert(key(number), value(number, model.len() as u64));
        }
        assert_eq!(tree.len(), model.len() as u64);
        assert!(model.iter().all(|(key, value)| tree.get(key) == Some(value)));
        assert_eq!(tree.get(&key(20_001)), None);
        let mut all = Vec::new();
        tree.scan(&[0; KEY], usize::MAX, |key, value| all.push((*key, *value)));
        assert!(all.into_iter().eq(model.clone()));
        let mut some = Vec::new();
        tree.scan(&key(7), 100, |key, _| some.push(*key));
        assert!(some.iter().eq(model.range(key(7)..).take(100).map(|(key, _)| key)));
    }
}
