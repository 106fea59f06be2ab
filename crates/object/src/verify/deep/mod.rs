//! The deep check of a pool: the blocks that can be reached from the root, against the blocks
//! that the heap has allocated.
//!
//! Steps:
//!   1. the heap's tables are checked
//!   2. a walk from the root meets every block that something points to; if it finds faults a
//!      second one records the paths
//!   3. every allocated block is compared with the blocks met: the rest has leaked, if every
//!      pointer was followed (DEEP-1)
//!
//! Memory: a 128th of the clusters with blocks in use, 48 bytes for each counted object and 24 for
//! each that a weak pointer led to first, 48 for each block that waits, and, once faults are found,
//! 16 for each block on the longest way from the root. In a pool of the bridge 48 bytes for each
//! object of C++, with its path once faults are found, and a multiple of the texts of its classes.

mod cpp;
pub(crate) mod guess;
mod lost;
pub(crate) mod maps;
pub(crate) mod reader;
pub(crate) mod report;
mod starts;
mod trail;
pub(crate) mod types;
pub(crate) mod walk;

use crate::transaction::counts::Spread;
use everbyte_heap::Heap;
use everbyte_store::{Finding, FindingKind, Total};
use report::{Fault, FaultKind, Report};
use std::collections::BTreeMap;
use std::hash::Hasher;
use walk::{HeapWalk, Tally};

/// The start of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Root,
    /// Blocks that it has met already.
    Met,
}

/// Checks the pool whose heap this is, and whose own blocks, besides those that its root leads to,
/// are `own`. `walk` lets a walk follow everything that it has met, and, if that is asked for, the
/// root; `checked` are the findings of the heap's own check.
pub(crate) fn examine<'w, V: Copy>(
    heap: &'w Heap,
    own: &[u64],
    checked: Vec<Finding>,
    progress: &'w dyn Fn(u64),
    walk: impl Fn(HeapWalk<'w, V>, Start) -> HeapWalk<'w, V>,
) -> Report {
    let go = |told| {
        let mut new = HeapWalk::new(heap, told, progress);
        own.iter().for_each(|&at| new.own(at));
        walk(new, Start::Root)
    };
    let mut met = go(None); // 2
    let wrong: BTreeMap<u64, Vec<String>> = met
        .tallies
        .iter()
        .filter(|(word, tally)| is_wrong(&met, **word, tally))
        .map(|(&word, _)| (word, Vec::new()))
        .collect();
    if !wrong.is_empty() || !met.faults.is_empty() {
        drop(met);
        met = go(Some(wrong));
    }
    let mut report = Report { object: heap.object().name().into(), heap: checked, ..Report::default() };
    report.faults = std::mem::take(&mut met.faults);
    report.faults_left_out = met.faults_left_out;
    for (word, paths) in std::mem::take(&mut met.told) {
        report.faults.extend(owners(&met, word, paths));
    }
    report.unread = std::mem::take(&mut met.unread).into_iter().collect();
    report.lost = lost::lost(&met, |word, what| walk(HeapWalk::single(heap, word, what), Start::Met));
    sweep(heap, &met, &mut report); // 3
    report
}

/// Whether a block's owners or counts are to be reported. An opaque value may hold pointers that no
/// count was compared with.
fn is_wrong<V: Copy>(met: &HeapWalk<'_, V>, word: u64, tally: &Tally) -> bool {
    let may_be_right = |(strong, weak)| met.is_perhaps(word) && strong >= tally.strong && weak >= tally.weak;
    tally.is_double() || !tally.is_counted_right() && !tally.stored.is_some_and(may_be_right)
}

fn owners<V: Copy>(met: &HeapWalk<'_, V>, word: u64, mut paths: Vec<String>) -> Option<Fault> {
    paths.sort_unstable();
    let tally = met.tallies.get(&word)?;
    let at = met.place(word).into();
    let found = (tally.strong, tally.weak);
    let (kind, detail) = match tally.stored {
        _ if tally.is_double() => {
            let (all, alone) = (tally.alone + tally.strong + tally.weak, tally.alone);
            (FaultKind::Owners, format!("a block with {all} owners, {alone} of which should be alone"))
        }
        Some(stored) if tally.is_dead() => {
            (FaultKind::Counts { stored, found }, format!("{} strong pointers to a value that was dropped", found.0))
        }
        Some(stored) => {
            let ((s, w), (fs, fw)) = (stored, found);
            let detail = format!("its counts say {s} strong and {w} weak pointers, and {fs} and {fw} were found");
            (FaultKind::Counts { stored, found }, detail)
        }
        None => return None,
    };
    Some(Fault { kind, at, paths, detail })
}

/// Compares the allocated blocks with the blocks met.
fn sweep<V: Copy>(heap: &Heap, met: &HeapWalk<'_, V>, report: &mut Report) {
    let is_sure = report.faults.iter().all(Fault::is_followed)
        && report.heap.iter().all(|finding| finding.kind == FindingKind::Note);
    let (mut reached, mut leaked, mut unsure) = (Total::default(), Total::default(), Total::default());
    let prime = heap.object().prime();
    let mut state = Spread::default();
    let swept = heap.blocks(|block| {
        let is_met = met.is_met((block.at - prime).get());
        [(block.at - prime).get(), block.size.get(), is_met.into()].into_iter().for_each(|word| state.write_u64(word));
        if is_met {
            return add(&mut reached, &block);
        }
        let is_leaked = is_sure && !met.is_perhaps((block.at - prime).get());
        if is_leaked {
            add(&mut leaked, &block)
        } else {
            add(&mut unsure, &block)
        };
        report.unreached.push((block, is_leaked));
    });
    (report.reached, report.leaked, report.unsure) = (reached, leaked, unsure);
    let counted =
        met.tallies.iter().filter_map(|(&word, tally)| tally.stored.map(|(strong, weak)| [word, strong, weak]));
    let mut counted: Vec<[u64; 3]> = counted.collect();
    counted.sort_unstable(); // makes the report independent of hash order
    counted.as_flattened().iter().for_each(|&word| state.write_u64(word));
    report.state = state.finish();
    if let Err(error) = swept {
        let object = Some(report.object.clone());
        report.heap.push(Finding {
            room: "heap",
            kind: FindingKind::Damage,
            at: prime.get(),
            object,
            detail: error.to_string(),
        });
    }
}

fn add(total: &mut Total, block: &everbyte_heap::Block) {
    total.blocks += 1;
    total.bytes += block.size.get();
}
