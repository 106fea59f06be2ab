//! Creates a heap in a new object, and reads its header back.
//!
//! The heap takes over the object's first clusters: prime page, log page, table of zone 0. The
//! stores here need no order of their own: the object has no name yet, and the store's barrier
//! comes before it gets one.

use crate::classes::{PAGE, SMALL_MAX, SMALL_MAX_BEFORE};
use crate::layout::{
    self, CLUSTER, FIRST_TABLE, FORMAT, FORMAT_27_CLASSES, FORMAT_SINGLE_TABLES, HEADER, HeapHeader, MAGIC, RECORD,
    ZONE, ZONE_CLUSTERS, ZONES_MAX,
};
use crate::{Error, Result};
use everbyte_media::sealed::{seal_for, unseal_for};
use everbyte_media::{Checked, Damage, Format, Length};
use everbyte_store::Object;
use zerocopy::{FromZeros, IntoBytes};

/// The values in the header.
pub(crate) struct Plan {
    /// Clusters of the heap.
    pub end: u64,
    /// Pages at the start of the span that are the heap's own.
    pub system_pages: u64,
    /// Zones for which tables are laid out; 0: each table is made alone.
    pub zones: u64,
    /// The largest block of a class.
    pub small_max: u64,
}

fn first_records(span_len: u64) -> u64 {
    (span_len / CLUSTER).min(ZONE_CLUSTERS)
}

fn zones_of(span_len: u64) -> u64 {
    span_len.div_ceil(ZONE).min(ZONES_MAX)
}

fn system_pages(first_records: u64) -> u64 {
    (FIRST_TABLE + first_records * RECORD).div_ceil(PAGE)
}

/// Formats a heap in an object that is being created.
pub(crate) fn format(object: &Object) -> Result<()> {
    let (media, prime, span) = (object.media(), object.prime(), object.span());
    let records = first_records(span.end - span.start);
    let pages = system_pages(records);
    let needed = (pages * PAGE).div_ceil(CLUSTER) * CLUSTER;
    let backed = (object.backed() - prime).get();
    if backed < needed {
        object.grow(needed - backed)?;
    }
    let _section = media.section();
    let end = (object.backed() - prime) / CLUSTER;
    for cluster in 0..end {
        let used = pages.saturating_sub(cluster * 16).min(16);
        let word = (1u64 << used) - 1; // used, and no block starts there: they cannot be freed
        media.store(prime + FIRST_TABLE + cluster * RECORD + layout::PAGE_WORD, word);
        media.flush(prime + FIRST_TABLE + cluster * RECORD, 64);
    }
    let mut header = HeapHeader { magic: MAGIC, format: FORMAT, ..HeapHeader::new_zeroed() };
    (header.span_len, header.first_records) = (Length::new(span.end - span.start), records);
    header.zones = zones_of(header.span_len.get());
    header.end = seal_for(layout::END, end as u32);
    header = header.sealed();
    media.write(prime + HEADER, header.as_bytes());
    media.flush(prime + HEADER, size_of::<HeapHeader>() as u64);
    media.fence();
    Ok(())
}

/// The smallest span into which the heap of `object` may be copied, with space to double: the first
/// zone's table has records for as many clusters as it was made for.
pub(crate) fn least_span(object: &Object) -> u64 {
    let span = object.span().end - object.span().start;
    let used = (object.backed() - object.prime()).get();
    (2 * used).next_power_of_two().max(ZONE_CLUSTERS * CLUSTER).min(span)
}

/// Adapts the header to the span of the object, into which a heap was copied.
pub(crate) fn adapt(object: &Object) {
    let (media, at, span) = (object.media(), object.prime() + HEADER, object.span());
    let mut header: HeapHeader = media.get(at);
    header.span_len = Length::new(span.end - span.start);
    // Existing tables keep their places; later batches follow the new span.
    let begun = unseal_for(layout::END, header.end).map_or(0, u64::from).div_ceil(ZONE_CLUSTERS);
    let zones = zones_of(header.span_len.get());
    if header.format != FORMAT_SINGLE_TABLES
        && layout::tabled_zones(begun, zones) == layout::tabled_zones(begun, header.zones)
    {
        header.zones = zones;
    }
    header = header.sealed();
    let _section = media.section();
    media.write(at, header.as_bytes());
    media.flush(at, size_of::<HeapHeader>() as u64);
}

/// Reads and checks the header.
pub(crate) fn read(object: &Object) -> Result<Plan> {
    let (media, prime, span) = (object.media(), object.prime(), object.span());
    let name = || object.name().to_string();
    let header: HeapHeader = media.get(prime + HEADER);
    if header.magic != MAGIC {
        return Err(Error::NoHeap { object: name() });
    }
    let damaged = |at: u64, detail: &str| Error::from(Damage::at(at, detail).of_object(name()));
    if header.format > FORMAT {
        return Err(Error::NewerFormat { object: name(), format: Format::new(header.format, FORMAT) });
    }
    if !header.checksum_agrees() {
        return Err(damaged((prime + HEADER).get(), "the heap's header fails its checksum"));
    }
    if header.format != FORMAT_SINGLE_TABLES && !(1..=ZONES_MAX).contains(&header.zones) {
        return Err(damaged((prime + HEADER).get(), "the heap's header has no zones"));
    }
    if header.span_len != span.end - span.start || header.first_records != first_records(header.span_len.get()) {
        return Err(damaged((prime + HEADER).get(), "the heap's header speaks of another span"));
    }
    media.reflush(prime + layout::END, 8); // HEAP-10; recovery of the heap's log fences it
    let end = unseal_for(layout::END, header.end).map(u64::from);
    let backed = (object.backed() - prime) / CLUSTER;
    match end {
        Some(end) if end <= backed && end * 16 >= system_pages(header.first_records) => {
            let zones = if header.format == FORMAT_SINGLE_TABLES { 0 } else { header.zones };
            let small_max = if header.format <= FORMAT_27_CLASSES { SMALL_MAX_BEFORE } else { SMALL_MAX };
            Ok(Plan { end, system_pages: system_pages(header.first_records), zones, small_max })
        }
        Some(_) => Err(damaged((prime + layout::END).get(), "the heap's end lies outside the backed clusters")),
        None => Err(damaged((prime + layout::END).get(), "the word of the heap's end is not whole")),
    }
}
