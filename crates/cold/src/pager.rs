//! [`Pager`]: makes clusters of one object cold, and brings them back. The steps are those of the
//! crate's page.
//!
//! Design: docs/design/virtualisation.md

use crate::queue::{FreeSlots, Queue};
use crate::table::{ColdTable, Location};
use crate::{Error, Result, Tier};
use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::{ErrorInfo, Media, Watch, Watcher};
use everbyte_space::CLUSTER;
use std::ops::Range;
use std::sync::Arc;

/// The least number of clusters that become cold at a time, so that they share a sync.
const BATCH: usize = 8;

/// The paging of an open object. Dropping it shows all pages again.
pub struct Paging<T: Tier + 'static> {
    pager: Arc<Pager<T>>,
    _watch: Option<Watch>,
}

impl<T: Tier> Paging<T> {
    /// Begins to receive touches, where the pager has a source of them; otherwise brings every
    /// cluster back to memory.
    ///
    /// # Errors
    /// [`Error`].
    pub fn begin(pager: Pager<T>) -> Result<Paging<T>> {
        let pager = Arc::new(pager);
        let watch = match pager.touches {
            TouchSource::Faults => {
                let watch = pager.media.watch(pager.bytes_of(0..pager.table.clusters()), Arc::clone(&pager) as _)?;
                // without a watcher no thread could show them again
                pager.hide_all().inspect_err(|_| pager.show_all())?;
                Some(watch)
            }
            TouchSource::Calls => None,
            TouchSource::None => {
                pager.warm_all()?;
                None
            }
        };
        Ok(Paging { pager, _watch: watch })
    }

    /// The pager.
    pub fn pager(&self) -> &Pager<T> {
        &self.pager
    }
}

impl<T: Tier> Drop for Paging<T> {
    fn drop(&mut self) {
        self.pager.show_all();
    }
}

/// The source from which a pager learns that a thread touches a cold cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TouchSource {
    /// Page faults.
    Faults,
    /// Calls before the touch.
    Calls,
    /// None: no cluster may be cold while the object is open.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageState {
    /// Not backed.
    Absent,
    /// In memory, and shown.
    Warm,
    /// In memory, and hidden.
    Hidden,
    Cold,
}

/// The pager of one object.
pub struct Pager<T> {
    media: Media,
    prime: u64,
    table: ColdTable,
    tier: T,
    touches: TouchSource,
    state: RankedMutex<{ rank::COLD }, PagerState>,
}

struct PagerState {
    /// By cluster of the span, as far as any was ever backed.
    pages: Vec<PageState>,
    queue: Queue,
    slots: FreeSlots,
    /// How many clusters may be in memory.
    frames: usize,
    buffer: Vec<u8>,
    /// Places of clusters that are in memory again, as long as no barrier has settled that.
    left: Vec<(u32, Location)>,
}

impl PagerState {
    fn page(&self, cluster: u32) -> PageState {
        self.pages.get(cluster as usize).copied().unwrap_or(PageState::Absent)
    }

    fn set(&mut self, cluster: u32, page: PageState) {
        let index = cluster as usize;
        if self.pages.len() <= index {
            self.pages.resize(index + 1, PageState::Absent);
        }
        self.pages[index] = page;
    }

    /// Frees the slot that a cluster has left: its word is settled.
    fn give_back_left(&mut self, cluster: u32) {
        for (_, place) in self.left.extract_if(.., |(of, _)| *of == cluster) {
            give_back(&mut self.slots, place);
        }
    }
}

