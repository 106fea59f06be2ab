//! The bytes that the data takes: the figure that `maxmemory` bounds.
//!
//! Each entry of the main table and of the tables of keys, elements and deadlines counts as the
//! bytes of its key as stored, those of its value, and 16. Nothing else counts: not functions, not
//! the facts about replication, not the nodes of the tree, not versions that readers hold.
//!
//! The sum is volatile. A server that is told to count begins with nothing and counts the entries
//! of the store in order, some in each iteration, up to a frontier; writes below the frontier
//! change the sum, those above it are counted when the frontier comes by. So the sum never exceeds
//! the truth, and is exact once the frontier has passed all tables. A write then costs one look at
//! the size of the value that it replaces, and the removal of a range a walk over its entries; a
//! server without a bound pays neither.
//!
//! Invariants
//!   USED-1  The sum is that of the entries below the frontier in the batch under way; a batch that
//!           is lost, or goes back to its savepoint, takes the sum with it.

use super::Keyspace;
use super::reads::Place;
use super::tables::DATABASES;
use everbyte_kv::Result;
use std::ops::Bound;

/// Bytes that an entry counts beside its key and its value.
const ENTRY: u64 = 16;
/// The places that are counted, in the order in which the frontier passes them.
const PLACES: [Place; 4] = [Place::Main, Place::Keys, Place::Elements, Place::Deadlines];

/// Bytes by space.
type Sums = [u64; DATABASES];

/// The sums of one moment.
#[derive(Clone)]
struct Counted {
    by_place: [Sums; PLACES.len()],
    /// Of all places together.
    all: u64,
    /// The first place and key that are not counted; at the end one place too many.
    frontier: (usize, Vec<u8>),
}

impl Default for Counted {
    fn default() -> Counted {
        Counted { by_place: [[0; DATABASES]; PLACES.len()], all: 0, frontier: (0, Vec::new()) }
    }
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Used {
    on: bool,
    now: Counted,
    committed: Counted,
    savepoint: Counted,
}

/// The place among the places; `None`: it is not counted.
fn index_of(place: Place) -> Option<usize> {
    PLACES.iter().position(|counted| *counted == place)
}

/// The space of an entry.
fn space_of(place: Place, key: &[u8]) -> usize {
    if place == Place::Main { 0 } else { key.first().map_or(0, |space| usize::from(*space) % DATABASES) }
}

fn entry(key: usize, value: u64) -> u64 {
    key as u64 + value + ENTRY
}

impl Used {
    /// The index of the place if an entry is below the frontier.
    fn counts(&self, place: Place, key: &[u8]) -> Option<usize> {
        let index = index_of(place).filter(|_| self.on)?;
        let (at, first) = &self.now.frontier;
        (index < *at || index == *at && key < &first[..]).then_some(index)
    }

    /// An entry has another value, whose size is given, in place of one of this size.
    pub(super) fn put(&mut self, place: Place, key: &[u8], old: Option<u64>, new: Option<u64>) {
        let Some(index) = self.counts(place, key) else { return };
        let size = |value: Option<u64>| value.map_or(0, |value| entry(key.len(), value));
        for sum in [&mut self.now.by_place[index][space_of(place, key)], &mut self.now.all] {
            *sum = (*sum + size(new)).saturating_sub(size(old));
        }
    }

    /// Entries that counted so much are gone.
    pub(super) fn take(&mut self, place: Place, sums: &Sums) {
        let Some(index) = index_of(place) else { return };
        for (sum, gone) in self.now.by_place[index].iter_mut().zip(sums) {
            *sum = sum.saturating_sub(*gone);
            self.now.all = self.now.all.saturating_sub(*gone);
        }
    }

    /// All entries of a place are gone, or those of a space.
    pub(super) fn clear(&mut self, place: Place, space: Option<usize>) {
        let Some(index) = index_of(place) else { return };
        let mut sums = self.now.by_place[index];
        if let Some(space) = space {
            (0..DATABASES).filter(|other| *other != space).for_each(|other| sums[other] = 0);
        }
        self.take(place, &sums);
    }

    /// Counting begins anew.
    pub(super) fn recount(&mut self) {
        *self = Used { on: self.on, ..Used::default() };
    }

