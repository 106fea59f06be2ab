//! `space`: bytes that a store takes on its file system, loaded, loaded in the order of the keys,
//! and after every value was replaced once; the pairs a second of the ordered load, which is one
//! bulk load of ours and the transactions of puts of each rival. Ours also after all that can be
//! given back was, and after ten times as many random overwrites, on memory and on a disk, and the
//! memory that takes there.

use super::Result;
use super::kv::load;
use crate::harness::{Bench, Unit};
use crate::ours;
use crate::pairs::{KEY, VALUE, key, value};
use crate::report::Bar;
use everbyte_bench_rivals::KV;
use everbyte_workload::Random;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes allocated to the files under `folder`.
fn allocated(folder: &Path) -> Result<f64> {
    let mut sum = 0.0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { allocated(&entry.path())? } else { (data.blocks() * 512) as f64 };
    }
    Ok(sum)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 300);
    let names = || std::iter::once(ours::NAME).chain(KV.iter().copied());
    let (mut loaded, mut replaced) = (Vec::new(), Vec::new());
    for name in names() {
        let folder = tempfile::tempdir_in(&bench.plan.memory)?;
        let kv = ours::open(name, folder.path())?;
        load(&*kv, keys)?;
        loaded.push((name.to_string(), vec![allocated(folder.path())?]));
        let mut random = Random::new(5);
        for version in 1..=keys {
            let number = random.below(keys);
            kv.put(&key(number), &value(number, version))?;
        }
        drop(kv);
        replaced.push((name.to_string(), vec![allocated(folder.path())?]));
    }
    let payload = (keys * (KEY + VALUE) as u64) as f64;
    bench.bars = vec![Bar::most(2.0 * payload)];
    bench.report("loaded", Unit::Bytes, loaded, None);
    ordered(bench, keys)?;
    bench.report("replaced", Unit::Bytes, replaced, None);
    bench.report("payload", Unit::Bytes, vec![("keys and values".into(), vec![payload])], None);
    for (place, backend) in [(bench.plan.memory.clone(), "shm"), (bench.plan.disk.clone(), "file")] {
        bench.backend = backend.into();
        let folder = tempfile::tempdir_in(place)?;
        let words = [RESIDENT, &folder.path().to_string_lossy(), &keys.to_string()].map(String::from);
        let output = Command::new(std::env::current_exe()?).args(words).output()?;
        let said = String::from_utf8(output.stdout)?;
        let figures: Vec<f64> = said.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [loaded, reclaimed, overwritten, resident] = figures[..] else {
            return Err(
                format!("the store that was to be overwritten: {}", String::from_utf8_lossy(&output.stderr)).into()
            );
        };
        bench.report("reclaimed", Unit::Bytes, both("loaded", loaded, reclaimed), None);
        bench.bars = vec![Bar::new("loaded", 1.0 / 1.3)];
        bench.report("overwritten_10x", Unit::Bytes, both("loaded", loaded, overwritten), None);
        bench.report("resident_10x", Unit::Bytes, both("loaded", loaded, resident), None);
    }
    Ok(())
}

/// Loads pairs in the order of their keys.
fn ordered(bench: &mut Bench<'_>, keys: u64) -> Result {
    let mut pairs: Vec<_> = (0..keys).map(|number| (key(number), value(number, 0))).collect();
    pairs.sort_unstable();
    let names: Vec<_> = std::iter::once(ours::NAME).chain(KV.iter().copied()).collect();
    let values = || names.iter().map(|name| (name.to_string(), Vec::new())).collect::<Vec<_>>();
    let (mut sizes, mut rates) = (values(), values());
    // In turn, and one round that does not count: pages that the machine has not had before take
    // many times as long.
    for round in 0..bench.plan.pick(6, 3, 1) {
        for turn in 0..names.len() {
            let index = (turn + round) % names.len();
            let (took, size) = load_one(bench, names[index], &pairs)?;
            if round > 0 || bench.plan.smoke {
                rates[index].1.push(keys as f64 / took.as_secs_f64());
                sizes[index].1.push(size);
            }
        }
    }
    bench.report("loaded_in_order", Unit::Bytes, sizes, None);
    bench.bars = vec![Bar::new("lmdb", 1.0)];
    bench.report("load_in_order", Unit::PerSecond, rates, None);
    Ok(())
}

/// Loads pairs that are in order into a new store: the time, and the bytes that it takes.
fn load_one(bench: &Bench<'_>, name: &str, pairs: &[([u8; KEY], [u8; VALUE])]) -> Result<(Duration, f64)> {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let took = if name == ours::NAME {
        let ours = ours::Ours::open(folder.path())?;
        let start = Instant::now();
        let mut batch = ours.kv().batch();
        batch.load(pairs.iter().map(|(key, value)| (key, value)))?;
        let commit = batch.commit()?;
        ours.kv().settle(commit)?;
        start.elapsed()
    } else {
        let kv = ours::open(name, folder.path())?;
        let start = Instant::now();
        kv.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..])))?;
        start.elapsed()
    };
    Ok((took, allocated(folder.path())?))
}

/// One figure of ours beside what it is measured against.
fn both(name: &str, against: f64, ours: f64) -> Vec<(String, Vec<f64>)> {
    vec![(ours::NAME.into(), vec![ours]), (name.into(), vec![against])]
}

/// The hidden word that makes this program load a store and overwrite it: only what that store
/// needs is resident then.
pub(super) const RESIDENT: &str = "__resident";

/// Loads and overwrites: `FOLDER KEYS`. Prints the bytes allocated when loaded, when nothing more
/// could be given back, and when overwritten, and the most that was resident.
///
/// # Errors
/// Bad words, or what the store says.
pub(super) fn resident(words: &[String]) -> Result {
    let [folder, keys] = words else { return Err("FOLDER KEYS".into()) };
    let (folder, keys) = (Path::new(folder), keys.parse()?);
    let kv = ours::Ours::open(folder)?;
    // Not `load`: it makes all pairs before it puts the first.
    let put = |numbers: &mut dyn Iterator<Item = (u64, u64)>| -> Result {
        let mut numbers = numbers.peekable();
        while numbers.peek().is_some() {
            let mut batch = kv.kv().batch();
            for (number, version) in (&mut numbers).take(1000) {
                batch.put(&key(number), &value(number, version))?;
            }
            let commit = batch.commit()?;
            kv.kv().settle(commit)?;
        }
        Ok(())
    };
    put(&mut (0..keys).map(|number| (number, 0)))?;
    let loaded = allocated(folder)?;
    while kv.kv().reclaim()? {}
    kv.store.trim()?;
    let reclaimed = allocated(folder)?;
    let mut random = Random::new(11);
    put(&mut (1..=10 * keys).map(|version| (random.below(keys), version)))?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let most: u64 = most.ok_or("no VmHWM in /proc/self/status")?.trim().parse()?;
    println!("{loaded} {reclaimed} {} {}", allocated(folder)?, most << 10);
    Ok(())
}
