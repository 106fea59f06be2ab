//! Walking a version in key order, both ways.
//!
//! The cursor keeps a place in one node of each level ([`Walk`], [`Entries`]). It returns an
//! [`Entry`], whose bytes are fetched only when they are asked for: copied into the cursor's own
//! buffer and verified.

use crate::error::{Result, damaged};
use crate::tree::handle::TreeSnapshot;
use crate::tree::key::TableNumber;
use crate::tree::layout::Slot;
use crate::tree::node::{Node, Shape};
use crate::tree::number::Version;
use crate::tree::sum::Sum;
use crate::tree::version::View;
use crate::tree::walk::{Entries, Walk};
use everbyte_media::{LINE, Media};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Lines of the next leaf's slots that are asked for with each entry of this one, so that they have
/// come by the time they are needed.
const AHEAD_LINES: u64 = 3;
/// Entries whose records are asked for before their turn.
const AHEAD_RECORDS: u8 = 4;

/// A place in a version. [`Cursor::next`] and [`Cursor::prev`] move and return what lies there.
pub(crate) struct Cursor<'t> {
    media: Media,
    view: View,
    root: u64,
    batch: PhantomData<&'t ()>,
    /// The inner nodes from the root down, each with the place behind the child the cursor is in.
    stack: Vec<Level>,
    /// The leaf the cursor is in, and the place there.
    leaf: Option<Shape>,
    entries: Entries,
    /// The part of the next leaf to be prefetched next, and its end.
    ahead: (u64, u64),
    last: Last,
}

/// The entry last handed out.
struct Last {
    media: Media,
    leaf: Option<Shape>,
    slot: Slot,
    /// The slot of an entry that comes soon: where this one is read, that one will be.
    soon: Option<u8>,
    /// For the bytes of key and value.
    bytes: Vec<u8>,
    /// Keeps the version: a pin, or the batch that the cursor was borrowed from.
    keeper: Option<TreeSnapshot>,
}

impl Last {
    /// See [`Pinned::require_kept`](crate::tree::handle::Pinned::require_kept).
    #[inline(always)]
    fn require_kept(&self) -> Result<()> {
        match &self.keeper {
            Some(keeper) => keeper.0.require_kept(),
            None => Ok(()),
        }
    }

    #[inline]
    fn node(&self) -> Result<Node<'_>> {
        match &self.leaf {
            Some(leaf) => leaf.on(&self.media),
            None => damaged(0, "no entry was handed out"),
        }
    }
}

/// An entry that lies in the tree. Nothing of it has been fetched but its lengths.
pub(crate) struct Entry<'c>(&'c mut Last);

impl<'c> Entry<'c> {
    /// Bytes of the key.
    #[inline]
    pub(crate) fn key_len(&self) -> usize {
        self.0.slot.key_len()
    }

    /// Bytes of the value.
    #[inline]
    pub(crate) fn value_len(&self) -> u64 {
        self.0.slot.value
    }

    /// The version that made the entry.
    pub(crate) fn start(&self) -> Version {
        self.0.slot.start
    }

    /// The table of the entry.
    pub(crate) fn table(&self) -> TableNumber {
        self.0.slot.table()
    }

    /// How the full key compares with another; fetches no more of it than that needs.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub(crate) fn compare(&self, key: &[u8]) -> Result<Ordering> {
        let order = self.0.node()?.compare(&self.0.slot, key);
        self.0.require_kept()?;
        order
    }

    /// The key alone, verified by its own sum. Nothing of the value is fetched.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn key(self) -> Result<&'c [u8]> {
        let mut bytes = std::mem::take(&mut self.0.bytes);
        bytes.clear();
        let node = self.0.node()?;
        let copied = node
            .key_into(&self.0.slot, &mut bytes)
            .and_then(|()| node.verify_head(&self.0.slot, Sum::of_table(self.0.slot.table()).and(&bytes)));
        self.0.require_kept()?;
        copied?;
        self.0.bytes = bytes;
        Ok(&self.0.bytes)
    }

    /// Key and value, verified against their checksum; lent until the cursor moves.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub(crate) fn read(self) -> Result<(&'c [u8], &'c [u8])> {
        let Last { media, leaf, slot, soon, bytes, .. } = &mut *self.0;
        let Some(leaf) = leaf else { return damaged(0, "no entry was handed out") };
        let node = leaf.on(media)?;
        if let Some(soon) = *soon {
            node.prefetch_record_of(soon.into());
        }
        let copied = node.entry_into(slot, bytes);
        self.0.require_kept()?;
        let ((key_len, value_len), bytes) = (copied?, &self.0.bytes);
        let (key, value) = bytes.split_at(key_len.next_multiple_of(8));
        Ok((&key[..key_len], &value[..value_len]))
    }
}

