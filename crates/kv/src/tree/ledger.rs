//! The ledger of a version: what becomes true with its commit, stored before and applied after.

use crate::error::Result;
use crate::tree::batch::TreeBatch;
use crate::tree::handle::OpenTree;
use crate::tree::layout::*;
use crate::tree::pins::Published;
use everbyte_heap::Op;
use everbyte_media::{Checked, Offset};
use zerocopy::IntoBytes;

/// Most words of a ledger after reclaiming, for a batch that takes `own` of them itself. A small
/// batch stays within the area, which needs no space; a large one may reclaim in proportion, so
/// that the dead cannot become more and more.
pub(crate) fn ledger_room(own: usize) -> usize {
    if own <= LEDGER_WORDS / 2 { LEDGER_WORDS } else { LEDGER_WORDS + 4 * own }
}
const _: () = assert!(LEDGER_WORDS / 2 > 3 + 2 * (LEAF_BASE_MAX + APPENDS)); // a leaf, at least

impl TreeBatch<'_> {
    pub(crate) fn ops(&mut self) -> Vec<Op> {
        let mut ops: Vec<Op> = self.allocated.values().map(|block| self.shared.heap.op_allocate(block)).collect();
        ops.append(&mut self.frees);
        ops
    }

    /// Writes the state that the commit word will choose, and its ledger; says which of the two it
    /// is. The state in force is not touched, and stays in force until the commit word is stored.
    pub(crate) fn store_state(&mut self, next: Published, ops: &[Op]) -> Result<usize> {
        let other = 1 - self.writer.state;
        let words: Vec<u64> = ops.iter().map(|&op| u64::from(op)).chain(self.drops.iter().copied()).collect();
        if let Some(old) = self.writer.long_ledgers[other].take() {
            self.shared.heap.cancel(old);
        }
        let ledger = if words.len() <= LEDGER_WORDS {
            self.shared.area + LEDGERS_AT[other]
        } else {
            // Reserved, never marked: should the version not commit, the blocks are free without
            // further work.
            let block = self.shared.heap.reserve(words.len() as u64 * 8)?;
            self.writer.long_ledgers[other] = Some(block);
            block.at.get()
        };
        if !words.is_empty() {
            self.shared.fill(ledger, words.as_bytes());
        }
        let state = State {
            version: next.version,
            root: Offset::new(next.root),
            keys: next.keys.all,
            ledger: Offset::new(ledger),
            ops: ops.len() as u64,
            drops: self.drops.len() as u64,
            ledger_sum: crc32c::crc32c(words.as_bytes()),
            checksum: 0,
            main_keys: next.keys.main,
        }
        .sealed();
        self.shared.fill(self.shared.header + STATES_AT[other], state.as_bytes());
        Ok(other)
    }

    /// Step 5: what the ledger says. Ordered by the first fence of the next version (TREE-5,
    /// TREE-6).
    pub(crate) fn apply(&mut self, ops: &[Op]) {
        if !ops.is_empty() {
            self.shared.heap.apply(ops);
        }
        apply_drops(self.shared, &self.drops);
    }
}

/// Empties the slots of a ledger; idempotent.
pub(crate) fn apply_drops(shared: &OpenTree, drops: &[u64]) {
    for &slot in drops {
        shared.media.store(slot + START_AT, 0);
        if !shared.volatile {
            shared.media.flush(slot + START_AT, 8);
        }
    }
}
