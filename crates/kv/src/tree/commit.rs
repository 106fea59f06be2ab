//! The end of a batch: one 8-byte store makes its version real, or all that carries the version is
//! taken back.

use crate::error::Result;
use crate::tree::batch::TreeBatch;
use crate::tree::handle::{Commit, OpenTree};
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::pins::Published;
use crate::tree::version::Voids;
use everbyte_heap::Op;
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::{Checked, Offset, PublishWord, Unsettled, seeded};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::IntoBytes;

/// Room of a batch's list of slots that stays for the next batch.
const TOUCHED_KEPT: usize = 4096;

impl TreeBatch<'_> {
    /// Commits: the version is ordered before everything stored later, and settled by
    /// [`crate::tree::handle::Tree::settle`].
    ///
    /// Costs two fences. A batch that wrote nothing costs none.
    ///
    /// # Errors
    /// An earlier error of this batch ([`crate::Error::Doomed`]); out of space; a page of the table
    /// that cannot be read. Then nothing happened.
    pub(crate) fn commit(mut self) -> Result<Commit> {
        let shared = self.shared;
        if self.doomed {
            return Err(crate::Error::Doomed);
        }
        let frees_nothing = self.frees.is_empty() || seeded("tree-frees-forgotten");
        if self.dirty.is_clean() && self.allocated.is_empty() && frees_nothing {
            self.done = true;
            return Ok(shared.commit_of(self.writer.committed.version));
        }
        self.guarded(TreeBatch::reclaim)?;
        let object = shared.heap.object();
        unless("tree-commits-over-lost-page", || object.require_readable())?;
        let ops = self.ops();
        let next = Published { version: self.view.version, root: self.root, keys: self.keys };
        let before = self.writer.committed;
        if (before.root, before.keys) != (next.root, next.keys) || !ops.is_empty() || !self.drops.is_empty() {
            let stored = self.guarded(|batch| batch.store_state(next, &ops));
            if let Err(error) = stored {
                // Their reservations and pending frees are returned when the batch is given up.
                self.allocated.clear();
                self.frees = ops;
                return Err(error);
            }
        }
        self.dirty.flush(&shared.media);
        let ordered = shared.media.fence_after_unless("tree-commit-unordered", next);
        if let Err(error) = object.require_readable()
            && !seeded("tree-commits-over-lost-page")
        {
            (self.allocated, self.frees) = (Default::default(), ops); // as above
            return Err(error.into());
        }
        let word = next.version.commit_word(self.writer.state);
        shared.commit_word().publish(&shared.media, word, &ordered);
        shared.media.fence();
        // From here on the version may be real whatever happens: it is never voided.
        self.done = true;
        // The commit word itself may have been stored to a page that is lost: its outcome is
        // unknown then.
        let outcome = object.require_readable();
        // No crash replays the ledger before this one any more: what it freed may be handed out
        // again.
        let retired = std::mem::replace(&mut self.writer.unfinished, ops.clone());
        shared.heap.finish(&retired);
        self.apply(&ops);
        self.reclaimed();
        let writer = &mut *self.writer;
        writer.applied_by = crate::tree::thread::current();
        writer.committed = next;
        writer.next = next.version.next();
        writer.graveyard.extend(self.graves.drain(..));
        writer.recent.clear();
        if !self.drops.is_empty() {
            writer.recent.extend(self.drops.drain(..));
        }
        shared.counts.commits.fetch_add(1, Relaxed);
        let commit = shared.commit_of(next.version);
        if commit.version.is_settled(&shared.media) {
            shared.pins.publish(next);
        } else {
            // Under the writer's lock, so that the queue is in the order of versions.
            shared.pending.lock().push_back(next);
        }
        if !seeded("tree-commits-over-lost-page") {
            outcome?;
        }
        Ok(commit)
    }

    fn ops(&mut self) -> Vec<Op> {
        let mut ops: Vec<Op> = self.allocated.values().map(|block| self.shared.heap.op_allocate(block)).collect();
        ops.append(&mut self.frees);
        ops
    }

    /// Writes the state that the commit word will choose, and its ledger. The state in force is not
    /// touched.
    fn store_state(&mut self, next: Published, ops: &[Op]) -> Result<()> {
        let (media, other) = (&self.shared.media, 1 - self.writer.state);
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
            media.copy_nt(ledger, words.as_bytes());
        }
        let state = State {
            version: next.version,
            root: Offset::new(next.root),
            keys: next.keys,
            ledger: Offset::new(ledger),
            ops: ops.len() as u64,
            drops: self.drops.len() as u64,
            ledger_sum: crc32c::crc32c(words.as_bytes()),
            checksum: 0,
            reserved: 0,
        }
        .sealed();
        media.copy_nt(self.shared.header + STATES_AT[other], state.as_bytes());
        self.writer.state = other;
        Ok(())
    }

    /// Step 5: what the ledger says. Ordered by the first fence of the next version (TREE-5,
    /// TREE-6).
    fn apply(&mut self, ops: &[Op]) {
        if !ops.is_empty() {
            self.shared.heap.apply(ops);
        }
        apply_drops(self.shared, &self.drops);
    }

    /// Gives the batch up; the same as dropping it.
    pub(crate) fn abort(self) {}

    /// Takes back what was stored under this batch's version (BATCH-4).
    ///
    ///   1. slots filled are emptied, ends that were stamped go back to "live" (an end that a void
    ///      version had left there means the same)
    ///   2. flush and fence: no store of a later batch survives without this
    ///
    /// A crash before that finds a version that did not commit: opening makes it void.
    fn undo(&mut self) {
        let (version, media) = (self.view.version, &self.shared.media);
        for at in std::mem::take(&mut self.touched) {
            if media.load(at + START_AT) == version.get() {
                self.store(at + START_AT, 0);
                self.emptied.insert(at);
            }
            if media.load(at + END_AT) == version.get() && !seeded("tree-abort-keeps-ends") {
                self.store(at + END_AT, 0);
            }
        }
        misplaced("tree-abort-unflushed", || self.dirty.clear());
        self.dirty.flush(media);
        media.fence_unless("tree-abort-unfenced");
        let emptied = std::mem::take(&mut self.emptied);
        self.writer.recent.extend(emptied);
    }

    fn give_up(&mut self) {
        if !self.dirty.is_clean() || !self.emptied.is_empty() {
            self.undo();
        }
        for (_, block) in self.allocated.drain() {
            self.shared.heap.cancel(block);
        }
        self.shared.heap.abandon(&self.frees);
        self.frees.clear();
        for grave in std::mem::take(&mut self.reclaimed).into_iter().rev() {
            self.writer.graveyard.push_front(grave);
        }
        self.shared.media.forget_lost();
        // The reclaiming of this version is still to be done.
        self.writer.digging.truncate(self.undug);
        self.writer.digging.extend(self.dug.drain(..).rev());
        if self.swept.is_some() {
            self.writer.sweep = self.swept.take();
        }
    }
}

