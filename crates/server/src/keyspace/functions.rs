//! The libraries of functions: entries of the table of state, `function ` and the library's name,
//! with the library's code as it was given.
//!
//! They are written through the iteration's batch, so that a crash leaves a FUNCTION command done
//! or not, with all else of its iteration. The interpreter keeps them compiled, and remembers the
//! number of changes ([`Keyspace::functions_version`]) at which it did: a batch that is lost with a
//! change counts as one.
//!
//! While a change is not settled, commands that read functions build on the batch (ITER-1).

use super::Keyspace;
use super::reads::Place;
use everbyte_kv::Result;
use everbyte_media::seeded;
use std::ops::Bound;

/// The begin of an entry's key.
pub(super) const PREFIX: &[u8] = b"function ";

fn entry(name: &[u8]) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// Changes of functions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FunctionChanges {
    /// Changes since the start, and batches that were lost with one.
    version: u64,
    /// Whether one may be unsettled.
    unsettled: bool,
}

impl FunctionChanges {
    /// An iteration begins; `behind`: commits of earlier ones are not settled.
    pub(super) fn begin(&mut self, behind: bool) {
        self.unsettled &= behind;
    }

    /// The batch was lost.
    pub(super) fn forget(&mut self) {
        if self.unsettled && !seeded("server-functions-kept") {
            self.version += 1;
        }
    }
}

impl Keyspace<'_> {
    /// The number of the functions' last change.
    pub(crate) fn functions_version(&self) -> u64 {
        self.remembered.functions.version
    }

    /// The command under way tells of functions, whose last change may not be settled.
    pub(crate) fn read_functions(&mut self) {
        if self.remembered.functions.unsettled && !seeded("server-functions-unsettled") {
            self.read_newest();
        }
    }

    pub(super) fn functions_changed(&mut self) {
        let changes = &mut self.remembered.functions;
        (changes.version, changes.unsettled) = (changes.version + 1, true);
    }

    /// All libraries: names and code.
    pub(crate) fn libraries(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let end = super::after_prefix(PREFIX);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut range = self.entries(Place::State, Bound::Included(PREFIX), end)?;
        let mut list = Vec::new();
        while let Some(entry) = range.next_entry()? {
            let (key, code) = entry.read()?;
            list.push((key.get(PREFIX.len()..).unwrap_or_default().to_vec(), code.to_vec()));
        }
        Ok(list)
    }

    /// Keeps a library.
    pub(crate) fn put_library(&mut self, name: &[u8], code: &[u8]) -> Result<()> {
        self.functions_changed();
        if seeded("server-functions-volatile") {
            return Ok(());
        }
        self.put_value(Place::State, &entry(name), code).map(drop)
    }

    /// Removes a library.
    pub(crate) fn remove_library(&mut self, name: &[u8]) -> Result<()> {
        self.functions_changed();
        self.remove_value(Place::State, &entry(name)).map(drop)
    }
}
