//! Batches that end many leaves which they have made themselves: dead entries that must stay in one
//! inner node, with as many as a node can be read with.

use super::*;

/// The keys of a round lie below those of all rounds before and above the first ones.
fn key(round: u64, number: u64) -> [u8; 8] {
    ((1_u64 << 40) - (round << 10) + number).to_be_bytes()
}

/// Each round makes a leaf at the end of the tree and ends it, below the leaves ended before: the
/// last leaf of the tree has all of their dead entries beside it, in the same node.
#[test]
fn a_batch_may_end_any_number_of_leaves_that_it_has_made() {
    let tree = tree();
    let mut batch = tree.batch();
    for number in 0..200_u64 {
        batch.put(MAIN, &number.to_be_bytes(), b"kept").unwrap();
    }
    for round in 0..400 {
        for number in 0..100 {
            batch.put(MAIN, &key(round, number), b"not kept").unwrap();
        }
        let (low, high) = (key(round, 0), [0xff; 9]);
        let deleted = batch.delete_range(&full(&low), &full(&high)).unwrap();
        assert_eq!(deleted, 100, "round {round}");
    }
    tree.settle(batch.commit().unwrap()).unwrap();
    assert_eq!((tree.len(), tree.check()), (200, vec![]));
    for number in 0..200_u64 {
        assert_eq!(tree.get(MAIN, &number.to_be_bytes()).unwrap().as_deref(), Some(&b"kept"[..]));
    }
    // What the batch has made for nothing is freed by the commits that follow.
    while tree.batch().has_garbage() {
        let mut batch = tree.batch();
        batch.set_reclaims();
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    assert_eq!(tree.check(), []);
}
