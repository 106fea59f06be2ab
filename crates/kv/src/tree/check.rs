//! Walks everything a tree has and verifies its invariants. Reads only; never panics on what it
//! finds.

use crate::error::{Error, Result};
use crate::tree::batch::owned_blocks;
use crate::tree::handle::{OpenTree, Tree};
use crate::tree::hash::OffsetSet;
use crate::tree::key::TableNumber;
use crate::tree::layout::*;
use crate::tree::node::{Node, Query, head_of};
use crate::tree::pins::{KeyCounts, Published};
use crate::tree::sum::Sum;
use crate::tree::version::{Life, View};
use everbyte_media::{Checked, ErrorInfo};
use everbyte_store::{Finding, FindingKind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// A node to be visited. Live keys lie in `low..high`.
struct Visit {
    at: u64,
    life: Life,
    low: Option<Rc<[u8]>>,
    high: Option<Rc<[u8]>>,
    /// `None`: any.
    level: Option<u8>,
}

/// Nodes and blocks that the walk has seen.
struct Walk<'t> {
    shared: &'t OpenTree,
    view: View,
    root: u64,
    findings: Vec<Finding>,
    /// Every block the tree owns.
    owned: OffsetSet,
    keys: KeyCounts,
    last_key: Option<Vec<u8>>,
    object: String,
}

impl Tree {
    /// Verifies nodes, order, checksums, stamps and ownership at the newest committed version, and
    /// hands the blocks the tree owns to the heap's own check, which reports leaks and double use.
    /// The cost is that of reading everything.
    ///
    /// # Panics
    /// If this thread has a batch of this tree: it would wait for itself.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let own = self.shared.holder.load(Relaxed) == crate::tree::thread::current();
        assert!(!own, "{}", Error::OwnBatch);
        // No writer meanwhile.
        let writer = self.shared.writer.lock();
        self.check_at(writer.committed)
    }

    /// Frees the blocks of the tree's heap that [`Tree::check`] calls leaked, in one version: all
    /// of them or none, whatever crashes. Settled on return; says what they were.
    ///
    /// # Errors
    /// Damage, or a block with two owners: nothing is sure to have leaked then. Otherwise as
    /// [`TreeBatch::commit`].
    ///
    /// [`TreeBatch::commit`]: crate::tree::TreeBatch::commit
    pub(crate) fn free_leaks(&self) -> Result<Vec<Finding>> {
        let mut batch = self.begin()?; // no other writer, from the walk to the commit
        let mut found = self.check_at(batch.writer.committed);
        if let Some(damage) = found.iter().find(|finding| finding.is_damage()) {
            return crate::error::damaged(damage.at, "nothing is sure to have leaked while that is so");
        }
        found.retain(|finding| finding.kind == FindingKind::Leak);
        found.iter().try_for_each(|leak| batch.release(leak.at))?;
        let commit = batch.commit()?;
        self.settle(commit)?;
        Ok(found)
    }

    /// No thread may write meanwhile.
    fn check_at(&self, committed: Published) -> Vec<Finding> {
        let shared = &*self.shared;
        let view = shared.view(committed.version);
        let object = shared.heap.object().name().to_string();
        let (findings, owned) = (Vec::new(), OffsetSet::default());
        let mut walk = Walk {
            shared,
            view,
            root: committed.root,
            findings,
            owned,
            keys: KeyCounts::default(),
            last_key: None,
            object,
        };
        walk.owned.insert(shared.area);
        walk.all(Visit { at: committed.root, life: Life::Live, low: None, high: None, level: None });
        if walk.keys != committed.keys {
            let detail = format!("the tree holds {:?} keys and its state says {:?}", walk.keys, committed.keys);
            walk.find(FindingKind::Damage, shared.header, detail);
        }
        let Walk { mut findings, owned, .. } = walk;
        findings.extend(shared.heap.check(Some(&owned.into_iter().collect())));
        findings
    }
}

