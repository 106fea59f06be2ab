//! Walking an engine: its table, its floor, and the heap under them. Changes nothing on media.

use super::Redo;
use super::layout::{FLOOR, FORMAT, MAGIC};
use crate::table;
use everbyte_media::sealed::unseal_low;
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

impl Redo {
    /// Verifies the engine's own words and the heap; with `reachable`, the starts of all blocks
    /// that data points to, also that nothing is leaked and nothing freed is in use. No thread may
    /// run a transaction or allocate meanwhile. An empty list: no findings. The logs themselves
    /// were verified when the engine was opened.
    pub fn check(&self, reachable: Option<&BTreeSet<u64>>) -> Vec<Finding> {
        let heap = self.heap();
        let (prime, media) = (heap.object().prime(), self.media());
        let mut findings = Vec::new();
        let mut add = |at, detail: String| {
            let object = Some(heap.object().name().into());
            findings.push(Finding { room: "tx", kind: FindingKind::Damage, at, object, detail });
        };
        if let Err(error) = table::read(heap, (MAGIC, FORMAT)) {
            add((prime + crate::layout::TABLE).get(), error.to_string());
        }
        if unseal_low(media.load(prime + FLOOR)).is_none() {
            add((prime + FLOOR).get(), "the floor of the logs fails its check bits".into());
        }
        let reachable = reachable.map(|blocks| {
            let mut all = blocks.clone();
            all.insert(self.logs_at().get());
            all
        });
        findings.extend(heap.check(reachable.as_ref()));
        findings
    }
}
