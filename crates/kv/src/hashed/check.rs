//! Walks everything a hash table has and verifies its invariants. Reads only; never panics on what
//! it finds.

use crate::hashed::chain::Chains;
use crate::hashed::shape::segment_of;
use crate::hashed::table::OpenHash;
use everbyte_media::ErrorInfo;
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

impl OpenHash {
    pub(crate) fn check(&self) -> Vec<Finding> {
        // No writer meanwhile.
        let _writer = self.writer.lock();
        let seen = self.seen.read();
        let chains = Chains { table: self, shape: &seen.shape, changes: None };
        let mut findings = Vec::new();
        let mut find = |kind, at: u64, detail: String| {
            findings.push(Finding { room: "hash table", kind, at, object: Some(self.name()), detail });
        };
        let segments = &seen.shape.segments[..segment_of(seen.shape.buckets - 1) + 1];
        let mut owned: BTreeSet<u64> = segments.iter().copied().chain([self.area]).collect();
        let (mut keys, mut is_whole) = (0, true);
        for bucket in 0..seen.shape.buckets {
            let mut live = BTreeSet::new();
            let walked = chains.bucket(bucket).and_then(|mut chain| {
                while let Some(entry) = chain.next()? {
                    if !owned.insert(entry.at) {
                        find(FindingKind::DoubleUse, entry.at, "two links lead to this entry".into());
                        break; // perhaps a circle
                    }
                    let newest = seen.version;
                    if entry.head.start > newest
                        || newest < entry.end
                        || (entry.end != 0 && entry.head.start > entry.end)
                    {
                        find(FindingKind::Damage, entry.at, "an entry is of a version that is not yet".into());
                    }
                    let (key, _) = self.read(&entry)?;
                    if entry.end == 0 {
                        keys += 1;
                        if !live.insert(key) {
                            find(FindingKind::Damage, entry.at, "a key has two live entries".into());
                        }
                    }
                }
                Ok(())
            });
            if let Err(error) = walked {
                is_whole = false;
                let at = error.damage().and_then(|damage| damage.offset).unwrap_or(self.page);
                find(FindingKind::Damage, at, error.to_string());
            }
        }
        if is_whole && keys != seen.keys {
            let detail = format!("the hash table holds {keys} keys and its state says {}", seen.keys);
            find(FindingKind::Damage, self.page, detail);
        }
        // Behind damage, blocks that seem to leak may be in use.
        findings.extend(self.heap.check(is_whole.then_some(&owned)));
        findings
    }
}
