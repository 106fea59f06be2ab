//! The elements of collections, walked in order beside the records that own them.
//!
//! Records are in the order of keys, elements in that of ids. So the owners of one pass are the
//! collections of the lowest ids that have not had their turn, as many as fit the bound of memory;
//! the elements from the first of these ids to the last are walked once.

use super::entries::Entries;
use super::groups::Groups;
use super::halves::Halves;
use super::{Check, KeyspaceFinding, KeyspaceSums};
use crate::keyspace::collections::{HASH, hashed};
use crate::keyspace::record::{Collection, ValueType};
use crate::keyspace::sorted_sets::SCORE;
use crate::keyspace::streams::STATE_SIZE;
use crate::keyspace::tables::element_key;
use everbyte_store::FindingKind;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The place of a collection's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub space: u8,
    pub id: u64,
}

impl Place {
    pub(super) const FIRST: Place = Place { space: 0, id: 0 };

    fn prefix(self) -> Vec<u8> {
        element_key(self.space, self.id, b"")
    }
}

/// A collection, and the key of its record.
struct Owner {
    key: Vec<u8>,
    collection: Collection,
    /// Further records with the same id.
    others: u64,
}

/// Bytes that an owner costs beside its key.
const EACH: usize = 128;

/// The owners of one pass: those of the lowest places from `start` on.
pub(super) struct Owners {
    start: Place,
    /// Places from here on are left to the next pass.
    end: Option<Place>,
    held: BTreeMap<Place, Owner>,
    size: usize,
    size_max: usize,
}

impl Owners {
    pub(super) fn new(start: Place, size_max: usize) -> Owners {
        Owners { start, end: None, held: BTreeMap::new(), size: 0, size_max }
    }

    pub(super) fn end(&self) -> Option<Place> {
        self.end
    }

    /// Remembers a collection if it belongs to this pass. The highest ones make room.
    pub(super) fn offer(&mut self, place: Place, key: &[u8], collection: Collection) {
        if place < self.start || self.end.is_some_and(|end| place >= end) {
            return;
        }
        if let Some(owner) = self.held.get_mut(&place) {
            owner.others += 1;
            return;
        }
        self.size += EACH + key.len();
        self.held.insert(place, Owner { key: key.to_vec(), collection, others: 0 });
        while self.size > self.size_max && self.held.len() > 1 {
            let Some((place, owner)) = self.held.pop_last() else { return };
            self.size -= EACH + owner.key.len();
            self.end = Some(place);
        }
    }
}

/// The elements of one place, as far as they were walked.
struct Walked {
    place: Place,
    owner: Option<Owner>,
    count: u64,
    /// Elements that are none of the owner's type, and the first of these.
    wrong: u64,
    first_wrong: Option<(&'static str, String)>,
    halves: Halves,
    entries: Entries,
}

/// Walks the elements of the owners' places.
pub(super) fn walk(check: &mut Check<'_>, owners: Owners, sums: &mut KeyspaceSums) {
    let (start, end) = (owners.start.prefix(), owners.end.map(Place::prefix));
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    // A key that is too short for a place stands before the places that begin with it.
    let from = if owners.start == Place::FIRST { Bound::Unbounded } else { Bound::Included(&start[..]) };
    let mut range = check.elements.range::<[u8]>((from, to));
    let mut owners = owners.held.into_iter().peekable();
    let mut walked: Option<Walked> = None;
    let mut is_whole = true;
    loop {
        let entry = match range.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                check.tell(KeyspaceFinding::unreadable(&error));
                is_whole = false;
                break;
            }
        };
        sums.elements += 1;
        let size = entry.value_len();
        let is_read = [SCORE as u64, STATE_SIZE as u64].contains(&size) || Groups::reads(size);
        let read = if is_read { entry.read() } else { entry.key().map(|key| (key, &[][..])) };
        let (key, value) = match read {
            Ok(read) => read,
            Err(error) => {
                check.tell(KeyspaceFinding::unreadable(&error));
                is_whole = false;
                continue;
            }
        };
        let Some((space, (id, element))) =
            key.split_first().and_then(|(space, rest)| Some((*space, rest.split_first_chunk::<8>()?)))
        else {
            let detail = format!("\"{}\" in the table of elements is no element", key.escape_ascii());
            check.tell(KeyspaceFinding::damage("format", detail));
            continue;
        };
        let place = Place { space, id: u64::from_be_bytes(*id) };
        if walked.as_ref().is_none_or(|walked| walked.place != place) {
            if let Some(walked) = walked.take() {
                walked.judge(check, is_whole);
            }
            while let Some((place, owner)) = owners.next_if(|(owned, _)| *owned < place) {
                Walked::new(place, Some(owner)).judge(check, is_whole);
            }
            let owner = owners.next_if(|(owned, _)| *owned == place).map(|(_, owner)| owner);
            walked = Some(Walked::new(place, owner));
        }
        if let Some(walked) = &mut walked {
            walked.element(element, value, size);
        }
    }
    if let Some(walked) = walked {
        walked.judge(check, is_whole);
    }
    for (place, owner) in owners {
        Walked::new(place, Some(owner)).judge(check, is_whole);
    }
}

