//! Streams: entries in the order of their ids.
//!
//! | element | value |
//! |---|---|
//! | 0 | the state: last id, highest id that was deleted, entries ever added |
//! | 1, id (milliseconds and sequence number, 8 bytes each) | fields and values: each 4 bytes of size, then its bytes |
//! | 2.. and 3.. | of consumer groups (`groups.rs`), which the record does not count |
//!
//! The state is an element, too, so a stream without entries exists: its count is 1. Ids are
//! big-endian in elements, numbers in values little-endian.
//!
//! Invariants
//!   STREAM-1  No entry has a higher id than the state's last one.

use super::record::{Collection, ValueType, damaged_by};
use super::{ElementSpan, KeyError, Keyspace};
use everbyte_kv::{Error, Result};
use everbyte_media::seeded;
use std::ops::Bound;

/// The element of the state.
pub(super) const STATE: &[u8] = &[0];
/// The first byte string behind all entries.
const BEHIND_ENTRIES: &[u8] = &[ENTRY + 1];
/// Bytes of the state.
pub(super) const STATE_SIZE: usize = 40;
pub(super) const ENTRY: u8 = 1;

/// The id of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    /// Milliseconds since 1970, as a rule.
    pub ms: u64,
    /// Among the entries of one millisecond.
    pub seq: u64,
}

impl EntryId {
    pub(crate) const MIN: EntryId = EntryId { ms: 0, seq: 0 };
    pub(crate) const MAX: EntryId = EntryId { ms: u64::MAX, seq: u64::MAX };

    /// The id behind this one.
    pub(crate) fn next(self) -> Option<EntryId> {
        let next = u128::from(self).checked_add(1)?;
        Some(EntryId { ms: (next >> 64) as u64, seq: next as u64 })
    }

    /// The id before this one.
    pub(crate) fn previous(self) -> Option<EntryId> {
        let previous = u128::from(self).checked_sub(1)?;
        Some(EntryId { ms: (previous >> 64) as u64, seq: previous as u64 })
    }

    /// 16 bytes that compare as ids do.
    pub(super) fn bytes(self) -> [u8; 16] {
        u128::from(self).to_be_bytes()
    }

    /// The id of such bytes.
    pub(super) fn parse(bytes: &[u8]) -> Option<EntryId> {
        let id = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(EntryId { ms: (id >> 64) as u64, seq: id as u64 })
    }

    fn element(self) -> [u8; 17] {
        let mut element = [ENTRY; 17];
        element[1..].copy_from_slice(&self.bytes());
        element
    }

    /// The id in the element of an entry.
    pub(super) fn of_element(element: &[u8]) -> Result<EntryId> {
        element.strip_prefix(&[ENTRY]).and_then(EntryId::parse).ok_or_else(odd)
    }
}

impl From<EntryId> for u128 {
    fn from(id: EntryId) -> u128 {
        u128::from(id.ms) << 64 | u128::from(id.seq)
    }
}

fn odd() -> Error {
    damaged_by("an element of a stream in the server's table of elements is malformed")
}

/// Which entries, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntrySpan {
    pub first: EntryId,
    pub last: EntryId,
    /// From the last to the first.
    pub backwards: bool,
    /// So many are passed over and not read.
    pub skip: u64,
    /// Whether fields and values are read; else they are empty.
    pub fields: bool,
}

impl EntrySpan {
    /// The ids of all entries.
    pub(crate) const ALL: EntrySpan =
        EntrySpan { first: EntryId::MIN, last: EntryId::MAX, backwards: false, skip: 0, fields: false };
}

/// A stream and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(super) collection: Collection,
    /// The id of the entry that was added last, or was set.
    pub last: EntryId,
    /// The highest id that was deleted by name.
    pub deleted: EntryId,
    /// Entries ever added.
    pub added: u64,
}

impl Stream {
    /// The number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.collection.count.saturating_sub(1)
    }

    fn state(&self) -> Vec<u8> {
        let words = [self.last.ms, self.last.seq, self.deleted.ms, self.deleted.seq, self.added];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The stream whose state has these bytes.
    pub(super) fn with_state(collection: Collection, state: &[u8]) -> Result<Stream> {
        let (words, rest) = state.as_chunks::<8>();
        let [ms, seq, deleted_ms, deleted_seq, added] = *words else { return Err(odd()) };
        if !rest.is_empty() {
            return Err(odd());
        }
        let id = |ms, seq| EntryId { ms: u64::from_le_bytes(ms), seq: u64::from_le_bytes(seq) };
        let (last, deleted) = (id(ms, seq), id(deleted_ms, deleted_seq));
        Ok(Stream { collection, last, deleted, added: u64::from_le_bytes(added) })
    }
}

/// Appends a field or a value of an entry as its element has it.
pub(crate) fn push_field(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.extend_from_slice(&(field.len() as u32).to_le_bytes());
    bytes.extend_from_slice(field);
}

/// The fields and values of an entry as its element has them.
pub(crate) fn encode_fields<'f>(fields: impl Iterator<Item = &'f [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields.for_each(|field| push_field(&mut bytes, field));
    bytes
}

/// The fields and values of an entry, in turn.
pub(crate) fn decode_fields(mut bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(odd)?;
        let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or_else(odd)?;
        fields.push(field);
        bytes = rest;
    }
    Ok(fields)
}

