//! The policy of group commit: which commits one sync covers, and when it begins.
//!
//! A sync costs the same for one connection as for many. While one runs, further iterations commit
//! and gather. When it ends, the next one begins at once if at least half of the connections that
//! write are aboard: those of the sync that ended and those gathered since. Otherwise it waits for
//! more of them, but for one iteration of the event loop at most, and not at all if no connection
//! has anything to say. Connections that only read do not count.
//!
//! Invariant GATHER-1: after a commit has been added, at most one whole iteration passes with an
//! idle settler before the commit is taken.
//!
//! Threads: the event loop alone.

/// See the head of this file. `C` is a commit.
pub(crate) struct Gather<C> {
    /// The newest commit added and not taken: settling it settles all.
    newest: Option<C>,
    /// Connections that wait for it.
    aboard: usize,
    /// Connections that waited for the commit taken last, until its sync is seen to have ended.
    before: usize,
    /// Connections to wait for.
    enough: usize,
    /// Whether the settler was idle when the iteration under way began.
    idle: bool,
    /// Whole iterations that the oldest commit has waited for an idle settler.
    waited: u64,
}

impl<C> Default for Gather<C> {
    fn default() -> Gather<C> {
        Gather { newest: None, aboard: 0, before: 0, enough: 0, idle: false, waited: 0 }
    }
}

impl<C> Gather<C> {
    /// Whether a commit waits to be taken.
    pub(crate) fn waits(&self) -> bool {
        self.newest.is_some()
    }

    /// Adds a commit, for which `connections` wait.
    pub(crate) fn add(&mut self, commit: C, connections: usize) {
        self.newest = Some(commit);
        self.aboard += connections;
    }

    /// An iteration begins; whether the settler is `idle`.
    pub(crate) fn begin_iteration(&mut self, idle: bool) {
        self.idle = idle && self.waits();
    }

    /// The iteration ends; to be called before its own commit is added.
    pub(crate) fn end_iteration(&mut self) {
        self.waited += u64::from(self.idle && self.waits());
    }

    /// Takes the newest commit for the idle settler if it is time: enough connections are aboard,
    /// or it has waited (GATHER-1), or `all` others are silent. With it come the iterations that it
    /// has waited.
    pub(crate) fn take(&mut self, all: bool) -> Option<(C, u64)> {
        if self.before > 0 {
            self.enough = (self.before + self.aboard).div_ceil(2);
            self.before = 0;
        }
        if !(all || self.aboard >= self.enough || self.waited > 0) {
            return None;
        }
        let commit = self.newest.take()?;
        self.before = std::mem::take(&mut self.aboard);
        Some((commit, std::mem::take(&mut self.waited)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_writer_is_taken_at_once() {
        let mut gather = Gather::default();
        for commit in 0..10 {
            gather.add(commit, 1);
            assert_eq!(gather.take(false), Some((commit, 0)));
            assert_eq!(gather.take(true), None);
        }
    }

    #[test]
    fn half_of_the_writers_are_waited_for_during_one_iteration() {
        let mut gather = Gather::default();
        gather.add(1, 40);
        assert_eq!(gather.take(false), Some((1, 0)));
        // The sync of the 40 runs, and ends; 10 others have come.
        gather.begin_iteration(false);
        gather.end_iteration();
        gather.add(2, 10);
        gather.begin_iteration(true);
        assert_eq!(gather.take(false), None, "10 of 50");
        gather.end_iteration();
        gather.add(3, 14);
        assert_eq!(gather.take(false), Some((3, 1)), "one iteration is enough");
        gather.add(4, 12);
        assert_eq!(gather.take(false), None, "12 of 36");
        gather.add(5, 6);
        assert_eq!(gather.take(false), Some((5, 0)), "18 of 36");
        gather.add(6, 1);
        assert_eq!(gather.take(false), None);
        assert_eq!(gather.take(true), Some((6, 0)), "all others are silent");
    }

    /// GATHER-1, in random programs: iterations of any length, syncs that end anywhere, any numbers
    /// of connections.
    #[test]
    fn no_commit_waits_for_more_than_one_iteration_of_an_idle_settler() {
        let mut state = 0x5eed_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % limit
        };
        let (mut gather, mut idle, mut taken_after) = (Gather::default(), true, [0_u64; 2]);
        // The oldest commit not taken: when it was added, and whether an iteration began after that
        // with an idle settler.
        let (mut oldest, mut passed) = (None, 0);
        for iteration in 0..100_000_u64 {
            idle |= below(3) == 0;
            let whole = idle && oldest.is_some();
            gather.begin_iteration(idle);
            let mut look = |gather: &mut Gather<u64>, idle: &mut bool, oldest: &mut Option<u64>, passed: &mut u64| {
                if let Some((commit, waited)) = idle.then(|| gather.take(false)).flatten() {
                    assert!(
                        commit <= iteration && waited == *passed && waited <= 1,
                        "{waited} iterations, {passed} passed"
                    );
                    taken_after[waited as usize] += 1;
                    (*idle, *oldest, *passed) = (false, None, 0);
                }
            };
            look(&mut gather, &mut idle, &mut oldest, &mut passed);
            idle |= below(4) == 0;
            look(&mut gather, &mut idle, &mut oldest, &mut passed);
            gather.end_iteration();
            passed += u64::from(whole && oldest.is_some());
            if below(3) > 0 {
                gather.add(iteration, 1 + below(40) as usize);
                oldest = oldest.or(Some(iteration));
            }
            look(&mut gather, &mut idle, &mut oldest, &mut passed);
            assert!(passed <= 1, "a commit has waited {passed} iterations");
        }
        assert!(taken_after.iter().all(|count| *count > 1000), "{taken_after:?}");
    }
}
