//! Opening a heap costs the same whatever it holds: counted in pages that are looked at.

mod common;

use common::{heap_in, heap_of};
use everbyte_media::{BackendChoice, Durability, Options};
use everbyte_store::{CreateOptions, Store};
use std::path::Path;

/// What the kernel maps around a page that is looked at, as far as it has it.
const AROUND: u64 = 64 << 10;

/// Bytes of a file that this process's mappings have brought in.
fn resident(path: &Path) -> u64 {
    let (smaps, path) = (std::fs::read_to_string("/proc/self/smaps").unwrap(), path.to_str().unwrap());
    let (mut sum, mut inside) = (0, false);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") if inside => sum += words.next().unwrap().parse::<u64>().unwrap() << 10,
            Some(name) if name.ends_with(':') => {}
            _ => inside = line.ends_with(path), // the line that a mapping begins with
        }
    }
    sum
}

/// What opening a heap of so many blocks of 1 KiB looks at, its store with it, and how much more walking all of it does.
fn looked_at(blocks: u64) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // On shared memory a page may be a huge one.
    let media = Options { backend: BackendChoice::File, durability: Durability::Process, ..Options::default() };
    let create = CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() };
    let store = Store::create(&path, &create).unwrap();
    let heap = heap_in(&store, 512 << 20);
    for _ in 0..blocks / 100 {
        let ops: Vec<_> = (0..100).map(|_| heap.op_allocate(&heap.reserve(1024).unwrap())).collect();
        heap.apply(&ops);
        heap.media().fence();
        heap.finish(&ops);
    }
    drop(heap);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &media).unwrap();
    let heap = heap_of(&store);
    let opened = resident(&path);
    let mut found = 0;
    heap.blocks(|_| found += 1).unwrap();
    assert!(found >= blocks, "{found} blocks");
    (opened, resident(&path) - opened)
}

#[test]
fn opening_a_heap_looks_at_the_same_whatever_it_holds() {
    let ((small, _), (large, all)) = (looked_at(1000), looked_at(100_000));
    let note = format!("{small} bytes for a thousand blocks, {large} for a hundred thousand; walking those: {all}");
    assert!(small > 0 && large <= small + AROUND, "{note}");
    assert!(all > small + AROUND, "the count sees what is looked at: {note}");
}
