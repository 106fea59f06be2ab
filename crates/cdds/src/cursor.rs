//! Walking a version in key order, both ways.
//!
//! The cursor keeps, for each level, the visible entries of one node; what it hands out is copied into its own buffers,
//! so a concurrent writer cannot disturb it.

use crate::error::{Result, damaged};
use crate::node::Node;
use crate::tree::{Snapshot, below};
use crate::version::View;
use everbyte_media::Media;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// A place in a version. [`Cursor::next`] and [`Cursor::prev`] move and return what lies there.
pub struct Cursor<'t> {
    media: Media,
    view: View,
    root: u64,
    /// What keeps the version: a pin of its own, or the batch it was borrowed from.
    keeper: Option<Snapshot>,
    batch: PhantomData<&'t ()>,
    stack: Vec<Level>,
    /// Spare levels, so that moving to the next leaf allocates nothing.
    spare: Vec<Vec<usize>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

struct Level {
    node: Node,
    entries: Vec<usize>,
    /// The cursor stands before this entry.
    next: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(media: Media, view: View, root: u64, keeper: Option<Snapshot>) -> Cursor<'t> {
        let (stack, spare, key, value) = Default::default();
        Cursor { media, view, root, keeper, batch: PhantomData, stack, spare, key, value }
    }

    /// Another cursor over the same version, standing nowhere yet.
    pub fn again(&self) -> Cursor<'t> {
        Cursor::new(self.media.clone(), self.view.clone(), self.root, self.keeper.clone())
    }

    /// Stands before the first key that is not less than `key`.
    ///
    /// # Errors
    /// Damage.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.reset();
        let mut node = Node::open(&self.media, self.root)?;
        loop {
            let entries = self.entries(&node)?;
            let head = node.query_head(&self.media, key);
            // The first entry above the key, among entries in key order; in leaves, the first not below it.
            let leaf = node.is_leaf();
            let (mut low, mut high) = (0, entries.len());
            while low < high {
                let middle = (low + high) / 2;
                let before = match node.order_against(&self.media, entries[middle], key, head)? {
                    Ordering::Less => true,
                    Ordering::Equal => !leaf,
                    Ordering::Greater => false,
                };
                if before { low = middle + 1 } else { high = middle }
            }
            if leaf {
                self.stack.push(Level { node, entries, next: low });
                return Ok(());
            }
            // The entry before it covers the key; the first entry covers everything below it too.
            let chosen = low.saturating_sub(1);
            let child = self.child(&node, &entries, chosen)?;
            self.stack.push(Level { node, entries, next: chosen + 1 });
            node = child;
        }
    }

    /// Stands behind the last key.
    ///
    /// # Errors
    /// Damage.
    pub fn seek_end(&mut self) -> Result<()> {
        self.reset();
        let root = Node::open(&self.media, self.root)?;
        self.descend(root, false)
    }

    fn reset(&mut self) {
        while let Some(level) = self.stack.pop() {
            self.spare.push(level.entries);
        }
    }

    fn entries(&mut self, node: &Node) -> Result<Vec<usize>> {
        let mut entries = self.spare.pop().unwrap_or_default();
        node.visible(&self.media, &self.view, &mut entries)?;
        Ok(entries)
    }

    fn child(&self, node: &Node, entries: &[usize], which: usize) -> Result<Node> {
        let Some(&index) = entries.get(which) else { return damaged(node.at, "an inner node without entries") };
        below(&self.media, node, self.media.load(node.slot_at(index) + 24))
    }

    /// Pushes `node` and its first (or last) descendants.
    fn descend(&mut self, mut node: Node, forward: bool) -> Result<()> {
        loop {
            let entries = self.entries(&node)?;
            if node.is_leaf() {
                let next = if forward { 0 } else { entries.len() };
                self.stack.push(Level { node, entries, next });
                return Ok(());
            }
            let chosen = if forward { 0 } else { entries.len().saturating_sub(1) };
            let child = self.child(&node, &entries, chosen)?;
            self.stack.push(Level { node, entries, next: chosen + 1 });
            node = child;
        }
    }

    /// The entry behind the cursor; the cursor moves past it. `None` at the end.
    ///
    /// # Errors
    /// Damage.
    #[allow(clippy::should_implement_trait)] // lends its buffers, which an Iterator cannot
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let Some(leaf) = self.stack.last_mut() else { return Ok(None) };
            if let Some(&index) = leaf.entries.get(leaf.next) {
                leaf.next += 1;
                if let Some(&ahead) = leaf.entries.get(leaf.next) {
                    self.media.prefetch(leaf.node.slot_at(ahead));
                }
                let node = leaf.node;
                return self.fetch(node, index).map(Some);
            }
            // Up to the first level with a next child, and down its left edge.
            let Some(depth) = self.stack.iter().rposition(|level| !level.node.is_leaf() && level.next < level.entries.len())
            else {
                return Ok(None);
            };
            self.cut(depth + 1);
            let level = &self.stack[depth];
            let child = self.child(&level.node, &level.entries, level.next)?;
            self.stack[depth].next += 1;
            self.descend(child, true)?;
        }
    }

    /// The entry before the cursor; the cursor moves before it. `None` at the beginning.
    ///
    /// # Errors
    /// Damage.
    pub fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let Some(leaf) = self.stack.last_mut() else { return Ok(None) };
            if leaf.next > 0 {
                leaf.next -= 1;
                let (node, index) = (leaf.node, leaf.entries[leaf.next]);
                return self.fetch(node, index).map(Some);
            }
            // `next` of an inner level is one past the child the cursor is in.
            let Some(depth) = self.stack.iter().rposition(|level| !level.node.is_leaf() && level.next > 1) else {
                return Ok(None);
            };
            self.cut(depth + 1);
            let level = &self.stack[depth];
            let child = self.child(&level.node, &level.entries, level.next - 2)?;
            self.stack[depth].next -= 1;
            self.descend(child, false)?;
        }
    }

    fn cut(&mut self, depth: usize) {
        while self.stack.len() > depth {
            let level = self.stack.pop().expect("longer than depth");
            self.spare.push(level.entries);
        }
    }

    fn fetch(&mut self, node: Node, index: usize) -> Result<(&[u8], &[u8])> {
        let slot = node.slot(&self.media, index);
        self.key.clear();
        self.value.clear();
        node.key_into(&self.media, &slot, &mut self.key)?;
        node.value_into(&self.media, &slot, &mut self.value)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&self.key), &self.value);
        if sum != node.record_sum(&self.media, &slot)? {
            return damaged(node.at, "a record fails its checksum");
        }
        Ok((&self.key, &self.value))
    }
}
