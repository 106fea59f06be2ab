//! Writes of one table through the iteration's batch.

use super::Keyspace;
use super::reads::Place;
use everbyte_kv::Result;
use std::ops::Bound;

impl Keyspace<'_> {
    /// Gives a table's key a value; whether it was there.
    pub(super) fn put_value(&mut self, place: Place, key: &[u8], value: &[u8]) -> Result<bool> {
        let tables = self.tables;
        self.capture.put(place, key, value);
        self.write(|batch| match place {
            Place::Main => batch.put(key, value),
            Place::Keys => batch.table(&tables.keys)?.put(key, value),
            Place::Elements => batch.table(&tables.elements)?.put(key, value),
            Place::Deadlines => batch.table(&tables.deadlines)?.put(key, value),
            Place::State => batch.table(&tables.state)?.put(key, value),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.put(key, value),
        })
    }

    /// Removes a table's key; whether it was there.
    pub(super) fn remove_value(&mut self, place: Place, key: &[u8]) -> Result<bool> {
        let tables = self.tables;
        self.capture.remove(place, key);
        self.write(|batch| match place {
            Place::Main => batch.delete(key),
            Place::Keys => batch.table(&tables.keys)?.delete(key),
            Place::Elements => batch.table(&tables.elements)?.delete(key),
            Place::Deadlines => batch.table(&tables.deadlines)?.delete(key),
            Place::State => batch.table(&tables.state)?.delete(key),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.delete(key),
        })
    }

    /// Removes all keys of a table that begin with `prefix`; how many there were.
    pub(super) fn remove_prefix(&mut self, place: Place, prefix: &[u8]) -> Result<u64> {
        if place == Place::Main && prefix.is_empty() {
            self.capture.clear(place, (Bound::Unbounded, Bound::Unbounded));
            return self.write(|batch| batch.clear().map(|()| 0));
        }
        let end = super::after_prefix(prefix);
        self.remove_range(place, (Bound::Included(prefix), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)))
    }

    /// Removes all keys of a range of a table; how many there were.
    pub(super) fn remove_range(&mut self, place: Place, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<u64> {
        let tables = self.tables;
        self.capture.clear(place, range);
        self.write(|batch| match place {
            Place::Main => batch.delete_range::<[u8]>(range),
            Place::Keys => batch.table(&tables.keys)?.delete_range::<[u8]>(range),
            Place::Elements => batch.table(&tables.elements)?.delete_range::<[u8]>(range),
            Place::Deadlines => batch.table(&tables.deadlines)?.delete_range::<[u8]>(range),
            Place::State => batch.table(&tables.state)?.delete_range::<[u8]>(range),
            Place::Local => batch.table(tables.local().expect("made before it is used"))?.delete_range::<[u8]>(range),
        })
    }
}
