//! Attaching a store: validate, then repair what a crash left. Every step can be crashed and taken again.
//!
//!   1. choose a whole superblock, read words and table; nothing is changed before all of this was good (STORE-2)
//!      and after a process that died, what was read is flushed and fenced before anything is built on it (STORE-8)
//!   2. write a torn or stale superblock copy again
//!   3. count the opening: the generation of volatile areas and of object ids
//!   4. release what is `creating` or `removing`
//!   5. take growths back that were in flight
//!
//! Invariants
//!   STORE-8  Nothing recovery stores survives without what it read: a dead process may have left that unflushed.
//!
//! Cost: two superblocks, the table and one page for each object, whatever the data.

use crate::catalogue::{self, Slot};
use crate::layout::{SUPERBLOCKS, Superblock, header};
use crate::store::{Inner, Table};
use crate::superblock::{self, Words};
use crate::{Error, HEADER_LEN, Result, Store, object};
use everbyte_media::Media;
use everbyte_space::{CLUSTER, Space, SpaceLayout};
use parking_lot::{Mutex, RwLock};
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
    /// [`Error::NotAStore`], [`Error::Unfinished`], [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Truncated`]:
    /// nothing has been changed then. [`Error::Media`].
    pub fn attach(media: Media) -> Result<Store> {
        let (superblock, stale) = superblock::choose(&media)?;
        let mut words = Words::read(&media)?;
        let slots = catalogue::read(&media, &superblock);

        if words.closed != words.opened || words.opened == 0 {
            adopt(&media, &superblock, &slots); // STORE-8
        }
        let clean = words.closed == words.opened;
        let mut recovery = Recovery { clean, words: Words::bad(&media), ..Recovery::default() };
        if !stale.is_empty() {
            superblock::write(&media, superblock, &stale)?;
            recovery.superblocks = stale;
        }
        let known = known_end(&media, superblock.spans_at, &slots).max(words.accounted);
        let len = media.len().max(media.found_len()).min(superblock.max).next_multiple_of(CLUSTER);
        if known < len {
            // Bytes that nobody accounts for: an extension that did not come to count, or somebody's doing.
            recovery.unknown = len - known;
            let start = if words.suspect.is_empty() { known } else { words.suspect.start.min(known) };
            words.suspect = start & !(CLUSTER - 1)..words.suspect.end.max(len);
        }
        words.accounted = known.max(len);
        words.opened = words.opened.max(words.closed) + 1;
        words.write(&media);
        media.fence();
        let inner = Inner::new(media, superblock, words, slots);
        inner.settle_slots(&mut recovery);
        inner.settle_growths(&mut recovery);
        inner.media.barrier()?;
        Ok(Store { inner: Arc::new(Inner { recovery, ..inner }) })
    }
}

/// The store on media that other processes have recovered and use: changes nothing.
pub(crate) fn join(media: Media) -> Result<Store> {
    let (superblock, _) = superblock::choose(&media)?;
    let words = Words::read(&media)?;
    let inner = Inner::new(media, superblock, words, Vec::new());
    let recovery = Recovery { clean: true, ..Recovery::default() };
    Ok(Store { inner: Arc::new(Inner { recovery, ..inner }) })
}

/// Flushes and fences what the decisions of recovery rest on.
fn adopt(media: &Media, superblock: &Superblock, slots: &[Slot]) {
    for at in SUPERBLOCKS {
        media.adopt(at, size_of::<Superblock>() as u64);
    }
    for (index, slot) in slots.iter().enumerate() {
        media.adopt(catalogue::record_at(superblock, index), 8);
        if let Some(entry) = slot.entry().filter(|entry| media.holds(entry.span.at(), HEADER_LEN)) {
            media.adopt(entry.span.at(), HEADER_LEN);
        }
    }
    media.fence();
}

/// One past the last byte that the store accounts for.
fn known_end(media: &Media, spans_at: u64, slots: &[Slot]) -> u64 {
    let reach = |slot: &Slot| object::read_header(media, slot.entry()?).ok().map(|extent| extent.reach);
    slots.iter().filter_map(reach).max().unwrap_or(0).max(spans_at)
}

impl Inner {
    fn new(media: Media, superblock: Superblock, words: Words, slots: Vec<Slot>) -> Inner {
        let Superblock { bitmap_at, used_at, bitmap_len, .. } = superblock;
        let space = Space::new(media.clone(), SpaceLayout { bitmap_at, used_at, bitmap_len });
        space.suspect(words.suspect.clone());
        Inner {
            held: Mutex::default(),
            media,
            current: RwLock::new(superblock),
            space,
            gate: RwLock::new(()),
            table: Mutex::new(Table::new(slots)),
            generation: words.opened,
            created: AtomicU64::new(0),
            words: Mutex::new(words),
            recovery: Recovery::default(),
            shared: OnceLock::new(),
        }
    }

    /// Steps 4 and 5 for a process that died in its turn, while others go on. The caller has the turn after it.
    pub(crate) fn inherit(&self) -> Result<()> {
        let superblock = self.superblock();
        let slots = catalogue::read(&self.media, &superblock);
        adopt(&self.media, &superblock, &slots); // STORE-8
        self.table.lock().slots = slots;
        let mut recovery = Recovery::default();
        self.settle_slots(&mut recovery);
        self.settle_growths(&mut recovery);
        Ok(self.media.barrier()?)
    }

    /// Step 4.
    fn settle_slots(&self, recovery: &mut Recovery) {
        let mut table = self.table.lock();
        for index in 0..table.slots.len() {
            match &table.slots[index] {
                Slot::Creating(entry) => recovery.creations.push(entry.name.clone()),
                Slot::Removing(entry) => recovery.removals.push(entry.name.clone()),
                Slot::Free | Slot::Live(_) | Slot::Damaged(_) => continue,
            }
            self.release_slot(&mut table, index);
        }
    }

    /// Step 5. A header that is damaged is left alone: opening its object reports it.
    fn settle_growths(&self, recovery: &mut Recovery) {
        let table = self.table.lock();
        for slot in &table.slots {
            let Slot::Live(entry) = slot else { continue };
            let Ok(extent) = object::read_header(&self.media, entry) else { continue };
            if extent.reach == extent.backed {
                continue;
            }
            let flight = extent.backed..extent.reach;
            self.space.unmark(&flight);
            self.media.fence(); // the bits before the word that speaks for them (STORE-5)
            object::set_word(&self.media, entry.span.at() + header::REACH, extent.backed);
            self.media.fence();
            self.space.forget(flight);
            recovery.growths.push(entry.name.clone());
        }
    }

    /// The extent of a live object, as an error that says where it is damaged.
    pub(crate) fn extent(&self, entry: &catalogue::Entry) -> Result<object::Extent> {
        let truncated = |needed| Error::Truncated { path: self.media.path().into(), len: self.media.len(), needed };
        if !self.media.holds(entry.span.at(), CLUSTER) {
            return Err(truncated(entry.span.at() + CLUSTER));
        }
        let extent = object::read_header(&self.media, entry).map_err(|(at, detail)| Error::Damaged {
            path: self.media.path().into(),
            what: "an object",
            at,
            detail: format!("`{}`: {detail}", entry.name),
        })?;
        if extent.backed > self.media.len() {
            return Err(truncated(extent.backed));
        }
        Ok(extent)
    }
}
