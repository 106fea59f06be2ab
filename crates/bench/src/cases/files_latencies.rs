//! How long single calls of the case `files` take: the median, the 99th and 99.9th percentile and
//! the longest of many calls that are timed one by one, appends through growth of the volume. On
//! memory a call of ours is durable on return. On a disk (backend `file`) it is ordered, as a
//! buffered call of the disk's own file system is not, and the calls go on through checkpoints, one
//! every 50 us, which is slower than the disk: calls without a pause fill the log, and wait for the
//! disk as a program must that writes more than that takes. A synced call waits for the disk, and
//! has no pause. Each time includes that of reading the clock.

use super::Result;
use super::files_bars::TAIL;
use super::files_systems::{Calls, Files, Ours};
use crate::harness::{Bench, Unit, median};
use crate::host;
use crate::report::Bar;
use everbyte_workload::Random;
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// Time from one call on a disk to the next.
const PAUSE: Duration = Duration::from_micros(50);
/// The names of the values that are reported of each call.
const VALUES: [&str; 4] = ["p50", "p99", "p999", "max"];

/// The calls that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Append,
    Create,
    /// An append and a sync.
    Synced,
}

/// The values of a sorted list of nanoseconds, in the order of [`VALUES`].
fn values(sorted: &[f64]) -> [f64; 4] {
    let at = |share: f64| sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)];
    [at(0.5), at(0.99), at(0.999), at(1.0)]
}

/// The nanoseconds of each of `count` calls, sorted.
fn times<F: Files>(files: &F, call: Call, (count, file_len): (u64, u64), pause: Duration) -> Result<Vec<f64>> {
    let directory = files.make_directory(files.root(), "latencies")?;
    let file = files.make(&directory, "file")?;
    let (mut bytes, mut random) = (vec![b'x'; PAGE as usize], Random::new(9));
    let pages = file_len / PAGE;
    if matches!(call, Call::Read | Call::Write) {
        (0..pages).try_for_each(|page| files.append(&file, page * PAGE, &bytes))?;
    }
    let names: Vec<String> = (0..count).map(|index| format!("message-{index:06}")).collect();
    let mut times = Vec::with_capacity(count as usize);
    let mut last = Instant::now();
    for (turn, name) in names.iter().enumerate() {
        let at = random.below(pages) * PAGE;
        while last.elapsed() < pause {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        last = start;
        match call {
            Call::Read => drop(files.read(&file, at, &mut bytes)?),
            Call::Write => files.write(&file, at, &bytes)?,
            Call::Append => files.append(&file, turn as u64 * PAGE, &bytes)?,
            Call::Synced => {
                files.append(&file, turn as u64 * PAGE, &bytes)?;
                files.sync(&file)?;
            }
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

/// Measures and reports all systems on memory.
pub(super) fn run(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let (count, len) = bench.plan.pick((100_000, 64 << 20), (20_000, 16 << 20), (100, 64 << 10));
    let calls =
        [("read_4k", Call::Read), ("write_4k", Call::Write), ("append_4k", Call::Append), ("create", Call::Create)];
    calls
        .into_iter()
        .try_for_each(|(name, call)| measure(bench, name, call, (count, len), Duration::ZERO, ours, rivals))
}

/// Measures and reports a volume on a disk, and the disk's own file system. The calls log several
/// times the bytes after which a checkpoint begins.
pub(super) fn run_on_disk(bench: &mut Bench<'_>, disk: &Path) -> Result {
    let (count, len) = bench.plan.pick((50_000, 64 << 20), (20_000, 64 << 20), (100, 64 << 10));
    let synced = bench.plan.pick(10_000, 2000, 10);
    let calls = [
        ("disk_read_4k", Call::Read, count),
        ("disk_write_4k", Call::Write, count),
        ("disk_append_4k", Call::Append, count),
        ("disk_create", Call::Create, count),
        ("disk_synced_4k", Call::Synced, synced),
    ];
    if !calls.iter().any(|(name, ..)| VALUES.iter().any(|value| bench.wants(&metric(name, value)))) {
        return Ok(());
    }
    let ours = Ours::create(&disk.join("latencies"))?;
    let folder = disk.join("files-latencies");
    std::fs::create_dir(&folder)?;
    let rivals = [Calls::on_disk(&folder)?];
    let backend = std::mem::replace(&mut bench.backend, ours.store.media().kind().name().into());
    for (name, call, count) in calls {
        let pause = if call == Call::Synced { Duration::ZERO } else { PAUSE };
        measure(bench, name, call, (count, len), pause, &ours, &rivals)?;
    }
    bench.backend = backend;
    Ok(())
}

fn metric(name: &str, value: &str) -> String {
    format!("latency_{name}_{value}")
}

/// Measures and reports so many calls on a file of so many bytes.
fn measure(
    bench: &mut Bench<'_>,
    name: &str,
    call: Call,
    size: (u64, u64),
    pause: Duration,
    ours: &Ours,
    rivals: &[Calls],
) -> Result {
    if !VALUES.iter().any(|value| bench.wants(&metric(name, value))) {
        return Ok(());
    }
    host::pin(0);
    let mut lists: Vec<[Vec<f64>; 4]> = (0..=rivals.len()).map(|_| Default::default()).collect();
    for round in 0..bench.plan.rounds.min(3) {
        for turn in 0..lists.len() {
            let index = (turn + round) % lists.len(); // 0 is ours
            let found = match index.checked_sub(1) {
                None => times(ours, call, size, pause)?,
                Some(rival) => times(&rivals[rival], call, size, pause)?,
            };
            lists[index].iter_mut().zip(values(&found)).for_each(|(list, value)| list.push(value));
        }
    }
    let names = || std::iter::once(ours.name()).chain(rivals.iter().map(Files::name));
    for (index, value) in VALUES.iter().enumerate() {
        if bench.wants(&metric(name, value)) {
            if *value == "p999" {
                bench.bars = vec![Bar::times("the median", median(&lists[0][0]), TAIL)];
            }
            let measured = names().zip(&lists).map(|(name, lists)| (name.into(), lists[index].clone()));
            bench.report(&metric(name, value), Unit::Nanoseconds, measured.collect(), None);
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
