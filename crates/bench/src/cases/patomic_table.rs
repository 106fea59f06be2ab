//! The second part of `patomic`: values of 8 bytes to 4 KiB replaced in a hash table, under a
//! transaction each: ours on the device profile `pcm`, against Berkeley DB's hash, whose log lies
//! on tmpfs, and the same table on libpmemobj; both at the speed of memory.
//!
//! Then one transaction after the other with idle time between them, truncated by themselves or by
//! a thread, and the same on slower and slower devices.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use everbyte_bench_rivals::{Access, Bdb, Pmemobj, PmemobjTable};
use everbyte_media::{Options, Profile};
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_tx::redo::{Truncation, Worker};
use everbyte_workload::Random;
use std::hint::spin_loop;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZES: [usize; 6] = [8, 64, 256, 1024, 2048, 4096];
/// Bytes of a value where its length is not what is measured.
const SIZE: usize = 64;
const MODES: [(Truncation, &str); 2] = [(Truncation::Asynchronous, "async"), (Truncation::Synchronous, "sync")];

/// A hash table of persistent words: buckets, and chains of entries: next, key, value.
struct WordTable {
    redo: Redo,
    buckets: u64,
    keys: u64,
}

impl WordTable {
    fn new(folder: &Path, keys: u64, size: usize, profile: Profile) -> Result<WordTable> {
        let media = Options { profile, ..Options::default() };
        let store =
            Store::create(&folder.join("table"), &CreateOptions { media, max: 1 << 30, ..CreateOptions::default() })?;
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(256 << 20) };
        let redo = Redo::open(store.create_object("table", options, Redo::format)?)?;
        let buckets = redo.atomically(|tx| tx.allocate(keys * 8))?.at;
        redo.media().zero(buckets, keys * 8);
        let table = WordTable { redo, buckets: buckets.get(), keys };
        host::unpin(); // the thread that truncates starts here, and is to have a CPU of its own
        table.truncating(Truncation::Asynchronous);
        (0..keys).for_each(|key| table.put(key, &vec![0; size]));
        host::pin(0);
        Ok(table)
    }

    fn put(&self, key: u64, value: &[u8]) {
        self.redo.atomically(|tx| self.put_in(tx, key, value)).expect("room for a value");
    }

    fn put_in(&self, tx: &mut Worker, key: u64, value: &[u8]) -> everbyte_tx::Result<()> {
        let bucket = self.buckets + key % self.keys * 8;
        let first = tx.load(bucket)?;
        let mut at = first;
        while at != 0 {
            if tx.load(at + 8)? == key {
                return tx.write(at + 16, value);
            }
            at = tx.load(at)?;
        }
        let entry = tx.allocate(16 + value.len() as u64)?.at;
        tx.store(entry.get(), first)?;
        tx.store((entry + 8).get(), key)?;
        tx.write((entry + 16).get(), value)?;
        tx.store(bucket, entry.get())
    }

    fn truncating(&self, truncation: Truncation) -> &WordTable {
        self.redo.truncate();
        self.redo.set_truncation(truncation);
        self
    }
}

/// The systems measured: the same puts into each.
struct Tables {
    ours: WordTable,
    bdb: Option<Bdb>,
    pmemobj: Option<PmemobjTable>,
    size: usize,
    /// Goes last.
    _folder: tempfile::TempDir,
}

impl Tables {
    fn new(bench: &Bench<'_>, size: usize, profile: Profile) -> Result<Tables> {
        let keys = bench.plan.pick(10_000, 2_000, 20);
        let folder = tempfile::tempdir_in(&bench.plan.memory)?;
        let ours = WordTable::new(folder.path(), keys, size, profile)?;
        let bdb = Bdb::open(folder.path(), Access::Hash)?;
        let pool = Pmemobj::create(&folder.path().join("pmemobj"), (64 << 20) + keys as usize * (size + 128) * 2)?;
        let pmemobj = pool.map(|pool| PmemobjTable::new(pool, keys, size));
        let tables = Tables { ours, bdb, pmemobj, size, _folder: folder };
        for key in 0..keys {
            tables.bdb.iter().try_for_each(|bdb| bdb.put(&key.to_le_bytes(), &vec![0; size]))?;
            tables.pmemobj.iter().for_each(|table| table.put(key, &vec![0; size]));
        }
        Ok(tables)
    }

