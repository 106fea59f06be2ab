//! The volatile state of the catalogue: names that were looked up, the trie, and, for changes, the
//! free spans and records.
//!
//! All of it can be read from media again. Without a trie the cache has every name; with one, the
//! names that were looked up.

use super::cache::{Cache, Known};
use super::name_space::NameTrie;
use super::record::{self, Entry, Slot};
use crate::layout::Superblock;
use crate::{Error, Result};
use everbyte_space::{ObjectId, Spans};
use std::collections::HashMap;

/// The largest number of names in the cache of a store with a trie; then the cache begins anew.
const CACHE_MAX: usize = 1 << 18;

/// The volatile state behind the catalogue's lock.
#[derive(Default)]
pub(crate) struct CatalogueTable {
    pub(super) trie: Option<NameTrie>,
    /// The records of names.
    cache: Cache,
    index: Option<Index>,
    /// The slots of records in the list of pending changes.
    pending: HashMap<u64, u32>,
}

/// The free spans and records.
pub(crate) struct Index {
    spans: Spans,
    /// Free records of the table, the lowest last.
    free: Vec<u64>,
    /// A damaged record and its damage: its span is unknown, so no span is given out.
    damaged: Option<(u64, String)>,
}

impl Index {
    /// The index over these records.
    pub(crate) fn new(superblock: &Superblock, slots: &[(u64, Slot)]) -> Index {
        let mut index = Index { spans: Spans::default(), free: Vec::new(), damaged: None };
        for (at, slot) in slots {
            match slot {
                Slot::Damaged(detail) => index.damaged = index.damaged.take().or_else(|| Some((*at, detail.clone()))),
                // A span that overlaps another belongs to a damaged record.
                _ => drop(slot.entry().map(|entry| index.spans.insert(entry.span))),
            }
        }
        let used: Vec<u64> = slots.iter().map(|(at, _)| *at).collect();
        index.free = record::places(superblock).filter(|at| used.binary_search(at).is_err()).collect();
        index.free.reverse();
        index
    }

    /// The free spans.
    pub(crate) fn spans(&mut self) -> &mut Spans {
        &mut self.spans
    }

    /// The number of free records of the table.
    pub(crate) fn free_records(&self) -> usize {
        self.free.len()
    }

    /// Takes a free record of the table.
    pub(crate) fn take_record(&mut self) -> Option<u64> {
        self.free.pop()
    }

    /// The record of the table that is taken last.
    pub(crate) fn last_record(&self) -> Option<u64> {
        self.free.first().copied()
    }

    /// Takes [`Index::last_record`].
    pub(crate) fn take_last_record(&mut self) {
        self.free.remove(0);
    }
}

impl CatalogueTable {
    /// The state of a store whose table has these records.
    pub(crate) fn new(superblock: &Superblock, slots: &[(u64, Slot)], trie: Option<NameTrie>) -> CatalogueTable {
        let index = trie.is_none().then(|| Index::new(superblock, slots));
        let mut cache = Cache::default();
        for entry in slots.iter().filter_map(|(_, slot)| slot.entry()).filter(|entry| !entry.name.is_empty()) {
            cache.insert(&entry.name, Known { at: entry.at, id: ObjectId::new(0) });
        }
        CatalogueTable { cache, index, trie, ..CatalogueTable::default() }
    }

    /// The trie, if the store has one.
    pub(crate) fn trie(&self) -> Option<&NameTrie> {
        self.trie.as_ref()
    }

    /// The cached record of a name.
    #[inline]
    pub(crate) fn known(&self, name: &str) -> Option<Known> {
        self.cache.get(name)
    }

    /// Caches the record of a name.
    pub(crate) fn remember(&mut self, name: &str, known: Known) {
        if self.trie.is_some() && self.cache.len() >= CACHE_MAX {
            self.cache.clear();
        }
        self.cache.insert(name, known);
    }

    pub(super) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    pub(super) fn set_index(&mut self, index: Index) {
        self.index = Some(index);
    }

    /// A damaged record of the index, and its damage.
    pub(super) fn damage(&self) -> Option<(u64, String)> {
        self.index.as_ref().and_then(|index| index.damaged.clone())
    }

    pub(super) fn index(&mut self) -> &mut Index {
        self.index.as_mut().expect("`set_index` precedes")
    }

    /// Adds a new object's name and span.
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.remember(&entry.name, Known { at: entry.at, id: ObjectId::new(0) });
        if let Some(index) = &mut self.index {
            let _ = index.spans.insert(entry.span); // chosen among the free ones
        }
    }

    /// Frees the record, the name and the span of a removed object.
    pub(crate) fn forget(&mut self, superblock: &Superblock, entry: &Entry) {
        if let Some(index) = &mut self.index {
            index.spans.remove(entry.span);
        }
        self.forget_name(superblock, entry);
    }

    /// Frees a record and a name whose object has others.
    pub(crate) fn forget_name(&mut self, superblock: &Superblock, entry: &Entry) {
        self.cache.remove(&entry.name);
        self.give_record(superblock, entry.at);
    }

    /// Gives a record back that is free on media.
    pub(crate) fn give_record(&mut self, superblock: &Superblock, at: u64) {
        let in_table = record::table(superblock).contains(&at);
        match (&mut self.index, &mut self.trie) {
            (Some(index), _) if in_table => index.free.push(at),
            (_, Some(trie)) if !in_table => trie.give_record(at),
            _ => {}
        }
    }

    /// Adds a record to the list of pending changes on media. Records of the table, which opening
    /// reads anyway, and records in the list already stay out. Flushed. Returns whether the record
    /// was added.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn begin_change(&mut self, superblock: &Superblock, record: u64) -> Result<bool> {
        let is_found = record::table(superblock).contains(&record) || self.pending.contains_key(&record);
        let Some(trie) = self.trie.as_mut().filter(|_| !is_found) else { return Ok(false) };
        self.pending.insert(record, trie.begin_change(record).ok_or(Error::Busy)?);
        Ok(true)
    }

    /// Reverses [`CatalogueTable::begin_change`]. Flushed.
    pub(crate) fn end_change(&mut self, record: u64) {
        if let (Some(slot), Some(trie)) = (self.pending.remove(&record), &mut self.trie) {
            trie.end_change(slot);
        }
    }

    /// Takes over a pending change that recovery found on media.
    pub(crate) fn add_pending(&mut self, slot: u32, record: u64) {
        self.pending.insert(record, slot);
    }
}
