//! [`Catalogue`]: the part of an open store that owns names and records, behind one lock.
//!
//! Threads: any; [`Catalogue::lock`] gives a thread everything that the lock guards.

use super::cache::Known;
use super::ids::Ids;
use super::name_space::{self, NameClusters, NameTrie};
use super::record::{self, Entry, Slot};
use super::table::{CatalogueTable, Index};
use crate::layout::{STATE_CREATING, Superblock};
use crate::object::growth::Growth;
use crate::superblock::head::Head;
use crate::{Error, Result};
use everbyte_media::lock_order::{RankedMutex, RankedMutexGuard, rank};
use everbyte_media::museum::misplaced;
use everbyte_media::{Damage, Media};
use everbyte_names::LastClose;
use everbyte_space::ObjectId;
use std::sync::Arc;

/// The names and records of an open store.
pub(crate) struct Catalogue {
    media: Media,
    head: Arc<Head>,
    growth: Arc<Growth>,
    ids: Ids,
    /// Whether the store was not closed before this opening (STORE-8).
    last: LastClose,
    table: RankedMutex<{ rank::CATALOGUE }, CatalogueTable>,
}

/// The catalogue, locked by this thread.
pub(crate) struct LockedCatalogue<'c> {
    catalogue: &'c Catalogue,
    table: RankedMutexGuard<'c, CatalogueTable>,
}

/// A record in the list of pending changes; see [`Catalogue::begin_change`].
pub(crate) struct PendingChange<'c> {
    catalogue: &'c Catalogue,
    record: u64,
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        self.catalogue.lock().table().end_change(self.record);
    }
}

impl Catalogue {
    pub(crate) fn new(
        media: Media,
        (head, growth): (Arc<Head>, Arc<Growth>),
        ids: Ids,
        last: LastClose,
        table: CatalogueTable,
    ) -> Catalogue {
        Catalogue { media, head, growth, ids, last, table: RankedMutex::new(table) }
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> LockedCatalogue<'_> {
        LockedCatalogue { catalogue: self, table: self.table.lock() }
    }

    /// The ids of new objects.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Writes on media that an object grows, so that opening finds it, until the guard is dropped.
    pub(crate) fn begin_change(&self, record: u64) -> Option<PendingChange<'_>> {
        loop {
            let begun = self.lock().begin_change(record);
            match begun {
                Ok(begun) => {
                    // A guard of a record that was pending before would end that change.
                    misplaced("store-pending-left-early", || drop(PendingChange { catalogue: self, record }));
                    return begun.then(|| PendingChange { catalogue: self, record });
                }
                // the list is full; growing objects leave it soon
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Forgets the volatile state of names and records, which another process has changed, and
    /// reads again the bytes that opening reads. Returns the records of the table.
    pub(crate) fn refresh(&self, last: LastClose) -> Result<Vec<(u64, Slot)>> {
        let superblock = self.head.refresh()?;
        let slots = record::read_all(&self.media, &superblock, record::places(&superblock));
        let mut table = self.table.lock();
        let earlier = [Some(last), Some(self.last), table.trie.as_ref().map(NameTrie::last_close)];
        let crashed = earlier.contains(&Some(LastClose::Crashed));
        let last = if crashed { LastClose::Crashed } else { LastClose::Clean };
        let trie = name_space::find(&self.media, &superblock, &slots, last)?;
        *table = CatalogueTable::new(&superblock, &slots, trie);
        Ok(slots)
    }
}

impl<'c> LockedCatalogue<'c> {
    pub(crate) fn media(&self) -> &'c Media {
        &self.catalogue.media
    }

    pub(crate) fn head(&self) -> &'c Head {
        &self.catalogue.head
    }

    pub(crate) fn superblock(&self) -> Superblock {
        self.catalogue.head.superblock()
    }

