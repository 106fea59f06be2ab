//! Reads of one table as a command sees it: through the iteration's batch, of a settled version, or
//! of the store.

use super::Keyspace;
use everbyte_kv::{KvTable, Range, Result, Snapshot, TableSnapshot};
use std::ops::Bound;

/// One of the tables of `tables.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Plain strings of database 0.
    Main,
    /// Records.
    Keys,
    /// Elements of collections.
    Elements,
    /// Deadlines of records.
    Deadlines,
    /// The server's own numbers.
    State,
    /// Facts about replication, which concern this server alone.
    Local,
}

/// A table and the bounds of a range in it.
type PlacedRange<'b> = (Place, Bound<&'b [u8]>, Bound<&'b [u8]>);

/// A settled version, and the tables at it that have been asked for.
pub(crate) struct Settled {
    main: Snapshot,
    tables: [Option<TableSnapshot>; 5],
}

impl Settled {
    pub(crate) fn new(main: Snapshot) -> Settled {
        Settled { main, tables: [const { None }; 5] }
    }

    /// Whether no newer version is settled.
    pub(crate) fn is_newest(&self) -> bool {
        self.main.is_newest()
    }

    fn table(&mut self, place: Place, table: &KvTable) -> Result<&TableSnapshot> {
        let slot = &mut self.tables[place as usize - 1];
        match slot {
            Some(table) => Ok(table),
            None => Ok(slot.insert(self.main.table(table)?)),
        }
    }
}

/// Evaluates `$call` on what answers reads of a table, under the name `$reader`.
macro_rules! read {
    ($keys:expr, $place:expr, $reader:ident => $call:expr) => {{
        let table = $keys.table($place);
        if let Some(batch) = $keys.reader() {
            match table {
                None => {
                    let $reader = batch;
                    $call
                }
                Some(table) => {
                    let $reader = batch.table(table)?;
                    $call
                }
            }
        } else {
            let kv = $keys.kv;
            match ($keys.settled(), table) {
                (Some(settled), None) => {
                    let $reader = &settled.main;
                    $call
                }
                (Some(settled), Some(table)) => {
                    let $reader = settled.table($place, table)?;
                    $call
                }
                (None, None) => {
                    let $reader = kv;
                    $call
                }
                (None, Some($reader)) => $call,
            }
        }
    }};
}

impl<'k> Keyspace<'k> {
    fn table(&self, place: Place) -> Option<&'k KvTable> {
        match place {
            Place::Main => None,
            Place::Keys => Some(&self.tables.keys),
            Place::Elements => Some(&self.tables.elements),
            Place::Deadlines => Some(&self.tables.deadlines),
            Place::State => Some(&self.tables.state),
            Place::Local => Some(self.tables.local().expect("made before it is used")),
        }
    }

    /// The value of a table's key.
    pub(super) fn value(&mut self, place: Place, key: &[u8]) -> Result<Option<Vec<u8>>> {
        read!(self, place, reader => reader.get(key))
    }

    /// The size of the value of a table's key; the value is not read.
    pub(super) fn value_size(&mut self, place: Place, key: &[u8]) -> Result<Option<u64>> {
        read!(self, place, reader => reader.len_of(key))
    }

    /// The part of a value that `choose` names when it is told the size; no more of it is read.
    pub(super) fn value_part(
        &mut self,
        place: Place,
        key: &[u8],
        choose: impl FnMut(u64) -> std::ops::Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        read!(self, place, reader => reader.part_of(key, choose))
    }

    /// Whether reads see the newest state, and not a settled version before it.
    pub(super) fn reads_newest(&mut self) -> bool {
        self.reader().is_some() || !self.behind
    }

    /// The number of a table's keys: of the main table or the table of keys.
    pub(super) fn len_of(&mut self, place: Place) -> Result<u64> {
        let Some(table) = self.table(place) else {
            if let Some(batch) = self.reader() {
                return Ok(batch.len());
            }
            let kv = self.kv;
            return Ok(self.settled().map_or_else(|| kv.len(), |settled| settled.main.len()));
        };
        match self.settled() {
            Some(settled) => settled.table(place, table)?.len(),
            None => table.len(),
        }
    }

    /// The entries of a range of a table.
    pub(super) fn entries(&mut self, place: Place, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Range<'_>> {
        Ok(self.several([(place, from, to)])?.remove(0))
    }

    /// The entries of several ranges, to be walked side by side.
    pub(super) fn several<const N: usize>(&mut self, asked: [PlacedRange<'_>; N]) -> Result<Vec<Range<'_>>> {
        self.reader();
        self.settled();
        let tables = asked.map(|(place, ..)| self.table(place));
        let mut ranges = Vec::with_capacity(N);
        for ((place, from, to), table) in asked.into_iter().zip(tables) {
            ranges.push(match (&self.batch, &mut self.settled, table) {
                (Some(batch), _, None) => batch.range::<[u8]>((from, to)),
                (Some(batch), _, Some(table)) => batch.range_of::<[u8]>(table, (from, to))?,
                (None, Some(settled), None) => settled.main.range::<[u8]>((from, to)),
                (None, Some(settled), Some(table)) => settled.table(place, table)?.range::<[u8]>((from, to)),
                (None, None, None) => self.kv.range::<[u8]>((from, to)),
                (None, None, Some(table)) => table.range::<[u8]>((from, to))?,
            });
        }
        Ok(ranges)
    }
}
