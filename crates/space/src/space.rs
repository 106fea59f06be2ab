//! [`Space`]: backing clusters, and giving them back.
//!
//! To back a range, with the owner's fences between the lines:
//!   1. `reserve`: the file system gives room for the range and for the bitmaps' own pages; may
//!      fail, changes nothing
//!   2. `prepare`: what was used before is zeroed by stores, the range is noted as used
//!   3. `mark`: the bits say that it is backed
//!
//! To release one: `release` clears the bits and fences; `punch` makes holes of what a checkpoint
//! has passed. Or it is kept, see `keep.rs`.
//!
//! Invariants
//!   SPACE-2  The file system has given room before a bit says so: a full disk is an error at
//!            `reserve` and never a signal at a store.
//!   SPACE-3  A cluster whose `used` bit is clear and which is outside the suspect range reads as
//!            zeros; all others are zeroed by flushed stores before they are handed out again.
//!   SPACE-8  A refused reservation gives back what the file system had given before it refused: of
//!            clusters that nobody has, and never of one that is backed.
//!   SPACE-4  A range is punched only after a checkpoint has passed its release, and never once it
//!            was reserved again.
//!
//! Threads: any; bitmap words are changed under one lock. Elsewhere: which order of owner words
//! makes it atomic.

use crate::keep::Cleared;
use crate::ranges::Ranges;
use crate::{Bitmap, CLUSTER, Result, STEP};
use everbyte_media::{Mark, Media, seeded};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeSet;
use std::ops::Range;

/// Where the two bitmaps lie.
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
    /// Bytes that came from outside: not known to be zero though never used.
    suspect: RwLock<Range<u64>>,
    pub(crate) state: Mutex<State>,
    /// Something is at work no more.
    pub(crate) worked: Condvar,
}

/// Why a cluster was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// It was released.
    Anybody,
    /// It was wanted.
    Somebody,
}

