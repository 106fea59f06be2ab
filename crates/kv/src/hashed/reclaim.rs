//! Reclaiming: each commit unlinks and frees a few entries that no version in use can see, those
//! that the writer knows of first, then those that a sweep over the buckets finds, once after each
//! opening.

use crate::error::Result;
use crate::hashed::batch::HashBatch;
use crate::hashed::layout::NEXT_AT;

/// Graves, and buckets of the sweep, that one commit looks at.
const STEPS: usize = 8;

impl HashBatch<'_> {
    /// Takes part of the dead into this version. Damage ends it without an error: a read or a check
    /// of that chain reports it.
    pub(crate) fn reclaim(&mut self) {
        let horizon = self.shared.oldest();
        for _ in 0..STEPS {
            let Some(grave) = self.writer.graves.pop_front_if(|grave| grave.end <= horizon) else { break };
            self.reclaimed.push(grave);
            let _ = self.clean(self.shape.bucket_of(grave.hash), horizon);
        }
        for _ in 0..STEPS {
            let Some(bucket) = self.writer.sweep else { break };
            let _ = self.clean(bucket, horizon);
            self.writer.sweep = Some(bucket + 1).filter(|&next| next < self.shape.buckets);
        }
    }

    /// Unlinks and frees the entries of a bucket that no version from `horizon` on sees.
    fn clean(&mut self, bucket: u64, horizon: u64) -> Result<()> {
        let mut link_at = self.shape.head_at(bucket);
        let mut dead = Vec::new();
        let mut chain = self.chains().bucket(bucket)?;
        while let Some(entry) = chain.next()? {
            if entry.is_dead_at(horizon) {
                dead.push((link_at, entry.at, entry.next));
            } else {
                link_at = entry.at + NEXT_AT;
            }
        }
        for (link_at, at, next) in dead {
            let op = self.shared.heap.op_free(at)?;
            self.frees.push(op);
            self.set(link_at, next);
        }
        Ok(())
    }
}
