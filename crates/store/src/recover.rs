//! Attaching a store: validate, then repair what a crash left. Every step can be crashed and taken
//! again.
//!
//!   1. choose a whole superblock, read words and table; nothing is changed before all of this was
//!      good (STORE-2) and after a process that died, what was read is flushed and fenced before
//!      anything is built on it (STORE-8)
//!   2. write a torn or stale superblock copy again
//!   3. count the opening: the generation of volatile areas and of object ids
//!   4. settle the change of the trie that was in flight (`names`)
//!   5. release what is `creating` or `removing`, and finish or take back what `replaces`, in the
//!      table and among records in flight
//!   6. take growths back that were in flight
//!
//! Invariants
//!   STORE-8  Nothing recovery stores survives without what it read: a dead process may have left
//!            that unflushed.
//!
//! Cost: two superblocks, the table of 256 records and a page for each of them, and what was in
//! flight: whatever the number of objects and their data.

use crate::background::Background;
use crate::catalogue::name_space::{self, NameTrie};
use crate::catalogue::record::{self, Entry, Slot};
use crate::catalogue::table::Table;
use crate::layout::{Record, SUPERBLOCKS, Superblock, header};
use crate::store::Inner;
use crate::superblock::{self, Words};
use crate::{Error, HEADER_LEN, PRIME_LEN, Result, Store, object};
use everbyte_media::{Damage, Media, seeded};
use everbyte_space::{Bitmap, CLUSTER, Space, SpaceLayout};
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// What opening a store found and put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the last process closed the store.
    pub clean: bool,
    /// Copies of the superblock that were written again, by offset.
    pub superblocks: Vec<u64>,
    /// Words beside the superblocks that failed their check bits and were written again, by offset.
    pub words: Vec<u64>,
    /// Creations that were interrupted, by name; nothing is left of them.
    pub creations: Vec<String>,
    /// Removals that were interrupted and have been finished, by name.
    pub removals: Vec<String>,
    /// Objects that had a growth in flight, which was taken back.
    pub growths: Vec<String>,
    /// Bytes at the end of the file that the store does not know.
    pub unknown: u64,
}

impl Store {
    /// The store on media that is already open, recovered.
    ///
    /// # Errors
    /// [`Error::NotAStore`], [`Error::Unfinished`], [`Error::NewerFormat`], [`Error::Damaged`],
    /// [`Error::Truncated`]: nothing has been changed then. [`Error::Media`].
    pub fn attach(media: Media) -> Result<Store> {
        let (superblock, stale) = superblock::choose(&media)?;
        let mut words = Words::read(&media)?;
        let slots = record::read_all(&media, &superblock, record::places(&superblock));
        let clean = words.closed == words.opened;
        let trie = name_space::find(&media, &superblock, &slots, !clean)?;

        if !clean || words.opened == 0 {
            adopt(&media, &superblock, &slots); // STORE-8
        }
        let mut recovery = Recovery { clean, words: Words::bad(&media), ..Recovery::default() };
        if !stale.is_empty() {
            superblock::write(&media, superblock, &stale)?;
            recovery.superblocks = stale;
        }
        let len = media.len().max(media.found_len()).min(superblock.end()).next_multiple_of(CLUSTER);
        let used = Bitmap::new(superblock.used_at, superblock.bitmap_len);
        let used = used.end(&media, superblock.spans_at..len.max(superblock.spans_at));
        let known = used.max(words.accounted);
        if known < len {
            // Bytes that nobody accounts for: an extension that did not come to count, or
            // somebody's doing.
            recovery.unknown = len - known;
            let start = if words.suspect.is_empty() { known } else { words.suspect.start.min(known) };
            words.suspect = start & !(CLUSTER - 1)..words.suspect.end.max(len);
        }
        if recovery.unknown > 0 && !seeded("store-suspect-unordered") {
            words.write_suspect(&media);
            media.fence(); // before the count that says that nothing is unknown any more
        }
        words.accounted = known.max(len);
        words.opened = words.opened.max(words.closed) + 1;
        words.write(&media);
        media.fence();
        let table = Table::new(&superblock, &slots, trie);
        let inner = Inner::new(media, superblock, words, table);
        inner.settle(slots, &mut recovery)?;
        inner.media.barrier()?;
        let media = &inner.media;
        inner.limit_media(&inner.superblock());
        inner.background.keep(media.capabilities().shared && !media.is_recorded() && !media.opened().read_only);
        Ok(Store { inner: Arc::new(Inner { recovery, ..inner }) })
    }
}

/// The store on media that other processes have recovered and use: changes nothing. Its first turn
/// shows it the names.
pub(crate) fn join(media: Media) -> Result<Store> {
    let (superblock, _) = superblock::choose(&media)?;
    let words = Words::read(&media)?;
    let inner = Inner::new(media, superblock, words, Table::default());
    inner.limit_media(&inner.superblock());
    let recovery = Recovery { clean: true, ..Recovery::default() };
    Ok(Store { inner: Arc::new(Inner { recovery, ..inner }) })
}

/// The path of the media's file. Recorded media have none, and backing files that bear their name.
fn home_of(media: &Media) -> Option<PathBuf> {
    let found = media.path().canonicalize().ok();
    found.or_else(|| media.is_recorded().then(|| media.path().into()))
}

/// Flushes and fences what the decisions of recovery rest on.
fn adopt(media: &Media, superblock: &Superblock, slots: &[(u64, Slot)]) {
    for at in SUPERBLOCKS {
        media.reflush(at, size_of::<Superblock>() as u64);
    }
    record::places(superblock).for_each(|at| media.reflush(at, 8));
    for (_, slot) in slots {
        let Some(entry) = slot.entry() else { continue };
        // An object that is being made may have no first cluster yet.
        if matches!(slot, Slot::Live(_)) || !media.is_hole(entry.span.at(), PRIME_LEN) {
            adopt_header(media, entry);
        }
    }
    media.fence();
}

