//! Power cuts and deaths of processes around atomic allocation, and a first allocation after
//! recovery.
//!
//! A process that dies on `pmem` leaves unflushed stores. Changes of recovery and later allocations
//! that depend on them must not survive without them.

use everbyte_heap::Heap;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order, Seen, Twin};
use everbyte_store::{Engine, Error, FormatOptions, ObjectOptions, Store};
use std::collections::{BTreeMap, BTreeSet};

/// The size of the block that each word of the prime page's engine part points to.
type Model = BTreeMap<u64, u64>;

/// Words used by programs; the last is for allocations after recovery.
const WORDS: u64 = 6;

fn fresh(span: u64) -> Image {
    Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(span) };
        store.create_object("heap", options, Heap::format).unwrap();
        store.close().unwrap();
    })
}

fn open(media: Media) -> Result<Heap, String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let object = store.object("heap").map_err(|error: Error| error.to_string())?;
    Heap::open(object).map_err(|error| error.to_string())
}

fn word(heap: &Heap, index: u64) -> u64 {
    (heap.object().prime() + 2048 + index * 64).get()
}

/// Recovers, allocates the block that the crash may have cut off, and reads out.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let heap = open(media)?;
    let spare = word(&heap, WORDS);
    if heap.media().load(spare) == 0 {
        heap.alloc_into(70_000, spare).map_err(|error| error.to_string())?;
    }
    seen.recovered();
    let at = |index: u64| heap.media().load(word(&heap, index));
    let pointed: BTreeSet<u64> = (0..=WORDS).map(at).filter(|&at| at != 0).collect();
    let findings = heap.check(Some(&pointed));
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    let sizes = (0..WORDS).filter(|&index| at(index) != 0).map(|index| {
        let size = heap.size_of(at(index)).map_err(|error| error.to_string())?;
        Ok((index, size))
    });
    sizes.collect()
}

fn allocate(heap: &Heap, twin: &Twin<'_, Model>, index: u64, size: u64, usable: u64) {
    let change = move |model: &mut Model| {
        model.insert(index, usable);
    };
    twin.step(format!("allocate {size} into {index}"), change, || {
        heap.alloc_into(size, word(heap, index)).unwrap();
    });
}

fn free(heap: &Heap, twin: &Twin<'_, Model>, index: u64) {
    let change = move |model: &mut Model| {
        model.remove(&index);
    };
    twin.step(format!("free from {index}"), change, || heap.free_from(word(heap, index)).unwrap());
}

fn explore(name: &str, program: impl Fn(&Heap, &Twin<'_, Model>)) {
    let run = |media: Media, twin: &Twin<'_, Model>| program(&open(media).unwrap(), twin);
    let explorer = Explorer::new(name).total(1_200);
    explorer.twin(&fresh(2 << 20), &Model::new(), Order::InOrder, run, observe);
}

#[test]
fn small_blocks_survive_the_death_of_their_process() {
    explore("heap-death-small", |heap, twin| {
        allocate(heap, twin, 0, 100, 128);
        allocate(heap, twin, 1, 100, 128);
        free(heap, twin, 0);
        allocate(heap, twin, 2, 3000, 3072);
        free(heap, twin, 1); // its run is empty now
        allocate(heap, twin, 0, 16, 16);
    });
}

#[test]
fn a_run_that_becomes_pages_survives_the_death_of_its_process() {
    explore("heap-death-convert", |heap, twin| {
        allocate(heap, twin, 0, 64, 64);
        free(heap, twin, 0);
        allocate(heap, twin, 1, 200_000, 200_704);
        free(heap, twin, 1);
        allocate(heap, twin, 2, 64, 64);
    });
}

#[test]
fn growth_survives_the_death_of_its_process() {
    explore("heap-death-grow", |heap, twin| {
        allocate(heap, twin, 0, 60_000, 61_440);
        allocate(heap, twin, 1, 300_000, 303_104);
        free(heap, twin, 0);
        allocate(heap, twin, 2, 8192, 8192);
    });
}
