//! The policy that bursts containers which are slow to search before they are full, as HEAPO's do:
//! by ratio and by trend.
//!
//! A lookup is *direct* if it ends in the first line of its container, which is eight entries. A
//! container is *due* after a hundred lookups of which fewer than 65 in a hundred were direct. It
//! is also due once its capital of 5000 is used up: a direct lookup adds 4 to it, any
//! other costs 32. Lookups change nothing on media; the next change of the trie bursts the
//! container.
//!
//! The counters are volatile and belong to one process. Their number is bounded.

use crate::layout::{BlockKind, CONTAINER};
use crate::trie::{End, Trie};
use crate::{Clusters, Records};

/// Lookups before the ratio counts, and the least share of direct ones in a hundred.
const RATIO: (u32, u32) = (100, 65);
/// The initial capital of a container, the gain of a direct lookup, and the cost of another.
const CAPITAL: (i32, i32, i32) = (5000, 4, 32);
/// The number of counters, as a power of two. Two containers share a counter if this many bits of
/// their hashes agree; the later one then takes it over.
const COUNTED_BITS: u32 = 12;

/// The counters of lookups by container.
#[derive(Default)]
pub(crate) struct BurstPolicy {
    /// Empty before the first lookup.
    counters: Box<[LookupCounter]>,
    /// A name in each container that is due.
    due: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct LookupCounter {
    container: u64,
    lookups: u32,
    direct: u32,
    capital: i32,
}

impl LookupCounter {
    fn of(container: u64) -> LookupCounter {
        LookupCounter { container, lookups: 0, direct: 0, capital: CAPITAL.0 }
    }
}

impl BurstPolicy {
    /// Counts a lookup that ended at `place`.
    pub(crate) fn record(&mut self, place: u64, name: &[u8]) {
        if self.counters.is_empty() {
            self.counters = vec![LookupCounter::of(0); 1 << COUNTED_BITS].into();
        }
        let container = place & !(BlockKind::Container.size() - 1);
        let hash = container.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let counter = &mut self.counters[(hash >> (u64::BITS - COUNTED_BITS)) as usize];
        if counter.container != container {
            *counter = LookupCounter::of(container);
        }
        let direct = place - container < BlockKind::Container.size() / 2;
        counter.lookups = counter.lookups.saturating_add(1);
        counter.direct += u32::from(direct && counter.direct < counter.lookups);
        counter.capital = (counter.capital + if direct { CAPITAL.1 } else { -CAPITAL.2 }).min(CAPITAL.0);
        let of_hundred = |count: u32, share: u32| u64::from(count) * u64::from(share);
        let slow = of_hundred(counter.direct, 100) < of_hundred(counter.lookups, RATIO.1);
        if counter.lookups >= RATIO.0 && slow || counter.capital <= 0 {
            *counter = LookupCounter::of(container);
            self.due.push(name.to_vec());
        }
    }
}

impl<R: Records> Trie<R> {
    /// Bursts one container that is due, if there is one.
    ///
    /// # Errors
    /// As [`Trie::prepare`] and [`Trie::insert`].
    pub fn burst_due<C: Clusters>(&mut self, clusters: &C) -> Result<(), C::Error> {
        let Some(name) = self.policy.due.pop() else { return Ok(()) };
        let descent = self.descend(&name)?;
        let End::Container(at) = descent.end else { return Ok(()) };
        // Another change may have removed names since, or burst the container.
        if self.names_in(at)?.len() as u64 <= CONTAINER / 2 {
            return Ok(());
        }
        self.prepare(clusters)?;
        Ok(self.burst(&descent, at, None)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::Desk;

    /// The number of names that share a container with `name`.
    fn beside(desk: &Desk, name: &str) -> usize {
        let End::Container(at) = desk.trie.descend(name.as_bytes()).unwrap().end else { panic!("{name} is there") };
        desk.trie.names_in(at).unwrap().len()
    }

    /// A trie with a container of twelve names, after lookups of the names at these places in it.
    fn after(lookups: impl Iterator<Item = usize>) -> Desk {
        let mut desk = Desk::new();
        let names: Vec<String> = (0..12).map(|index| format!("{index:x}")).collect();
        names.iter().for_each(|name| desk.insert(name));
        lookups.for_each(|place| assert!(desk.find(&names[place]).is_some()));
        assert_eq!(beside(&desk, "b"), 12, "a lookup changes nothing");
        desk
    }

    #[test]
    fn a_container_bursts_when_too_few_lookups_are_direct() {
        for (direct, bursts) in [(70, false), (60, true)] {
            let mut desk = after((0..100).map(|index| if index < direct { 0 } else { 11 }));
            desk.insert("more");
            assert_eq!(beside(&desk, "b") == 1, bursts, "{direct} of 100");
            assert_eq!((desk.check(), desk.list("").len()), (vec![], 13));
        }
    }

    #[test]
    fn a_container_bursts_when_its_capital_is_used_up() {
        // Seventy in a hundred are direct, so the ratio is kept; each hundred costs 680.
        for (hundreds, bursts) in [(6, false), (9, true)] {
            let mut desk = after((0..hundreds * 100).map(|index| if index % 10 < 7 { 0 } else { 11 }));
            desk.remove("3");
            assert_eq!(beside(&desk, "b") == 1, bursts, "{hundreds} hundred");
            assert_eq!(desk.check(), []);
        }
    }
}
