//! [`ClusterStates`]: the states of clusters that no owner has, as one map of ranges.
//!
//! A cluster that the map does not list is *backed*, or reserved by a caller, or a hole of the
//! file; the two bitmaps tell which. A listed cluster has one state:
//!
//! ```text
//! backed ----release, forget--------> Released -punch------------> (hole)
//! backed ----release_and_keep-------> Kept ---zero_next----------> Zeroing --> Zeroed
//!            zero_next above KEPT_MAX: Kept ----------------------> Zeroing --> (hole)
//! unlisted --want-------------------> Wanted -zero_next----------> Zeroing --> Prepared
//!            want above PREPARED_MAX: Wanted -> (unlisted), Prepared -> Kept
//! Kept, Zeroed, Prepared ---give_back-----------------------------> (hole)
//! any but Zeroing ---reserve (`take_out`)-------------------------> (reserved)
//! taken out ---refused reservation (`put_back`)-------------------> its state before
//! any but Zeroing ---clear_states---------------------------------> (unlisted)
//! ```
//!
//! `Released` and `Kept` leave their state only after a checkpoint has passed their mark (SPACE-4),
//! except to a caller that reserves them. A thread that needs a cluster which is `Zeroing` waits
//! for `Space::zeroing_ended`.
//!
//! The map is volatile: after a crash the bitmaps alone speak for a cluster.

use everbyte_media::Mark;
use std::collections::BTreeMap;
use std::ops::Range;

/// The state of a cluster that no owner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterState {
    /// Released; becomes a hole after a checkpoint has passed the mark.
    Released(Mark),
    /// Released; is zeroed after a checkpoint has passed the mark.
    Kept(Mark),
    /// To be zeroed for the next caller that reserves it (SPACE-6).
    Wanted,
    /// In progress: a thread zeroes it or makes a hole of it.
    Zeroing,
    /// Was kept, and reads as zeros (SPACE-5).
    Zeroed,
    /// Was wanted, and reads as zeros (SPACE-5).
    Prepared,
}

/// A [`ClusterState`] without its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Released,
    Kept,
    Wanted,
    Zeroing,
    Zeroed,
    Prepared,
}

impl ClusterState {
    fn kind(self) -> StateKind {
        match self {
            ClusterState::Released(_) => StateKind::Released,
            ClusterState::Kept(_) => StateKind::Kept,
            ClusterState::Wanted => StateKind::Wanted,
            ClusterState::Zeroing => StateKind::Zeroing,
            ClusterState::Zeroed => StateKind::Zeroed,
            ClusterState::Prepared => StateKind::Prepared,
        }
    }

    /// Whether the cluster reads as zeros and the file system has given its bytes.
    pub(crate) fn is_zeros(self) -> bool {
        matches!(self, ClusterState::Zeroed | ClusterState::Prepared)
    }

    /// Whether `checkpointed` holds for its mark; a state without one waits for no checkpoint.
    fn is_ripe(self, checkpointed: &mut impl FnMut(Mark) -> bool) -> bool {
        match self {
            ClusterState::Released(mark) | ClusterState::Kept(mark) => checkpointed(mark),
            _ => true,
        }
    }
}

/// Ranges that never overlap, each with its state. Adjacent ranges are not joined.
#[derive(Default)]
pub(crate) struct ClusterStates {
    /// By their start: their end, and their state.
    ranges: BTreeMap<u64, (u64, ClusterState)>,
    /// Bytes in each state, so that a question about one state needs no walk.
    bytes: [u64; StateKind::Prepared as usize + 1],
}

impl ClusterStates {
    fn insert(&mut self, range: Range<u64>, state: ClusterState) {
        if !range.is_empty() {
            self.bytes[state.kind() as usize] += range.end - range.start;
            self.ranges.insert(range.start, (range.end, state));
        }
    }

    fn remove(&mut self, range: &Range<u64>, state: ClusterState) {
        self.bytes[state.kind() as usize] -= range.end - range.start;
        self.ranges.remove(&range.start);
    }

    /// Gives `range` a state, in place of the states of its parts.
    pub(crate) fn set(&mut self, range: Range<u64>, state: ClusterState) {
        self.take_out(&range);
        self.insert(range, state);
    }

    /// Gives a state to the parts of `range` that have none.
    pub(crate) fn set_unlisted(&mut self, range: &Range<u64>, state: ClusterState) {
        for part in self.unlisted(range) {
            self.insert(part, state);
        }
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, ClusterState)> {
        let below = self.ranges.range(..range.end).rev().map(|(&start, &(end, state))| (start..end, state));
        let empty = range.is_empty();
        below.take_while(move |(found, _)| !empty && found.end > range.start)
    }

