//! Threads on one pool, in the orders that shuttle chooses: the locks, counts and weak pointers of
//! this crate themselves, with shuttle's locks under them (`sync`).
//!
//! A *program* makes a pool, runs threads on it and asserts. Half of the schedules choose the next
//! thread by chance at every lock, half give threads priorities that change at a few places (PCT),
//! which finds orders that chance seldom does. A program that waits forever fails, too.
//! `EVERBYTE_SCHEDULES` says how many are tried (`cargo xtask schedules`), `EVERBYTE_SEED` which. A
//! failing schedule is printed, and `EVERBYTE_SCHEDULE` runs it again.
//!
//! Crates below are not scheduled: their work between two locks of this crate is one step.

mod counts;
mod locks;
mod returns;

use crate::hidden::{Current, Slot};
use crate::{Journal, MemPool, Out, PSafe, Pool, PoolOptions, PoolTag, Root};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The tag of the pools of all programs; its slot is new in every execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tag;
type P = Out<Tag>;

thread_local! {
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}
shuttle::thread_local! {
    static CURRENT: Current = Current::new();
}

// SAFETY: one slot in an execution, all of whose threads are one thread of the system; shuttle
// keeps `CURRENT` apart.
unsafe impl PoolTag for Tag {
    const NAME: &'static str = "Scheduled";

    fn slot() -> &'static Slot {
        SLOT.get().expect("`pool` was called")
    }

    fn current<T>(with: impl FnOnce(&Current) -> T) -> T {
        CURRENT.with(with)
    }
}

/// A pool in memory, with its store.
fn pool<R: PSafe<P>>(init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>) -> Root<R, P> {
    pool_on(Media::anonymous(4 << 20, &Options::default()).expect("memory"), init)
}

fn pool_on<R: PSafe<P>>(
    media: Media,
    init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>,
) -> Root<R, P> {
    SLOT.set(Some(Box::leak(Box::new(Slot::new()))));
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([5; 16]) }).expect("a store");
    let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(8) }; // more lanes than threads
    P::create_with::<R>(&store, "pool", &options, init).expect("room for a pool")
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a program under many schedules.
fn explore(program: fn()) {
    if let Ok(schedule) = std::env::var("EVERBYTE_SCHEDULE") {
        return shuttle::replay(program, &schedule);
    }
    run(program, FailurePersistence::Print);
}

fn run(program: fn(), failures: FailurePersistence) {
    let seed = everbyte_workload::given_seed().unwrap_or(0x5eed);
    let each = number("EVERBYTE_SCHEDULES", 200).div_ceil(2) as usize;
    let schedulers: [Box<dyn Scheduler + Send>; 2] =
        [Box::new(RandomScheduler::new_from_seed(seed, each)), Box::new(PctScheduler::new_from_seed(seed, 3, each))];
    for scheduler in schedulers {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.max_steps = MaxSteps::FailAfter(100_000);
        config.failure_persistence = failures.clone();
        Runner::new(scheduler, config).run(program);
    }
}

/// Demands that a program which passes fails with a seeded bug.
fn finds(bug: &'static str, program: fn()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| museum::with(bug, || run(program, FailurePersistence::None))));
    assert!(outcome.is_err(), "`{bug}` was not found");
}
