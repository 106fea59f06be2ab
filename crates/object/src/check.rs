//! The deep check of a pool: what can be reached from the root, against what the heap says is allocated.
//!
//! Steps:
//!   1. the root and everything it points to is traced; no pointer is followed that leads to no block
//!   2. a block with two owners, or an owner of another kind, is reported
//!   3. the heap's own check hears what was reached: what is allocated besides has leaked
//!
//! Threads: nobody may change the pool meanwhile; [`crate::Root::check`] sees to it by running as a transaction, and the
//! caller by the locks of its own program.

use crate::inner::Inner;
use crate::layout::{HEADER, Header};
use crate::{MemPool, PSafe, Tracer};
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

/// Checks the pool whose root of type `R` lies at `root` from the base.
pub(crate) fn check<R: PSafe<P>, P: MemPool>(inner: &Inner, root: u64) -> Vec<Finding> {
    let mut tracer = Tracer::new(inner);
    tracer.owned::<R, P>(root); // 1
    tracer.run();
    let prime = inner.object.prime();
    let header: Header = inner.media().get(prime + HEADER);
    let mut findings = Vec::new();
    let mut add = |kind, at, detail: String| {
        findings.push(Finding { room: "object", kind, at, object: Some(inner.object.name().into()), detail });
    };
    for (at, what) in &tracer.faults {
        add(FindingKind::Damage, *at, what.clone());
    }
    for (at, met) in &tracer.met {
        if met.owned > 1 || met.owned == 1 && met.strong + met.weak > 0 {
            add(FindingKind::DoubleUse, *at, format!("a block with {} owners", met.owned + met.strong + met.weak)); // 2
        }
    }
    for (at, (strong, weak)) in &tracer.counts {
        let met = tracer.met[at];
        if (*strong, *weak) != (met.strong, met.weak) {
            let (found, whole) = ((met.strong, met.weak), (strong, weak));
            let detail = format!("its counts say {whole:?} strong and weak pointers, and {found:?} were found");
            add(FindingKind::Damage, *at, detail);
        }
    }
    let mut reachable: BTreeSet<u64> = tracer.met.keys().copied().collect();
    reachable.insert(prime + header.schema);
    reachable.insert(inner.undo.lanes_at());
    findings.extend(inner.undo.heap().check(Some(&reachable))); // 3
    findings
}