    /// The listed parts of `range`, in order.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<(Range<u64>, ClusterState)> {
        let inside = |(whole, state): (Range<u64>, _)| (whole.start.max(range.start)..whole.end.min(range.end), state);
        let mut found: Vec<_> = self.overlapping(range).map(inside).collect();
        found.reverse();
        found
    }

    /// The parts of `range` that have no state, in order.
    pub(crate) fn unlisted(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        gaps(range, self.within(range).iter().map(|(part, _)| part))
    }

    /// Whether a part of `range` is being zeroed.
    pub(crate) fn is_zeroing(&self, range: &Range<u64>) -> bool {
        self.bytes(StateKind::Zeroing) > 0 && self.overlapping(range).any(|(_, state)| state == ClusterState::Zeroing)
    }

    /// Removes the listed parts of `range` and returns them, in order. The rest of their ranges
    /// keeps its state.
    pub(crate) fn take_out(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, ClusterState)> {
        let inside = self.within(range);
        let found: Vec<_> = self.overlapping(range).collect();
        for (whole, state) in found {
            self.remove(&whole, state);
            self.insert(whole.start..range.start.max(whole.start), state);
            self.insert(range.end.min(whole.end)..whole.end, state);
        }
        inside
    }

    /// Removes the ranges of a kind whose mark is `checkpointed`, and returns them, in order.
    pub(crate) fn take(&mut self, kind: StateKind, mut checkpointed: impl FnMut(Mark) -> bool) -> Vec<Range<u64>> {
        self.take_if(self.bytes(kind), |state| state.kind() == kind && state.is_ripe(&mut checkpointed))
    }

    /// Removes the ranges that read as zeros, and returns them, in order.
    pub(crate) fn take_zeros(&mut self) -> Vec<Range<u64>> {
        self.take_if(self.bytes(StateKind::Zeroed) + self.bytes(StateKind::Prepared), ClusterState::is_zeros)
    }

    fn take_if(&mut self, bytes: u64, mut may: impl FnMut(ClusterState) -> bool) -> Vec<Range<u64>> {
        if bytes == 0 {
            return Vec::new();
        }
        let ranges = self.ranges.iter().map(|(&start, &(end, state))| (start..end, state));
        let ready: Vec<_> = ranges.filter(|(_, state)| may(*state)).collect();
        ready.iter().for_each(|(range, state)| self.remove(range, *state));
        ready.into_iter().map(|(range, _)| range).collect()
    }

    /// Moves the lowest bytes of a kind whose mark is `checkpointed` to [`ClusterState::Zeroing`]:
    /// of one range, and at most `most(start)` of it.
    pub(crate) fn start_zeroing(
        &mut self,
        kind: StateKind,
        most: impl Fn(u64) -> u64,
        mut checkpointed: impl FnMut(Mark) -> bool,
    ) -> Option<Range<u64>> {
        if self.bytes(kind) == 0 {
            return None;
        }
        let mut ranges = self.ranges.iter();
        let mut ripe = |state: ClusterState| state.kind() == kind && state.is_ripe(&mut checkpointed);
        let (&start, &(end, _)) = ranges.find(|(_, (_, state))| ripe(*state))?;
        let some = start..end.min(start + most(start));
        self.set(some.clone(), ClusterState::Zeroing);
        Some(some)
    }

    /// Bytes in the states of a kind.
    pub(crate) fn bytes(&self, kind: StateKind) -> u64 {
        self.bytes[kind as usize]
    }

    /// Bytes without an owner that the file system has not got back.
    pub(crate) fn bytes_waiting(&self) -> u64 {
        let waiting = [StateKind::Released, StateKind::Kept, StateKind::Zeroed, StateKind::Prepared];
        waiting.map(|kind| self.bytes(kind)).iter().sum()
    }

    /// Removes all ranges but those being zeroed: their thread still has them.
    pub(crate) fn clear(&mut self) {
        let all: u64 = self.bytes.iter().sum();
        self.take_if(all, |state| state != ClusterState::Zeroing);
    }
}

/// The parts of `range` outside `parts`, which are in order and may reach beyond it.
pub(crate) fn gaps<'r>(range: &Range<u64>, parts: impl Iterator<Item = &'r Range<u64>>) -> Vec<Range<u64>> {
    let (mut gaps, mut at) = (Vec::new(), range.start);
    for part in parts.filter(|part| part.end > range.start && part.start < range.end) {
        gaps.push(at..part.start.max(at));
        at = part.end;
    }
    gaps.push(at..range.end.max(at));
    gaps.retain(|part| !part.is_empty());
    gaps
}

#[cfg(test)]
mod tests {
    use super::ClusterState::{Kept, Prepared, Released, Wanted, Zeroed, Zeroing};
    use super::*;
    use everbyte_media::{Media, Options};
    use proptest::prelude::*;

    fn mark() -> Mark {
        Media::anonymous(1 << 20, &Options::default()).unwrap().mark()
    }