    pub(crate) fn growth(&self) -> &'c Growth {
        &self.catalogue.growth
    }

    pub(crate) fn ids(&self) -> &'c Ids {
        &self.catalogue.ids
    }

    /// The volatile state.
    pub(crate) fn table(&mut self) -> &mut CatalogueTable {
        &mut self.table
    }

    /// The trie and its clusters, if the store has one.
    pub(crate) fn trie(&mut self) -> Option<(&mut NameTrie, NameClusters<'c>)> {
        let growth = self.growth();
        let trie = self.table.trie.as_mut()?;
        let clusters = NameClusters { growth, entry: trie.records().entry.clone() };
        Some((trie, clusters))
    }

    /// Adds a record to the list of pending changes; see [`CatalogueTable::begin_change`].
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn begin_change(&mut self, record: u64) -> Result<bool> {
        let superblock = self.superblock();
        self.table.begin_change(&superblock, record)
    }

    /// The record of this name, in any state.
    pub(crate) fn find(&mut self, name: &str) -> Result<Option<u64>> {
        if let Some(known) = self.table.known(name) {
            return Ok(Some(known.at));
        }
        let found = self.find_on_media(name)?;
        found.into_iter().for_each(|at| self.table.remember(name, Known { at, id: ObjectId::new(0) }));
        Ok(found)
    }

    /// The id of the live object of this name.
    pub(crate) fn find_id(&mut self, name: &str) -> Result<Option<ObjectId>> {
        if let Some(known) = self.table.known(name).filter(|known| known.id != 0) {
            return Ok(Some(known.id));
        }
        let Some(at) = self.find(name)? else { return Ok(None) };
        let id = record::live_id(self.media(), at);
        id.into_iter().for_each(|id| self.table.remember(name, Known { at, id }));
        Ok(id)
    }

    /// The record of this name by the trie. `None` also in a store without a trie, whose cache has
    /// all names.
    pub(crate) fn find_on_media(&mut self, name: &str) -> Result<Option<u64>> {
        self.table.trie.as_mut().map_or(Ok(None), |trie| Ok(trie.find(name.as_bytes())?))
    }

    /// The object of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`].
    pub(crate) fn live(&mut self, name: &str) -> Result<Entry> {
        let not_found = || Error::NotFound { name: name.into() };
        let at = self.find(name)?.ok_or_else(not_found)?;
        match record::read(self.media(), &self.superblock(), at) {
            Slot::Live(entry) => Ok(entry),
            Slot::Damaged(detail) => Err(self.damaged_record(at, detail)),
            Slot::Free | Slot::Creating(_) | Slot::Replacing(_) | Slot::Removing(_) => Err(not_found()),
        }
    }

    /// The objects whose names begin with `prefix`, ordered by name.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a record is damaged: the list would not be whole.
    pub(crate) fn list(&mut self, prefix: &str) -> Result<Vec<Entry>> {
        let superblock = self.superblock();
        let places = match &self.table.trie {
            Some(trie) => trie.list(prefix.as_bytes())?,
            None => {
                self.index()?;
                record::places(&superblock).collect()
            }
        };
        let mut found = Vec::new();
        for at in places {
            match record::read(self.media(), &superblock, at) {
                Slot::Live(entry) if entry.name.starts_with(prefix) => found.push(entry),
                Slot::Damaged(detail) => return Err(self.damaged_record(at, detail)),
                _ => {}
            }
        }
        if self.table.trie.is_none() {
            found.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(found)
    }

    /// Every record that is not free, checked against all others.
    pub(crate) fn all_slots(&self) -> Result<Vec<(u64, Slot)>> {
        let superblock = self.superblock();
        let more = self.table.trie.as_ref().map_or(Ok(vec![]), NameTrie::record_places)?;
        Ok(record::read_all(self.media(), &superblock, record::places(&superblock).chain(more)))
    }

    /// The free spans and records. The first call in a store with a trie reads every record.
    ///
    /// # Errors
    /// [`Error::Damaged`] while a record is damaged: its span and its name are unknown.
    pub(crate) fn index(&mut self) -> Result<&mut Index> {
        if !self.table.has_index() {
            let index = Index::new(&self.superblock(), &self.all_slots()?);
            self.table.set_index(index);
        }
        match self.table.damage() {
            Some((at, detail)) => Err(self.damaged_record(at, detail)),
            None => Ok(self.table.index()),
        }
    }

    fn damaged_record(&self, at: u64, detail: String) -> Error {
        let damage = Damage::at(at, format!("a record of the object table: {detail}"));
        Error::from(damage.of_file(self.media().path()))
    }

    /// A free record. The last of the table goes to the name space, which has further ones.
    ///
    /// # Errors
    /// As [`LockedCatalogue::promote`], and [`Error::Full`].
    pub(crate) fn free_record(&mut self) -> Result<u64> {
        let left = self.index()?.free_records();
        if left <= 1 && self.table.trie.is_none() {
            self.promote()?;
        }
        if let Some(at) = self.index()?.take_record() {
            return Ok(at);
        }
        let slots = self.superblock().table_slots;
        let (trie, clusters) = self.trie().ok_or(Error::Full { slots })?;
        trie.take_record(&clusters)
    }

    /// Gives a record back that is free on media.
    pub(crate) fn give_record(&mut self, at: u64) {
        let superblock = self.superblock();
        self.table.give_record(&superblock, at);
    }

    /// Writes a new object's record, as `creating`, and inserts its name. Fenced on return.
    pub(crate) fn claim_record(&mut self, entry: &Entry) -> Result<()> {
        self.begin_change(entry.at)?;
        record::write(self.media(), entry.at, entry);
        let ordered = self.media().fence_after(entry.at); // STORE-3, NAMES-5
        record::publish_state(self.media(), entry.at, STATE_CREATING, &ordered);
        self.media().fence();
        self.table.add(entry);
        match self.trie() {
            Some((trie, clusters)) => {
                trie.burst_due(&clusters)?;
                trie.prepare(&clusters)?;
                Ok(trie.insert(entry.at, entry.name.as_bytes())?)
            }
            None => Ok(()),
        }
    }
}
