//! [`TypedTable`]: a named table whose keys and values have types.

use super::{KeyPrefix, OtherTypeDetail, TableTypes, Typed, decode, encode};
use crate::range::Range;
use crate::table::TableSnapshot;
use crate::{Batch, BatchTable, Error, Kv, KvTable, Result, Snapshot, catalogue};
use everbyte_media::museum::{seeded, unless};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// The types of a table, without values of them.
type Types<K, V> = PhantomData<fn(K, V) -> (K, V)>;

/// A named table whose keys are of type `K` and whose values are of type `V`, in the order of `K`.
/// Cheap to clone, usable from any thread.
///
/// The catalogue holds a description of both types: opening the table with other types is an error
/// that names the first field that differs.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
/// use everbyte_kv::{Kv, TypedTable};
///
/// let kv = Kv::open_or_create(&store, "weather")?;
/// let degrees: TypedTable<(String, u64), f64> = kv.open_or_create_typed("degrees")?;
/// degrees.put(&("Oslo".into(), 1), &-3.5)?; // durable when it returns
/// degrees.put(&("Oslo".into(), 300), &2.0)?;
/// degrees.put(&("Bergen".into(), 2), &7.25)?;
/// assert_eq!(degrees.get(&("Oslo".into(), 1))?, Some(-3.5));
/// let oslo: Vec<_> = degrees.prefix(&("Oslo".to_string(),))?.collect::<Result<_, _>>()?;
/// assert_eq!(oslo, [(("Oslo".into(), 1), -3.5), (("Oslo".into(), 300), 2.0)]);
/// assert!(kv.open_typed::<(String, u32), f64>("degrees").is_err());
/// # Ok(()) }
/// ```
pub struct TypedTable<K, V> {
    table: KvTable,
    types: Types<K, V>,
}

impl<K, V> Clone for TypedTable<K, V> {
    fn clone(&self) -> TypedTable<K, V> {
        TypedTable { table: self.table.clone(), types: PhantomData }
    }
}

/// The range of the encodings.
fn encoded<K: Typed>(range: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (range.start_bound().map(encode), range.end_bound().map(encode))
}

/// Bounds of byte strings, lent.
fn lent((low, high): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
}

fn prefix_of<K>(prefix: &(impl KeyPrefix<K> + ?Sized)) -> Vec<u8> {
    let mut out = Vec::new();
    prefix.encode_prefix(&mut out);
    out
}

/// The description of a new table.
fn description_of<K: Typed, V: Typed>(name: &str) -> Result<Vec<u8>> {
    TableTypes::of::<K, V>().to_bytes().map_err(|error| Error::Undescribed { name: name.into(), error })
}

/// The value of stored bytes.
fn read<T: Typed>(part: &'static str, bytes: &[u8]) -> Result<T> {
    decode(bytes).map_err(|error| Error::Undecodable { part, error })
}

/// Reads that tables, snapshots and batches have in common, on the raw table in `$raw`.
macro_rules! typed_reads {
    ($raw:ident, $seen:literal) => {
        #[doc = concat!("The value of `key`", $seen)]
        ///
        /// # Errors
        /// The table was dropped; damage; stored bytes that are no value of `V`.
        pub fn get(&self, key: &K) -> Result<Option<V>> {
            self.$raw.get(&encode(key))?.map(|value| read("value", &value)).transpose()
        }

        #[doc = concat!("Whether `key` is there, without its value", $seen)]
        ///
        /// # Errors
        /// The table was dropped; damage.
        pub fn contains(&self, key: &K) -> Result<bool> {
            self.$raw.contains(&encode(key))
        }
    };
}

impl<K: Typed, V: Typed> TypedTable<K, V> {
    /// The table's name.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    /// The same table without types: its keys and values are encodings. What is written through it
    /// is not verified against the types.
    pub fn untyped(&self) -> &KvTable {
        &self.table
    }

    typed_reads!(table, ". Takes no lock; sees settled data only.");

