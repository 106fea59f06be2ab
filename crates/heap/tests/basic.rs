//! The heap from outside: what is handed out, what is refused, what a second opening finds.

mod common;

use common::{create, heap_of, store_of};
use everbyte_heap::{Error, Heap, Op};
use everbyte_media::{Media, Options};
use everbyte_store::Store;

/// Makes allocations durable the way a lane does, without a lane: nothing crashes here.
fn allocate(heap: &Heap, size: u64) -> u64 {
    let block = heap.reserve(size).unwrap();
    let ops = [heap.op_allocate(&block)];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
    block.at
}

fn free(heap: &Heap, at: u64) {
    let ops = [heap.op_free(at).unwrap()];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
}

#[test]
fn blocks_are_aligned_large_enough_and_apart() {
    let (_store, heap) = create(64 << 20, 32 << 20);
    let mut blocks = vec![];
    for size in (0..300).chain([511, 512, 513, 4096, 8192, 8193, 40_000, 65_536, 70_000, 1 << 20, 9 << 20]) {
        let block = heap.reserve(size).unwrap();
        assert!(block.size >= size);
        assert!(block.at % 16 == 0 && (block.size < 64 || block.at % 64 == 0), "{block:?}");
        assert!(size <= 8192 || block.at % 4096 == 0 && block.size - size < 4096, "{block:?}");
        blocks.push(block);
    }
    blocks.sort();
    assert!(blocks.windows(2).all(|pair| pair[0].end() <= pair[1].at));
    assert!(blocks.last().unwrap().end() <= heap.object().backed());
    for block in &blocks {
        assert!(matches!(heap.size_of(block.at), Err(Error::NotAllocated { .. })), "reserved is not allocated");
    }
    blocks.into_iter().for_each(|block| heap.cancel(block));
    assert_eq!(heap.check(Some(&Default::default())), []);
}

/// Allocate in one run of the program, free in another (FM30); the second opening costs nothing until it allocates.
#[test]
fn what_one_opening_allocates_the_next_frees() {
    let (store, heap) = create(64 << 20, 32 << 20);
    let sizes: Vec<u64> = (0..2000).map(|i| (i * 37) % 9000 + 1).chain([100_000, 3 << 20, 11 << 20]).collect();
    let blocks: Vec<u64> = sizes.iter().map(|&size| allocate(&heap, size)).collect();
    let reachable = blocks.iter().copied().collect();
    assert_eq!(heap.check(Some(&reachable)), []);
    drop(heap);
    let heap = heap_of(&store);
    for (&at, &size) in blocks.iter().zip(&sizes) {
        assert!(heap.size_of(at).unwrap() >= size);
    }
    blocks.iter().for_each(|&at| free(&heap, at));
    assert_eq!(heap.check(Some(&Default::default())), []);
    let usage = heap.usage().unwrap();
    assert_eq!((usage.blocks, usage.allocated, usage.free_in_runs), (0, 0, 0));
    assert_eq!(usage.free_pages + usage.system, usage.total);
    drop(heap);
    let heap = heap_of(&store);
    let before = heap.object().backed();
    let block = heap.reserve(11 << 20).unwrap();
    assert_eq!(heap.object().backed(), before, "the space of the large block is found again: {block:?}");
}

/// Wild, foreign, interior, double: each is told apart from the others and changes nothing.
#[test]
fn pointers_that_are_no_blocks_are_refused() {
    let (store, heap) = create(64 << 20, 32 << 20);
    let (small, large) = (allocate(&heap, 100), allocate(&heap, 100_000));
    let prime = heap.object().prime();
    for at in
        [0, 1, prime, prime + 512, prime + 4096, prime + 8192, small + 16, large + 8, large + 4096, large + 65_536]
    {
        assert!(matches!(heap.op_free(at), Err(Error::NotABlock { .. } | Error::NotAllocated { .. })), "{at:#x}");
    }
    for at in [heap.object().backed(), heap.object().backed() - 16, u64::MAX, u64::MAX - 7, store.media().len()] {
        assert!(heap.op_free(at).is_err() && heap.size_of(at).is_err(), "{at:#x}");
    }
    assert_eq!(heap.check(Some(&[small, large].into())), []);
    let op = heap.op_free(small).unwrap();
    assert!(matches!(heap.op_free(small), Err(Error::BeingFreed { .. })));
    heap.abandon(&[op]);
    free(&heap, small);
    free(&heap, large);
    for at in [small, large] {
        assert!(matches!(heap.op_free(at), Err(Error::NotAllocated { .. })), "{at:#x}");
    }
    assert_eq!(heap.check(Some(&Default::default())), []);
}

#[test]
fn a_freed_block_is_not_handed_out_before_its_lane_is_retired() {
    let (_store, heap) = create(8 << 20, 4 << 20);
    let blocks: Vec<u64> = (0..8).map(|_| allocate(&heap, 8192)).collect();
    let op = heap.op_free(blocks[3]).unwrap();
    heap.apply(&[op]);
    for _ in 0..64 {
        assert_ne!(heap.reserve(8192).unwrap().at, blocks[3]);
    }
    heap.finish(&[op]);
    assert!((0..9).any(|_| heap.reserve(8192).unwrap().at == blocks[3]));
}

