//! [`Space`]: backs clusters, and releases them.
//!
//! To back a range, with the owner's fences between the lines:
//!   1. `reserve`: the file system gives space for the range and for the bitmaps' own pages;
//!      may fail, and then changes nothing
//!   2. `prepare`: clusters used before are zeroed by stores, and the `used` bits are set
//!   3. `set_backed`: the `backed` bits are set
//!
//! To release one: `release` clears the `backed` bits and fences; `punch` makes holes of clusters
//! whose release a checkpoint has passed. `release_and_keep` keeps them instead (`zeroing`).
//!
//! Invariants
//!   SPACE-2  The file system has given space before a bit is set: a full disk is an error at
//!            `reserve` and never a signal at a store.
//!   SPACE-3  A cluster whose `used` bit is clear and which is outside the suspect range reads as
//!            zeros; all others are zeroed by flushed stores before they are handed out again.
//!   SPACE-4  A range is punched only after a checkpoint has passed its release, and never after it
//!            was reserved again.
//!   SPACE-8  A refused reservation gives back the file space that the file system had already
//!            given: only of clusters without an owner, never of a backed one.
//!
//! Threads: any; bitmap words are changed under one lock. Elsewhere: the states of clusters without
//! an owner (`states`), and the order of owner words that makes a growth atomic (`store`).

use crate::states::{ClusterState, ClusterStates, StateKind};
use crate::zeroing::ZeroedParts;
use crate::{Bitmap, CLUSTER, PREPARE_STEP, Result};
use everbyte_media::lock_order::{RankedMutex, RankedRwLock, rank};
use everbyte_media::{Media, Offset, seeded};
use parking_lot::Condvar;
use std::collections::BTreeSet;
use std::ops::Range;

/// The places of the two bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLayout {
    /// The bitmap of backed clusters.
    pub bitmap_at: u64,
    /// The bitmap of clusters that were ever handed out.
    pub used_at: u64,
    /// Bytes of each.
    pub bitmap_len: u64,
}

/// The backing of one store.
pub struct Space {
    media: Media,
    backed: Bitmap,
    used: Bitmap,
    /// Bytes of the file that did not come from the store: unused, yet perhaps not zeros.
    suspect: RankedRwLock<{ rank::SUSPECT }, Range<u64>>,
    pub(crate) volatile: RankedMutex<{ rank::CLUSTERS }, SpaceMemory>,
    /// Signalled when a range leaves [`ClusterState::Zeroing`].
    pub(crate) zeroing_ended: Condvar,
}

/// The part of a [`Space`] that memory alone holds.
#[derive(Default)]
pub(crate) struct SpaceMemory {
    pub(crate) states: ClusterStates,
    /// Pages of the bitmaps that are known to be backed in this session.
    pages: BTreeSet<u64>,
}

impl Space {
    /// The space described by `layout`. Reads nothing.
    pub fn new(media: Media, layout: SpaceLayout) -> Space {
        Space {
            media,
            backed: Bitmap::new(layout.bitmap_at, layout.bitmap_len),
            used: Bitmap::new(layout.used_at, layout.bitmap_len),
            suspect: RankedRwLock::new(0..0),
            volatile: RankedMutex::default(),
            zeroing_ended: Condvar::new(),
        }
    }

    /// The media of the store.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// The bitmap of backed clusters, for walks.
    pub fn bitmap(&self) -> &Bitmap {
        &self.backed
    }

    /// The bitmap of clusters ever handed out, for walks.
    pub fn used(&self) -> &Bitmap {
        &self.used
    }

    /// Declares that `range` of the file may hold any bytes, though the store never used it.
    pub fn suspect(&self, range: Range<u64>) {
        *self.suspect.write() = range;
    }

    /// Asks the file system for space for whole clusters (SPACE-2). No bit is set yet. Returns
    /// the parts that already read as zeros.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::Damaged`]: nothing has changed.
    ///
    /// # Panics
    /// If `range` is not whole clusters.
    pub fn reserve(&self, range: &Range<u64>) -> Result<ZeroedParts> {
        let taken = self.take_out(range); // before anything else
        let zeroed = taken.zeroed();
        let rest = zeroed.rest(range);
        let mut tried = 0;
        let backed = self.back_bitmaps(range).and_then(|()| {
            rest.iter().try_for_each(|rest| {
                tried += 1;
                self.extend(rest)
            })
        });
        match backed {
            Ok(()) => Ok(zeroed),
            Err(error) => {
                // the last part tried may have got some of its file space
                self.put_back(taken, &rest[..tried]);
                Err(error)
            }
        }
    }

    /// [`Space::reserve`] for clusters of which the owner uses only `part` for now.
    ///
    /// # Errors
    /// As [`Space::reserve`].
    ///
    /// # Panics
    /// If `range` is not whole clusters.
    pub fn reserve_part(&self, range: &Range<u64>, part: &Range<u64>) -> Result<()> {
        let mut taken = self.take_out(range); // before anything else
        self.punch_all(taken.take_zeroed().0); // more file space than asked for
        let backed = self.back_bitmaps(range).and_then(|()| self.extend(part));
        backed.inspect_err(|_| self.put_back(taken, std::slice::from_ref(range)))
    }

