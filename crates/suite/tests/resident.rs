//! Memory and disk of a long run of overwrites on `file`. One test in its file: it measures its own
//! process.

#![forbid(unsafe_code)]

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Durability, Options};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::os::unix::fs::MetadataExt;

const KEYS: u64 = 100_000;
const BATCH: u64 = 200;
const LOG: u64 = 8 << 20;
const ROUNDS: u64 = 2500;

/// Resident bytes of this process: all, and what is its own alone.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (field("VmRSS:"), field("RssAnon:"))
}

fn put(kv: &Kv, keys: impl Iterator<Item = u64>, round: u64) {
    let mut batch = kv.batch();
    for key in keys {
        let mut value = [b'v'; 100];
        value[..8].copy_from_slice(&round.to_le_bytes());
        batch.put(format!("{key:024}").as_bytes(), &value).unwrap();
    }
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
}

#[test]
fn memory_and_disk_stay_bounded_under_overwrites_and_come_back_after_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media =
        Options { backend: BackendChoice::File, durability: Durability::Process, log_bytes: LOG, ..Options::default() };
    let (base, _) = resident();
    let store = Store::create(&path, &CreateOptions { media, max: 1 << 32, ..CreateOptions::default() }).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    for first in (0..KEYS).step_by(BATCH as usize) {
        put(&kv, first..first + BATCH, 0);
    }
    let room = || std::fs::metadata(&path).unwrap().blocks() * 512;
    // The live set with everything that finds it, and no garbage to speak of: nothing was
    // overwritten yet.
    let (live, loaded) = (store.info().backed, room());
    let mut random = Random::new(7);
    let (mut most, mut most_room) = (0, 0);
    for round in 1..=ROUNDS {
        put(&kv, (0..BATCH).map(|_| random.below(KEYS)), round);
        if round % 20 == 0 {
            (most, most_room) = (most.max(resident().0), most_room.max(room()));
        }
    }
    println!("live {live}, resident {} at most, on disk {loaded} loaded and {most_room} at most", most - base);
    assert!(most - base <= 2 * live + LOG, "{} bytes resident, {live} live and a log of {LOG}", most - base);
    assert!(most_room <= 2 * loaded, "{most_room} bytes on disk, {loaded} after loading");

    // At rest clean pages are the system's: what is private is what was stored since.
    store.media().checkpoint().unwrap();
    let (_, own) = resident();
    assert!(own <= base + LOG, "{own} private bytes at rest");

    for first in (0..KEYS).step_by(BATCH as usize) {
        let mut batch = kv.batch();
        for key in first..first + BATCH {
            assert!(batch.delete(format!("{key:024}").as_bytes()).unwrap());
        }
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
    }
    // Blocks come back over the commits after the one that buried them.
    for _ in 0..2000 {
        put(&kv, 0..1, 0);
    }
    drop(kv);
    store.close().unwrap();
    println!("emptied: {} on disk", room());
    assert!(room() <= LOG + loaded / 4, "{} bytes on disk after everything was deleted", room());
}