#[derive(Clone, Copy)]
struct Level {
    node: Shape,
    walk: Walk,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(media: Media, view: View, root: u64, keeper: Option<TreeSnapshot>) -> Cursor<'t> {
        let slot = Slot { start: Version::NONE, end: Version::NONE, place: 0, value: 0 };
        let last = Last { media: media.clone(), leaf: None, slot, soon: None, bytes: Vec::new(), keeper };
        let (stack, leaf, entries, ahead) = (Vec::with_capacity(6), None, Entries::NONE, (0, 0));
        Cursor { media, view, root, batch: PhantomData, stack, leaf, entries, ahead, last }
    }

    /// Another cursor over the same version, standing nowhere yet.
    pub(crate) fn again(&self) -> Cursor<'t> {
        Cursor::new(self.media.clone(), self.view.clone(), self.root, self.last.keeper.clone())
    }

    /// Stands before the first key that is not less than `key`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        let found = self.find(key);
        self.last.require_kept()?;
        found
    }

    fn find(&mut self, key: &[u8]) -> Result<()> {
        self.reset();
        let mut at = self.root;
        loop {
            let node = open(&self.media, &self.stack, at)?;
            if node.is_leaf() {
                self.entries.list(&node, &self.view)?;
                self.entries.seek(&node, key)?;
                self.entries.prefetch(&node, AHEAD_RECORDS);
                self.leaf = Some(node.shape);
                return self.look_ahead();
            }
            let mut walk = Walk::behind(&node, &self.view, key)?;
            // The entry before the place covers the key; the first one covers everything below it
            // too.
            let mut back = walk;
            let chosen = match back.prev(&node, &self.view)? {
                None => walk.next(&node, &self.view)?,
                found => found,
            };
            self.stack.push(Level { node: node.shape, walk });
            at = child(&node, chosen)?;
        }
    }

    fn reset(&mut self) {
        self.stack.clear();
        (self.leaf, self.ahead) = (None, (0, 0));
    }

    /// Goes down the left (or right) edge from the node at `at`.
    fn descend(&mut self, mut at: u64, forward: bool) -> Result<()> {
        loop {
            let node = open(&self.media, &self.stack, at)?;
            if node.is_leaf() {
                self.entries.list(&node, &self.view)?;
                if forward {
                    self.entries.prefetch(&node, AHEAD_RECORDS);
                } else {
                    self.entries.seek_end();
                }
                self.leaf = Some(node.shape);
                return Ok(());
            }
            let mut walk = if forward { Walk::at_start(&node) } else { Walk::at_end(&node) };
            let mut back = walk;
            let chosen = if forward { walk.next(&node, &self.view)? } else { back.prev(&node, &self.view)? };
            self.stack.push(Level { node: node.shape, walk });
            at = child(&node, chosen)?;
        }
    }

    /// Finds out which leaf comes next, if it has the same parent, so that it can be fetched in
    /// time.
    fn look_ahead(&mut self) -> Result<()> {
        self.ahead = (0, 0);
        if let (Some(parent), Some(leaf)) = (self.stack.last(), &self.leaf) {
            let (node, mut walk) = (parent.node.on(&self.media)?, parent.walk);
            if let Some(next) = walk.next(&node, &self.view)? {
                let at = node.child(next);
                // As many slots as here: a good guess.
                self.ahead = (at, at + leaf.records());
            }
        }
        Ok(())
    }

    /// The entry behind the cursor; the cursor moves past it. `None` at the end.
    ///
    /// # Errors
    /// Damage.
    #[allow(clippy::should_implement_trait)] // lends its buffer, which an Iterator cannot
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>> {
        let moved = self.forward();
        self.last.require_kept()?;
        Ok(moved?.then_some(Entry(&mut self.last)))
    }

    /// Hands the next entry to `last`. `false`: there is none.
    #[inline]
    fn forward(&mut self) -> Result<bool> {
        loop {
            let Some(leaf) = &self.leaf else { return Ok(false) };
            if let Some(index) = self.entries.next() {
                if self.ahead.0 < self.ahead.1 {
                    (0..AHEAD_LINES).for_each(|line| self.media.prefetch(self.ahead.0 + line * LINE));
                    self.ahead.0 += AHEAD_LINES * LINE;
                }
                self.last.slot = leaf.on(&self.media)?.slot(index);
                self.last.soon = self.entries.peek(AHEAD_RECORDS - 1);
                if self.last.leaf.is_none_or(|last| last.at != leaf.at) {
                    self.last.leaf = Some(*leaf);
                }
                return Ok(true);
            }
            if !self.next_leaf()? {
                return Ok(false);
            }
        }
    }

    /// Moves past the entries before `key`; how many there were. Of a leaf that lies before it
    /// whole one entry is looked at.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn pass(&mut self, key: &[u8]) -> Result<u64> {
        let passed = self.pass_leaves(key);
        self.last.require_kept()?;
        passed
    }

    fn pass_leaves(&mut self, key: &[u8]) -> Result<u64> {
        let mut count = 0;
        loop {
            let (passed, more) = self.pass_one(key)?;
            count += passed;
            if !more {
                return Ok(count);
            }
        }
    }

    /// As [`Cursor::pass`], within one leaf, and whether the next one may hold more of them.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn pass_part(&mut self, key: &[u8]) -> Result<(u64, bool)> {
        let passed = self.pass_one(key);
        self.last.require_kept()?;
        passed
    }

    fn pass_one(&mut self, key: &[u8]) -> Result<(u64, bool)> {
        let Some(leaf) = &self.leaf else { return Ok((0, false)) };
        let passed = self.entries.pass(&leaf.on(&self.media)?, key)?;
        Ok((passed, self.entries.is_at_end() && self.next_leaf()?))
    }

    /// Goes to an entry between two keys, with a chance that depends on the shape of the tree, and
    /// hands it out; the chance's inverse: how many entries there would be if all nodes were as
    /// full as those that were met. `None`: the leaf that was met has no entry between the keys.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn sample(
        &mut self,
        low: &[u8],
        high: &[u8],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<(u64, Entry<'_>)>> {
        let drawn = self.draw(low, high, random);
        self.last.require_kept()?;
        Ok(drawn?.map(|weight| (weight, Entry(&mut self.last))))
    }

    fn draw(&mut self, low: &[u8], high: &[u8], random: &mut dyn FnMut() -> u64) -> Result<Option<u64>> {
        self.reset();
        let (mut at, mut weight, mut children) = (self.root, 1_u64, Vec::new());
        loop {
            let node = open(&self.media, &self.stack, at)?;
            if node.is_leaf() {
                self.entries.list(&node, &self.view)?;
                let Some((index, among)) = self.entries.draw(&node, low, high, random)? else { return Ok(None) };
                (self.last.slot, self.last.leaf) = (node.slot(index), Some(node.shape));
                return Ok(Some(weight.saturating_mul(among)));
            }
            // The child that covers `low`, and those up to the one that covers `high`.
            let mut walk = Walk::behind(&node, &self.view, low)?;
            let (level, head) = (Level { node: node.shape, walk }, node.query_head(high));
            children.clear();
            children.extend(walk.prev(&node, &self.view)?);
            walk = level.walk;
            while let Some(index) = walk.next(&node, &self.view)? {
                // The first child covers everything below it, too.
                if !children.is_empty() && node.order_against(index, high, head)? != Ordering::Less {
                    break;
                }
                children.push(index);
            }
            node.require_readable()?;
            let count = children.len() as u64;
            at = child(&node, random().checked_rem(count).map(|drawn| children[drawn as usize]))?;
            weight = weight.saturating_mul(count);
            self.stack.push(level);
        }
    }

    /// Moves past `count` entries, of which the last is handed out and none is looked at. `false`:
    /// there are fewer.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn skip(&mut self, count: u64) -> Result<bool> {
        let Some(mut before) = count.checked_sub(1) else { return Ok(true) };
        while self.leaf.is_some() {
            before -= self.entries.skip(before);
            if before == 0 || !self.next_leaf()? {
                break;
            }
        }
        self.last.require_kept()?;
        Ok(before == 0 && self.next()?.is_some())
    }

    /// As [`Cursor::skip`], towards the start.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn skip_back(&mut self, count: u64) -> Result<bool> {
        let Some(mut before) = count.checked_sub(1) else { return Ok(true) };
        while self.leaf.is_some() {
            before -= self.entries.skip_back(before);
            if before == 0 || !self.prev_leaf()? {
                break;
            }
        }
        self.last.require_kept()?;
        Ok(before == 0 && self.prev()?.is_some())
    }

    /// Moves up to the first level with a next child, and down its left edge.
    fn next_leaf(&mut self) -> Result<bool> {
        for depth in (0..self.stack.len()).rev() {
            let level = &mut self.stack[depth];
            let node = level.node.on(&self.media)?;
            if let Some(next) = level.walk.next(&node, &self.view)? {
                let at = node.child(next);
                self.stack.truncate(depth + 1);
                self.descend(at, true)?;
                self.look_ahead()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The entry before the cursor; the cursor moves before it. `None` at the beginning.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn prev(&mut self) -> Result<Option<Entry<'_>>> {
        let moved = self.back();
        self.last.require_kept()?;
        Ok(moved?.then_some(Entry(&mut self.last)))
    }

    /// Hands the entry before to `last`. `false`: there is none.
    fn back(&mut self) -> Result<bool> {
        loop {
            let Some(leaf) = &self.leaf else { return Ok(false) };
            if let Some(index) = self.entries.prev() {
                self.last.slot = leaf.on(&self.media)?.slot(index);
                self.last.soon = None;
                if self.last.leaf.is_none_or(|last| last.at != leaf.at) {
                    self.last.leaf = Some(*leaf);
                }
                return Ok(true);
            }
            if !self.prev_leaf()? {
                return Ok(false);
            }
        }
    }

    /// As [`Cursor::next_leaf`], the other way.
    fn prev_leaf(&mut self) -> Result<bool> {
        for depth in (0..self.stack.len()).rev() {
            let level = &mut self.stack[depth];
            let node = level.node.on(&self.media)?;
            let mut back = level.walk;
            back.prev(&node, &self.view)?; // the child the cursor is in
            let before = back;
            if let Some(previous) = back.prev(&node, &self.view)? {
                level.walk = before;
                let at = node.child(previous);
                self.stack.truncate(depth + 1);
                self.descend(at, false)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The leaf in which the cursor stands.
    pub(crate) fn leaf_at(&self) -> Option<u64> {
        self.leaf.map(|leaf| leaf.at)
    }

    /// Whether an entry of that leaf began or ended behind version `older`, up to `newer`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn leaf_changed(&self, older: Version, newer: Version) -> Result<bool> {
        let Some(leaf) = &self.leaf else { return Ok(true) };
        let node = leaf.on(&self.media)?;
        let within = |stamp: Version| stamp > older && stamp <= newer;
        let changed =
            (0..node.count()).map(|index| node.slot(index)).any(|slot| within(slot.start) || within(slot.end));
        node.require_readable()?;
        Ok(changed)
    }

    /// Goes on to the next leaf. `false`: there is none.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn pass_leaf(&mut self) -> Result<bool> {
        self.next_leaf()
    }

    /// The value of the entry last handed out, verified with its key.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn last_value(&mut self) -> Result<Vec<u8>> {
        Entry(&mut self.last).read().map(|(_, value)| value.to_vec())
    }

    /// The full key of the entry last handed out; `None` before the first.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn last_key(&self) -> Result<Option<Vec<u8>>> {
        let Some(leaf) = &self.last.leaf else { return Ok(None) };
        let mut key = Vec::new();
        leaf.on(&self.media)?.full_key_into(&self.last.slot, &mut key)?;
        self.last.require_kept()?;
        Ok(Some(key))
    }
}

/// The node at `at`, one level below the last on the stack.
fn open<'m>(media: &'m Media, stack: &[Level], at: u64) -> Result<Node<'m>> {
    let node = Node::open(media, at)?;
    match stack.last() {
        Some(above) if node.level + 1 != above.node.level => damaged(at, "a child has the wrong level"),
        _ => Ok(node),
    }
}

/// The child of the chosen entry of an inner node.
fn child(node: &Node<'_>, chosen: Option<usize>) -> Result<u64> {
    match chosen {
        Some(index) => Ok(node.child(index)),
        None => damaged(node.at, "an inner node without entries"),
    }
}
