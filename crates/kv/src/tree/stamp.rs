//! The version that made the entry of a key: two reads of a key saw the same entry if and only if
//! they saw the same one.

use crate::error::Result;
use crate::tree::handle::{Commit, OpenTree};
use crate::tree::node::Query;
use crate::tree::version::View;
use crate::tree::{TableNumber, TreeBatch, TreeSnapshot, Version};

impl OpenTree {
    fn start_of(&self, view: &View, root: u64, table: TableNumber, key: &[u8]) -> Result<Option<Version>> {
        let (leaf, found) = self.find(view, root, &Query::new(table, key))?;
        leaf.require_readable()?;
        Ok(found.map(|(_, slot)| slot.start))
    }
}

impl TreeSnapshot {
    /// The version that made the entry of `key`; `None`: this version does not see one.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn start_of(&self, table: TableNumber, key: &[u8]) -> Result<Option<Version>> {
        let start = self.0.shared.start_of(&self.0.view, self.0.seen.root, table, key);
        self.require_kept()?;
        start
    }
}

impl TreeSnapshot {
    /// This version as a commit: settled already.
    pub(crate) fn commit(&self) -> Commit {
        self.0.shared.commit_of(self.version())
    }
}

impl TreeBatch<'_> {
    /// As [`TreeSnapshot::start_of`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn start_of(&self, table: TableNumber, key: &[u8]) -> Result<Option<Version>> {
        self.shared.start_of(&self.view, self.root, table, key)
    }
}

impl Commit {
    /// The version that the commit made; that of the commit before, if its batch wrote nothing.
    pub fn version(&self) -> Version {
        self.version.value
    }
}
