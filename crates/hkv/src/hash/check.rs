//! Walks everything and verifies the invariants. Reads only; never panics on bytes from media.

use super::chain::{Bucket, Chain};
use super::{Hash, place_of};
use crate::layout::{BUCKET, PLACE_BITS};
use crate::raw::Raw as _;
use crate::{Result, hasher};
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

impl Hash {
    /// Verifies buckets, records and their checksums, and hands the blocks in use to the heap's own
    /// check, which reports leaks and double use. The cost is that of reading everything. An empty
    /// list: all is well.
    pub fn check(&self) -> Vec<Finding> {
        let state = self.state.write(); // no other thread may change the heap meanwhile
        let object = || Some(self.object().name().to_string());
        let mut findings = Vec::new();
        let mut blocks = BTreeSet::from([self.base.root]);
        blocks.extend(state.segments.iter().filter(|&&segment| segment != 0));
        for index in 0..state.buckets {
            let at = state.bucket_at(index);
            for (at, detail) in self.check_chain(index, at, |hash| state.index_of(hash), &mut blocks) {
                findings.push(Finding { room: "hkv", kind: FindingKind::Damage, at, object: object(), detail });
            }
        }
        let whole = findings.is_empty();
        findings.extend(self.base.undo.check(whole.then_some(&blocks)));
        findings
    }

    fn check_chain(
        &self,
        index: u64,
        first: u64,
        index_of: impl Fn(u64) -> u64,
        blocks: &mut BTreeSet<u64>,
    ) -> Vec<(u64, String)> {
        let mut wrong = Vec::new();
        let mut keys = BTreeSet::new();
        for bucket in Chain::of(self, first) {
            let bucket: Bucket = match bucket {
                Ok(bucket) => bucket,
                Err(error) => {
                    wrong.push((first, error.to_string()));
                    break;
                }
            };
            if bucket.at != first && !blocks.insert(bucket.at) {
                wrong.push((bucket.at, "a bucket in two chains".into()));
                break;
            }
            for (at, slot) in bucket.slots() {
                match self.check_record(slot) {
                    Err(error) => wrong.push((at, error.to_string())),
                    Ok((hash, _)) if index_of(hash) != index => {
                        wrong.push((at, "a record in a bucket that is not its own".into()));
                    }
                    Ok((_, key)) if !keys.insert(key.clone()) => wrong.push((at, "a key twice".into())),
                    Ok(_) if !blocks.insert(place_of(slot)) => wrong.push((at, "a record in two slots".into())),
                    Ok(_) => {}
                }
            }
        }
        wrong
    }

    /// Reads a record whole; returns its hash and key.
    fn check_record(&self, slot: u64) -> Result<(u64, Vec<u8>)> {
        let record = self.record(slot)?;
        let key = record.verify(self.heap())?;
        let hash = hasher::hash(self.seed, &key);
        if record.head.hash != hash || hash >> PLACE_BITS != slot >> PLACE_BITS {
            return Err(self.base.damaged(record.at, "a record whose hash is another key's"));
        }
        Ok((hash, key))
    }
}

const _: () = assert!(BUCKET == 64);
