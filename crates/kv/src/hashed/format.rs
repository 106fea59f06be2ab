//! Making an empty hash table in a new object.

use crate::error::Result;
use crate::hashed::layout::*;
use crate::hashed::shape::segment_len;
use crate::tree::Version;
use everbyte_heap::Heap;
use everbyte_media::{Checked, Offset};
use everbyte_store::Object;
use zerocopy::{FromZeros, IntoBytes};

/// The version of a new, empty table.
const FIRST: Version = Version::new(1);

/// Writes an empty table into a new object; to be called before the object's name is published.
pub(crate) fn format(object: &Object) -> Result<()> {
    let (media, page_at) = (object.media().clone(), object.prime() + PAGE_AT);
    let _section = media.section();
    Heap::format(object)?;
    let heap = Heap::open(object.clone())?;
    let area = heap.reserve(AREA)?;
    media.zero(area.at, AREA);
    media.flush(area.at, AREA);
    let segment = heap.reserve(segment_len(0))?;
    media.copy_nt(segment.at, [SummedWord::of(0).0; FIRST_SEGMENT as usize].as_bytes());
    let ops = [area, segment].map(|block| heap.op_allocate(&block));
    let words = ops.map(u64::from);
    media.copy_nt(area.at, words.as_bytes());
    let identity = u128::from_le_bytes(object.store().identity());
    let mut page = HashPage::new_zeroed();
    page.header = HashHeader {
        magic: HASH_MAGIC,
        format: HASH_FORMAT,
        seed: [identity as u64 ^ object.id().get(), (identity >> 64) as u64],
        area: area.at,
        ..HashHeader::new_zeroed()
    }
    .sealed();
    page.commit = FIRST.commit_word(0);
    page.states[0] = HashState {
        version: FIRST,
        buckets: FIRST_SEGMENT,
        ledger: area.at,
        ops: ops.len() as u32,
        ledger_sum: crc32c::crc32c(words.as_bytes()),
        ..HashState::new_zeroed()
    }
    .sealed();
    page.segments = [SummedWord::of(0).0; SEGMENTS];
    page.segments[0] = SummedWord::of(Offset::get(segment.at)).0;
    media.put(page_at, &page);
    media.flush(page_at, size_of::<HashPage>() as u64);
    // The object's name is published behind a fence of the store: until then no reader looks here,
    // so one order suffices.
    media.fence();
    heap.apply(&ops);
    heap.finish(&ops);
    Ok(())
}
