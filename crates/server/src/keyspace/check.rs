//! The check of the server's tables: whether they keep the rules of their format.
//!
//! Steps, all at one version
//!   1. the table of state: layout, next id, libraries of functions (FUNCTION-1); with the mark of
//!      an import nothing else is compared
//!   2. the table of keys: each record is well formed, not beside a plain string (KEYS-1), and
//!      listed if it has a deadline (KEYS-2); collections are remembered by their ids, the lowest
//!      first, as many as the bound of memory allows
//!   3. the elements of these collections, in order (`elements.rs`): their number (KEYS-3), places
//!      (LIST-1), hashes, the halves of sorted sets (ZSET-1), ids of streams (STREAM-1), their
//!      groups (STREAM-2, STREAM-3); elements of no collection. Steps 2 and 3 are repeated for the
//!      next ids
//!   4. the table of deadlines: each entry has its record (KEYS-2)
//!
//! Memory: [`OWNERS_SIZE`] for collections, and the largest entry. Every element is read once,
//! without its value unless that has the size of a score, of a stream's state or of a group's;
//! records are read once for every million collections. Findings are told as they come.
//!
//! Bytes that cannot be read are findings here; which bytes they are is the tree's own check's
//! business.

mod elements;
mod entries;
mod groups;
mod halves;

use super::databases::Spaces;
use super::functions::PREFIX;
use super::imports;
use super::record::{COLLECTION, HEADER, KeyRecord, ValueType};
use super::tables::{self, DATABASES, LAYOUT, NAMES, SPACES, deadline_key, record_key};
use crate::lua::Header;
use elements::{Owners, Place};
use everbyte_kv::{Error, Kv, Result, Snapshot, TableSnapshot};
use everbyte_store::FindingKind;
use std::fmt;

/// Bytes of memory for collections whose elements are compared in one pass.
const OWNERS_SIZE: usize = 128 << 20;
/// The largest deadline.
const DEADLINE_MAX: u64 = i64::MAX as u64;
/// Bytes of a key that a text shows.
const SHOWN_MAX: usize = 64;

/// One finding of [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceFinding {
    /// Its kind.
    pub kind: FindingKind,
    /// The rule of `docs/formats/server.md` that is broken: `KEYS-1` to `KEYS-4`, `LIST-1`,
    /// `ZSET-1`, `STREAM-1` to `STREAM-3`, `FUNCTION-1`, or `format`; `read` if bytes cannot be
    /// read; `import` for one that has not finished, damage if it cannot be taken back; `replica`
    /// for keys between two versions.
    pub rule: &'static str,
    /// The number of the database.
    pub space: Option<u8>,
    /// The key of the record.
    pub key: Option<Vec<u8>>,
    /// The id of the collection.
    pub id: Option<u64>,
    /// Its description.
    pub detail: String,
}

impl KeyspaceFinding {
    fn damage(rule: &'static str, detail: impl Into<String>) -> KeyspaceFinding {
        KeyspaceFinding { kind: FindingKind::Damage, rule, space: None, key: None, id: None, detail: detail.into() }
    }

    fn unreadable(error: &Error) -> KeyspaceFinding {
        KeyspaceFinding::damage("read", error.to_string())
    }

    fn at(mut self, space: u8, key: &[u8]) -> KeyspaceFinding {
        (self.space, self.key) = (Some(space), Some(key.to_vec()));
        self
    }

    fn of(mut self, place: Place) -> KeyspaceFinding {
        (self.space, self.id) = (Some(place.space), Some(place.id));
        self
    }
}

impl fmt::Display for KeyspaceFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FindingKind::Damage => "damage",
            FindingKind::Leak => "leak",
            FindingKind::DoubleUse => "double use",
            FindingKind::Note => "note",
        };
        write!(f, "server: {kind}")?;
        if let Some(space) = self.space {
            write!(f, " in database {space}")?;
        }
        if let Some(key) = &self.key {
            let shown = &key[..key.len().min(SHOWN_MAX)];
            write!(f, " at key \"{}\"", shown.escape_ascii())?;
            if shown.len() < key.len() {
                write!(f, " and {} bytes more", key.len() - shown.len())?;
            }
        }
        if let Some(id) = self.id {
            write!(f, ", id {id}")?;
        }
        write!(f, ": {} ({})", self.detail, self.rule)
    }
}