impl Walk<'_> {
    fn find(&mut self, kind: FindingKind, at: u64, detail: impl Into<String>) {
        let object = Some(self.object.clone());
        self.findings.push(Finding { room: "tree", kind, at, object, detail: detail.into() });
    }

    fn own(&mut self, block: u64) -> bool {
        let new = self.owned.insert(block);
        if !new {
            self.find(FindingKind::DoubleUse, block, "two entries own this block");
        }
        new
    }

    /// Verifies nodes and their blocks. Nodes still to be visited are kept in a list: dead entries
    /// form chains of any length.
    fn all(&mut self, root: Visit) {
        let mut rest = vec![root];
        while let Some(visit) = rest.pop() {
            let at = visit.at;
            if !self.own(at) {
                continue;
            }
            let first = rest.len();
            if let Err(error) = self.node(visit, &mut rest) {
                let place = error.damage().and_then(|damage| damage.offset).unwrap_or(at);
                self.find(FindingKind::Damage, place, error.to_string());
            }
            // In the order in which they were found: the last one of the list is visited next.
            rest[first..].reverse();
        }
    }

    /// Verifies one node; `rest` receives its children, the live ones in the order of keys.
    fn node(&mut self, visit: Visit, rest: &mut Vec<Visit>) -> Result<()> {
        let Visit { at, life, level, .. } = visit;
        let media = &self.shared.media;
        let node = Node::open(media, at)?;
        let header: NodeHeader = media.get(at);
        if !header.checksum_agrees() {
            self.find(FindingKind::Damage, at, "a node's header fails its checksum");
        }
        if level.is_some_and(|level| level != node.level) {
            return crate::error::damaged(at, "a child has the wrong level");
        }
        if node.is_leaf() {
            self.claims(&node);
        }
        for index in 0..node.count() {
            let slot = node.slot(index);
            // Versions beyond the newest are void ones, or this is damage.
            for (stamp, name) in [(slot.start, "start"), (slot.end, "end")] {
                if stamp > self.view.version && !self.view.void(stamp) {
                    self.find(
                        FindingKind::Damage,
                        node.slot_at(index),
                        format!("{name} stamp {stamp} is in the future"),
                    );
                }
            }
            let Some(below) = life.below(&self.view, &slot) else { continue };
            match owned_blocks(&node, &slot) {
                Ok(blocks) => blocks.into_iter().flatten().for_each(|block| {
                    self.own(block);
                }),
                Err(error) => self.find(FindingKind::Damage, node.slot_at(index), error.to_string()),
            }
            let dead = self.view.ended(slot.end);
            if !node.is_leaf() && (dead || life != Life::Live) {
                rest.push(Visit { at: slot.value, life: below, low: None, high: None, level: None });
            }
        }
        if life == Life::Live { self.live_entries(&node, &visit, rest) } else { Ok(()) }
    }

    /// Verifies that the claims of a leaf are whole and apart, and that what is seen lies in them
    /// (CLAIM-1, CLAIM-2).
    fn claims(&mut self, leaf: &Node<'_>) {
        let claims = leaf.claims();
        let at = leaf.at + CLAIMS_AT as u64;
        if !claims.are_sound() {
            self.find(FindingKind::Damage, at, "a bit of a leaf's claims has flipped");
            return;
        }
        let mut end = u64::from(leaf.base_end);
        let mut all: Vec<_> = (0..APPENDS).map(|append| claims.get(append)).filter(|claim| claim.at != 0).collect();
        all.sort_by_key(|claim| claim.at);
        for claim in all {
            if claim.at < end || claim.end() > leaf.size.into() {
                self.find(FindingKind::Damage, at, "a claim of a leaf overlaps another one or lies outside");
            }
            end = claim.end();
        }
        for append in 0..APPENDS {
            let (index, claim) = (leaf.base() + append, claims.get(append));
            let slot = leaf.slot(index);
            let is_inside = slot.record() == claim.at + LENGTH && LENGTH + slot.record_bytes(true) <= claim.room;
            if leaf.sees(&self.view, index) && !is_inside {
                self.find(FindingKind::Damage, leaf.slot_at(index), "a record lies outside its claim");
            }
        }
    }

    /// Searches for a key from the root, as a reader does: the search must end at the slot in which
    /// the walk found it.
    fn search(&mut self, leaf: &Node<'_>, index: usize, table: TableNumber, key: &[u8]) -> Result<()> {
        let (found, slot) = self.shared.find(&self.view, self.root, &Query::new(table, key))?;
        if (found.at, slot.map(|(index, _)| index)) != (leaf.at, Some(index)) {
            self.find(FindingKind::Damage, leaf.slot_at(index), "a search from the root does not find this key");
        }
        Ok(())
    }

    /// Order, heads, fingerprints and checksums of what the newest version sees in a node, and its
    /// children.
    fn live_entries(&mut self, node: &Node<'_>, visit: &Visit, rest: &mut Vec<Visit>) -> Result<()> {
        let mut visible = Vec::new();
        node.visible(&self.view, &mut visible)?;
        let reachable = (0..node.count()).filter(|&index| node.sees(&self.view, index)).count();
        if reachable != visible.len() {
            self.find(FindingKind::Damage, node.at, "an entry is missing from the permutation word");
        }
        let prefix = node.prefix(&mut [0; PREFIX_MAX]).to_vec();
        let mut keys = Vec::with_capacity(visible.len());
        for index in visible.iter().map(|&index| usize::from(index)) {
            let (at, slot) = (node.slot_at(index), node.slot(index));
            let (mut key, mut value) = (Vec::new(), Vec::new());
            node.key_into(&slot, &mut key)?;
            let mut full = if node.is_leaf() { slot.table().bytes().to_vec() } else { Vec::new() };
            full.extend_from_slice(&key);
            let key_sum = if node.is_leaf() { Sum::of_table(slot.table()) } else { Sum::NONE }.and(&key);
            let mut total = key_sum.value();
            if node.is_leaf() {
                let byte = node.at + node.fingerprint_offset(index) as u64;
                if node.fingerprint(index) != total as u8 {
                    self.find(FindingKind::Damage, byte, "a fingerprint does not belong to its key");
                }
                node.value_into(&slot, &mut value)?;
                total = crate::tree::record::record_sum(key_sum, &value);
                for result in [node.verify_head(&slot, key_sum), node.verify_table(&slot, &value)] {
                    if let Err(error) = result {
                        self.find(FindingKind::Damage, at, error.to_string());
                    }
                }
                self.keys.all += 1;
                self.keys.main += u64::from(slot.table() == TableNumber::MAIN);
                if self.last_key.as_ref().is_some_and(|last| *last >= full) {
                    self.find(FindingKind::Damage, at, "keys are out of order");
                }
                self.search(node, index, slot.table(), &key)?;
                self.last_key = Some(full.clone());
            }
            let is_inline = node.is_leaf() && !slot.has(KEY_OUT | VALUE_OUT);
            if total != node.record_sum(&slot)? {
                self.find(FindingKind::Damage, at, "a record fails its checksum");
            } else if is_inline && node.entry_into(&slot, &mut value).is_err() {
                // A cursor sums whole words: it refuses this record.
                self.find(FindingKind::Damage, at, "the bytes that fill up a record's last word are not zeros");
            }
            if node.head(index) != head_of(&full, &prefix) {
                self.find(FindingKind::Damage, at, "a head does not belong to its key");
            }
            let below = visit.low.as_ref().is_some_and(|low| *full < **low);
            if node.is_leaf() && (below || visit.high.as_ref().is_some_and(|high| *full >= **high)) {
                self.find(FindingKind::Damage, at, "a key lies outside its leaf's range");
            }
            keys.push((Rc::<[u8]>::from(full), slot.value));
        }
        if node.is_leaf() {
            return Ok(());
        }
        if keys.is_empty() {
            return crate::error::damaged(node.at, "an inner node without entries");
        }
        for (index, (key, child)) in keys.iter().enumerate() {
            // The first child covers everything from the node's own lower bound.
            let low = if index == 0 { visit.low.clone() } else { Some(Rc::clone(key)) };
            let high = keys.get(index + 1).map(|next| Rc::clone(&next.0)).or_else(|| visit.high.clone());
            rest.push(Visit { at: *child, life: Life::Live, low, high, level: Some(node.level - 1) });
        }
        Ok(())
    }
}
