//! Walking an engine: its lanes, and the heap under them. Changes nothing on media.

use crate::layout::{LANES_AT, TABLE, Table};
use crate::{Result, Undo};
use everbyte_log::{Journal, Outcome};
use everbyte_media::Checked;
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

impl Undo {
    /// Verifies the lanes and the heap; with `reachable`, the starts of all blocks that data points
    /// to, also that nothing is leaked and nothing freed is in use. Waits for running transactions;
    /// no thread may begin one or allocate meanwhile. An empty list: all is well.
    pub fn check(&self, reachable: Option<&BTreeSet<u64>>) -> Vec<Finding> {
        let heap = self.heap();
        let (prime, media) = (heap.object().prime(), self.media());
        let mut findings = Vec::new();
        let mut add = |at, detail: String| {
            let object = Some(heap.object().name().into());
            findings.push(Finding { room: "tx", kind: FindingKind::Damage, at, object, detail });
        };
        let table: Table = media.get(prime + TABLE);
        if !table.checksum_agrees() {
            add((prime + TABLE).get(), "the lane table fails its checksum".into());
        }
        let needed = self.inner.lanes.len() as u64 * table.lane_len.get();
        match heap.size_of(table.lanes_at.get()) {
            Ok(size) if size >= needed => {}
            Ok(size) => {
                add(table.lanes_at.get(), format!("the block of the lanes has {size} bytes and they need {needed}"))
            }
            Err(error) => add((prime + LANES_AT).get(), format!("the lanes lie in no block: {error}")),
        }
        for (index, lane) in self.inner.lanes.iter().enumerate() {
            let Ok(lane) = self.inner.wait_for(lane) else {
                let detail = format!("a rollback has failed in lane {index}; close the store and open it again");
                add(self.inner.lane_bytes.start, detail);
                continue;
            };
            if let Err((at, detail)) = self.check_lane(lane.journal.at(), table.lane_len.get()) {
                add(at, detail);
            }
        }
        let reachable = reachable.map(|blocks| {
            let mut all = blocks.clone();
            all.insert(table.lanes_at.get());
            all
        });
        findings.extend(heap.check(reachable.as_ref()));
        findings
    }

    /// An unused lane is whole and retired.
    fn check_lane(&self, at: u64, len: u64) -> Result<(), (u64, String)> {
        let object = self.heap().object();
        let whole = at.checked_add(len).ok_or((at, "the lane ends beyond any store".to_string()))?;
        match Journal::recover(self.media(), at..whole, object.prime().get()..object.backed().get()) {
            Ok(found) if matches!(found.outcome(), Outcome::Idle) => Ok(()),
            Ok(_) => Err((at, "this lane is unused and has entries in force".into())),
            Err(error) => Err((at, error.to_string())),
        }
    }
}
