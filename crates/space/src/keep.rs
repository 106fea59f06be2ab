//! Released clusters that are kept: cleared in the background, so that whoever gets them next waits
//! neither for the file system nor for zeros.
//!
//! One such cluster, by [`Space::clear_next`]:
//!   1. it is taken from those that wait, once a checkpoint has passed its release; it is *at
//!      work*, and whoever wants to reserve it waits
//!   2. room is made sure of; zeros are stored, flushed and fenced where it was used
//!   3. it counts as *cleared*, and [`Space::reserve`] takes it from there
//!
//! What exceeds [`HELD`] becomes holes in the file instead; all of it does when the file system has
//! no room for something else, and at [`Space::trim`].
//!
//! What is *wanted* (`ahead`) is taken up like that when nothing else waits. All this is volatile.
//! On media such a cluster is one that nobody has and that was used: after a crash it is zeroed
//! again before anybody gets it (SPACE-3).
//!
//! Invariants
//!   SPACE-5  A cluster counts as cleared only while nobody has it, and only after its zeros were
//!            fenced.
//!
//! Threads: any. Elsewhere: the thread in the background, and when it is called (`store`).

use crate::space::{For, State};
use crate::{CLUSTER, Error, Result, Space};
use everbyte_media::{Mark, seeded};
use std::ops::Range;

/// Bytes that are kept at most.
pub const HELD: u64 = 16 << 20;
/// Bytes of which a hole is made at once: others who want them wait so long.
const HOLE: u64 = 2 << 20;

/// Parts of a reserved range that read as zeros by now.
#[derive(Debug, Default)]
#[must_use = "what is cleared need not be zeroed by `prepare`"]
pub struct Cleared(pub(crate) Vec<Range<u64>>);

impl Cleared {
    /// What of `range` is not cleared.
    pub(crate) fn rest(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut rest, mut at) = (Vec::new(), range.start);
        for part in self.0.iter().filter(|part| part.end > range.start && part.start < range.end) {
            rest.push(at..part.start.max(at));
            at = part.end;
        }
        rest.push(at..range.end.max(at));
        rest.retain(|part| !part.is_empty());
        rest
    }
}

/// What was remembered of a range that somebody wants.
pub(crate) struct Taken {
    holes: Vec<(Range<u64>, Mark)>,
    kept: Vec<(Range<u64>, Mark)>,
    cleared: Vec<(Range<u64>, For)>,
}

impl Taken {
    /// What of it is zeros.
    pub(crate) fn cleared(&self) -> Cleared {
        Cleared(self.cleared.iter().map(|(part, _)| part.clone()).collect())
    }

    /// Takes that out for good.
    pub(crate) fn take_cleared(&mut self) -> Cleared {
        let cleared = self.cleared();
        self.cleared.clear();
        cleared
    }
}

impl State {
    /// What of `range` nothing is remembered of.
    pub(crate) fn unknown(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let State { holes, kept, wanted, at_work, cleared, .. } = self;
        let within = [holes.within(range), kept.within(range), wanted.within(range)];
        let mut known = [within.concat(), at_work.within(range), cleared.within(range)].concat();
        known.sort_by_key(|part| part.start);
        Cleared(known).rest(range.clone())
    }
}

impl Space {
    /// Releases whole clusters as [`Space::release`] does; somebody will call [`Space::clear_next`]
    /// for them. Returns the bytes that wait for that.
    pub fn release_and_keep(&self, range: &Range<u64>) -> u64 {
        self.unmark(range);
        if !seeded("space-keep-unfenced") {
            self.media().fence();
        }
        let mark = self.media().mark();
        let mut state = self.state.lock();
        for part in state.unknown(range) {
            state.kept.add(part, mark); // the others somebody has released before
        }
        state.kept.bytes()
    }

    /// Clears the next cluster that waits for it, or makes a hole of it; then those that are
    /// wanted. `false`: there is none.
    pub fn clear_next(&self) -> bool {
        let (range, keep, whose) = {
            let mut state = self.state.lock();
            let held = state.cleared.bytes_of(|whose| whose == For::Anybody) + state.at_work.bytes();
            let keep = held + CLUSTER <= HELD;
            let ripe = |mark| self.media().checkpointed(mark);
            let (range, keep, whose) = match state.kept.take_some(if keep { CLUSTER } else { HOLE }, ripe) {
                Some(range) => (range, keep, For::Anybody),
                None => match state.next_wanted() {
                    Some(range) => (range, true, For::Somebody),
                    None => return false,
                },
            };
            state.at_work.add(range.clone(), ());
            (range, keep, whose)
        };
        let cleared = keep && self.clear(&range).is_ok();
        if !cleared {
            self.media().punch(range.start, range.end - range.start);
        }
        let mut state = self.state.lock();
        state.at_work.cut(&range);
        if cleared {
            state.cleared.add(range, whose); // SPACE-5
        }
        self.worked.notify_all();
        true
    }

