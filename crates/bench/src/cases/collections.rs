//! `collections`: queues, sets and sorting of typed objects beside those of the standard library.
//!
//! A round of ours is one transaction, its commit included: its log has each changed line once.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::ours::NAME;
use everbyte_media::Options;
use everbyte_object::{MemPool, PHashSet, PRefCell, PSafe, PVec, PVecDeque, Pool, pool};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::mix;
use std::collections::{HashSet, VecDeque};
use std::hint::black_box;

pool!(
    /// Of the pool of this case.
    Collections
);

/// Elements of a round.
const MOST: u64 = 100_000;
/// Elements that a queue holds between operations.
const QUEUED: u64 = 1000;
const STD: &str = "std";

#[derive(PSafe, Default)]
#[repr(C)]
struct All<P: MemPool> {
    queue: PVecDeque<u64, P>,
    set: PHashSet<u64, P>,
    numbers: PVec<u64, P>,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let create = CreateOptions { media: Options::default(), max: 1 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("everbyte"), &create)?;
    bench.on(store.media());
    let all = Collections::create::<PRefCell<All<Collections>, Collections>>(&store, "all", |j| {
        PRefCell::new(All { queue: PVecDeque::from_iter(0..QUEUED, j), ..All::default() })
    })?;
    let ns = Unit::Nanoseconds;
    let ours = Runner::new(NAME, |count| {
        let body = all.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            for number in 0..count {
                all.queue.push_back(number, j);
                black_box(all.queue.pop_front(j));
            }
        });
        body.expect("room in the pool");
    })
    .counting(store.media());
    let mut queue: VecDeque<u64> = (0..QUEUED).collect();
    let theirs = Runner::new(STD, move |count| {
        for number in 0..count {
            queue.push_back(number);
            black_box(queue.pop_front());
        }
    });
    bench.metric("deque_push_pop", ns, MOST, vec![ours, theirs]);
    let ours = Runner::new(NAME, |count| {
        let body = all.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            all.set.clear(j);
            (0..count).for_each(|number| _ = all.set.insert(mix(number), j));
        });
        body.expect("room in the pool");
    })
    .counting(store.media());
    let theirs = Runner::new(STD, |count| {
        let mut set = HashSet::new();
        (0..count).for_each(|number| _ = set.insert(mix(number)));
        black_box(set.len());
    });
    bench.metric("set_insert", ns, MOST, vec![ours, theirs]);
    let ours = Runner::new(NAME, |count| {
        let body = all.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            all.numbers = PVec::from_iter((0..count).map(mix), j);
        });
        body.expect("room in the pool");
        all.tx(|j, all| all.borrow_mut(j).numbers.sort_unstable(j)).expect("room in the log");
    })
    .counting(store.media());
    let theirs = Runner::new(STD, |count| {
        let mut numbers: Vec<u64> = (0..count).map(mix).collect();
        numbers.sort_unstable();
        black_box(numbers.len());
    });
    bench.metric("make_and_sort", ns, MOST, vec![ours, theirs]);
    Ok(())
}
