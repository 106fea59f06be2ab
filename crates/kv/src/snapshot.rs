//! A settled version of a key-value store, held for reading.

use crate::Result;
use crate::range::{self, Bounds};
use std::ops::{Range, RangeBounds};

/// A settled version: it stays as it is, whatever is written meanwhile, and its space is kept until it is dropped.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) tree: everbyte_cdds::Snapshot,
}

impl Snapshot {
    /// The value of `key` at this version. Takes no lock.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.tree.get(key)?)
    }

    /// The length of the value of `key`, without the value, at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.tree.len_of(key)?)
    }

    /// Whether `key` is there, without its value, at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.tree.len_of(key)?.is_some())
    }

    /// The part of the value of `key` that `choose` names when it is told the length; what lies behind the end is left
    /// out. Its cost is that of the part, and of 4 bytes for each 64 KiB of the value, at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn part_of(&self, key: &[u8], mut choose: impl FnMut(u64) -> Range<u64>) -> Result<Option<Vec<u8>>> {
        Ok(self.tree.part_of(key, &mut choose)?)
    }

    /// The entries of a range, in key order; `rev()` walks from the end. The range keeps the version by itself.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> range::Range<'static> {
        range::Range::new(self.tree.cursor(), Bounds::of(&range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    pub fn prefix(&self, prefix: &[u8]) -> range::Range<'static> {
        range::Range::new(self.tree.cursor(), Bounds::prefix(prefix))
    }

    /// How many keys there are; counted, not scanned.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// The version's number: it grows with every committed batch.
    pub fn version(&self) -> u64 {
        self.tree.version()
    }
}
