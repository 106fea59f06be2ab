//! A cache that restarts warm: items in HEAPO's hash store, and in memory who was used when.
//!
//! The store holds the items; the order of use is made anew from the stamps of the items when the
//! cache is opened, and reads since the last stamp are forgotten. Each change is whole, so a killed
//! cache finds every item as it was set, or absent.

pub mod protocol;

use everbyte::hkv::{Error, Hash};
use everbyte::{Store, store};
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest value.
pub const VALUE_MAX: usize = 1 << 20;
/// Bytes that an item is counted as beside its key and value.
const ITEM: u64 = 64;
/// Flags, expiry and stamp, before the value.
const HEAD: usize = 20;

/// A cache, for one thread at a time.
pub struct Cache {
    pairs: Hash,
    limit: u64,
    bytes: u64,
    items: HashMap<Vec<u8>, Item>,
    /// Keys by their last use.
    turns: BTreeMap<u64, Vec<u8>>,
    next_turn: u64,
    /// Counts of hits, misses, sets and evictions.
    pub counts: Counts,
}

/// Work of a cache since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Found.
    pub hits: u64,
    /// Not found, or expired.
    pub misses: u64,
    /// Set.
    pub sets: u64,
    /// Evicted to free space.
    pub evictions: u64,
}

/// The place of an item.
struct Item {
    turn: u64,
    bytes: u64,
}

/// A value with what its client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The client's own.
    pub flags: u32,
    /// Seconds since 1970 at which it is gone; 0: never.
    pub expires: u64,
    /// Bytes.
    pub data: Vec<u8>,
}

/// The time, in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Value {
    fn is_gone(&self) -> bool {
        self.expires != 0 && self.expires <= now()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (flags, expires) = (self.flags.to_le_bytes(), self.expires.to_le_bytes());
        [&flags[..], &expires, &now().to_le_bytes(), &self.data].concat()
    }

    /// The value, and when it was stored.
    fn from_bytes(bytes: &[u8]) -> Option<(Value, u64)> {
        let (head, data) = bytes.split_at_checked(HEAD)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let flags = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        Some((Value { flags, expires: word(4), data: data.to_vec() }, word(12)))
    }
}

fn size(key: &[u8], value_len: usize) -> u64 {
    key.len() as u64 + value_len as u64 + ITEM
}

impl Cache {
    /// Opens the cache in a store, or makes one, that keeps so many bytes.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn open(store: &Store, limit: u64) -> Result<Cache, Error> {
        let pairs = match store.object("cache") {
            Ok(object) => Hash::open(object)?,
            Err(store::Error::NotFound { .. }) => {
                let span = limit.saturating_mul(2).max(4 << 20).checked_next_power_of_two();
                Hash::create(store, "cache", span)?
            }
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        pairs.scan(|key, value| {
            found.extend(Value::from_bytes(value).map(|(value, stamp)| (stamp, key.to_vec(), value.data.len())));
            true
        })?;
        found.sort_unstable();
        let counts = Counts::default();
        let (items, turns) = (HashMap::with_capacity(found.len()), BTreeMap::new());
        let mut cache = Cache { pairs, limit, bytes: 0, items, turns, next_turn: 0, counts };
        for (_, key, len) in found {
            cache.used(&key, size(&key, len));
        }
        Ok(cache)
    }

    /// Records a use of a key of so many bytes.
    fn used(&mut self, key: &[u8], bytes: u64) {
        self.forget(key);
        self.items.insert(key.to_vec(), Item { turn: self.next_turn, bytes });
        self.turns.insert(self.next_turn, key.to_vec());
        self.next_turn += 1;
        self.bytes += bytes;
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(item) = self.items.remove(key) {
            self.turns.remove(&item.turn);
            self.bytes -= item.bytes;
        }
    }

    /// The value of a key, which is used by this.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        let value = self.peek(key)?;
        match &value {
            Some(value) => {
                self.used(key, size(key, value.data.len()));
                self.counts.hits += 1;
            }
            None => self.counts.misses += 1,
        }
        Ok(value)
    }

    fn peek(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        let value = self.pairs.get(key)?.and_then(|bytes| Some(Value::from_bytes(&bytes)?.0));
        if value.as_ref().is_some_and(Value::is_gone) {
            self.delete(key)?;
            return Ok(None);
        }
        Ok(value)
    }

    /// Stores a value, and evicts the least recently used items if there is no space; `false` if it
    /// is larger than the cache.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn set(&mut self, key: &[u8], value: &Value) -> Result<bool, Error> {
        let bytes = size(key, value.data.len());
        if bytes > self.limit {
            self.delete(key)?;
            return Ok(false);
        }
        let old = self.items.get(key).map_or(0, |item| item.bytes);
        while self.bytes - old + bytes > self.limit && self.evict(key)? {}
        let stored = value.to_bytes();
        while let Err(error) = self.put(key, &stored) {
            if !error.is_full() {
                return Err(error);
            }
            if !self.evict(key)? {
                return Ok(false);
            }
        }
        self.used(key, bytes);
        self.counts.sets += 1;
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        Ok(self.pairs.update(key, value)? || self.pairs.insert(key, value)?)
    }

    /// Takes out what was not used for longest, but for one key; `false` if there is nothing else.
    fn evict(&mut self, spared: &[u8]) -> Result<bool, Error> {
        let Some(oldest) = self.turns.values().find(|key| *key != spared).cloned() else { return Ok(false) };
        self.delete(&oldest)?;
        self.counts.evictions += 1;
        Ok(true)
    }

    /// Takes a key out; `false` if it was not there.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        let was_there = self.pairs.delete(key)?;
        self.forget(key);
        Ok(was_there)
    }

    /// Gives a value another expiry; `false` if it is not there.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn touch(&mut self, key: &[u8], expires: u64) -> Result<bool, Error> {
        match self.peek(key)? {
            Some(value) => self.set(key, &Value { expires, ..value }),
            None => Ok(false),
        }
    }

    /// How many items there are, and the bytes they count.
    pub fn size(&self) -> (usize, u64) {
        (self.items.len(), self.bytes)
    }

    /// How many bytes there may be.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}
