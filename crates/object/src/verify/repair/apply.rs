//! Carrying out a plan: transactions of a bounded size, in the order of REPAIR-1.

use super::{RepairPlan, is_lost};
use crate::transaction::open_pool::OpenPool;
use crate::verify::deep::report::FaultKind;
use crate::{Error, Result};
use everbyte_media::museum::{misplaced, unless};
use everbyte_tx::{Tx, TxError};

/// The most that one transaction changes: objects, or blocks.
const BATCH: usize = 64;

/// Carries out the plan. Settled on return.
pub(crate) fn apply(inner: &OpenPool, plan: &RepairPlan) -> Result<()> {
    let leaks: Vec<u64> = plan.leaks().map(|leak| leak.at.get()).collect();
    let free = || each(inner, &leaks, |tx, &at| tx.free(at));
    let mend = || {
        each(inner, plan.counts(), |tx, fault| {
            let at = fault.at.get();
            match fault.kind {
                FaultKind::Counts { found, .. } if is_lost(fault) => tx.store(at + 8, found.1),
                FaultKind::Counts { found, .. } => tx.store(at, found.0).and_then(|()| tx.store(at + 8, found.1)),
                _ => unreachable!("REPAIR-3: only counts are mended"),
            }
        })
    };
    inner.counts.forget_all(leaks.iter().chain(&plan.given_up).map(|at| at - inner.object.prime().get()));
    misplaced("object-repair-frees-first", free)?;
    misplaced("object-repair-counts-first", mend)?;
    each(inner, &plan.given_up, |tx, &at| tx.store(at, 0))?; // 1
    mend()?; // 2
    unless("object-repair-frees-first", free) // 3
}

/// Changes all of them, so many in a transaction.
fn each<T>(inner: &OpenPool, all: &[T], change: impl Fn(&Tx<'_>, &T) -> everbyte_tx::Result<()>) -> Result<()> {
    for some in all.chunks(BATCH) {
        let done = inner.undo.run(|tx| some.iter().try_for_each(|one| change(tx, one)));
        done.map_err(|error| match error {
            TxError::Aborted(error) | TxError::Engine(error) => Error::from(error),
            _ => Error::Doomed,
        })?;
    }
    Ok(())
}
