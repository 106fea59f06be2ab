//! The mark of an import that has not finished.
//!
//! An import commits many batches. Before its first key it writes `import` to the table of state,
//! and its last batch removes that, so an opening which finds the mark takes the import back: with
//! the value 1 the tables were empty before, and are emptied; with 2 they go back to the version
//! `server/import`, which the import named first.
//!
//! Steps of an import into tables with keys or functions
//!   1. the version is named, and settled
//!   2. the first batch writes the mark, and removes the origin of a replica's keys
//!   3. batches of keys
//!   4. the last batch removes the mark
//!   5. the name is removed
//!
//! A crash between 1 and 2 or between 4 and 5 leaves a name without a mark, which the next opening
//! removes.
//!
//! Going back to the version is many batches, too, the last of which removes the mark; a crash
//! between them is followed by all of them again. Only the server's tables and the main table go
//! back: other tables are other programs' own.
//!
//! Invariants
//!   IMPORT-1  No settled version has a key of an unfinished import and no mark.
//!   IMPORT-2  Opening the tables leaves neither mark nor name behind, or is refused.
//!   IMPORT-3  An import has the tables alone: none of its batches follows a commit of others.
//!
//! Design: docs/design/server-imports.md

use super::databases::Spaces;
use super::reads::Place;
use super::record::damaged_by;
use super::tables::{DATABASES, SPACES};
use super::{Keyspace, Tables, after_prefix, functions};
use everbyte_kv::raw::{name_reserved_version, remove_reserved_version};
use everbyte_kv::{Batch, Change, Error, Kv, KvTable, Result, Version};
use everbyte_media::seeded;
use std::ops::Bound;

/// The name of the mark in the table of state.
pub(super) const MARK: &[u8] = b"import";
/// The version to which an unfinished import goes back.
const VERSION: &str = "server/import";
/// The text of a mark whose version is gone.
const LOST: &str = "an import has not finished, and the version `server/import` that it goes back to is gone: the keys of \
                    before cannot come back; `everbyte import SOURCE STORE --clear` deletes all keys and imports anew";
/// The text of an unknown mark.
const MALFORMED: &str = "the mark of an import in the table of state is malformed; `everbyte import SOURCE STORE --clear` \
                         deletes all keys and imports anew";
/// The mark of an import into empty tables.
const EMPTIES: &[u8] = &[1];
/// The mark of an import into tables with keys.
const RESTORES: &[u8] = &[2];

/// The beginning of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It has the tables alone.
    Alone,
    /// Another thread has committed meanwhile: no mark is written.
    Disturbed,
}

/// Bytes that one batch brings back.
const BATCH: usize = 4 << 20;
/// Bytes that a key costs beside its own.
const EACH: usize = 64;

/// Takes an unfinished import back, if there is one. Tables: keys, elements, deadlines, state.
/// `empties`: if the version to go back to is gone, all keys are deleted.
pub(super) fn recover(kv: &Kv, tables: [&KvTable; 4], empties: bool) -> Result<()> {
    recover_by(kv, tables, empties, BATCH)
}

fn recover_by(kv: &Kv, tables: [&KvTable; 4], empties: bool, batch_size: usize) -> Result<()> {
    let is_named = has_version(kv)?;
    match (tables[3].get(MARK)?.as_deref(), is_named) {
        (None, _) => {}
        (Some(EMPTIES), _) => empty(kv, tables)?,
        (Some(RESTORES), true) => restore(kv, tables, batch_size)?,
        (Some(_), _) if empties => empty(kv, tables)?,
        (Some(RESTORES), false) => return Err(damaged_by(LOST)),
        (Some(_), _) => return Err(damaged_by(MALFORMED)),
    }
    if is_named { forget_version(kv) } else { Ok(()) }
}

