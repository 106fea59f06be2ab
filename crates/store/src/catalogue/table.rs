//! What this process knows of the object table: names it has looked up, objects it has open, and,
//! for changes, which spans and records are free.
//!
//! All of it can be had from media again. Without a trie the cache knows every name; with one,
//! those looked up.

use crate::catalogue::cache::{Cache, Known};
use crate::catalogue::name_space::{NameClusters, NameTrie};
use crate::catalogue::record::{self, Entry, Slot};
use crate::layout::Superblock;
use crate::store::Inner;
use crate::{Error, Result, object};
use everbyte_media::Damage;
use everbyte_space::Spans;
use std::collections::HashMap;
use std::sync::Weak;

/// Names that the cache of a store with a trie holds at most; then it begins anew.
const CACHE_MAX: usize = 1 << 18;

#[derive(Default)]
pub(crate) struct Table {
    pub trie: Option<NameTrie>,
    /// The records of names.
    cache: Cache,
    /// Objects that are open, by record.
    pub open: HashMap<u64, Weak<object::Inner>>,
    index: Option<Index>,
    /// Notes of records in flight.
    flying: HashMap<u64, u32>,
}

/// What is free.
pub(crate) struct Index {
    pub spans: Spans,
    /// Free records of those that every store has, the lowest last.
    free: Vec<u64>,
    /// A record that is damaged, and why: its span is unknown, so no span is given out.
    damaged: Option<(u64, String)>,
}

impl Index {
    /// The record that is taken last.
    pub(crate) fn last_free(&self) -> Option<u64> {
        self.free.first().copied()
    }

    /// Takes it.
    pub(crate) fn take_last(&mut self) {
        self.free.remove(0);
    }

    fn new(superblock: &Superblock, slots: &[(u64, Slot)]) -> Index {
        let mut index = Index { spans: Spans::default(), free: Vec::new(), damaged: None };
        for (at, slot) in slots {
            match slot {
                Slot::Damaged(detail) => index.damaged = index.damaged.take().or_else(|| Some((*at, detail.clone()))),
                // Those that overlap are damaged.
                _ => drop(slot.entry().map(|entry| index.spans.insert(entry.span))),
            }
        }
        let used: Vec<u64> = slots.iter().map(|(at, _)| *at).collect();
        index.free = record::places(superblock).filter(|at| used.binary_search(at).is_err()).collect();
        index.free.reverse();
        index
    }
}

impl Table {
    /// The table of a store whose first records are `slots`.
    pub(crate) fn new(superblock: &Superblock, slots: &[(u64, Slot)], trie: Option<NameTrie>) -> Table {
        let index = trie.is_none().then(|| Index::new(superblock, slots));
        let mut cache = Cache::default();
        for entry in slots.iter().filter_map(|(_, slot)| slot.entry()).filter(|entry| !entry.name.is_empty()) {
            cache.insert(&entry.name, Known { at: entry.at, id: 0 });
        }
        Table { cache, index, trie, ..Table::default() }
    }

    /// Becomes `read`, but for what is open.
    pub(crate) fn refresh(&mut self, read: Table) {
        let open = std::mem::take(&mut self.open);
        *self = Table { open, ..read };
    }

    /// Remembers where a name leads.
    pub(crate) fn remember(&mut self, name: &str, known: Known) {
        if self.trie.is_some() && self.cache.len() >= CACHE_MAX {
            self.cache.clear();
        }
        self.cache.insert(name, known);
    }

    /// Takes up a new object's name and span.
    fn add(&mut self, entry: &Entry) {
        self.remember(&entry.name, Known { at: entry.at, id: 0 });
        if let Some(index) = &mut self.index {
            let _ = index.spans.insert(entry.span); // chosen among the free ones
        }
    }

    /// Gives the record of an object back that is gone, with its name and span.
    pub(crate) fn forget(&mut self, superblock: &Superblock, entry: &Entry) {
        if let Some(index) = &mut self.index {
            index.spans.remove(entry.span);
        }
        self.forget_name(superblock, entry);
    }

    /// Gives a record and a name back whose object has others.
    pub(crate) fn forget_name(&mut self, superblock: &Superblock, entry: &Entry) {
        self.cache.remove(&entry.name);
        self.open.remove(&entry.at);
        self.give_record(superblock, entry.at);
    }

    /// Gives a record back that is free on media.
    pub(crate) fn give_record(&mut self, superblock: &Superblock, at: u64) {
        let first = record::table(superblock).contains(&at);
        match (&mut self.index, &mut self.trie) {
            (Some(index), _) if first => index.free.push(at),
            (_, Some(trie)) if !first => trie.give_record(at),
            _ => {}
        }
    }

    /// Notes on media that a record is in flight, unless it is one of those that opening looks at
    /// anyway, or is noted already. Flushed. Returns whether it is noted now.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn depart(&mut self, superblock: &Superblock, record: u64) -> Result<bool> {
        let looked_at = record::table(superblock).contains(&record) || self.flying.contains_key(&record);
        let Some(trie) = self.trie.as_mut().filter(|_| !looked_at) else { return Ok(false) };
        self.flying.insert(record, trie.begin_change(record).ok_or(Error::Busy)?);
        Ok(true)
    }

    /// Takes [`Table::depart`] back. Flushed.
    pub(crate) fn arrive(&mut self, record: u64) {
        if let (Some(slot), Some(trie)) = (self.flying.remove(&record), &mut self.trie) {
            trie.end_change(slot);
        }
    }

    /// Takes up a note that was found on media.
    pub(crate) fn found_flying(&mut self, slot: u32, record: u64) {
        self.flying.insert(record, slot);
    }
}

