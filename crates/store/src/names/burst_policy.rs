//! Containers that are slow to search burst before they are full, as HEAPO's do: by ratio and by
//! trend.
//!
//! A lookup is *direct* if it ends in the first line of its container, which is eight entries.
//! After a hundred lookups of which fewer than 65 in a hundred were direct, or once a capital of
//! 5000 is used up, to which a direct lookup adds 4 and any other costs 32, the container is *due*.
//! Lookups change nothing on media: the next change of the name space bursts it.
//!
//! The counters are this process's, volatile, and few.

use super::layout::{CONTAINER, Kind};
use super::trie::{End, Trie};
use crate::Result;
use crate::store::Inner;

/// Lookups before the ratio counts, and what it must be in a hundred.
const RATIO: (u32, u32) = (100, 65);
/// What a container begins with, what a direct lookup adds, and what another costs.
const CAPITAL: (i32, i32, i32) = (5000, 4, 32);
/// Containers that are counted at once, as a power of two: those whose places differ in so many
/// bits of their hash.
const COUNTED_BITS: u32 = 12;

/// How the containers that this process looks into are found.
#[derive(Default)]
pub(super) struct Heats {
    /// Empty before the first lookup.
    of: Box<[Heat]>,
    /// A name in each container that is due.
    due: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Heat {
    container: u64,
    lookups: u32,
    direct: u32,
    capital: i32,
}

impl Heat {
    fn of(container: u64) -> Heat {
        Heat { container, lookups: 0, direct: 0, capital: CAPITAL.0 }
    }
}

impl Heats {
    /// Counts a lookup that ended at `place`.
    pub(super) fn note(&mut self, place: u64, name: &[u8]) {
        if self.of.is_empty() {
            self.of = vec![Heat::of(0); 1 << COUNTED_BITS].into();
        }
        let container = place & !(Kind::Container.size() - 1);
        let hash = container.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let heat = &mut self.of[(hash >> (u64::BITS - COUNTED_BITS)) as usize];
        if heat.container != container {
            *heat = Heat::of(container);
        }
        let direct = place - container < Kind::Container.size() / 2;
        heat.lookups = heat.lookups.saturating_add(1);
        heat.direct += u32::from(direct && heat.direct < heat.lookups);
        heat.capital = (heat.capital + if direct { CAPITAL.1 } else { -CAPITAL.2 }).min(CAPITAL.0);
        let of_hundred = |count: u32, share: u32| u64::from(count) * u64::from(share);
        let slow = of_hundred(heat.direct, 100) < of_hundred(heat.lookups, RATIO.1);
        if heat.lookups >= RATIO.0 && slow || heat.capital <= 0 {
            *heat = Heat::of(container);
            self.due.push(name.to_vec());
        }
    }
}

impl Trie {
    /// Bursts a container that is due, if one is.
    ///
    /// # Errors
    /// As [`Trie::prepare`] and [`Trie::insert`].
    pub(crate) fn burst_due(&mut self, store: &Inner) -> Result<()> {
        let Some(name) = self.heats.due.pop() else { return Ok(()) };
        let walk = self.walk(&name)?;
        let End::Container(at) = walk.end else { return Ok(()) };
        // Others may have removed names since, or burst it.
        if self.names_in(at)?.len() as u64 <= CONTAINER / 2 {
            return Ok(());
        }
        self.prepare(store)?;
        self.burst(&walk, at, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLUSTER, Error, FormatOptions, ObjectOptions, Store};
    use everbyte_media::{Media, Options};

    fn make(store: &Store, name: &str) {
        let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
        drop(store.create_small_object(name, options, |_| Ok::<(), Error>(())).unwrap());
    }

    /// How many names share a container with `name`.
    fn beside(store: &Store, name: &str) -> usize {
        let table = store.inner.table.lock();
        let trie = table.trie.as_ref().unwrap();
        let End::Container(at) = trie.walk(name.as_bytes()).unwrap().end else { panic!("{name} is there") };
        trie.names_in(at).unwrap().len()
    }

    /// A store with a container of twelve, after `lookups` of names, by their place in it.
    fn after(lookups: impl Iterator<Item = usize>) -> Store {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        store.index_names().unwrap();
        let names: Vec<String> = (0..12).map(|index| format!("{index:x}")).collect();
        names.iter().for_each(|name| make(&store, name));
        lookups.for_each(|place| assert!(store.find_on_media(&names[place]).unwrap().is_some()));
        assert_eq!(beside(&store, "b"), 12, "a lookup changes nothing");
        store
    }

    #[test]
    fn a_container_bursts_when_too_few_lookups_are_direct() {
        for (direct, bursts) in [(70, false), (60, true)] {
            let store = after((0..100).map(|index| if index < direct { 0 } else { 11 }));
            make(&store, "more");
            assert_eq!(beside(&store, "b") == 1, bursts, "{direct} of 100");
            assert_eq!((store.check(), store.names("").unwrap().len()), (vec![], 13));
        }
    }

    #[test]
    fn a_container_bursts_when_its_capital_is_used_up() {
        // Seventy in a hundred are direct, so the ratio is kept; each hundred costs 680.
        for (hundreds, bursts) in [(6, false), (9, true)] {
            let store = after((0..hundreds * 100).map(|index| if index % 10 < 7 { 0 } else { 11 }));
            store.remove_object("3").unwrap();
            assert_eq!(beside(&store, "b") == 1, bursts, "{hundreds} hundred");
            assert_eq!(store.check(), []);
        }
    }
}