impl Walked {
    fn new(place: Place, owner: Option<Owner>) -> Walked {
        Walked {
            place,
            owner,
            count: 0,
            wrong: 0,
            first_wrong: None,
            halves: Halves::default(),
            entries: Entries::default(),
        }
    }

    fn element(&mut self, element: &[u8], value: &[u8], size: u64) {
        let fit = match &self.owner {
            Some(owner) if owner.collection.kind == ValueType::SortedSet => {
                self.halves.add(element, value, size).map_err(|detail| ("format", detail))
            }
            Some(owner) if owner.collection.kind == ValueType::Stream => {
                self.entries.add(&owner.collection, element, value, size)
            }
            Some(owner) => fits(&owner.collection, self.count, element, size),
            None => Ok(()),
        };
        if let Err((rule, detail)) = fit {
            self.wrong += 1;
            self.first_wrong.get_or_insert((rule, detail));
        }
        self.count += 1;
    }

    /// All elements of the place were seen; `is_whole`: none before could not be read.
    fn judge(self, check: &mut Check<'_>, is_whole: bool) {
        let Walked { place, owner, mut count, mut wrong, mut first_wrong, halves, mut entries } = self;
        let Some(Owner { key, collection, others }) = owner else {
            let lost = if check.whole { "" } else { "; a record that cannot be read may own them" };
            let detail = format!("{count} elements of no collection{lost}");
            let finding = KeyspaceFinding::damage("KEYS-3", detail).of(place);
            let kind = if check.whole { FindingKind::Leak } else { FindingKind::Note };
            return check.tell(KeyspaceFinding { kind, ..finding });
        };
        let finding = |rule, detail| KeyspaceFinding::damage(rule, detail).at(place.space, &key).of(place);
        if others > 0 {
            let finding = finding("KEYS-3", format!("{others} further records have the same id"));
            check.tell(KeyspaceFinding { kind: FindingKind::DoubleUse, ..finding });
        }
        if collection.kind == ValueType::Stream {
            count = entries.counted;
            if let (true, 0, Err(end)) = (is_whole, wrong, entries.groups.finish()) {
                (wrong, first_wrong) = (1, Some(end));
            }
        }
        let expected = collection.count.saturating_mul(elements_each(collection.kind));
        if count != expected && is_whole {
            check.tell(finding("KEYS-3", format!("the record says {expected} elements, and there are {count}")));
        }
        if let Some(detail) = halves.difference().filter(|_| is_whole && wrong == 0) {
            check.tell(finding("ZSET-1", detail));
        }
        if let Some((rule, detail)) = first_wrong {
            let others = if wrong > 1 { format!(", and {} more are wrong", wrong - 1) } else { String::new() };
            check.tell(finding(rule, format!("{detail}{others}")));
        }
    }
}

/// Elements that a count of one stands for.
fn elements_each(kind: ValueType) -> u64 {
    match kind {
        // One by member, one by score.
        ValueType::SortedSet => 2,
        _ => 1,
    }
}

/// Whether an element is what the collection's type has at `index`, with a value of `size` bytes.
fn fits(collection: &Collection, index: u64, element: &[u8], size: u64) -> Result<(), (&'static str, String)> {
    let shown = || element[..element.len().min(64)].escape_ascii();
    match collection.kind {
        ValueType::List => {
            let expected = collection.first.wrapping_add(index);
            if element != expected.to_be_bytes() {
                let detail = format!("element {index} lies at \"{}\", and not at place {expected:#x}", shown());
                return Err(("LIST-1", detail));
            }
        }
        ValueType::Set | ValueType::Hash => {
            let member = element.get(HASH..).unwrap_or_default();
            if hashed(member) != element {
                return Err(("format", format!("element \"{}\" does not begin with its hash", shown())));
            }
            if collection.kind == ValueType::Set && size != 0 {
                return Err(("format", format!("member \"{}\" has a value of {size} bytes", shown())));
            }
        }
        // `Halves` and `Entries` look at those of sorted sets and streams; a string owns none.
        ValueType::SortedSet | ValueType::Stream | ValueType::String => {}
    }
    Ok(())
}