impl Keyspace<'_> {
    /// The stream at a key; `None` without such a key.
    pub(crate) fn stream(&mut self, key: &[u8]) -> std::result::Result<Option<Stream>, KeyError> {
        let Some(collection) = self.collection(key, ValueType::Stream)? else { return Ok(None) };
        let state = self.element(&collection, STATE)?.ok_or_else(odd)?;
        Ok(Some(Stream::with_state(collection, &state)?))
    }

    /// An empty stream for a key that is not there. It exists once it is stored.
    pub(crate) fn new_stream(&mut self, key: &[u8]) -> Result<Stream> {
        let mut collection = self.new_collection(key, ValueType::Stream)?;
        collection.count = 1; // the state
        Ok(Stream { collection, last: EntryId::MIN, deleted: EntryId::MIN, added: 0 })
    }

    /// Adds an entry behind all others. The stream has to be stored afterwards.
    pub(crate) fn add_entry(&mut self, stream: &mut Stream, id: EntryId, fields: &[u8]) -> Result<()> {
        self.put_element(&stream.collection, &id.element(), fields)?;
        stream.collection.count += 1;
        if !seeded("server-stream-id-given-twice") {
            stream.last = id;
        }
        stream.added = stream.added.wrapping_add(1); // as in Redis, and the medium may hold any number
        Ok(())
    }

    /// Removes an entry; whether it was there. The stream has to be stored afterwards.
    pub(crate) fn remove_entry(&mut self, stream: &mut Stream, id: EntryId) -> Result<bool> {
        let found = self.remove_element(&stream.collection, &id.element())?;
        if found {
            stream.collection.count -= 1;
            stream.deleted = stream.deleted.max(id);
        }
        Ok(found)
    }

    /// The fields and values of an entry, encoded; `None` without it.
    pub(crate) fn entry(&mut self, stream: &Stream, id: EntryId) -> Result<Option<Vec<u8>>> {
        self.element(&stream.collection, &id.element())
    }

    /// Whether an entry is there.
    pub(crate) fn has_entry(&mut self, stream: &Stream, id: EntryId) -> Result<bool> {
        Ok(self.element_size(&stream.collection, &id.element())?.is_some())
    }

    /// Stores the state of a stream whose entries are as they were: clients that watch its key are
    /// not told.
    pub(crate) fn store_state(&mut self, stream: &Stream) -> Result<()> {
        self.put_element(&stream.collection, STATE, &stream.state()).map(drop)
    }

    /// Stores a stream that has changed.
    pub(crate) fn store_stream(&mut self, key: &[u8], stream: &Stream) -> Result<()> {
        self.put_element(&stream.collection, STATE, &stream.state())?;
        self.store(key, &stream.collection)
    }

    /// Visits entries while `each` says `true`.
    pub(crate) fn visit_entries(
        &mut self,
        stream: &Stream,
        span: EntrySpan,
        each: &mut dyn FnMut(EntryId, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        if span.first > span.last {
            return Ok(());
        }
        let (from, to) = (span.first.element(), span.last.element());
        let elements =
            ElementSpan { from: Bound::Included(&from), to: Bound::Included(&to), backwards: span.backwards };
        let mut failed = None;
        self.walk_past(&stream.collection, elements, span.skip, span.fields, &mut |element, value| {
            match EntryId::of_element(element).and_then(|id| each(id, value)) {
                Ok(more) => more,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The id of the first entry of a span.
    pub(crate) fn first_entry(&mut self, stream: &Stream, span: EntrySpan) -> Result<Option<EntryId>> {
        let mut found = None;
        self.visit_entries(stream, span, &mut |id, _| {
            found = Some(id);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Removes the entries before an id, or all; how many there were. The stream has to be stored
    /// afterwards.
    pub(crate) fn remove_before(&mut self, stream: &mut Stream, end: Option<EntryId>) -> Result<u64> {
        let (from, to) = (EntryId::MIN.element(), end.map(EntryId::element));
        let to = Bound::Excluded(to.as_ref().map_or(BEHIND_ENTRIES, |to| &to[..]));
        let removed =
            self.remove_span(&stream.collection, ElementSpan { from: Bound::Included(&from), to, backwards: false })?;
        let counted = if seeded("server-trim-uncounted") { 0 } else { removed };
        stream.collection.count = stream.collection.count.checked_sub(counted).ok_or_else(odd)?;
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_elements_in_their_order() {
        let ids = [EntryId::MIN, EntryId { ms: 0, seq: u64::MAX }, EntryId { ms: 1, seq: 0 }, EntryId::MAX];
        for pair in ids.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].element() < pair[1].element());
        }
        for id in ids {
            assert_eq!(EntryId::of_element(&id.element()).unwrap(), id);
        }
        assert_eq!(ids[1].next(), Some(ids[2]));
        assert_eq!(ids[2].previous(), Some(ids[1]));
        assert_eq!((ids[0].previous(), ids[3].next()), (None, None));
        for odd in [&[0; 17][..], &[1; 16], &[1; 18], b""] {
            assert!(EntryId::of_element(odd).is_err());
        }
    }

    #[test]
    fn fields_come_back_and_cut_ones_are_damage() {
        let fields = [&b"name"[..], b"", b"\0\xff", b"value"];
        let bytes = encode_fields(fields.into_iter());
        assert_eq!(decode_fields(&bytes).unwrap(), fields);
        for end in [1, 3, 7, 9, 13, bytes.len() - 1] {
            assert!(decode_fields(&bytes[..end]).is_err(), "{end}");
        }
    }
}
