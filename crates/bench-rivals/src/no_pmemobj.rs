//! libpmemobj where it is not installed: there is none, and nothing can be asked of it.

use crate::Failure;
use crate::work::{Row, Structure, WORD, WorkKind};
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

/// A pool that cannot exist in this build.
pub struct Pmemobj(Infallible);

impl Pmemobj {
    /// There is none.
    ///
    /// # Errors
    /// Never.
    pub fn create(_path: &Path, _size: usize) -> Result<Option<Pmemobj>, Failure> {
        Ok(None)
    }

    /// Empty transactions.
    pub fn empty(&self, _count: u64) {
        match self.0 {}
    }

    /// Updates of ranges.
    pub fn update(&self, _count: u64, _line: usize, _ranges: usize, _len: usize) {
        match self.0 {}
    }

    /// Allocations and frees.
    pub fn alloc_free(&self, _count: u64, _size: usize) {
        match self.0 {}
    }

    /// Single operations.
    pub fn row(&self, _row: Row, _size: u64, _count: u64) -> Duration {
        match self.0 {}
    }

    /// Empty tables.
    pub fn tables(&self, _buckets: u64, _shards: u64, _words: u64) {
        match self.0 {}
    }

    /// Operations on a structure.
    pub fn run(&self, _structure: Structure, _kind: WorkKind, _random: &mut u64, _keys: u64, _count: u64) -> u64 {
        match self.0 {}
    }

    /// Counts words.
    pub fn count_words(&self, _words: &[[u8; WORD]], _hashes: &[u64]) {
        match self.0 {}
    }

    /// A sum of words and counts.
    pub fn words_sum(&self) -> u64 {
        match self.0 {}
    }
}

/// A hash table that cannot exist in this build.
pub struct PmemobjTable(Infallible);

impl PmemobjTable {
    /// There is none.
    pub fn new(pool: Pmemobj, _buckets: u64, _len: usize) -> PmemobjTable {
        match pool.0 {}
    }

    /// Puts.
    pub fn put(&self, _key: u64, _value: &[u8]) {
        match self.0 {}
    }
}
