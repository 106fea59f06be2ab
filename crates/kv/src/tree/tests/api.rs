//! The calls of a tree: versions, snapshots, batches, cursors, and what each refuses.

use super::MAIN;
use super::{full, put, tree};
use crate::Error;
use crate::tree::{KEY_MAX, Tree, Version};

/// A commit is visible to readers once it is settled, and a settled version stays as it is.
#[test]
fn a_snapshot_keeps_its_version() {
    let tree = tree();
    put(&tree, &[(b"a", b"1"), (b"b", b"2")]);
    let before = tree.snapshot();
    let mut batch = tree.batch();
    assert!(batch.delete(MAIN, b"a").unwrap() && !batch.delete(MAIN, b"c").unwrap());
    assert!(batch.put(MAIN, b"b", b"3").unwrap(), "the key was there");
    assert!(!batch.put(MAIN, b"c", b"4").unwrap(), "the key was not there");
    assert_eq!((batch.get(MAIN, b"b").unwrap().as_deref(), batch.len()), (Some(&b"3"[..]), 2));
    let commit = batch.commit().unwrap();
    tree.settle(commit).unwrap();
    let after = tree.snapshot();
    assert_eq!((before.len(), before.get(MAIN, b"a").unwrap().as_deref()), (2, Some(&b"1"[..])));
    assert_eq!(
        (after.len(), after.get(MAIN, b"a").unwrap(), after.get(MAIN, b"b").unwrap().as_deref()),
        (2, None, Some(&b"3"[..]))
    );
    assert!(before.version() < after.version() && after.version() > Version::NONE);
    assert_eq!(tree.check(), []);
}

/// A batch that is dropped or aborted leaves nothing, and its version's number is used again.
#[test]
fn a_batch_that_is_given_up_leaves_nothing() {
    let tree = tree();
    put(&tree, &[(b"kept", b"value")]);
    let (version, voids) = (tree.snapshot().version(), tree.stats().void_ranges);
    let mut batch = tree.batch();
    batch.put(MAIN, b"never", &[7; 3000]).unwrap();
    batch.delete(MAIN, b"kept").unwrap();
    batch.abort();
    assert_eq!(
        (tree.get(MAIN, b"never").unwrap(), tree.get(MAIN, b"kept").unwrap().as_deref()),
        (None, Some(&b"value"[..]))
    );
    put(&tree, &[]);
    assert!(tree.snapshot().version() <= version.next());
    assert_eq!((tree.stats().void_ranges, tree.check()), (voids, vec![]));
}

#[test]
fn what_cannot_be_is_refused_and_costs_nothing() {
    let (tree, other) = (tree(), tree());
    put(&tree, &[(b"key", b"value")]);
    let mut batch = tree.batch();
    assert!(matches!(tree.begin(), Err(Error::OwnBatch)));
    assert!(matches!(batch.put(MAIN, &vec![0; KEY_MAX + 1], b""), Err(Error::KeyTooLong { .. })));
    batch.put(MAIN, b"key", b"other").unwrap();
    let commit = batch.commit().unwrap();
    assert!(matches!(other.settle(commit), Err(Error::OtherTree)));
    tree.settle(commit).unwrap();
    assert_eq!(tree.get(MAIN, b"key").unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!((tree.check(), other.check()), (vec![], vec![]));
}

/// A cursor stands where it was sent, and goes both ways.
#[test]
fn a_cursor_goes_both_ways() {
    let tree = tree();
    let keys: Vec<[u8; 4]> = (0..500_u32).map(|number| (number * 2).to_be_bytes()).collect();
    keys.iter().for_each(|key| put(&tree, &[(key, key)]));
    let snapshot = tree.snapshot();
    let mut cursor = snapshot.cursor();
    cursor.seek(&full(&101_u32.to_be_bytes())).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().key().unwrap(), 102_u32.to_be_bytes());
    cursor.seek(&full(&101_u32.to_be_bytes())).unwrap();
    assert_eq!(cursor.prev().unwrap().unwrap().key().unwrap(), 100_u32.to_be_bytes());
    cursor.seek(&full(&[0xff; 9])).unwrap();
    let mut seen = 0;
    while let Some(entry) = cursor.prev().unwrap() {
        let (key, value) = entry.read().unwrap();
        assert_eq!((key, key), (&keys[499 - seen][..], value));
        seen += 1;
    }
    assert_eq!(seen, 500);
}

#[test]
fn an_object_is_opened_once_at_a_time_and_keeps_what_was_settled() {
    let (_store, object) = super::object();
    let tree = Tree::open(object.clone()).unwrap();
    put(&tree, &[(b"key", b"value")]);
    assert!(Tree::open(object.clone()).is_err());
    drop(tree);
    let tree = Tree::open(object).unwrap();
    assert_eq!((tree.len(), tree.get(MAIN, b"key").unwrap().as_deref()), (1, Some(&b"value"[..])));
}

