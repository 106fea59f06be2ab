//! Growth by one bucket: it takes the entries of one other whose hashes now lead to it.

use crate::error::Result;
use crate::hashed::batch::HashBatch;
use crate::hashed::layout::*;
use crate::hashed::shape::{BUCKETS_MAX, bucket_of, first_of, segment_len, segment_of, split_by};
use everbyte_media::seeded;

impl HashBatch<'_> {
    /// Adds buckets until there are as many as keys. If that fails, chains grow instead: a full
    /// store takes the key all the same, and a read of a damaged chain reports it.
    pub(crate) fn grow(&mut self) {
        while self.shape.buckets < self.keys.min(BUCKETS_MAX) {
            if self.split().is_err() {
                return;
            }
        }
    }

    fn split(&mut self) -> Result<()> {
        let new = self.shape.buckets;
        let old = split_by(new);
        // The two chains, in the order of the one, before anything is changed.
        let mut parts: [Vec<u64>; 2] = Default::default();
        let mut chain = self.chains().bucket(old)?;
        while let Some(entry) = chain.next()? {
            parts[usize::from(bucket_of(entry.head.hash, new + 1) == new)].push(entry.at);
        }
        let segment = segment_of(new);
        if new == first_of(segment) {
            let block = self.shared.heap.reserve(segment_len(segment))?;
            self.shape.segments[segment] = block.at.get();
            self.set(self.shared.page + SEGMENTS_AT + segment as u64 * 8, block.at.get());
            self.allocated.push(block);
        }
        self.shape.buckets = new + 1;
        for (part, bucket) in parts.iter().zip([old, new]) {
            let head_at = self.shape.head_at(bucket);
            // The word of a new bucket holds anything, and what it holds may not be durable.
            let links = part.iter().map(|entry| entry + NEXT_AT);
            let links = std::iter::once(head_at).chain(links).zip(part.iter().copied().chain([0]));
            for (link_at, entry) in links.collect::<Vec<_>>() {
                let is_new = bucket == new && link_at == head_at;
                let is_left_out = entry == 0 && seeded("hashed-split-leaves-links");
                if (is_new || self.chains().number(link_at)? != entry) && !is_left_out {
                    self.set(link_at, entry);
                }
            }
        }
        Ok(())
    }
}