    fn clear(&self, range: &Range<u64>) -> Result<()> {
        let len = range.end - range.start;
        self.media().extend(range.start, len).map_err(|source| Error::of_extend(range.start, len, source))?;
        // the others read as zeros (SPACE-3)
        let used = self.used().runs(self.media(), range.clone(), true);
        if used.is_empty() {
            for at in range.clone().step_by(CLUSTER as usize) {
                self.media().load(at); // has the system map its pages, around this one
            }
            return Ok(());
        }
        if !seeded("space-kept-dirty") {
            used.into_iter().for_each(|run| self.zero(run));
        }
        self.media().fence();
        Ok(())
    }

    /// Takes `range` out of everything that is remembered of it.
    pub(crate) fn take_out(&self, range: &Range<u64>) -> Taken {
        let mut state = self.state.lock();
        while state.at_work.overlaps(range) {
            self.worked.wait(&mut state);
        }
        if !seeded("space-wanted-had") {
            state.wanted.cut(range); // SPACE-6
        }
        let State { holes, kept, cleared, .. } = &mut *state;
        // SPACE-4
        Taken { holes: holes.cut(range), kept: kept.cut(range), cleared: cleared.cut(range) }
    }

    /// Remembers again what was taken out for somebody who did not get it. `tried` may have got
    /// room for him, or part of it: what of that nobody has is given back, at once where nothing
    /// was ever stored (SPACE-8).
    pub(crate) fn put_back(&self, taken: Taken, tried: &[Range<u64>]) {
        let free = |part: &Range<u64>| self.bitmap().runs(self.media(), part.clone(), false);
        let given: Vec<Range<u64>> =
            tried.iter().filter(|part| part.end <= self.media().max()).flat_map(free).collect();
        let unused: Vec<Range<u64>> =
            given.iter().flat_map(|part| self.used().runs(self.media(), part.clone(), false)).collect();
        let mark = self.media().mark();
        let mut state = self.state.lock();
        taken.holes.into_iter().for_each(|(part, mark)| state.holes.add(part, mark));
        taken.kept.into_iter().for_each(|(part, mark)| state.kept.add(part, mark));
        taken.cleared.into_iter().for_each(|(part, whose)| state.cleared.add(part, whose));
        for part in given.iter().flat_map(|part| state.unknown(part)).collect::<Vec<_>>() {
            state.holes.add(part, mark);
        }
        // The lock is held: no thread reserves any of it meanwhile.
        for part in unused.iter().flat_map(|part| state.holes.cut(part)).map(|(part, _)| part).collect::<Vec<_>>() {
            if !seeded("space-refused-keeps") {
                self.media().punch(part.start, part.end - part.start);
            }
        }
    }

    /// Makes holes of all that is kept or prepared, as far as a checkpoint has passed it. Returns
    /// the bytes given back.
    pub fn give_back(&self) -> u64 {
        let mut state = self.state.lock();
        while state.at_work.bytes() > 0 {
            self.worked.wait(&mut state);
        }
        state.wanted.take(|()| true);
        let mut ready = state.cleared.take(|_| true);
        ready.extend(state.kept.take(|mark| self.media().checkpointed(mark)));
        self.punch_all(ready)
    }

    /// Asks the file system for room. What is kept is given back before it is said that there is
    /// none, and then what was released and no checkpoint has passed yet.
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
pub(crate) mod tests {
    use super::*;
    use crate::SpaceLayout;
    use everbyte_media::{Media, Options};

    pub(crate) const FIRST: u64 = 1 << 20;

