//! Walking a version in key order, both ways.
//!
//! The cursor keeps, for each level, the visible entries of one node; what it hands out is copied into its own buffers,
//! so a concurrent writer cannot disturb it.

use crate::error::{Result, damaged};
use crate::layout::{APPENDS, KEY_OUT, ORDER_AT, SLOT, Slot, VALUE_OUT};
use crate::node::{Node, Shape, order_indexes};
use crate::sum::sum;
use crate::tree::Snapshot;
use crate::version::View;
use everbyte_media::Media;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Lines of the next leaf that are asked for with each entry of this one: about as many as an entry fills, so that the
/// next leaf has come by the time it is needed.
const AHEAD_LINES: u64 = 4;

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
    /// The slot of the entry last handed out.
    last: Slot,
    /// What of the next leaf is to be prefetched next; 0: nothing.
    ahead: u64,
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
        let (stack, spare, leaf, ahead, long) = Default::default();
        let last = Slot { start: 0, end: 0, place: 0, value: 0 };
        Cursor { media, view, root, keeper, batch: PhantomData, stack, spare, leaf, last, ahead, long }
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
            let node = Self::open(&self.media, &self.stack, at)?;
            self.leaf.visible(&node, &self.view, &mut entries)?;
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
    fn open<'m>(media: &'m Media, stack: &[Level], at: u64) -> Result<Node<'m>> {
        let node = Node::open(media, at)?;
        match stack.last() {
            Some(above) if node.level + 1 != above.node.level => damaged(at, "a child has the wrong level"),
            _ => Ok(node),
        }
    }

    /// Pushes the node at `at` and its first (or last) descendants.
    fn descend(&mut self, mut at: u64, forward: bool) -> Result<()> {
        loop {
            let mut entries = self.spare.pop().unwrap_or_default();
            let node = Self::open(&self.media, &self.stack, at)?;
            self.leaf.visible(&node, &self.view, &mut entries)?;
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
                if self.ahead != 0 {
                    (0..AHEAD_LINES).for_each(|line| self.media.prefetch(self.ahead + line * 64));
                    self.ahead += AHEAD_LINES * 64;
                }
                return self.fetch(shape, index.into()).map(Some);
            }
            // Up to the first level with a next child, and down its left edge.
            let more = |level: &Level| level.node.level > 0 && level.next < level.entries.len();
            let Some(depth) = self.stack.iter().rposition(more) else { return Ok(None) };
            self.cut(depth + 1);
            self.ahead = 0;
            let level = &self.stack[depth];
            let node = level.node.on(&self.media)?;
            let at = child(&node, &level.entries, level.next)?;
            if let Some(&after) = level.entries.get(level.next + 1) {
                self.ahead = node.child(after.into());
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

    /// The key of the entry last handed out; only after `next` or `prev` handed one out.
    pub fn last_key(&self) -> &[u8] {
        match self.last.has(KEY_OUT | VALUE_OUT) {
            true => self.long.get(..self.last.key_len()).unwrap_or_default(),
            false => self.leaf.entry(&self.last).map_or(&[], |(key, _)| key),
        }
    }

    #[inline]
    fn fetch(&mut self, shape: Shape, index: usize) -> Result<(&[u8], &[u8])> {
        if self.leaf.at != shape.at {
            self.leaf.copy(&shape.on(&self.media)?)?;
        }
        let slot = self.leaf.slot(index);
        self.last = slot;
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
    heads: usize,
    slots: usize,
    bytes: Vec<u8>,
}

impl Leaf {
    fn copy(&mut self, node: &Node<'_>) -> Result<()> {
        (self.at, self.heads, self.slots) = (0, (node.heads - node.at) as usize, (node.slots - node.at) as usize);
        self.bytes.clear();
        node.copy_into(&mut self.bytes)?;
        self.at = node.at;
        Ok(())
    }

    /// The entries of a node that `view` sees, in key order; a leaf is copied for it.
    fn visible(&mut self, node: &Node<'_>, view: &View, into: &mut Vec<u16>) -> Result<()> {
        if !node.is_leaf() {
            return node.visible(view, into);
        }
        self.copy(node)?;
        into.clear();
        let mut appended = [(0, 0); APPENDS];
        let mut count = 0;
        let mut named = 0_u16;
        for append in order_indexes(self.word(ORDER_AT as usize)) {
            let index = node.base + append;
            let slot = self.slot(index);
            // The second look: the writer may have been reusing the slot while it was copied. Each is taken once.
            if append < APPENDS
                && named & (1 << append) == 0
                && view.sees(slot.start, slot.end)
                && node.start(index) == slot.start
            {
                named |= 1 << append;
                appended[count] = (index, self.word(self.heads + index * 8));
                count += 1;
            }
        }
        let mut appended = &appended[..count];
        for index in 0..node.base {
            let at = self.slots + index * SLOT as usize;
            if !view.sees(self.word(at), self.word(at + 8)) {
                continue;
            }
            if let Some(mut first) = appended.first() {
                let head = self.word(self.heads + index * 8);
                while first.1 < head || (first.1 == head && node.compare_slots(first.0, index)? == Ordering::Less) {
                    into.push(first.0 as u16);
                    appended = &appended[1..];
                    match appended.first() {
                        Some(next) => first = next,
                        None => break,
                    }
                }
            }
            into.push(index as u16);
        }
        into.extend(appended.iter().map(|&(append, _)| append as u16));
        Ok(())
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    #[inline]
    fn slot(&self, index: usize) -> Slot {
        let at = self.slots + index * SLOT as usize;
        let Some(bytes) = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<{ SLOT as usize }>()) else {
            return Slot { start: 0, end: 0, place: 0, value: 0 };
        };
        zerocopy::transmute!(*bytes)
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
