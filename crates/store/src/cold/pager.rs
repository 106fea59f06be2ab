//! [`Pager`]: lets clusters of one object grow cold, and brings them back. The order of its steps
//! is that of `cold/mod.rs`.

use super::backing::{Backing, Files};
use super::queue::{Queue, Slots};
use super::table::{Place, Table};
use crate::{Error, Result};
use everbyte_media::{Media, Watch, Watcher, seeded};
use everbyte_space::CLUSTER;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Clusters that are put aside at a time, at least; so that a sync is shared.
const BATCH: usize = 8;

/// What an open object has of its cold clusters: whoever drops it shows the pages again.
pub(crate) struct Cold {
    pub pager: Arc<Pager>,
    _watch: Option<Watch>,
}

impl Cold {
    /// From now on touches are heard of, where that is possible; elsewhere everything comes back at
    /// once.
    pub(crate) fn begin(pager: Arc<Pager>) -> Result<Cold> {
        let watch = match pager.hearing {
            Hearing::Faults => {
                let watch = pager.media.watch(pager.bytes_of(0..pager.table.clusters()), Arc::clone(&pager) as _)?;
                pager.hide_all()?;
                Some(watch)
            }
            Hearing::Calls => None,
            Hearing::Nothing => {
                pager.warm_all()?;
                None
            }
        };
        Ok(Cold { pager, _watch: watch })
    }
}

impl Drop for Cold {
    fn drop(&mut self) {
        self.pager.show_all();
    }
}

/// How a pager hears that somebody touches a cold cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hearing {
    /// By faults.
    Faults,
    /// By calls before.
    Calls,
    /// Not at all: nothing may be cold while the object is open.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    /// Not backed.
    Absent,
    Warm,
    /// In memory, and hidden.
    Aside,
    Cold,
}

pub(crate) struct Pager {
    media: Media,
    prime: u64,
    table: Table,
    backing: Backing,
    hearing: Hearing,
    state: Mutex<State>,
}

struct State {
    /// By cluster of the span, as far as any was ever backed.
    pages: Vec<Page>,
    queue: Queue,
    slots: Slots,
    /// How many clusters may be in memory.
    frames: usize,
    buffer: Vec<u8>,
}

impl State {
    fn page(&self, cluster: u32) -> Page {
        self.pages.get(cluster as usize).copied().unwrap_or(Page::Absent)
    }

    fn set(&mut self, cluster: u32, page: Page) {
        let index = cluster as usize;
        if self.pages.len() <= index {
            self.pages.resize(index + 1, Page::Absent);
        }
        self.pages[index] = page;
    }
}

impl Pager {
    /// Reads the table: what is cold, and which slots are in use. `backed` says of each cluster
    /// whether the object has it.
    ///
    /// # Errors
    /// Where a word makes no sense, and why.
    pub(crate) fn new(
        media: &Media,
        prime: u64,
        (table, backing): (Table, Backing),
        (hearing, frames): (Hearing, usize),
        backed: &[bool],
    ) -> Result<Pager, (u64, String)> {
        let mut pages = vec![Page::Absent; backed.len()];
        let (mut used, mut queue, mut cleared) = (Vec::new(), Queue::default(), false);
        for cluster in 1..table.clusters() {
            let place = table.get(cluster);
            let Some(true) = backed.get(cluster as usize) else {
                if place != Place::Here {
                    // a growth or a release that did not come to its end
                    table.set(cluster, Place::Here);
                    cleared = true;
                }
                continue;
            };
            if let Place::Slot { slot, .. } = place {
                if slot >= table.clusters() {
                    return Err((prime, format!("the word of cluster {cluster} in its cold table leads nowhere")));
                }
                used.push(slot);
            }
            pages[cluster as usize] = if place == Place::Here { Page::Aside } else { Page::Cold };
            if place == Place::Here {
                queue.put_aside(cluster);
            }
        }
        if cleared {
            media.fence();
        }
        let slots = Slots::without(used);
        // COLD-3
        let slots = slots.map_err(|slot| (prime, format!("two words of its cold table lead to slot {slot}")))?;
        let state = State { pages, queue, slots, frames, buffer: vec![0; CLUSTER as usize] };
        Ok(Pager { media: media.clone(), prime, table, backing, hearing, state: state.into() })
    }

    /// Whether cold clusters may stay cold while the object is open.
    pub(crate) fn is_lazy(&self) -> bool {
        self.hearing != Hearing::Nothing
    }

