//! A heap with as many holes as blocks: every walk of its tables runs on a stack of 256 KiB.
//!
//! With `EVERBYTE_SOAK` set, there are a million blocks.

use crate::common::{create, heap_of};
use everbyte_heap::Op;
use everbyte_sim::swarm::on_a_small_stack;
use everbyte_workload::long_or;
use std::collections::BTreeSet;

#[test]
fn many_blocks_and_holes_are_opened_checked_and_given_back_on_a_small_stack() {
    let blocks = long_or(20_000, 1_000_000);
    let (store, heap) = create(16 << 30, 8 << 30);
    let mut all = Vec::new();
    while (all.len() as u64) < blocks {
        // Small ones, and runs of pages.
        let group: Vec<_> =
            (0..100).map(|index| heap.reserve(if index % 10 == 0 { 9000 } else { 64 }).unwrap()).collect();
        let ops: Vec<Op> = group.iter().map(|block| heap.op_allocate(block)).collect();
        heap.apply(&ops);
        heap.finish(&ops);
        all.extend(group.iter().map(|block| block.at.get()));
    }
    let free = |heap: &everbyte_heap::Heap, blocks: &mut dyn Iterator<Item = u64>| {
        let ops: Vec<Op> = blocks.map(|at| heap.op_free(at).unwrap()).collect();
        heap.apply(&ops);
        heap.finish(&ops);
    };
    free(&heap, &mut all.iter().copied().step_by(2));
    drop(heap);
    let kept: BTreeSet<u64> = all.iter().copied().skip(1).step_by(2).collect();
    on_a_small_stack(|| {
        let heap = heap_of(&store);
        assert_eq!(heap.check(Some(&kept)), []);
        heap.shrink_all().unwrap();
        let block = heap.reserve(64).unwrap();
        heap.cancel(block);
        free(&heap, &mut kept.iter().copied());
        heap.shrink_all().unwrap();
        assert_eq!(heap.check(Some(&BTreeSet::new())), []);
    });
}
