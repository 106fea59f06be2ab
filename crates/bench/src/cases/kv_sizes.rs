//! `kv-sizes`: puts and gets with keys of 8 and 24 bytes and values from 8 bytes to 4 KiB. Ours in
//! turn with one rival at a time, so that no more than two stores lie in memory. Metrics end with
//! the bytes of a key and of a value.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::ours;
use crate::pairs;
use everbyte_bench_rivals::{KV, KvRival, open_kv};
use everbyte_workload::Random;

const KEYS: [usize; 2] = [8, pairs::KEY];
const VALUES: [usize; 4] = [8, 100, 1024, 4096];
/// Bytes of values that are loaded at a time.
const LOADED: usize = 64 << 20;

/// So large are the pairs of one store.
#[derive(Clone, Copy)]
struct Sizes {
    key: usize,
    value: usize,
}

impl Sizes {
    fn key(self, number: u64) -> Vec<u8> {
        match self.key {
            8 => Random::new(number).next().to_be_bytes().to_vec(),
            _ => pairs::key(number).to_vec(),
        }
    }

    fn value(self, number: u64, version: u64) -> Vec<u8> {
        let mut value = vec![b'v'; self.value];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value[self.value - 8..].copy_from_slice(&(number ^ version << 32).to_le_bytes());
        value
    }

    fn load(self, kv: &dyn KvRival, keys: u64) -> Result {
        let some = (LOADED / self.value) as u64;
        for first in (0..keys).step_by(some as usize) {
            let numbers = first..keys.min(first + some);
            let pairs: Vec<_> = numbers.map(|number| (self.key(number), self.value(number, 0))).collect();
            kv.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..])))?;
        }
        Ok(())
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 100);
    for (key, value) in KEYS.into_iter().flat_map(|key| VALUES.map(|value| (key, value))) {
        let (put, get) = (format!("put_{key}_{value}"), format!("get_{key}_{value}"));
        if !bench.wants(&put) && !bench.wants(&get) {
            continue;
        }
        let sizes = Sizes { key, value };
        let folder = tempfile::tempdir_in(&bench.plan.memory)?;
        let ours = ours::Ours::open(folder.path())?;
        sizes.load(&ours, keys)?;
        bench.on(ours.store.media());
        for name in KV {
            let folder = tempfile::tempdir_in(&bench.plan.memory)?;
            let rival = open_kv(name, folder.path())?;
            sizes.load(&*rival, keys)?;
            let runners = |body: fn(&dyn KvRival, Sizes, u64, u64)| {
                let one = |name: &'static str, kv| Runner::new(name, move |count| body(kv, sizes, keys, count));
                vec![one(ours::NAME, &ours as &dyn KvRival).counting(ours.store.media()), one(name, &*rival)]
            };
            bench.metric(&put, Unit::Microseconds, 0, runners(puts));
            bench.metric(&get, Unit::Microseconds, 0, runners(gets));
        }
    }
    Ok(())
}

fn puts(kv: &dyn KvRival, sizes: Sizes, keys: u64, count: u64) {
    let mut random = Random::new(count);
    for version in 0..count {
        let number = random.below(keys);
        kv.put(&sizes.key(number), &sizes.value(number, version)).expect("a put that must succeed");
    }
}

fn gets(kv: &dyn KvRival, sizes: Sizes, keys: u64, count: u64) {
    let (mut random, mut found) = (Random::new(count), Vec::new());
    for _ in 0..count {
        let number = random.below(keys);
        assert!(kv.get(&sizes.key(number), &mut found).expect("a get that must succeed"), "a loaded key is there");
        assert_eq!(found.len(), sizes.value);
    }
}
