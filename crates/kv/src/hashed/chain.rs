//! Chains of entries: the way from a bucket to a key.

use crate::error::{Result, damaged};
use crate::hashed::layout::*;
use crate::hashed::shape::Shape;
use crate::hashed::table::OpenHash;
use crate::tree::{Sum, Version};
use std::collections::BTreeMap;

/// Words that a version will store once it is real, by address.
pub(crate) type Changes = BTreeMap<u64, u64>;

/// An entry, of which the head has been verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub at: u64,
    pub head: EntryHead,
    /// The next entry of the chain; 0: none.
    pub next: u64,
    /// The first version that no longer sees it; 0: live.
    pub end: u64,
}

impl Entry {
    /// Whether `version` sees it.
    pub(crate) fn is_seen_by(&self, version: Version) -> bool {
        self.head.start <= version && (self.end == 0 || version < self.end)
    }

    /// Whether no version from `horizon` on sees it.
    pub(crate) fn is_dead_at(&self, horizon: u64) -> bool {
        self.end != 0 && self.end <= horizon
    }
}

/// A table's chains as one reader sees them: with the words that its version has changed.
#[derive(Clone, Copy)]
pub(crate) struct Chains<'c> {
    pub table: &'c OpenHash,
    pub shape: &'c Shape,
    pub changes: Option<&'c Changes>,
}

impl<'c> Chains<'c> {
    /// The number in the summed word at `at`.
    #[inline]
    pub(crate) fn number(&self, at: u64) -> Result<u64> {
        let changed = self.changes.and_then(|changes| changes.get(&at).copied());
        let word = changed.unwrap_or_else(|| self.table.media.load(at));
        match SummedWord(word).number() {
            Some(number) => Ok(number),
            None => self.table.unreadable(at, 8, "a word of a hash table fails its sum"),
        }
    }

    /// The entries of a bucket.
    pub(crate) fn bucket(self, bucket: u64) -> Result<Chain<'c>> {
        let link_at = self.shape.head_at(bucket);
        let left = self.table.media.len() / ENTRY_HEAD;
        Ok(Chain { chains: self, bucket, next: self.number(link_at)?, left })
    }

    /// The entry of `key` that `version` sees.
    #[inline]
    pub(crate) fn find(self, version: Version, hash: u64, key: &[u8]) -> Result<Option<Entry>> {
        let mut chain = self.bucket(self.shape.bucket_of(hash))?;
        while let Some(entry) = chain.next()? {
            let is_like = entry.head.hash == hash && entry.head.key_len as usize == key.len();
            if is_like && entry.is_seen_by(version) && self.table.has_key(&entry, key)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// The rest of a chain.
pub(crate) struct Chain<'c> {
    chains: Chains<'c>,
    bucket: u64,
    next: u64,
    /// Entries that the store has room for: a chain of more is a circle.
    left: u64,
}

impl Chain<'_> {
    /// The next entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        if self.next == 0 {
            return Ok(None);
        }
        let (table, at) = (self.chains.table, self.next);
        let head = table.head(at)?;
        if self.chains.shape.bucket_of(head.hash) != self.bucket {
            return table.unreadable(at, ENTRY_HEAD, "an entry is in the chain of another bucket");
        }
        let Some(left) = self.left.checked_sub(1) else { return damaged(at, "a chain of entries is a circle") };
        let (next, end) = (self.chains.number(at + NEXT_AT)?, self.chains.number(at + END_AT)?);
        (self.left, self.next) = (left, next);
        Ok(Some(Entry { at, head, next, end }))
    }
}

impl OpenHash {
    /// The hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        Sum::seeded(self.seed).and(key).wide()
    }

    /// The head of the entry at `at`, verified.
    #[inline]
    fn head(&self, at: u64) -> Result<EntryHead> {
        if !at.is_multiple_of(8) || !self.media.holds(at, ENTRY_HEAD) {
            return damaged(at, "a link of a hash table leads outside the store");
        }
        let head: EntryHead = self.media.get(at);
        let is_whole = everbyte_media::sums_agree(head.summed().value(), head.head_sum);
        if !is_whole || !self.media.holds(at, head.size()) {
            return self.unreadable(at, ENTRY_HEAD, "the head of an entry fails its sum");
        }
        Ok(head)
    }

    /// Whether `entry`, whose hash and length are those of `key`, has this key.
    #[inline]
    fn has_key(&self, entry: &Entry, key: &[u8]) -> Result<bool> {
        let Some(window) = self.media.window(entry.at, entry.head.size()) else {
            return self.unreadable(entry.at, ENTRY_HEAD, "an entry leads outside the store");
        };
        if window.compare(ENTRY_HEAD as usize, key.len(), key).is_eq() {
            return Ok(true);
        }
        // Another key with the same hash, which nearly never is, or damage.
        self.read(entry).map(|_| false)
    }

    /// The value of `entry`, which has this key; verified.
    #[inline]
    pub(crate) fn value(&self, entry: &Entry, key: &[u8]) -> Result<Vec<u8>> {
        let Some(window) = self.media.window(entry.at, entry.head.size()) else {
            return self.unreadable(entry.at, ENTRY_HEAD, "an entry leads outside the store");
        };
        let mut value = Vec::new();
        let value_at = ENTRY_HEAD as usize + key.len().next_multiple_of(8);
        window.append_to(value_at, entry.head.value_len as usize, &mut value);
        self.media.require_readable(entry.at, entry.head.size())?;
        if !everbyte_media::sums_agree(entry.head.summed().and(key).and(&value).value(), entry.head.sum) {
            return damaged(entry.at, "an entry fails its sum");
        }
        Ok(value)
    }

    /// Key and value of `entry`, verified.
    pub(crate) fn read(&self, entry: &Entry) -> Result<(Vec<u8>, Vec<u8>)> {
        let Some(window) = self.media.window(entry.at, entry.head.size()) else {
            return self.unreadable(entry.at, ENTRY_HEAD, "an entry leads outside the store");
        };
        let mut key = Vec::new();
        window.append_to(ENTRY_HEAD as usize, entry.head.key_len as usize, &mut key);
        let value = self.value(entry, &key)?;
        if self.hash(&key) != entry.head.hash {
            return damaged(entry.at, "an entry has the hash of another key");
        }
        Ok((key, value))
    }

    /// Damage at `at`, unless a page that cannot be read explains it.
    #[cold]
    pub(crate) fn unreadable<T>(&self, at: u64, len: u64, detail: &'static str) -> Result<T> {
        if self.media.holds(at, len) {
            self.media.require_readable(at, len)?;
        }
        damaged(at, detail)
    }
}
