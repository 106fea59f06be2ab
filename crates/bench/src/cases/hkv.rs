//! `hkv`: HEAPO's key-value stores against Berkeley DB 5.3 on tmpfs: keys of 16 bytes and values of
//! 512 are inserted, looked up, updated and deleted, each change durable when it returns. Then the
//! bytes that an operation logged.
//!
//! Phases follow each other in the same stores; in each, ours and the rival do a share of the keys
//! in turn.

use super::Result;
use crate::harness::{Bench, Unit};
use crate::host;
use crate::ours::NAME;
use everbyte_bench_rivals::{Access, Bdb};
use everbyte_hkv::{Kv, KvKind};
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::ops::Range;
use std::time::Instant;

const RIVAL: &str = "berkeley-db";
const VALUE: usize = 512;

/// The key of number `number`: numbers in order are keys in a scattered order.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let mixed = Random::new(number).next();
    for (place, digit) in key.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(mixed >> (60 - place * 4)) as usize & 15];
    }
    key
}

fn value(number: u64, version: u8) -> [u8; VALUE] {
    let mut value = [version; VALUE];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The operation on every key, phase by phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Insert,
    Lookup,
    Update,
    Delete,
}

const PHASES: [(Phase, &str); 4] =
    [(Phase::Insert, "insert"), (Phase::Lookup, "lookup"), (Phase::Update, "update"), (Phase::Delete, "delete")];

fn ours(kv: &Kv, phase: Phase, numbers: Range<u64>) -> everbyte_hkv::Result<()> {
    for number in numbers {
        let key = key(number);
        let done = match phase {
            Phase::Insert => kv.insert(&key, &value(number, 1))?,
            Phase::Lookup => kv.get(&key)?.is_some_and(|found| found == value(number, 1)),
            Phase::Update => kv.update(&key, &value(number, 2))?,
            Phase::Delete => kv.delete(&key)?,
        };
        assert!(done, "a key that is as the phases before left it");
    }
    Ok(())
}

fn rival(db: &Bdb, phase: Phase, numbers: Range<u64>) -> Result {
    let mut found = Vec::new();
    for number in numbers {
        let key = key(number);
        let done = match phase {
            Phase::Insert => db.insert(&key, &value(number, 1))?,
            Phase::Lookup => {
                found.resize(VALUE, 0);
                db.get(&key, &mut found)? && found == value(number, 1)
            }
            Phase::Update => db.put(&key, &value(number, 2)).map(|()| true)?,
            Phase::Delete => db.delete(&key)?,
        };
        assert!(done, "a key that is as the phases before left it");
    }
    Ok(())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    structure(bench, "btree", KvKind::Tree, Access::Btree)?;
    structure(bench, "hash", KvKind::Hash, Access::Hash)
}

fn structure(bench: &mut Bench<'_>, name: &str, kind: KvKind, access: Access) -> Result {
    let metrics = PHASES.map(|(_, phase)| format!("{name}_{phase}"));
    if !metrics.iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    let keys: u64 = bench.plan.pick(1_000_000, 100_000, 200);
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let options = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("ours"), &options)?;
    let kv = Kv::create(&store, "pairs", kind, Some(4 << 30))?;
    let db = Bdb::open(folder.path(), access)?;
    let media = store.media();
    bench.on(media);
    if db.is_none() {
        bench.skipped(name, "Berkeley DB is not installed: `cargo xtask rivals`");
    }
    host::pin(0);
    let shares = bench.plan.rounds as u64;
    for ((phase, _), metric) in PHASES.into_iter().zip(metrics) {
        let (mut times, before) = ([Vec::new(), Vec::new()], media.counts());
        let logged = (kv.logged(), db.as_ref().map_or(0, Bdb::log_bytes));
        for share in 0..shares {
            let numbers = share * keys / shares..(share + 1) * keys / shares;
            let count = (numbers.end - numbers.start) as f64;
            for turn in 0..2 {
                let is_ours = turn == share % 2;
                let start = Instant::now();
                match &db {
                    _ if is_ours => ours(&kv, phase, numbers.clone())?,
                    Some(db) => rival(db, phase, numbers.clone())?,
                    None => continue,
                }
                times[usize::from(!is_ours)].push(start.elapsed().as_secs_f64() * 1e6 / count);
            }
        }
        let [mine, theirs] = times;
        let mut measured = vec![(NAME.into(), mine)];
        measured.extend(db.as_ref().map(|_| (RIVAL.into(), theirs)));
        bench.report(&metric, Unit::Microseconds, measured, Some((media.counts() - before, keys)));
        if phase != Phase::Lookup {
            let bytes = |bytes: u64| vec![bytes as f64 / keys as f64];
            let mut measured = vec![(NAME.into(), bytes(kv.logged() - logged.0))];
            measured.extend(db.as_ref().map(|db| (RIVAL.into(), bytes(db.log_bytes() - logged.1))));
            bench.report(&format!("{metric}_log"), Unit::Bytes, measured, None);
        }
    }
    Ok(())
}
