//! The order of graves, and ledgers at the border of their area.

use super::{MAIN, full, object, put};
use crate::tree::Tree;
use crate::tree::layout::{LEDGER_WORDS, LEDGERS_AT, STATES_AT, State};
use crate::tree::node::Node;
use crate::tree::writer::Grave;
use std::collections::BTreeSet;

/// A batch that empties all leaves below an inner node, one by one: what a node's dead entry owns
/// is freed before the node, whose slots the earlier grave names.
#[test]
fn graves_of_a_node_come_before_the_grave_that_owns_it() {
    let tree = super::tree();
    let key = |number: u32| number.to_be_bytes();
    for some in (0..9000).collect::<Vec<_>>().chunks(500) {
        let mut batch = tree.batch();
        some.iter().for_each(|&number| assert!(!batch.put(MAIN, &key(number), &[7; 8]).unwrap()));
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    let mut batch = tree.batch();
    let root = Node::open(&tree.shared.media, batch.root).unwrap();
    let mut children = Vec::new();
    root.visible(&batch.view, &mut children).unwrap();
    assert!(root.level == 2 && children.len() > 1, "level {}, {} children", root.level, children.len());
    let mut second = Vec::new();
    root.key_into(&root.slot(children[1].into()), &mut second).unwrap();
    let inner = root.child(children[0].into());
    let numbers = (0..9000).take_while(|&number| full(&key(number)) < second);
    numbers.for_each(|number| assert!(batch.delete(MAIN, &key(number)).unwrap()));
    batch.sift_graves();
    let child = |node: u64, index: usize| Node::open(&tree.shared.media, node).unwrap().child(index);
    let owner = batch.graves.iter().position(|grave| child(grave.node, grave.index) == inner);
    let last = batch.graves.iter().rposition(|grave| grave.node == inner);
    assert!(owner.is_some() && last.is_some() && last < owner, "{last:?} and {owner:?}");
    tree.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(tree.check(), []);
}

/// Leaves that a batch itself has made and replaces, behind savepoints and after it went back: the
/// graves that are left name each dead entry once, in a node that is there.
#[test]
fn graves_of_nodes_that_a_batch_replaces_go_with_them() {
    let tree = super::tree();
    let key = |number: u32| number.to_be_bytes();
    let long = |round: u8| [round; 600]; // in a block of its own, so that its dead entry has a grave
    let mut batch = tree.batch();
    (0..400).for_each(|number| assert!(!batch.put(MAIN, &key(number), &long(0)).unwrap()));
    tree.settle(batch.commit().unwrap()).unwrap();
    let mut batch = tree.batch();
    let mut replaced = 0;
    for round in 1..6 {
        let savepoint = batch.savepoint().unwrap();
        for _ in 0..2 {
            (0..400).for_each(|number| assert!(batch.put(MAIN, &key(number), &long(round)).unwrap()));
            replaced += batch.gone.len();
            if round % 2 == 0 {
                batch.roll_back(savepoint).unwrap();
            }
            // Of a node that was taken back with its graves, no mark is left.
            assert!(batch.gone.iter().all(|gone| gone.1 <= batch.graves.len()));
        }
    }
    assert!(replaced > 50, "{replaced}");
    batch.sift_graves();
    let dead = |grave: &Grave| Node::open(&tree.shared.media, grave.node).unwrap().end(grave.index) == grave.end;
    assert!(batch.graves.iter().all(dead));
    let named: BTreeSet<_> = batch.graves.iter().map(|grave| (grave.node, grave.index)).collect();
    assert_eq!(named.len(), batch.graves.len());
    tree.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(tree.check(), []);
    for _ in 0..300 {
        put(&tree, &[(&key(7), &long(9))]);
    }
    assert_eq!(tree.check(), []);
}

/// A ledger of one word more than the area has room for lies in a block of its own, whichever of
/// the two it is: behind the second one is the list of void versions.
#[test]
fn a_ledger_stays_within_its_area() {
    for (before, words) in [(0, 512), (1, 512), (0, 513), (1, 513)] {
        let (_store, object) = object();
        let tree = Tree::open(object.clone()).unwrap();
        (0..before).for_each(|_| put(&tree, &[(b"first", &[1; 600])]));
        let mut batch = tree.batch();
        let taken = |batch: &crate::tree::TreeBatch<'_>| batch.allocated.len() + batch.frees.len();
        let mut keys = (0_u32..).map(u32::to_be_bytes);
        while taken(&batch) < words {
            batch.put(MAIN, &keys.next().unwrap(), &[2; 600]).unwrap();
        }
        if taken(&batch) > words {
            batch.put(MAIN, &keys.next().unwrap().map(|_| 0), b"short").unwrap();
        }
        assert_eq!(taken(&batch), words);
        tree.settle(batch.commit().unwrap()).unwrap();
        let (state, header) = (tree.shared.writer.lock().state, tree.shared.header);
        let stored: State = everbyte_media::Media::get(&tree.shared.media, header + STATES_AT[state]);
        assert_eq!((stored.ops + stored.drops) as usize, words);
        let is_inside = stored.ledger.get() == tree.shared.area + LEDGERS_AT[state];
        assert_eq!(is_inside, words <= LEDGER_WORDS, "{words} words in state {state}");
        drop(tree);
        assert_eq!(Tree::open(object).unwrap().check(), []);
    }
}

/// Inner nodes whose separators lie in blocks of their own: where such nodes are merged, or left
/// alone, no separator is lost.
#[test]
fn thinned_out_nodes_with_long_separators_leak_none() {
    let tree = super::tree();
    let key = |number: u32| [&[b'p'; 300][..], &number.to_be_bytes()].concat();
    for some in (0..9000).collect::<Vec<_>>().chunks(1500) {
        let mut batch = tree.batch();
        some.iter().for_each(|&number| assert!(!batch.put(MAIN, &key(number), &[7; 8]).unwrap()));
        tree.settle(batch.commit().unwrap()).unwrap();
    }
    assert!(tree.height() > 2);
    let mut batch = tree.batch();
    let thinned = (0..9000).filter(|number| number % 300 > 0);
    thinned.for_each(|number| assert!(batch.delete(MAIN, &key(number)).unwrap()));
    tree.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(tree.check(), []);
    assert!((0..9000).step_by(300).all(|number| tree.get(MAIN, &key(number)).unwrap().is_some()));
}

/// The leaves at both borders of a deleted range are merged if it leaves them few keys.
#[test]
fn a_deleted_range_merges_the_leaf_at_each_of_its_borders() {
    let key = |number: u32| number.to_be_bytes();
    let merges = |range: std::ops::Range<u32>| {
        let tree = super::tree();
        let mut batch = tree.batch();
        (0..2000).for_each(|number| assert!(!batch.put(MAIN, &key(number), &[7; 100]).unwrap()));
        tree.settle(batch.commit().unwrap()).unwrap();
        let mut batch = tree.batch();
        assert_eq!(batch.delete_range(&full(&key(range.start)), &full(&key(range.end))).unwrap(), range.len() as u64);
        tree.settle(batch.commit().unwrap()).unwrap();
        assert_eq!(tree.check(), []);
        tree.stats().merges
    };
    // Five keys are few for a leaf, 20 are not.
    assert_eq!([merges(5..1000), merges(20..1995)], [1, 1]);
}

/// A batch that is given up puts back the graves that it took, in their order, and the way down to
/// the one that it had come to (DIG-1).
#[test]
fn graves_lie_behind_a_batch_that_is_given_up_as_before() {
    let tree = super::tree();
    let key = |number: u32| number.to_be_bytes();
    let write = |write: &dyn Fn(&mut crate::tree::TreeBatch<'_>)| {
        let mut batch = tree.batch();
        write(&mut batch);
        tree.settle(batch.commit().unwrap()).unwrap();
    };
    write(&|batch| (0..2000).for_each(|number| assert!(!batch.put(MAIN, &key(number), &[7; 600]).unwrap())));
    let snapshot = tree.snapshot();
    (0..10).for_each(|number| write(&|batch| assert!(batch.delete(MAIN, &key(number)).unwrap())));
    write(&|batch| batch.clear().unwrap());
    drop(snapshot);
    let lie = || {
        let writer = tree.shared.writer.lock();
        let graves: Vec<_> = writer.graveyard.iter().map(|grave| (grave.end, grave.node, grave.index)).collect();
        let way: Vec<_> = writer.digging.iter().map(|frame| (frame.node, frame.index, frame.whole)).collect();
        (graves, way)
    };
    let mut ways = 0;
    while !lie().0.is_empty() {
        let before = lie();
        ways += before.1.len();
        let mut batch = tree.batch();
        batch.put(MAIN, b"never", b"happened").unwrap();
        batch.reclaim().unwrap();
        batch.abort();
        assert_eq!(lie(), before);
        write(&|batch| assert!(batch.put(MAIN, b"other", b"1").is_ok()));
    }
    assert!(ways > 1, "a commit stopped on its way down");
    assert_eq!(tree.check(), []);
}
