//! Dead entries form chains: a root that was replaced, or cleared away, hangs below the root after
//! it, and while a snapshot is held nothing of that is reclaimed. Every walk of a chain runs on a
//! stack of 256 KiB here.
//!
//! With `EVERBYTE_SOAK` set, chains have up to a million links.

use everbyte_kv::Kv;
use everbyte_media::{Media, Options};
use everbyte_sim::swarm::{copy, on_a_small_stack};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::long_or;

fn max() -> u64 {
    long_or(1 << 30, 64 << 30)
}

fn store() -> Store {
    let media = Media::anonymous(max(), &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

/// Opens the table, checks, repairs and reclaims it. `links` is the least number of nodes that are
/// freed.
fn opened_checked_reclaimed(store: &Store, links: u64) {
    on_a_small_stack(|| {
        let kv = Kv::open(store, "t").unwrap();
        let keys = kv.len();
        assert_eq!(kv.check(), []);
        assert_eq!(kv.free_leaks().unwrap(), []);
        kv.put(b"one", b"more").unwrap();
        assert_eq!(kv.check(), []);
        let mut commits = 0;
        while kv.stats().freed < links {
            commits += 1;
            assert!(commits < links, "{:?} after {commits} commits", kv.stats());
            kv.put(b"one", b"more").unwrap();
        }
        assert_eq!((kv.check(), kv.len()), (Vec::new(), keys + 1));
    });
}

fn clear(kv: &Kv) {
    let mut batch = kv.batch();
    batch.clear().unwrap();
    batch.put(b"new", b"and a key").unwrap();
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
}

#[test]
fn a_chain_of_cleared_trees_is_opened_checked_and_reclaimed_on_a_small_stack() {
    let (store, links) = (store(), long_or(4000, 1_000_000));
    let kv = Kv::create(&store, "t").unwrap();
    let snapshot = kv.snapshot();
    (0..links).for_each(|_| clear(&kv));
    drop((snapshot, kv));
    opened_checked_reclaimed(&store, links);
}

#[test]
fn a_chain_of_replaced_roots_is_opened_checked_and_reclaimed_on_a_small_stack() {
    let (store, links) = (store(), long_or(400, 20_000));
    let kv = Kv::create(&store, "t").unwrap();
    (0..10_u64).for_each(|key| kv.put(&key.to_be_bytes(), b"first").unwrap());
    let snapshot = kv.snapshot();
    // About fifteen writes fill a leaf, fifteen leaves fill the root.
    for step in 0..links * 250 {
        kv.put(&(step * 7 % 10).to_be_bytes(), &step.to_be_bytes()).unwrap();
    }
    drop((snapshot, kv));
    opened_checked_reclaimed(&store, links);
}

/// A crash leaves the 257th range of void versions: the tree is scrubbed, down to the end of the
/// chain.
#[test]
fn a_chain_is_scrubbed_on_a_small_stack() {
    let (store, links) = (store(), long_or(4000, 1_000_000));
    let kv = Kv::create(&store, "t").unwrap();
    let closed_at = store.object("t").unwrap().prime() + 2048 + 72;
    let snapshot = kv.snapshot();
    (0..links).for_each(|_| clear(&kv));
    drop((snapshot, kv));
    on_a_small_stack(|| {
        let mut most = 0;
        for round in 0..300_u32 {
            let kv = Kv::open(&store, "t").unwrap();
            // Two commits, so that the ledger of the second says nothing of the chain.
            kv.put(b"round", &round.to_be_bytes()).unwrap();
            let ranges = kv.stats().void_ranges;
            drop(kv);
            // As if the process had died: it did not say that it closed.
            store.media().store(closed_at, 0);
            if ranges < most {
                break;
            }
            most = ranges;
        }
        assert_eq!(most, 256, "the list was full, then it was not");
        assert_eq!(Kv::open(&store, "t").unwrap().check(), []);
    });
}

/// A ledger that names very many blocks is replayed after a crash, and checked.
#[test]
fn a_long_ledger_is_replayed_on_a_small_stack() {
    let (store, values) = (store(), long_or(4000, 1_000_000));
    let kv = Kv::create(&store, "t").unwrap();
    let mut batch = kv.batch();
    for value in 0..values {
        assert!(!batch.put(&value.to_be_bytes(), &[7; 513]).unwrap());
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    let copy = copy(store.media(), (store.object("t").unwrap().backed()).get(), max());
    drop(kv);
    on_a_small_stack(|| {
        let kv = Kv::open(&Store::attach(copy).unwrap(), "t").unwrap();
        assert_eq!((kv.check(), kv.len()), (Vec::new(), values));
        assert_eq!(kv.get(&(values - 1).to_be_bytes()).unwrap().unwrap().len(), 513);
    });
}
