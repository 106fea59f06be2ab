//! The cost of opening a heap does not depend on its size: counted in touched pages.

use crate::common::{heap_in, heap_of};
use everbyte_media::{BackendChoice, Durability, OpenOptions, Options};
use everbyte_store::{CreateOptions, Store};
use std::path::Path;

const PAGE: u64 = 4096;

/// Clears the marks of touched pages in the kernel, and in the processor, which forgets them only
/// with the second.
fn forget() {
    ["1", "4"].iter().for_each(|what| std::fs::write("/proc/self/clear_refs", what).unwrap());
}

/// Pages of a file's mapping that were touched since [`forget`]: those that the processor has
/// marked.
fn looked_at(path: &Path) -> u64 {
    let (smaps, path) = (std::fs::read_to_string("/proc/self/smaps").unwrap(), path.to_str().unwrap());
    let (mut sum, mut inside) = (0, false);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Referenced:") if inside => sum += words.next().unwrap().parse::<u64>().unwrap() << 10,
            Some(name) if name.ends_with(':') => {}
            _ => inside = line.ends_with(path), // the line that a mapping begins with
        }
    }
    sum / PAGE
}

/// The pages that opening a heap of so many blocks of 1 KiB touches, its store included, and those
/// that walking all of it touches.
fn opened_and_walked(blocks: u64) -> (u64, u64) {
    // Privately mapped memory, so that no page is a large one.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store");
    let options = Options { backend: BackendChoice::File, durability: Durability::Process, ..Options::default() };
    let create = CreateOptions { media: options.clone(), max: 1 << 30, ..CreateOptions::default() };
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
    let media = OpenOptions::new(&path).open(&options).unwrap();
    let pages = || {
        forget();
        let store = Store::attach(media.clone()).unwrap();
        let heap = heap_of(&store);
        let opened = looked_at(&path);
        forget();
        let mut found = 0;
        heap.blocks(|_| found += 1).unwrap();
        assert!(found >= blocks, "{found} blocks");
        (opened, looked_at(&path))
    };
    pages(); // maps these pages, and more around them
    pages()
}

#[test]
fn opening_a_heap_looks_at_the_same_whatever_it_holds() {
    let ((small, _), (large, all)) = (opened_and_walked(1000), opened_and_walked(100_000));
    let note = format!("{small} pages for a thousand blocks, {large} for a hundred thousand; walking those: {all}");
    assert!(small > 0 && large <= small + 2, "{note}");
    assert!(all > 5 * large, "the count sees what is looked at: {note}");
}
