//! Freed blocks serve every size again, in heaps of many zones.
use everbyte_media::Checked as _;

use crate::common::{create, heap_of};
use everbyte_heap::{Block, Heap};
use everbyte_store::CLUSTER;

const ZONE: u64 = 128 * CLUSTER;

fn allocate(heap: &Heap, size: u64) -> Option<Block> {
    let block = heap.reserve(size).ok()?;
    apply(heap, &[heap.op_allocate(&block)]);
    Some(block)
}

fn apply(heap: &Heap, ops: &[everbyte_heap::Op]) {
    heap.apply(ops);
    heap.media().fence();
    heap.finish(ops);
}

/// Fills the heap with blocks of `size` bytes and frees all of them.
fn fill_and_empty(heap: &Heap, size: u64) {
    let blocks: Vec<Block> = std::iter::from_fn(|| allocate(heap, size)).collect();
    let ops: Vec<_> = blocks.iter().map(|block| heap.op_free(block.at.get()).unwrap()).collect();
    apply(heap, &ops);
}

/// Tables that lay one in each zone cut the free pages of an emptied heap every 8 MiB.
#[test]
fn an_emptied_heap_has_room_for_one_large_block() {
    for (zones, at_least) in [(8, 6), (16, 7), (32, 15)] {
        let (store, heap) = create(1 << 30, zones * ZONE);
        fill_and_empty(&heap, CLUSTER);
        assert_eq!(heap.usage().unwrap().allocated, 0);
        let block = allocate(&heap, at_least * ZONE).expect("one block of nearly half of the heap, or more");
        assert_eq!(heap.check(None), []);
        heap.media().store(block.at + block.size.get() - 8, 1);
        drop(heap);
        let heap = heap_of(&store);
        assert_eq!(heap.size_of(block.at.get()).unwrap(), at_least * ZONE);
        assert_eq!(heap.check(None), []);
    }
}

/// A heap in a span of four zones has tables for those alone; copied to a larger span it grows past
/// them.
#[test]
fn a_copy_in_a_larger_span_grows_past_the_zones_of_the_first() {
    let (store, heap) = create(1 << 30, 4 * ZONE);
    let first = allocate(&heap, ZONE).unwrap();
    let copy = |name: &str, span: u64, heap: &Heap| {
        let options =
            everbyte_store::ObjectOptions { engine: everbyte_store::Engine::Heap, fingerprint: 0, span: Some(span) };
        let copy = store.create_object(name, options, |object| heap.copy_into(object, &mut |_| {})).unwrap();
        Heap::open(copy).unwrap()
    };
    let large = copy("large", 16 * ZONE, &heap);
    let mut blocks = Vec::new();
    while let Some(block) = allocate(&large, ZONE / 2) {
        blocks.push(block);
    }
    assert!(blocks.len() >= 26, "{} blocks of half a zone in sixteen zones", blocks.len());
    assert_eq!(large.check(None), []);
    assert_eq!(
        large.size_of(first.at.get() - heap.object().prime().get() + large.object().prime().get()).unwrap(),
        ZONE
    );
    let small = copy("small", 2 * ZONE, &heap);
    while allocate(&small, CLUSTER).is_some() {}
    assert_eq!(small.check(None), []);
}