/// Empties the slots of a ledger; idempotent.
pub(crate) fn apply_drops(shared: &OpenTree, drops: &[u64]) {
    for &slot in drops {
        shared.media.store(slot + START_AT, 0);
        shared.media.flush(slot + START_AT, 8);
    }
}

impl Drop for TreeBatch<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.give_up();
        }
        self.dirty.clear();
        self.writer.dirty = std::mem::take(&mut self.dirty);
        self.touched.clear();
        self.touched.shrink_to(TOUCHED_KEPT);
        self.writer.touched = std::mem::take(&mut self.touched);
        self.shared.holder.store(crate::tree::thread::NONE, Relaxed);
    }
}

impl Voids {
    /// Adds one version, joining it to its neighbours.
    pub(crate) fn add(&mut self, version: Version) {
        match self.0.last_mut() {
            Some(last) if last.1.next() == version => last.1 = version,
            Some(last) if last.1 >= version => {}
            _ => self.0.push((version, version)),
        }
    }
}

impl OpenTree {
    pub(crate) fn commit_of(&self, version: Version) -> Commit {
        Commit { tree: self.number, version: Unsettled::new(&self.media, version) }
    }

    /// The word whose store makes a version real.
    pub(crate) fn commit_word(&self) -> PublishWord {
        PublishWord::new(Offset::new(self.header + COMMIT_AT))
    }

    /// Swaps the void list that new views get.
    pub(crate) fn set_voids(&self, voids: Voids) {
        self.voids.store(Arc::new(voids));
    }
}