    pub(crate) fn space() -> Space {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at: 20 << 10, bitmap_len: 4096 })
    }

    /// Backs clusters and fills each of their first words.
    pub(crate) fn back(space: &Space, range: Range<u64>) {
        let cleared = space.reserve(&range).unwrap();
        space.prepare(&range, &cleared);
        space.mark(&range);
        space.media().fence();
        for at in range.step_by(CLUSTER as usize) {
            assert_eq!(space.media().read_vec(at, 64), [0; 64], "SPACE-3 at {at:#x}");
            space.media().store(at, 7);
            space.media().flush(at, 8);
        }
    }

    #[test]
    fn what_was_cleared_is_handed_out_without_zeroing() {
        let space = space();
        let range = FIRST..FIRST + 4 * CLUSTER;
        back(&space, range.clone());
        assert_eq!(space.release_and_keep(&range), 4 * CLUSTER);
        (0..4).for_each(|_| assert!(space.clear_next()));
        assert!(!space.clear_next());
        assert_eq!(space.waiting(), 4 * CLUSTER, "released, and not given back");
        let before = space.media().counts().lines;
        back(&space, range.clone());
        assert!(space.media().counts().lines - before < 16, "the words of two bitmaps, and one of each cluster");
        assert_eq!(space.waiting(), 0);
        space.release(&range);
        assert!(!space.clear_next(), "what was used again is not cleared any more (SPACE-5)");
    }

    #[test]
    fn what_was_not_cleared_yet_is_zeroed_when_it_is_handed_out() {
        let space = space();
        let range = FIRST..FIRST + 4 * CLUSTER;
        back(&space, range.clone());
        space.release_and_keep(&range);
        assert!(space.clear_next());
        back(&space, range.clone());
        space.release_and_keep(&range);
        assert!(space.clear_next());
        back(&space, range.start + CLUSTER..range.end);
        back(&space, range.start..range.start + CLUSTER);
    }

    /// Behind the last of them the media ends.
    #[test]
    fn a_refused_range_is_remembered_as_it_was() {
        let space = space();
        let end = space.media().max();
        let [fresh, cleared, hole, kept] = [4, 3, 2, 1].map(|from| end - from * CLUSTER..end - (from - 1) * CLUSTER);
        back(&space, cleared.start..end);
        space.release_and_keep(&cleared);
        assert!(space.clear_next());
        space.release(&hole);
        space.release_and_keep(&kept);
        assert!(space.reserve(&(fresh.start..end + CLUSTER)).is_err());
        let state = space.state.lock();
        let known = [state.holes.within(&(0..end)), state.kept.within(&(0..end)), state.cleared.within(&(0..end))];
        assert_eq!(known, [vec![hole.clone()], vec![kept.clone()], vec![cleared.clone()]]);
        drop(state);

        assert!(space.reserve_part(&(cleared.start..end + CLUSTER), &(end..end + 1)).is_err());
        assert_eq!((space.waiting(), space.trim().unwrap()), (2 * CLUSTER, 2 * CLUSTER), "holes of what was cleared");
        back(&space, fresh.start..end);
    }

    #[test]
    fn no_more_is_kept_than_the_bound_and_all_of_it_can_be_had_back() {
        let space = space();
        let range = FIRST..FIRST + HELD + 8 * CLUSTER;
        back(&space, range.clone());
        space.release_and_keep(&range);
        while space.clear_next() {}
        assert_eq!(space.waiting(), HELD);
        assert_eq!((space.give_back(), space.waiting()), (HELD, 0));
        back(&space, range.clone());
        space.release_and_keep(&range);
        assert!(space.clear_next());
        assert_eq!((space.trim().unwrap(), space.waiting()), (HELD + 8 * CLUSTER, 0));
        back(&space, range);
    }

    #[test]
    fn the_rest_of_a_range() {
        let cleared = Cleared(vec![10..20, 20..30, 50..60]);
        assert_eq!(cleared.rest(0..100), [0..10, 30..50, 60..100]);
        assert_eq!([cleared.rest(15..55), cleared.rest(30..50)].concat(), [30..50, 30..50]);
        assert_eq!(cleared.rest(12..28), []);
    }

    /// Who releases all of his clusters has released some before.
    #[test]
    fn what_is_released_twice_counts_once() {
        let space = space();
        let range = FIRST..FIRST + 4 * CLUSTER;
        back(&space, range.clone());
        space.release_and_keep(&(FIRST..FIRST + CLUSTER));
        assert!(space.clear_next());
        space.release(&(FIRST + CLUSTER..FIRST + 2 * CLUSTER));
        assert_eq!(space.release_and_keep(&range), 2 * CLUSTER);
        assert_eq!(space.waiting(), 4 * CLUSTER);
        while space.clear_next() {}
        space.release(&range);
        assert_eq!((space.punch(), space.waiting()), (4 * CLUSTER, 0), "no hole counts as cleared (SPACE-2)");
        back(&space, range);
    }

    /// Threads that back and release beside one that clears: nobody reads what another stored.
    #[test]
    fn threads_share_what_is_kept() {
        let (space, done) = (space(), std::sync::atomic::AtomicU32::new(0));
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (space, done) = (&space, &done);
                scope.spawn(move || {
                    let range = FIRST + number * 4 * CLUSTER..FIRST + (number + 1) * 4 * CLUSTER;
                    for _ in 0..50 {
                        back(space, range.clone());
                        space.release_and_keep(&range);
                    }
                    done.fetch_add(1, order);
                });
            }
            while done.load(order) < 3 {
                space.clear_next();
            }
        });
        while space.clear_next() {}
        assert_eq!(space.waiting(), 12 * CLUSTER);
    }
}