/// The extent of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceSums {
    /// Records: keys that are more than a plain string of database 0.
    pub records: u64,
    /// Those of them that are collections.
    pub collections: u64,
    /// Elements of collections.
    pub elements: u64,
    /// Entries of the table of deadlines.
    pub deadlines: u64,
}

/// Verifies the server's tables of a key-value store as of its newest settled version, and gives
/// `each` the findings; `None` if no server has ever opened it. Changes nothing. Memory is bounded,
/// whatever the tables hold.
pub fn check(kv: &Kv, each: &mut dyn FnMut(KeyspaceFinding)) -> Option<KeyspaceSums> {
    check_within(kv, OWNERS_SIZE, each)
}

fn check_within(kv: &Kv, owners_size: usize, each: &mut dyn FnMut(KeyspaceFinding)) -> Option<KeyspaceSums> {
    let snapshot = kv.snapshot();
    let mut sums = KeyspaceSums::default();
    if crate::replication::is_mixed(kv, &snapshot) {
        let detail = "the keys are a mixture of two versions of the replica's primary, and their tables were not \
                      compared: they agree once the replica has caught up";
        each(KeyspaceFinding { kind: FindingKind::Note, ..KeyspaceFinding::damage("replica", detail) });
        return Some(sums);
    }
    let [keys, elements, deadlines, state] = NAMES.map(|name| match kv.open_table(name) {
        Ok(table) => snapshot.table(&table).map(Some),
        Err(Error::NoTable { .. }) => Ok(None),
        Err(error) => Err(error),
    });
    if [&keys, &elements, &deadlines, &state].iter().all(|table| matches!(table, Ok(None))) {
        return None;
    }
    let mut open = |name: &str, table: Result<Option<TableSnapshot>>| match table {
        Ok(Some(table)) => Some(table),
        Ok(None) => {
            each(KeyspaceFinding::damage("format", format!("the table {name} is missing")));
            None
        }
        Err(error) => {
            each(KeyspaceFinding::unreadable(&error));
            None
        }
    };
    let opened = [open(NAMES[0], keys), open(NAMES[1], elements), open(NAMES[2], deadlines), open(NAMES[3], state)];
    let [Some(keys), Some(elements), Some(deadlines), Some(state)] = opened else { return Some(sums) };
    // Findings name databases, and records spaces.
    let spaces = state.get(SPACES).and_then(Spaces::parse).unwrap_or_default();
    let each = &mut |finding: KeyspaceFinding| {
        each(KeyspaceFinding { space: finding.space.map(|space| spaces.database_of(space)), ..finding });
    };
    if let Ok(Some(mark)) = state.get(imports::MARK) {
        let detail = "an import has not finished: the next server or import that opens the tables takes it back";
        each(match imports::fault_of(kv, &mark) {
            Ok(None) => KeyspaceFinding { kind: FindingKind::Note, ..KeyspaceFinding::damage("import", detail) },
            Ok(Some(fault)) => KeyspaceFinding::damage("import", fault),
            Err(error) => KeyspaceFinding::unreadable(&error),
        });
        return Some(sums);
    }
    let mut check = Check { snapshot, keys, elements, deadlines, next_id: 1, whole: true, each };
    if check.state(&state) {
        check.collections(owners_size, &mut sums);
        check.listed(&mut sums);
    }
    Some(sums)
}

struct Check<'c> {
    snapshot: Snapshot,
    keys: TableSnapshot,
    elements: TableSnapshot,
    deadlines: TableSnapshot,
    /// Ids below it are given or reserved.
    next_id: u64,
    /// Whether every record could be read so far.
    whole: bool,
    each: &'c mut dyn FnMut(KeyspaceFinding),
}

