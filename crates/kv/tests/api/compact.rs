//! Compaction gives space back, changes no entry, and stops at what snapshots see.

use everbyte_kv::{Error, Kv};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

fn store(len: u64) -> Store {
    let media = Media::anonymous(len, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

/// Keys of 24 bytes in no order.
fn key(number: u64) -> Vec<u8> {
    format!("user{:020}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes()
}

fn fill(kv: &Kv, numbers: std::ops::Range<u64>) {
    for first in numbers.clone().step_by(100) {
        let mut batch = kv.batch();
        for number in first..(first + 100).min(numbers.end) {
            batch.put(&key(number), &[number as u8; 100]).unwrap();
        }
        kv.settle(batch.commit().unwrap()).unwrap();
    }
}

fn holds(kv: &Kv, numbers: impl Iterator<Item = u64>) {
    let mut keys = 0;
    for number in numbers {
        assert_eq!(kv.get(&key(number)).unwrap(), Some(vec![number as u8; 100]), "{number}");
        keys += 1;
    }
    assert_eq!((kv.len(), kv.range::<[u8]>(..).count() as u64, kv.check()), (keys, keys, vec![]));
}

#[test]
fn a_compacted_table_has_full_leaves_and_the_same_entries() {
    const KEYS: u64 = 12_000;
    let store = store(1 << 30);
    let kv = Kv::create(&store, "t").unwrap();
    fill(&kv, 0..KEYS);
    let table = kv.create_table("other").unwrap();
    for number in 0..500_u32 {
        table.put(&number.wrapping_mul(0x9E37_79B1).to_be_bytes(), &[3; 100]).unwrap();
    }
    let mut seen = 0;
    let done = kv.compact(&mut |entries| seen += entries).unwrap();
    println!("{done:?}: {} % of the payload", done.after * 100 / (124 * KEYS));
    // Two entries more: what is known of the table.
    assert_eq!((done.entries, seen), (KEYS + 502, KEYS + 502));
    assert!(done.replaced > 0 && done.after < done.before, "{done:?}");
    assert!(done.after * 100 <= 162 * (124 * KEYS + 104 * 500), "{done:?}");
    holds(&kv, 0..KEYS);
    assert_eq!(table.range::<[u8]>(..).unwrap().count(), 500);
    // There is nothing more to do.
    let again = kv.compact(&mut |_| {}).unwrap();
    assert_eq!((again.replaced, again.after), (0, done.after));
    // After an opening, and thinned out, it gives more back.
    drop((kv, table));
    let kv = Kv::open(&store, "t").unwrap();
    for first in (0..KEYS).step_by(600) {
        let mut batch = kv.batch();
        for number in (first..first + 600).filter(|number| number % 3 > 0) {
            assert!(batch.delete(&key(number)).unwrap());
        }
        kv.settle(batch.commit().unwrap()).unwrap();
    }
    let merges = kv.stats().merges;
    let thin = kv.compact(&mut |_| {}).unwrap();
    println!("{thin:?}");
    assert!(thin.after * 10 < done.after * 5, "{thin:?}");
    assert!(kv.stats().merges > merges, "inner nodes that it leaves with few children are merged");
    holds(&kv, (0..KEYS).step_by(3));
}

#[test]
fn a_compaction_keeps_what_snapshots_see() {
    let store = store(1 << 28);
    let kv = Kv::create(&store, "t").unwrap();
    fill(&kv, 0..1500);
    let old = kv.snapshot();
    for number in 0..750 {
        kv.delete(&key(number)).unwrap();
    }
    let held = kv.compact(&mut |_| {}).unwrap();
    assert!(held.replaced > 0);
    assert_eq!(old.range::<[u8]>(..).map(Result::unwrap).count(), 1500);
    assert_eq!(old.get(&key(3)).unwrap(), Some(vec![3; 100]));
    drop(old);
    let done = kv.compact(&mut |_| {}).unwrap();
    assert!(done.replaced == 0 && done.after < held.after, "{done:?} {held:?}");
    holds(&kv, 750..1500);
}

/// A step without room has not happened, and those before it have.
#[test]
fn a_full_store_refuses_a_compaction_and_loses_nothing() {
    let store = store(3 << 20);
    let kv = Kv::create(&store, "t").unwrap();
    let mut keys = 0;
    let full = loop {
        match kv.put(&key(keys), &[keys as u8; 100]) {
            Ok(()) => keys += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Heap(_)), "{full}");
    if let Err(error) = kv.compact(&mut |_| {}) {
        assert!(matches!(error, Error::Heap(_)), "{error}");
    }
    holds(&kv, 0..keys);
    kv.delete(&key(0)).unwrap();
    let _snapshot = kv.snapshot();
    // Nothing comes back now.
    for _ in 0..4 {
        if let Err(error) = kv.compact(&mut |_| {}) {
            assert!(matches!(error, Error::Heap(_)), "{error}");
        }
    }
    holds(&kv, 1..keys);
}
