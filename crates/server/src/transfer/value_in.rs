//! A value on its way into the keyspace, part by part: RESTORE and imports.
//!
//! Elements are put as they come, so a value of any size is never held whole. The record that makes
//! them a key's is written by `finish`; up to then they belong to no key, so all of it happens
//! under one batch or under the mark of an import (IMPORT-1).

use crate::keyspace::{Collection, End, EntryId, Keyspace, OpenGroup, Stream, ValueType, hashed, push_field};
use crate::rdb::{Malformed, Part};
use everbyte_kv::Error;
use std::collections::HashSet;

/// The reason why a part is not stored.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The value is none.
    Malformed(Malformed),
    /// The store's error.
    Store(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Store(error)
    }
}

fn malformed<T>(detail: &'static str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(Malformed { detail }))
}

const TWICE: &str = "a member comes twice";

/// See the head of this file.
pub(crate) struct ValueIn<'v> {
    key: &'v [u8],
    deadline: u64,
    /// Whether members that come twice were refused before.
    checked: bool,
    collection: Option<Collection>,
    stream: Option<Stream>,
    group: Option<OpenGroup>,
    consumer: u64,
    /// The names of the group's consumers.
    consumers: HashSet<Vec<u8>>,
    /// Pending entries of the group that no consumer has yet.
    unowned: u64,
}

impl<'v> ValueIn<'v> {
    /// For a key that is absent, with a deadline (0: none).
    pub(crate) fn new(key: &'v [u8], deadline: u64, checked: bool) -> ValueIn<'v> {
        ValueIn {
            key,
            deadline,
            checked,
            collection: None,
            stream: None,
            group: None,
            consumer: 0,
            consumers: HashSet::new(),
            unowned: 0,
        }
    }

    /// The collection of this type, which the first part makes.
    fn collection(&mut self, keys: &mut Keyspace<'_>, kind: ValueType) -> Result<Collection, Refusal> {
        match self.collection {
            Some(collection) => Ok(collection),
            None => Ok(keys.new_collection(self.key, kind)?),
        }
    }

    /// Stores the next part.
    pub(crate) fn put(&mut self, keys: &mut Keyspace<'_>, part: Part<'_>) -> Result<(), Refusal> {
        match part {
            Part::String(bytes) => keys.put_until(self.key, bytes, self.deadline)?,
            Part::Element(element) => {
                let mut list = self.collection(keys, ValueType::List)?;
                keys.push_list(&mut list, End::Tail, element)?;
                self.collection = Some(list);
            }
            Part::Member(member) => self.named(keys, ValueType::Set, member, &[])?,
            Part::Field(field, value) => self.named(keys, ValueType::Hash, field, value)?,
            Part::Scored(member, score) => {
                keys.check_key(member)?;
                let mut set = self.collection(keys, ValueType::SortedSet)?;
                if !self.checked && keys.score(&set, member)?.is_some() {
                    return malformed(TWICE);
                }
                keys.put_score(&mut set, member, None, score)?;
                self.collection = Some(set);
            }
            Part::Entry((ms, seq), fields) => {
                let mut stream = self.stream(keys)?;
                let mut encoded = Vec::new();
                fields.visit(&mut |text| push_field(&mut encoded, text));
                keys.add_entry(&mut stream, EntryId { ms, seq }, &encoded)?;
                self.stream = Some(stream);
            }
            Part::State { last, deleted, added } => {
                let id = |(ms, seq)| EntryId { ms, seq };
                let mut stream = self.stream(keys)?;
                (stream.last, stream.deleted, stream.added) = (id(last), id(deleted), added);
                self.stream = Some(stream);
            }
            Part::Group(name, (ms, seq), read) => self.begin_group(keys, name, EntryId { ms, seq }, read)?,
            Part::Pending((ms, seq), delivered, deliveries) => {
                let Some(group) = &self.group else { return malformed("a pending entry has no group") };
                if keys.pending(&group.stream, &group.group, EntryId { ms, seq })?.is_some() {
                    return malformed("an entry is pending twice");
                }
                keys.put_unowned(group, EntryId { ms, seq }, delivered, deliveries)?;
                self.unowned += 1;
            }
            Part::Consumer(name, seen) => {
                keys.check_key(name)?;
                let Some(group) = &mut self.group else { return malformed("a consumer has no group") };
                if !self.consumers.insert(name.to_vec()) {
                    return malformed("a consumer comes twice");
                }
                self.consumer = keys.new_consumer(group, name, seen)?;
            }
            Part::Owned((ms, seq)) => {
                let Some(group) = &mut self.group else { return malformed("a pending entry has no group") };
                if !keys.own_pending(group, EntryId { ms, seq }, self.consumer)? {
                    return malformed("a consumer has an entry that is not pending, or that another one has");
                }
                self.unowned = self.unowned.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// A member or field.
    fn named(&mut self, keys: &mut Keyspace<'_>, kind: ValueType, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        keys.check_key(name)?;
        let mut collection = self.collection(keys, kind)?;
        if keys.put_element(&collection, &hashed(name), value)? {
            return malformed(TWICE);
        }
        collection.count += 1;
        self.collection = Some(collection);
        Ok(())
    }

    fn stream(&mut self, keys: &mut Keyspace<'_>) -> Result<Stream, Refusal> {
        match self.stream {
            Some(stream) => Ok(stream),
            None => Ok(keys.new_stream(self.key)?),
        }
    }

    fn begin_group(
        &mut self,
        keys: &mut Keyspace<'_>,
        name: &[u8],
        last: EntryId,
        read: Option<u64>,
    ) -> Result<(), Refusal> {
        self.end_group(keys)?;
        self.consumers.clear();
        keys.check_key(name)?;
        let stream = self.stream(keys)?;
        if keys.group(&stream, name)?.is_some() {
            return malformed("a consumer group comes twice");
        }
        keys.new_group(&stream, name, last, read)?;
        let group = keys.group(&stream, name)?;
        self.group = group.map(|group| OpenGroup::new(stream, group));
        Ok(())
    }

    fn end_group(&mut self, keys: &mut Keyspace<'_>) -> Result<(), Refusal> {
        if self.unowned != 0 {
            return malformed("a pending entry has no consumer");
        }
        match self.group.take() {
            Some(group) => Ok(keys.store_group(&group)?),
            None => Ok(()),
        }
    }

    /// The value is whole: it is the key's from here on.
    pub(crate) fn finish(mut self, keys: &mut Keyspace<'_>) -> Result<(), Refusal> {
        self.end_group(keys)?;
        if let Some(stream) = &self.stream {
            keys.store_stream(self.key, stream)?;
        } else if let Some(collection) = &self.collection {
            keys.store(self.key, collection)?;
        } else {
            return Ok(()); // a string has its deadline
        }
        if self.deadline != 0 {
            keys.set_deadline(self.key, self.deadline)?;
        }
        Ok(())
    }
}