    /// Backs the pages of the bitmaps with the bits of `range` (SPACE-1).
    fn back_bitmaps(&self, range: &Range<u64>) -> Result<()> {
        assert!(
            range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER),
            "clusters are backed whole: {range:x?}"
        );
        for bitmap in [&self.backed, &self.used] {
            bitmap.require_good(&self.media, range)?;
            for page in bitmap.pages(range) {
                let known = self.volatile.lock().pages.contains(&page.start);
                if !known {
                    self.extend(&page)?;
                    bitmap.set_page_backed(&page);
                    self.volatile.lock().pages.insert(page.start);
                }
            }
        }
        Ok(())
    }

    /// Gets file space for the rest of a cluster of which only the first part was reserved and
    /// prepared, and zeroes it. The caller fences.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]: nothing has changed.
    pub fn complete(&self, rest: &Range<u64>) -> Result<()> {
        // The owner has not used it yet, so no data are lost.
        self.extend(rest).inspect_err(|_| self.media.punch(rest.start, rest.end - rest.start))?;
        let _section = self.media.section();
        self.media.zero(rest.start, rest.end - rest.start);
        self.media.flush(rest.start, rest.end - rest.start);
        Ok(())
    }

    /// [`Space::prepare`] for one cluster of which the owner uses only the first `part` bytes for
    /// now.
    pub fn prepare_part(&self, range: &Range<u64>, part: u64) {
        let _section = self.media.section();
        self.media.zero(range.start, part);
        self.media.flush(range.start, part);
        let _locked = self.volatile.lock();
        self.used.change(&self.media, range, true);
    }

    /// Makes a reserved range read as zeros, ordered by the caller's next fence (SPACE-3).
    pub fn prepare(&self, range: &Range<u64>, zeroed: &ZeroedParts) {
        let suspect = self.suspect.read().clone();
        for run in self.used.set_runs(&self.media, range.clone()) {
            zeroed.rest(&run).into_iter().for_each(|rest| self.zero(rest));
        }
        for run in self.used.clear_runs(&self.media, range.clone()) {
            let foreign = run.start.max(suspect.start) & !(CLUSTER - 1)..run.end.min(suspect.end);
            if foreign.start < foreign.end {
                self.zero(foreign.start..foreign.end.next_multiple_of(CLUSTER).min(run.end));
            }
        }
        let _section = self.media.section();
        let _locked = self.volatile.lock();
        self.used.change(&self.media, range, true);
    }

    /// Sets the `used` bits of a reserved range without zeroing it: stored and flushed. The owner
    /// stores to all of it before it is read.
    pub fn set_used(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _locked = self.volatile.lock();
        self.used.change(&self.media, range, true);
    }

    /// Zeroes by flushed stores, one section for each cluster so that checkpoints are not held up.
    pub(crate) fn zero(&self, range: Range<u64>) {
        for at in range.step_by(CLUSTER as usize) {
            let _section = self.media.section();
            self.media.zero(at, CLUSTER);
            self.media.flush_unless("space-zero-unflushed", at, CLUSTER);
        }
    }

    /// Sets the `backed` bits of a reserved range: stored and flushed, not fenced.
    pub fn set_backed(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _locked = self.volatile.lock();
        self.backed.change(&self.media, range, true);
    }

    /// Clears the `backed` bits, also of a change that was not published: stored and flushed, not
    /// fenced.
    pub fn clear_backed(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _locked = self.volatile.lock();
        self.backed.change(&self.media, range, false);
    }

    /// Refuses a range with a damaged word in its bitmap.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn require_good(&self, range: &Range<u64>) -> Result<()> {
        self.backed.require_good(&self.media, range)
    }

    /// Releases whole clusters: their bits are cleared and fenced on return; [`Space::punch`] gives
    /// the file space back later. A damaged word of the bitmap stays unchanged, for `check` to
    /// report.
    pub fn release(&self, range: &Range<u64>) {
        self.clear_backed(range);
        self.media.fence();
        self.list_released(range.clone());
    }

    /// Makes holes of released ranges that a checkpoint has passed (SPACE-4). Returns the bytes
    /// given back.
    pub fn punch(&self) -> u64 {
        // The lock is held over the punching: a reservation of such a range waits here, or has
        // taken it out before.
        let states = &mut self.volatile.lock().states;
        let checkpointed = |mark| self.media.checkpointed(mark) || seeded("space-punch-early");
        let ready = states.take(StateKind::Released, checkpointed);
        self.punch_all(ready)
    }

    /// Makes holes of ranges that the caller took out of the map of states.
    pub(crate) fn punch_all(&self, ranges: Vec<Range<u64>>) -> u64 {
        ranges.into_iter().fold(0, |sum, range| {
            self.media.punch(range.start, range.end - range.start);
            sum + (range.end - range.start)
        })
    }

    /// Settles and checkpoints all releases, and makes holes of the released and kept clusters.
    /// Returns the bytes given back.
    ///
    /// # Errors
    /// As `Media::barrier`.
    pub fn trim(&self) -> Result<u64> {
        if self.waiting() == 0 {
            return Ok(0);
        }
        self.media.barrier()?;
        self.media.checkpoint()?;
        Ok(self.punch() + self.give_back())
    }

    /// Has the media free the places in its file that no cluster of `within` needs, for other
    /// stores. The caller lets no thread back clusters meanwhile. Returns the bytes freed.
    ///
    /// # Errors
    /// As `Media::free_chunks`.
    pub fn free_chunks(&self, within: &Range<u64>) -> Result<u64> {
        // The lock is held: no cluster is zeroed meanwhile.
        let mut volatile = self.volatile.lock();
        while volatile.states.bytes(StateKind::Zeroing) > 0 {
            volatile.wait(&self.zeroing_ended);
        }
        let is_free = |range: Range<u64>| {
            let whole = range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER);
            let inside = within.start <= range.start && range.end <= within.end;
            whole
                && inside
                && volatile.states.unlisted(&range) == [range.clone()]
                && self.backed.set_runs(&self.media, range).is_empty()
        };
        Ok(self.media.free_chunks(&is_free)?)
    }

    /// Flushes the `backed` bits of `range` again: a process that died may have left them in the
    /// caches. The caller fences.
    pub fn reflush(&self, range: &Range<u64>) {
        self.backed.reflush(&self.media, range);
    }

    /// Lists a range without an owner as released, for [`Space::punch`]: after a release, or after
    /// a crash, of which memory holds no states.
    pub fn list_released(&self, range: Range<u64>) {
        let mark = self.media.mark();
        let mut volatile = self.volatile.lock();
        while volatile.states.is_zeroing(&range) {
            volatile.wait(&self.zeroing_ended);
        }
        volatile.states.set(range, ClusterState::Released(mark));
    }

    /// Gives back a reserved range whose growth was not published.
    pub fn give_up(&self, range: &Range<u64>) {
        self.put_back(self.take_out(range), std::slice::from_ref(range));
    }

    /// Makes holes of the clusters of `range` that hold data though neither of their bits is set:
    /// file space of a growth that a crash cut off, or prepared clusters. The caller lets no thread
    /// reserve any of them. Returns the bytes given back.
    pub fn sweep(&self, range: &Range<u64>) -> u64 {
        let mut given_back = 0;
        for part in self.stray(range) {
            drop(self.take_out(&part));
            let Some(data) = self.media.data(part.start, part.end - part.start) else { continue };
            given_back += data.into_iter().map(|data| data.end - data.start).sum::<u64>();
            // also gives back file space without data
            self.media.punch(part.start, part.end - part.start);
        }
        given_back
    }

    /// The data outside all clusters that were ever handed out, as far as the file system can
    /// tell, without clusters that memory lists. A large page of the system may hold more than the
    /// store asked for, beside a backed cluster: so a large page with a backed cluster does not
    /// count.
    pub fn stray_data(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        for part in self.stray(range) {
            let unlisted = self.volatile.lock().states.unlisted(&part);
            for data in unlisted.iter().flat_map(|part| self.data_in(part)) {
                let (mut at, end) = (data.start, data.end);
                while at < end {
                    let large = at & !(PREPARE_STEP - 1);
                    let next = (large + PREPARE_STEP).min(end);
                    let within = large.max(range.start & !(PREPARE_STEP - 1))
                        ..(large + PREPARE_STEP).min(self.backed.capacity());
                    if self.backed.set_runs(&self.media, within).is_empty() {
                        match found.last_mut() {
                            Some(last) if last.end == at => last.end = next,
                            _ => found.push(at..next),
                        }
                    }
                    at = next;
                }
            }
        }
        found
    }

    /// The clusters of `range` with both bits clear.
    fn stray(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let free = self.backed.clear_runs(&self.media, range.clone());
        free.into_iter().flat_map(|part| self.used.clear_runs(&self.media, part)).collect()
    }

    fn data_in(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        self.media.data(range.start, range.end - range.start).into_iter().flatten()
    }

    /// Clears the map of states: another process may own the clusters by now.
    pub fn clear_states(&self) {
        self.volatile.lock().states.clear();
    }

    /// Bytes without an owner that the file system has not got back: released, kept, zeroed or
    /// prepared.
    pub fn waiting(&self) -> u64 {
        self.volatile.lock().states.bytes_waiting()
    }

    /// Whether the cluster that holds `at` is backed.
    pub fn is_backed(&self, at: impl Into<Offset>) -> bool {
        let at = at.into().get();
        self.backed.test(&self.media, at)
    }
}
