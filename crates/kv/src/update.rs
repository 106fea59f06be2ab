//! Writes that depend on the value before: compare-and-set, counters, and any function.
//!
//! Each reads and writes under the writer's lock, as one batch: no other write comes between. A
//! write that turns out to change nothing stores nothing.
//!
//! Design: docs/design/updates.md

use crate::batch::Batch;
use crate::tree::TableNumber;
use crate::{BatchTable, Error, Kv, KvTable, Result};
use everbyte_media::seeded;

/// The outcome of a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the key may have another value than the expected one"]
pub enum Compared {
    /// The key had the expected value, and has the new one.
    Set,
    /// The key has this value instead; `None`: it is not there. Nothing changed.
    Differs(Option<Vec<u8>>),
}

impl Compared {
    /// Whether the new value was set.
    pub fn is_set(&self) -> bool {
        *self == Compared::Set
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for i64 {}
    impl Sealed for u64 {}
}

/// A number that a key can count in: `i64` or `u64`. Its value is 8 bytes, the lowest first.
pub trait Counter: sealed::Sealed + Copy + Default {
    /// The sum; `None`: it is out of range.
    fn plus(self, by: i64) -> Option<Self>;
    /// The value's bytes.
    fn to_bytes(self) -> [u8; 8];
    /// The number of these bytes.
    fn from_bytes(bytes: [u8; 8]) -> Self;
}

macro_rules! counter {
    ($number:ty, $add:ident) => {
        impl Counter for $number {
            fn plus(self, by: i64) -> Option<Self> {
                self.$add(by)
            }

            fn to_bytes(self) -> [u8; 8] {
                self.to_le_bytes()
            }

            fn from_bytes(bytes: [u8; 8]) -> Self {
                <$number>::from_le_bytes(bytes)
            }
        }
    };
}
counter!(i64, checked_add);
counter!(u64, checked_add_signed);

impl Batch<'_> {
    fn compare_and_set_in(
        &mut self,
        table: TableNumber,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        let found = self.tree().get(table, key)?;
        if found.as_deref() != expected && !seeded("kv-compare-nothing") {
            return Ok(Compared::Differs(found));
        }
        self.set_in(table, key, new)?;
        Ok(Compared::Set)
    }

    fn set_in(&mut self, table: TableNumber, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.tree_mut().put(table, key, value).map(drop),
            None => self.tree_mut().delete(table, key).map(drop),
        }
    }

    fn update_in(
        &mut self,
        table: TableNumber,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let before = self.tree().get(table, key)?;
        let after = change(before.as_deref());
        if after != before {
            self.set_in(table, key, after.as_deref())?;
        }
        Ok(before)
    }

    fn increment_in<N: Counter>(&mut self, table: TableNumber, name: &str, key: &[u8], by: i64) -> Result<N> {
        let place = || (name.to_string(), key.to_vec());
        let before = match self.tree().get(table, key)? {
            None => N::default(),
            Some(value) => match <[u8; 8]>::try_from(&*value) {
                Ok(bytes) => N::from_bytes(bytes),
                Err(_) => {
                    let (table, key) = place();
                    return Err(Error::NotACounter { table, key, len: value.len() as u64 });
                }
            },
        };
        let Some(after) = before.plus(by) else {
            let (table, key) = place();
            return Err(Error::CounterOverflow { table, key });
        };
        self.set_in(table, key, Some(&after.to_bytes()))?;
        Ok(after)
    }

    /// Sets `key` to `new` if its value is `expected`; `None` stands for a key that is not there.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn compare_and_set(&mut self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared> {
        self.compare_and_set_in(TableNumber::MAIN, key, expected, new)
    }

    /// Adds `by` to the number of `key`, which is 0 where there is no key; returns the sum.
    ///
    /// # Errors
    /// [`Error::CounterOverflow`], [`Error::NotACounter`]: nothing changed. Otherwise as
    /// [`Batch::put`].
    pub fn increment<N: Counter>(&mut self, key: &[u8], by: i64) -> Result<N> {
        self.increment_in(TableNumber::MAIN, "", key, by)
    }

    /// Gives `key` the value that `change` makes of its value; `None` stands for a key that is not
    /// there. Returns the value before.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn update(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.update_in(TableNumber::MAIN, key, change)
    }
}

