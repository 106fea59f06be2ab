//! A batch that is given up: all that carries its version is taken back.

use crate::tree::batch::TreeBatch;
use crate::tree::merge::NOTED_MAX;
use everbyte_media::museum::misplaced;
use everbyte_media::seeded;
use std::sync::atomic::Ordering::Relaxed;

/// Room of a batch's list of slots that stays for the next batch.
const TOUCHED_KEPT: usize = 4096;

impl TreeBatch<'_> {
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
        let newest = self.view.version;
        let first = if seeded("tree-abort-keeps-numbers") { newest } else { self.writer.next };
        self.take_back(0, first);
        let media = &self.shared.media;
        misplaced("tree-abort-unflushed", || self.dirty.clear());
        if self.shared.volatile {
            self.dirty.forget();
        } else {
            self.dirty.flush(media);
            media.fence_unless("tree-abort-unfenced");
        }
        let emptied = std::mem::take(&mut self.emptied);
        self.writer.recent.extend(emptied);
    }

    fn give_up(&mut self) {
        if !self.dirty.is_clean() || !self.emptied.is_empty() {
            self.undo();
        }
        self.join_marks();
        for (_, block) in self.allocated.drain() {
            self.shared.heap.cancel(block);
        }
        self.shared.heap.abandon(&self.frees);
        self.frees.clear();
        for grave in std::mem::take(&mut self.reclaimed).into_iter().rev() {
            self.writer.graveyard.push_front(grave);
        }
        self.shared.media.forget_lost();
        let poor = &mut self.writer.poor;
        poor.append(&mut self.mended);
        poor.truncate(NOTED_MAX);
        // The reclaiming of this version is still to be done.
        self.writer.digging.truncate(self.undug);
        self.writer.digging.extend(self.dug.drain(..).rev());
        if self.swept.is_some() {
            self.writer.sweep = self.swept.take();
        }
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
