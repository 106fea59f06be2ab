//! A prefetch is a hint: puts go where their keys belong, whatever has become of the leaves that it
//! found.

use everbyte_kv::Kv;
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A table of so many keys in many leaves.
fn filled(keys: u32) -> Kv {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let kv = Kv::create(&Store::format(media, &FormatOptions::default()).unwrap(), "kv").unwrap();
    let mut batch = kv.batch();
    (0..keys).for_each(|number| assert!(!batch.put(&key(number), &[7; 100]).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    kv
}

/// PREF-1: the leaf that was found ends as a whole with the range.
#[test]
fn a_put_behind_a_deleted_range_is_kept() {
    let kv = filled(2000);
    let mut batch = kv.batch();
    batch.prefetch([&key(1000)[..]]).unwrap();
    assert_eq!(batch.delete_range(key(300)..key(1700)).unwrap(), 1400);
    assert!(!batch.put(&key(1000), b"new").unwrap());
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(&key(1000)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((kv.len(), kv.check()), (601, vec![]));
}

/// PREF-1: the leaf that was found is unlinked when the batch has deleted its last key.
#[test]
fn a_put_behind_an_emptied_leaf_is_kept() {
    let kv = filled(2000);
    let mut batch = kv.batch();
    batch.prefetch([&key(1000)[..]]).unwrap();
    (900..1100).for_each(|number| assert!(batch.delete(&key(number)).unwrap()));
    assert!(!batch.put(&key(1000), b"new").unwrap());
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(&key(1000)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((kv.len(), kv.check()), (1801, vec![]));
}

/// PREF-1: the leaf that was found is one that the batch has made behind its savepoint.
#[test]
fn a_put_behind_a_savepoint_that_was_gone_back_to_is_kept() {
    let kv = filled(2000);
    let mut batch = kv.batch();
    let savepoint = batch.savepoint().unwrap();
    for number in 0..100_u8 {
        batch.put(&[&key(1000)[..], &[number]].concat(), &[8; 100]).unwrap();
    }
    batch.prefetch([&key(1000)[..]]).unwrap();
    batch.roll_back(savepoint).unwrap();
    assert!(batch.put(&key(1000), b"new").unwrap());
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(&key(1000)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((kv.len(), kv.check()), (2000, vec![]));
}

/// PREF-1: the leaf that was found is merged with its neighbour before the put. A batch that thins
/// out many leaves merges them before its commit.
#[test]
fn a_put_behind_a_merge_is_kept() {
    let kv = filled(8000);
    let mut batch = kv.batch();
    batch.prefetch([&key(1000)[..]]).unwrap();
    for number in (0..8000).filter(|number| number % 40 != 0) {
        assert!(batch.delete(&key(number)).unwrap());
    }
    assert!(batch.put(&key(1000), b"new").unwrap());
    assert_eq!(batch.get(&key(1000)).unwrap().as_deref(), Some(&b"new"[..]));
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(&key(1000)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((kv.len(), kv.check()), (200, vec![]));
}
