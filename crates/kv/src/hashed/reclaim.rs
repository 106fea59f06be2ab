//! Reclaiming: each commit unlinks and frees a few entries that no version in use can see, those
//! that the writer knows of first, then those that a sweep over the buckets finds, once after each
//! opening.

use crate::error::Result;
use crate::hashed::batch::HashBatch;
use crate::hashed::layout::{LEDGER_WORDS, NEXT_AT};

/// Graves, and buckets of the sweep, that one commit looks at.
const STEPS: usize = 8;

/// Most words of a ledger that one dead entry takes: its block, and a link with its new value.
const ENTRY_WORDS: usize = 3;

impl HashBatch<'_> {
    /// Takes part of the dead into this version. Damage ends it without an error: a read or a check
    /// of that chain reports it.
    ///
    /// A small batch stays within the area of its ledger, which needs no space: a full store can be
    /// emptied. A batch that takes more than half of the area itself may reclaim beyond it.
    pub(crate) fn reclaim(&mut self) {
        let (horizon, own) = (self.shared.oldest(), self.ledger_words());
        let most = if own <= LEDGER_WORDS / 2 { LEDGER_WORDS } else { own + LEDGER_WORDS };
        for _ in 0..STEPS {
            let Some(grave) = self.writer.graves.pop_front_if(|grave| grave.end <= horizon) else { break };
            if !self.clean(self.shape.bucket_of(grave.hash), horizon, most).unwrap_or(true) {
                self.writer.graves.push_front(grave);
                return;
            }
            self.reclaimed.push(grave);
        }
        for _ in 0..STEPS {
            let Some(bucket) = self.writer.sweep else { break };
            if !self.clean(bucket, horizon, most).unwrap_or(true) {
                return;
            }
            self.writer.sweep = Some(bucket + 1).filter(|&next| next < self.shape.buckets);
        }
    }

    /// Words of this batch's ledger as it stands.
    fn ledger_words(&self) -> usize {
        self.allocated.len() + self.frees.len() + 2 * self.changes.len()
    }

    /// Unlinks and frees the entries of a bucket that no version from `horizon` on sees, as many as
    /// a ledger of `most` words has room for. `false`: there are more.
    fn clean(&mut self, bucket: u64, horizon: u64, most: usize) -> Result<bool> {
        let room = most.saturating_sub(self.ledger_words()) / ENTRY_WORDS;
        let mut link_at = self.shape.head_at(bucket);
        let (mut dead, mut is_clean) = (Vec::new(), true);
        let mut chain = self.chains().bucket(bucket)?;
        while let Some(entry) = chain.next()? {
            if !entry.is_dead_at(horizon) {
                link_at = entry.at + NEXT_AT;
            } else if dead.len() == room {
                is_clean = false;
                break;
            } else {
                dead.push((link_at, entry.at, entry.next));
            }
        }
        for (link_at, at, next) in dead {
            let op = self.shared.heap.op_free(at)?;
            self.frees.push(op);
            self.set(link_at, next);
        }
        Ok(is_clean)
    }
}