fn has_version(kv: &Kv) -> Result<bool> {
    match kv.open_version(VERSION) {
        Ok(_) => Ok(true),
        Err(Error::NoVersion { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn forget_version(kv: &Kv) -> Result<()> {
    match remove_reserved_version(kv, VERSION) {
        Ok(()) | Err(Error::NoVersion { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The fault of a mark, if it has one; of a store that may be read only.
pub(super) fn fault_of(kv: &Kv, mark: &[u8]) -> Result<Option<&'static str>> {
    Ok(match mark {
        EMPTIES => None,
        RESTORES if kv.versions()?.iter().any(|version| version.name == VERSION) => None,
        RESTORES => Some(LOST),
        _ => Some(MALFORMED),
    })
}

/// Removes all keys and functions, and the mark.
fn empty(kv: &Kv, [keys, elements, deadlines, state]: [&KvTable; 4]) -> Result<()> {
    let all: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
    let mut batch = kv.batch();
    batch.clear()?;
    for table in [keys, elements, deadlines] {
        batch.table(table)?.delete_range::<[u8]>(all)?;
    }
    let mut state = batch.table(state)?;
    let end = after_prefix(functions::PREFIX);
    let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    state.delete_range::<[u8]>((Bound::Included(functions::PREFIX), end))?;
    state.delete(SPACES)?;
    state.delete(MARK)?;
    let commit = batch.commit()?;
    kv.settle(commit)
}

/// Brings the tables back to the version, in batches of so many bytes. The last one removes the
/// mark. All commits before are settled.
fn restore(kv: &Kv, tables: [&KvTable; 4], batch_size: usize) -> Result<()> {
    let (now, then) = (kv.snapshot(), kv.open_version(VERSION)?);
    let (mut batch, mut size) = (kv.batch(), 0);
    let is_early = seeded("server-import-mark-early");
    // The table of state with the mark is the last one.
    for table in [None].into_iter().chain(tables.map(Some)) {
        let is_state = table.is_some_and(|table| std::ptr::eq(table, tables[3]));
        let changes = match table {
            None => now.changes(&then)?,
            Some(table) => now.table(table)?.changes(&then.table(table)?)?,
        };
        for change in changes {
            let change = change?;
            if is_state && change.key == MARK {
                continue;
            }
            size += EACH + change.key.len() + change.after.as_ref().map_or(0, Vec::len);
            bring_back(&mut batch, table, &change)?;
            if size >= batch_size {
                if is_early {
                    batch.table(tables[3])?.delete(MARK)?;
                }
                let commit = batch.commit()?;
                kv.settle(commit)?;
                (batch, size) = (kv.batch(), 0);
            }
        }
    }
    batch.table(tables[3])?.delete(MARK)?;
    let commit = batch.commit()?;
    kv.settle(commit)
}

/// A change of a table; `None`: of the main one.
fn bring_back(batch: &mut Batch<'_>, table: Option<&KvTable>, change: &Change) -> Result<()> {
    match (table, &change.after) {
        (None, Some(value)) => batch.put(&change.key, value)?,
        (None, None) => batch.delete(&change.key)?,
        (Some(table), Some(value)) => batch.table(table)?.put(&change.key, value)?,
        (Some(table), None) => batch.table(table)?.delete(&change.key)?,
    };
    Ok(())
}

/// Takes the import under way back, whose batch was given up and whose commits are settled.
pub(crate) fn take_back(tables: &Tables, batch_size: usize) -> Result<()> {
    let four = [&tables.keys, &tables.elements, &tables.deadlines, &tables.state];
    recover_by(&tables.kv, four, false, batch_size)
}

impl Keyspace<'_> {
    /// The number of keys of all databases, expired ones that are still there too.
    pub(crate) fn len_of_all(&mut self) -> Result<u64> {
        let (mine, mut sum) = (self.database, 0);
        for database in 0..DATABASES as u8 {
            self.select(database);
            sum += self.len()?;
        }
        self.select(mine);
        Ok(sum)
    }

    /// Begins an import: no batch is open. All further batches belong to it until `end_import`.
    pub(crate) fn begin_import(&mut self) -> Result<Begun> {
        self.commit()?; // a batch that only reads
        // Read before the keys are counted: a commit of others since then would be taken back.
        let mut follows = self.kv.newest_version()?;
        let count = self.len_of_all()? + self.libraries()?.len() as u64;
        self.commit()?; // a batch that only reads
        let mark = match count {
            0 => EMPTIES,
            _ => {
                let (named, commit) = name_reserved_version(self.kv, VERSION)?;
                if named != follows {
                    return Ok(Begun::Disturbed);
                }
                follows = commit;
                RESTORES
            }
        };
        if !seeded("server-import-unmarked") {
            self.put_value(Place::State, MARK, mark)?;
            if self.follows().is_some_and(|found| found != follows) {
                self.abandon();
                return Ok(Begun::Disturbed);
            }
        }
        // With the keys of the import, those of a replica are at no position of its primary.
        self.forget_origin()?;
        self.settle_batch()?;
        Ok(Begun::Alone)
    }

    /// Ends an import: everything of it is settled on return, and stays.
    pub(crate) fn end_import(&mut self) -> Result<()> {
        if seeded("server-import-name-early") {
            self.commit()?;
            let _ = forget_version(self.kv);
        }
        self.remove_value(Place::State, MARK)?;
        self.settle_batch()?;
        // The import stands from here on: a name that stays goes with the next opening.
        let _ = forget_version(self.kv);
        Ok(())
    }

    /// The version that the open batch follows.
    pub(crate) fn follows(&self) -> Option<Version> {
        self.batch.as_ref().map(Batch::follows)
    }

    /// The tables went back to what they were before the import.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.commit = None;
        self.remembered.forget_all();
        self.functions_changed();
        self.remembered.spaces = self.tables.state.get(SPACES).and_then(Spaces::parse)?;
        self.select(self.database);
        Ok(())
    }

    /// Commits what was written since the last time, and settles it; the iteration goes on.
    pub(crate) fn settle_batch(&mut self) -> Result<()> {
        self.commit()?;
        self.committed().map_or(Ok(()), |commit| self.kv.settle(commit))
    }

    /// Gives up what was written since the last commit.
    pub(crate) fn abandon(&mut self) {
        (self.batch, self.written) = (None, false);
        self.remembered.forget();
    }

    /// The iteration goes on at a later time.
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Whether keys stay whose deadlines have passed: another server decides when they go.
    pub(crate) fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }
}
