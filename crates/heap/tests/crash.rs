//! Power cuts and dying processes in the middle of every change of a heap, and in the middle of
//! recovering from them.

mod common;

use everbyte_heap::{Heap, Op, layout};
use everbyte_media::{Media, museum};
use everbyte_sim::{Explorer, Failure, Image, Order, Profile, Report, Seen, Twin};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use std::collections::BTreeSet;

/// Words of the prime page that receive blocks.
const TARGETS: u64 = 4;

/// The block of each target: none, or one of so many bytes, all of this value (`None`: of any).
type Model = Vec<Option<(u64, Option<u8>)>>;

fn empty() -> Model {
    vec![None; TARGETS as usize]
}

fn image(span: u64) -> Image {
    let format = FormatOptions { log_len: 0, identity: Some([3; 16]) };
    Image::zeroed(128 << 10).with_max(2 * span).then(move |media| {
        let store = Store::format(media, &format).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(span) };
        store.create_object("test", options, Heap::format).unwrap();
        store.close().unwrap();
    })
}

fn open(media: Media) -> Result<(Store, Heap), String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let object = store.object("test").map_err(|error| error.to_string())?;
    Ok((store, Heap::open(object).map_err(|error| error.to_string())?))
}

fn target(heap: &Heap, index: u64) -> u64 {
    (heap.object().prime() + layout::HEADER_END + index * 64).get()
}

/// Recovers and reads out: nothing leaked, nothing doubled, contents whole, and the heap works.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let (_store, heap) = open(media)?;
    let mut model = empty();
    let mut reachable = BTreeSet::new();
    for index in 0..TARGETS {
        let at = heap.media().load(target(&heap, index));
        if at == 0 {
            continue;
        }
        let size = heap.size_of(at).map_err(|error| error.to_string())?;
        let first = heap.media().get::<u8>(at);
        let same = size <= 4096 && heap.media().read_vec(at, size as usize).iter().all(|&byte| byte == first);
        model[index as usize] = Some((size, (same && first != 0).then_some(first)));
        reachable.insert(at);
    }
    seen.recovered();
    let findings = heap.check(Some(&reachable));
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    let mut more = vec![];
    for size in [16, 64, 100, 8192, 9000, 20_000] {
        let block = heap.reserve(size).map_err(|error| error.to_string())?;
        if reachable
            .range(..block.end().get())
            .next_back()
            .is_some_and(|&at| at + heap.size_of(at).unwrap() > block.at.get())
        {
            return Err(format!("{block:?} is handed out and in use"));
        }
        more.push(block);
    }
    more.into_iter().for_each(|block| heap.cancel(block));
    Ok(model)
}

fn set(twin: &Twin<'_, Model>, heap: &Heap, index: u64, size: u64, fill: u8) {
    let usable = heap.reserve(size).map(|block| (heap.cancel(block), block.size).1).unwrap();
    let change = move |model: &mut Model| model[index as usize] = Some((usable.get(), Some(fill)));
    twin.step(format!("set {index}"), change, || heap.alloc_set(size, target(heap, index), fill).unwrap());
}

fn allocate(twin: &Twin<'_, Model>, heap: &Heap, index: u64, size: u64) {
    let change = move |model: &mut Model| model[index as usize] = Some((size, None));
    twin.step(format!("allocate {index}"), change, || heap.alloc_into(size, target(heap, index)).unwrap());
}

fn free(twin: &Twin<'_, Model>, heap: &Heap, index: u64) {
    let change = move |model: &mut Model| model[index as usize] = None;
    twin.step(format!("free {index}"), change, || heap.free_from(target(heap, index)).unwrap());
}