#[derive(Default)]
pub(crate) struct State {
    /// Released, to be made holes of once their mark is checkpointed.
    pub(crate) holes: Ranges<Mark>,
    /// Released, to be cleared then.
    pub(crate) kept: Ranges<Mark>,
    /// To be prepared for who asks for them next (SPACE-6).
    pub(crate) wanted: Ranges<()>,
    /// Being cleared, or made holes of.
    pub(crate) at_work: Ranges<()>,
    /// Kept or prepared, and zeros (SPACE-5).
    pub(crate) cleared: Ranges<For>,
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
            suspect: RwLock::new(0..0),
            state: Mutex::default(),
            worked: Condvar::new(),
        }
    }

    /// The media it lies on.
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

    /// Declares that nobody knows what `range` of the file holds, though the store never used it.
    pub fn suspect(&self, range: Range<u64>) {
        *self.suspect.write() = range;
    }

    /// Asks the file system for room for whole clusters (SPACE-2). Nothing says so yet.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::Damaged`]: nothing has changed.
    ///
    /// # Panics
    /// If `range` is not whole clusters.
    pub fn reserve(&self, range: &Range<u64>) -> Result<Cleared> {
        let taken = self.take_out(range); // before anything else
        let cleared = taken.cleared();
        let rest = cleared.rest(range.clone());
        let mut tried = 0;
        let backed = self.back_bitmaps(range).and_then(|()| {
            rest.iter().try_for_each(|rest| {
                tried += 1;
                self.extend(rest)
            })
        });
        match backed {
            Ok(()) => Ok(cleared),
            Err(error) => {
                // the last of them may have got a part of its room
                self.put_back(taken, &rest[..tried]);
                Err(error)
            }
        }
    }

    /// [`Space::reserve`] for clusters of which only `part` is to be used for now.
    ///
    /// # Errors
    /// As [`Space::reserve`].
    ///
    /// # Panics
    /// If `range` is not whole clusters.
    pub fn reserve_part(&self, range: &Range<u64>, part: &Range<u64>) -> Result<()> {
        let mut taken = self.take_out(range); // before anything else
        self.punch_all(taken.take_cleared().0); // more room than is wanted
        let backed = self.back_bitmaps(range).and_then(|()| self.extend(part));
        backed.inspect_err(|_| self.put_back(taken, std::slice::from_ref(range)))
    }

    /// Backs the pages of the bitmaps that speak for `range` (SPACE-1).
    fn back_bitmaps(&self, range: &Range<u64>) -> Result<()> {
        assert!(
            range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER),
            "clusters are backed whole: {range:x?}"
        );
        for bitmap in [&self.backed, &self.used] {
            bitmap.require_good(&self.media, range)?;
            for page in bitmap.pages(range) {
                let known = self.state.lock().pages.contains(&page.start);
                if !known {
                    self.extend(&page)?;
                    bitmap.note_backed(&page);
                    self.state.lock().pages.insert(page.start);
                }
            }
        }
        Ok(())
    }

    /// The rest of a cluster of which only the first part was reserved and prepared: room, and
    /// zeros. The caller fences.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]: nothing has changed.
    pub fn complete(&self, rest: &Range<u64>) -> Result<()> {
        // Its owner was never told of it, so it holds nothing.
        self.extend(rest).inspect_err(|_| self.media.punch(rest.start, rest.end - rest.start))?;
        let _section = self.media.section();
        self.media.zero(rest.start, rest.end - rest.start);
        self.media.flush(rest.start, rest.end - rest.start);
        Ok(())
    }

    /// [`Space::prepare`] for one cluster of which only the first `part` bytes are to be used for
    /// now.
    pub fn prepare_part(&self, range: &Range<u64>, part: u64) {
        let _section = self.media.section();
        self.media.zero(range.start, part);
        self.media.flush(range.start, part);
        let _state = self.state.lock();
        self.used.change(&self.media, range, true);
    }

    /// Makes a reserved range read as zeros, durably so once the caller has fenced (SPACE-3).
    pub fn prepare(&self, range: &Range<u64>, cleared: &Cleared) {
        let suspect = self.suspect.read().clone();
        for run in self.used.runs(&self.media, range.clone(), true) {
            cleared.rest(run).into_iter().for_each(|rest| self.zero(rest));
        }
        for run in self.used.runs(&self.media, range.clone(), false) {
            let foreign = run.start.max(suspect.start) & !(CLUSTER - 1)..run.end.min(suspect.end);
            if foreign.start < foreign.end {
                self.zero(foreign.start..foreign.end.next_multiple_of(CLUSTER).min(run.end));
            }
        }
        let _section = self.media.section();
        let _state = self.state.lock();
        self.used.change(&self.media, range, true);
    }

    /// Notes a reserved range as used, which nobody will read before he has stored to all of it:
    /// stored and flushed.
    pub fn note_used(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _state = self.state.lock();
        self.used.change(&self.media, range, true);
    }

    /// Zeroes by flushed stores, one section for each cluster so that checkpoints are not held up.
    pub(crate) fn zero(&self, range: Range<u64>) {
        for at in range.step_by(CLUSTER as usize) {
            let _section = self.media.section();
            self.media.zero(at, CLUSTER);
            if !seeded("space-zero-unflushed") {
                self.media.flush(at, CLUSTER);
            }
        }
    }

    /// Says that a reserved range is backed: stored and flushed, not fenced.
    pub fn mark(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _state = self.state.lock();
        self.backed.change(&self.media, range, true);
    }

    /// Takes [`Space::mark`] back, for a change that did not come to count: stored and flushed, not
    /// fenced.
    pub fn unmark(&self, range: &Range<u64>) {
        let _section = self.media.section();
        let _state = self.state.lock();
        self.backed.change(&self.media, range, false);
    }

    /// Refuses a range whose bits cannot be believed.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn require_good(&self, range: &Range<u64>) -> Result<()> {
        self.backed.require_good(&self.media, range)
    }

    /// Releases whole clusters: their bits are cleared and fenced on return; room is given back
    /// later by [`Space::punch`]. A damaged word of the bitmap stays as it is, for `check` to
    /// report.
    pub fn release(&self, range: &Range<u64>) {
        self.unmark(range);
        self.media.fence();
        self.forget(range.clone());
    }

    /// Makes holes of what was released and has been passed by a checkpoint (SPACE-4). Returns the
    /// bytes given back.
    pub fn punch(&self) -> u64 {
        // The lock is held over the punching: a range that is reserved meanwhile waits here, or is
        // not punched.
        let mut state = self.state.lock();
        let ready = state.holes.take(|mark| self.media.checkpointed(mark) || seeded("space-punch-early"));
        self.punch_all(ready)
    }

    /// Makes holes of ranges that nobody else knows of.
    pub(crate) fn punch_all(&self, ranges: Vec<Range<u64>>) -> u64 {
        ranges.into_iter().fold(0, |sum, range| {
            self.media.punch(range.start, range.end - range.start);
            sum + (range.end - range.start)
        })
    }

    /// Settles and checkpoints all releases, and makes holes of them, and of what is kept. Returns
    /// the bytes given back.
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

    /// Has the media free places in its file of which no cluster of `within` needs any, for others.
    /// The caller lets no thread back clusters meanwhile. Returns the bytes freed.
    ///
    /// # Errors
    /// As `Media::free_chunks`.
    pub fn free_chunks(&self, within: &Range<u64>) -> Result<u64> {
        // The lock is held: no cluster is cleared or prepared meanwhile.
        let mut state = self.state.lock();
        while state.at_work.bytes() > 0 {
            self.worked.wait(&mut state);
        }
        let is_free = |range: Range<u64>| {
            let whole = range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER);
            let inside = within.start <= range.start && range.end <= within.end;
            whole
                && inside
                && state.unknown(&range) == [range.clone()]
                && self.backed.runs(&self.media, range, true).is_empty()
        };
        Ok(self.media.free_chunks(&is_free)?)
    }

    /// Makes durable what the bitmap says about `range`: after a process that died it may say so in
    /// the caches only. The caller fences.
    pub fn adopt(&self, range: &Range<u64>) {
        self.backed.adopt(&self.media, range);
    }

    /// Puts a range that nobody owns among those that wait for their hole: after a crash nobody
    /// remembers them.
    pub fn forget(&self, range: Range<u64>) {
        drop(self.take_out(&range));
        let mark = self.media.mark();
        self.state.lock().holes.add(range, mark);
    }

    /// Gives a reserved range back of which nothing came to count.
    pub fn give_up(&self, range: &Range<u64>) {
        self.put_back(self.take_out(range), std::slice::from_ref(range));
    }

    /// Makes holes of the clusters of `range` that hold data though neither bit of theirs is set:
    /// room that was given to a growth which a crash cut off, or that was prepared. The caller lets
    /// nobody reserve any of them. Returns the bytes given back.
    pub fn sweep(&self, range: &Range<u64>) -> u64 {
        let mut given_back = 0;
        for part in self.stray(range) {
            drop(self.take_out(&part));
            let Some(data) = self.media.data(part.start, part.end - part.start) else { continue };
            given_back += data.into_iter().map(|data| data.end - data.start).sum::<u64>();
            // what has room and no data goes, too
            self.media.punch(part.start, part.end - part.start);
        }
        given_back
    }

    /// The data that lie where no cluster was ever handed out, as far as the file system can tell;
    /// without what is prepared for somebody in this session. Pages that the system made large hold
    /// more than was asked for, beside clusters in use: so a large page counts only if no cluster
    /// of it is backed.
    pub fn stray_data(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        for part in self.stray(range) {
            let unknown = self.state.lock().unknown(&part);
            for data in unknown.iter().flat_map(|part| self.data_in(part)) {
                let (mut at, end) = (data.start, data.end);
                while at < end {
                    let large = at & !(STEP - 1);
                    let next = (large + STEP).min(end);
                    let within = large.max(range.start & !(STEP - 1))..(large + STEP).min(self.backed.capacity());
                    if self.backed.runs(&self.media, within, true).is_empty() {
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

    /// The clusters of `range` of which neither bit is set.
    fn stray(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let free = self.backed.runs(&self.media, range.clone(), false);
        free.into_iter().flat_map(|part| self.used.runs(&self.media, part, false)).collect()
    }

    fn data_in(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        self.media.data(range.start, range.end - range.start).into_iter().flatten()
    }

    /// Remembers no range any more that waits for its hole: somebody else may own it by now.
    pub fn forget_holes(&self) {
        let mut state = self.state.lock();
        (state.holes, state.kept, state.wanted, state.cleared) = Default::default();
    }

    /// Bytes that nobody has and that the file system has not back: released, or prepared for
    /// somebody.
    pub fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.holes.bytes() + state.kept.bytes() + state.cleared.bytes()
    }

    /// Whether the cluster that holds `at` is backed.
    pub fn is_backed(&self, at: u64) -> bool {
        self.backed.test(&self.media, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Options;

    fn space() -> Space {
        let media = Media::anonymous(4 << 20, &Options::default()).unwrap();
        Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at: 20 << 10, bitmap_len: 4096 })
    }

    fn back(space: &Space, range: Range<u64>) {
        let cleared = space.reserve(&range).unwrap();
        space.prepare(&range, &cleared);
        space.media().fence();
        space.mark(&range);
        space.media().fence();
    }

    #[test]
    fn a_reused_cluster_reads_as_zeros() {
        let space = space();
        let range = CLUSTER..3 * CLUSTER;
        back(&space, range.clone());
        space.media().write(2 * CLUSTER + 5, b"secret");
        space.release(&range);
        assert!(!space.is_backed(CLUSTER));
        back(&space, range);
        assert_eq!(space.media().read_vec(2 * CLUSTER, 64), [0; 64]);
        assert_eq!(space.waiting(), 0, "SPACE-4: reserved again, so no longer waiting for a hole");
    }

    #[test]
    fn a_fresh_cluster_costs_no_zeroing_and_a_suspect_one_does() {
        let space = space();
        let lines = || space.media().counts().lines;
        let before = lines();
        back(&space, CLUSTER..2 * CLUSTER);
        assert!(lines() - before <= 2, "two bitmap words");
        space.suspect(5 * CLUSTER - 100..5 * CLUSTER + 1);
        space.media().write(5 * CLUSTER, b"x");
        space.media().write(5 * CLUSTER - 1, b"y");
        back(&space, 2 * CLUSTER..8 * CLUSTER);
        assert_eq!(space.media().read_vec(5 * CLUSTER - 8, 16), [0; 16]);
    }

    #[test]
    fn punching_gives_back_what_was_released_once() {
        let space = space();
        back(&space, CLUSTER..8 * CLUSTER);
        space.release(&(2 * CLUSTER..4 * CLUSTER));
        space.release(&(6 * CLUSTER..7 * CLUSTER));
        assert_eq!(space.waiting(), 3 * CLUSTER);
        assert_eq!(space.trim().unwrap(), 3 * CLUSTER);
        assert_eq!(space.trim().unwrap(), 0);
        let backed = space.bitmap().runs(space.media(), 0..10 * CLUSTER, true);
        assert_eq!(backed, [CLUSTER..2 * CLUSTER, 4 * CLUSTER..6 * CLUSTER, 7 * CLUSTER..8 * CLUSTER]);
    }
}
