//! Recovery: uncommitted lanes are rolled back, committed ones finished. Each step may be
//! repeated.
//!
//! Steps:
//!   1. every lane is read; nothing is changed before all of them have been understood
//!   2. uncommitted lanes: old bytes back. Committed lanes: their operations applied
//!   3. every lane retired, idle ones too
//!   4. blocks that were freed become allocatable

use crate::layout::{FORMAT, MAGIC};
use crate::{Result, table};
use everbyte_heap::{Heap, Op};
use everbyte_log::{Journal, Outcome};

/// Findings and mends of the opening of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Transactions rolled back.
    pub rolled_back: u64,
    /// Transactions that had committed and whose blocks were finished.
    pub finished: u64,
}

/// The lanes, and the work of recovery.
pub(crate) fn recover(heap: &Heap) -> Result<(Vec<Journal>, Recovered)> {
    let allowed = heap.object().prime().get()..heap.object().backed().get();
    let lanes = table::read(heap, (MAGIC, FORMAT))?;
    let recover = |lane| Journal::recover(heap.media(), lane, allowed.clone());
    let recoveries: Vec<_> = lanes.each().map(recover).collect::<Result<_, _>>()?; // 1
    for op in recoveries.iter().flat_map(|recovery| recovery.ops()) {
        heap.validate(Op::from(*op))?;
    }
    let mut recovered = Recovered::default();
    let mut finished: Vec<Op> = Vec::new();
    for recovery in &recoveries {
        match recovery.outcome() {
            Outcome::Idle => {}
            Outcome::Undo => {
                recovery.undo(); // 2
                recovered.rolled_back += 1;
            }
            Outcome::Redo => {
                let ops: Vec<Op> = recovery.ops().iter().map(|&op| Op::from(op)).collect();
                heap.apply(&ops);
                finished.extend(ops);
                recovered.finished += 1;
            }
        }
    }
    let journals = recoveries.into_iter().map(|recovery| recovery.finish()).collect(); // 3
    heap.finish(&finished); // 4
    Ok((journals, recovered))
}
