//! The space that a tree takes for its payload: bounds of docs/design/tree.md.

use super::*;
use everbyte_workload::Random;

const KEYS: u64 = 20_000;
/// Bytes of a pair: 24 and 100.
const PAIR: u64 = 124;

fn key(number: u64) -> [u8; 24] {
    let mut key = *b"user00000000000000000000";
    key[4..].copy_from_slice(format!("{:020}", Random::new(number).next()).as_bytes());
    key
}

/// Bytes of the tree's blocks per hundred bytes of payload, once the dead are gone.
fn percent(tree: &Tree) -> u64 {
    loop {
        let mut batch = tree.batch();
        if !batch.has_garbage() {
            break;
        }
        batch.set_reclaims();
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    assert_eq!((tree.len(), tree.check()), (KEYS, vec![]));
    tree.heap().usage().unwrap().allocated * 100 / (KEYS * PAIR)
}

fn put_all(keys: impl Iterator<Item = [u8; 24]>, of_batch: usize) -> u64 {
    let tree = tree();
    let keys: Vec<_> = keys.collect();
    for some in keys.chunks(of_batch) {
        let mut batch = tree.batch();
        some.iter().for_each(|key| assert!(!batch.put(MAIN, key, &[7; 100]).unwrap()));
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    percent(&tree)
}

#[test]
fn keys_in_any_order_take_a_bounded_space() {
    assert!(put_all((0..KEYS).map(key), 100) <= 206);
    // Keys that ascend leave leaves behind them that are full, in batches of any size.
    let mut sorted: Vec<_> = (0..KEYS).map(key).collect();
    sorted.sort_unstable();
    assert!(put_all(sorted.iter().copied(), 1) <= 163);
    assert!(put_all(sorted.iter().copied(), 1000) <= 163);
    let tree = tree();
    let mut batch = tree.batch();
    let mut load = batch.load().unwrap();
    sorted.iter().for_each(|key| load.push(MAIN, key, &[7; 100]).unwrap());
    assert_eq!(load.finish().unwrap(), KEYS);
    tree.settle(batch.commit().unwrap()).unwrap();
    assert!(percent(&tree) <= 163);
}

/// The block of a ledger that is too long for its area is given back with a later one.
#[test]
fn long_ledgers_take_no_space_for_good() {
    let tree = tree();
    let round = |value: u8| {
        let mut batch = tree.batch();
        for number in 0..400 {
            batch.put(MAIN, &key(number), &[value; 600]).unwrap();
        }
        tree.settle(batch.commit().unwrap()).unwrap();
    };
    (0..8).for_each(round);
    let before = tree.heap().object().backed();
    (0..24).for_each(round);
    assert_eq!(tree.heap().object().backed(), before, "the same space serves every round");
    assert_eq!(tree.check(), []);
}
