//! The first thread that needs a zone loads it; no zone is loaded twice or in part.

use crate::common::{heap_in, heap_of, store_of};
use std::sync::Barrier;

#[test]
fn a_zone_that_another_thread_is_loading_is_not_seen_by_half() {
    let store = store_of(2 << 30);
    let heap = heap_in(&store, 1 << 30);
    // One block in every zone of 8 MiB, at its end, which is loaded last.
    let blocks: Vec<u64> = (0..100)
        .map(|_| {
            let block = heap.reserve(8_100_000).unwrap();
            let ops = [heap.op_allocate(&block)];
            heap.apply(&ops);
            heap.media().fence();
            heap.finish(&ops);
            block.at.get()
        })
        .collect();
    drop(heap);
    for _ in 0..20 {
        let heap = heap_of(&store);
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let sized = |&at: &u64| {
                        start.wait();
                        heap.size_of(at)
                    };
                    let sizes: Vec<_> = blocks.iter().map(sized).collect();
                    sizes.into_iter().for_each(|size| assert!(size.unwrap() >= 8_100_000));
                });
            }
        });
    }
}
