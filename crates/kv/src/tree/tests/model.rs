//! Random batches, snapshots, abortions and openings beside a plain map of each version.

use super::MAIN;
use crate::tree::{TableNumber, Tree, TreeSnapshot};
use everbyte_workload::{Keys, Random, programs};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Lengths around a word, an inline value, a page.
const VALUES: &[usize] = &[0, 1, 8, 63, 120, 511, 512, 513, 4096, 9000];

fn assert_same(snapshot: &TreeSnapshot, model: &Model) {
    assert_eq!(snapshot.len(), model.len() as u64);
    let mut cursor = snapshot.cursor();
    cursor.seek(b"").unwrap();
    for (key, value) in model {
        let entry = cursor.next().unwrap().expect("a pair of the model");
        assert_eq!(entry.read().unwrap(), (&key[..], &value[..]));
    }
    assert!(cursor.next().unwrap().is_none());
}

fn program(random: &mut Random) {
    let keys = Keys::draw(random, &[0, 8, 24, 32, 256]);
    let (_store, object) = super::object();
    let mut tree = Tree::open(object.clone()).unwrap();
    let (mut model, mut held) = (Model::new(), Vec::<(TreeSnapshot, Model)>::new());
    for _ in 0..60 {
        let (mut batch, mut next) = (tree.batch(), model.clone());
        for _ in 0..random.below(12) {
            let key = keys.any(random);
            match random.below(3) {
                0 => assert_eq!(batch.delete(MAIN, &key).unwrap(), next.remove(&key).is_some()),
                _ => {
                    let value = vec![random.next() as u8; random.pick(VALUES)];
                    let was_there = next.insert(key.clone(), value.clone()).is_some();
                    assert_eq!(batch.put(MAIN, &key, &value).unwrap(), was_there);
                }
            }
        }
        if random.chance(15) {
            batch.abort();
        } else {
            tree.settle(batch.commit().unwrap()).unwrap();
            model = next;
        }
        assert_same(&tree.snapshot(), &model);
        match random.below(8) {
            0 => held.push((tree.snapshot(), model.clone())),
            1 if !held.is_empty() => {
                let (snapshot, model) = held.swap_remove(random.index(held.len()));
                assert_same(&snapshot, &model);
            }
            2 => {
                held.clear();
                drop(tree);
                tree = Tree::open(object.clone()).unwrap();
            }
            _ => {}
        }
    }
    held.iter().for_each(|(snapshot, model)| assert_same(snapshot, model));
    assert_eq!(tree.check(), []);
}

#[test]
fn a_tree_does_what_a_map_of_each_version_does() {
    programs(24, |random, _| program(random));
}

/// Bytes of blocks in use, without what long keys and values take.
fn used(tree: &Tree) -> u64 {
    tree.heap().usage().unwrap().allocated
}

/// Trees that were filled, thinned out at random and left alone take space for what they hold, and
/// have the height that it needs: the bound of the paper, with a quarter of a node at least.
#[test]
fn a_thinned_out_tree_gives_its_space_back() {
    programs(6, |random, _| {
        let (_store, object) = super::object();
        let mut tree = Tree::open(object.clone()).unwrap();
        let empty = used(&tree);
        let mut keys: Vec<u32> = (0..9000).collect();
        if random.chance(50) {
            random.shuffle(&mut keys);
        }
        for part in keys.chunks(100) {
            let mut batch = tree.batch();
            part.iter().for_each(|key| assert!(!batch.put(MAIN, &key.to_be_bytes(), &[7; 100]).unwrap()));
            tree.settle(batch.commit().unwrap()).unwrap();
        }
        let (full, most) = (used(&tree) - empty, random.pick(&[1, 7, 100, 4000]));
        random.shuffle(&mut keys);
        let kept = random.pick(&[9, 300, 1100]);
        while keys.len() > kept {
            let part = keys.split_off(keys.len() - (random.below(most) as usize + 1).min(keys.len() - kept));
            let mut batch = tree.batch();
            part.iter().for_each(|key| assert!(batch.delete(MAIN, &key.to_be_bytes()).unwrap()));
            if random.chance(10) {
                batch.abort();
                keys.extend(part);
            } else {
                tree.settle(batch.commit().unwrap()).unwrap();
            }
        }
        if random.chance(30) {
            drop(tree);
            tree = Tree::open(object).unwrap();
        }
        // Reclaiming goes on with each commit, and without writes by steps of its own.
        let mut steps = 0;
        loop {
            let mut batch = tree.batch();
            if !batch.has_garbage() {
                break;
            }
            batch.set_reclaims();
            tree.settle(batch.commit().unwrap()).unwrap();
            steps += 1;
            assert!(steps < 20_000, "reclaiming ends");
        }
        let (left, share) = (used(&tree) - empty, 9000 / keys.len() as u64);
        assert!(left * share < full * 4 + share * (16 << 10), "{left} bytes for {kept} keys, {full} for 9000");
        assert!(tree.height() <= 2 || kept > 300, "{} levels for {kept} keys", tree.height());
        assert_eq!(tree.check(), []);
        assert!(keys.iter().all(|key| tree.get(MAIN, &key.to_be_bytes()).unwrap().is_some()));
    });
}

