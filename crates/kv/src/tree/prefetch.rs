//! Walking down for many keys at once, before they are put: each step of one key's way waits for
//! memory, and the ways of many keys wait together.
//!
//! Steps, each for all keys before the next
//!   1. from the root, one level down; the first lines of the child are asked for
//!   2. in the leaf: the lines of fingerprints and appended slots
//!   3. the slots whose fingerprint is the key's, and the end of what has been appended, where the
//!      new record will lie; or the whole leaf, where there is no slot left
//!   4. the records of those slots
//!
//! The result is the leaf of each key. A put of the same key, in the same order, begins there
//! instead of at the root.
//!
//! Invariant PREF-1: a leaf found is forgotten when a newer node takes its place, or when it is
//! unlinked. All other changes of the tree in this batch leave the keys of a leaf as they are.

use crate::error::Result;
use crate::tree::key::TableNumber;
use crate::tree::layout::*;
use crate::tree::node::{Node, Query, below};
use crate::tree::version::View;
use everbyte_media::{LINE, Media};

/// Keys whose ways are walked together: their lines fit the second-level cache many times over.
const TOGETHER: usize = 16;

/// The leaves found, in the order in which the keys were named. The lists stay for the next batch.
#[derive(Default)]
pub(crate) struct Prefetched {
    /// The keys, one after the other.
    keys: Vec<u8>,
    /// The end of each key, and its leaf; 0 when it is to be found again.
    found: Vec<(usize, u64)>,
    /// The next one to be put.
    next: usize,
}

impl Prefetched {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.found.clear();
        self.next = 0;
    }

    /// The leaf of the full key `key`, if that is the next one named.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<u64> {
        let &(end, leaf) = self.found.get(self.next)?;
        let start = if self.next == 0 { 0 } else { self.found[self.next - 1].0 };
        if &self.keys[start..end] != key {
            return None;
        }
        self.next += 1;
        (leaf != 0).then_some(leaf)
    }

    /// The leaf at `at` is no longer the tree's (PREF-1).
    pub(crate) fn forget(&mut self, at: u64) {
        self.found[self.next..].iter_mut().filter(|found| found.1 == at).for_each(|found| found.1 = 0);
    }

    /// Finds the leaves of `keys`, which replace those found before.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn find<'k>(
        &mut self,
        media: &Media,
        view: &View,
        root: u64,
        table: TableNumber,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<()> {
        self.clear();
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let group: Vec<Query<'_>> = keys.by_ref().take(TOGETHER).map(|key| Query::new(table, key)).collect();
            self.walk(media, view, root, &group)?;
        }
        Ok(())
    }

    fn walk(&mut self, media: &Media, view: &View, root: u64, keys: &[Query<'_>]) -> Result<()> {
        let root = Node::open(media, root)?;
        let mut nodes = [root; TOGETHER];
        let nodes = &mut nodes[..keys.len()];
        let mut children = [0; TOGETHER];
        for _ in 0..root.level {
            for ((node, key), child) in nodes.iter().zip(keys).zip(&mut children) {
                *child = node.child_for(view, &key.full)?.1;
                ask(media, *child, 4 * LINE);
            }
            for (node, child) in nodes.iter_mut().zip(&children) {
                *node = below(media, node, *child)?;
            }
        }
        for node in &*nodes {
            ask(media, node.slot_at(node.base()), APPENDS as u64 * SLOT);
        }
        let mut matches = [None; TOGETHER];
        for ((node, key), found) in nodes.iter().zip(keys).zip(&mut matches) {
            *found = node.print_match(key.print);
            if let Some(index) = *found {
                media.prefetch(node.slot_at(index));
            }
            let claims = node.claims();
            let is_unused = |append: usize| claims.get(append).at == 0 || node.start(node.base() + append) == 0;
            match (0..APPENDS).any(is_unused) {
                true => ask(media, node.at + claims.end(node.base_end.into()).min(node.size.into()), 3 * LINE),
                // All of it is read, to be written anew.
                false => ask(media, node.at + 4 * LINE, u64::from(node.size).saturating_sub(4 * LINE)),
            }
        }
        for (node, found) in nodes.iter().zip(matches) {
            if let Some(index) = found {
                ask(media, node.at + node.slot(index).record(), LINE);
            }
        }
        for (key, node) in keys.iter().zip(nodes) {
            self.keys.extend_from_slice(&key.full);
            self.found.push((self.keys.len(), node.at));
        }
        Ok(())
    }
}

/// Asks for the lines of `at..at+len`, wherever they may be.
fn ask(media: &Media, at: u64, len: u64) {
    (at & !(LINE - 1)..at.saturating_add(len)).step_by(LINE as usize).for_each(|line| media.prefetch(line));
}
