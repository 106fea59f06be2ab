//! The object table: one record for each object. The first 256 lie in every store; the others, once
//! there are more, in the name space (`names`).
//!
//! A record's body is written and fenced while its state word hides it from readers; then one
//! 8-byte store of the state word makes it count. States change like this:
//!   free -> creating (`claim`) -> live (`publish`) -> removing (`retire`) -> free (`free`)
//!   creating -> free (`free`): the creation failed, or recovery found it interrupted
//!   creating -> replacing -> live: the object has another name (`rename`)
//!
//! Invariants
//!   STORE-3  A record's body is fenced before its state word makes it count, and is not touched
//!            while it does.
//!   STORE-4  The spans of live, creating and removing records do not overlap, and live records
//!            differ in name.

use crate::Engine;
use crate::layout::{
    FLAG_SMALL, Record, STATE_CREATING, STATE_FREE, STATE_LIVE, STATE_REMOVING, STATE_REPLACING, Superblock,
};
use crate::object::access::{self, Access};
use everbyte_media::museum::misplaced;
use everbyte_media::{Checked, Length, Media, Offset, Ordered, PublishWord};
use everbyte_space::{ObjectId, Span, Spans};
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::FromZeros;

/// The original of a copied object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The identity of its store.
    pub store: [u8; 16],
    /// Its id there.
    pub object: ObjectId,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The offset of the record.
    pub at: u64,
    pub id: ObjectId,
    pub name: String,
    pub engine: Engine,
    pub fingerprint: u64,
    pub span: Span,
    pub origin: Option<Origin>,
    pub small: bool,
    pub access: Access,
    /// The offset of the record that this one was made to replace; 0: none. Without meaning in a
    /// live record.
    pub replaces: u64,
}

/// One record as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Free,
    Creating(Entry),
    Live(Entry),
    /// The record takes the place of another record of the same object.
    Replacing(Entry),
    Removing(Entry),
    /// The damage of a record. Its span is unknown, so no span is given out while there is one.
    Damaged(String),
}

impl Slot {
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Slot::Creating(entry) | Slot::Live(entry) | Slot::Replacing(entry) | Slot::Removing(entry) => Some(entry),
            Slot::Free | Slot::Damaged(_) => None,
        }
    }
}

/// The records that every store has.
pub(crate) fn table(superblock: &Superblock) -> Range<u64> {
    let len = superblock.table_slots * size_of::<Record>() as u64;
    superblock.table_at.get()..(superblock.table_at + len).get()
}

/// The places of the records that every store has.
pub(crate) fn places(superblock: &Superblock) -> impl Iterator<Item = u64> + use<> {
    table(superblock).step_by(size_of::<Record>())
}

/// Reads one record.
pub(crate) fn read(media: &Media, superblock: &Superblock, at: u64) -> Slot {
    parse(at, &media.get(at), superblock).unwrap_or_else(Slot::Damaged)
}

/// Reads the records at `places`, and checks each and all against each other (STORE-4). Free ones
/// are left out.
pub(crate) fn read_all(media: &Media, superblock: &Superblock, places: impl Iterator<Item = u64>) -> Vec<(u64, Slot)> {
    let mut found: Vec<(u64, Slot)> = Vec::new();
    let (mut spans, mut names) = (Spans::default(), HashMap::new());
    for at in places {
        let slot = read(media, superblock, at);
        // A record that replaces another one has that one's span, until recovery resolves the pair.
        let alone =
            |slot: &Slot| matches!(slot, Slot::Live(_)) || slot.entry().is_some_and(|entry| entry.replaces == 0);
        let Some(entry) = slot.entry().filter(|_| alone(&slot)) else {
            if slot != Slot::Free {
                found.push((at, slot));
            }
            continue;
        };
        let other = |at: u64| {
            let named = found.iter().find_map(|(_, slot)| slot.entry().filter(|entry| entry.span.at() == at));
            named.map_or_else(String::new, |entry| entry.name.clone())
        };
        let clash = match (spans.insert(entry.span), &slot) {
            (Err(span), _) => Some(format!("its span overlaps that of `{}`", other(span))),
            (Ok(()), Slot::Live(_)) => names.insert(entry.name.clone(), at).map(|other| {
                spans.remove(entry.span);
                format!("the record at {other:#x} has the same name `{}`", entry.name)
            }),
            (Ok(()), _) => None,
        };
        found.push((at, clash.map_or(slot, Slot::Damaged)));
    }
    found
}

/// The content of the record at `at`, in any state; `None` if it is damaged or lies outside.
pub(crate) fn entry_of(media: &Media, superblock: &Superblock, at: u64) -> Option<Entry> {
    if !at.is_multiple_of(size_of::<Record>() as u64) || !media.holds(at, size_of::<Record>() as u64) {
        return None;
    }
    let record = Record { state: STATE_LIVE, ..media.get(at) };
    parse(at, &record, superblock).ok()?.entry().cloned()
}