/// A growth that needs a new batch of tables dies after it has written their records. The tables of
/// zones 5 to 7 exist by then, so these records lie in tables that the next growth does not make
/// anew.
#[test]
fn leftovers_of_an_interrupted_growth_in_a_table_are_cleared() {
    let grown = |bug: &'static str| {
        let (store, heap) = create(1 << 30, 16 * ZONE);
        let filled = allocate(&heap, 4 * ZONE).unwrap();
        let before = heap.usage().unwrap();
        assert!((4 * ZONE..5 * ZONE).contains(&before.total), "zone 5 has not begun");
        // The table of zone 5, after the format page: the fifth word of the tables' names.
        let (media, prime) = (heap.media(), heap.object().prime());
        let table = prime + (media.load(prime + 512 + 128 + 5 * 8) as u32 as u64) * CLUSTER;
        let cluster = 5 * 128 + 3;
        assert_eq!(media.load(table + 3 * 512), 0);
        media.store(
            table + 3 * 512,
            everbyte_heap::layout::seal_kind(everbyte_heap::layout::ClusterKind::System, cluster),
        );
        drop(heap);
        let heap = heap_of(&store);
        // Until zone 5 has begun.
        let more = || (0..160).map(|_| allocate(&heap, CLUSTER).unwrap()).collect::<Vec<_>>();
        let more = everbyte_media::museum::with(bug, more);
        let told = heap.check(None);
        let after = heap.usage().unwrap();
        let all = more.iter().chain([&filled]).map(|block| heap.op_free(block.at.get()).unwrap());
        apply(&heap, &all.collect::<Vec<_>>());
        let lost = heap.object().prime() + cluster * CLUSTER;
        (after.system - before.system, told.iter().any(|told| told.at == lost.get()), told.len())
    };
    assert_eq!(grown("none"), (0, false, 0), "no cluster is lost to the heap");
    assert_eq!(grown("heap-stale-records"), (CLUSTER, true, 1), "the seeded bug is found, and told by a check");
}

/// A heap of format 1 made each table alone; it grows on in this way, and keeps its places.
#[test]
fn a_heap_of_format_1_goes_on_as_it_is() {
    let (store, heap) = create(1 << 30, 16 * ZONE);
    let (media, at) = (heap.media().clone(), heap.object().prime() + everbyte_heap::layout::HEADER);
    drop(heap);
    let mut header: everbyte_heap::layout::HeapHeader = media.get(at);
    (header.format, header.zones) = (1, 0);
    header = header.sealed();
    media.put(at, &header);
    let heap = heap_of(&store);
    let blocks: Vec<_> = std::iter::from_fn(|| allocate(&heap, CLUSTER)).collect();
    assert_eq!(heap.usage().unwrap().system, 15 * CLUSTER + heap_system_pages(), "a table for each further zone");
    assert_eq!(heap.check(None), []);
    drop(heap);
    let heap = heap_of(&store);
    assert_eq!(heap.check(None), []);
    assert_eq!(heap.size_of((blocks[blocks.len() - 1].at).get()).unwrap(), CLUSTER);
}

/// A heap of format 2 has no class above 8192 bytes; it goes on without one.
#[test]
fn a_heap_of_format_2_goes_on_as_it_is() {
    let (store, heap) = create(1 << 26, 1 << 24);
    let small = allocate(&heap, 9000).unwrap();
    assert_eq!((small.size.get(), small.at.get() % 64), (9344, 0));
    apply(&heap, &[heap.op_free(small.at.get()).unwrap()]);
    let (media, at) = (heap.media().clone(), heap.object().prime() + everbyte_heap::layout::HEADER);
    drop(heap);
    let mut header: everbyte_heap::layout::HeapHeader = media.get(at);
    header.format = 2;
    header = header.sealed();
    media.put(at, &header);
    let heap = heap_of(&store);
    let block = allocate(&heap, 9000).unwrap();
    assert_eq!((block.size.get(), block.at.get() % 4096, heap.block_bytes(9000)), (12_288, 0, 12_288));
    assert_eq!(heap.check(None), []);
    drop(heap);
    let heap = heap_of(&store);
    assert_eq!(media.get::<everbyte_heap::layout::HeapHeader>(at).format, 2);
    assert_eq!(heap.size_of(block.at.get()).unwrap(), 12_288);
    apply(&heap, &[heap.op_free(block.at.get()).unwrap()]);
    assert_eq!(heap.check(None), []);
}

/// Prime page, log and the table of zone 0.
fn heap_system_pages() -> u64 {
    2 * 4096 + 128 * 512
}
