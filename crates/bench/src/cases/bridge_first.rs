//! `mut_first` of the case `bridge`: a transaction that changes one number. Its time is mostly that
//! of three fences, and differs by a tenth from one store to the next, with the pages that the
//! kernel gives to it. So every round has stores of its own on all sides, and the program is
//! started anew; the values of the rounds then differ as the stores do, and their medians do not.

use super::Result;
use super::bridge::{CPP, MOST, NS, POOL, Program, RIVAL, RUST, done, timed};
use crate::harness::{Bench, Runner};
use crate::ours::NAME;
use crate::report::Bar;
use everbyte_bench_rivals::{CppRow, Pmemobj, PmemobjCpp};
use everbyte_media::{Counts, Options};
use everbyte_object::{PRefCell, Pool, pool};
use everbyte_store::{CreateOptions, Store};
use std::cell::Cell;
use std::path::Path;

pool!(
    /// Of the Rust side.
    pub Once
);

type Number = PRefCell<u64, Once>;

/// Measures the program at `program` under the name `metric`, against Rust, and under the metric's
/// usual name against libpmemobj and libpmemobj-cpp.
pub(super) fn run(bench: &mut Bench<'_>, memory: &Path, words: &Path, program: &Path, metric: &str) -> Result {
    let folder = || tempfile::tempdir_in(memory).expect("a folder on the memory");
    let counted = Cell::new(Counts::default());
    let ours = |count| {
        let folder = folder();
        let mut program = Program::start(program, &folder.path().join("cpp"), words).expect("it has started before");
        let _ = program.ask("mut_first", count);
        let before = program.counts();
        let took = program.ask("mut_first", count).0;
        counted.set(counted.get() + (program.counts() - before));
        took
    };
    let rust = |count| {
        let folder = folder();
        let create = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
        let store = Store::create(&folder.path().join("rust"), &create).expect("a store");
        let number = done(Once::create::<Number>(&store, "number", |_| PRefCell::new(0)));
        let work = || (0..count).for_each(|value| done(number.tx(|j, number| *number.borrow_mut(j) = value)));
        work();
        timed(work)
    };
    let mut runners = vec![Runner::timed(NAME, ours).counted_by(|| counted.get()), Runner::timed(RUST, rust)];
    if metric == "mut_first" && Pmemobj::create(&folder().path().join("pool"), POOL)?.is_some() {
        let theirs = |count| {
            let folder = folder();
            let pool = Pmemobj::create(&folder.path().join("pool"), POOL).expect("a pool").expect("it is installed");
            pool.update(count, 100, 1, 8);
            timed(|| pool.update(count, 100, 1, 8))
        };
        runners.push(Runner::timed(RIVAL, theirs));
        if PmemobjCpp::create(&folder().path().join("pool"), POOL)?.is_some() {
            let theirs = |count| {
                let folder = folder();
                let pool = PmemobjCpp::create(&folder.path().join("pool"), POOL);
                let pool = pool.expect("a pool").expect("its headers are installed");
                let _ = pool.row(CppRow::MutFirst, count);
                pool.row(CppRow::MutFirst, count)
            };
            runners.push(Runner::timed(CPP, theirs));
        }
        bench.bars = vec![Bar::new(RUST, 1.0 / 1.05)];
    }
    bench.metric(metric, NS, MOST, runners);
    Ok(())
}
