//! Walks everything and verifies the invariants. Reads only; never panics on bytes from media.

use super::Tree;
use super::node::{Node, common, prefix};
use crate::raw::Raw as _;
use crate::record::Record;
use crate::{Error, Result};
use everbyte_media::ErrorInfo;
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

/// The state of a walk.
struct TreeWalk {
    findings: Vec<Finding>,
    blocks: BTreeSet<u64>,
    /// The newest key: the next one is greater (HKV-4).
    last: Option<Vec<u8>>,
}

type Key = Option<Vec<u8>>;

impl Tree {
    /// Verifies nodes, their bounds and order, records and their checksums, and hands the blocks in
    /// use to the heap's own check, which reports leaks and double use. The cost is that of reading
    /// everything. An empty list: all is well.
    pub fn check(&self) -> Vec<Finding> {
        let state = self.state.write(); // no other thread may change the heap meanwhile
        let mut walk = TreeWalk { findings: Vec::new(), blocks: BTreeSet::from([self.base.root]), last: None };
        let walked = self.top(state.top).and_then(|top| self.check_node(&top, 0, &(None, None), &mut walk));
        if let Err(error) = walked {
            self.found(&mut walk, state.top, error);
        }
        let whole = walk.findings.is_empty();
        let mut findings = walk.findings;
        findings.extend(self.base.undo.check(whole.then_some(&walk.blocks)));
        findings
    }

    fn found(&self, walk: &mut TreeWalk, otherwise: u64, error: Error) {
        let at = error.damage().and_then(|damage| damage.offset).unwrap_or(otherwise);
        let object = Some(self.object().name().to_string());
        let detail = error.to_string();
        walk.findings.push(Finding { room: "hkv", kind: FindingKind::Damage, at, object, detail });
    }

    /// Checks a node whose least key must be that of the record at `low`, and whose keys must lie
    /// within `bounds`. An error: the node itself is wrong; findings below it are recorded in the
    /// walk.
    fn check_node(&self, node: &Node, low: u64, bounds: &(Key, Key), walk: &mut TreeWalk) -> Result<()> {
        let damaged = |detail| Err(self.base.damaged(node.at, detail));
        if !walk.blocks.insert(node.at) {
            return damaged("a node in two places");
        }
        if node.low() != low || node.skip() > common(bounds.0.as_deref(), bounds.1.as_deref()) {
            return damaged("a node with other bounds than its parent gives it");
        }
        if node.level() == 0 && low != 0 {
            Record::read(self.heap(), low)?.verify(self.heap())?;
            walk.blocks.insert(low);
        }
        for index in 0..node.count() {
            let checked = if node.level() == 0 {
                self.check_pair(node, index, bounds, walk)
            } else {
                self.check_child(node, index, bounds, walk)
            };
            if let Err(error) = checked {
                self.found(walk, node.slot(index).0, error);
            }
        }
        Ok(())
    }

    fn check_child(&self, node: &Node, index: usize, (low, high): &(Key, Key), walk: &mut TreeWalk) -> Result<()> {
        let child = node.child(&self.base, index)?;
        let (at, low) = match index {
            0 => (node.low(), low.clone()),
            _ => (child.low(), self.bound(child.low())?),
        };
        if index > 0 && low.as_ref().is_none_or(|low| prefix(low, node.skip()) != node.slot(index).1.prefix) {
            return Err(self.base.damaged(node.slot(index).0, "a prefix that is not of the child's least key"));
        }
        let high = match index + 1 < node.count() {
            true => Some(node.record(&self.base, index + 1)?.key(self.heap())),
            false => high.clone(),
        };
        if low.is_some() && high.is_some() && low >= high {
            return Err(self.base.damaged(child.at, "a child that ends before it begins"));
        }
        self.check_node(&child, at, &(low, high), walk)
    }

    fn check_pair(&self, node: &Node, index: usize, (low, high): &(Key, Key), walk: &mut TreeWalk) -> Result<()> {
        let (at, slot) = node.slot(index);
        let key = Some(node.record(&self.base, index)?.verify(self.heap())?);
        let damaged = |detail| Err(self.base.damaged(at, detail));
        if prefix(key.as_deref().unwrap_or_default(), node.skip()) != slot.prefix {
            return damaged("a prefix that is not of the record's key");
        }
        if key < *low || high.is_some() && key >= *high {
            return damaged("a key outside the bounds of its leaf");
        }
        if walk.last.is_some() && key <= walk.last {
            return damaged("a key that is not greater than the one before");
        }
        if !walk.blocks.insert(slot.place.get()) {
            return damaged("a record in two slots");
        }
        walk.last = key;
        Ok(())
    }
}
