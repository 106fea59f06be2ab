//! The end of a batch: one 8-byte store makes its version real, or all that carries the version is
//! taken back.

use crate::error::Result;
use crate::tree::batch::TreeBatch;
use crate::tree::handle::{Commit, OpenTree};
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::pins::Published;
use crate::tree::version::Voids;
use everbyte_media::museum::unless;
use everbyte_media::{Offset, PublishWord, Unsettled, seeded};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl TreeBatch<'_> {
    /// Commits: the version is ordered before everything stored later, and settled by
    /// [`crate::tree::handle::Tree::settle`].
    ///
    /// Costs two fences. A batch that wrote nothing costs none.
    ///
    /// # Errors
    /// An earlier error of this batch ([`crate::Error::Doomed`]); out of space; a page of the table
    /// that cannot be read. Then nothing happened.
    pub(crate) fn commit(self) -> Result<Commit> {
        self.commit_with(|_, _, _| {})
    }

    /// As [`TreeBatch::commit`]. Once the version is real, and before a reader sees it,
    /// `committed` receives it, the keys that tables have gained, and the way to the oldest version
    /// in use.
    pub(crate) fn commit_with(
        mut self,
        committed: impl FnOnce(Version, &[(u32, i64)], &dyn Fn() -> u64),
    ) -> Result<Commit> {
        let shared = self.shared;
        if self.doomed {
            return Err(crate::Error::Doomed);
        }
        self.join_marks();
        let frees_nothing = self.frees.is_empty() || seeded("tree-frees-forgotten");
        let wrote = !(self.dirty.is_clean() && self.allocated.is_empty() && frees_nothing);
        if wrote || self.reclaims {
            self.mend();
            self.sift_graves();
            self.guarded(TreeBatch::reclaim)?;
        }
        let reclaimed = self.reclaims && !(self.dirty.is_clean() && self.frees.is_empty() && self.drops.is_empty());
        if !wrote && !reclaimed {
            if self.reclaims {
                // The sweep has gone on.
                self.reclaimed();
                self.hand_over_poor();
            }
            self.done = true;
            return Ok(shared.commit_of(self.writer.committed.version));
        }
        let object = shared.heap.object();
        if shared.media.opened().read_only {
            return Err(crate::Error::ReadOnly { object: object.name().into() });
        }
        unless("tree-commits-over-lost-page", || object.require_readable())?;
        let ops = self.ops();
        let next = Published { version: self.view.version, root: self.root, keys: self.keys };
        let (before, mut state) = (self.writer.committed, self.writer.state);
        if (before.root, before.keys) != (next.root, next.keys) || !ops.is_empty() || !self.drops.is_empty() {
            let stored = self.guarded(|batch| batch.store_state(next, &ops));
            state = match stored {
                Ok(state) => state,
                Err(error) => {
                    // Their reservations and pending frees are returned when the batch is given up.
                    self.allocated.clear();
                    self.frees = ops;
                    return Err(error);
                }
            };
        }
        self.flush_dirty();
        let ordered = match shared.volatile {
            true => None,
            false => Some(shared.media.fence_after_unless("tree-commit-unordered", next)),
        };
        if let Err(error) = object.require_readable()
            && !seeded("tree-commits-over-lost-page")
        {
            (self.allocated, self.frees) = (Default::default(), ops); // as above
            return Err(error.into());
        }
        let word = next.version.commit_word(state);
        if let Some(ordered) = ordered {
            shared.commit_word().publish(&shared.media, word, &ordered);
            shared.media.fence();
        } else {
            shared.media.store(shared.header + COMMIT_AT, word);
        }
        // From here on the version may be real whatever happens: it is never voided.
        self.done = true;
        self.writer.state = state;
        committed(next.version, &self.gained, &|| shared.pins.oldest());
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
            unless("tree-drops-reused-at-once", || writer.recent.extend(self.drops.drain(..)));
        }
        self.hand_over_poor();
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
