//! Histories of concurrent calls on one object, and whether some order of the calls explains them.
//!
//! A history is linearizable if each call takes effect at one instant between its start and its
//! end, so that the results are those of the calls one by one in the order of these instants. The
//! property is compositional: a history of many keys is checked key by key.
//!
//! A call whose result is unknown (its connection was lost) may have taken effect within its
//! interval, or not at all. If the server was killed, the interval ends with the kill: a call that
//! takes effect after the restart is an error, as is one that is half there.
//!
//! The method is just-in-time linearization (Wing and Gong's search as Lowe ordered it): in the
//! order of time, with a set of configurations: the object's state and the pending calls that have
//! taken effect. At the end of a call, pending calls take effect in every order until this one has;
//! configurations in which it cannot are dropped. Configurations are a set, so no one is searched
//! twice. The cost is linear in the length and exponential in the calls pending at one time.

use std::collections::HashSet;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;

/// The sequential object that calls work on.
pub trait Sequential: Clone + Eq + Hash + Debug {
    /// A call, with its result where one is known.
    type Call: Debug;

    /// The object after the call; `None` if the call's result cannot be that of the call now. A
    /// call without a known result always can.
    fn after(&self, call: &Self::Call) -> Option<Self>;
}

/// One call of a history.
#[derive(Clone, Debug)]
pub struct Timed<C> {
    /// The time before the call was sent. All times of one history differ.
    pub start: u64,
    /// The time after the result was received or, without one, from which the call has no effect
    /// unless it had it before.
    pub end: u64,
    /// Whether the result is known, so that the call has taken effect.
    pub certain: bool,
    /// The call.
    pub call: C,
}

/// The place at which no order of the calls explains a history.
#[derive(Debug)]
pub struct Violation(String);

impl Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// Calls pending at one time, at most.
const PENDING_MAX: usize = 64;

/// Whether an order of the calls explains the history, beginning with `first`.
///
/// # Errors
/// The call whose result no order explains, with the states that the object may have had and the
/// calls that were pending.
///
/// # Panics
/// If more than 64 calls are pending at one time.
pub fn check<O: Sequential>(first: O, history: &[Timed<O::Call>]) -> Result<(), Violation> {
    let mut times: Vec<(u64, usize)> =
        history.iter().enumerate().flat_map(|(index, timed)| [(timed.start, index), (timed.end, index)]).collect();
    times.sort_unstable();
    let mut pending: [Option<usize>; PENDING_MAX] = [None; PENDING_MAX];
    // The bit of a place is set where the call in that place has taken effect.
    let mut configurations = HashSet::from([(0u64, first)]);
    for (time, index) in times {
        let timed = &history[index];
        if time == timed.start {
            *pending.iter_mut().find(|place| place.is_none()).expect("at most 64 calls are pending") = Some(index);
            continue;
        }
        let place = pending.iter().position(|place| *place == Some(index)).expect("started before it ends");
        let next = at_end(history, &pending, place, &configurations);
        if next.is_empty() {
            return Err(violation(history, &pending, index, &configurations));
        }
        (configurations, pending[place]) = (next, None);
    }
    Ok(())
}

/// The configurations after the end of the call in `place`.
fn at_end<O: Sequential>(
    history: &[Timed<O::Call>],
    pending: &[Option<usize>; PENDING_MAX],
    place: usize,
    before: &HashSet<(u64, O)>,
) -> HashSet<(u64, O)> {
    let certain = pending[place].is_some_and(|index| history[index].certain);
    let (mut seen, mut next) = (before.clone(), HashSet::new());
    let mut open: Vec<(u64, O)> = before.iter().cloned().collect();
    while let Some((done, state)) = open.pop() {
        if done & 1 << place != 0 {
            next.insert((done & !(1 << place), state));
            continue;
        }
        if !certain {
            next.insert((done, state.clone())); // it never took effect
        }
        let others = pending.iter().enumerate().filter(|(other, _)| done & 1 << other == 0);
        for (other, call) in others.filter_map(|(other, index)| Some((other, &history[(*index)?].call))) {
            if let Some(state) = state.after(call) {
                let configuration = (done | 1 << other, state);
                if seen.insert(configuration.clone()) {
                    open.push(configuration);
                }
            }
        }
    }
    next
}