impl Check<'_> {
    fn tell(&mut self, finding: KeyspaceFinding) {
        (self.each)(finding);
    }

    /// The value of a read, whose error is a finding.
    fn read<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.tell(KeyspaceFinding::unreadable(&error))).ok()
    }

    /// Step 1; whether this program knows the layout.
    fn state(&mut self, state: &TableSnapshot) -> bool {
        let mut number = |name: &str| {
            let value = self.read(state.get(name.as_bytes()))??;
            let number = <[u8; 8]>::try_from(value).map(u64::from_le_bytes).ok();
            if number.is_none() {
                self.tell(KeyspaceFinding::damage("format", format!("`{name}` in the table of state is no number")));
            }
            number
        };
        let (layout, next_id) = (number("layout"), number("next id"));
        if let Some(value) = self.read(state.get(SPACES))
            && Spaces::parse(value).is_err()
        {
            let detail = "the spaces of the databases name some twice, or have another size";
            self.tell(KeyspaceFinding::damage("KEYS-4", detail));
        }
        self.next_id = next_id.unwrap_or(1);
        let mut range = state.range::<[u8]>(..);
        while let Some(Some(entry)) = self.read(range.next_entry()) {
            let Some((name, value)) = self.read(entry.read()) else { continue };
            match name {
                b"layout" | b"next id" | SPACES => {}
                name if name.starts_with(PREFIX) => self.library(&name[PREFIX.len()..], value),
                name => {
                    let detail = format!("unknown entry \"{}\" in the table of state", name.escape_ascii());
                    self.tell(KeyspaceFinding::damage("format", detail));
                }
            }
        }
        match layout {
            Some(LAYOUT) => true,
            Some(newer) if newer > LAYOUT => {
                let detail =
                    format!("the layout is {newer}, and this program knows {LAYOUT}: nothing else was checked");
                let note = KeyspaceFinding { kind: FindingKind::Note, ..KeyspaceFinding::damage("format", detail) };
                self.tell(note);
                false
            }
            _ => {
                let found = layout.map_or("missing".to_string(), |layout| layout.to_string());
                self.tell(KeyspaceFinding::damage("format", format!("the number of the layout is {found}")));
                false
            }
        }
    }

    /// A library of functions: its first line has its name.
    fn library(&mut self, name: &[u8], code: &[u8]) {
        if !matches!(Header::of_library(code), Ok((found, _)) if found == name) {
            let name = name.escape_ascii();
            self.tell(KeyspaceFinding::damage("FUNCTION-1", format!("the library \"{name}\" has another first line")));
        }
    }

    /// Steps 2 and 3.
    fn collections(&mut self, owners_size: usize, sums: &mut KeyspaceSums) {
        let mut from = Some(Place::FIRST);
        let mut is_first = true;
        while let Some(start) = from {
            let mut owners = Owners::new(start, owners_size);
            self.records(&mut owners, is_first.then_some(&mut *sums));
            from = owners.end();
            elements::walk(self, owners, sums);
            is_first = false;
        }
    }

    /// Walks the records and remembers collections; the first time, with `sums`, they are checked.
    fn records(&mut self, owners: &mut Owners, mut sums: Option<&mut KeyspaceSums>) {
        let mut range = self.keys.range::<[u8]>(..);
        loop {
            let entry = match range.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => return,
                Err(error) => {
                    self.whole = false;
                    return if sums.is_some() {
                        self.tell(KeyspaceFinding::unreadable(&error))
                    };
                }
            };
            let size = entry.value_len();
            let read = if size <= COLLECTION as u64 {
                entry.read().map(|(key, value)| (key.to_vec(), Some(value.to_vec())))
            } else {
                // A string may be long, and its value does not matter here.
                entry.key().map(<[u8]>::to_vec).and_then(|key| {
                    let value = self.keys.part_of(&key, |_| 0..COLLECTION as u64 + 1)?;
                    Ok((key, value))
                })
            };
            let (stored, value) = match read {
                Ok((key, Some(value))) => (key, value),
                Ok((_, None)) => continue,
                Err(error) => {
                    self.whole = false;
                    if sums.is_some() {
                        self.tell(KeyspaceFinding::unreadable(&error));
                    }
                    continue;
                }
            };
            let record =
                stored.split_first().and_then(|(space, key)| Some((*space, key, KeyRecord::parse(&value).ok()?)));
            if let Some((space, key, KeyRecord::Collection(collection))) = record {
                owners.offer(Place { space, id: collection.id }, key, collection);
            }
            let Some(sums) = &mut sums else { continue };
            sums.records += 1;
            match record {
                Some((space, key, record)) => {
                    sums.collections += u64::from(record.kind() != ValueType::String);
                    self.record(space, super::unstored_key(key), &record);
                }
                None => {
                    self.whole = false;
                    let kind = value.first().map_or("nothing".into(), |kind| format!("type {kind}"));
                    let detail = format!("a record of {size} bytes, {kind}, is none that a server writes");
                    let finding = KeyspaceFinding::damage("format", detail);
                    self.tell(match stored.split_first() {
                        Some((space, key)) => finding.at(*space, key),
                        None => finding,
                    });
                }
            }
        }
    }

    fn record(&mut self, space: u8, key: &[u8], record: &KeyRecord) {
        let mut wrong = |rule, detail: String| (self.each)(KeyspaceFinding::damage(rule, detail).at(space, key));
        if usize::from(space) >= DATABASES {
            wrong("format", format!("no database has the number {space}"));
        }
        let deadline = record.deadline();
        if deadline > DEADLINE_MAX {
            wrong("format", format!("the deadline {deadline} is above the largest one"));
        }
        if space == 0 && deadline == 0 && record.kind() == ValueType::String {
            wrong("format", "a plain string that belongs to the main table lies in the table of keys".into());
        }
        if let KeyRecord::Collection(collection) = record {
            let (id, next) = (collection.id, self.next_id);
            if id == 0 || id >= next {
                let detail = format!("its id {id} was never given: the next one is {next}");
                wrong("format", detail);
            }
            if collection.kind != ValueType::List && collection.first != 1 << 63 {
                wrong("format", format!("the place {:#x} of a first element, and it is no list", collection.first));
            }
        }
        if space == 0 && self.read(self.snapshot.contains(key)) == Some(true) {
            self.tell(KeyspaceFinding::damage("KEYS-1", "the key is in the main table too").at(space, key));
        }
        if deadline != 0 && self.read(self.deadlines.contains(&deadline_key(space, deadline, key))) == Some(false) {
            let detail = format!("its deadline {deadline} is not in the table of deadlines");
            self.tell(KeyspaceFinding::damage("KEYS-2", detail).at(space, key));
        }
    }

    /// Step 4.
    fn listed(&mut self, sums: &mut KeyspaceSums) {
        let mut range = self.deadlines.range::<[u8]>(..);
        while let Some(Some(entry)) = self.read(range.next_entry()) {
            sums.deadlines += 1;
            let size = entry.value_len();
            let Some(stored) = self.read(entry.key()) else { continue };
            let Some((space, deadline, key)) = tables::parse_deadline_key(stored) else {
                let detail = format!("\"{}\" in the table of deadlines is no entry", stored.escape_ascii());
                self.tell(KeyspaceFinding::damage("format", detail));
                continue;
            };
            if size != 0 {
                let detail = format!("the entry of deadline {deadline} has a value of {size} bytes");
                self.tell(KeyspaceFinding::damage("format", detail).at(space, key));
            }
            let part = self.keys.part_of(&record_key(space, key), |size| 0..size.min(COLLECTION as u64 + 1));
            let Some(bytes) = self.read(part) else { continue };
            // Of a record that is malformed the deadline may still be right.
            let found =
                bytes.as_deref().and_then(|bytes| bytes.get(8..HEADER)?.try_into().ok()).map(u64::from_le_bytes);
            if found != Some(deadline) {
                let there =
                    found.map_or("there is no record".into(), |found| format!("its record has the deadline {found}"));
                let detail = format!("the table of deadlines has it with {deadline}, and {there}");
                let finding = KeyspaceFinding::damage("KEYS-2", detail).at(space, key);
                self.tell(KeyspaceFinding { kind: FindingKind::Leak, ..finding });
            }
        }
    }
}

#[cfg(test)]
mod tests;
