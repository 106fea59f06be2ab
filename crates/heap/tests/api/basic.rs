//! The heap through its public interface: allocations, refusals, and a second opening.

use crate::common::{create, heap_of, store_of};
use everbyte_heap::{Error, Heap, Op};
use everbyte_media::{Length, Media, Offset, OpenOptions, Options};
use everbyte_store::Store;

/// Makes allocations durable the way a lane does, without a lane: nothing crashes here.
fn allocate(heap: &Heap, size: u64) -> u64 {
    let block = heap.reserve(size).unwrap();
    let ops = [heap.op_allocate(&block)];
    heap.apply(&ops);
    heap.media().fence();
    heap.finish(&ops);
    block.at.get()
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
    for size in (0..300).chain([
        511,
        512,
        513,
        4096,
        8192,
        8193,
        9344,
        9345,
        10_880,
        10_881,
        40_000,
        65_536,
        70_000,
        1 << 20,
        9 << 20,
    ]) {
        let block = heap.reserve(size).unwrap();
        assert!(block.size >= size);
        assert!(block.at % 16 == 0 && (block.size < 64 || block.at % 64 == 0), "{block:?}");
        assert!(size <= 10_880 || block.at % 4096 == 0 && block.size - size < 4096, "{block:?}");
        assert_eq!(heap.block_bytes(size), block.size.get());
        blocks.push(block);
    }
    blocks.sort();
    assert!(blocks.windows(2).all(|pair| pair[0].end() <= pair[1].at));
    assert!(blocks.last().unwrap().end() <= heap.object().backed());
    for block in &blocks {
        assert!(matches!(heap.size_of(block.at.get()), Err(Error::NotAllocated { .. })), "reserved is not allocated");
    }
    blocks.into_iter().for_each(|block| heap.cancel(block));
    assert_eq!(heap.check(Some(&Default::default())), []);
}