impl<T: Tier> Pager<T> {
    /// Reads the table: the cold clusters and the slots in use. `backed` says of each cluster
    /// whether the object has it; `frames` clusters may be in memory.
    ///
    /// # Errors
    /// The offset of a damaged word, and its description.
    pub fn new(
        media: &Media,
        prime: u64,
        (table, tier): (ColdTable, T),
        (touches, frames): (TouchSource, usize),
        backed: &[bool],
    ) -> Result<Pager<T>, (u64, String)> {
        let mut pages = vec![PageState::Absent; backed.len()];
        let (mut used, mut queue, mut cleared) = (Vec::new(), Queue::default(), false);
        for cluster in 1..table.clusters() {
            let place = table.get(cluster);
            let Some(true) = backed.get(cluster as usize) else {
                if place != Location::Memory {
                    // an interrupted growth or release
                    table.set(cluster, Location::Memory);
                    cleared = true;
                }
                continue;
            };
            if let Location::Slot { slot, .. } = place {
                if slot >= table.clusters() {
                    return Err((prime, format!("the word of cluster {cluster} in its cold table leads nowhere")));
                }
                used.push(slot);
            }
            pages[cluster as usize] = if place == Location::Memory { PageState::Hidden } else { PageState::Cold };
            if place == Location::Memory {
                queue.put_aside(cluster);
            }
        }
        if cleared {
            media.fence();
        }
        let slots = FreeSlots::without(used);
        // COLD-3
        let slots = slots.map_err(|slot| (prime, format!("two words of its cold table lead to slot {slot}")))?;
        let state = PagerState { pages, queue, slots, frames, buffer: vec![0; CLUSTER as usize], left: Vec::new() };
        Ok(Pager { media: media.clone(), prime, table, tier, touches, state: RankedMutex::new(state) })
    }

    /// Whether cold clusters may stay cold while the object is open.
    pub fn is_lazy(&self) -> bool {
        self.touches != TouchSource::None
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
        if self.touches != TouchSource::Faults || clusters.is_empty() {
            return Ok(());
        }
        let Range { start, end } = self.bytes_of(clusters);
        Ok(self.media.protect(start, end - start, (shown, shown))?)
    }

    /// Repeats `attempt` while the kernel refuses it a mapping. Each cluster that is shown between
    /// hidden ones costs the process two mappings, of which the kernel allows so many
    /// (`vm.max_map_count`). When none is left, an eighth of the shown clusters is hidden, those
    /// touched longest ago, so that the program has some mappings, too.
    fn with_mappings(&self, state: &mut PagerState, attempt: impl Fn(&PagerState) -> Result<()>) -> Result<()> {
        loop {
            match attempt(state) {
                Err(error) if is_out_of_mappings(&error) && self.hide_some(state)? > 0 => {}
                done => return done,
            }
        }
    }

    /// Hides or shows clusters.
    fn change_rights(&self, state: &mut PagerState, clusters: Range<u32>, shown: bool) -> Result<()> {
        self.with_mappings(state, |_| self.protect(clusters.clone(), shown))
    }

