//! Threads in orders that shuttle chooses, for the tests of crates whose locks are shuttle's there.
//!
//! Half of the schedules choose the next thread by chance at every lock, half give threads
//! priorities that change at a few places (PCT), which finds orders that chance seldom does. A
//! program that waits forever fails, too. `EVERBYTE_SCHEDULES` says how many are tried
//! (`cargo xtask schedules`), `EVERBYTE_SEED` which. A failing schedule is printed, and
//! `EVERBYTE_SCHEDULE` runs it again.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a program under many schedules.
///
/// # Panics
/// It fails under one of them.
pub fn explore(program: fn()) {
    if let Ok(schedule) = std::env::var("EVERBYTE_SCHEDULE") {
        return shuttle::replay(program, &schedule);
    }
    run(program, FailurePersistence::Print);
}

/// Whether a program fails under one of many schedules, as one with a seeded bug should.
pub fn fails(program: fn()) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(program, FailurePersistence::None))).is_err()
}

fn run(program: fn(), failures: FailurePersistence) {
    let seed = crate::given_seed().unwrap_or(0x5eed);
    let number = std::env::var("EVERBYTE_SCHEDULES").ok().and_then(|text| text.parse::<usize>().ok());
    let each = number.unwrap_or(200).div_ceil(2);
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
