//! Consumer groups of streams: what each consumer was given and has not acknowledged.
//!
//! Behind the state and the entries of its stream (`streams.rs`) a group has these elements:
//!
//! | element | value |
//! |---|---|
//! | 2, the group's name | the group: its number, last delivered id, entries read, pending entries, consumers |
//! | 3, number, 0, a consumer's name | the consumer: its number, when it was seen, its pending entries |
//! | 3, number, 1, a consumer's number, its name | nothing |
//! | 3, number, 2, id | a pending entry: its consumer, when it was delivered, how often |
//! | 3, number, 3, a consumer's number, id | nothing |
//!
//! Numbers are ids of collections (`collections.rs`), so none is given twice. Pending entries are
//! two ranges, by id and by consumer; a group with any number of them is never held whole. The
//! record's count has the state and the entries alone.
//!
//! Invariants
//!   STREAM-2  Each pending entry of a group has its element by id and the one by consumer, and no
//!             other element by consumer exists; likewise consumers by name and by number.
//!   STREAM-3  The counts of a group and of its consumers are the numbers of these elements.

use super::collections::ElementSpan;
use super::record::damaged_by;
use super::streams::{EntryId, Stream};
use super::{Keyspace, after_prefix};
use everbyte_kv::{Error, Result};
use everbyte_media::seeded;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The first byte of a group's element by name.
pub(super) const GROUP: u8 = 2;
/// The first byte of what belongs to a group.
pub(super) const OF_GROUP: u8 = 3;
/// The kinds of what belongs to a group, behind its number.
pub(super) const BY_NAME: u8 = 0;
pub(super) const BY_NUMBER: u8 = 1;
pub(super) const BY_ID: u8 = 2;
pub(super) const BY_CONSUMER: u8 = 3;
/// Bytes of a group's value.
pub(super) const GROUP_SIZE: usize = 48;
/// Bytes of the value of a consumer, and of a pending entry.
pub(super) const CONSUMER_SIZE: usize = 24;
/// A number of entries read that is not known.
const UNKNOWN: u64 = u64::MAX;
/// The number of no consumer: ids begin at 1.
const UNOWNED: u64 = 0;
/// Pending entries read together.
pub(crate) const TOGETHER: usize = 256;

/// A consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub name: Vec<u8>,
    number: u64,
    /// The last id that was delivered.
    pub last: EntryId,
    /// The number of entries up to it since the stream began, if known.
    pub read: Option<u64>,
    /// The number of pending entries.
    pub pending: u64,
    /// The number of consumers.
    pub consumers: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub name: Vec<u8>,
    pub number: u64,
    /// Milliseconds since 1970 at its last attempt to read or claim.
    pub seen: u64,
    /// The number of its pending entries.
    pub pending: u64,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The number of its consumer.
    pub consumer: u64,
    /// Milliseconds since 1970.
    pub delivered: u64,
    pub deliveries: u64,
}

/// Which pending entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingSpan {
    /// Those of one consumer, by its number.
    pub consumer: Option<u64>,
    pub first: EntryId,
    pub last: EntryId,
}

/// A group and those of its consumers that a command changes. It is stored by `store_group`.
pub(crate) struct OpenGroup {
    pub stream: Stream,
    pub group: Group,
    consumers: BTreeMap<u64, Consumer>,
}

impl OpenGroup {
    pub(crate) fn new(stream: Stream, group: Group) -> OpenGroup {
        OpenGroup { stream, group, consumers: BTreeMap::new() }
    }

    /// Changes a consumer with what the group says of it later.
    pub(crate) fn enter(&mut self, consumer: Consumer) {
        self.consumers.entry(consumer.number).or_insert(consumer);
    }

    /// A consumer has been seen.
    pub(crate) fn see(&mut self, consumer: u64, now: u64) {
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.seen = now;
        }
    }
}

fn odd() -> Error {
    damaged_by("an element of a consumer group in the server's table of elements is malformed")
}

