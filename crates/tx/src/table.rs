//! The table on the prime page that says where an engine's logs lie: one block of the heap, cut
//! into equal parts.
//!
//! Both engines have one, each under its own magic and format. Format: docs/formats/lane.md.

use crate::layout::{LANES_AT, LANES_MAX, TABLE, Table};
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_log as log;
use everbyte_media::{Checked, Damage, Format, Length, Media};
use everbyte_store::{Object, PRIME_LEN};
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// An engine's magic, and the format that it reads and writes.
pub(crate) type MagicAndFormat = ([u8; 8], u32);

/// Offsets of the parts.
pub(crate) struct Parts {
    /// The whole block.
    pub bytes: Range<u64>,
    pub count: u64,
    pub len: u64,
}

impl Parts {
    pub(crate) fn each(&self) -> impl Iterator<Item = Range<u64>> {
        let (start, len) = (self.bytes.start, self.len);
        (0..self.count).map(move |part| start + part * len..start + (part + 1) * len)
    }
}

/// Makes a heap in an object that is being created, and in it `count` parts of `len` bytes, each
/// formatted by `part` with a salt of its own.
pub(crate) fn format(
    object: &Object,
    (magic, format): MagicAndFormat,
    (count, len): (u32, u64),
    part: fn(&Media, Range<u64>, u64) -> log::Result<()>,
) -> Result<()> {
    assert!((1..=LANES_MAX).contains(&count), "1 to 1024 lanes, not {count}");
    assert!(len.is_multiple_of(64) && (256..1 << 30).contains(&len), "lanes of {len} bytes");
    Heap::format(object)?;
    let heap = Heap::open(object.clone())?;
    let (media, prime) = (object.media(), object.prime());
    let mut table = Table { magic, format, lanes: count, lane_len: Length::new(len), ..Table::new_zeroed() };
    table = table.sealed();
    {
        let _section = media.section();
        media.write(prime + TABLE, table.as_bytes());
        media.flush(prime + TABLE, size_of::<Table>() as u64);
        media.fence();
    }
    let identity = u64::from_le_bytes(object.store().identity()[..8].try_into().expect("eight of sixteen bytes"));
    let mut formatted = Ok(());
    heap.alloc_with(u64::from(count) * len, (prime + LANES_AT).get(), |media, block| {
        for index in 0..u64::from(count) {
            let at = block.at + index * len;
            let salt = (identity ^ object.id().get().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.get();
            if let Err(error) = part(media, at.get()..(at + len).get(), salt) {
                formatted = Err(error);
            }
        }
    })?;
    Ok(formatted?)
}

/// Reads and checks the table.
pub(crate) fn read(heap: &Heap, (magic, known): MagicAndFormat) -> Result<Parts> {
    let (object, media) = (heap.object(), heap.media());
    let (prime, name) = (object.prime(), || object.name().to_string());
    let damaged = |at, detail: &str| Error::from(Damage::at(at, detail).of_object(name()));
    let table: Table = media.get(prime + TABLE);
    if table.magic != magic {
        return Err(Error::NoLane { object: name() });
    }
    if table.format > known {
        return Err(Error::NewerFormat { object: name(), format: Format::new(table.format, known) });
    }
    if !table.checksum_agrees() || !(1..=LANES_MAX).contains(&table.lanes) || table.lane_len >= 1 << 30 {
        return Err(damaged(prime + TABLE, "the lane table fails its checksum"));
    }
    if table.format < known {
        return Err(Error::OlderFormat { object: name(), format: Format::new(table.format, known) });
    }
    let (size, count) = (heap.size_of(table.lanes_at.get())?, u64::from(table.lanes));
    if size < count * table.lane_len.get() {
        return Err(damaged(table.lanes_at, "the block of the lanes is too small for them"));
    }
    Ok(Parts { bytes: table.lanes_at.get()..(table.lanes_at + size).get(), count, len: table.lane_len.get() })
}

/// Whether `at..at+len`, which may be any numbers, is data: where blocks can lie and lanes do not,
/// or the root word, or the prime page from `engine_end` on.
#[inline]
pub(crate) fn holds_data(heap: &Heap, lanes: &Range<u64>, engine_end: u64, at: u64, len: u64) -> bool {
    let prime = heap.object().prime();
    if at >= (prime + PRIME_LEN).get() {
        return heap.may_hold_blocks(at, len) && (at + len <= lanes.start || at >= lanes.end);
    }
    at == heap.object().root_at().get() && len == 8
        || at >= (prime + engine_end).get() && len <= (prime + PRIME_LEN).get() - at
}
