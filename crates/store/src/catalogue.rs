//! The object table: one record for each object, read whole at open and kept beside.
//!
//! A record's body is written and fenced while its state word says that nobody reads it; then one 8-byte store of
//! the state word says what it is. States change like this:
//!   free -> creating (`claim`) -> live (`publish`) -> removing (`retire`) -> free (`free`)
//!   creating -> free (`free`): the creation failed, or recovery found it interrupted
//!
//! Invariants
//!   STORE-3  A record's body is fenced before its state word makes it count, and is not touched while it does.
//!   STORE-4  Live, creating and removing records have spans that do not overlap, and live ones differ in name.

use crate::layout::{Record, STATE_CREATING, STATE_FREE, STATE_LIVE, STATE_REMOVING, Superblock};
use crate::{Engine, Origin, names};
use everbyte_media::{Media, seeded};
use everbyte_space::Span;
use zerocopy::FromZeros;

/// What a record stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub id: u64,
    pub name: String,
    pub engine: Engine,
    pub fingerprint: u64,
    pub span: Span,
    pub origin: Option<Origin>,
}

/// One record as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Free,
    Creating(Entry),
    Live(Entry),
    Removing(Entry),
    /// Not to be trusted, and why. Its span is unknown, so no span is given out while there is one.
    Damaged(String),
}

impl Slot {
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Slot::Creating(entry) | Slot::Live(entry) | Slot::Removing(entry) => Some(entry),
            Slot::Free | Slot::Damaged(_) => None,
        }
    }
}

/// Where the record of a slot lies.
pub(crate) fn record_at(superblock: &Superblock, index: usize) -> u64 {
    superblock.table_at + index as u64 * size_of::<Record>() as u64
}

/// Reads the whole table and checks each record and all against each other (STORE-4).
pub(crate) fn read(media: &Media, superblock: &Superblock) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::with_capacity(superblock.table_slots as usize);
    for index in 0..superblock.table_slots as usize {
        let record: Record = media.get(record_at(superblock, index));
        let slot = parse(&record, superblock).unwrap_or_else(Slot::Damaged);
        let clash = slot.entry().and_then(|entry| {
            let others = slots.iter().enumerate().filter_map(|(other, slot)| Some((other, slot, slot.entry()?)));
            others.into_iter().find_map(|(other, other_slot, theirs)| {
                let named = matches!((&slot, other_slot), (Slot::Live(_), Slot::Live(_))) && theirs.name == entry.name;
                if named {
                    Some(format!("record {other} has the same name `{}`", entry.name))
                } else if theirs.span.overlaps(entry.span) {
                    Some(format!("its span overlaps that of record {other}, `{}`", theirs.name))
                } else {
                    None
                }
            })
        });
        slots.push(clash.map_or(slot, Slot::Damaged));
    }
    slots
}

fn parse(record: &Record, superblock: &Superblock) -> Result<Slot, String> {
    let make = match record.state {
        STATE_FREE => return Ok(Slot::Free),
        STATE_CREATING => Slot::Creating,
        STATE_LIVE => Slot::Live,
        STATE_REMOVING => Slot::Removing,
        other => return Err(format!("its state word {other:#018x} is none that exists")),
    };
    if record.checksum != record.sum() {
        return Err("its checksum is wrong".into());
    }
    let span = Span::new(record.span_at, record.span_len)
        .filter(|span| span.at() >= superblock.spans_at && span.end() <= superblock.max);
    let span = span.ok_or_else(|| format!("{:#x} + {:#x} is not a span here", record.span_at, record.span_len))?;
    let engine = Engine::from_code(record.engine);
    let engine = engine.ok_or_else(|| format!("its engine {} is unknown to this program", record.engine))?;
    let bytes = record.name.get(..usize::try_from(record.name_len).unwrap_or(usize::MAX)).unwrap_or_default();
    let name = std::str::from_utf8(bytes).map_err(|_| "its name is not UTF-8".to_string())?;
    if let Some(why) = names::complaint(name) {
        return Err(format!("its name is none: {why}"));
    }
    let origin = Origin { store: record.origin_store, object: record.origin_object };
    let origin = (origin.object != 0).then_some(origin);
    Ok(make(Entry { id: record.id, name: name.into(), engine, fingerprint: record.fingerprint, span, origin }))
}

/// The record of an entry, state free.
fn record_of(entry: &Entry) -> Record {
    let origin = entry.origin.unwrap_or(Origin { store: [0; 16], object: 0 });
    let mut record = Record {
        engine: entry.engine.code(),
        id: entry.id,
        span_at: entry.span.at(),
        span_len: entry.span.len(),
        fingerprint: entry.fingerprint,
        name_len: entry.name.len() as u64,
        origin_store: origin.store,
        origin_object: origin.object,
        ..Record::new_zeroed()
    };
    record.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
    record.sealed()
}

/// Free -> creating: the body is fenced first (STORE-3). Fenced on return.
pub(crate) fn claim(media: &Media, at: u64, entry: &Entry) {
    {
        let _section = media.section();
        media.put(at, &record_of(entry));
        media.flush(at, size_of::<Record>() as u64);
    }
    media.fence();
    set_state(media, at, STATE_CREATING);
    media.fence();
}

/// One 8-byte store of the state word, flushed; no fence.
pub(crate) fn set_state(media: &Media, at: u64, state: u64) {
    let _section = media.section();
    if seeded("store-state-draft") {
        media.store(at, STATE_FREE);
    }
    media.store(at, state);
    media.flush(at, 8);
}
