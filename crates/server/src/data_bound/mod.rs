//! The bound of the data and the keys that go when it is reached: `maxmemory` and its policies.
//!
//! Before a command that may need space, keys are evicted until the data fits
//! (`iteration/evict.rs`); without an evicting policy the command is refused. The bytes of the data
//! are those of `keyspace/used.rs`. A victim is chosen among keys sampled behind a hand
//! (`keyspace/evict.rs`): the one that was used longest ago or least often, by the table of
//! accesses (`access.rs`); the best candidates of earlier samples stay in a pool. With
//! `volatile-ttl` it is the key whose deadline comes first, of all keys.
//!
//! A store may be full before its data reaches `maxmemory`. Under an evicting policy the command
//! that meets this lowers a second bound, `full_at`, to less than the data takes, and is executed
//! again. That bound rises slowly.
//!
//! Threads: the event loop alone.
//!
//! Design: docs/design/server-eviction.md

mod access;

use crate::eviction_policy::Order;
use crate::keyspace::{Hand, Keyspace};
use crate::options::Options;
use access::Access;
use everbyte_kv::Result;

/// Candidates that are kept from earlier samples.
const POOL: usize = 16;

/// A key that may go.
struct Candidate {
    /// The higher, the sooner.
    score: u64,
    database: u8,
    key: Vec<u8>,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct DataBound {
    /// Whether there is a bound.
    pub on: bool,
    /// Whether the command under way found the data above the bound, and no key to evict.
    pub out_of_memory: bool,
    /// Whether the last search for a victim found none.
    pub exhausted: bool,
    /// The bound that a full store has set.
    full_at: Option<u64>,
    hand: Hand,
    pool: Vec<Candidate>,
    access: Access,
}

impl DataBound {
    /// An iteration begins with these options, at `now`.
    pub(crate) fn begin(&mut self, options: &Options, now: u64) {
        let policy = options.eviction_policy;
        self.on = options.data_max > 0 || policy.evicts();
        self.out_of_memory &= self.on;
        if !policy.evicts() {
            self.full_at = None;
        }
        let kind = policy.order().filter(|order| matches!(order, Order::Lru | Order::Lfu));
        if self.access.set(kind, now) {
            self.pool.clear();
        }
    }

    /// The bytes that the data may take.
    pub(crate) fn limit(&self, options: &Options) -> u64 {
        let most = if options.data_max > 0 { options.data_max } else { u64::MAX };
        most.min(self.full_at.unwrap_or(u64::MAX))
    }

    /// The store was full with so many bytes of data: less has to do.
    pub(crate) fn store_is_full(&mut self, used: u64) {
        let less = used.saturating_sub((used / 32).max(4096));
        self.full_at = Some(self.full_at.map_or(less, |known| known.min(less)));
    }

    /// About once a second: the store may have more room by now.
    pub(crate) fn tick(&mut self) {
        if let Some(full_at) = &mut self.full_at {
            *full_at += *full_at / 1024 + 1;
        }
    }

    /// The idle time of a key in milliseconds; `None` where times are not kept.
    pub(crate) fn idle(&self, database: u8, key: &[u8], now: u64) -> Option<u64> {
        self.access.kind().filter(|kind| *kind == Order::Lru)?;
        Some(self.access.idle(database, key, now))
    }

    /// The frequency of a key's use, from 0 to 255.
    pub(crate) fn frequency(&self, database: u8, key: &[u8], now: u64) -> u8 {
        self.access.frequency(database, key, now)
    }

    /// Whether uses of keys are noted.
    #[inline]
    pub(crate) fn notes_uses(&self) -> bool {
        self.access.kind().is_some()
    }

    /// A key is used.
    pub(crate) fn note_use(&mut self, database: u8, key: &[u8], now: u64, random: &mut dyn FnMut() -> u64) {
        self.access.note(database, key, now, random);
    }

    /// A key to evict; `None`: there is none.
    pub(crate) fn victim(&mut self, options: &Options, keys: &mut Keyspace<'_>) -> Result<Option<(u8, Vec<u8>)>> {
        let (policy, samples, now) = (options.eviction_policy, options.eviction_samples, keys.now());
        match policy.order() {
            None => Ok(None),
            Some(Order::Ttl) => keys.first_deadline(),
            Some(Order::Random) => {
                let mut found = keys.sample(&mut self.hand, policy.is_volatile(), samples)?;
                if found.is_empty() {
                    return Ok(None);
                }
                let chosen = keys.random() as usize % found.len();
                Ok(Some(found.swap_remove(chosen)))
            }
            Some(order) => {
                for (database, key) in keys.sample(&mut self.hand, policy.is_volatile(), samples)? {
                    let score = match order {
                        Order::Lfu => 255 - u64::from(self.access.frequency(database, &key, now)),
                        _ => self.access.idle(database, &key, now),
                    };
                    self.add(Candidate { score, database, key });
                }
                while let Some(Candidate { database, key, .. }) = self.pool.pop() {
                    keys.select(database);
                    let deadline = keys.deadline(&key)?;
                    if deadline.is_some_and(|deadline| deadline != 0 || !policy.is_volatile()) {
                        return Ok(Some((database, key)));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Adds a candidate to the pool, the best of which is last.
    fn add(&mut self, new: Candidate) {
        if self.pool.iter().any(|known| known.database == new.database && known.key == new.key) {
            return;
        }
        let place = self.pool.partition_point(|known| known.score < new.score);
        self.pool.insert(place, new);
        if self.pool.len() > POOL {
            self.pool.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_the_best_candidates() {
        let mut bound = DataBound::default();
        for score in [5, 1, 40, 3, 3, 9].into_iter().chain(100..120) {
            bound.add(Candidate { score, database: 0, key: score.to_string().into_bytes() });
        }
        let scores = Vec::from_iter(bound.pool.iter().map(|candidate| candidate.score));
        assert_eq!(scores, Vec::from_iter(104..120));
    }
}