    pub(super) fn set_savepoint(&mut self) {
        if self.on {
            self.savepoint.clone_from(&self.now);
        }
    }

    pub(super) fn roll_back(&mut self) {
        if self.on {
            self.now.clone_from(&self.savepoint);
        }
    }

    pub(super) fn committed(&mut self) {
        if self.on {
            self.committed.clone_from(&self.now);
        }
    }

    pub(super) fn forget(&mut self) {
        if self.on {
            self.now.clone_from(&self.committed);
        }
    }
}

impl Keyspace<'_> {
    /// Whether the bytes of the data are to be counted.
    pub(crate) fn count_used(&mut self, on: bool) {
        if self.remembered.used.on != on {
            self.remembered.used = Used { on, ..Used::default() };
        }
    }

    /// The bytes that the data takes, as far as they are counted, and whether all of them are.
    pub(crate) fn used(&self) -> (u64, bool) {
        let used = &self.remembered.used;
        (used.now.all, used.on && used.now.frontier.0 >= PLACES.len())
    }

    /// Moves the frontier over up to `max` entries: as an iteration begins, before its commands.
    pub(crate) fn count_more(&mut self, max: usize) -> Result<()> {
        let (mut left, mut at) = (max, self.remembered.used.now.frontier.clone());
        while left > 0
            && let Some(&place) = PLACES.get(at.0)
        {
            let (mut sums, mut last) = ([0; DATABASES], None);
            let mut range = self.entries(place, Bound::Included(&at.1), Bound::Unbounded)?;
            while left > 0
                && let Some(met) = range.next_entry()?
            {
                let value = met.value_len();
                let key = met.key()?;
                sums[space_of(place, key)] += entry(key.len(), value);
                last = Some([key, &[0]].concat());
                left -= 1;
            }
            let now = &mut self.remembered.used.now;
            for (sum, more) in now.by_place[at.0].iter_mut().zip(sums) {
                *sum += more;
                now.all += more;
            }
            // The next key is the last one and a zero; none left: the next place.
            at = if left > 0 { (at.0 + 1, Vec::new()) } else { (at.0, last.unwrap_or_default()) };
            now.frontier.clone_from(&at);
        }
        self.remembered.used.committed();
        Ok(())
    }

    /// The size of the value of a key that is counted.
    pub(super) fn counted_size(&mut self, place: Place, key: &[u8]) -> Result<Option<u64>> {
        if self.remembered.used.counts(place, key).is_none() {
            return Ok(None);
        }
        let tables = self.tables;
        let batch = self.batch.get_or_insert_with(|| self.kv.batch());
        match place {
            Place::Keys => batch.table(&tables.keys)?.len_of(key),
            Place::Elements => batch.table(&tables.elements)?.len_of(key),
            Place::Deadlines => batch.table(&tables.deadlines)?.len_of(key),
            _ => batch.len_of(key),
        }
    }

    /// The bytes by space of the entries of a range that are counted.
    pub(super) fn counted_range(&mut self, place: Place, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Sums> {
        let mut sums = [0; DATABASES];
        let Some(index) = index_of(place).filter(|_| self.remembered.used.on) else { return Ok(sums) };
        match range {
            (Bound::Unbounded, Bound::Unbounded) => return Ok(self.remembered.used.now.by_place[index]),
            // A whole space is known without a look.
            (Bound::Included([space]), Bound::Excluded([next])) if place != Place::Main && *next == space + 1 => {
                let space = usize::from(*space) % DATABASES;
                sums[space] = self.remembered.used.now.by_place[index][space];
                return Ok(sums);
            }
            _ => {}
        }
        let frontier = self.remembered.used.now.frontier.clone();
        if index > frontier.0 {
            return Ok(sums);
        }
        self.batch.get_or_insert_with(|| self.kv.batch());
        let mut met = self.entries(place, range.0, range.1)?;
        while let Some(found) = met.next_entry()? {
            let value = found.value_len();
            let key = found.key()?;
            if index == frontier.0 && *key >= frontier.1[..] {
                break;
            }
            sums[space_of(place, key)] += entry(key.len(), value);
        }
        Ok(sums)
    }
}