#[test]
fn operations_read_from_media_are_checked() {
    let (_store, heap) = create(8 << 20, 4 << 20);
    let at = allocate(&heap, 64);
    let good = heap.op_free(at).unwrap();
    heap.validate(good).unwrap();
    let far = heap.op_allocate(&everbyte_heap::Block { at: at + (2 << 20), size: 64 });
    let other = heap.op_allocate(&everbyte_heap::Block { at, size: 128 });
    let large = heap.op_allocate(&everbyte_heap::Block { at: at & !4095, size: 12288 });
    let system = heap.op_allocate(&everbyte_heap::Block { at: heap.object().prime() + 4096, size: 12288 });
    for op in [far, other, large, system, Op::from(0), Op::from(u64::MAX), Op::from(0xf)] {
        assert!(heap.validate(op).is_err(), "{op:?}");
    }
}

/// A full span is an error that names it; what is freed makes room; other classes' blocks serve in need.
#[test]
fn a_full_span_is_an_error_and_every_byte_comes_back() {
    let (_store, heap) = create(2 << 20, 1 << 20);
    let mut blocks = vec![];
    let error = loop {
        match heap.reserve(1000) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && error.to_string().contains("`test`"), "{error}");
    assert!(blocks.len() as u64 * 1024 > 700 << 10, "{}", blocks.len());
    let again = blocks.len();
    assert!(matches!(heap.reserve(2 << 20), Err(Error::TooLarge { .. })));
    for _ in 0..3 {
        blocks.drain(..).for_each(|block| heap.cancel(block));
        blocks.extend(std::iter::from_fn(|| heap.reserve(16).ok()));
        assert!(blocks.len() > 40_000);
        blocks.drain(..).for_each(|block| heap.cancel(block));
        blocks.extend(std::iter::from_fn(|| heap.reserve(1000).ok()));
        assert!(blocks.len() >= again);
    }
    let spare = blocks.pop().unwrap();
    heap.cancel(spare);
    assert_eq!(heap.reserve(30).unwrap().at, spare.at, "a block of a larger class serves");
    assert!(heap.reserve(30).is_err());
}

#[test]
fn an_object_without_a_heap_and_one_with_a_damaged_header() {
    let store = store_of(2 << 20);
    let options = everbyte_store::ObjectOptions { engine: everbyte_store::Engine::None, fingerprint: 0, span: None };
    let object = store.create_object("bare", options, |_| Ok::<(), Error>(())).unwrap();
    assert!(matches!(Heap::open(object.clone()), Err(Error::NoHeap { .. })));
    Heap::format(&object).unwrap();
    for word in [520, 528, 576] {
        let at = object.prime() + word;
        let good = store.media().load(at);
        store.media().store(at, good ^ 1 << 40);
        assert!(matches!(Heap::open(object.clone()), Err(Error::Damaged { .. } | Error::NewerFormat { .. })), "{word}");
        store.media().store(at, good);
    }
    Heap::open(object).unwrap();
}

/// Damage in one record costs the blocks of that cluster and nothing else.
#[test]
fn a_damaged_record_is_contained() {
    let (store, heap) = create(8 << 20, 4 << 20);
    let (victim, other) = (allocate(&heap, 64), allocate(&heap, 8192));
    let prime = heap.object().prime();
    drop(heap);
    let record = prime + 8192 + (victim - prime) / 65536 * 512;
    store.media().store(record, store.media().load(record) ^ 2);
    let heap = heap_of(&store);
    assert!(matches!(heap.op_free(victim), Err(Error::Damaged { .. })));
    assert_eq!(heap.size_of(other).unwrap(), 8192);
    for _ in 0..2000 {
        let at = allocate(&heap, 64);
        assert_ne!(at / 65536, victim / 65536);
    }
    free(&heap, other);
    let findings = heap.check(None);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].at, findings[0].kind), (record, everbyte_store::FindingKind::Damage));
}

/// Growth over zone borders puts tables in front of what they speak for; opening again follows them (FM33, FM34).
#[test]
fn a_heap_of_many_zones_is_found_again() {
    let store = Store::format(Media::anonymous(2 << 30, &Options::default()).unwrap(), &Default::default()).unwrap();
    let heap = common::heap_in(&store, 1 << 30);
    let mut blocks = vec![];
    for megabytes in [3, 20, 90, 1, 300, 7] {
        blocks.push((allocate(&heap, megabytes << 20), megabytes << 20));
    }
    for (at, _) in &blocks {
        heap.media().store(*at, *at);
    }
    let reachable = blocks.iter().map(|(at, _)| *at).collect();
    assert_eq!(heap.check(Some(&reachable)), []);
    drop(heap);
    let heap = heap_of(&store);
    for (at, size) in &blocks {
        assert_eq!(heap.size_of(*at).unwrap(), *size);
        assert_eq!(heap.media().load(*at), *at, "tables and blocks do not overlap");
    }
    blocks.iter().for_each(|(at, _)| free(&heap, *at));
    let usage = heap.usage().unwrap();
    assert_eq!(usage.free_pages + usage.system, usage.total);
    assert!(usage.system <= usage.total / 100, "{usage:?}");
    assert_eq!(heap.check(Some(&Default::default())), []);
}

/// One bitmap word on media per small allocation (FM32): one line flushed, no fence.
#[test]
fn a_small_allocation_writes_one_bitmap_word() {
    let (_store, heap) = create(8 << 20, 4 << 20);
    allocate(&heap, 64);
    let before = heap.media().counts();
    let block = heap.reserve(64).unwrap();
    let op = heap.op_allocate(&block);
    heap.apply(&[op]);
    heap.finish(&[op]);
    let cost = heap.media().counts() - before;
    assert_eq!((cost.lines, cost.fences, cost.barriers), (1, 0, 0));
}
