//! `kv-large`: 20 million pairs of 24 + 100 bytes. A run takes at most ten minutes and says what is
//! left; the next one goes on with the stores that it finds. Ours in turn with one rival at a time,
//! loaded in bulk and in the order of the keys.
//!
//! In a folder of each place, memory and disk:
//!   `NAME/`         a store
//!   `NAME.loaded`   how many pairs it holds
//!   `NAME.done`     it was measured, and is gone
//! The folder goes when all is measured.

use super::Result;
use super::reopen::{first_value, kill};
use crate::harness::{Bench, Runner, Unit};
use crate::ours::{self, Ours};
use crate::pairs::{KEY, VALUE, key, value};
use everbyte_bench_rivals::{KV, KvRival, open_kv};
use everbyte_workload::Random;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A run starts nothing more after this.
const PIECE: Duration = Duration::from_secs(8 * 60);
/// Pairs of one step of a load.
const STEP: u64 = 500_000;

/// One run over the stores of one place.
struct Piece<'p> {
    folder: &'p Path,
    keys: u64,
    until: Instant,
    /// Numbers of pairs in the order of their keys; empty until something is to be loaded.
    sorted: Vec<([u8; KEY], u32)>,
}

impl Piece<'_> {
    fn note(&self, name: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{name}.{what}"))
    }

    fn loaded(&self, name: &str) -> u64 {
        std::fs::read_to_string(self.note(name, "loaded")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Loads as far as time allows; whether all is loaded.
    fn load(&mut self, name: &str) -> Result<bool> {
        let mut loaded = self.loaded(name);
        if loaded == self.keys {
            return Ok(true);
        }
        if self.sorted.is_empty() {
            self.sorted = (0..self.keys as u32).map(|number| (key(number.into()), number)).collect();
            self.sorted.sort_unstable();
        }
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let ours = if name == ours::NAME { Some(Ours::open(&folder)?) } else { None };
        let rival = if ours.is_none() { Some(open_kv(name, &folder)?) } else { None };
        while loaded < self.keys && !self.is_over() {
            let end = self.keys.min(loaded + STEP);
            let some = &self.sorted[loaded as usize..end as usize];
            match (&ours, &rival) {
                (Some(ours), _) => {
                    let mut batch = ours.kv().batch();
                    // A piece that was cut short has loaded these already.
                    batch.delete_range(&some[0].0[..]..=&some[some.len() - 1].0[..])?;
                    batch.load(some.iter().map(|(key, number)| (*key, value((*number).into(), 0))))?;
                    let commit = batch.commit()?;
                    ours.kv().settle(commit)?;
                }
                (None, rival) => {
                    let pairs: Vec<_> = some.iter().map(|(key, number)| (*key, value((*number).into(), 0))).collect();
                    let rival = rival.as_ref().ok_or("a rival")?;
                    rival.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..])))?;
                }
            }
            loaded = end;
            std::fs::write(self.note(name, "loaded"), loaded.to_string())?;
        }
        Ok(loaded == self.keys)
    }

    /// Measures ours against one rival, which is gone afterwards.
    fn measure(&self, bench: &mut Bench<'_>, name: &'static str) -> Result {
        let keys = self.keys;
        let ours = Ours::open(&self.folder.join(ours::NAME))?;
        let rival = open_kv(name, &self.folder.join(name))?;
        bench.on(ours.store.media());
        let runners = |body: fn(&dyn KvRival, u64, u64)| {
            let one = |name: &'static str, kv| Runner::new(name, move |count| body(kv, keys, count));
            vec![one(ours::NAME, &ours as &dyn KvRival).counting(ours.store.media()), one(name, &*rival)]
        };
        for (metric, body) in METRICS {
            bench.metric(metric, Unit::Microseconds, 0, runners(*body));
        }
        drop(rival);
        std::fs::write(self.note(name, "done"), "")?;
        Ok(std::fs::remove_dir_all(self.folder.join(name))?)
    }

    /// From opening to the first value, after the process that put was killed.
    fn reopen(&self, bench: &mut Bench<'_>, metric: &str) -> Result {
        let folder = self.folder.join(ours::NAME);
        let mut killed = Vec::new();
        for round in 0..bench.plan.rounds.min(5) {
            kill(ours::NAME, &folder, self.keys)?;
            killed.push(first_value(ours::NAME, &folder, round as u64)?.0);
        }
        bench.report(metric, Unit::Milliseconds, vec![(ours::NAME.into(), killed)], None);
        Ok(())
    }
}

