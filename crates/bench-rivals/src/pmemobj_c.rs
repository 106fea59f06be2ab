//! The part of libpmemobj's work that is written in C: `c/rows.c`, `c/table.c`, `c/workloads.c`.

use crate::Pmemobj;
use crate::work::{Row, Structure, WORD, WorkKind};
use std::ffi::{c_int, c_void};
use std::time::Duration;

unsafe extern "C" {
    fn rival_row(pool: *mut c_void, row: c_int, size: u64, count: u64) -> u64;
    fn rival_run(pool: *mut c_void, structure: c_int, what: c_int, random: *mut u64, keys: u64, count: u64) -> u64;
    fn rival_tables(pool: *mut c_void, buckets: u64, shards: u64, words: u64);
    fn rival_count_words(pool: *mut c_void, words: *const u8, hashes: *const u64, count: u64);
    fn rival_words_sum(pool: *mut c_void) -> u64;
    fn rival_table(pool: *mut c_void, buckets: u64, len: usize) -> *mut c_void;
    fn rival_table_drop(table: *mut c_void);
    fn rival_table_put(table: *mut c_void, key: u64, value: *const u8);
}

/// A hash table of libpmemobj's, in its pool.
pub struct PmemobjTable {
    table: *mut c_void,
    len: usize,
    /// Open as long as the table is used.
    _pool: Pmemobj,
}

// SAFETY: puts of any threads take the lock of their bucket.
unsafe impl Send for PmemobjTable {}
// SAFETY: as above.
unsafe impl Sync for PmemobjTable {}

impl PmemobjTable {
    /// An empty table for values of `len` bytes; it takes the pool.
    pub fn new(pool: Pmemobj, buckets: u64, len: usize) -> PmemobjTable {
        // SAFETY: an open pool, which the table keeps.
        let table = unsafe { rival_table(pool.pool, buckets, len) };
        PmemobjTable { table, len, _pool: pool }
    }

    /// Stores a value, of the length that all have, under a key.
    pub fn put(&self, key: u64, value: &[u8]) {
        assert_eq!(value.len(), self.len, "values of one length");
        // SAFETY: an open table, and a value of its length, which the call copies.
        unsafe { rival_table_put(self.table, key, value.as_ptr()) }
    }
}

impl Drop for PmemobjTable {
    fn drop(&mut self) {
        // SAFETY: made in `new`, dropped once.
        unsafe { rival_table_drop(self.table) }
    }
}

impl Pmemobj {
    /// How long `count` operations on objects of `size` bytes, 8 at least, take.
    pub fn row(&self, row: Row, size: u64, count: u64) -> Duration {
        assert!(size >= 8, "objects have room for a word");
        // SAFETY: an open pool; no other thread runs a transaction on it.
        Duration::from_nanos(unsafe { rival_row(self.pool, row as c_int, size, count) })
    }

    /// Makes empty tables: the hash table of [`Structure::KvStore`], and that of the word count.
    /// Once, before they are used; the pool must not have been used for [`Pmemobj::update`].
    pub fn tables(&self, buckets: u64, shards: u64, words: u64) {
        // SAFETY: an open pool, whose root object has room and is all zeros.
        unsafe { rival_tables(self.pool, buckets, shards, words) }
    }

    /// Runs operations on one of `keys` keys each; answers a sum of what they found. `random` is
    /// the state of SplitMix64.
    pub fn run(&self, structure: Structure, kind: WorkKind, random: &mut u64, keys: u64, count: u64) -> u64 {
        // SAFETY: an open pool with tables; no other thread runs a transaction on it.
        unsafe { rival_run(self.pool, structure as c_int, kind as c_int, random, keys, count) }
    }

    /// Counts words; threads may do it at once. `hashes` are the words'.
    pub fn count_words(&self, words: &[[u8; WORD]], hashes: &[u64]) {
        assert_eq!(words.len(), hashes.len(), "a hash for each word");
        // SAFETY: an open pool with tables; as many words and hashes as it says.
        unsafe { rival_count_words(self.pool, words.as_ptr().cast(), hashes.as_ptr(), words.len() as u64) }
    }

    /// A sum over all words and their counts.
    pub fn words_sum(&self) -> u64 {
        // SAFETY: an open pool with tables; no thread counts at the moment.
        unsafe { rival_words_sum(self.pool) }
    }
}
