//! Whether the elements of consumer groups agree (STREAM-2, STREAM-3).
//!
//! Groups come first, by name; then, group by group in the order of their numbers, consumers by
//! name and by number, pending entries by id and by consumer. Each pair of lists is summed up as
//! its elements come, with a hash of what both have to say, so that no group is ever held: lists
//! that differ have different sums, but for a chance in 2^64.

use crate::keyspace::groups::{
    BY_CONSUMER, BY_ID, BY_NAME, BY_NUMBER, CONSUMER_SIZE, Consumer, GROUP, GROUP_SIZE, Group, OF_GROUP, Pending,
};
use crate::keyspace::streams::EntryId;
use std::hash::{BuildHasher, Hash, RandomState};

/// A rule that is broken, and how.
type Wrong = (&'static str, String);

/// A number of things, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, hasher: &RandomState, thing: impl Hash) {
        self.count += 1;
        self.hashes = self.hashes.wrapping_add(hasher.hash_one(thing));
    }
}

/// The lists of the group under way.
#[derive(Default)]
struct Lists {
    number: u64,
    /// Consumers: their numbers and names.
    named: Sum,
    numbered: Sum,
    /// Pending entries: their consumers and ids.
    by_id: Sum,
    by_consumer: Sum,
    /// Consumers with pending entries, and how many: as they say, and as they are.
    said: Sum,
    found: Sum,
    /// The consumer whose pending entries are walked, and their number.
    walked: (u64, u64),
}

/// The elements of the groups of a stream, as far as they were walked.
#[derive(Default)]
pub(super) struct Groups {
    lists: Option<Lists>,
    /// Groups with consumers: number, consumers, pending entries; as they say, and as they are.
    said: Sum,
    found: Sum,
    hasher: RandomState,
}

fn split(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

impl Groups {
    /// Whether an element belongs to a group.
    pub(super) fn own(element: &[u8]) -> bool {
        matches!(element.first(), Some(&GROUP | &OF_GROUP))
    }

    /// Whether a value of this size may have to be read.
    pub(super) fn reads(size: u64) -> bool {
        [GROUP_SIZE as u64, CONSUMER_SIZE as u64].contains(&size)
    }

    /// Adds an element; `value` is read if its size may be that of one.
    pub(super) fn add(&mut self, element: &[u8], value: &[u8], size: u64) -> Result<(), Wrong> {
        let malformed = || {
            let shown = element[..element.len().min(64)].escape_ascii();
            ("format", format!("element \"{shown}\" is none of a consumer group"))
        };
        if element.first() == Some(&GROUP) {
            let group = Group::parse(element, value).map_err(|_| malformed())?;
            if group.consumers > 0 || group.pending > 0 {
                self.said.add(&self.hasher, (group.number(), group.consumers, group.pending));
            }
            return Ok(());
        }
        let parts = element.split_first().and_then(|(_, rest)| split(rest));
        let (number, rest) = parts.ok_or_else(malformed)?;
        let (kind, rest) = rest.split_first().ok_or_else(malformed)?;
        let ended = if self.lists.as_ref().is_some_and(|lists| lists.number != number) { self.end() } else { Ok(()) };
        let lists = self.lists.get_or_insert_with(|| Lists { number, ..Lists::default() });
        match *kind {
            BY_NAME => {
                let consumer = Consumer::parse(rest, value).map_err(|_| malformed())?;
                lists.named.add(&self.hasher, (consumer.number, rest));
                if consumer.pending > 0 {
                    lists.said.add(&self.hasher, (consumer.number, consumer.pending));
                }
            }
            BY_NUMBER if size == 0 => {
                let (consumer, name) = split(rest).ok_or_else(malformed)?;
                lists.numbered.add(&self.hasher, (consumer, name));
            }
            BY_ID => {
                let pending = Pending::parse(value).map_err(|_| malformed())?;
                let id = EntryId::parse(rest).ok_or_else(malformed)?;
                lists.by_id.add(&self.hasher, (pending.consumer, id));
            }
            BY_CONSUMER if size == 0 => {
                let (consumer, id) = split(rest).ok_or_else(malformed)?;
                let id = EntryId::parse(id).ok_or_else(malformed)?;
                lists.by_consumer.add(&self.hasher, (consumer, id));
                if lists.walked.0 != consumer {
                    lists.end_consumer(&self.hasher);
                    lists.walked.0 = consumer;
                }
                lists.walked.1 += 1;
            }
            _ => return Err(malformed()),
        }
        ended
    }

    /// The elements of the group under way have all come.
    fn end(&mut self) -> Result<(), Wrong> {
        let Some(mut lists) = self.lists.take() else { return Ok(()) };
        lists.end_consumer(&self.hasher);
        self.found.add(&self.hasher, (lists.number, lists.named.count, lists.by_id.count));
        let number = lists.number;
        if lists.by_id != lists.by_consumer {
            let (ids, consumers) = (lists.by_id.count, lists.by_consumer.count);
            let detail = format!("group {number}: {ids} pending entries by id and {consumers} by consumer differ");
            return Err(("STREAM-2", detail));
        }
        if lists.named != lists.numbered {
            let (names, numbers) = (lists.named.count, lists.numbered.count);
            let detail = format!("group {number}: {names} consumers by name and {numbers} by number differ");
            return Err(("STREAM-2", detail));
        }
        if lists.said != lists.found {
            return Err(("STREAM-3", format!("group {number}: its consumers have other numbers of pending entries")));
        }
        Ok(())
    }

    /// All elements have come.
    pub(super) fn finish(&mut self) -> Result<(), Wrong> {
        self.end()?;
        if self.said != self.found {
            let detail = "its groups have other consumers or other numbers of pending entries than they say";
            return Err(("STREAM-3", detail.into()));
        }
        Ok(())
    }
}

impl Lists {
    fn end_consumer(&mut self, hasher: &RandomState) {
        if self.walked.1 > 0 {
            self.found.add(hasher, self.walked);
        }
        self.walked.1 = 0;
    }
}