fn words<const N: usize>(bytes: &[u8]) -> Result<[u64; N]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: [[u8; 8]; N] = words.try_into().map_err(|_| odd())?;
    if rest.is_empty() { Ok(words.map(u64::from_le_bytes)) } else { Err(odd()) }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn group_element(name: &[u8]) -> Vec<u8> {
    [&[GROUP], name].concat()
}

/// The elements of a kind that belong to a group begin with this.
fn of_group(group: u64, kind: u8) -> Vec<u8> {
    [&[OF_GROUP][..], &group.to_be_bytes(), &[kind]].concat()
}

fn by_name(group: u64, name: &[u8]) -> Vec<u8> {
    [&of_group(group, BY_NAME)[..], name].concat()
}

fn by_number(group: u64, consumer: u64, name: &[u8]) -> Vec<u8> {
    [&of_group(group, BY_NUMBER)[..], &consumer.to_be_bytes(), name].concat()
}

fn by_id(group: u64, id: EntryId) -> Vec<u8> {
    [&of_group(group, BY_ID)[..], &id.bytes()].concat()
}

fn by_consumer(group: u64, consumer: u64, id: EntryId) -> Vec<u8> {
    [&of_group(group, BY_CONSUMER)[..], &consumer.to_be_bytes(), &id.bytes()].concat()
}

/// The elements that begin with `prefix`.
struct Prefixed {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Prefixed {
    fn new(prefix: Vec<u8>) -> Prefixed {
        let to = after_prefix(&prefix);
        Prefixed { from: prefix, to }
    }

    fn span(&self) -> ElementSpan<'_> {
        let to = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        ElementSpan { from: Bound::Included(&self.from), to, backwards: false }
    }
}

impl Group {
    /// Its number, which no other group of the stream has had.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn value(&self) -> Vec<u8> {
        let read = self.read.unwrap_or(UNKNOWN);
        bytes_of(&[self.number, self.last.ms, self.last.seq, read, self.pending, self.consumers])
    }

    /// The group with this element.
    pub(super) fn parse(element: &[u8], value: &[u8]) -> Result<Group> {
        let name = element.strip_prefix(&[GROUP]).ok_or_else(odd)?.to_vec();
        let [number, ms, seq, read, pending, consumers] = words(value)?;
        let read = Some(read).filter(|read| *read != UNKNOWN);
        Ok(Group { name, number, last: EntryId { ms, seq }, read, pending, consumers })
    }
}

impl Consumer {
    fn value(&self) -> Vec<u8> {
        bytes_of(&[self.number, self.seen, self.pending])
    }

    pub(super) fn parse(name: &[u8], value: &[u8]) -> Result<Consumer> {
        let [number, seen, pending] = words(value)?;
        Ok(Consumer { name: name.to_vec(), number, seen, pending })
    }
}

impl Pending {
    fn value(&self) -> Vec<u8> {
        bytes_of(&[self.consumer, self.delivered, self.deliveries])
    }

    pub(super) fn parse(value: &[u8]) -> Result<Pending> {
        let [consumer, delivered, deliveries] = words(value)?;
        Ok(Pending { consumer, delivered, deliveries })
    }
}