    /// Binds `value` to `key`. Durable on return.
    ///
    /// # Errors
    /// As [`KvTable::put`].
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.table.put(&encode(key), &encode(value))
    }

    /// Removes `key`; returns whether it existed. Durable on return.
    ///
    /// # Errors
    /// As [`KvTable::delete`].
    pub fn delete(&self, key: &K) -> Result<bool> {
        self.table.delete(&encode(key))
    }

    /// The newest settled version of this table, held for reading.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn snapshot(&self) -> Result<TypedSnapshot<K, V>> {
        Ok(TypedSnapshot { snapshot: self.table.snapshot()?, types: PhantomData })
    }

    /// The entries of a range of the newest settled version, in key order; `rev()` walks from the
    /// end.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<TypedRange<'static, K, V>> {
        Ok(self.snapshot()?.range(range))
    }

    /// The entries whose keys begin with `prefix`: the tuple of the key's first fields, or the
    /// first characters of a `String`.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> Result<TypedRange<'static, K, V>> {
        Ok(self.snapshot()?.prefix(prefix))
    }

    /// The number of keys; see [`KvTable::len`].
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn len(&self) -> Result<u64> {
        self.table.len()
    }

    /// Whether the table is empty.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn is_empty(&self) -> Result<bool> {
        self.table.is_empty()
    }
}

/// A [`TypedTable`] at one version.
pub struct TypedSnapshot<K, V> {
    snapshot: TableSnapshot,
    types: Types<K, V>,
}

impl<K: Typed, V: Typed> TypedSnapshot<K, V> {
    typed_reads!(snapshot, ", at this version.");

    /// The entries of a range, in key order. The range keeps the version by itself.
    pub fn range(&self, range: impl RangeBounds<K>) -> TypedRange<'static, K, V> {
        TypedRange::new(self.snapshot.range::<[u8]>(lent(&encoded(&range))))
    }

    /// The entries whose keys begin with `prefix`; see [`TypedTable::prefix`].
    pub fn prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> TypedRange<'static, K, V> {
        TypedRange::new(self.snapshot.prefix(&prefix_of(prefix)))
    }

    /// The number of keys; see [`KvTable::len`].
    ///
    /// # Errors
    /// Damage.
    pub fn len(&self) -> Result<u64> {
        self.snapshot.len()
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// Damage.
    pub fn is_empty(&self) -> Result<bool> {
        self.snapshot.is_empty()
    }
}

/// A [`TypedTable`] in a [`Batch`].
pub struct TypedBatchTable<'b, 'k, K, V> {
    table: BatchTable<'b, 'k>,
    types: Types<K, V>,
}

impl<K: Typed, V: Typed> TypedBatchTable<'_, '_, K, V> {
    typed_reads!(table, ", this batch's writes included.");

    /// Binds `value` to `key`; returns whether the key existed.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, key: &K, value: &V) -> Result<bool> {
        self.table.put(&encode(key), &encode(value))
    }

    /// Removes `key`; returns whether it existed.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: &K) -> Result<bool> {
        self.table.delete(&encode(key))
    }

    /// Removes the keys of a range; see [`Batch::delete_range`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        self.table.delete_range::<[u8]>(lent(&encoded(&range)))
    }

    /// The entries of a range, this batch's writes included.
    pub fn range(&self, range: impl RangeBounds<K>) -> TypedRange<'_, K, V> {
        TypedRange::new(self.table.range::<[u8]>(lent(&encoded(&range))))
    }

    /// The entries whose keys begin with `prefix`, this batch's writes included.
    pub fn prefix(&self, prefix: &(impl KeyPrefix<K> + ?Sized)) -> TypedRange<'_, K, V> {
        TypedRange::new(self.table.prefix(&prefix_of(prefix)))
    }
}

/// Entries of a typed table in key order, from both ends.
pub struct TypedRange<'a, K, V> {
    range: Range<'a>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'a, K, V> TypedRange<'a, K, V> {
    fn new(range: Range<'a>) -> TypedRange<'a, K, V> {
        TypedRange { range, types: PhantomData }
    }
}

fn pair<K: Typed, V: Typed>(entry: Option<(&[u8], &[u8])>) -> Result<Option<(K, V)>> {
    entry.map(|(key, value)| Ok((read("key", key)?, read("value", value)?))).transpose()
}

impl<K: Typed, V: Typed> Iterator for TypedRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next_ref().and_then(pair).transpose()
    }
}

impl<K: Typed, V: Typed> DoubleEndedIterator for TypedRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back_ref().and_then(pair).transpose()
    }
}

impl Kv {
    /// Opens the typed table `name`. Settled on return.
    ///
    /// # Errors
    /// It has other types, or none; otherwise as [`Kv::open_table`].
    pub fn open_typed<K: Typed, V: Typed>(&self, name: &str) -> Result<TypedTable<K, V>> {
        let batch = self.begin()?;
        let table = batch.open_typed(name)?;
        self.settle_tables(batch, [table.untyped()])?;
        Ok(table)
    }

