//! Random interleavings: transactions in one another, panics in the program's `Drop`, `Ord`, `Hash`
//! and `Clone`, commits that fail, roll-backs, and guards that are held or forgotten all the while,
//! beside a volatile twin.
//!
//! After each outermost transaction
//!   - the deep check finds no damage and no leak;
//!   - the pool holds the values of the twin: the one before the transaction or, if it committed,
//!     the one that it made;
//!   - references borrowed outside, before, see their old values, and references borrowed by a
//!     captured root inside are refused;
//!   - volatile weak pointers are promoted exactly while their objects live;
//!   - each value with a destructor that a body made was dropped once, wherever it went.
//!
//! A failing program prints its number: `EVERBYTE_SEED=number` runs it alone. `EVERBYTE_SOAK=n`
//! runs 100 n programs, and `EVERBYTE_ROUND=k` the k-th so many.

mod program;
mod shelf;

use everbyte_media::museum;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Makes one test of this file wait for the other: all programs open a pool under one tag, and a
/// tag takes one pool at a time.
fn tag_is_ours() -> MutexGuard<'static, ()> {
    static TAG: Mutex<()> = Mutex::new(());
    TAG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs program `seed`.
///
/// # Errors
/// The output of the program, if it does not come to its end.
fn run(seed: u64) -> Result<(u32, u32), String> {
    static QUIET: Once = Once::new();
    thread_local!(static RUNS: Cell<bool> = const { Cell::new(false) });
    QUIET.call_once(|| {
        let tell = take_hook();
        set_hook(Box::new(move |info| {
            if !RUNS.get() {
                // panics of programs are part of them, and their traces would take most of the time
                tell(info);
            }
        }));
    });
    RUNS.set(true);
    let ran = catch_unwind(AssertUnwindSafe(|| program::run(seed)));
    RUNS.set(false);
    ran.map_err(|payload| {
        let text = payload.downcast::<String>().map_or_else(|_| "a panic".into(), |text| *text);
        format!("{text}; replay: EVERBYTE_SEED={seed:#x} cargo test -p everbyte-object --test soundness")
    })
}

#[test]
fn random_interleavings_are_those_of_their_twins() {
    let _tag = tag_is_ours();
    if let Some(seed) = everbyte_workload::given_seed() {
        println!("{:?}", program::run(seed));
        return;
    }
    let count = everbyte_workload::soak().map_or(60, |soak| 100 * soak.max(1));
    let first = 1_000_000 + everbyte_workload::round() * count;
    let (mut committed, mut all) = (0, 0);
    for seed in first..first + count {
        let ran = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        (committed, all) = (committed + ran.0, all + ran.1);
    }
    assert!((all / 4..all * 3 / 4).contains(&committed), "{committed} of {all} transactions committed");
}

#[test]
fn the_random_interleavings_find_every_seeded_bug_of_roll_backs_and_drops() {
    let _tag = tag_is_ours();
    // With the program that found it last, so that the search is short.
    let bugs = [
        ("object-borrow-outside", 0),
        ("object-payload-early", 2),
        ("object-failed-commit-counts", 4646),
        ("object-number-kept", 0),
        ("object-count-unlogged", 4646),
        ("object-drop-forgets", 0),
        ("object-vector-overwrites", 0),
        ("object-map-place-unnoted", 8),
        ("object-tree-shift-unnoted", 2),
    ];
    for (bug, last) in bugs {
        let found = std::iter::once(last).chain(0..200).find_map(|seed| museum::with(bug, || run(seed)).err());
        println!("{bug}: {found:?}");
        assert!(found.is_some(), "`{bug}` was not found");
    }
}