    /// Runners of puts by so many threads; ours first.
    fn runners(&self, threads: u64) -> Vec<Runner<'_>> {
        let (keys, size) = (self.ours.keys, self.size);
        let run = move |count, put: &(dyn Fn(u64, &[u8]) + Sync)| puts(threads, keys, size, count, put);
        let media = self.ours.redo.media();
        let mut runners =
            vec![Runner::new(NAME, move |count| run(count, &|key, value| self.ours.put(key, value))).counting(media)];
        runners.extend(self.bdb.as_ref().map(|bdb| {
            let put = |key: u64, value: &[u8]| bdb.put(&key.to_le_bytes(), value).expect("room in Berkeley DB");
            Runner::new("berkeley-db", move |count| run(count, &put))
        }));
        runners.extend(
            self.pmemobj
                .as_ref()
                .map(|table| Runner::new("libpmemobj", move |count| run(count, &|key, value| table.put(key, value)))),
        );
        runners
    }
}

/// `count` puts under random keys, shared out to threads.
fn puts(threads: u64, keys: u64, size: usize, count: u64, put: &(dyn Fn(u64, &[u8]) + Sync)) {
    let work = |thread: u64| {
        let (mut random, mut value) = (Random::new(thread + 1), vec![0; size]);
        for _ in (thread..count).step_by(threads as usize) {
            let number = random.next();
            value[..8].copy_from_slice(&number.to_le_bytes());
            put(number % keys, &value);
        }
    };
    if threads == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                host::pin(thread as usize);
                work(thread);
            });
        }
    });
}

/// Bursts of puts, `idle` percent of all time spent between them doing nothing; how long the puts
/// took.
fn with_idle_time(table: &WordTable, idle: u32, count: u64) -> Duration {
    const BURST: u64 = 64;
    let mut took = Duration::ZERO;
    for from in (0..count).step_by(BURST as usize) {
        let start = Instant::now();
        puts(1, table.keys, SIZE, BURST.min(count - from), &|key, value| table.put(key, value));
        let busy = start.elapsed();
        took += busy;
        let until = busy * idle / (100 - idle);
        let start = Instant::now();
        while start.elapsed() < until {
            spin_loop();
        }
    }
    took
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    bench.profile = Profile::PCM.name.into();
    for size in SIZES {
        if bench.wants(&format!("latency_{size}")) {
            let tables = Tables::new(bench, size, Profile::PCM)?;
            tables.ours.truncating(Truncation::Asynchronous);
            bench.on(tables.ours.redo.media());
            bench.metric(&format!("latency_{size}"), Unit::Nanoseconds, 0, tables.runners(1));
        }
    }
    let tables = Tables::new(bench, SIZE, Profile::PCM)?;
    for threads in [1, 2] {
        tables.ours.truncating(Truncation::Asynchronous);
        bench.metric(&format!("throughput_{threads}"), Unit::PerSecond, 0, tables.runners(threads));
    }
    for idle in [10, 50, 90] {
        for (truncation, name) in MODES {
            let run = |count| with_idle_time(tables.ours.truncating(truncation), idle, count);
            let runner = Runner::timed(NAME, run).counting(tables.ours.redo.media());
            bench.metric(&format!("idle_{idle}_{name}"), Unit::Nanoseconds, 0, vec![runner]);
        }
    }
    for profile in [Profile::PCM, Profile::PCM_1000, Profile::PCM_2000] {
        let metric = format!("sensitivity_{}", profile.write_ns);
        if bench.wants(&metric) {
            bench.profile = profile.name.into();
            let tables = Tables::new(bench, SIZE, profile)?;
            tables.ours.truncating(Truncation::Asynchronous);
            bench.metric(&metric, Unit::Nanoseconds, 0, tables.runners(1));
        }
    }
    Ok(())
}
