//! Making an empty tree in a new object.

use crate::error::Result;
use crate::tree::build::{Item, Items, image, size_for};
use crate::tree::key::TableNumber;
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::sum::sum;
use everbyte_heap::Heap;
use everbyte_media::{Checked, LINE};
use everbyte_store::Object;
use zerocopy::{FromZeros, IntoBytes};

/// The version of a new, empty tree.
const FIRST: Version = Version::new(1);
/// The engine's part of the prime page.
pub(crate) const HEADER_AT: u64 = 2048;

pub(crate) fn format(object: &Object) -> Result<()> {
    let (media, header_at) = (object.media().clone(), object.prime() + HEADER_AT);
    let _section = media.section();
    Heap::format(object)?;
    let heap = Heap::open(object.clone())?;
    let area = heap.reserve(AREA)?;
    media.zero(area.at, AREA);
    media.flush(area.at, AREA);
    let mut items = Items::default();
    let leaf = heap.reserve(size_for(0, 0, 0).0 as u64)?;
    media.copy_nt(leaf.at, &image(0, FIRST, leaf.size.to_usize() & !(LINE as usize - 1), &items, 0..0));
    items.bytes.extend_from_slice(&u64::from(sum(b"")).to_le_bytes());
    let item = Item {
        start: FIRST,
        end: Version::NONE,
        flags: 0,
        table: TableNumber::MAIN,
        key_len: 0,
        value: leaf.at.get(),
        record: 0..8,
        key_sum: 0,
    };
    items.list.push(item);
    let root = heap.reserve(size_for(1, 1, 8).0 as u64)?;
    media.copy_nt(root.at, &image(1, FIRST, root.size.to_usize() & !(LINE as usize - 1), &items, 0..1));
    let ops = [area, leaf, root].map(|block| heap.op_allocate(&block));
    let words = ops.map(u64::from);
    media.copy_nt(area.at + LEDGERS_AT[0], words.as_bytes());
    let mut state = State::new_zeroed();
    (state.version, state.root, state.ledger, state.ops) = (FIRST, root.at, area.at + LEDGERS_AT[0], ops.len() as u64);
    state.ledger_sum = crc32c::crc32c(words.as_bytes());
    state = state.sealed();
    media.put(header_at + STATES_AT[0], &state);
    media.zero(header_at + STATES_AT[1], size_of::<State>() as u64);
    let mut header = TreeHeader::new_zeroed();
    (header.magic, header.format, header.area) = (TREE_MAGIC, TREE_FORMAT, area.at);
    header = header.sealed();
    media.put(header_at, &header);
    media.store(header_at + COMMIT_AT, FIRST.commit_word(0));
    // No store belongs to a later version: the first opening has nothing to void.
    media.store(header_at + CLOSED_AT, FIRST.get());
    media.flush(header_at, size_of::<TreePage>() as u64);
    // The object's name is published behind a fence of the store: until then no reader looks here,
    // so one order suffices.
    media.fence();
    heap.apply(&ops);
    heap.finish(&ops);
    Ok(())
}
