//! A settled version of a key-value store, held for reading.

use crate::catalogue::{self, OpenTable};
use crate::range::{self, Bounds};
use crate::reads::reads;
use crate::tree::{TableNumber, TreeSnapshot, Version};
use crate::{Error, Result, TableSnapshot};
use std::ops::RangeBounds;
use std::sync::Arc;

/// A settled version: it stays as it is, whatever is written meanwhile, and its space is kept until
/// it is dropped.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) tree: TreeSnapshot,
}

impl Snapshot {
    reads!(", at this version.");

    #[inline]
    fn tree(&self) -> &TreeSnapshot {
        &self.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(TableNumber::MAIN)
    }

    /// The entries of a range, in key order; `rev()` walks from the end. The range keeps the
    /// version by itself.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> range::Range<'static> {
        range::Range::new(self.tree.cursor(), Bounds::of(TableNumber::MAIN, &range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: &[u8]) -> range::Range<'static> {
        range::Range::new(self.tree.cursor(), Bounds::prefix(TableNumber::MAIN, prefix))
    }

    /// The table `name` at this version, for reading.
    ///
    /// # Errors
    /// This version has none of that name; damage.
    pub fn open_table(&self, name: &str) -> Result<TableSnapshot> {
        let record = match name {
            "" => None, // no table's name
            name => self.tree.get(TableNumber::CATALOGUE, name.as_bytes())?,
        };
        let no_table = || Error::NoTable { object: self.tree.object_name(), name: name.into() };
        let record = record.as_deref().map(catalogue::parse).transpose()?.ok_or_else(no_table)?;
        let open = Arc::new(OpenTable::live(&record, self.version()));
        Ok(TableSnapshot { tree: self.tree.clone(), open })
    }

    /// The names of the tables, in the order of their bytes.
    ///
    /// # Errors
    /// Damage.
    pub fn tables(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut entries = range::Range::new(self.tree.cursor(), Bounds::prefix(TableNumber::CATALOGUE, b""));
        while let Some((name, _)) = entries.next_ref()? {
            match std::str::from_utf8(name) {
                Ok("") => {}
                Ok(name) => names.push(name.to_string()),
                Err(_) => return crate::error::damaged(0, "a name in the catalogue of tables is not UTF-8"),
            }
        }
        Ok(names)
    }

    /// How many keys there are; counted, not scanned.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version's number: it grows with every committed batch.
    pub fn version(&self) -> Version {
        self.tree.version()
    }

    /// Whether no newer version is settled: a few loads, and nothing that threads share is written.
    pub fn is_newest(&self) -> bool {
        self.tree.is_newest()
    }
}
