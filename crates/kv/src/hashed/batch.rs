//! [`HashBatch`]: one version in the making.
//!
//! A put stores its entry to a new block and notes the words that will lead there; nothing that a
//! reader could see changes before the commit (HASH-1). So a batch that is given up leaves nothing
//! to take back but its reservations.

use crate::error::{Error, Result};
use crate::hashed::chain::{Chains, Changes, Entry};
use crate::hashed::layout::*;
use crate::hashed::shape::Shape;
use crate::hashed::table::{Grave, OpenHash, Writer};
use crate::tree::{KEY_MAX, VALUE_MAX, Version, thread};
use everbyte_heap::{Block, Op};
use everbyte_media::lock_order::RankedMutexGuard;
use everbyte_media::{Section, seeded};
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromZeros, IntoBytes};

/// Changes of a [`HashTable`](crate::HashTable) that happen together or not at all. Its own reads
/// see them; no other reader does before the commit.
///
/// Dropping a batch gives it up: nothing happened.
pub struct HashBatch<'t> {
    pub(crate) shared: &'t OpenHash,
    pub(crate) writer: RankedMutexGuard<'t, Writer>,
    /// Open while there are stores that are not flushed.
    pub(crate) section: Option<Section<'t>>,
    pub(crate) version: Version,
    pub(crate) shape: Shape,
    pub(crate) keys: u64,
    /// The stores of the ledger.
    pub(crate) changes: Changes,
    /// Blocks reserved by this batch.
    pub(crate) allocated: Vec<Block>,
    pub(crate) frees: Vec<Op>,
    /// Entries that this version ends.
    pub(crate) graves: Vec<Grave>,
    /// Graves taken for this version, and the sweep as it was before.
    pub(crate) reclaimed: Vec<Grave>,
    pub(crate) swept_from: Option<u64>,
    /// Commits though nothing was written, to give space back.
    pub(crate) reclaims: bool,
    pub(crate) is_done: bool,
}

impl<'t> HashBatch<'t> {
    pub(crate) fn begin(shared: &'t OpenHash) -> Result<HashBatch<'t>> {
        let mut writer = shared.writer.lock();
        if writer.unsettled.is_some() {
            shared.media.barrier()?; // a poisoned store says so
        }
        let thread = thread::current();
        let section = shared.media.section();
        if let Some(committed) = writer.unsettled.take() {
            shared.apply(&mut writer, committed);
        }
        if writer.applied_by != thread && !seeded("hashed-another-threads-ledger") {
            writer.applied.iter().for_each(|&at| shared.media.flush(at, 8));
            shared.heap.flush(&writer.unfinished);
        }
        let (shape, newest, keys) = {
            let seen = shared.seen.read();
            (seen.shape.clone(), seen.version, seen.keys)
        };
        let version = newest.next();
        if version >= SUMMED_END {
            return Err(Error::VersionsExhausted);
        }
        shared.holder.store(thread, Relaxed);
        Ok(HashBatch {
            swept_from: writer.sweep,
            shared,
            writer,
            section: Some(section),
            version,
            shape,
            keys,
            changes: Changes::new(),
            allocated: Vec::new(),
            frees: Vec::new(),
            graves: Vec::new(),
            reclaimed: Vec::new(),
            reclaims: false,
            is_done: false,
        })
    }

    /// The chains as this batch sees them.
    pub(crate) fn chains(&self) -> Chains<'_> {
        Chains { table: self.shared, shape: &self.shape, changes: Some(&self.changes) }
    }

    /// Notes that the summed word at `at` will hold `number`.
    pub(crate) fn set(&mut self, at: u64, number: u64) {
        self.changes.insert(at, SummedWord::of(number).0);
    }

    fn find(&self, hash: u64, key: &[u8]) -> Result<Option<Entry>> {
        self.chains().find(self.version, hash, key)
    }

    /// The value of `key`, this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(&self.shape, Some(&self.changes), self.version, key)
    }

    /// The number of keys, this batch's writes included.
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Binds `value` to `key`.
    ///
    /// # Errors
    /// Out of space, limits, damage: the batch is as it was.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > KEY_MAX {
            return Err(Error::KeyTooLong { len: key.len(), max: KEY_MAX });
        }
        if value.len() as u64 > VALUE_MAX {
            return Err(Error::ValueTooLong { len: value.len() as u64, max: VALUE_MAX });
        }
        let hash = self.shared.hash(key);
        let old = self.find(hash, key)?;
        let head_at = self.shape.head_at(self.shape.bucket_of(hash));
        let first = self.chains().number(head_at)?;
        let at = self.store_entry(hash, key, value, first)?;
        self.set(head_at, at);
        match old {
            Some(old) => self.end(&old),
            None => {
                self.keys += 1;
                self.grow();
            }
        }
        Ok(())
    }

    /// Removes `key`; returns whether it existed.
    ///
    /// # Errors
    /// Damage: the batch is as it was.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let found = self.find(self.shared.hash(key), key)?;
        if let Some(entry) = &found {
            self.end(entry);
            self.keys -= 1;
        }
        Ok(found.is_some())
    }

    /// Ends an entry with this version.
    fn end(&mut self, entry: &Entry) {
        self.set(entry.at + END_AT, self.version.get());
        self.graves.push(Grave { end: self.version, hash: entry.head.hash });
    }

    /// Stores an entry to a new block, which nothing leads to yet.
    fn store_entry(&mut self, hash: u64, key: &[u8], value: &[u8], next: u64) -> Result<u64> {
        let mut head = EntryHead {
            next: SummedWord::of(next).0,
            end: SummedWord::of(0).0,
            start: self.version,
            hash,
            value_len: value.len() as u64,
            key_len: key.len() as u32,
            ..EntryHead::new_zeroed()
        };
        let sum = head.summed();
        (head.head_sum, head.sum) = (sum.value(), sum.and(key).and(value).value());
        let block = self.shared.heap.reserve(head.size())?;
        let at = block.at.get();
        self.allocated.push(block);
        let value_at = key.len().next_multiple_of(8);
        // Long values are not copied once more.
        let is_short = value.len() <= 4096;
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend_from_slice(key);
        bytes.resize(ENTRY_HEAD as usize + value_at, 0);
        if is_short {
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let media = &self.shared.media;
        media.copy_nt_unless("hashed-entry-unflushed", at, &bytes);
        if !is_short {
            let (whole, rest) = value.split_at(value.len() & !7);
            let value_at = at + bytes.len() as u64;
            media.copy_nt(value_at, whole);
            if !rest.is_empty() {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                media.copy_nt(value_at + whole.len() as u64, &last);
            }
        }
        Ok(at)
    }
}

impl Drop for HashBatch<'_> {
    /// Gives the batch up, unless it is committed.
    fn drop(&mut self) {
        self.shared.holder.store(thread::NONE, Relaxed);
        if self.is_done {
            return;
        }
        self.allocated.drain(..).for_each(|block| self.shared.heap.cancel(block));
        self.shared.heap.abandon(&self.frees);
        // In the order in which they were taken, in front of those that follow.
        while let Some(grave) = self.reclaimed.pop() {
            self.writer.graves.push_front(grave);
        }
        self.writer.sweep = self.swept_from;
    }
}