/// Whether the record at `at` has this name. Reads nothing else.
#[inline]
pub(crate) fn has_name(media: &Media, at: u64, name: &[u8]) -> bool {
    media.prefetch(at + offset_of!(Record, name) as u64); // another line than its length
    let found = media.load(at + offset_of!(Record, name_len) as u64) & u64::from(u32::MAX);
    found == name.len() as u64 && media.compare(at + offset_of!(Record, name) as u64, found, name).is_eq()
}

/// The id of the object whose record lies at `at`, if it is live. Reads nothing else.
pub(crate) fn live_id(media: &Media, at: u64) -> Option<ObjectId> {
    (media.load(at) == STATE_LIVE).then(|| ObjectId::new(media.load(at + offset_of!(Record, id) as u64)))
}

/// The name of the record at `at`, in any state; `None` if it is damaged.
pub(crate) fn name_of(media: &Media, at: u64) -> Option<Vec<u8>> {
    let record: Record = media.get(at);
    let name = record.name.get(..record.name_len as usize)?;
    record.checksum_agrees().then(|| name.to_vec())
}

fn parse(at: u64, record: &Record, superblock: &Superblock) -> Result<Slot, String> {
    let make = match record.state {
        STATE_FREE => return Ok(Slot::Free),
        STATE_CREATING => Slot::Creating,
        STATE_LIVE => Slot::Live,
        STATE_REPLACING => Slot::Replacing,
        STATE_REMOVING => Slot::Removing,
        other => return Err(format!("its state word {other:#018x} is none that exists")),
    };
    if !record.checksum_agrees() {
        return Err("its checksum is wrong".into());
    }
    // The id is also the slot that processes lock for the object.
    if record.id == 0 || record.id >= everbyte_members::SLOTS {
        return Err(format!("its id {:#x} is none", record.id));
    }
    let span = Span::new(record.span_at, record.span_len)
        .filter(|span| span.at() >= superblock.spans_at.get() && span.end() <= superblock.end());
    let span = span.ok_or_else(|| format!("{:#x} + {:#x} is not a span here", record.span_at, record.span_len))?;
    let engine = Engine::from_code(record.engine);
    let engine = engine.ok_or_else(|| format!("its engine {} is unknown to this program", record.engine))?;
    let bytes = record.name.get(..record.name_len as usize).unwrap_or_default();
    let name = std::str::from_utf8(bytes).map_err(|_| "its name is not UTF-8".to_string())?;
    // The object of the name space has no name, so that no caller can open it.
    if let Some(why) = everbyte_names::complaint(name).filter(|_| engine != Engine::Names || !name.is_empty()) {
        return Err(format!("its name is none: {why}"));
    }
    let origin = Origin { store: record.origin_store, object: record.origin_object };
    let origin = (origin.object != 0).then_some(origin);
    if record.flags & !FLAG_SMALL != 0 {
        return Err(format!("its flags {:#x} are unknown to this program", record.flags));
    }
    let small = record.flags & FLAG_SMALL != 0;
    let access = access::of_record(record).ok_or("its access words are damaged")?;
    let replaces = record.replaces;
    Ok(make(Entry {
        at,
        id: record.id,
        name: name.into(),
        engine,
        fingerprint: record.fingerprint,
        span,
        origin,
        small,
        access,
        replaces: replaces.get(),
    }))
}

/// The record of an entry, state free.
fn record_of(entry: &Entry) -> Record {
    let origin = entry.origin.unwrap_or(Origin { store: [0; 16], object: ObjectId::new(0) });
    let mut record = Record {
        engine: entry.engine.code(),
        id: entry.id,
        span_at: Offset::new(entry.span.at()),
        span_len: Length::new(entry.span.len()),
        fingerprint: entry.fingerprint,
        replaces: Offset::new(entry.replaces),
        name_len: entry.name.len() as u32,
        flags: if entry.small { FLAG_SMALL } else { 0 },
        origin_store: origin.store,
        origin_object: origin.object,
        ..Record::new_zeroed()
    };
    record.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
    access::put_new(&mut record, entry.access);
    record.sealed()
}

/// Writes the body of a free record; flushed. It counts once the caller has fenced and set the
/// state (STORE-3).
pub(crate) fn write(media: &Media, at: u64, entry: &Entry) {
    let _section = media.section();
    media.put(at, &record_of(entry));
    media.flush(at, size_of::<Record>() as u64);
}

/// [`set_state`] behind the fence of what the state says of the record.
pub(crate) fn publish_state<T>(media: &Media, at: u64, state: u64, ordered: &Ordered<T>) {
    let _section = media.section();
    misplaced("store-state-draft", || media.store(at, STATE_FREE));
    PublishWord::new(Offset::new(at)).publish(media, state, ordered);
}

/// One 8-byte store of the state word, flushed; no fence.
pub(crate) fn set_state(media: &Media, at: u64, state: u64) {
    let _section = media.section();
    misplaced("store-state-draft", || media.store(at, STATE_FREE));
    media.store(at, state);
    media.flush(at, 8);
}