    fn at(&self, cluster: u32) -> u64 {
        self.prime + u64::from(cluster) * CLUSTER
    }

    fn bytes_of(&self, clusters: Range<u32>) -> Range<u64> {
        self.at(clusters.start)..self.at(clusters.end)
    }

    /// The clusters of a range of whole ones, without the first (COLD-4).
    fn clusters_of(&self, range: &Range<u64>) -> Range<u32> {
        let index = |at: u64| (at.saturating_sub(self.prime) / CLUSTER) as u32;
        index(range.start).max(1)..index(range.end)
    }

    fn protect(&self, clusters: Range<u32>, shown: bool) -> Result<()> {
        if self.hearing != Hearing::Faults || clusters.is_empty() {
            return Ok(());
        }
        let Range { start, end } = self.bytes_of(clusters);
        Ok(self.media.protect(start, end - start, (shown, shown))?)
    }

    fn hide_all(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        self.protect(1..state.pages.len() as u32, false)?;
        let mut first = 0;
        for run in state.pages.chunk_by(|one, next| one == next) {
            if run[0] == Page::Cold {
                // A process that died may have left frames that count no more.
                self.media.punch(self.at(first), run.len() as u64 * CLUSTER);
            }
            first += run.len() as u32;
        }
        self.make_room(state, 0)
    }

    fn show_all(&self) {
        let end = self.state.lock().pages.len() as u32;
        let _ = self.protect(1..end, true); // nobody has a reason to touch them any more
    }

    /// Lets those clusters of a range grow cold that are in memory.
    pub(crate) fn cool(&self, range: &Range<u64>) -> Result<()> {
        let state = &mut *self.state.lock();
        let here = self.clusters_of(range).filter(|&cluster| matches!(state.page(cluster), Page::Warm | Page::Aside));
        let here: Vec<u32> = here.collect();
        here.iter().for_each(|&cluster| state.queue.remove(cluster));
        self.put_away(state, &here)
    }

    /// Brings the cold clusters of a range back.
    pub(crate) fn warm(&self, range: &Range<u64>) -> Result<()> {
        self.clusters_of(range).try_for_each(|cluster| self.touch(cluster).map(drop))
    }

    /// Brings everything back, whatever the limit: for those who cannot hear of touches, or want
    /// none.
    pub(crate) fn warm_all(&self) -> Result<()> {
        let end = {
            let mut state = self.state.lock();
            state.frames = usize::MAX;
            state.pages.len() as u32
        };
        self.warm(&self.bytes_of(1..end))
    }

    /// Somebody touches a cluster: it shows when this returns. `false`: there is none.
    fn touch(&self, cluster: u32) -> Result<bool> {
        let state = &mut *self.state.lock();
        match state.page(cluster) {
            Page::Absent => return Ok(false),
            Page::Warm => return Ok(true), // somebody else was here first
            Page::Aside => {}
            Page::Cold => {
                self.make_room(state, 1)?;
                self.bring_back(state, cluster)?;
            }
        }
        self.protect(cluster..cluster + 1, true)?;
        state.set(cluster, Page::Warm);
        state.queue.warm(cluster);
        Ok(true)
    }

    /// Lets clusters grow cold until so many more have room.
    fn make_room(&self, state: &mut State, more: usize) -> Result<()> {
        let over = (state.queue.len() + more).saturating_sub(state.frames);
        if over == 0 {
            return Ok(());
        }
        let count = over.max(BATCH.min(state.frames / 8));
        while let Some(cluster) = state.queue.next_aside(count.max(state.frames / 4)) {
            self.protect(cluster..cluster + 1, false)?;
            state.set(cluster, Page::Aside);
        }
        let chosen: Vec<u32> = std::iter::from_fn(|| state.queue.oldest()).take(count).collect();
        self.put_away(state, &chosen)
    }

    /// Lets these clusters grow cold, which are in memory and out of the queue. On an error all of
    /// them stay, hidden.
    fn put_away(&self, state: &mut State, chosen: &[u32]) -> Result<()> {
        let mut places = Vec::with_capacity(chosen.len());
        let copied = self.copy_out(state, chosen, &mut places);
        let synced = copied.and_then(|()| if seeded("store-cold-unsynced") { Ok(()) } else { self.backing.sync() });
        if let Err(error) = synced {
            for &cluster in chosen {
                state.set(cluster, Page::Aside);
                state.queue.put_aside(cluster);
            }
            places.iter().for_each(|&place| give_back(state, place));
            return Err(error);
        }
        // 3
        let drop_frames = || chosen.iter().for_each(|&cluster| self.media.punch(self.at(cluster), CLUSTER));
        if seeded("store-cold-frame-early") {
            drop_frames();
        }
        for (&cluster, &place) in chosen.iter().zip(&places) {
            self.table.set(cluster, place); // 2
            state.set(cluster, Page::Cold);
        }
        self.media.barrier()?;
        drop_frames();
        Ok(())
    }

