//! Batches that end many leaves which they have made themselves: their dead entries stay in one
//! inner node.

use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// Keys that descend split the last leaf of the tree over and over, and its upper half is deleted:
/// the dead entries of all upper halves lie behind the last live entry of an inner node. A cut of
/// that node leaves the last live entry alone with all of them: then the upper half is kept, and
/// the keys go on inside it.
#[test]
fn a_batch_may_end_any_number_of_leaves_that_it_has_made() {
    let tree = tree();
    let mut batch = tree.batch();
    let mut live = BTreeSet::new();
    let (mut key, mut step, mut moves) = (1_u128 << 126, 1 << 110, 0);
    for round in 0..400 {
        let before = tree.shared.counts.splits.load(Relaxed);
        while tree.shared.counts.splits.load(Relaxed) == before {
            key -= step;
            live.insert(key);
            let put = batch.put(MAIN, &key.to_be_bytes(), b"value");
            assert!(matches!(put, Ok(false)), "round {round}, {moves} moves: {put:?}");
        }
        let last = full(&live.last().unwrap().to_be_bytes());
        let (path, leaf) = batch.descend(&last).unwrap();
        let (mut beside, mut entries) = (Vec::new(), Vec::new());
        path.last().unwrap().0.visible(&batch.view, &mut beside).unwrap();
        leaf.visible(&batch.view, &mut entries).unwrap();
        let first = *live.iter().nth_back(entries.len() - 1).unwrap();
        if beside.len() > 1 {
            let gone = batch.delete_range(&full(&first.to_be_bytes()), &full(&[0xff; 17])).unwrap();
            assert_eq!(gone as usize, entries.len());
            live.split_off(&first);
        } else {
            (key, step, moves) = (first + step, step >> 16, moves + 1);
            assert!(live.contains(&key));
        }
    }
    tree.settle(batch.commit().unwrap()).unwrap();
    assert_eq!((tree.len(), tree.check()), (live.len() as u64, vec![]));
    for key in &live {
        assert_eq!(tree.get(MAIN, &key.to_be_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
    }
    // The commits that follow free the dead leaves.
    while tree.batch().has_garbage() {
        let mut batch = tree.batch();
        batch.set_reclaims();
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    assert_eq!(tree.check(), []);
}