impl BatchTable<'_, '_> {
    /// As [`Batch::compare_and_set`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn compare_and_set(&mut self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared> {
        let (batch, table) = self.parts();
        batch.compare_and_set_in(table.open.number, key, expected, new)
    }

    /// As [`Batch::increment`].
    ///
    /// # Errors
    /// As [`Batch::increment`].
    pub fn increment<N: Counter>(&mut self, key: &[u8], by: i64) -> Result<N> {
        let (batch, table) = self.parts();
        batch.increment_in(table.open.number, &table.name, key, by)
    }

    /// As [`Batch::update`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn update(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let (batch, table) = self.parts();
        batch.update_in(table.open.number, key, change)
    }
}

impl Kv {
    /// Runs `write` in a batch, commits and settles it.
    fn written<T>(&self, write: impl FnOnce(&mut Batch<'_>) -> Result<T>) -> Result<T> {
        let mut batch = self.begin()?;
        let value = write(&mut batch)?;
        let commit = batch.commit()?;
        self.settle(commit)?;
        Ok(value)
    }

    /// Sets `key` to `new` if its value is `expected`; `None` stands for a key that is not there.
    /// No other write comes between. Durable on return; so is the value that it saw.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// use everbyte_kv::Compared;
    ///
    /// assert!(kv.compare_and_set(b"owner", None, Some(b"Ada"))?.is_set()); // only if it is absent
    /// assert_eq!(kv.compare_and_set(b"owner", None, Some(b"Bob"))?, Compared::Differs(Some(b"Ada".to_vec())));
    /// assert!(kv.compare_and_set(b"owner", Some(b"Ada"), None)?.is_set()); // deletes
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn compare_and_set(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared> {
        self.written(|batch| batch.compare_and_set(key, expected, new))
    }

    /// Adds `by` to the number of `key`, which is 0 where there is no key; returns the sum. Durable
    /// on return. The value is 8 bytes, the lowest first.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// assert_eq!(kv.increment::<u64>(b"visits", 1)?, 1);
    /// assert_eq!(kv.increment::<u64>(b"visits", 41)?, 42);
    /// assert!(kv.increment::<u64>(b"visits", -43).is_err()); // a u64 is never below 0
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::CounterOverflow`]: the sum is out of range. [`Error::NotACounter`]: the value has
    /// not 8 bytes. Then nothing changed. Otherwise as [`Kv::put`].
    pub fn increment<N: Counter>(&self, key: &[u8], by: i64) -> Result<N> {
        self.written(|batch| batch.increment(key, by))
    }

    /// Gives `key` the value that `change` makes of its value; `None` stands for a key that is not
    /// there. Returns the value before. `change` runs once, under the writer's lock: it must be
    /// short, and must not use the store. Durable on return.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let append = |tail: &'static [u8]| {
    ///     move |old: Option<&[u8]>| Some([old.unwrap_or_default(), tail].concat())
    /// };
    /// assert_eq!(kv.update(b"log", append(b"a"))?, None);
    /// assert_eq!(kv.update(b"log", append(b"b"))?, Some(b"a".to_vec()));
    /// assert_eq!(kv.get(b"log")?.as_deref(), Some(&b"ab"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn update(&self, key: &[u8], change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        self.written(|batch| batch.update(key, change))
    }
}

impl KvTable {
    /// As [`Kv::compare_and_set`].
    ///
    /// # Errors
    /// As [`KvTable::put`].
    pub fn compare_and_set(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared> {
        self.kv.written(|batch| batch.table(self)?.compare_and_set(key, expected, new))
    }

    /// As [`Kv::increment`].
    ///
    /// # Errors
    /// The table was dropped; otherwise as [`Kv::increment`].
    pub fn increment<N: Counter>(&self, key: &[u8], by: i64) -> Result<N> {
        self.kv.written(|batch| batch.table(self)?.increment(key, by))
    }

    /// As [`Kv::update`].
    ///
    /// # Errors
    /// As [`KvTable::put`].
    pub fn update(&self, key: &[u8], change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        self.kv.written(|batch| batch.table(self)?.update(key, change))
    }
}