fn violation<O: Sequential>(
    history: &[Timed<O::Call>],
    pending: &[Option<usize>; PENDING_MAX],
    index: usize,
    configurations: &HashSet<(u64, O)>,
) -> Violation {
    let Timed { start, end, call, .. } = &history[index];
    let mut text = format!("no order of the calls explains {call:?} in {start}..{end}\nthe object may have been:");
    for (_, state) in configurations.iter().take(8) {
        text += &format!("\n  {state:?}");
    }
    text += "\nand other calls were pending:";
    for &other in pending.iter().flatten().filter(|other| **other != index) {
        let Timed { start, end, certain, call } = &history[other];
        text += &format!("\n  {call:?} in {start}..{end}{}", if *certain { "" } else { ", perhaps" });
    }
    text += "\nand before it:";
    let mut earlier: Vec<&Timed<O::Call>> = history.iter().filter(|timed| timed.end < *start).collect();
    earlier.sort_unstable_by_key(|timed| timed.end);
    for Timed { start, end, certain, call } in &earlier[earlier.len().saturating_sub(12)..] {
        text += &format!("\n  {call:?} in {start}..{end}{}", if *certain { "" } else { ", perhaps" });
    }
    Violation(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// A register; a read knows what it read, or nothing yet.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        Write(u8),
        Read(u8),
        /// Adds one; the number after it, if the reply came.
        Add(Option<u8>),
    }
    use Call::{Add, Read, Write};

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Register(u8);

    impl Sequential for Register {
        type Call = Call;
        fn after(&self, call: &Call) -> Option<Register> {
            match *call {
                Write(value) => Some(Register(value)),
                Read(value) => (value == self.0).then_some(self.clone()),
                Add(result) => result.is_none_or(|result| result == self.0 + 1).then_some(Register(self.0 + 1)),
            }
        }
    }

    fn timed(start: u64, end: u64, call: Call) -> Timed<Call> {
        Timed { start, end, certain: true, call }
    }

    fn lost(start: u64, end: u64, call: Call) -> Timed<Call> {
        Timed { certain: false, ..timed(start, end, call) }
    }

    fn is_linearizable(history: &[Timed<Call>]) -> bool {
        check(Register(0), history).is_ok()
    }

    #[test]
    fn calls_one_after_another_have_one_order() {
        assert!(is_linearizable(&[timed(0, 1, Write(1)), timed(2, 3, Read(1))]));
        assert!(!is_linearizable(&[timed(0, 1, Write(1)), timed(2, 3, Read(0))]), "a stale read");
        assert!(!is_linearizable(&[timed(0, 1, Add(Some(1))), timed(2, 3, Add(Some(1)))]), "a lost update");
    }

    #[test]
    fn concurrent_calls_may_have_either_order() {
        for read in [0, 1] {
            assert!(is_linearizable(&[timed(0, 3, Write(1)), timed(1, 2, Read(read))]));
        }
        assert!(!is_linearizable(&[timed(0, 3, Write(1)), timed(1, 2, Read(2))]), "a value from nowhere");
        // Two readers within one write: not back in time.
        let readers = |one, other| [timed(0, 9, Write(1)), timed(1, 2, Read(one)), timed(3, 4, Read(other))];
        assert!(is_linearizable(&readers(0, 1)) && is_linearizable(&readers(1, 1)));
        assert!(!is_linearizable(&readers(1, 0)), "a read and then the value before it");
    }

    #[test]
    fn a_lost_call_took_effect_before_the_kill_or_never() {
        for read in [0, 1] {
            assert!(is_linearizable(&[lost(0, 3, Write(1)), timed(4, 5, Read(read))]));
        }
        let twice = |one, other| [lost(0, 3, Write(1)), timed(4, 5, Read(one)), timed(6, 7, Read(other))];
        assert!(!is_linearizable(&twice(0, 1)), "it took effect after the restart");
        assert!(!is_linearizable(&twice(1, 0)), "it was taken back");
        assert!(!is_linearizable(&[lost(0, 3, Add(None)), timed(4, 5, Read(2))]), "it took effect twice");
        let both = [lost(0, 5, Add(None)), lost(1, 4, Add(None)), timed(2, 3, Read(1)), timed(6, 7, Read(2))];
        assert!(is_linearizable(&both));
    }

    #[test]
    fn an_acknowledged_call_is_not_lost_by_a_kill() {
        let history = |read| [timed(0, 1, Write(1)), lost(2, 5, Write(2)), timed(6, 7, Read(read))];
        assert!(is_linearizable(&history(1)) && is_linearizable(&history(2)));
        let error = check(Register(0), &history(0)).unwrap_err().to_string();
        assert!(error.contains("explains Read(0) in 6..7") && error.contains("Write(2) in 2..5, perhaps"), "{error}");
    }

    /// Histories that were made by an order are found linearizable; those in which one result was
    /// changed agree with a search through every order.
    #[test]
    fn random_histories_agree_with_every_order_tried() {
        let (mut random, mut refused) = (Random::new(crate::seed(7, "-p everbyte-workload random_histories")), 0);
        for _ in 0..3000 {
            let count = 1 + random.index(6);
            let mut instants: Vec<u64> = (0..3 * count as u64).collect();
            let mut state = Register(0);
            let mut history: Vec<Timed<Call>> = (0..count)
                .map(|_| {
                    let mut times: Vec<u64> = (0..2).map(|_| instants.remove(random.index(instants.len()))).collect();
                    times.sort_unstable();
                    let call = [Write(random.index(3) as u8), Read(0), Add(None)][random.index(3)];
                    Timed { start: times[0], end: times[1], certain: random.index(4) != 0, call }
                })
                .collect();
            history.sort_by_key(|timed| timed.start + random.below(timed.end - timed.start));
            let real = (0..count).all(|at| history[at..].iter().all(|later| later.end > history[at].start));
            for timed in &mut history {
                if !timed.certain && random.index(2) == 0 {
                    continue; // no effect
                }
                timed.call = match timed.call {
                    Read(_) => Read(state.0),
                    Add(_) => Add(timed.certain.then_some(state.0 + 1)),
                    write => write,
                };
                state = state.after(&timed.call).unwrap();
            }
            for timed in history.iter_mut().filter(|timed| !timed.certain && matches!(timed.call, Read(_))) {
                timed.call = Write(2); // a read without a result says nothing
            }
            if real {
                assert!(is_linearizable(&history), "{history:?}");
            }
            let at = random.index(count);
            if let Read(value) = &mut history[at].call {
                *value = random.index(4) as u8;
            }
            let expect = every_order(&Register(0), &history, &mut vec![false; count]);
            assert_eq!(is_linearizable(&history), expect, "{history:?}");
            refused += usize::from(!expect);
        }
        assert!((100..2900).contains(&refused), "{refused} of 3000 histories are refused");
    }

    /// By trying everything.
    fn every_order(state: &Register, history: &[Timed<Call>], done: &mut Vec<bool>) -> bool {
        let left: Vec<usize> = (0..history.len()).filter(|&index| !done[index]).collect();
        let soonest = left.iter().map(|&index| history[index].end).min().unwrap_or(0);
        left.is_empty()
            || left.iter().filter(|&&index| history[index].start < soonest).any(|&index| {
                done[index] = true;
                let after = state.after(&history[index].call);
                let found = after.is_some_and(|after| every_order(&after, history, done))
                    || !history[index].certain && every_order(state, history, done);
                done[index] = false;
                found
            })
    }
}