    /// Hides some of the clusters that are shown. Returns their number. A cluster between shown
    /// ones stays as it is: hiding it costs mappings, too.
    fn hide_some(&self, state: &mut PagerState) -> Result<usize> {
        let PagerState { queue, pages, .. } = state;
        queue.put_some_aside(queue.warm_len().div_ceil(8), |cluster| match self.protect(cluster..cluster + 1, false) {
            Ok(()) => {
                pages[cluster as usize] = PageState::Hidden;
                Ok(true)
            }
            Err(error) if is_out_of_mappings(&error) => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn hide_all(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        // no cluster is shown that could be hidden instead
        self.protect(1..state.pages.len() as u32, false)?;
        let mut first = 0;
        for run in state.pages.chunk_by(|one, next| one == next) {
            if run[0] == PageState::Cold {
                // A process that died may have left frames of cold clusters.
                self.media.punch(self.at(first), run.len() as u64 * CLUSTER);
            }
            first += run.len() as u32;
        }
        self.make_room(state, 0)
    }

    fn show_all(&self) {
        let end = self.state.lock().pages.len() as u32;
        let _ = self.protect(1..end, true); // no handle of the object is left
    }

    /// Makes those clusters of a range cold that are in memory. Settled on return.
    ///
    /// # Errors
    /// [`Error`]: nothing is lost, and the clusters stay in memory.
    pub fn cool(&self, range: &Range<u64>) -> Result<()> {
        let state = &mut *self.state.lock();
        let here = self
            .clusters_of(range)
            .filter(|&cluster| matches!(state.page(cluster), PageState::Warm | PageState::Hidden));
        let here: Vec<u32> = here.collect();
        here.iter().for_each(|&cluster| state.queue.remove(cluster));
        self.put_away(state, &here)
    }

    /// Brings the cold clusters of a range back to memory.
    ///
    /// # Errors
    /// [`Error`]: nothing is lost.
    pub fn warm(&self, range: &Range<u64>) -> Result<()> {
        self.clusters_of(range).try_for_each(|cluster| self.touch(cluster).map(drop))
    }

    /// Brings every cluster back, beyond the limit of frames: for pagers without a source of
    /// touches, and before a limit is lifted.
    ///
    /// # Errors
    /// [`Error`]: nothing is lost.
    pub fn warm_all(&self) -> Result<()> {
        let end = {
            let mut state = self.state.lock();
            state.frames = usize::MAX;
            state.pages.len() as u32
        };
        self.warm(&self.bytes_of(1..end))
    }

    /// Shows a cluster that a thread touches. `false`: the object has no such cluster.
    fn touch(&self, cluster: u32) -> Result<bool> {
        let state = &mut *self.state.lock();
        match state.page(cluster) {
            PageState::Absent => return Ok(false),
            PageState::Warm => return Ok(true), // another thread was first
            PageState::Hidden => {}
            PageState::Cold => {
                self.make_room(state, 1)?;
                self.bring_back(state, cluster)?;
            }
        }
        self.change_rights(state, cluster..cluster + 1, true)?;
        state.set(cluster, PageState::Warm);
        state.queue.warm(cluster);
        Ok(true)
    }

    /// Makes clusters cold until `more` frames are free.
    fn make_room(&self, state: &mut PagerState, more: usize) -> Result<()> {
        let over = (state.queue.len() + more).saturating_sub(state.frames);
        if over == 0 {
            return Ok(());
        }
        let count = over.max(BATCH.min(state.frames / 8));
        while let Some(cluster) = state.queue.next_aside(count.max(state.frames / 4)) {
            self.change_rights(state, cluster..cluster + 1, false)?;
            state.set(cluster, PageState::Hidden);
        }
        let chosen: Vec<u32> = std::iter::from_fn(|| state.queue.oldest()).take(count).collect();
        self.put_away(state, &chosen)
    }

    /// Makes these clusters cold, which are in memory and out of the queue. On an error all of them
    /// stay in memory, hidden.
    fn put_away(&self, state: &mut PagerState, chosen: &[u32]) -> Result<()> {
        let mut places = Vec::with_capacity(chosen.len());
        let copied = self.copy_out(state, chosen, &mut places);
        let synced = copied.and_then(|()| unless("store-cold-unsynced", || self.tier.sync()));
        if let Err(error) = synced {
            for &cluster in chosen {
                state.set(cluster, PageState::Hidden);
                state.queue.put_aside(cluster);
            }
            places.iter().for_each(|&place| give_back(&mut state.slots, place));
            return Err(error);
        }
        // 3
        let drop_frames = || chosen.iter().for_each(|&cluster| self.media.punch(self.at(cluster), CLUSTER));
        misplaced("store-cold-frame-early", drop_frames);
        for (&cluster, &place) in chosen.iter().zip(&places) {
            self.table.set(cluster, place); // 2
            state.set(cluster, PageState::Cold);
        }
        self.media.barrier()?;
        drop_frames();
        Ok(())
    }

    /// Step 1.
    fn copy_out(&self, state: &mut PagerState, chosen: &[u32], places: &mut Vec<Location>) -> Result<()> {
        for &cluster in chosen {
            // COLD-2: no store reaches it from here on
            self.change_rights(state, cluster..cluster + 1, false)?;
            self.media.read_beneath(self.at(cluster), &mut state.buffer)?;
            if state.buffer.iter().all(|&byte| byte == 0) {
                places.push(Location::Zeros);
                continue;
            }
            let slot = state.slots.take();
            places.push(Location::Slot { slot, checksum: crc32c::crc32c(&state.buffer) });
            self.tier.write(slot, &state.buffer)?;
        }
        Ok(())
    }

    /// Brings a cold cluster back to memory, steps 1 to 3; the page stays hidden. Repeated after an
    /// error of the barrier, when the bytes are in memory already.
    fn bring_back(&self, state: &mut PagerState, cluster: u32) -> Result<()> {
        let (at, place) = (self.at(cluster), self.table.get(cluster));
        if place != Location::Memory {
            match place {
                Location::Slot { slot, checksum } => self.tier.read(slot, checksum, at, &mut state.buffer)?,
                Location::Zeros | Location::Memory => state.buffer.fill(0),
            }
            let failed = |source| match source {
                everbyte_media::Error::Unreadable(_) => Error::Media(source), // the slot keeps the bytes
                source => Error::OutOfSpace { at, bytes: CLUSTER, source },
            };
            let fill = |state: &PagerState| self.media.fill_beneath(at, &state.buffer).map_err(failed);
            self.with_mappings(state, fill)?; // 1
            state.left.push((cluster, place));
        }
        self.table.set(cluster, Location::Memory); // 2
        self.media.barrier_unless("store-slot-early")?;
        state.set(cluster, PageState::Hidden);
        state.queue.put_aside(cluster);
        state.give_back_left(cluster); // 3
        Ok(())
    }

    /// Reserves slots for all clusters of the object, with those of `range`.
    ///
    /// # Errors
    /// As [`Tier::reserve`].
    pub fn reserve(&self, range: &Range<u64>) -> Result<()> {
        let state = self.state.lock();
        let backed = state.pages.iter().filter(|page| **page != PageState::Absent).count() as u64;
        self.tier.reserve(backed + (range.end - range.start) / CLUSTER)
    }

    /// Records that the object is about to be backed in `range`: the new clusters are cold zeros,
    /// which need no memory before a touch. Flushed; the caller fences.
    pub fn expect(&self, range: &Range<u64>) {
        self.clusters_of(range).for_each(|cluster| self.table.set(cluster, Location::Zeros));
    }

    /// Hides the clusters of `range`, with which the object is about to be backed: the one step of
    /// a growth that the kernel may refuse. `admit` follows, or nothing.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn hide(&self, range: &Range<u64>) -> Result<()> {
        let (state, clusters) = (&mut *self.state.lock(), self.clusters_of(range));
        if state.pages.len() < clusters.end as usize {
            // `show_all` reaches them then
            state.pages.resize(clusters.end as usize, PageState::Absent);
        }
        self.change_rights(state, clusters, false)
    }

    /// Adds the clusters of `range`, which the object has now; `hide` and `expect` preceded.
    pub fn admit(&self, range: &Range<u64>) {
        let state = &mut *self.state.lock();
        self.clusters_of(range).for_each(|cluster| state.set(cluster, PageState::Cold));
        // the frames of earlier owners do not count (COLD-1)
        self.media.punch(range.start, range.end - range.start);
    }

    /// Removes the clusters of `range`, which the object has released.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn forget(&self, range: &Range<u64>) -> Result<()> {
        let state = &mut *self.state.lock();
        let places: Vec<Location> = self.clusters_of(range).map(|cluster| self.table.get(cluster)).collect();
        for cluster in self.clusters_of(range) {
            state.queue.remove(cluster);
            state.set(cluster, PageState::Absent);
            self.table.set(cluster, Location::Memory);
        }
        self.media.barrier()?;
        self.clusters_of(range).for_each(|cluster| state.give_back_left(cluster));
        places.into_iter().for_each(|place| give_back(&mut state.slots, place));
        Ok(())
    }

    /// The tier.
    pub fn tier(&self) -> &T {
        &self.tier
    }
}

/// Whether the kernel refused because the process would have more mappings than it may.
fn is_out_of_mappings(error: &Error) -> bool {
    error.os_error() == Some(rustix::io::Errno::NOMEM.raw_os_error())
}

fn give_back(slots: &mut FreeSlots, place: Location) {
    if let Location::Slot { slot, .. } = place {
        slots.give(slot);
    }
}

impl<T: Tier> Watcher for Pager<T> {
    fn touched(&self, at: u64) -> bool {
        let cluster = (at - self.prime) / CLUSTER;
        self.touch(cluster as u32).unwrap_or_else(|error| {
            // The system is about to kill the process for this touch: its user needs the reason.
            eprintln!("everbyte: offset {at:#x} was touched and cannot be brought to memory: {error}");
            false
        })
    }
}

#[cfg(test)]
mod tests;
