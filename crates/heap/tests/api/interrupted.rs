//! Openings after work that a crash has cut off: its frees are finished, and nothing more is given
//! back than the log of an engine allows.

use crate::common::{create, heap_of};
use everbyte_heap::layout::{LOG, Slot};
use everbyte_heap::{Block, Heap};
use everbyte_store::Store;
use zerocopy::IntoBytes;

fn allocate(heap: &Heap, size: u64) -> Block {
    let block = heap.reserve(size).unwrap();
    let ops = [heap.op_allocate(&block)];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
    block
}

/// Leaves the log as a crash does in the middle of `free_from(root)`, with `block` in the root.
fn interrupt_free(heap: &Heap, block: Block) {
    let (media, object) = (heap.media(), heap.object());
    media.store(object.root_at(), block.at.get());
    let op = heap.op_allocate(&block).inverse();
    let mut slot = Slot { check: 0, op: op.into(), target: object.root_at(), value: 0, lap: 9, reserved: [0; 3] };
    slot.check = slot.sum();
    media.write(object.prime() + LOG, slot.as_bytes());
}

fn again(store: Store, heap: Heap) -> (Store, Heap) {
    let media = store.media().clone();
    drop((heap, store));
    let store = Store::attach(media).unwrap();
    let heap = heap_of(&store);
    (store, heap)
}

#[test]
fn a_block_whose_free_recovery_finishes_is_allocated_again() {
    for size in [8192, 300_000] {
        let (store, heap) = create(64 << 20, 4 << 20);
        let block = allocate(&heap, size);
        let _kept = (0..6).map(|_| allocate(&heap, size)).collect::<Vec<_>>();
        interrupt_free(&heap, block);
        let (_store, heap) = again(store, heap);
        assert_eq!(heap.media().load(heap.object().root_at()), 0);
        let found = std::iter::from_fn(|| heap.reserve(size).ok()).any(|other| other.at == block.at);
        assert!(found, "{size} bytes at {:#x} are lost until the next opening", block.at);
    }
}

/// HEAP-11: blocks that the log of an engine names are free on media until that log has been read.
#[test]
fn recovery_of_the_log_releases_no_cluster() {
    let (store, heap) = create(64 << 20, 32 << 20);
    heap.reserve(4 << 20).unwrap(); // free again at the next opening
    let last = allocate(&heap, 100_000);
    interrupt_free(&heap, last);
    let before = store.info().backed;
    let (store, heap) = again(store, heap);
    assert_eq!((store.info().backed, heap.object().holes()), (before, vec![]));
}

/// HEAP-2: an interrupted growth leaves clusters behind the end with any bytes. Tables that come to
/// lie there are zeros before they have a name.
#[test]
fn tables_are_made_of_zeros_whatever_lay_there() {
    let (store, heap) = create(256 << 20, 64 << 20);
    let end = heap.object().prime() + heap.usage().unwrap().total;
    heap.object().grow(24 << 20).unwrap();
    let backed = heap.object().backed();
    for at in (end.get()..backed.get()).step_by(8) {
        heap.media().store(at, u64::MAX);
    }
    let block = allocate(&heap, 12 << 20); // into the second zone
    assert_eq!(heap.check(Some(&[block.at.get()].into())), []);
    let (_store, heap) = again(store, heap);
    assert_eq!(heap.check(Some(&[block.at.get()].into())), []);
}
