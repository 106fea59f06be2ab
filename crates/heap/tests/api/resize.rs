//! Growing and shrinking on request: free clusters go, used ones and the heap's own stay.

use crate::common::{heap_in, store_of};
use everbyte_heap::{Block, Error, Heap};
use everbyte_store::CLUSTER;

fn allocate(heap: &Heap, size: u64) -> Block {
    let block = heap.reserve(size).unwrap();
    let ops = [heap.op_allocate(&block)];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
    block
}

fn free(heap: &Heap, block: Block) {
    let ops = [heap.op_free(block.at.get()).unwrap()];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
}

#[test]
fn clusters_that_are_free_are_given_back_and_no_others() {
    let store = store_of(64 << 20);
    let heap = heap_in(&store, 16 << 20);
    let (prime, small) = (heap.object().prime(), allocate(&heap, 100));
    let large = allocate(&heap, 8 * CLUSTER);
    let refused = |from: u64, to: u64| match heap.shrink(from..to) {
        Err(Error::NotFree { at, .. }) => at,
        other => panic!("{from:#x}..{to:#x}: {other:?}"),
    };
    assert_eq!(refused(prime.get(), (prime + CLUSTER).get()), prime.get(), "its own");
    let of_small = small.at.get() - small.at.get() % CLUSTER;
    assert_eq!(refused(of_small, of_small + CLUSTER), of_small);
    let within = large.at.get().next_multiple_of(CLUSTER);
    assert_eq!(refused(within, within + CLUSTER), within);
    free(&heap, large);
    let backed = store.info().backed;
    heap.shrink((large.at + 1).get()..large.end().get()).unwrap(); // whole clusters in it
    let given = backed - store.info().backed;
    assert!(given >= 6 * CLUSTER, "{given}");
    heap.shrink((large.at + 1).get()..large.end().get()).unwrap(); // once more: they are gone
    heap.shrink(0..u64::MAX).unwrap_err();
    free(&heap, small);
    heap.shrink_all().unwrap();
    assert!(heap.object().holes().iter().any(|hole| hole.contains(&of_small)), "the run of the small one, too");
    let again = allocate(&heap, 8 * CLUSTER);
    heap.media().write(again.at, &[7; 100]);
    assert_eq!(heap.size_of(again.at.get()).unwrap(), 8 * CLUSTER);
    assert!(store.check().is_empty());
}

#[test]
fn room_asked_for_in_advance_is_backed_or_refused() {
    let store = store_of(64 << 20);
    let heap = heap_in(&store, 16 << 20);
    let before = store.info().backed;
    heap.expand(4 << 20).unwrap();
    let after = store.info().backed;
    assert!(after >= before + (4 << 20));
    allocate(&heap, 4 << 20);
    assert_eq!(store.info().backed, after, "there is room already");
    assert!(heap.expand(16 << 20).unwrap_err().is_full());
    assert!(matches!(heap.expand(1 << 40), Err(Error::TooLarge { .. })));
    assert_eq!(store.info().backed, after, "nothing has changed");
}

/// A quota keeps released clusters from being backed again; once it is raised they are allocated,
/// and the object does not grow.
#[test]
fn released_clusters_that_a_quota_refused_are_allocated_later() {
    let store = store_of(64 << 20);
    let heap = heap_in(&store, 16 << 20);
    let large = allocate(&heap, 32 * CLUSTER);
    free(&heap, large);
    heap.shrink_all().unwrap();
    let end = heap.object().backed();
    store.set_quota("test", Some(store.info().backed / CLUSTER)).unwrap();
    assert!(heap.reserve(24 * CLUSTER).unwrap_err().is_full());
    store.set_quota("test", None).unwrap();
    let again = allocate(&heap, 32 * CLUSTER);
    assert_eq!((again.at, heap.object().backed()), (large.at, end));
    assert_eq!(heap.check(None), []);
}

/// A range that holds a block is refused as a whole: its free clusters stay to be allocated.
#[test]
fn free_clusters_of_a_refused_range_are_allocated_later() {
    let store = store_of(64 << 20);
    let heap = heap_in(&store, 16 << 20);
    let (first, second) = (allocate(&heap, 8 * CLUSTER), allocate(&heap, CLUSTER));
    assert!(first.end() <= second.at);
    free(&heap, first);
    assert!(matches!(heap.shrink(first.at.get()..second.end().get()), Err(Error::NotFree { .. })));
    let again = allocate(&heap, 8 * CLUSTER);
    assert!(again.end() <= second.at, "{again:?} behind {second:?}");
    assert_eq!(heap.check(None), []);
}