    /// Step 1.
    fn copy_out(&self, state: &mut State, chosen: &[u32], places: &mut Vec<Place>) -> Result<()> {
        for &cluster in chosen {
            self.protect(cluster..cluster + 1, false)?; // COLD-2: from here on nobody stores to it
            self.media.read_beneath(self.at(cluster), &mut state.buffer)?;
            if state.buffer.iter().all(|&byte| byte == 0) {
                places.push(Place::Zeros);
                continue;
            }
            let slot = state.slots.take();
            places.push(Place::Slot { slot, checksum: crc32c::crc32c(&state.buffer) });
            self.backing.write(slot, &state.buffer)?;
        }
        Ok(())
    }

    /// Brings a cold cluster back to memory; it stays hidden.
    fn bring_back(&self, state: &mut State, cluster: u32) -> Result<()> {
        let (at, place) = (self.at(cluster), self.table.get(cluster));
        match place {
            Place::Slot { slot, checksum } => self.backing.read(slot, checksum, at, &mut state.buffer)?,
            Place::Zeros | Place::Here => state.buffer.fill(0),
        }
        let filled = self.media.fill_beneath(at, &state.buffer); // 1
        filled.map_err(|source| Error::OutOfSpace { at, bytes: CLUSTER, source })?;
        self.table.set(cluster, Place::Here); // 2
        if !seeded("store-slot-early") {
            self.media.barrier()?;
        }
        state.set(cluster, Page::Aside);
        give_back(state, place); // 3
        Ok(())
    }

    /// Makes sure that clusters of the object can grow cold when it has `range`, too.
    ///
    /// # Errors
    /// [`Error::Backing`].
    pub(crate) fn reserve(&self, range: &Range<u64>) -> Result<()> {
        let state = self.state.lock();
        let backed = state.pages.iter().filter(|page| **page != Page::Absent).count() as u64;
        self.backing.reserve(backed + (range.end - range.start) / CLUSTER)
    }

    /// The object is about to be backed in `range`, where nothing is yet: there will be zeros,
    /// which need no memory before they are touched. Flushed; the caller fences.
    pub(crate) fn expect(&self, range: &Range<u64>) {
        self.clusters_of(range).for_each(|cluster| self.table.set(cluster, Place::Zeros));
    }

    /// The object is backed in `range`, as was expected.
    pub(crate) fn admit(&self, range: &Range<u64>) -> Result<()> {
        let state = &mut *self.state.lock();
        self.protect(self.clusters_of(range), false)?;
        self.clusters_of(range).for_each(|cluster| state.set(cluster, Page::Cold));
        // what was there counts no more (COLD-1)
        self.media.punch(range.start, range.end - range.start);
        Ok(())
    }

    /// The object has no clusters in `range` any more.
    pub(crate) fn forget(&self, range: &Range<u64>) -> Result<()> {
        let state = &mut *self.state.lock();
        let places: Vec<Place> = self.clusters_of(range).map(|cluster| self.table.get(cluster)).collect();
        for cluster in self.clusters_of(range) {
            state.queue.remove(cluster);
            state.set(cluster, Page::Absent);
            self.table.set(cluster, Place::Here);
        }
        self.media.barrier()?;
        places.into_iter().for_each(|place| give_back(state, place));
        Ok(())
    }

    /// Removes the backing file, of which the table needs nothing any more.
    pub(crate) fn remove_backing(&self, files: &dyn Files) {
        self.backing.remove(files);
    }
}

fn give_back(state: &mut State, place: Place) {
    if let Place::Slot { slot, .. } = place {
        state.slots.give(slot);
    }
}

impl Watcher for Pager {
    fn touched(&self, at: u64) -> bool {
        let cluster = (at - self.prime) / CLUSTER;
        self.touch(cluster as u32).unwrap_or_else(|error| {
            // The program is about to be killed for touching what cannot be had: it should at least
            // learn why.
            eprintln!("everbyte: offset {at:#x} was touched and cannot be brought to memory: {error}");
            false
        })
    }
}
