//! `kv`: single writes, reads and scans of an ordered store, on memory and on a disk. Every write
//! is acknowledged, hence durable: a transaction of its own for those that have them, a synced
//! write for RocksDB.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::{self, Ours};
use crate::pairs::{VALUE, key, value};
use everbyte_bench_rivals::{KV, KvRival, open_kv};
use everbyte_media::Media;
use everbyte_workload::Random;
use std::path::Path;
use tempfile::TempDir;

/// Ours and the rivals, loaded with the same pairs.
struct Field {
    ours: Ours,
    rivals: Vec<(&'static str, Box<dyn KvRival>)>,
    keys: u64,
    _folders: Vec<TempDir>,
}

/// The first `keys` pairs, in an order that is random by key.
pub(super) fn load(kv: &dyn KvRival, keys: u64) -> Result {
    let pairs: Vec<_> = (0..keys).map(|number| (key(number), value(number, 0))).collect();
    kv.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..])))?;
    Ok(())
}

impl Field {
    fn new(place: &Path, keys: u64) -> Result<Field> {
        let mut folders = vec![tempfile::tempdir_in(place)?];
        let ours = Ours::open(folders[0].path())?;
        load(&ours, keys)?;
        let mut rivals = Vec::new();
        for &name in KV {
            let folder = tempfile::tempdir_in(place)?;
            let rival = open_kv(name, folder.path())?;
            load(&*rival, keys)?;
            rivals.push((name, rival));
            folders.push(folder);
        }
        Ok(Field { ours, rivals, keys, _folders: folders })
    }

    fn media(&self) -> &Media {
        self.ours.store.media()
    }

    /// One runner each; `body` does so many operations on one of them.
    fn runners<'f>(&'f self, body: impl Fn(&dyn KvRival, &mut Random, u64) + Copy + 'f) -> Vec<Runner<'f>> {
        let runner = |name: &'static str, kv: &'f dyn KvRival| {
            let mut random = Random::new(7);
            Runner::new(name, move |count| body(kv, &mut random, count))
        };
        let ours = runner(ours::NAME, &self.ours).counting(self.media());
        let rivals = self.rivals.iter().map(|(name, rival)| runner(name, &**rival));
        std::iter::once(ours).chain(rivals).collect()
    }
}

pub(super) fn put(kv: &dyn KvRival, random: &mut Random, keys: u64, count: u64) {
    for version in 0..count {
        let number = random.below(keys);
        kv.put(&key(number), &value(number, version)).expect("a put that must succeed");
    }
}

/// Replaces random values, a hundred in each transaction or batch.
fn put_hundreds(kv: &dyn KvRival, random: &mut Random, keys: u64, count: u64) {
    for version in 0..count {
        let numbers = (0..100).map(|_| random.below(keys));
        let pairs: Vec<_> = numbers.map(|number| (key(number), value(number, version))).collect();
        kv.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..]))).expect("a batch that must succeed");
    }
}

/// Replaces random values from `threads` threads at once, each put acknowledged on its own.
pub(super) fn put_many(kv: &dyn KvRival, random: &mut Random, keys: u64, count: u64, threads: u64) {
    host::unpin();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut random = Random::new(random.next());
            let share = count / threads + u64::from(thread < count % threads);
            scope.spawn(move || put(kv, &mut random, keys, share));
        }
    });
    host::pin(0);
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let field = Field::new(&bench.plan.memory, bench.plan.pick(1_000_000, 50_000, 300))?;
    let keys = field.keys;
    bench.on(field.media());
    bench.metric("put", Unit::Microseconds, 0, field.runners(move |kv, random, count| put(kv, random, keys, count)));
    let hundreds = move |kv: &dyn KvRival, random: &mut Random, count: u64| put_hundreds(kv, random, keys, count);
    bench.metric("put_100", Unit::Microseconds, 0, field.runners(hundreds));
    let get = move |kv: &dyn KvRival, random: &mut Random, count: u64| {
        let mut found = Vec::new();
        for _ in 0..count {
            let number = random.below(keys);
            assert!(kv.get(&key(number), &mut found).expect("a get that must succeed"), "a loaded key is there");
            assert_eq!((found.len(), &found[..8]), (VALUE, &number.to_le_bytes()[..]));
        }
    };
    bench.metric("get", Unit::Microseconds, 0, field.runners(get));
    // Passing over the pairs, as far as each store lets one without touching the values; then with
    // every value copied out.
    let scan = move |kv: &dyn KvRival, random: &mut Random, count: u64| {
        for _ in 0..count {
            let (pairs, bytes) = kv.scan(&key(random.below(keys)), 100, None).expect("a scan that must succeed");
            assert_eq!(bytes, pairs * VALUE);
        }
    };
    let read = move |kv: &dyn KvRival, random: &mut Random, count: u64| {
        let mut values = Vec::new();
        for _ in 0..count {
            values.clear();
            let scan = kv.scan(&key(random.below(keys)), 100, Some(&mut values)).expect("a scan that must succeed");
            assert_eq!(values.len(), scan.0 * VALUE);
        }
    };
    bench.metric("scan_100", Unit::Microseconds, 0, field.runners(scan));
    bench.metric("scan_100_read", Unit::Microseconds, 0, field.runners(read));
    drop(field);

    let field = Field::new(&bench.plan.disk, bench.plan.pick(200_000, 20_000, 100))?;
    let keys = field.keys;
    bench.on(field.media());
    let most = bench.plan.pick(20_000, 4_000, 8);
    let one = move |kv: &dyn KvRival, random: &mut Random, count: u64| put(kv, random, keys, count);
    bench.metric("put_disk_1", Unit::PerSecond, most, field.runners(one));
    let eight = move |kv: &dyn KvRival, random: &mut Random, count: u64| put_many(kv, random, keys, count, 8);
    bench.metric("put_disk_8", Unit::PerSecond, most, field.runners(eight));
    let sixteen = move |kv: &dyn KvRival, random: &mut Random, count: u64| put_many(kv, random, keys, count, 16);
    bench.metric("put_disk_16", Unit::PerSecond, most, field.runners(sixteen));
    Ok(())
}
