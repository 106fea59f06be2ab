//! Room that nobody had before, prepared for whoever is likely to ask for it next: an object that
//! grows, or the next to be made.
//!
//! Such clusters are *wanted* until [`Space::clear_next`] has nothing more urgent; then they are
//! cleared as released ones are, and [`Space::reserve`] takes them from there. Known in memory
//! alone: after a crash the file may be longer than the store accounts for, or hold room that no
//! bit speaks of, as after a growth that did not come to count.
//!
//! Invariants
//!   SPACE-6  A cluster is wanted only while nobody has it: who reserves it takes it out.

use crate::Space;
use crate::ranges::Ranges;
use crate::space::{For, State};
use std::ops::Range;

/// Bytes that are prepared at once, up to a multiple of them: a large page, where the system has
/// such. Who asks for part of them meanwhile waits so long.
pub const STEP: u64 = 2 << 20;
/// Bytes that are prepared at most and not yet somebody's.
pub const AHEAD: u64 = 8 << 20;

impl State {
    /// Takes those out that are prepared next.
    pub(crate) fn next_wanted(&mut self) -> Option<Range<u64>> {
        let first = self.wanted.first()?;
        self.wanted.take_some(STEP - first % STEP, |()| true)
    }
}

impl Space {
    /// Has clusters prepared, as far as they are nobody's; [`AHEAD`] bytes are held for that at
    /// most, and if there are too many, those that nobody has come for count as released. Nobody
    /// reserves any of `range` before this returns: that is for the caller to see to. `false`:
    /// there is nothing to prepare.
    pub fn want(&self, range: &Range<u64>) -> bool {
        let free = self.bitmap().runs(self.media(), range.clone(), false);
        let mark = self.media().mark();
        let mut state = self.state.lock();
        let parts: Vec<_> = free.iter().flat_map(|part| state.unknown(part)).collect();
        let more: u64 = parts.iter().map(|part| part.end - part.start).sum();
        if more == 0 || more > AHEAD {
            return false;
        }
        let for_somebody = |whose| whose == For::Somebody;
        if more + state.wanted.bytes() + state.cleared.bytes_of(for_somebody) > AHEAD {
            state.wanted = Ranges::default();
            for part in state.cleared.take(for_somebody) {
                state.kept.add(part, mark);
            }
        }
        parts.into_iter().for_each(|part| state.wanted.add(part, ()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CLUSTER;
    use crate::keep::tests::{FIRST, back, space};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn what_was_prepared_is_had_without_asking() {
        let space = space();
        let range = FIRST..FIRST + 6 * CLUSTER;
        assert!(space.want(&range) && !space.want(&range), "wanted once");
        while space.clear_next() {}
        assert_eq!(space.waiting(), 6 * CLUSTER);
        let cleared = space.reserve(&range).unwrap();
        assert_eq!(cleared.rest(range.clone()), []);
        space.mark(&range);
        assert!(!space.want(&range), "it is somebody's");
    }

    /// Somebody used it before, and it was given back.
    #[test]
    fn what_was_used_is_prepared_with_zeros() {
        let space = space();
        let range = FIRST..FIRST + 2 * CLUSTER;
        back(&space, range.clone());
        space.release(&range);
        assert_eq!(space.trim().unwrap(), 2 * CLUSTER);
        assert!(space.want(&range) && space.clear_next());
        let before = space.media().counts().lines;
        back(&space, range);
        assert!(space.media().counts().lines - before < 16, "zeroed before");
    }

    #[test]
    fn what_was_reserved_is_wanted_no_more_and_all_can_be_had_back() {
        let space = space();
        let range = FIRST..FIRST + 8 * CLUSTER;
        assert!(space.want(&range));
        back(&space, FIRST..FIRST + CLUSTER);
        while space.clear_next() {}
        assert_eq!(space.waiting(), 7 * CLUSTER, "SPACE-6");
        assert_eq!((space.give_back(), space.waiting()), (7 * CLUSTER, 0));
        assert_eq!(space.media().load(FIRST), 7, "its owner has it still");
        assert!(space.want(&range));
        space.give_back();
        assert!(!space.clear_next(), "room was short");
        assert!(!space.want(&(FIRST..FIRST + AHEAD + 2 * CLUSTER)), "more than is held");
    }

    #[test]
    fn what_nobody_comes_for_makes_way() {
        let space = space();
        let ranges = [0, 1, 2].map(|index| FIRST + index * AHEAD / 2..FIRST + (index + 1) * AHEAD / 2);
        for range in &ranges {
            assert!(space.want(range));
            while space.clear_next() {}
        }
        let state = space.state.lock();
        assert_eq!(state.cleared.bytes_of(|whose| whose == For::Somebody), AHEAD / 2);
        assert_eq!(state.cleared.bytes(), AHEAD * 3 / 2, "the others are for anybody");
        drop(state);
        back(&space, FIRST..FIRST + AHEAD * 3 / 2);
    }

    /// Threads that grow, and want more each time, beside one that prepares: nobody loses what he
    /// stored.
    #[test]
    fn threads_grow_into_what_is_prepared() {
        const EACH: u64 = 64 * CLUSTER;
        let (space, done) = (space(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (space, done) = (&space, &done);
                scope.spawn(move || {
                    let end = FIRST + (number + 1) * EACH;
                    for at in (end - EACH..end).step_by(CLUSTER as usize) {
                        back(space, at..at + CLUSTER);
                        space.want(&(at + CLUSTER..end.min(at + 9 * CLUSTER)));
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            while done.load(Ordering::SeqCst) < 3 {
                space.clear_next();
            }
        });
        space.trim().unwrap();
        let lost = (FIRST..FIRST + 3 * EACH).step_by(CLUSTER as usize).find(|&at| space.media().load(at) != 7);
        assert_eq!((lost, space.waiting()), (None, 0));
    }
}