impl Keyspace<'_> {
    /// The group of this name.
    pub(crate) fn group(&mut self, stream: &Stream, name: &[u8]) -> Result<Option<Group>> {
        let element = group_element(name);
        let value = self.element(&stream.collection, &element)?;
        value.map(|value| Group::parse(&element, &value)).transpose()
    }

    /// Visits the groups in the order of their names while `each` says `true`.
    pub(crate) fn visit_groups(&mut self, stream: &Stream, each: &mut dyn FnMut(Group) -> bool) -> Result<()> {
        let (mut failed, groups) = (None, Prefixed::new(vec![GROUP]));
        self.visit_elements(
            &stream.collection,
            groups.span(),
            &mut |element, value| match Group::parse(element, value) {
                Ok(group) => each(group),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            },
        )?;
        failed.map_or(Ok(()), Err)
    }

    /// A new group, which is stored at once. There is none of its name.
    pub(crate) fn new_group(&mut self, stream: &Stream, name: &[u8], last: EntryId, read: Option<u64>) -> Result<()> {
        let group = Group { name: name.to_vec(), number: self.new_id()?, last, read, pending: 0, consumers: 0 };
        self.put_group(stream, &group)
    }

    /// Stores a group whose consumers stay as they are.
    pub(crate) fn put_group(&mut self, stream: &Stream, group: &Group) -> Result<()> {
        self.put_element(&stream.collection, &group_element(&group.name), &group.value()).map(drop)
    }

    /// Removes a group and all that belongs to it.
    pub(crate) fn remove_group(&mut self, stream: &Stream, group: &Group) -> Result<()> {
        self.remove_element(&stream.collection, &group_element(&group.name))?;
        if seeded("server-group-elements-kept") {
            return Ok(());
        }
        let all = Prefixed::new([&[OF_GROUP][..], &group.number.to_be_bytes()].concat());
        self.remove_span(&stream.collection, all.span()).map(drop)
    }

    /// The consumer of this name.
    pub(crate) fn consumer(&mut self, stream: &Stream, group: &Group, name: &[u8]) -> Result<Option<Consumer>> {
        let value = self.element(&stream.collection, &by_name(group.number, name))?;
        value.map(|value| Consumer::parse(name, &value)).transpose()
    }

    /// The name of the consumer with this number.
    pub(crate) fn consumer_name(&mut self, stream: &Stream, group: &Group, number: u64) -> Result<Vec<u8>> {
        let found = Prefixed::new(by_number(group.number, number, b""));
        let (mut name, size) = (None, found.from.len());
        self.walk(&stream.collection, found.span(), false, &mut |element, _| {
            name = element.get(size..).map(<[u8]>::to_vec);
            false
        })?;
        name.ok_or_else(odd)
    }

    /// Visits consumers in the order of their names while `each` says `true`.
    pub(crate) fn visit_consumers(
        &mut self,
        stream: &Stream,
        group: &Group,
        each: &mut dyn FnMut(Consumer) -> bool,
    ) -> Result<()> {
        let found = Prefixed::new(of_group(group.number, BY_NAME));
        let (mut failed, size) = (None, found.from.len());
        self.visit_elements(&stream.collection, found.span(), &mut |element, value| match Consumer::parse(
            element.get(size..).unwrap_or_default(),
            value,
        ) {
            Ok(consumer) => each(consumer),
            Err(error) => {
                failed = Some(error);
                false
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The consumer of this name, a new one if there is none, which was seen now. Its number, with
    /// which it is open.
    pub(crate) fn open_consumer(&mut self, open: &mut OpenGroup, name: &[u8]) -> Result<u64> {
        let now = self.now();
        let Some(consumer) = self.consumer(&open.stream, &open.group, name)? else {
            return self.new_consumer(open, name, now);
        };
        let number = consumer.number;
        open.enter(consumer);
        open.see(number, now);
        Ok(number)
    }

    /// A new consumer, which was seen at a time; there is none of its name. Its number, with which
    /// it is open.
    pub(crate) fn new_consumer(&mut self, open: &mut OpenGroup, name: &[u8], seen: u64) -> Result<u64> {
        let number = self.new_id()?;
        self.put_element(&open.stream.collection, &by_number(open.group.number, number, name), &[])?;
        open.group.consumers += 1;
        open.enter(Consumer { name: name.to_vec(), number, seen, pending: 0 });
        Ok(number)
    }

    /// Makes an entry pending whose consumer comes later: `own_pending`.
    pub(crate) fn put_unowned(&mut self, open: &OpenGroup, id: EntryId, delivered: u64, deliveries: u64) -> Result<()> {
        let pending = Pending { consumer: UNOWNED, delivered, deliveries };
        self.put_element(&open.stream.collection, &by_id(open.group.number, id), &pending.value()).map(drop)
    }

    /// Gives a consumer an entry that is pending without one; whether there is such an entry. The
    /// group has to be stored afterwards.
    pub(crate) fn own_pending(&mut self, open: &mut OpenGroup, id: EntryId, consumer: u64) -> Result<bool> {
        match self.pending(&open.stream, &open.group, id)? {
            Some(pending) if pending.consumer == UNOWNED => {
                self.put_pending(open, id, None, Pending { consumer, ..pending })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes a consumer and its pending entries. The group has to be stored afterwards.
    pub(crate) fn remove_consumer(&mut self, open: &mut OpenGroup, consumer: &Consumer) -> Result<()> {
        let number = open.group.number;
        let mut first = Some(EntryId::MIN);
        while let Some(from) = first {
            let part = self.pending_ids(open, consumer.number, from)?;
            for id in &part {
                self.remove_element(&open.stream.collection, &by_id(number, *id))?;
            }
            first = part.last().filter(|_| part.len() == TOGETHER).and_then(|last| last.next());
        }
        let all = Prefixed::new([&of_group(number, BY_CONSUMER)[..], &consumer.number.to_be_bytes()].concat());
        self.remove_span(&open.stream.collection, all.span())?;
        self.remove_element(&open.stream.collection, &by_number(number, consumer.number, &consumer.name))?;
        self.remove_element(&open.stream.collection, &by_name(number, &consumer.name))?;
        open.group.pending = open.group.pending.checked_sub(consumer.pending).ok_or_else(odd)?;
        open.group.consumers = open.group.consumers.checked_sub(1).ok_or_else(odd)?;
        Ok(())
    }

    /// Ids that are pending at a consumer, from one on.
    fn pending_ids(&mut self, open: &OpenGroup, consumer: u64, from: EntryId) -> Result<Vec<EntryId>> {
        let span = PendingSpan { consumer: Some(consumer), first: from, last: EntryId::MAX };
        self.ids(&open.stream, &open.group, span, TOGETHER)
    }

    /// Up to `max` ids of a consumer's span.
    fn ids(&mut self, stream: &Stream, group: &Group, span: PendingSpan, max: usize) -> Result<Vec<EntryId>> {
        let consumer = span.consumer.unwrap_or_default();
        let (from, to) =
            (by_consumer(group.number, consumer, span.first), by_consumer(group.number, consumer, span.last));
        let (mut found, mut failed) = (Vec::new(), None);
        let span = ElementSpan { from: Bound::Included(&from), to: Bound::Included(&to), backwards: false };
        self.walk(&stream.collection, span, false, &mut |element, _| {
            match EntryId::parse(element.get(from.len() - 16..).unwrap_or_default()) {
                Some(id) => found.push(id),
                None => failed = Some(odd()),
            }
            failed.is_none() && found.len() < max
        })?;
        failed.map_or(Ok(found), Err)
    }

    /// A pending entry.
    pub(crate) fn pending(&mut self, stream: &Stream, group: &Group, id: EntryId) -> Result<Option<Pending>> {
        let value = self.element(&stream.collection, &by_id(group.number, id))?;
        value.map(|value| Pending::parse(&value)).transpose()
    }

    /// Up to [`TOGETHER`] pending entries of a span, in the order of their ids. Fewer are all that
    /// there are.
    pub(crate) fn pending_part(
        &mut self,
        stream: &Stream,
        group: &Group,
        span: PendingSpan,
    ) -> Result<Vec<(EntryId, Pending)>> {
        if span.first > span.last {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        if span.consumer.is_some() {
            for id in self.ids(stream, group, span, TOGETHER)? {
                found.push((id, self.pending(stream, group, id)?.ok_or_else(odd)?));
            }
            return Ok(found);
        }
        let (from, to) = (by_id(group.number, span.first), by_id(group.number, span.last));
        let elements = ElementSpan { from: Bound::Included(&from), to: Bound::Included(&to), backwards: false };
        let mut failed = None;
        self.visit_elements(&stream.collection, elements, &mut |element, value| {
            let id = EntryId::parse(element.get(from.len() - 16..).unwrap_or_default());
            match Pending::parse(value).and_then(|pending| Ok((id.ok_or_else(odd)?, pending))) {
                Ok(pair) => found.push(pair),
                Err(error) => failed = Some(error),
            }
            failed.is_none() && found.len() < TOGETHER
        })?;
        failed.map_or(Ok(found), Err)
    }

    /// The highest or lowest pending id of a group.
    pub(crate) fn pending_edge(&mut self, stream: &Stream, group: &Group, highest: bool) -> Result<Option<EntryId>> {
        let found = Prefixed::new(of_group(group.number, BY_ID));
        let (mut id, size) = (None, found.from.len());
        self.walk(&stream.collection, ElementSpan { backwards: highest, ..found.span() }, false, &mut |element, _| {
            id = Some(EntryId::parse(element.get(size..).unwrap_or_default()));
            false
        })?;
        id.map(|id| id.ok_or_else(odd)).transpose()
    }

    /// Makes a consumer that is not open so.
    fn open_number(&mut self, open: &mut OpenGroup, number: u64) -> Result<()> {
        if !open.consumers.contains_key(&number) {
            let name = self.consumer_name(&open.stream, &open.group, number)?;
            let consumer = self.consumer(&open.stream, &open.group, &name)?.ok_or_else(odd)?;
            open.enter(consumer);
        }
        Ok(())
    }

    /// Changes the counts of an open group for a consumer.
    fn count_pending(&mut self, open: &mut OpenGroup, consumer: u64, by: i64) -> Result<()> {
        self.open_number(open, consumer)?;
        let consumer = open.consumers.get_mut(&consumer).ok_or_else(odd)?;
        if !seeded("server-pending-uncounted") {
            consumer.pending = consumer.pending.checked_add_signed(by).ok_or_else(odd)?;
        }
        open.group.pending = open.group.pending.checked_add_signed(by).ok_or_else(odd)?;
        Ok(())
    }

    /// Makes an entry pending, in place of the `old` pending one of its id. The group has to be
    /// stored afterwards.
    pub(crate) fn put_pending(
        &mut self,
        open: &mut OpenGroup,
        id: EntryId,
        old: Option<Pending>,
        new: Pending,
    ) -> Result<()> {
        let number = open.group.number;
        let moves = old.is_none_or(|old| old.consumer != new.consumer);
        if let Some(old) = old.filter(|_| moves) {
            self.count_pending(open, old.consumer, -1)?;
            if !seeded("server-claim-kept") {
                self.remove_element(&open.stream.collection, &by_consumer(number, old.consumer, id))?;
            }
        }
        if moves {
            self.count_pending(open, new.consumer, 1)?;
            self.put_element(&open.stream.collection, &by_consumer(number, new.consumer, id), &[])?;
        }
        self.put_element(&open.stream.collection, &by_id(number, id), &new.value()).map(drop)
    }

    /// Removes a pending entry. The group has to be stored afterwards.
    pub(crate) fn remove_pending(&mut self, open: &mut OpenGroup, id: EntryId, old: Pending) -> Result<()> {
        let number = open.group.number;
        self.count_pending(open, old.consumer, -1)?;
        if !seeded("server-ack-half") {
            self.remove_element(&open.stream.collection, &by_consumer(number, old.consumer, id))?;
        }
        self.remove_element(&open.stream.collection, &by_id(number, id)).map(drop)
    }

    /// Stores a group and its open consumers.
    pub(crate) fn store_group(&mut self, open: &OpenGroup) -> Result<()> {
        for consumer in open.consumers.values() {
            let element = by_name(open.group.number, &consumer.name);
            self.put_element(&open.stream.collection, &element, &consumer.value())?;
        }
        self.put_group(&open.stream, &open.group)
    }
}
