//! A settled version of a key-value store, held for reading.

use crate::Result;
use crate::range::{self, Bounds};
use crate::reads::reads;
use crate::tree::{TableNumber, TreeSnapshot, Version};
use std::ops::RangeBounds;

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
