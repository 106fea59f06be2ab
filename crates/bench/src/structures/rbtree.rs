//! A red-black tree over the words of an object, a transaction for each insert. A node has 128
//! bytes: a key, two children, a parent, a colour, and a payload.
//!
//! Invariants
//!   RB-1  Keys below a node's left child are smaller than its own, those below its right child
//!         larger.
//!   RB-2  The root is black, and a red node has no red child.
//!   RB-3  Every way from the root to a leaf passes as many black nodes.

use everbyte_bench_rivals::Payload;
use everbyte_tx::redo::Worker;
use everbyte_tx::{Redo, Result};
use std::cmp::Ordering;

/// Bytes of a node.
pub const NODE: u64 = 128;

const KEY: u64 = 0;
const LEFT: u64 = 8;
const RIGHT: u64 = 16;
/// 0 at the root.
const PARENT: u64 = 24;
/// 1 for red, 0 for black.
const RED: u64 = 32;
const PAYLOAD: u64 = 40;
const _: () = assert!(PAYLOAD as usize + size_of::<Payload>() == NODE as usize);

/// A tree, at the root of an object.
pub struct RbTree {
    worker: Worker,
    /// The word that leads to the top node.
    root: u64,
}

impl RbTree {
    /// The tree of an object; empty in a new one.
    pub fn new(redo: &Redo) -> RbTree {
        RbTree { worker: redo.worker(), root: redo.heap().object().root_at().get() }
    }

    /// Inserts a key with its payload, settled on return; `false`, and nothing happens, if it is
    /// there.
    ///
    /// # Errors
    /// The engine's: no room.
    pub fn insert(&mut self, key: u64, payload: &Payload) -> Result<bool> {
        let tx = &mut self.worker; // the only one: there is no conflict
        tx.begin()?;
        let links = Links { root: self.root };
        match links.insert(tx, key, payload) {
            Ok(is_new) => tx.commit().map(|()| is_new),
            Err(error) => {
                tx.abort();
                Err(error)
            }
        }
    }

    /// Frees all nodes, some at a time; the tree is empty from the first on.
    ///
    /// # Errors
    /// The engine's.
    pub fn clear(&mut self) -> Result<()> {
        let tx = &mut self.worker;
        tx.begin()?;
        let mut below = vec![tx.load(self.root)?];
        tx.store(self.root, 0)?;
        while !below.is_empty() {
            for _ in 0..FREED {
                let Some(at) = below.pop() else { break };
                if at != 0 {
                    below.extend([tx.load(at + LEFT)?, tx.load(at + RIGHT)?]);
                    tx.free(at)?;
                }
            }
            tx.commit()?;
            tx.begin()?;
        }
        tx.commit()
    }
}

/// Nodes that are freed in one transaction.
const FREED: usize = 64;

/// The links from node to node.
struct Links {
    root: u64,
}

impl Links {
    fn insert(&self, tx: &mut Worker, key: u64, payload: &Payload) -> Result<bool> {
        let (mut parent, mut link) = (0, self.root);
        loop {
            let at = tx.load(link)?;
            if at == 0 {
                break;
            }
            link = match key.cmp(&tx.load(at + KEY)?) {
                Ordering::Less => at + LEFT,
                Ordering::Greater => at + RIGHT,
                Ordering::Equal => return Ok(false),
            };
            parent = at;
        }
        let node = tx.allocate(NODE)?.at.get();
        for (at, value) in [(KEY, key), (LEFT, 0), (RIGHT, 0), (PARENT, parent), (RED, 1)] {
            tx.store(node + at, value)?;
        }
        for (at, &value) in (node + PAYLOAD..).step_by(8).zip(payload) {
            tx.store(at, value)?;
        }
        tx.store(link, node)?;
        self.rebalance(tx, node).map(|()| true)
    }

