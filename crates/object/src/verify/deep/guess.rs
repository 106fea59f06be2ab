//! Guesses the type of a leaked block: the heap keeps no types, so every type that a pointer of
//! this pool can lead to is tried.

use crate::verify::deep::reader::Reader;
use crate::verify::deep::report::Report;
use crate::verify::deep::types::{Types, What};
use crate::verify::deep::walk::{HeapWalk, Visit};
use everbyte_heap::{Block, Heap};

/// Leaks that are looked at.
const MOST: usize = 1000;

/// Types that are named; a block that could be more than that could be anything.
const FITTING: usize = 3;

/// Adds to the report the types that its leaks look like.
pub(crate) fn name_leaks(report: &mut Report, heap: &Heap, types: &Types<'_>) {
    let leaks = report.unreached.iter().filter(|(_, is_leaked)| *is_leaked).take(MOST);
    let likes = leaks.map(|(block, _)| {
        let fitting = types.targets().filter(|(_, what)| fits(block, *what, heap, types));
        (block.at.get(), fitting.map(|(name, _)| name).take(FITTING + 1).collect::<Vec<_>>())
    });
    report.likes = likes.filter(|(_, likes)| (1..=FITTING).contains(&likes.len())).collect();
}

/// Whether a block of this size would have been made for such a thing, and holds one.
fn fits(block: &Block, what: What, heap: &Heap, types: &Types<'_>) -> bool {
    let size = match what {
        What::Value(of) => types.get(of).size,
        What::Counted(of) => types.get(of).size.and_then(|size| size.checked_add(16)),
    };
    if size.is_none_or(|size| size > block.size.get() || heap.block_bytes(size) != block.size.get()) {
        return false;
    }
    let walk = HeapWalk::new(heap, None, &|_| ());
    let mut reader = Reader::new(walk, types);
    reader.block(Visit { at: block.at.get(), elements: None, what });
    reader.walk.faults.is_empty()
}