/// Keys that come in descending order, and keys of which few come often (Zipf's distribution with
/// exponent one), beside a map.
#[test]
fn descending_keys_and_zipf_keys() {
    const KEYS: u64 = 3000;
    programs(4, |random, _| {
        let (_store, object) = super::object();
        let (tree, mut model) = (Tree::open(object).unwrap(), Model::new());
        let zipf = random.chance(50);
        for step in 0..6000_u64 {
            let number = if zipf {
                (KEYS as f64).powf(random.below(1 << 20) as f64 / f64::from(1 << 20)) as u64
            } else {
                KEYS.saturating_sub(step)
            };
            let key = number.to_be_bytes().to_vec();
            let mut batch = tree.batch();
            if random.chance(20) {
                assert_eq!(batch.delete(MAIN, &key).unwrap(), model.remove(&key).is_some());
            } else {
                let value = vec![step as u8; random.pick(&[8, 100])];
                assert_eq!(batch.put(MAIN, &key, &value).unwrap(), model.insert(key, value).is_some());
            }
            tree.settle(batch.commit().unwrap()).unwrap();
        }
        assert_same(&tree.snapshot(), &model);
        assert_eq!(tree.check(), []);
    });
}

/// The last version number is used, and then an error says so and changes nothing.
#[test]
fn version_numbers_end_with_an_error() {
    use crate::tree::layout::{CLOSED_AT, COMMIT_AT};
    let (store, object) = super::object();
    drop(Tree::open(object.clone()).unwrap());
    let header = object.prime() + crate::tree::format::HEADER_AT;
    let last = (1_u64 << 62) - 1;
    let state = store.media().load(header + COMMIT_AT) & 1;
    store.media().store(header + COMMIT_AT, (last - 2) << 1 | state);
    store.media().store(header + CLOSED_AT, last - 2);
    let tree = Tree::open(object.clone()).unwrap();
    for key in [b"a", b"b"] {
        super::put(&tree, &[(key, b"value")]);
    }
    assert_eq!(tree.stats().version, last);
    let mut batch = tree.batch();
    assert!(matches!(batch.put(MAIN, b"c", b"value"), Err(crate::Error::VersionsExhausted)));
    drop(batch);
    drop(tree);
    let tree = Tree::open(object).unwrap();
    assert_eq!((tree.len(), tree.get(MAIN, b"b").unwrap().as_deref()), (2, Some(&b"value"[..])));
    assert!(matches!(tree.batch().delete(MAIN, b"b"), Err(crate::Error::VersionsExhausted)));
    assert_eq!(tree.check(), []);
}

/// The record of a named version that cannot be read keeps every version, and opening goes on.
#[test]
fn a_damaged_name_of_a_version_keeps_everything() {
    let (_store, object) = super::object();
    let tree = Tree::open(object.clone()).unwrap();
    super::put(&tree, &[(b"key", &[1; 900])]);
    let mut batch = tree.batch();
    batch.put(TableNumber::VERSIONS, b"name", b"no record").unwrap();
    tree.settle(batch.commit().unwrap()).unwrap();
    drop(tree);
    let tree = Tree::open(object).unwrap();
    (0..200).for_each(|round| super::put(&tree, &[(b"key", &[round; 900])]));
    assert_eq!((tree.stats().oldest, tree.stats().freed), (1, 0));
    assert!(crate::tree::each_named(tree.snapshot().cursor(), |_, _| Ok(())).is_err());
    assert_eq!(tree.check(), []);
}
