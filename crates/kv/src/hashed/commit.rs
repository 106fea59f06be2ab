//! The end of a batch: one 8-byte store makes its version real; then its ledger is applied.

use crate::error::Result;
use crate::hashed::batch::HashBatch;
use crate::hashed::layout::*;
use crate::hashed::table::{Committed, OpenHash, Writer};
use crate::tree::thread;
use everbyte_heap::Op;
use everbyte_media::{Checked, Offset, PublishWord, Unsettled, seeded};
use zerocopy::{FromZeros, IntoBytes};

impl HashBatch<'_> {
    /// Commits, and settles: durable on return. Costs two fences, and a barrier where fences do not
    /// settle. A batch that wrote nothing costs none.
    ///
    /// # Errors
    /// Out of space; a page of the table that cannot be read: nothing happened. An error of the
    /// barrier: the outcome is unknown until the next batch has begun, or, if the store is
    /// poisoned, until it is reopened.
    pub fn commit(mut self) -> Result<()> {
        if self.changes.is_empty() && !self.reclaims {
            return Ok(());
        }
        self.reclaim();
        if self.changes.is_empty() {
            // Nothing was written: the sweep has gone on, and graves were empty.
            self.swept_from = self.writer.sweep;
            self.reclaimed.clear();
            return Ok(());
        }
        let (shared, object) = (self.shared, self.shared.heap.object());
        if shared.media.opened().read_only {
            return Err(crate::Error::ReadOnly { object: shared.name() });
        }
        object.require_readable()?;
        let mut ops: Vec<Op> = self.allocated.iter().map(|block| shared.heap.op_allocate(block)).collect();
        ops.extend_from_slice(&self.frees);
        let other = 1 - self.writer.state;
        self.store_state(other, &ops)?;
        let ordered = shared.media.fence_after_unless("hashed-commit-unordered", ());
        object.require_readable()?;
        shared.commit_word().publish(&shared.media, self.version.commit_word(other), &ordered);
        shared.media.fence();
        // From here on the version may be real whatever happens.
        self.is_done = true;
        self.writer.state = other;
        // No crash replays the ledger before this one any more (HASH-3).
        let retired = std::mem::replace(&mut self.writer.unfinished, ops);
        shared.heap.finish(&retired);
        let committed = Committed {
            shape: self.shape.clone(),
            version: self.version,
            keys: self.keys,
            changes: std::mem::take(&mut self.changes),
            graves: std::mem::take(&mut self.graves),
        };
        let commit = Unsettled::new(&shared.media, ());
        if !commit.is_settled(&shared.media) {
            // The media may have to close its gate before the sync ends.
            self.section = None;
            if let Err(error) = commit.settle(&shared.media) {
                self.writer.unsettled = Some(committed);
                return Err(error.into());
            }
            self.section = Some(shared.media.section());
        }
        shared.apply(&mut self.writer, committed);
        // The commit word, or a word of the ledger, may have been stored to a page that is lost.
        Ok(object.require_readable()?)
    }

    /// Writes the state that the commit word will choose, and its ledger. The state in force is not
    /// touched.
    fn store_state(&mut self, other: usize, ops: &[Op]) -> Result<()> {
        let shared = self.shared;
        let mut words: Vec<u64> = ops.iter().map(|&op| u64::from(op)).collect();
        words.extend(self.changes.iter().flat_map(|(&at, &word)| [at, word]));
        if let Some(old) = self.writer.long_ledgers[other].take() {
            shared.heap.cancel(old);
        }
        let ledger = if words.len() <= LEDGER_WORDS {
            shared.area + (other * LEDGER_WORDS * 8) as u64
        } else {
            // Reserved, never marked: should the version not commit, the block is free without
            // further work.
            let block = shared.heap.reserve(words.len() as u64 * 8)?;
            self.writer.long_ledgers[other] = Some(block);
            block.at.get()
        };
        shared.media.copy_nt_unless("hashed-ledger-unflushed", ledger, words.as_bytes());
        let state = HashState {
            version: self.version,
            buckets: self.shape.buckets,
            keys: self.keys,
            ledger: Offset::new(ledger),
            ops: ops.len() as u32,
            stores: self.changes.len() as u32,
            ledger_sum: crc32c::crc32c(words.as_bytes()),
            ..HashState::new_zeroed()
        }
        .sealed();
        shared.media.copy_nt(shared.page + STATES_AT[other], state.as_bytes());
        Ok(())
    }
}

impl OpenHash {
    /// Step 5: what the ledger says, and readers see the version. Ordered by the first fence of the
    /// next one (HASH-2).
    pub(crate) fn apply(&self, writer: &mut Writer, committed: Committed) {
        self.heap.apply(&writer.unfinished);
        {
            // Readers are on no chain meanwhile.
            let mut seen = self.seen.write();
            for (&at, &word) in &committed.changes {
                self.media.store(at, word);
                self.media.flush(at, 8);
            }
            (seen.shape, seen.version, seen.keys) = (committed.shape, committed.version, committed.keys);
        }
        writer.applied = committed.changes.keys().copied().collect();
        writer.applied_by = thread::current();
        writer.graves.extend(committed.graves);
        if seeded("hashed-graves-lost") {
            writer.graves.clear();
        }
    }

    /// The word whose store makes a version real.
    fn commit_word(&self) -> PublishWord {
        PublishWord::new(Offset::new(self.page + COMMIT_AT))
    }
}
