//! Kept clusters: released, and zeroed in the background, so that the next reservation waits
//! neither for the file system nor for zeros.
//!
//! One such cluster, by [`Space::zero_next`]:
//!   1. it moves from `Kept` (or `Wanted`, see `prepare`) to `Zeroing`, after a checkpoint has
//!      passed its release; a reservation of it waits from here on
//!   2. the file system gives space for it; zeros are stored, flushed and fenced where it was
//!      used
//!   3. it moves to `Zeroed` (or `Prepared`), and [`Space::reserve`] takes it from there
//!
//! Kept clusters beyond [`KEPT_MAX`] become holes in the file instead; all of them do when the file
//! system has no file space for another range, and at [`Space::trim`].
//!
//! All this is volatile. On media a kept cluster has a clear `backed` bit and a set `used` bit, so
//! after a crash it is zeroed again before it is handed out (SPACE-3).
//!
//! Invariants
//!   SPACE-5  A cluster is `Zeroed` or `Prepared` only while it has no owner, and only after its
//!            zeros were fenced.
//!
//! Threads: any. Elsewhere: the states and their transitions (`states`), the background thread and
//! its start (`store`).
//!
//! Design: docs/design/backing.md

use crate::states::{ClusterState, StateKind, gaps};
use crate::{CLUSTER, Error, PREPARE_STEP, Result, Space};
use everbyte_media::museum::unless;
use everbyte_media::seeded;
use std::ops::Range;

/// Bytes that are kept at most.
pub const KEPT_MAX: u64 = 16 << 20;
/// Bytes that become a hole at once: a reservation of one of them waits for all.
const HOLE: u64 = 2 << 20;

/// Parts of a reserved range that already read as zeros, in order.
#[derive(Debug, Default)]
#[must_use = "zeroed parts need no zeros from `prepare`"]
pub struct ZeroedParts(pub(crate) Vec<Range<u64>>);

impl ZeroedParts {
    /// The parts of `range` that are not zeroed.
    pub(crate) fn rest(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        gaps(range, self.0.iter())
    }
}

/// The states that a caller took out of a range in order to reserve it.
pub(crate) struct TakenStates(Vec<(Range<u64>, ClusterState)>);

impl TakenStates {
    /// The parts that are zeroed.
    pub(crate) fn zeroed(&self) -> ZeroedParts {
        ZeroedParts(self.0.iter().filter(|(_, state)| state.is_zeros()).map(|(part, _)| part.clone()).collect())
    }

    /// Removes the zeroed parts and returns them.
    pub(crate) fn take_zeroed(&mut self) -> ZeroedParts {
        let zeroed = self.zeroed();
        self.0.retain(|(_, state)| !state.is_zeros());
        zeroed
    }
}

impl Space {
    /// Releases whole clusters as [`Space::release`] does, for [`Space::zero_next`] to zero them.
    /// Returns the bytes that wait for it.
    pub fn release_and_keep(&self, range: &Range<u64>) -> u64 {
        self.clear_backed(range);
        self.media().fence_unless("space-keep-unfenced");
        let mark = self.media().mark();
        let mut volatile = self.volatile.lock();
        // a listed part was released before
        volatile.states.set_unlisted(range, ClusterState::Kept(mark));
        volatile.states.bytes(StateKind::Kept)
    }

    /// Zeroes the next kept cluster, or makes a hole of it; if none is ready, zeroes wanted ones.
    /// `false`: there is none of either.
    pub fn zero_next(&self) -> bool {
        let (range, after) = {
            let states = &mut self.volatile.lock().states;
            let held = states.bytes(StateKind::Zeroed) + states.bytes(StateKind::Zeroing);
            let keep = held + CLUSTER <= KEPT_MAX;
            let most = if keep { CLUSTER } else { HOLE };
            let kept = states.start_zeroing(StateKind::Kept, |_| most, |mark| self.media().checkpointed(mark));
            if let Some(range) = kept {
                (range, keep.then_some(ClusterState::Zeroed))
            } else {
                let most = |start| PREPARE_STEP - start % PREPARE_STEP;
                match states.start_zeroing(StateKind::Wanted, most, |_| true) {
                    Some(range) => (range, Some(ClusterState::Prepared)),
                    None => return false,
                }
            }
        };
        let after = after.filter(|_| self.zero_if_used(&range).is_ok());
        if after.is_none() {
            self.media().punch(range.start, range.end - range.start);
        }
        let states = &mut self.volatile.lock().states;
        states.take_out(&range);
        if let Some(after) = after {
            states.set(range, after); // SPACE-5
        }
        self.zeroing_ended.notify_all();
        true
    }

    fn zero_if_used(&self, range: &Range<u64>) -> Result<()> {
        let len = range.end - range.start;
        self.media().extend(range.start, len).map_err(|source| Error::of_extend(range.start, len, source))?;
        // unused clusters read as zeros (SPACE-3)
        let used = self.used().set_runs(self.media(), range.clone());
        if used.is_empty() {
            for at in range.clone().step_by(CLUSTER as usize) {
                self.media().load(at); // makes the system map its pages, and not the next owner
            }
            return Ok(());
        }
        unless("space-kept-dirty", || used.into_iter().for_each(|run| self.zero(run)));
        self.media().fence();
        Ok(())
    }

