//! Writes of one table through the iteration's batch. A write that the store refuses is not
//! captured: replicas get what happened.

use super::Keyspace;
use super::reads::Place;
use everbyte_kv::{Batch, Result};
use std::ops::Bound;

impl Keyspace<'_> {
    /// Gives a table's key a value; whether it was there.
    pub(super) fn put_value(&mut self, place: Place, key: &[u8], value: &[u8]) -> Result<bool> {
        let tables = self.tables;
        let old = self.counted_size(place, key)?;
        let was_there = self.write(|batch| match place {
            Place::Main => batch.put(key, value),
            Place::Keys => batch.table(&tables.keys)?.put(key, value),
            Place::Elements => batch.table(&tables.elements)?.put(key, value),
            Place::Deadlines => batch.table(&tables.deadlines)?.put(key, value),
            Place::State => batch.table(&tables.state)?.put(key, value),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.put(key, value),
        })?;
        self.capture.put(place, key, value);
        self.remembered.used.put(place, key, old, Some(value.len() as u64));
        Ok(was_there)
    }

    /// Removes a table's key; whether it was there.
    pub(super) fn remove_value(&mut self, place: Place, key: &[u8]) -> Result<bool> {
        let tables = self.tables;
        let old = self.counted_size(place, key)?;
        let was_there = self.write(|batch| match place {
            Place::Main => batch.delete(key),
            Place::Keys => batch.table(&tables.keys)?.delete(key),
            Place::Elements => batch.table(&tables.elements)?.delete(key),
            Place::Deadlines => batch.table(&tables.deadlines)?.delete(key),
            Place::State => batch.table(&tables.state)?.delete(key),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.delete(key),
        })?;
        self.capture.remove(place, key);
        self.remembered.used.put(place, key, old, None);
        Ok(was_there)
    }

    /// Removes all keys of a table that begin with `prefix`; how many there were.
    pub(super) fn remove_prefix(&mut self, place: Place, prefix: &[u8]) -> Result<u64> {
        if place == Place::Main && prefix.is_empty() {
            self.write(Batch::clear)?;
            self.remembered.used.clear(place, None);
            self.capture.clear(place, (Bound::Unbounded, Bound::Unbounded));
            return Ok(0);
        }
        let end = super::after_prefix(prefix);
        self.remove_range(place, (Bound::Included(prefix), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)))
    }

    /// Removes all keys of a range of a table; how many there were.
    pub(super) fn remove_range(&mut self, place: Place, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<u64> {
        let tables = self.tables;
        let counted = self.counted_range(place, range)?;
        let count = self.write(|batch| match place {
            Place::Main => batch.delete_range::<[u8]>(range),
            Place::Keys => batch.table(&tables.keys)?.delete_range::<[u8]>(range),
            Place::Elements => batch.table(&tables.elements)?.delete_range::<[u8]>(range),
            Place::Deadlines => batch.table(&tables.deadlines)?.delete_range::<[u8]>(range),
            Place::State => batch.table(&tables.state)?.delete_range::<[u8]>(range),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.delete_range::<[u8]>(range),
        })?;
        self.capture.clear(place, range);
        self.remembered.used.take(place, &counted);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Tables;
    use crate::replication::Item;
    use everbyte_kv::{KEY_MAX, Kv};
    use everbyte_store::{CreateOptions, Store};

    #[test]
    fn a_write_that_the_store_refuses_is_not_captured() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let tables = Tables::open(Kv::open_or_create(&store, "kv").unwrap()).unwrap();
        let mut keys = Keyspace::new(&tables, Box::default(), 0, false, false);
        keys.capture();
        keys.begin_command(true);
        assert!(keys.put_value(Place::Main, &[b'k'; KEY_MAX + 1], b"v").is_err());
        keys.end_command(true);
        keys.begin_command(true);
        keys.put_value(Place::Main, b"k", b"v").unwrap();
        keys.end_command(false);
        keys.commit().unwrap();
        let [(_, Some(items))] = &keys.take_commits()[..] else { panic!("one small commit") };
        assert_eq!(items[..], [Item::Put(b"\0k".into(), b"v".into())]);
    }
}