impl Inner {
    /// The record of this name, in whatever state it is.
    pub(crate) fn find(&self, table: &mut Table, name: &str) -> Result<Option<u64>> {
        if let Some(known) = table.cache.get(name) {
            return Ok(Some(known.at));
        }
        let found = self.find_on_media(table, name)?;
        found.into_iter().for_each(|at| table.remember(name, Known { at, id: 0 }));
        Ok(found)
    }

    /// The id of the live object of this name.
    pub(crate) fn find_id(&self, table: &mut Table, name: &str) -> Result<Option<u64>> {
        if let Some(known) = table.cache.get(name).filter(|known| known.id != 0) {
            return Ok(Some(known.id));
        }
        let Some(at) = self.find(table, name)? else { return Ok(None) };
        let id = record::live_id(&self.media, at);
        id.into_iter().for_each(|id| table.remember(name, Known { at, id }));
        Ok(id)
    }

    /// The record of this name by the trie; `None` also where there is none, and the cache knows
    /// all.
    pub(crate) fn find_on_media(&self, table: &mut Table, name: &str) -> Result<Option<u64>> {
        table.trie.as_mut().map_or(Ok(None), |trie| Ok(trie.find(name.as_bytes())?))
    }

    /// The object of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`].
    pub(crate) fn live(&self, table: &mut Table, name: &str) -> Result<Entry> {
        let not_found = || Error::NotFound { name: name.into() };
        let at = self.find(table, name)?.ok_or_else(not_found)?;
        match record::read(&self.media, &self.superblock(), at) {
            Slot::Live(entry) => Ok(entry),
            Slot::Damaged(detail) => Err(self.damaged_record(at, detail)),
            Slot::Free | Slot::Creating(_) | Slot::Replacing(_) | Slot::Removing(_) => Err(not_found()),
        }
    }

    /// The objects whose names begin with `prefix`, ordered by name.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a record is damaged: the list would not be whole.
    pub(crate) fn list(&self, table: &mut Table, prefix: &str) -> Result<Vec<Entry>> {
        let superblock = self.superblock();
        let places = match &table.trie {
            Some(trie) => trie.list(prefix.as_bytes())?,
            None => {
                self.index(table)?;
                record::places(&superblock).collect()
            }
        };
        let mut found = Vec::new();
        for at in places {
            match record::read(&self.media, &superblock, at) {
                Slot::Live(entry) if entry.name.starts_with(prefix) => found.push(entry),
                Slot::Damaged(detail) => return Err(self.damaged_record(at, detail)),
                _ => {}
            }
        }
        if table.trie.is_none() {
            found.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(found)
    }

    /// Every record that is not free, checked against all others.
    pub(crate) fn all_slots(&self, table: &Table) -> Result<Vec<(u64, Slot)>> {
        let superblock = self.superblock();
        let more = table.trie.as_ref().map_or(Ok(vec![]), NameTrie::record_places)?;
        Ok(record::read_all(&self.media, &superblock, record::places(&superblock).chain(more)))
    }

    /// What is free. The first call in a store with a trie reads every record.
    ///
    /// # Errors
    /// [`Error::Damaged`] while a record is damaged: its span and its name are unknown.
    pub(crate) fn index<'t>(&self, table: &'t mut Table) -> Result<&'t mut Index> {
        if table.index.is_none() {
            table.index = Some(Index::new(&self.superblock(), &self.all_slots(table)?));
        }
        let index = table.index.as_mut().expect("read above");
        match &index.damaged {
            Some((at, detail)) => Err(self.damaged_record(*at, detail.clone())),
            None => Ok(index),
        }
    }

    fn damaged_record(&self, at: u64, detail: String) -> Error {
        Error::from(Damage::at(at, format!("a record of the object table: {detail}")).of_file(self.media.path()))
    }

    /// A free record. The last of the table goes to the name space, which has room for more.
    ///
    /// # Errors
    /// As [`Inner::promote`], and [`Error::Full`].
    pub(crate) fn free_record(&self, table: &mut Table) -> Result<u64> {
        let left = self.index(table)?.free.len();
        if left <= 1 && table.trie.is_none() {
            self.promote(table)?;
        }
        if let Some(at) = self.index(table)?.free.pop() {
            return Ok(at);
        }
        let slots = self.superblock().table_slots;
        let trie = table.trie.as_mut().ok_or(Error::Full { slots })?;
        let clusters = NameClusters::of(self, trie);
        trie.take_record(&clusters)
    }

    /// Puts a new object's record on media, as `creating`, and its name in its place. Fenced on
    /// return.
    pub(crate) fn claim_record(&self, table: &mut Table, entry: &Entry) -> Result<()> {
        let superblock = self.superblock();
        table.depart(&superblock, entry.at)?;
        record::write(&self.media, entry.at, entry);
        self.media.fence(); // STORE-3, NAMES-5
        record::set_state(&self.media, entry.at, crate::layout::STATE_CREATING);
        self.media.fence();
        table.add(entry);
        match &mut table.trie {
            Some(trie) => {
                let clusters = NameClusters::of(self, trie);
                trie.burst_due(&clusters)?;
                trie.prepare(&clusters)?;
                Ok(trie.insert(entry.at, entry.name.as_bytes())?)
            }
            None => Ok(()),
        }
    }
}