/// The volatile mode does what the durable one does, flushes nothing but what the heap
/// does, fences nothing, and a tree that was closed is whole.
#[test]
fn the_volatile_mode_is_the_same_tree() {
    let (_store, object) = super::object();
    let tree = Tree::open_volatile(object.clone()).unwrap();
    let fill = |tree: &Tree, from: u32| {
        for number in from..from + 2000 {
            super::put(tree, &[(&number.to_be_bytes(), &[7; 40]), (&(number / 3).to_le_bytes(), &[8; 700])]);
        }
    };
    fill(&tree, 0);
    let before = object.media().counts();
    super::put(&tree, &[(&5_u32.to_be_bytes(), &[9; 40])]);
    let mut batch = tree.batch();
    batch.put(MAIN, b"never", b"").unwrap();
    drop(batch);
    let costs = object.media().counts() - before;
    assert!(costs.fences == 0 && costs.lines <= 2, "those of the heap alone: {costs:?}");
    assert_eq!(tree.check(), []);
    let len = tree.len();
    drop(tree);
    let tree = Tree::open(object).unwrap();
    assert_eq!((tree.len(), tree.check()), (len, vec![]));
    fill(&tree, 1000);
    assert_eq!(tree.check(), []);
}

/// The largest limit of readers is none.
#[test]
fn any_limit_of_readers_may_be_set() {
    let tree = tree();
    put(&tree, &[(b"key", b"old")]);
    tree.set_reader_limit(u64::MAX);
    let snapshot = tree.snapshot();
    put(&tree, &[(b"key", b"1")]);
    put(&tree, &[(b"key", b"2")]);
    assert_eq!(snapshot.get(MAIN, b"key").unwrap().as_deref(), Some(&b"old"[..]));
}

/// A reader is as far behind as there were commits, whatever number each of them had.
#[test]
fn a_limit_of_readers_counts_commits() {
    let tree = tree();
    put(&tree, &[(b"key", b"old")]);
    tree.set_reader_limit(3);
    let snapshot = tree.snapshot();
    let mut batch = tree.batch();
    for number in 0..20 {
        batch.put(MAIN, b"key", &[number]).unwrap();
        batch.savepoint().unwrap();
    }
    tree.settle(batch.commit().unwrap()).unwrap();
    for _ in 0..3 {
        // Each looks at those before it.
        put(&tree, &[(b"key", b"newer")]);
        assert_eq!(snapshot.get(MAIN, b"key").unwrap().as_deref(), Some(&b"old"[..]));
    }
    put(&tree, &[(b"key", b"newest")]);
    assert!(matches!(snapshot.get(MAIN, b"key"), Err(Error::Expired { .. })));
}

/// Opening applies the newest ledger again, and the version gets the other state, without one: the
/// writer then spares the state that counts.
#[test]
fn the_writer_knows_the_state_that_counts_after_an_opening() {
    use crate::tree::layout::COMMIT_AT;
    let (store, object) = super::object();
    let header = object.prime() + crate::tree::format::HEADER_AT;
    let mut tree = Tree::open(object.clone()).unwrap();
    for round in 0..4_u8 {
        // A value in a block of its own, which the ledger marks.
        put(&tree, &[(&[round], &[round; 900])]);
        let before = store.media().load(header + COMMIT_AT);
        drop(tree);
        tree = Tree::open(object.clone()).unwrap();
        let after = store.media().load(header + COMMIT_AT);
        assert_eq!((after >> 1, after & 1), (before >> 1, 1 - (before & 1)), "the ledger was applied again");
        assert_eq!(tree.shared.writer.lock().state as u64, after & 1);
    }
    assert_eq!(tree.check(), []);
}

/// PIN-2: a read of the newest version that more commits overtake than the limit allows is read
/// again.
#[test]
fn a_read_that_was_overtaken_is_read_again() {
    let tree = tree();
    put(&tree, &[(b"key", &[0])]);
    tree.set_reader_limit(2);
    let mut seen = Vec::new();
    let read = tree.newest(|newest| {
        if seen.is_empty() {
            (1..6_u8).for_each(|value| put(&tree, &[(b"key", &[value])]));
        }
        seen.push(newest.version);
        Ok(newest.version)
    });
    assert_eq!((seen.len(), read.unwrap()), (2, tree.stats().version));
}

/// PIN-2: another cursor over a version is told as well that the version has expired.
#[test]
fn every_cursor_of_a_version_is_told_that_it_has_expired() {
    let tree = tree();
    put(&tree, &[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]);
    tree.set_reader_limit(2);
    let mut front = tree.snapshot().cursor();
    front.seek(&full(b"")).unwrap();
    let mut back = front.again();
    back.seek(&full(b"z")).unwrap();
    assert!(front.next().unwrap().is_some() && back.prev().unwrap().is_some());
    (1..6_u8).for_each(|value| put(&tree, &[(b"b", &[value])]));
    assert!(matches!(front.next().map(drop), Err(Error::Expired { .. })));
    assert!(matches!(back.prev().map(drop), Err(Error::Expired { .. })));
}