fn adopt_header(media: &Media, entry: &Entry) {
    if media.holds(entry.span.at(), HEADER_LEN) {
        media.reflush(entry.span.at(), HEADER_LEN);
    }
}

impl Inner {
    fn new(media: Media, superblock: Superblock, words: Words, table: Table) -> Inner {
        let Superblock { bitmap_at, used_at, bitmap_len, .. } = superblock;
        let space = Arc::new(Space::new(media.clone(), SpaceLayout { bitmap_at, used_at, bitmap_len }));
        space.suspect(words.suspect.clone());
        Inner {
            background: Background::new(Arc::clone(&space)),
            held: Mutex::default(),
            home: home_of(&media),
            media,
            current: RwLock::new(superblock),
            space,
            gate: RwLock::new(()),
            counting: Mutex::default(),
            table: Mutex::new(table),
            generation: words.opened,
            created: AtomicU64::new(0),
            words: Mutex::new(words),
            recovery: Recovery::default(),
            shared: OnceLock::new(),
            files: OnceLock::new(),
        }
    }

    /// Steps 4 to 6 for a process that died in its turn, while others go on. The caller has the
    /// turn after it.
    pub(crate) fn inherit(&self) -> Result<()> {
        let slots = self.refresh_table(true)?;
        adopt(&self.media, &self.superblock(), &slots); // STORE-8
        self.settle(slots, &mut Recovery::default())?;
        Ok(self.media.barrier()?)
    }

    /// Forgets what this process remembers of names and records, which others have changed, and
    /// reads again what opening reads. Returns the records of the table.
    pub(crate) fn refresh_table(&self, adopting: bool) -> Result<Vec<(u64, Slot)>> {
        let (superblock, _) = superblock::choose(&self.media)?;
        *self.current.write() = superblock;
        let slots = record::read_all(&self.media, &superblock, record::places(&superblock));
        let mut table = self.table.lock();
        let adopting = adopting || !self.recovery.clean || table.trie.as_ref().is_some_and(NameTrie::reflushes);
        let trie = name_space::find(&self.media, &superblock, &slots, adopting)?;
        table.refresh(Table::new(&superblock, &slots, trie));
        Ok(slots)
    }

    /// Steps 4 to 6. What is damaged is left alone: using it reports it.
    fn settle(&self, slots: Vec<(u64, Slot)>, recovery: &mut Recovery) -> Result<()> {
        let mut table = self.table.lock();
        let table = &mut *table;
        if let Some(trie) = &mut table.trie {
            let entry = trie.records().entry.clone();
            self.settle_growth(&entry, recovery);
            trie.recover_intents()?;
            let flights = trie.pending_changes();
            for (slot, at) in flights {
                table.found_flying(slot, at);
                let found = record::read(&self.media, &self.superblock(), at);
                if let Some(entry) = found.entry() {
                    self.media.reflush(at, size_of::<Record>() as u64);
                    if !self.media.is_hole(entry.span.at(), PRIME_LEN) {
                        adopt_header(&self.media, entry);
                    }
                }
                self.media.fence(); // STORE-8
                self.settle_slot(table, &found, recovery);
                table.arrive(at);
            }
        }
        for (_, slot) in slots {
            self.settle_slot(table, &slot, recovery);
        }
        Ok(())
    }

    fn settle_slot(&self, table: &mut Table, slot: &Slot, recovery: &mut Recovery) {
        if self.settle_rename(table, slot) {
            return;
        }
        let (entry, list) = match slot {
            Slot::Creating(entry) => (entry, &mut recovery.creations),
            Slot::Removing(entry) => (entry, &mut recovery.removals),
            Slot::Live(entry) => return self.settle_growth(entry, recovery),
            Slot::Free | Slot::Replacing(_) | Slot::Damaged(_) => return,
        };
        list.push(entry.name.clone());
        let _ = self.release_record(table, entry); // a damaged name space is for `check` to report
    }

    /// Takes a growth back that was in flight.
    fn settle_growth(&self, entry: &Entry, recovery: &mut Recovery) {
        let Ok(extent) = object::read_header(&self.media, entry) else { return };
        if extent.tail_reach != extent.tail {
            self.space.clear_backed(&(entry.span.end() - extent.tail_reach..entry.span.end()));
            self.media.fence(); // as below
            object::set_word(&self.media, entry.span.at() + header::TAIL_REACH, extent.tail);
            self.media.fence();
        }
        if extent.reach == extent.backed {
            return;
        }
        let flight = extent.backed..extent.reach;
        self.space.clear_backed(&flight);
        self.media.fence(); // the bits before the word that speaks for them (STORE-5)
        object::set_word(&self.media, entry.span.at() + header::REACH, extent.backed);
        self.media.fence();
        self.space.list_released(flight);
        recovery.growths.push(entry.name.clone());
    }

    /// The extent of a live object, as an error that says where it is damaged.
    pub(crate) fn extent(&self, entry: &record::Entry) -> Result<object::Extent> {
        let truncated = |needed| Error::Truncated { path: self.media.path().into(), len: self.media.len(), needed };
        if !self.media.holds(entry.span.at(), PRIME_LEN) {
            return Err(truncated(entry.span.at() + PRIME_LEN));
        }
        let extent = object::read_header(&self.media, entry).map_err(|(at, detail)| {
            Error::from(Damage::at(at, detail).of_file(self.media.path()).of_object(&entry.name))
        })?;
        if extent.needed(entry) > self.media.len() {
            return Err(truncated(extent.needed(entry)));
        }
        Ok(extent)
    }
}