type Body = fn(&dyn KvRival, u64, u64);

const METRICS: &[(&str, Body)] = &[
    ("put_20m", |kv, keys, count| {
        let mut random = Random::new(count);
        for version in 0..count {
            let number = random.below(keys);
            kv.put(&key(number), &value(number, version)).expect("a put that must succeed");
        }
    }),
    ("get_20m", |kv, keys, count| {
        let (mut random, mut found) = (Random::new(count), Vec::new());
        for _ in 0..count {
            let number = random.below(keys);
            assert!(kv.get(&key(number), &mut found).expect("a get that must succeed"), "a loaded key is there");
            assert_eq!((found.len(), &found[..8]), (VALUE, &number.to_le_bytes()[..]));
        }
    }),
    ("scan_100_read_20m", |kv, keys, count| {
        let (mut random, mut values) = (Random::new(count), Vec::new());
        for _ in 0..count {
            values.clear();
            kv.scan(&key(random.below(keys)), 100, Some(&mut values)).expect("a scan that must succeed");
        }
    }),
];

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(20_000_000, 200_000, 300);
    let until = Instant::now() + PIECE;
    // Several small runs may go on at once.
    let run = if bench.plan.smoke { format!("-{}", std::process::id()) } else { String::new() };
    let memory = bench.plan.memory.join(format!("everbyte-large-{keys}{run}"));
    let disk = bench.plan.disk.join(format!("everbyte-large-{keys}{run}"));
    let mut left = memory_piece(bench, &memory, keys, until)?;
    if left.is_none() {
        left = disk_piece(bench, &disk, keys, until)?;
    }
    if let Some(left) = left {
        let why = format!("{left} is left: run it again, which goes on, or remove {memory:?} and {disk:?}");
        bench.skipped("kv-large", &why);
        return Ok(());
    }
    for folder in [memory, disk] {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// What is left of the memory's part.
fn memory_piece(bench: &mut Bench<'_>, folder: &Path, keys: u64, until: Instant) -> Result<Option<String>> {
    let mut piece = Piece { folder, keys, until, sorted: Vec::new() };
    if !piece.load(ours::NAME)? {
        return Ok(Some(format!("the load of {} into memory", ours::NAME)));
    }
    for &name in KV {
        if piece.note(name, "done").exists() {
            continue;
        }
        if piece.is_over() || !piece.load(name)? || piece.is_over() {
            return Ok(Some(name.into()));
        }
        piece.measure(bench, name)?;
    }
    if !piece.note("open", "done").exists() {
        bench.backend = "shm".into();
        piece.reopen(bench, "open_killed_20m")?;
        std::fs::write(piece.note("open", "done"), "")?;
    }
    Ok(None)
}

/// What is left of the disk's part: ours alone.
fn disk_piece(bench: &mut Bench<'_>, folder: &Path, keys: u64, until: Instant) -> Result<Option<String>> {
    let mut piece = Piece { folder, keys, until, sorted: Vec::new() };
    if piece.is_over() || !piece.load(ours::NAME)? {
        return Ok(Some(format!("the load of {} onto the disk", ours::NAME)));
    }
    bench.backend = "file".into();
    piece.reopen(bench, "open_killed_20m_disk")?;
    Ok(None)
}
