//! Reads of one settled version that is held, whatever has been written since.

use super::reads::Settled;
use super::{Keyspace, Tables};
use everbyte_kv::{Result, Snapshot};

impl<'k> Keyspace<'k> {
    /// The keys of a database as of a version; one whose deadline has passed by `now` is absent.
    /// Nothing is written through it.
    pub(crate) fn at(tables: &'k Tables, version: Snapshot, database: u8, now: u64) -> Result<Keyspace<'k>> {
        let mut keys = Keyspace::new(tables, Box::default(), now, false, true);
        keys.settled = Some(Settled::new(version));
        keys.database = database;
        keys.read_spaces()?;
        Ok(keys)
    }

    /// The version of this name, held for reading.
    pub(crate) fn open_version(&self, name: &str) -> Result<Snapshot> {
        match &self.batch {
            Some(batch) => batch.open_version(name),
            None => self.kv.open_version(name),
        }
    }
}
