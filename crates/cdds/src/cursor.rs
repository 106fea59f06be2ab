//! Walking a version in key order, both ways.
//!
//! The cursor keeps, for each level, the visible entries of one node; what it hands out is copied into its own buffers,
//! so a concurrent writer cannot disturb it.

use crate::error::{Result, damaged};
use crate::layout::{KEY_OUT, SLOT, Slot, VALUE_OUT};
use crate::node::{Node, Shape};
use crate::sum::sum;
use crate::tree::Snapshot;
use crate::version::View;
use everbyte_media::Media;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Lines of the next leaf that are asked for while this one is read: header, heads and slots.
const NEXT_LINES: u64 = 28;

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
    spare: Vec<Vec<u16>>,
    /// The leaf the cursor is in, as it was when the cursor came.
    leaf: Leaf,
    /// Key and value of an entry with blocks of its own.
    long: Vec<u8>,
}

struct Level {
    node: Shape,
    entries: Vec<u16>,
    /// The cursor stands before this entry.
    next: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(media: Media, view: View, root: u64, keeper: Option<Snapshot>) -> Cursor<'t> {
        let (stack, spare, leaf, long) = Default::default();
        Cursor { media, view, root, keeper, batch: PhantomData, stack, spare, leaf, long }
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
        let mut at = self.root;
        loop {
            let mut entries = self.spare.pop().unwrap_or_default();
            let node = self.open(at)?;
            node.visible(&self.view, &mut entries)?;
            let head = node.query_head(key);
            // In leaves the first entry not below the key; in inner nodes the first above it.
            let leaf = node.is_leaf();
            let (mut low, mut high) = (0, entries.len());
            while low < high {
                let middle = (low + high) / 2;
                let before = match node.order_against(entries[middle].into(), key, head)? {
                    Ordering::Less => true,
                    Ordering::Equal => !leaf,
                    Ordering::Greater => false,
                };
                if before { low = middle + 1 } else { high = middle }
            }
            let shape = node.shape;
            if leaf {
                self.stack.push(Level { node: shape, entries, next: low });
                return Ok(());
            }
            // The entry before it covers the key; the first entry covers everything below it too.
            let chosen = low.saturating_sub(1);
            at = child(&node, &entries, chosen)?;
            self.stack.push(Level { node: shape, entries, next: chosen + 1 });
        }
    }

    /// Stands behind the last key.
    ///
    /// # Errors
    /// Damage.
    pub fn seek_end(&mut self) -> Result<()> {
        self.reset();
        self.descend(self.root, false)
    }

    fn reset(&mut self) {
        self.cut(0);
    }

    fn cut(&mut self, depth: usize) {
        self.spare.extend(self.stack.drain(depth..).map(|level| level.entries));
    }

    /// The node at `at`, one level below the last on the stack.
    fn open(&self, at: u64) -> Result<Node<'_>> {
        let node = Node::open(&self.media, at)?;
        match self.stack.last() {
            Some(above) if node.level + 1 != above.node.level => damaged(at, "a child has the wrong level"),
            _ => Ok(node),
        }
    }

    /// Pushes the node at `at` and its first (or last) descendants.
    fn descend(&mut self, mut at: u64, forward: bool) -> Result<()> {
        loop {
            let mut entries = self.spare.pop().unwrap_or_default();
            let node = self.open(at)?;
            node.visible(&self.view, &mut entries)?;
            let shape = node.shape;
            if node.is_leaf() {
                let next = if forward { 0 } else { entries.len() };
                self.stack.push(Level { node: shape, entries, next });
                return Ok(());
            }
            let chosen = if forward { 0 } else { entries.len().saturating_sub(1) };
            at = child(&node, &entries, chosen)?;
            self.stack.push(Level { node: shape, entries, next: chosen + 1 });
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
                let shape = leaf.node;
                return self.fetch(shape, index.into()).map(Some);
            }
            // Up to the first level with a next child, and down its left edge.
            let more = |level: &Level| level.node.level > 0 && level.next < level.entries.len();
            let Some(depth) = self.stack.iter().rposition(more) else { return Ok(None) };
            self.cut(depth + 1);
            let level = &self.stack[depth];
            let node = level.node.on(&self.media)?;
            let at = child(&node, &level.entries, level.next)?;
            if let Some(&after) = level.entries.get(level.next + 1) {
                let next = node.child(after.into());
                (0..NEXT_LINES).for_each(|line| self.media.prefetch(next + line * 64));
            }
            self.stack[depth].next += 1;
            self.descend(at, true)?;
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
                let (shape, index) = (leaf.node, leaf.entries[leaf.next]);
                return self.fetch(shape, index.into()).map(Some);
            }
            // `next` of an inner level is one past the child the cursor is in.
            let more = |level: &Level| level.node.level > 0 && level.next > 1;
            let Some(depth) = self.stack.iter().rposition(more) else { return Ok(None) };
            self.cut(depth + 1);
            let level = &self.stack[depth];
            let at = child(&level.node.on(&self.media)?, &level.entries, level.next - 2)?;
            self.stack[depth].next -= 1;
            self.descend(at, false)?;
        }
    }

    #[inline]
    fn fetch(&mut self, shape: Shape, index: usize) -> Result<(&[u8], &[u8])> {
        if self.leaf.at != shape.at {
            self.leaf.copy(&shape.on(&self.media)?)?;
        }
        let slot = self.leaf.slot(index);
        if !slot.has(KEY_OUT | VALUE_OUT) {
            return self.leaf.entry(&slot);
        }
        let node = shape.on(&self.media)?;
        self.long.clear();
        node.key_into(&slot, &mut self.long)?;
        node.value_into(&slot, &mut self.long)?;
        let (key, value) = self.long.split_at(slot.key_len());
        if sum(sum(0, key), value) as u32 != node.record_sum(&slot)? {
            return damaged(shape.at, "a record fails its checksum");
        }
        Ok((key, value))
    }
}

/// A leaf's slots and records, copied in one go: walking them then costs a few instructions an entry.
///
/// What the version sees in them cannot change, and only that is looked at.
#[derive(Default)]
struct Leaf {
    at: u64,
    slots: usize,
    bytes: Vec<u8>,
}

impl Leaf {
    fn copy(&mut self, node: &Node<'_>) -> Result<()> {
        (self.at, self.slots) = (0, (node.slots - node.at) as usize);
        self.bytes.clear();
        node.copy_into(&mut self.bytes)?;
        self.at = node.at;
        Ok(())
    }

    #[inline]
    fn slot(&self, index: usize) -> Slot {
        let at = self.slots + index * SLOT as usize;
        let word = |field: usize| {
            let bytes = self.bytes.get(at + field * 8..).and_then(|rest| rest.first_chunk::<8>());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Slot { start: word(0), end: word(1), place: word(2), value: word(3) }
    }

    #[inline]
    fn entry(&self, slot: &Slot) -> Result<(&[u8], &[u8])> {
        let record = slot.record() as usize;
        let key = self.bytes.get(record + 8..record + 8 + slot.key_len());
        let value_at = record + 8 + slot.key_bytes() as usize;
        let value = self.bytes.get(value_at..value_at.saturating_add(slot.value as usize));
        match (key, value) {
            (Some(key), Some(value)) => Ok((key, value)),
            _ => damaged(self.at, "a record leads outside its node"),
        }
    }
}

/// Where the chosen entry of an inner node leads.
fn child(node: &Node<'_>, entries: &[u16], which: usize) -> Result<u64> {
    match entries.get(which) {
        Some(&index) => Ok(node.child(index.into())),
        None => damaged(node.at, "an inner node without entries"),
    }
}
