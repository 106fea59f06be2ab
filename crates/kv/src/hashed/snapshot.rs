//! [`HashSnapshot`]: one version of a table, which stays as it is; and a walk over its entries.

use crate::error::Result;
use crate::hashed::chain::Chains;
use crate::hashed::shape::descendants;
use crate::hashed::table::OpenHash;
use crate::tree::Version;
use std::sync::Arc;

/// A version of a [`HashTable`](crate::HashTable), held for reading: it stays as it is, whatever is
/// written meanwhile. Entries that it sees keep their space until it is dropped.
pub struct HashSnapshot {
    shared: Arc<OpenHash>,
    version: Version,
    keys: u64,
}

impl HashSnapshot {
    pub(crate) fn new(shared: &Arc<OpenHash>) -> HashSnapshot {
        // Under the lock of the pins: the writer sees the pin, or this thread sees a version that
        // is no older than the writer's horizon (HASH-3).
        let mut pins = shared.pins.lock();
        let seen = shared.seen.read();
        *pins.entry(seen.version.get()).or_default() += 1;
        HashSnapshot { shared: Arc::clone(shared), version: seen.version, keys: seen.keys }
    }

    /// The value of `key`, at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let seen = self.shared.seen.read();
        self.shared.get(&seen.shape, None, self.version, key)
    }

    /// The number of keys.
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Every entry once, in no order that means anything.
    pub fn entries(&self) -> HashEntries<'_> {
        let buckets = self.shared.seen.read().shape.buckets;
        HashEntries { snapshot: self, buckets, bucket: 0, read: Vec::new() }
    }
}

impl Drop for HashSnapshot {
    fn drop(&mut self) {
        let mut pins = self.shared.pins.lock();
        let version = self.version.get();
        match pins.get_mut(&version) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(pins.remove(&version)),
        }
    }
}

/// The entries of a [`HashSnapshot`].
pub struct HashEntries<'s> {
    snapshot: &'s HashSnapshot,
    /// The buckets when the walk began. The entries that one of them had then lie in it and in
    /// those that were split off it since.
    buckets: u64,
    /// The next one.
    bucket: u64,
    /// Entries that were read with others of their bucket.
    read: Vec<(Vec<u8>, Vec<u8>)>,
}

impl HashEntries<'_> {
    fn read_next(&mut self) -> Result<()> {
        let shared = &*self.snapshot.shared;
        let seen = shared.seen.read();
        let chains = Chains { table: shared, shape: &seen.shape, changes: None };
        let bucket = self.bucket;
        self.bucket += 1;
        for bucket in descendants(bucket, self.buckets, seen.shape.buckets) {
            let mut chain = chains.bucket(bucket)?;
            while let Some(entry) = chain.next()? {
                if entry.is_seen_by(self.snapshot.version) {
                    self.read.push(shared.read(&entry)?);
                }
            }
        }
        Ok(())
    }
}

impl Iterator for HashEntries<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    /// After damage the walk goes on with the next bucket.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.read.pop() {
                return Some(Ok(entry));
            }
            if self.bucket == self.buckets {
                return None;
            }
            if let Err(error) = self.read_next() {
                return Some(Err(error));
            }
        }
    }
}
