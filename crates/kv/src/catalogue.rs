//! The catalogue: the names of tables, and what each is, in a table of their tree.
//!
//! A name maps to a [`TableRecord`]. The empty name, which no table can have, maps to the highest
//! number that was ever given. A number is given again only when all others were used once; the
//! record's version tells its tables apart.
//!
//! [`Tables`] is what the process knows of tables that it has opened. It changes under the writer's
//! lock alone: so a write to a table that it finds alive cannot meet a table dropped meanwhile.
//!
//! Design: docs/design/tables.md

use crate::tree::{Cursor, TableNumber, TreeBatch, Version, each_named};
use crate::{Error, Result};
use everbyte_store::{Finding, FindingKind};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest name of a table, in bytes.
pub const TABLE_NAME_MAX: usize = 255;
/// Numbers of tables that have names: behind the main table, before the tables of the store itself.
const NUMBERS: std::ops::Range<u32> = 1..TableNumber::VERSIONS.0 - 14;

/// A table on media: the value of its name in the catalogue. A description of its type follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TableRecord {
    pub number: u32,
    pub reserved: u32,
    /// The version that made it.
    pub created: Version,
}
const _: () = assert!(size_of::<TableRecord>() == 16);

/// A table that this process has opened.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub number: TableNumber,
    /// The version that made it.
    pub created: Version,
    life: AtomicU8,
    counts: Mutex<Counts>,
}

/// How many keys a table has.
#[derive(Debug)]
struct Counts {
    /// The version from which on counts are known: those of older ones need a scan.
    since: Version,
    /// The keys before the first gain that was noted, once they are known.
    first: Option<u64>,
    /// The sum of all keys gained, by version, the oldest first; at most [`GAINS_MAX`].
    gained: VecDeque<(Version, i64)>,
}

impl Counts {
    fn gained_at(&self, version: Version) -> i64 {
        self.gained.iter().rev().find(|(at, _)| *at <= version).map_or(0, |(_, gained)| *gained)
    }
}

/// Versions at which a table's count is known; beside a named version none passes otherwise.
const GAINS_MAX: usize = 4096;

const LIVE: u8 = 0;
/// Made by a batch that is not committed.
const PENDING: u8 = 1;
const DROPPED: u8 = 2;

impl OpenTable {
    /// One that `newest` sees.
    pub(crate) fn live(record: &TableRecord, newest: Version) -> OpenTable {
        OpenTable::new(record, LIVE, Counts { since: newest, first: None, gained: VecDeque::new() })
    }

    /// One that a batch makes.
    pub(crate) fn pending(record: &TableRecord) -> OpenTable {
        OpenTable::new(record, PENDING, Counts { since: record.created, first: Some(0), gained: VecDeque::new() })
    }

    fn new(record: &TableRecord, life: u8, counts: Counts) -> OpenTable {
        let (life, counts) = (AtomicU8::new(life), Mutex::new(counts));
        OpenTable { number: TableNumber(record.number), created: record.created, life, counts }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.life.load(SeqCst) == LIVE
    }

    /// Whether it is the table of this record.
    pub(crate) fn is_of(&self, record: &TableRecord) -> bool {
        (self.number.0, self.created) == (record.number, record.created)
    }

    /// Whether both are one table: a number may be given again.
    pub(crate) fn is_same(&self, other: &OpenTable) -> bool {
        (self.number, self.created) == (other.number, other.created)
    }

    pub(crate) fn commit(&self) {
        self.life.store(LIVE, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.life.store(DROPPED, SeqCst);
    }

    /// Notes that `version` gained keys; versions before `oldest` are asked for no more.
    pub(crate) fn gain(&self, version: Version, gained: i64, oldest: u64) {
        let mut counts = self.counts.lock();
        let Counts { since, gained: list, .. } = &mut *counts;
        let before = list.back().map_or(0, |newest| newest.1);
        list.push_back((version, before + gained));
        while list.len() > 1 && (list[1].0.get() <= oldest || list.len() > GAINS_MAX) {
            list.pop_front();
            *since = list[0].0.max(*since);
        }
    }

    /// The keys at `version`. `count` counts them the first time, and for versions of before the
    /// table was opened.
    pub(crate) fn len(&self, version: Version, count: impl FnOnce() -> Result<u64>) -> Result<u64> {
        {
            let counts = self.counts.lock();
            if let Some(first) = counts.first.filter(|_| version >= counts.since) {
                return Ok(first.wrapping_add_signed(counts.gained_at(version)));
            }
        }
        let len = count()?;
        let mut counts = self.counts.lock();
        if version >= counts.since {
            counts.first = Some(len.wrapping_add_signed(-counts.gained_at(version)));
        }
        Ok(len)
    }
}

/// The tables that this process has opened, by number.
#[derive(Default)]
pub(crate) struct Tables(Mutex<HashMap<u32, Arc<OpenTable>>>);

impl Tables {
    /// The table of this record, which `newest` sees; opened now if it is not yet. The caller holds
    /// the writer's lock.
    pub(crate) fn open(&self, record: &TableRecord, newest: Version) -> Arc<OpenTable> {
        let mut tables = self.0.lock();
        Arc::clone(tables.entry(record.number).or_insert_with(|| Arc::new(OpenTable::live(record, newest))))
    }