fn explore(name: &str, profiles: &[Profile], program: impl Fn(&Heap, &Twin<'_, Model>)) -> Result<(), Box<Failure>> {
    explore_in(1 << 20, 6_000, name, profiles, program)
}

fn explore_in(
    span: u64,
    total: u64,
    name: &str,
    profiles: &[Profile],
    program: impl Fn(&Heap, &Twin<'_, Model>),
) -> Result<(), Box<Failure>> {
    let explorer = Explorer::new(name).profiles(profiles).total(total);
    let run = |media: Media, twin: &Twin<'_, Model>| program(&open(media).unwrap().1, twin);
    explorer.explore_twin(&image(span), &empty(), Order::InOrder, run, observe).map(|report| println!("{report}"))
}

const LINES: [Profile; 2] = [Profile::PMEM_LINES, Profile::FILE_LINES];

/// FM27 and FM29 at every step: the block's bit and the pointer to it change together, both ways.
fn attach_and_detach(heap: &Heap, twin: &Twin<'_, Model>) {
    allocate(twin, heap, 0, 1024);
    allocate(twin, heap, 1, 20 << 10);
    free(twin, heap, 0);
    allocate(twin, heap, 2, 1024);
    free(twin, heap, 1);
    allocate(twin, heap, 1, 72 << 10); // over two clusters
    free(twin, heap, 1);
    allocate(twin, heap, 3, 20 << 10); // at the place of the large one
}

#[test]
fn a_block_and_the_pointer_to_it_appear_and_vanish_together() {
    explore("heap-attach", &Profile::BOTH, attach_and_detach).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn the_same_where_lines_keep_their_order() {
    explore("heap-attach-lines", &LINES, attach_and_detach).unwrap_or_else(|failure| panic!("{failure}"));
}

/// FM28, and pmdk#4945 (a crash in a zeroing allocation left a block without its zeros).
fn fill(heap: &Heap, twin: &Twin<'_, Model>) {
    set(twin, heap, 0, 100, 7);
    set(twin, heap, 1, 520, 9); // of which the block has a line and more beside
    free(twin, heap, 0);
    set(twin, heap, 0, 100, 8);
}

#[test]
fn content_allocation_and_pointer_appear_together() {
    explore("heap-fill", &Profile::BOTH, fill).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Clusters change from runs of one class to pages, to runs of another class: no bit of the old use
/// is valid.
fn change_classes(heap: &Heap, twin: &Twin<'_, Model>) {
    let rest_of_the_first_cluster = heap.reserve(48 << 10).unwrap(); // it never becomes a run
    for round in 0..2 {
        allocate(twin, heap, 0, 72 << 10);
        free(twin, heap, 0);
        // Fill the classes' runs from the same free clusters: reservations alone move clusters
        // between uses.
        let held: Vec<_> = (0..9).map(|_| heap.reserve([8192, 16][round]).unwrap()).collect();
        allocate(twin, heap, 1, [8192, 16][round]);
        free(twin, heap, 1);
        held.into_iter().for_each(|block| heap.cancel(block));
    }
    heap.cancel(rest_of_the_first_cluster);
}

#[test]
fn clusters_change_their_use() {
    explore("heap-classes", &Profile::BOTH, change_classes).unwrap_or_else(|failure| panic!("{failure}"));
}

/// The tests above find every seeded bug of this crate.
#[test]
fn seeded_bugs_are_found() {
    type Program = fn(&Heap, &Twin<'_, Model>);
    let bugs: [(&'static str, Program); 5] = [
        ("heap-tail-kept", change_classes),
        ("heap-slot-unfenced", attach_and_detach),
        ("heap-bits-not-flushed", attach_and_detach),
        ("heap-run-not-flushed", attach_and_detach),
        ("heap-fill-unfenced", fill),
    ];
    for (bug, program) in bugs {
        let outcome = museum::with(bug, || explore(bug, &Profile::BOTH, program));
        println!("{}", outcome.expect_err(&format!("{bug}: not found")));
    }
}

/// The object grows while blocks are attached.
fn grow(heap: &Heap, twin: &Twin<'_, Model>) {
    for index in 0..TARGETS {
        allocate(twin, heap, index, 132 << 10);
    }
}

#[test]
fn growth_loses_nothing() {
    explore("heap-grow", &Profile::BOTH, grow).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Growth over the border of a zone brings a new table.
fn grow_zone(heap: &Heap, twin: &Twin<'_, Model>) {
    allocate(twin, heap, 0, (8 << 20) - (64 << 10));
    allocate(twin, heap, 1, 64);
}

#[test]
fn a_new_zone_has_a_table_or_is_none() {
    explore_in(16 << 20, 300, "heap-zone", &Profile::BOTH, grow_zone).unwrap_or_else(|failure| panic!("{failure}"));
    let bug = "heap-end-before-tables";
    let outcome = museum::with(bug, || explore_in(16 << 20, 300, bug, &Profile::BOTH, grow_zone));
    println!("{}", outcome.expect_err(&format!("{bug}: not found")));
}

/// A growth died before it stored the end, and the next process zeroed its records again and died
/// before it flushed them. The growth of the process after that finds zeros that power takes back.
/// `closes`: in between the store was opened and closed in good order.
fn explore_zeroed_records(closes: bool) -> Result<Report, Box<Failure>> {
    let format = FormatOptions { log_len: 0, identity: Some([3; 16]) };
    let record = |heap: &Heap| {
        let end = heap.usage().unwrap().total / layout::CLUSTER;
        (end, heap.object().prime() + layout::FIRST_TABLE + end * layout::RECORD)
    };
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let store = Store::format(media.clone(), &format).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(1 << 20) };
        let heap = Heap::open(store.create_object("test", options, Heap::format).unwrap()).unwrap();
        let (end, record) = record(&heap);
        media.store(record, layout::seal_kind(layout::ClusterKind::System, end));
    });
    let at = record(&open(image.media()).unwrap().1).1;
    let program = |media: Media, twin: &Twin<'_, Model>| {
        media.store(at, 0);
        if closes {
            Store::attach(media.clone()).unwrap().close().unwrap();
        }
        let (store, heap) = open(media).unwrap();
        assert_eq!(store.recovery().clean, closes);
        allocate(twin, &heap, 0, 256 << 10);
    };
    let explorer = Explorer::new("heap-zeroed-records").profiles(&[Profile::PMEM]).total(2_000);
    explorer.explore_twin(&image, &empty(), Order::InOrder, program, observe)
}

#[test]
fn records_that_a_dead_process_has_zeroed_stay_zeros() {
    println!("{}", explore_zeroed_records(false).unwrap_or_else(|failure| panic!("{failure}")));
}

/// A close in good order says nothing of stores that the closing process did not look at.
#[test]
fn records_that_a_dead_process_has_zeroed_stay_zeros_after_a_close() {
    println!("{}", explore_zeroed_records(true).unwrap_or_else(|failure| panic!("{failure}")));
    let outcome = museum::with("store-close-hides-a-death", || explore_zeroed_records(true));
    println!("{}", outcome.expect_err("a close that hides a death was not found"));
}

/// Operations made valid by another engine's commit word, as the versioned tree uses them: a ledger
/// of operations, valid by its word, which may be replayed repeatedly.
#[test]
fn operations_of_a_ledger_happen_whole_or_not() {
    let ledger = |heap: &Heap| heap.object().prime() + layout::HEADER_END + 512;
    let commit = |heap: &Heap, ops: &[Op], targets: &[(u64, u64)]| {
        let (media, at) = (heap.media(), ledger(heap));
        for (index, (op, (target, value))) in ops.iter().zip(targets).enumerate() {
            media.write(at + 64 + index as u64 * 24, &[u64::from(*op), *target, *value].map(u64::to_le_bytes).concat());
        }
        media.flush(at + 64, ops.len() as u64 * 24);
        media.fence();
        media.store(at, ops.len() as u64);
        media.flush(at, 8);
        media.barrier().unwrap();
    };
    let finish = |heap: &Heap| {
        let (media, at) = (heap.media(), ledger(heap));
        media.reflush(at, 8);
        let entries = (0..media.load(at)).map(|index| media.get::<[u64; 3]>(at + 64 + index * 24)).collect::<Vec<_>>();
        let ops: Vec<Op> = entries.iter().map(|entry| Op::from(entry[0])).collect();
        ops.iter().for_each(|op| heap.validate(*op).unwrap());
        media.fence();
        heap.apply(&ops);
        for [_, target, value] in &entries {
            media.store(*target, *value);
            media.flush(*target, 8);
        }
        media.fence();
        media.store(at, 0);
        media.flush(at, 8);
        media.fence();
        heap.finish(&ops);
    };
    let explorer = Explorer::new("heap-ledger").total(6_000);
    explorer.twin(
        &image(1 << 20),
        &empty(),
        Order::InOrder,
        |media, twin| {
            let heap = open(media).unwrap().1;
            let mut old: Vec<u64> = vec![];
            for sizes in [[1024, 40 << 10, 64], [64, 1024, 84 << 10]] {
                let blocks = sizes.map(|size| heap.reserve(size).unwrap());
                let mut ops: Vec<Op> = blocks.iter().map(|block| heap.op_allocate(block)).collect();
                let mut targets: Vec<(u64, u64)> = blocks
                    .iter()
                    .enumerate()
                    .map(|(index, block)| (target(&heap, index as u64), block.at.get()))
                    .collect();
                for at in old.drain(..) {
                    ops.push(heap.op_free(at).unwrap());
                    targets.push(((ledger(&heap) + 8).get(), 0)); // outside the targets
                }
                old.extend(blocks.iter().map(|block| block.at.get()));
                let change = move |model: &mut Model| {
                    sizes.iter().enumerate().for_each(|(index, &size)| model[index] = Some((size, None)));
                };
                twin.step("replace", change, || commit(&heap, &ops, &targets));
                finish(&heap);
            }
        },
        |media, seen| {
            let (store, heap) = open(media)?;
            finish(&heap);
            drop(heap);
            observe(store.media().clone(), seen)
        },
    );
}