    /// Makes the typed table `name`, its description with it. Settled on return.
    ///
    /// # Errors
    /// As [`Kv::create_table`].
    pub fn create_typed<K: Typed, V: Typed>(&self, name: &str) -> Result<TypedTable<K, V>> {
        self.create_typed_in(self.begin()?, name)
    }

    fn create_typed_in<K: Typed, V: Typed>(&self, mut batch: Batch<'_>, name: &str) -> Result<TypedTable<K, V>> {
        if seeded("kv-description-apart") {
            let table = batch.create_table(name)?;
            self.settle(batch.commit()?)?;
            let mut batch = self.begin()?;
            catalogue::describe(batch.tree_mut(), name, &description_of::<K, V>(name)?)?;
            self.settle(batch.commit()?)?;
            return Ok(TypedTable { table, types: PhantomData });
        }
        let table = batch.create_typed(name)?;
        let commit = batch.commit()?;
        self.settle(commit)?;
        Ok(table)
    }

    /// Opens the typed table `name`, and makes it if there is none. Settled on return.
    ///
    /// # Errors
    /// As [`Kv::open_typed`] and [`Kv::create_typed`].
    pub fn open_or_create_typed<K: Typed, V: Typed>(&self, name: &str) -> Result<TypedTable<K, V>> {
        let batch = self.begin()?;
        match batch.open_typed(name) {
            Err(Error::NoTable { .. }) => self.create_typed_in(batch, name),
            found => {
                let table = found?;
                self.settle_tables(batch, [table.untyped()])?;
                Ok(table)
            }
        }
    }

    /// The types of the table `name`; `None` for a table of bytes.
    ///
    /// # Errors
    /// There is none of this name; damage.
    pub fn table_types(&self, name: &str) -> Result<Option<TableTypes>> {
        self.begin()?.table_types(name)
    }
}

impl<'k> Batch<'k> {
    /// The typed table `name`, of this batch or made before.
    ///
    /// # Errors
    /// It has other types, or none; otherwise as [`Batch::open_table`].
    pub fn open_typed<K: Typed, V: Typed>(&self, name: &str) -> Result<TypedTable<K, V>> {
        let table = self.open_table(name)?;
        let Some(stored) = self.table_types(name)? else {
            return Err(Error::Untyped { name: name.into() });
        };
        match stored.difference(&TableTypes::of::<K, V>()) {
            None => Ok(TypedTable { table, types: PhantomData }),
            Some((at, expected, found)) => {
                Err(Error::OtherType { name: name.into(), detail: OtherTypeDetail { at, expected, found }.into() })
            }
        }
    }

    /// Makes the typed table `name`, its description with it. Others can use it once the batch is
    /// committed.
    ///
    /// # Errors
    /// As [`Batch::create_table`]; the types have no description that can be stored.
    pub fn create_typed<K: Typed, V: Typed>(&mut self, name: &str) -> Result<TypedTable<K, V>> {
        let description = description_of::<K, V>(name)?;
        let table = self.create_table(name)?;
        let describe = |batch: &mut Batch<'_>| catalogue::describe(batch.tree_mut(), name, &description);
        unless("kv-table-undescribed", || self.go_on(describe))?;
        Ok(TypedTable { table, types: PhantomData })
    }

    /// As [`Kv::table_types`], in this batch.
    ///
    /// # Errors
    /// As [`Kv::table_types`].
    pub fn table_types(&self, name: &str) -> Result<Option<TableTypes>> {
        self.open_table(name)?;
        let Some(description) = catalogue::description(self.tree(), name)? else { return Ok(None) };
        let types = TableTypes::from_bytes(&description);
        types.map(Some).map_err(|error| Error::Undecodable { part: "description", error })
    }

    /// `table` in this batch.
    ///
    /// # Errors
    /// As [`Batch::table`].
    pub fn typed<'b, K: Typed, V: Typed>(
        &'b mut self,
        table: &'b TypedTable<K, V>,
    ) -> Result<TypedBatchTable<'b, 'k, K, V>> {
        Ok(TypedBatchTable { table: self.table(&table.table)?, types: PhantomData })
    }
}

impl Snapshot {
    /// `table` at this version.
    ///
    /// # Errors
    /// As [`Snapshot::table`].
    pub fn typed<K: Typed, V: Typed>(&self, table: &TypedTable<K, V>) -> Result<TypedSnapshot<K, V>> {
        Ok(TypedSnapshot { snapshot: self.table(&table.table)?, types: PhantomData })
    }
}
