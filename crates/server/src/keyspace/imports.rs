//! The mark of an import that has not finished.
//!
//! An import commits many batches. Before its first key it writes `import` to the table of state,
//! and its last batch removes that, so an opening which finds the mark takes the import back: with
//! the value 1 the tables were empty before, and are emptied; with 2 they go back to the version
//! `server/import`, which the import named first.
//!
//! Steps of an import into tables with keys
//!   1. the version is named, and settled
//!   2. the first batch writes the mark, and removes the origin of a replica's keys
//!   3. batches of keys
//!   4. the last batch removes the mark
//!   5. the name is removed
//!
//! A crash between 1 and 2 or between 4 and 5 leaves a name without a mark, which the next opening
//! removes.
//!
//! Invariants
//!   IMPORT-1  No settled version has a key of an unfinished import and no mark.
//!   IMPORT-2  Opening the tables leaves neither mark nor name behind.
//!
//! Design: docs/design/server-imports.md

use super::reads::Place;
use super::record::damaged_by;
use super::tables::{DATABASES, SPACES};
use super::{Keyspace, Tables};
use everbyte_kv::{Error, Kv, KvTable, Result};
use everbyte_media::seeded;
use std::ops::Bound;

/// The name of the mark in the table of state.
pub(super) const MARK: &[u8] = b"import";
/// The version to which an unfinished import goes back.
const VERSION: &str = "server/import";
/// The mark of an import into empty tables.
const EMPTIES: &[u8] = &[1];
/// The mark of an import into tables with keys.
const RESTORES: &[u8] = &[2];

/// Takes an unfinished import back, if there is one. Tables: keys, elements, deadlines, state.
pub(super) fn recover(kv: &Kv, tables: [&KvTable; 4]) -> Result<()> {
    let [keys, elements, deadlines, state] = tables;
    let mark = state.get(MARK)?;
    let all: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
    match mark.as_deref() {
        None => {}
        Some(EMPTIES) => {
            let mut batch = kv.batch();
            batch.clear()?;
            for table in [keys, elements, deadlines] {
                batch.table(table)?.delete_range::<[u8]>(all)?;
            }
            batch.table(state)?.delete(SPACES)?;
            batch.table(state)?.delete(MARK)?;
            let commit = batch.commit()?;
            kv.settle(commit)?;
        }
        Some(RESTORES) => kv.restore_version(VERSION)?,
        Some(_) => return Err(damaged_by("the mark of an import in the table of state is malformed")),
    }
    match kv.remove_version(VERSION) {
        Ok(()) | Err(Error::NoVersion { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes the import under way back, whose batch was given up.
pub(crate) fn take_back(tables: &Tables) -> Result<()> {
    recover(&tables.kv, [&tables.keys, &tables.elements, &tables.deadlines, &tables.state])
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
    pub(crate) fn begin_import(&mut self) -> Result<()> {
        let count = self.len_of_all()?;
        self.commit()?; // a batch that only reads
        let mark = match count {
            0 => EMPTIES,
            _ => {
                self.kv.name_version(VERSION)?;
                RESTORES
            }
        };
        if !seeded("server-import-unmarked") {
            self.put_value(Place::State, MARK, mark)?;
        }
        // With the keys of the import, those of a replica are at no position of its primary.
        self.forget_origin()?;
        self.settle_batch()
    }

    /// Ends an import: everything of it is settled on return, and stays.
    pub(crate) fn end_import(&mut self) -> Result<()> {
        if seeded("server-import-name-early") {
            self.commit()?;
            let _ = self.kv.remove_version(VERSION);
        }
        self.remove_value(Place::State, MARK)?;
        self.settle_batch()?;
        match self.kv.remove_version(VERSION) {
            Ok(()) | Err(Error::NoVersion { .. }) => Ok(()),
            Err(error) => Err(error),
        }
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