/// Allocate in one run of the program, free in another (FM30); the second opening costs nothing
/// until it allocates.
#[test]
fn a_block_of_one_opening_is_freed_by_the_next() {
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

/// Wild, foreign, interior, double: each has its own error and changes nothing. Every byte of a
/// block is allocated, for any start of the block; none before it, behind it, or of a freed one.
#[test]
fn bytes_are_allocated_as_far_as_blocks_reach() {
    let (_store, heap) = create(64 << 20, 32 << 20);
    for size in [16, 48, 1000, 5000, 8192, 70_000, 3 << 20] {
        let at = allocate(&heap, size);
        let end = at + heap.size_of(at).unwrap();
        for (from, len) in [(at, 1), (at, end - at), (at + 8, 8), (end - 8, 8), ((at + end) / 2, 8), (at, 0)] {
            assert!(heap.is_allocated(from, len), "{from:#x} + {len} of {at:#x}..{end:#x}");
        }
        for (from, len) in [(at - 8, 16), (at - 8, 8), (end - 8, 16), (end, 8), (at, u64::MAX), (at, 1 << 40)] {
            assert!(!heap.is_allocated(from, len), "{from:#x} + {len} of {at:#x}..{end:#x}");
        }
        free(&heap, at);
        assert!(!heap.is_allocated(at, 8), "freed");
    }
    assert!(!heap.is_allocated(0, 8) && !heap.is_allocated(u64::MAX - 8, 8) && !heap.is_allocated(1 << 50, 8));
    assert!(!heap.is_allocated((heap.object().prime() + 4096).get(), 8), "the heap's own");
}

#[test]
fn pointers_that_are_no_blocks_are_refused() {
    let (store, heap) = create(64 << 20, 32 << 20);
    let (small, large) = (allocate(&heap, 100), allocate(&heap, 100_000));
    let prime = heap.object().prime().get();
    for at in
        [0, 1, prime, prime + 512, prime + 4096, prime + 8192, small + 16, large + 8, large + 4096, large + 65_536]
    {
        assert!(matches!(heap.op_free(at), Err(Error::NotABlock { .. } | Error::NotAllocated { .. })), "{at:#x}");
    }
    for at in [
        heap.object().backed().get(),
        heap.object().backed().get() - 16,
        Offset::new(u64::MAX).get(),
        (Offset::new(u64::MAX - 7)).get(),
        Offset::new(store.media().len()).get(),
    ] {
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
    let far = heap.op_allocate(&everbyte_heap::Block { at: Offset::new(at + (2 << 20)), size: Length::new(64) });
    let other = heap.op_allocate(&everbyte_heap::Block { at: Offset::new(at), size: Length::new(128) });
    let large = heap.op_allocate(&everbyte_heap::Block { at: Offset::new(at & !4095), size: Length::new(12288) });
    let system = heap.op_allocate(&everbyte_heap::Block { at: heap.object().prime() + 4096, size: Length::new(12288) });
    for op in [far, other, large, system, Op::from(0), Op::from(u64::MAX), Op::from(0xf)] {
        assert!(heap.validate(op).is_err(), "{op:?}");
    }
}

/// An operation is refused once its cluster is given back, whose record still says what it was.
#[test]
fn operations_on_clusters_that_are_given_back_are_refused() {
    for size in [64, 300_000] {
        let (_store, heap) = create(8 << 20, 4 << 20);
        let op = heap.op_free(allocate(&heap, size)).unwrap();
        heap.validate(op).unwrap();
        heap.apply(&[op]);
        heap.media().fence();
        heap.finish(&[op]);
        heap.shrink_all().unwrap();
        assert!(heap.validate(op).is_err(), "{size} bytes that nothing backs");
    }
}

/// A full span is an error that names it; freed blocks make space; blocks of other classes serve if
/// there are no others.
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
    for word in [520, 528, 552, 576] {
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
    let prime = heap.object().prime().get();
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

/// Growth over zone borders puts tables before their zones; opening again follows them (FM33,
/// FM34).
#[test]
fn a_heap_of_many_zones_is_found_again() {
    let store = Store::format(Media::anonymous(2 << 30, &Options::default()).unwrap(), &Default::default()).unwrap();
    let heap = crate::common::heap_in(&store, 1 << 30);
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

/// Two threads free one block at once while a third takes and frees pages around it: one of the two
/// frees it, the other gets an error, and exactly the block is freed.
#[test]
fn racing_double_frees_free_one_block_once() {
    use std::sync::Barrier;
    let (_store, heap) = create(64 << 20, 32 << 20);
    const ROUNDS: usize = 400;
    let (start, end) = (Barrier::new(3), Barrier::new(3));
    let at = std::sync::atomic::AtomicU64::new(0);
    let free_it = || {
        let mut freed = 0;
        for _ in 0..ROUNDS {
            start.wait();
            let block = at.load(std::sync::atomic::Ordering::Acquire);
            match heap.op_free(block) {
                Ok(op) => {
                    freed += 1;
                    heap.apply(&[op]);
                    heap.media().fence();
                    heap.finish(&[op]);
                }
                // A block of pages that another thread has taken meanwhile may begin before it.
                Err(Error::NotAllocated { .. } | Error::BeingFreed { .. } | Error::NotABlock { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            end.wait();
        }
        freed
    };
    let freed = std::thread::scope(|scope| {
        let frees = [scope.spawn(free_it), scope.spawn(free_it)];
        for round in 0..ROUNDS {
            at.store(allocate(&heap, 100_000 + round as u64 % 7 * 5000), std::sync::atomic::Ordering::Release);
            start.wait();
            for size in [200_000, 70_000, 9000] {
                let block = heap.reserve(size).unwrap();
                heap.cancel(block);
            }
            end.wait();
        }
        frees.map(|thread| thread.join().unwrap())
    });
    assert_eq!(freed[0] + freed[1], ROUNDS);
    assert_eq!(heap.check(Some(&Default::default())), []);
}

/// Targets of [`Heap::alloc_into`] lie in the part for data: not in the heap's header, log and
/// tables, later ones included.
#[test]
fn a_target_in_the_heaps_own_pages_is_refused() {
    let (_store, heap) = create(64 << 20, 32 << 20);
    let prime = heap.object().prime().get();
    let large = allocate(&heap, 9 << 20); // the second zone's table comes before it
    let tables: Vec<u64> = (prime..heap.object().backed().get())
        .step_by(65536)
        .filter(|&at| !heap.may_hold_blocks(at, 8) && at >= (prime + (2 << 16)))
        .collect();
    assert!(!tables.is_empty(), "a heap of two zones has a table between its blocks");
    let own =
        [prime, prime + 512, prime + 4096, prime + 8192, tables[0], tables[0] + 65528, heap.object().span().end, 3];
    for target in own {
        assert!(matches!(heap.alloc_into(64, target), Err(Error::BadDestination { .. })), "{target:#x}");
    }
    assert!(heap.may_hold_blocks(large, 9 << 20) && !heap.may_hold_blocks(tables[0] - 8, 9));
    assert!(heap.encloses(tables[0] - 8, 9) && !heap.encloses(prime - 8, 8) && !heap.encloses(u64::MAX - 3, 8));
    for target in [large, (prime + 2048), heap.object().root_at().get()] {
        heap.alloc_into(64, target).unwrap();
    }
}

/// Many blocks are freed, and their clusters go back to the file system; they are backed again when
/// needed, unseen by other users of the heap.
#[test]
fn freed_clusters_go_back_to_the_file_system() {
    use everbyte_media::BackendChoice;
    use everbyte_store::{CreateOptions, Engine, ObjectOptions};
    use std::os::unix::fs::MetadataExt;
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let media = Options { backend, log_bytes: 1 << 20, ..Options::default() };
        let store =
            Store::create(&path, &CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() })
                .unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(256 << 20) };
        let heap = Heap::open(store.create_object("test", options, Heap::format).unwrap()).unwrap();
        let room = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let fill = |heap: &Heap, at: u64, size: u64| {
            for page in (at..at + size).step_by(4096) {
                let _section = heap.media().section();
                heap.media().store(page, page);
                heap.media().flush(page, 8);
            }
        };
        let empty = room();
        let kept = allocate(&heap, 100);
        let sizes: Vec<u64> = (0..400).map(|index| [3000, 8192, 40_000, 300_000][index % 4]).collect();
        let blocks: Vec<u64> = sizes.iter().map(|&size| allocate(&heap, size)).collect();
        blocks.iter().zip(&sizes).for_each(|(&at, &size)| fill(&heap, at, size));
        heap.media().barrier().unwrap();
        heap.media().checkpoint().unwrap();
        let full = room();
        assert!(full > empty + (30 << 20), "{empty} {full}");
        blocks.iter().for_each(|&at| free(&heap, at));
        let usage = heap.usage().unwrap();
        assert!(usage.released > usage.free_pages * 3 / 4, "{backend:?}: {usage:?}");
        store.trim().unwrap();
        assert!(room() < empty + (6 << 20), "{backend:?}: {empty}, {full}, {}", room());
        assert_eq!((heap.check(Some(&[kept].into())), store.check()), (vec![], vec![]));
        store.close().unwrap();
        drop((heap, store));
        // The next opening knows which clusters are backed.
        let store = Store::open(&path, &media).unwrap();
        let heap = heap_of(&store);
        let blocks: Vec<u64> = sizes.iter().map(|&size| allocate(&heap, size)).collect();
        blocks.iter().zip(&sizes).for_each(|(&at, &size)| fill(&heap, at, size));
        heap.media().barrier().unwrap();
        for (&at, &size) in blocks.iter().zip(&sizes) {
            assert!((at..at + size).step_by(4096).all(|page| heap.media().load(page) == page), "{backend:?}");
        }
        assert!(
            heap.object().backed() - heap.object().prime() < 60 << 20,
            "released clusters are used before new ones"
        );
        let reachable = blocks.iter().copied().chain([kept]).collect();
        assert_eq!((heap.check(Some(&reachable)), store.check()), (vec![], vec![]));
        store.close().unwrap();
    }
}

/// Released clusters are backed some at a time; a disk with space for one of them gives that one.
#[test]
fn a_disk_without_room_to_spare_still_gives_what_is_needed() {
    use everbyte_media::BackendChoice;
    use everbyte_sim::{DiskCall, RecordedDisk};
    use everbyte_store::CreateOptions;
    const EDQUOT: i32 = 122; // as a full disk, but the next call is answered again
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media = Options { backend: BackendChoice::File, log_bytes: 1 << 20, background: false, ..Options::default() };
    let create = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    Store::create(&path, &create).unwrap().close().unwrap();
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let heap = crate::common::heap_in(&store, 32 << 20);
    let blocks: Vec<u64> = (0..160).map(|_| allocate(&heap, 60_000)).collect();
    blocks.iter().for_each(|&at| free(&heap, at));
    assert!(heap.usage().unwrap().released > 64);
    // else a refusal makes holes of the released clusters, and asks for all sixteen again
    store.trim().unwrap();
    let (backed, calls) = (heap.object().backed(), disk.calls(DiskCall::Allocate));
    disk.fail(DiskCall::Allocate, 0, EDQUOT);
    while disk.calls(DiskCall::Allocate) == calls {
        allocate(&heap, 60_000);
    }
    assert_eq!(disk.calls(DiskCall::Allocate), calls + 2, "sixteen clusters were refused, and one was not");
    assert_eq!(heap.object().backed(), backed, "the heap has not grown");
    store.media().clone().abandon();
}

/// A block that was freed with the word that named it serves later allocations of this process.
#[test]
fn blocks_freed_from_a_word_are_allocated_again() {
    let (_store, heap) = create(64 << 20, 1 << 20);
    let target = heap.object().root_at();
    for size in [8192, 20_000, 300_000] {
        for _ in 0..200 {
            heap.alloc_into(size, target).unwrap();
            heap.free_from(target).unwrap();
        }
    }
    assert_eq!(heap.check(None), []);
}

/// A free that was given up leaves its block to be freed by another one.
#[test]
fn a_free_that_was_given_up_can_be_made_again() {
    let (_store, heap) = create(64 << 20, 1 << 20);
    for size in [64, 20_000] {
        let at = allocate(&heap, size);
        for _ in 0..3 {
            let op = heap.op_free(at).unwrap();
            assert!(matches!(heap.op_free(at), Err(Error::BeingFreed { .. })));
            heap.abandon(&[op]);
        }
        free(&heap, at);
    }
    assert_eq!((heap.usage().unwrap().allocated, heap.check(None)), (0, vec![]));
}

/// A block is reserved only after its destination is found to be good.
#[test]
fn a_refused_destination_costs_no_block() {
    let (_store, heap) = create(8 << 20, 1 << 20);
    for size in [64, 8192, 300_000] {
        for _ in 0..200 {
            assert!(matches!(heap.alloc_into(size, 3), Err(Error::BadDestination { .. })));
        }
        heap.cancel(heap.reserve(size).unwrap());
    }
}

/// The last cluster of a span serves as any other.
#[test]
fn a_heap_grows_to_the_end_of_its_span() {
    let (_store, heap) = create(8 << 20, 1 << 20);
    let blocks: Vec<_> = std::iter::from_fn(|| heap.reserve(60_000).ok()).collect();
    assert_eq!(heap.object().backed(), heap.object().span().end);
    assert!(blocks.iter().any(|block| block.end() + 65_536 > heap.object().span().end), "{blocks:?}");
}

/// The length of a large block is believed only if the block ends there.
#[test]
fn a_length_that_ends_inside_its_block_is_damage() {
    use everbyte_heap::layout::{CLUSTER, FIRST_TABLE, RECORD, TAIL_WORD};
    let (store, heap) = create(8 << 20, 4 << 20);
    let (at, prime) = (allocate(&heap, 40 * 4096), heap.object().prime().get());
    let tail = prime + FIRST_TABLE + (at - prime) / CLUSTER * RECORD + TAIL_WORD;
    assert_eq!(store.media().load(tail), 40);
    for wrong in [30, 39, 41] {
        store.media().store(tail, wrong);
        assert!(matches!(heap.size_of(at), Err(Error::Damaged { .. })), "{wrong} pages");
    }
    store.media().store(tail, 40);
    assert_eq!(heap.size_of(at).unwrap(), 40 * 4096);
}

/// Growth that would need a table between the free pages at the end and the new ones is refused
/// where only its pages have room.
#[test]
fn a_growth_without_room_for_its_table_is_refused() {
    for used in (5 << 20..8 << 20).step_by(100 << 10) {
        let (_store, heap) = create(64 << 20, 16 << 20);
        allocate(&heap, used);
        let sizes = (1..16 << 8).rev().step_by(16).map(|pages| pages * 4096);
        let refused = sizes.map_while(|size| heap.reserve(size).err());
        refused.for_each(|error| assert!(error.is_full(), "{error}"));
    }
}