    #[test]
    fn a_reserved_part_leaves_the_map_and_the_rest_stays() {
        let mut states = ClusterStates::default();
        states.set(0..100, Zeroed);
        states.set(200..300, Wanted);
        let taken = [50..60, 90..210, 250..400].map(|range| states.take_out(&range));
        assert_eq!(taken.concat(), [(50..60, Zeroed), (90..100, Zeroed), (200..210, Wanted), (250..300, Wanted)]);
        assert_eq!((states.bytes(StateKind::Zeroed), states.bytes(StateKind::Wanted)), (50 + 30, 40));
        assert_eq!(states.start_zeroing(StateKind::Zeroed, |_| 20, |_| true), Some(0..20));
        assert!(states.is_zeroing(&(10..30)) && !states.is_zeroing(&(20..30)));
        assert_eq!(
            [states.take(StateKind::Wanted, |_| true), states.take_zeros()].concat(),
            [210..250, 20..50, 60..90]
        );
        assert_eq!((states.bytes_waiting(), states.bytes(StateKind::Zeroing)), (0, 20));
    }

    #[test]
    fn gaps_are_what_the_parts_leave_of_a_range() {
        let parts = [10..20, 20..30, 50..60];
        assert_eq!(gaps(&(0..100), parts.iter()), [0..10, 30..50, 60..100]);
        assert_eq!([gaps(&(15..55), parts.iter()), gaps(&(30..50), parts.iter())].concat(), [30..50, 30..50]);
        assert_eq!(gaps(&(12..28), parts.iter()), []);
    }

    fn plain_bytes(plain: &[Option<ClusterState>], state: ClusterState) -> u64 {
        plain.iter().filter(|found| **found == Some(state)).count() as u64
    }

    proptest! {
        /// The map agrees with one state for each byte after every change.
        #[test]
        fn the_map_agrees_with_a_state_for_each_byte(
            changes in prop::collection::vec((0u64..40, 0u64..20, 0usize..10, 0usize..6), 1..40),
        ) {
            let all = [Released(mark()), Kept(mark()), Wanted, Zeroing, Zeroed, Prepared];
            let (mut states, mut plain) = (ClusterStates::default(), [None; 64]);
            for (start, len, change, state) in changes {
                let (range, bytes) = (start..start + len, start as usize..(start + len) as usize);
                let state = all[state];
                let listed = plain[bytes.clone()].iter().flatten().count() as u64;
                let unlisted: u64 = states.unlisted(&range).iter().map(|part| part.end - part.start).sum();
                prop_assert_eq!(unlisted, len - listed);
                prop_assert_eq!(states.is_zeroing(&range), plain[bytes.clone()].contains(&Some(Zeroing)));
                match change {
                    0..3 => {
                        states.set(range, state);
                        plain[bytes].fill(Some(state));
                    }
                    3..5 => {
                        states.set_unlisted(&range, state);
                        plain[bytes].iter_mut().for_each(|found| *found = found.or(Some(state)));
                    }
                    5 => {
                        let taken = states.take_out(&range);
                        for (part, state) in &taken {
                            let part = part.start as usize..part.end as usize;
                            prop_assert!(plain[part].iter().all(|found| *found == Some(*state)));
                        }
                        prop_assert_eq!(taken.iter().map(|(part, _)| part.end - part.start).sum::<u64>(), listed);
                        plain[bytes].fill(None);
                    }
                    6 => {
                        let taken = states.take(state.kind(), |_| true).into_iter().flatten().count() as u64;
                        prop_assert_eq!(taken, plain_bytes(&plain, state));
                        plain.iter_mut().for_each(|found| *found = found.filter(|found| *found != state));
                    }
                    7 => {
                        let some = states.start_zeroing(state.kind(), |_| len, |_| true);
                        let first = plain.iter().position(|found| *found == Some(state)).map(|at| at as u64);
                        prop_assert_eq!(some.clone().map(|some| some.start), first);
                        let some = some.unwrap_or(0..0);
                        prop_assert!(some.end - some.start <= len);
                        plain[some.start as usize..some.end as usize].fill(Some(Zeroing));
                    }
                    8 => {
                        states.take_zeros();
                        plain.iter_mut().for_each(|found| *found = found.filter(|found| !found.is_zeros()));
                    }
                    _ => {
                        states.clear();
                        plain.iter_mut().for_each(|found| *found = found.filter(|found| *found == Zeroing));
                    }
                }
                for state in all {
                    prop_assert_eq!(states.bytes(state.kind()), plain_bytes(&plain, state), "{:?}", state);
                }
                let within = states.within(&(0..64));
                prop_assert!(within.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
                for (part, state) in within {
                    let part = part.start as usize..part.end as usize;
                    prop_assert!(plain[part].iter().all(|found| *found == Some(state)));
                }
            }
        }
    }
}
