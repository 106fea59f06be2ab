//! Golden persistence traces of the tree's commit paths: a fence gained or lost is a reviewed line.
//! `EVERBYTE_REWRITE=1 cargo test -p everbyte-kv --test traces` writes them anew.

use everbyte_kv::{ExpiringTable, Kv, SystemClock};
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::time::{Duration, UNIX_EPOCH};

/// A table of ten keys, one of them overwritten and one gone, and what `program` does to it.
fn golden(name: &str, program: impl FnOnce(&Kv)) {
    golden_after(name, |_| {}, program);
}

/// As [`golden`], of a table that `prepare` has changed.
fn golden_after(name: &str, prepare: impl FnOnce(&Kv), program: impl FnOnce(&Kv)) {
    let mut prime = 0;
    let image = Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let kv = Kv::create(&store, "t").unwrap();
        for index in 0..10_u8 {
            kv.put(&[b'a' + index; 24], &[index; 100]).unwrap();
        }
        kv.put(&[b'b'; 24], &[9; 100]).unwrap();
        kv.delete(&[b'c'; 24]).unwrap();
        prepare(&kv);
        prime = store.object("t").unwrap().prime().get();
    });
    let header = prime + 2048;
    let text = Tracer::new(&image)
        .label("tree.commit", header + 64..header + 72)
        .label("tree.state0", header + 128..header + 192)
        .label("tree.state1", header + 192..header + 256)
        .label("space", prime + 4096..prime + (1 << 20))
        .run_after(
            |media| Kv::open(&Store::attach(media).unwrap(), "t").unwrap(),
            |_, kv| {
                program(&kv);
                // The table is left as it is: what closing stores is another path.
                std::mem::forget(kv);
            },
        );
    assert_golden(format!("testdata/{name}.trace"), &text);
}

#[test]
fn insert() {
    golden("insert", |kv| kv.put(&[b'x'; 24], &[1; 100]).unwrap());
}

#[test]
fn overwrite() {
    golden("overwrite", |kv| kv.put(&[b'e'; 24], &[1; 100]).unwrap());
}

#[test]
fn delete() {
    golden("delete", |kv| assert!(kv.delete(&[b'e'; 24]).unwrap()));
}

#[test]
fn batch() {
    golden("batch", |kv| {
        let mut batch = kv.batch();
        batch.put(&[b'y'; 24], &[1; 100]).unwrap();
        batch.put(&[b'z'; 24], &[1; 100]).unwrap();
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
    });
}

/// Two full leaves and the rest of a third: written once, and no fence more than for one put. The
/// store has the space already.
#[test]
fn load() {
    let load = |kv: &Kv| {
        let mut batch = kv.batch();
        batch.load((0..100_u8).map(|index| ([[b'x'; 23].as_slice(), &[index]].concat(), [index; 100]))).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
    };
    let prepare = |kv: &Kv| {
        load(kv);
        let mut batch = kv.batch();
        batch.delete_range([b'x'].as_slice()..).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        while kv.reclaim().unwrap() {}
    };
    golden_after("load", prepare, load);
}

/// A transaction that is validated commits like a batch.
#[test]
fn optimistic() {
    golden("optimistic", |kv| {
        let mut transaction = kv.transaction();
        assert!(transaction.contains(&[b'e'; 24]).unwrap());
        transaction.put(&[b'y'; 24], &[1; 100]).unwrap();
        transaction.put(&[b'z'; 24], &[1; 100]).unwrap();
        kv.settle(transaction.commit().unwrap()).unwrap();
    });
}

/// An entry with a deadline replaces one: the entry, and two of the index, in one version.
#[test]
fn put_until() {
    let put = |kv: &Kv, millis: u64| {
        let table = ExpiringTable::open_or_create(kv, "e", SystemClock).unwrap();
        table.put_until(&[b'k'; 24], &[1; 100], UNIX_EPOCH + Duration::from_millis(millis)).unwrap();
    };
    // The first two fill the leaf, which is written anew.
    golden_after("put_until", |kv| [43, 44].iter().for_each(|bit| put(kv, 1 << bit)), |kv| put(kv, 1 << 45));
}

/// Reading and an empty batch touch no media.
#[test]
fn nothing() {
    golden("nothing", |kv| {
        assert!(kv.get(&[b'e'; 24]).unwrap().is_some());
        let _commit = kv.batch().commit().unwrap();
    });
}