    /// A batch made `table` and is committed.
    pub(crate) fn add(&self, table: &Arc<OpenTable>) {
        table.commit();
        self.0.lock().insert(table.number.0, Arc::clone(table));
    }

    /// A batch dropped the table of this number and is committed.
    pub(crate) fn remove(&self, number: TableNumber) {
        if let Some(table) = self.0.lock().remove(&number.0) {
            table.end();
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<OpenTable>> {
        self.0.lock().get(&number).cloned()
    }
}

/// Whether a table can have this name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=TABLE_NAME_MAX => Ok(()),
        len => Err(Error::TableName { len, max: TABLE_NAME_MAX }),
    }
}

/// The record in a catalogue's value. A description may follow it.
pub(crate) fn parse(value: &[u8]) -> Result<TableRecord> {
    match TableRecord::read_from_prefix(value) {
        Ok((record, _)) if NUMBERS.contains(&record.number) => Ok(record),
        _ => crate::error::damaged(0, "a record of the catalogue of tables is not one"),
    }
}

/// Whether a table that has a name can have this number.
pub(crate) fn is_number(number: u32) -> bool {
    NUMBERS.contains(&number)
}

/// Gives the table of this number a name; its keys are there already.
pub(crate) fn put_record(tree: &mut TreeBatch<'_>, name: &str, number: TableNumber) -> Result<()> {
    let record = TableRecord { number: number.0, reserved: 0, created: tree.version() };
    tree.put(TableNumber::CATALOGUE, name.as_bytes(), record.as_bytes()).map(drop)
}

/// The record in a catalogue's value, and the description behind it.
pub(crate) fn parse_described(value: &[u8]) -> Result<(TableRecord, &[u8])> {
    Ok((parse(value)?, value.get(size_of::<TableRecord>()..).unwrap_or_default()))
}

/// The record of the table `name`, as `tree` sees it.
pub(crate) fn find(tree: &TreeBatch<'_>, name: &str) -> Result<Option<TableRecord>> {
    if name.is_empty() {
        return Ok(None); // it holds the highest number
    }
    tree.get(TableNumber::CATALOGUE, name.as_bytes())?.as_deref().map(parse).transpose()
}

/// Gives a new table its number and its record. Numbers of tables that the batch has `dropped` are
/// not free before its commit, and those that the newest settled version has not before a later one
/// is settled: reads by the new table's handle would see the old one's keys.
pub(crate) fn add(tree: &mut TreeBatch<'_>, name: &str, dropped: &[TableNumber]) -> Result<TableRecord> {
    let catalogue = TableNumber::CATALOGUE;
    let last = tree.get(catalogue, b"")?.and_then(|value| Some(u32::from_le_bytes(*value.first_chunk()?)));
    let next = last.map_or(NUMBERS.start, |last| last.saturating_add(1));
    let number = if NUMBERS.contains(&next) {
        tree.put(catalogue, b"", &next.to_le_bytes())?;
        next
    } else {
        let mut used = numbers(tree.cursor())?;
        used.extend(numbers(tree.settled_cursor())?);
        used.extend(dropped.iter().map(|dropped| dropped.0));
        let free = NUMBERS.into_iter().find(|number| !used.contains(number));
        free.ok_or(Error::TablesExhausted { max: NUMBERS.len() as u32 })?
    };
    let record = TableRecord { number, reserved: 0, created: tree.version() };
    tree.put(catalogue, name.as_bytes(), record.as_bytes())?;
    Ok(record)
}

/// Stores a description behind the record of the table `name`, which this batch made.
pub(crate) fn describe(tree: &mut TreeBatch<'_>, name: &str, description: &[u8]) -> Result<()> {
    let record = find(tree, name)?.expect("the batch made it");
    let value = [record.as_bytes(), description].concat();
    tree.put(TableNumber::CATALOGUE, name.as_bytes(), &value).map(drop)
}

/// The description of the table `name`, if it has one.
pub(crate) fn description(tree: &TreeBatch<'_>, name: &str) -> Result<Option<Vec<u8>>> {
    let value = tree.get(TableNumber::CATALOGUE, name.as_bytes())?;
    Ok(value.and_then(|value| value.get(size_of::<TableRecord>()..).map(<[u8]>::to_vec)).filter(|it| !it.is_empty()))
}

/// As [`add`], with a description as it was stored before. Returns the number.
pub(crate) fn add_described(
    tree: &mut TreeBatch<'_>,
    name: &str,
    description: &[u8],
    dropped: &[TableNumber],
) -> Result<TableNumber> {
    let record = add(tree, name, dropped)?;
    if !description.is_empty() {
        describe(tree, name, description)?;
    }
    Ok(TableNumber(record.number))
}

/// Verifies that every key belongs to a table that the catalogue names, and every record is one.
pub(crate) fn check(tree: &TreeBatch<'_>) -> Vec<Finding> {
    let object = tree.object_name();
    let finding = |detail: String| {
        let object = Some(object.clone());
        Finding { room: "kv", kind: FindingKind::Damage, at: 0, object, detail }
    };
    let strays = || -> Result<Option<TableNumber>> {
        let known = numbers(tree.cursor())?;
        let mut cursor = tree.cursor();
        let mut next = TableNumber(NUMBERS.start);
        loop {
            cursor.seek(&next.bytes())?;
            match cursor.next()?.map(|entry| entry.table()) {
                Some(table) if NUMBERS.contains(&table.0) && !known.contains(&table.0) => return Ok(Some(table)),
                Some(table) if table < TableNumber::CATALOGUE => next = TableNumber(table.0 + 1),
                _ => return Ok(None),
            }
        }
    };
    if let Err(error) = each_named(tree.cursor(), |_, record| tree.require_version(&record)) {
        return vec![finding(error.to_string())];
    }
    match strays() {
        Ok(None) => Vec::new(),
        Ok(Some(table)) => {
            vec![finding(format!("keys of table number {}, which the catalogue does not name", table.0))]
        }
        Err(error) => vec![finding(error.to_string())],
    }
}

/// The numbers in use, as the cursor sees them.
fn numbers(mut cursor: Cursor<'_>) -> Result<std::collections::HashSet<u32>> {
    cursor.seek(&TableNumber::CATALOGUE.bytes())?;
    let mut used = std::collections::HashSet::new();
    while let Some(entry) = cursor.next()? {
        let (name, value) = entry.read()?;
        if !name.is_empty() {
            used.insert(parse(value)?.number);
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kv;
    use everbyte_media::{BackendChoice, Media, Options};
    use everbyte_store::{CreateOptions, FormatOptions, Store};

    fn store() -> Store {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        Store::format(media, &FormatOptions::default()).unwrap()
    }

    /// Once every number was used, a batch does not give a new table the number of one that it
    /// drops: commits tell tables apart by their numbers.
    #[test]
    fn a_number_is_free_only_behind_the_batch_that_drops_its_table() {
        let kv = Kv::create(&store(), "kv").unwrap();
        let old = kv.create_table("old").unwrap();
        let mut batch = kv.batch();
        batch.tree_mut().put(TableNumber::CATALOGUE, b"", &(NUMBERS.end - 1).to_le_bytes()).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        let mut batch = kv.batch();
        batch.drop_table("old").unwrap();
        let new = batch.create_table("new").unwrap();
        batch.table(&new).unwrap().put(b"key", b"value").unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        assert_eq!(new.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(old.get(b"key").is_err());
        // Its number is free now.
        let again = kv.create_table("again").unwrap();
        assert_eq!((again.open.number, kv.check()), (old.open.number, vec![]));
    }

    /// Going back to a version keeps the highest number: the next table gets a number that no other
    /// one has had.
    #[test]
    fn a_restored_version_gives_no_number_twice() {
        let kv = Kv::create(&store(), "kv").unwrap();
        kv.create_table("kept").unwrap();
        kv.name_version("before").unwrap();
        let gone = kv.create_table("gone").unwrap();
        kv.restore_version("before").unwrap();
        let next = kv.create_table("next").unwrap();
        assert!(next.open.number > gone.open.number, "{:?} and {:?}", next.open, gone.open);
        assert_eq!(kv.check(), []);
    }

    /// A number that is given again, to a table that a restored version does not have: its handles
    /// are refused, and those of the table that comes back work.
    #[test]
    fn a_restored_table_has_its_number_back() {
        let kv = Kv::create(&store(), "kv").unwrap();
        let old = kv.create_table("old").unwrap();
        old.put(b"key", b"old").unwrap();
        let mut batch = kv.batch();
        batch.tree_mut().put(TableNumber::CATALOGUE, b"", &(NUMBERS.end - 1).to_le_bytes()).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        kv.name_version("before").unwrap();
        let then = old.snapshot().unwrap();
        for name in ["old", "new"] {
            kv.drop_table("old").unwrap();
            let new = kv.create_table(name).unwrap();
            assert_eq!(new.open.number, old.open.number);
            new.put(b"key", b"new").unwrap();
            assert!(matches!(then.changes(&new.snapshot().unwrap()).map(drop), Err(Error::OtherTree)));
            kv.restore_version("before").unwrap();
            for result in [new.get(b"key").map(drop), new.put(b"key", b"x"), new.len().map(drop)] {
                assert!(matches!(result, Err(Error::TableGone { .. })), "{name}: {result:?}");
            }
            let back = kv.open_table("old").unwrap();
            assert_eq!((back.get(b"key").unwrap().as_deref(), back.len().unwrap()), (Some(&b"old"[..]), 1));
        }
        assert_eq!((kv.tables().unwrap(), kv.check()), (vec!["old".to_string()], vec![]));
    }

    /// A table whose drop is committed and not settled is what readers see: its number is not given
    /// again before.
    #[test]
    fn a_number_is_free_only_when_its_drop_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let media = Options { backend: BackendChoice::File, ..Options::default() };
        let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
        let store = Store::create(&folder.path().join("s"), &options).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.create_table("old").unwrap().put(b"key", b"old").unwrap();
        let mut batch = kv.batch();
        batch.tree_mut().put(TableNumber::CATALOGUE, b"", &(NUMBERS.end - 1).to_le_bytes()).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        let mut batch = kv.batch();
        batch.drop_table("old").unwrap();
        let _ = batch.commit().unwrap();
        let mut batch = kv.batch();
        let new = batch.create_table("new").unwrap();
        let commit = batch.commit().unwrap();
        assert_eq!(new.get(b"key").unwrap(), None);
        kv.settle(commit).unwrap();
        assert_eq!((new.len().unwrap(), kv.check()), (0, vec![]));
    }

    /// The counts of versions that a named one keeps take a bounded memory, and older versions
    /// change no later count.
    #[test]
    fn counts_of_old_versions_are_forgotten_in_time() {
        let version = Version::new;
        let table = OpenTable::pending(&TableRecord { number: 1, reserved: 0, created: version(1) });
        (2..10_002).for_each(|number| table.gain(version(number), 1, 1));
        assert_eq!(table.counts.lock().gained.len(), GAINS_MAX);
        let known = |number: u64| table.len(version(number), || panic!("it is known")).unwrap();
        assert_eq!((known(10_001), known(9_000)), (10_000, 8_999));
        // A scan of an old version, and one that has read garbage: it has expired.
        for counted in [100, 7] {
            assert_eq!(table.len(version(101), || Ok(counted)).unwrap(), counted);
            assert_eq!((known(10_001), known(9_000)), (10_000, 8_999));
        }
        table.gain(version(10_002), 5, 10_002);
        assert_eq!(known(10_002), 10_005);
        assert_eq!(table.counts.lock().gained.len(), 1);
    }

    /// A table that was opened, not made: a count that is found by a scan of a version whose gains
    /// were forgotten meanwhile is not kept.
    #[test]
    fn a_count_that_comes_too_late_is_not_kept() {
        let version = Version::new;
        let record = TableRecord { number: 1, reserved: 0, created: version(1) };
        let table = OpenTable::live(&record, version(10));
        table.gain(version(11), 1, 10);
        table.gain(version(12), 1, 10);
        let late = || {
            table.gain(version(13), 1, 13);
            Ok(101)
        };
        assert_eq!(table.len(version(11), late).unwrap(), 101);
        assert_eq!(table.len(version(13), || Ok(103)).unwrap(), 103);
        assert_eq!(table.len(version(13), || panic!("it is known")).unwrap(), 103);
    }
}
