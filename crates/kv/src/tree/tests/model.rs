//! Random batches, snapshots, abortions and openings beside a plain map of each version.

use super::MAIN;
use crate::tree::{Tree, TreeSnapshot};
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
