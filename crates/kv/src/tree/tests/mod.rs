//! Trees in memory.

mod api;
mod crowds;
mod faults;
mod graves;
mod model;
mod pins;
mod space;

use crate::tree::{TableNumber, Tree};
use everbyte_media::{Media, Options};
use everbyte_store::{Engine, FormatOptions, Object, ObjectOptions, Store};

const MAIN: TableNumber = TableNumber::MAIN;

/// A store in memory with an object `tree` that holds an empty tree.
pub(super) fn object() -> (Store, Object) {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = ObjectOptions { engine: Engine::Cdds, fingerprint: 0, span: Some(16 << 20) };
    let object = store.create_object("tree", options, Tree::format).unwrap();
    (store, object)
}

/// A tree over such a store.
pub(super) fn tree() -> Tree {
    Tree::open(object().1).unwrap()
}

/// The full key of `key` in the main table.
pub(super) fn full(key: &[u8]) -> Vec<u8> {
    [&MAIN.bytes()[..], key].concat()
}

/// Puts pairs in one settled batch.
pub(super) fn put(tree: &Tree, pairs: &[(&[u8], &[u8])]) {
    let mut batch = tree.batch();
    for (key, value) in pairs {
        batch.put(MAIN, key, value).unwrap();
    }
    tree.settle(batch.commit().unwrap()).unwrap();
}
