//! Repair of a pool: counts are mended and leaks freed, after a plan that says which, and only if
//! the pool is still the one that was planned for.
//!
//! Steps, each of many small transactions (`apply.rs`):
//!   1. values that only weak pointers lead to are given up: their last strong pointers were lost
//!   2. counts become the numbers of the pointers that were found
//!   3. blocks that nothing leads to are freed
//!
//! Invariants
//!   REPAIR-1  Values that a program can reach between two of these transactions are whole: a
//!             value is given up before its contents are counted less or freed, and no count is
//!             ever lower
//!             than the pointers that can be reached.
//!   REPAIR-2  A repair that ended early is finished by the next one.
//!   REPAIR-3  Where anything could not be followed nothing is repaired.
//!
//! Threads: one, and no other thread has the pool meanwhile; the callers ensure it.

mod apply;

use crate::layout::Header;
use crate::transaction::counts::Spread;
use crate::transaction::open_pool::OpenPool;
use crate::verify::deep::report::{Fault, FaultKind, Leak, Report};
use crate::{Error, Result};
use everbyte_media::{Damage, seeded};
use everbyte_store::{FindingKind, Token};
use std::collections::BTreeSet;
use std::hash::Hasher;

/// The changes that a repair of a pool would make. Nothing has changed yet.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    /// The state of the pool without the values to be given up.
    report: Report,
    /// Values to be given up, by their store offsets: a value that holds another comes first.
    given_up: Vec<u64>,
    token: Token,
}

impl RepairPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.report.faults.is_empty() && self.report.leaked.blocks == 0
    }

    /// The name of this plan for this state of the pool: a repair under it is refused if either has
    /// changed.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The objects whose counts would be mended. Those of no strong pointer at all lose their
    /// values: only weak pointers lead to them.
    pub fn counts(&self) -> &[Fault] {
        &self.report.faults
    }

    /// The blocks that would be freed.
    pub fn leaks(&self) -> impl Iterator<Item = Leak<'_>> {
        self.report.leaks()
    }

    /// The state of the pool, apart from that.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

/// Plans the repair of a pool that `look` examines, without the values of the given objects
/// (offsets of the pool).
pub(crate) fn plan(inner: &OpenPool, header: &Header, look: impl Fn(&BTreeSet<u64>) -> Report) -> Result<RepairPlan> {
    let prime = inner.object.prime();
    let (mut given_up, mut lost) = (Vec::new(), BTreeSet::new());
    let mut report = look(&lost);
    require_sure(&report)?;
    loop {
        let new = report.lost.iter().filter(|&&word| lost.insert(word)).map(|word| prime.get() + word);
        let before = given_up.len();
        given_up.extend(new);
        if given_up.len() == before {
            break;
        }
        report = look(&lost);
        require_sure(&report)?;
    }
    let token = token(inner, header, &report, &given_up);
    Ok(RepairPlan { report, given_up, token })
}

/// Carries out the plan, made just now, if it is the one that is asked for.
pub(crate) fn run(inner: &OpenPool, token: Token, plan: RepairPlan) -> Result<RepairPlan> {
    if plan.token != token && !seeded("object-repair-unasked") {
        return Err(Error::Changed { object: inner.object.name().into() });
    }
    apply::apply(inner, &plan)?;
    Ok(plan)
}

/// A value that is there, and no strong pointer to it.
fn is_lost(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Counts { stored: (1.., _), found: (0, _) })
}

/// REPAIR-3.
fn require_sure(report: &Report) -> Result<()> {
    let refuse = |at, detail: String| Err(Error::Unrepairable(Damage::at(at, detail).of_object(&report.object).into()));
    if let Some(found) = report.heap.iter().find(|finding| finding.kind != FindingKind::Note) {
        return refuse(found.at, format!("{found}; that is to be put right first"));
    }
    let is_mendable = |fault: &Fault| matches!(fault.kind, FaultKind::Counts { .. }) && fault.is_followed();
    if let Some(fault) = report.faults.iter().find(|fault| !is_mendable(fault)) {
        return refuse(fault.at.get(), format!("{fault}; nothing is sure to have leaked while that is so"));
    }
    let has_work = report.leaked.blocks > 0 || !report.faults.is_empty();
    match report.unread.first() {
        Some((of, _)) if has_work => {
            let way_out = "`Root::repair` in its program sees what they hold";
            refuse(0, format!("the description does not tell what values of `{of}` hold; {way_out}"))
        }
        _ => Ok(()),
    }
}

fn token(inner: &OpenPool, header: &Header, report: &Report, given_up: &[u64]) -> Token {
    let mut hash = Spread::default();
    let identity = u128::from_le_bytes(inner.object.store().identity());
    hash.write_u64(identity as u64);
    hash.write_u64((identity >> 64) as u64);
    for word in [inner.object.id().get(), header.generation, header.root.get(), header.fingerprint, report.state] {
        hash.write_u64(word);
    }
    given_up.iter().for_each(|&at| hash.write_u64(at));
    for fault in &report.faults {
        hash.write_u64(fault.at.get());
        if let FaultKind::Counts { stored, found } = fault.kind {
            [stored.0, stored.1, found.0, found.1].into_iter().for_each(|count| hash.write_u64(count));
        }
    }
    Token::from(hash.finish())
}
