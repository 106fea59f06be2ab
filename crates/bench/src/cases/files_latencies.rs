//! How long single calls of the case `files` take: the median, the 99th and 99.9th percentile and
//! the longest of many calls that are timed one by one, appends through growth of the volume. A
//! call of ours is durable on return. Each time includes that of reading the clock.

use super::Result;
use super::files_systems::{Calls, Files, Ours};
use crate::harness::{Bench, Unit};
use crate::host;
use everbyte_workload::Random;
use std::time::Instant;

const PAGE: u64 = 4096;
/// The names of the values that are reported of each call.
const VALUES: [&str; 4] = ["p50", "p99", "p999", "max"];

/// The calls that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Append,
    Create,
}

/// The values of a sorted list of nanoseconds, in the order of [`VALUES`].
fn values(sorted: &[f64]) -> [f64; 4] {
    let at = |share: f64| sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)];
    [at(0.5), at(0.99), at(0.999), at(1.0)]
}

/// The nanoseconds of each of `count` calls, sorted.
fn times<F: Files>(files: &F, call: Call, count: u64, file_len: u64) -> Result<Vec<f64>> {
    let directory = files.make_directory(files.root(), "latencies")?;
    let file = files.make(&directory, "file")?;
    let (mut bytes, mut random) = (vec![b'x'; PAGE as usize], Random::new(9));
    let pages = file_len / PAGE;
    if matches!(call, Call::Read | Call::Write) {
        (0..pages).try_for_each(|page| files.append(&file, page * PAGE, &bytes))?;
    }
    let names: Vec<String> = (0..count).map(|index| format!("message-{index:06}")).collect();
    let mut times = Vec::with_capacity(count as usize);
    for (turn, name) in names.iter().enumerate() {
        let at = random.below(pages) * PAGE;
        let start = Instant::now();
        match call {
            Call::Read => drop(files.read(&file, at, &mut bytes)?),
            Call::Write => files.write(&file, at, &bytes)?,
            Call::Append => files.append(&file, turn as u64 * PAGE, &bytes)?,
            Call::Create => files.create(&directory, name)?,
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    if call == Call::Create {
        names.iter().try_for_each(|name| files.unlink(&directory, name))?;
    }
    files.unlink(&directory, "file")?;
    files.remove_directory(files.root(), "latencies")?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Measures and reports all systems.
pub(super) fn run(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let (count, len) = bench.plan.pick((100_000, 64 << 20), (20_000, 16 << 20), (100, 64 << 10));
    let calls =
        [("read_4k", Call::Read), ("write_4k", Call::Write), ("append_4k", Call::Append), ("create", Call::Create)];
    for (name, call) in calls {
        let metric = |value: &str| format!("latency_{name}_{value}");
        if !VALUES.iter().any(|value| bench.wants(&metric(value))) {
            continue;
        }
        host::pin(0);
        let mut lists: Vec<[Vec<f64>; 4]> = (0..=rivals.len()).map(|_| Default::default()).collect();
        for round in 0..bench.plan.rounds.min(3) {
            for turn in 0..lists.len() {
                let index = (turn + round) % lists.len(); // 0 is ours
                let found = match index.checked_sub(1) {
                    None => times(ours, call, count, len)?,
                    Some(rival) => times(&rivals[rival], call, count, len)?,
                };
                lists[index].iter_mut().zip(values(&found)).for_each(|(list, value)| list.push(value));
            }
        }
        let names = || std::iter::once(ours.name()).chain(rivals.iter().map(Files::name));
        for (index, value) in VALUES.iter().enumerate() {
            if bench.wants(&metric(value)) {
                let measured = names().zip(&lists).map(|(name, lists)| (name.into(), lists[index].clone()));
                bench.report(&metric(value), Unit::Nanoseconds, measured.collect(), None);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn percentiles_of_a_sorted_list() {
        let sorted: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(super::values(&sorted), [501.0, 991.0, 1000.0, 1000.0]);
        assert_eq!(super::values(&[7.0]), [7.0; 4]);
    }
}