    /// Takes `range` out of the map of states, after it has waited for parts that are being zeroed.
    pub(crate) fn take_out(&self, range: &Range<u64>) -> TakenStates {
        let mut volatile = self.volatile.lock();
        while volatile.states.is_zeroing(range) {
            volatile.wait(&self.zeroing_ended);
        }
        let mut taken = volatile.states.take_out(range); // SPACE-4, SPACE-6
        let is_wanted = |(_, state): &(Range<u64>, ClusterState)| *state == ClusterState::Wanted;
        if seeded("space-wanted-had") {
            let wanted = taken.iter().filter(|part| is_wanted(part)).cloned();
            wanted.for_each(|(part, state)| volatile.states.set(part, state));
        }
        taken.retain(|part| !is_wanted(part));
        TakenStates(taken)
    }

    /// Ends a refused reservation: restores the states that it took out. The file system may have
    /// given file space for `tried`, or part of it. The parts of that without an owner become
    /// `Released`, and holes at once where no byte was ever stored (SPACE-8).
    pub(crate) fn put_back(&self, taken: TakenStates, tried: &[Range<u64>]) {
        let free = |part: &Range<u64>| self.bitmap().clear_runs(self.media(), part.clone());
        let given: Vec<Range<u64>> =
            tried.iter().filter(|part| part.end <= self.media().max()).flat_map(free).collect();
        let unused: Vec<Range<u64>> =
            given.iter().flat_map(|part| self.used().clear_runs(self.media(), part.clone())).collect();
        let mark = self.media().mark();
        let states = &mut self.volatile.lock().states;
        taken.0.into_iter().for_each(|(part, state)| states.set_unlisted(&part, state));
        given.iter().for_each(|part| states.set_unlisted(part, ClusterState::Released(mark)));
        let listed = unused.iter().flat_map(|part| states.within(part)).collect::<Vec<_>>();
        // The lock is held over the punching, so no thread reserves these clusters meanwhile.
        for (part, _) in listed.into_iter().filter(|(_, state)| matches!(state, ClusterState::Released(_))) {
            states.take_out(&part);
            unless("space-refused-keeps", || self.media().punch(part.start, part.end - part.start));
        }
    }

    /// Makes holes of all zeroed and prepared clusters, and of the kept ones that a checkpoint has
    /// passed; none is wanted afterwards. Returns the bytes given back.
    pub fn give_back(&self) -> u64 {
        let mut volatile = self.volatile.lock();
        while volatile.states.bytes(StateKind::Zeroing) > 0 {
            volatile.wait(&self.zeroing_ended);
        }
        let states = &mut volatile.states;
        states.take(StateKind::Wanted, |_| true);
        let mut ready = states.take_zeros();
        ready.extend(states.take(StateKind::Kept, |mark| self.media().checkpointed(mark)));
        self.punch_all(ready)
    }

    /// Asks the file system for space. Before the answer is an error, kept clusters are given
    /// back, and then released ones that no checkpoint had passed.
    pub(crate) fn extend(&self, range: &Range<u64>) -> Result<()> {
        let (at, len) = (range.start, range.end - range.start);
        if len == 0 {
            return Ok(());
        }
        let extend = || self.media().extend(at, len).map_err(|source| Error::of_extend(at, len, source));
        let mut done = extend();
        // A failure to settle is for the next barrier to report.
        let ways: [&dyn Fn() -> u64; 2] = [&|| self.give_back(), &|| self.trim().unwrap_or(0)];
        for give_back in ways {
            if matches!(done, Err(Error::OutOfSpace { .. })) && give_back() > 0 {
                done = extend();
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterState::{Kept, Released, Zeroed};
    use super::*;
    use crate::{PREPARED_MAX, SpaceLayout};
    use everbyte_media::{Media, Options};

    fn space() -> Space {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at: 20 << 10, bitmap_len: 4096 })
    }

    fn back(space: &Space, range: &Range<u64>) {
        let zeroed = space.reserve(range).unwrap();
        space.prepare(range, &zeroed);
        space.set_backed(range);
        space.media().fence();
    }

    /// The media ends behind the last of the clusters.
    #[test]
    fn a_refused_reservation_restores_every_state() {
        let space = space();
        let end = space.media().max();
        let [fresh, zeroed, hole, kept] = [4, 3, 2, 1].map(|from| end - from * CLUSTER..end - (from - 1) * CLUSTER);
        back(&space, &(zeroed.start..end));
        space.release_and_keep(&zeroed);
        assert!(space.zero_next());
        space.release(&hole);
        space.release_and_keep(&kept);
        assert!(space.reserve(&(fresh.start..end + CLUSTER)).is_err());
        let mark = space.media().mark();
        let listed = space.volatile.lock().states.within(&(0..end));
        assert_eq!(listed, [(zeroed.clone(), Zeroed), (hole, Released(mark)), (kept, Kept(mark))]);

        assert!(space.reserve_part(&(zeroed.start..end + CLUSTER), &(end..end + 1)).is_err());
        assert_eq!((space.waiting(), space.trim().unwrap()), (2 * CLUSTER, 2 * CLUSTER), "zeroed ones became holes");
        back(&space, &(fresh.start..end));
    }

    #[test]
    fn prepared_clusters_that_no_caller_reserves_become_kept() {
        const FIRST: u64 = 1 << 20;
        let space = space();
        let ranges = [0, 1, 2].map(|index| FIRST + index * PREPARED_MAX / 2..FIRST + (index + 1) * PREPARED_MAX / 2);
        for range in &ranges {
            assert!(space.want(range));
            while space.zero_next() {}
        }
        let bytes = [StateKind::Prepared, StateKind::Zeroed].map(|kind| space.volatile.lock().states.bytes(kind));
        assert_eq!(bytes, [PREPARED_MAX / 2, PREPARED_MAX], "the earlier ones serve every reservation");
        back(&space, &(FIRST..FIRST + PREPARED_MAX * 3 / 2));
    }
}
