//! `kv-tails`: single puts by their times, through the rebuilds of nodes; and a writer beside
//! readers against the same writer beside a process that reads other memory.

use super::Result;
use super::kv::load;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours;
use crate::pairs::{key, value};
use crate::report::Bar;
use everbyte_bench_rivals::{KV, KvRival};
use everbyte_workload::Random;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The hidden word that makes this program read memory of its own until it is killed.
pub(super) const READS_MEMORY: &str = "__reads_memory";
/// Bytes that such a process reads: more than caches hold.
const OTHER_MEMORY: usize = 256 << 20;
const BESIDE_MEMORY: &str = "beside a process that reads other memory";
const ALONE: &str = "alone";

/// Reads other memory: `BYTES CPU`.
///
/// # Errors
/// Bad words.
pub(super) fn reads_memory(words: &[String]) -> Result {
    let [bytes, cpu] = words else { return Err("BYTES CPU".into()) };
    host::pin(cpu.parse()?);
    // A bench that is killed takes this process along.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let memory = vec![1_u64; bytes.parse::<usize>()? / 8];
    let (mut random, mut sum) = (Random::new(1), 1);
    println!("reads");
    loop {
        for _ in 0..1 << 16 {
            // Each place is the outcome of the last one, as in a tree.
            sum = memory[(random.below(memory.len() as u64) + sum - 1) as usize];
        }
        std::hint::black_box(sum);
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 300);
    if ["put_median", "put_p999", "put_p999_by_median"].into_iter().any(|metric| bench.wants(metric)) {
        tails(bench, keys)?;
    }
    if bench.wants("put_beside_reader") || bench.wants("get_1_beside_writer") {
        beside(bench, keys)?;
    }
    Ok(())
}

/// Every put is timed alone. Half of them insert, so that nodes split.
fn tails(bench: &mut Bench<'_>, keys: u64) -> Result {
    let puts: u64 = bench.plan.pick(200_000, 20_000, 1000);
    let (mut medians, mut tails, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for name in std::iter::once(ours::NAME).chain(KV.iter().copied()) {
        let folder = tempfile::tempdir_in(&bench.plan.memory)?;
        let kv = ours::open(name, folder.path())?;
        load(&*kv, keys)?;
        host::pin(0);
        let (mut middle, mut slow, mut share) = (Vec::new(), Vec::new(), Vec::new());
        let mut random = Random::new(9);
        for round in 0..bench.plan.rounds.min(3) as u64 {
            let mut times = Vec::with_capacity(puts as usize);
            for version in 0..puts {
                let number = if version % 2 == 0 { random.below(keys) } else { keys + round * puts + version };
                let (key, value) = (key(number), value(number, version));
                let start = Instant::now();
                kv.put(&key, &value)?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            times.sort_unstable_by(f64::total_cmp);
            let (half, last) = (times[times.len() / 2], times[times.len() * 999 / 1000]);
            middle.push(half);
            slow.push(last);
            share.push(last / half);
        }
        medians.push((name.to_string(), middle));
        tails.push((name.to_string(), slow));
        shares.push((name.to_string(), share));
    }
    bench.backend = "shm".into();
    bench.report("put_median", Unit::Microseconds, medians, None);
    bench.report("put_p999", Unit::Microseconds, tails, None);
    bench.bars = vec![Bar::most(20.0)];
    bench.report("put_p999_by_median", Unit::Times, shares, None);
    Ok(())
}

/// A process that reads other memory, until this is dropped.
struct OtherMemory(Child);

impl OtherMemory {
    fn start(bytes: usize) -> Result<OtherMemory> {
        let words = [READS_MEMORY, &bytes.to_string(), "1"].map(String::from);
        let mut child = Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?;
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().ok_or("a pipe")?, &mut line)?;
        Ok(OtherMemory(child))
    }
}

impl Drop for OtherMemory {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `body` on this thread, beside `readers` that get random keys; the body's time and the gets.
fn with_readers(kv: &dyn KvRival, keys: u64, readers: usize, body: impl FnOnce()) -> (Duration, u64) {
    let (started, stop, gets) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let took = std::thread::scope(|scope| {
        for reader in 0..readers {
            let (started, stop, gets) = (&started, &stop, &gets);
            scope.spawn(move || {
                host::pin(1 + reader);
                let (mut random, mut found, mut count) = (Random::new(reader as u64), Vec::new(), 0);
                started.fetch_add(1, Relaxed);
                while !stop.load(Relaxed) {
                    kv.get(&key(random.below(keys)), &mut found).expect("a get that must succeed");
                    count += 1;
                }
                gets.fetch_add(count, Relaxed);
            });
        }
        while started.load(Relaxed) < readers as u64 {
            std::thread::yield_now();
        }
        let start = Instant::now();
        body();
        let took = start.elapsed();
        stop.store(true, Relaxed);
        took
    });
    (took, gets.load(Relaxed))
}

fn puts(kv: &dyn KvRival, keys: u64, count: u64) {
    let mut random = Random::new(count);
    for version in 0..count {
        let number = random.below(keys);
        kv.put(&key(number), &value(number, version)).expect("a put that must succeed");
    }
}

fn beside(bench: &mut Bench<'_>, keys: u64) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let ours = ours::Ours::open(folder.path())?;
    load(&ours, keys)?;
    bench.on(ours.store.media());
    let bytes = bench.plan.pick(OTHER_MEMORY, OTHER_MEMORY, 1 << 20);
    let runners = vec![
        Runner::timed(ours::NAME, |count| with_readers(&ours, keys, 1, || puts(&ours, keys, count)).0),
        Runner::timed(BESIDE_MEMORY, |count| {
            let _other = OtherMemory::start(bytes).expect("a process that reads");
            with_readers(&ours, keys, 0, || puts(&ours, keys, count)).0
        }),
        Runner::timed(ALONE, |count| with_readers(&ours, keys, 0, || puts(&ours, keys, count)).0),
    ];
    let most = bench.plan.pick(200_000, 20_000, 50);
    bench.bars = vec![Bar::new(BESIDE_MEMORY, 0.9)];
    bench.metric("put_beside_reader", Unit::PerSecond, most, runners);
    // Readers, each on a core of its own as far as there are cores besides the writer's.
    let rounds = bench.plan.rounds.min(5);
    let mut one_reader = None;
    for readers in (1..host::cpus().len().max(2)).take_while(|readers| *readers <= 8) {
        let rates: Vec<f64> = (0..rounds)
            .map(|_| {
                let (took, gets) = with_readers(&ours, keys, readers, || puts(&ours, keys, most));
                gets.max(1) as f64 / took.as_secs_f64()
            })
            .collect();
        let mut measured = vec![(ours::NAME.to_string(), rates.clone())];
        measured.extend(one_reader.clone().map(|rates| ("one reader".to_string(), rates)));
        let metric = format!("get_{readers}_beside_writer");
        if bench.wants(&metric) {
            bench.report(&metric, Unit::PerSecond, measured, None);
        }
        one_reader.get_or_insert(rates);
    }
    Ok(())
}