    /// Restores RB-2 where `node`, which is red, may have a red parent.
    fn rebalance(&self, tx: &mut Worker, mut node: u64) -> Result<()> {
        loop {
            let parent = tx.load(node + PARENT)?;
            if parent == 0 {
                return tx.store(node + RED, 0);
            }
            if tx.load(parent + RED)? == 0 {
                return Ok(());
            }
            let above = tx.load(parent + PARENT)?; // there is one: the root is black
            let (outer, inner) = if tx.load(above + LEFT)? == parent { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
            let uncle = tx.load(above + inner)?;
            if uncle != 0 && tx.load(uncle + RED)? == 1 {
                tx.store(parent + RED, 0)?;
                tx.store(uncle + RED, 0)?;
                tx.store(above + RED, 1)?;
                node = above;
                continue;
            }
            let mut top = parent;
            if tx.load(parent + inner)? == node {
                self.rotate(tx, parent, inner)?;
                top = node;
            }
            self.rotate(tx, above, outer)?;
            tx.store(top + RED, 0)?;
            return tx.store(above + RED, 1);
        }
    }

    /// The child of `at` on `side` takes its place, and `at` becomes its child on the other side.
    fn rotate(&self, tx: &mut Worker, at: u64, side: u64) -> Result<()> {
        let other = LEFT + RIGHT - side;
        let (child, parent) = (tx.load(at + side)?, tx.load(at + PARENT)?);
        let middle = tx.load(child + other)?;
        let link = match parent {
            0 => self.root,
            _ if tx.load(parent + LEFT)? == at => parent + LEFT,
            _ => parent + RIGHT,
        };
        tx.store(at + side, middle)?;
        if middle != 0 {
            tx.store(middle + PARENT, at)?;
        }
        tx.store(child + other, at)?;
        tx.store(at + PARENT, child)?;
        tx.store(child + PARENT, parent)?;
        tx.store(link, child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::{Media, Options};
    use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
    use everbyte_workload::mix;
    use std::collections::BTreeMap;

    /// Nodes below a link, in order, and the black nodes of each way down.
    fn walk(redo: &Redo, link: u64, parent: u64, found: &mut Vec<(u64, u64)>) -> u64 {
        let word = |at| redo.media().load(at);
        let at = word(link);
        if at == 0 {
            return 0;
        }
        let red = word(at + RED);
        assert_eq!(word(at + PARENT), parent);
        assert!(red == 0 || (parent != 0 && word(parent + RED) == 0), "RB-2");
        let left = walk(redo, at + LEFT, at, found);
        found.push((word(at + KEY), word(at + PAYLOAD + 80)));
        assert_eq!(left, walk(redo, at + RIGHT, at, found), "RB-3");
        left + 1 - red
    }

    #[test]
    fn the_tree_is_balanced_and_holds_what_a_map_does() {
        let store = Store::format(Media::anonymous(8 << 20, &Options::default()).unwrap(), &FormatOptions::default());
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(4 << 20) };
        let object = store.unwrap().create_object("tree", options, Redo::format).unwrap();
        let redo = Redo::open(object).unwrap();
        let (mut tree, mut model) = (RbTree::new(&redo), BTreeMap::new());
        let ascending = 0..1000;
        let scattered = (0..2000).map(|number| mix(number % 1500)); // some twice
        for key in ascending.chain(scattered) {
            let is_new = !model.contains_key(&key);
            assert_eq!(tree.insert(key, &[key ^ 7; 11]).unwrap(), is_new);
            model.insert(key, key ^ 7);
            if model.len() % 100 == 0 {
                let mut found = Vec::new();
                walk(&redo, tree.root, 0, &mut found);
                assert!(found.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))), "RB-1");
            }
        }
        assert_eq!(model.len(), 2500 - 1, "mix(0) is 0");
        let used = || redo.heap().usage().unwrap().blocks;
        let before = used();
        tree.clear().unwrap();
        assert_eq!((used(), redo.media().load(tree.root)), (before - 2499, 0));
    }
}
