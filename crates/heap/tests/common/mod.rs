//! Stores with a heap in memory.
#![allow(dead_code)] // each test file uses some of it

use everbyte_heap::Heap;
use everbyte_media::{Media, Options};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};

/// An empty store in memory.
pub(crate) fn store_of(max: u64) -> Store {
    Store::format(Media::anonymous(max, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

/// A heap in an object `test` of that span.
pub(crate) fn heap_in(store: &Store, span: u64) -> Heap {
    let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(span) };
    Heap::open(store.create_object("test", options, Heap::format).unwrap()).unwrap()
}

/// A store and a heap in it.
pub(crate) fn create(max: u64, span: u64) -> (Store, Heap) {
    let store = store_of(max);
    let heap = heap_in(&store, span);
    (store, heap)
}

/// Opens the heap again.
pub(crate) fn heap_of(store: &Store) -> Heap {
    Heap::open(store.object("test").unwrap()).unwrap()
}
