//! When or how often keys were used, about: 8 bytes a key in a table of a fixed size, in memory
//! alone.
//!
//! A key's hash chooses a bucket of 8 slots, 64 bytes in one or two cache lines. A slot has 32 bits
//! of the hash and 32 bits of what is known: tenths of seconds of the last use, or the minute of
//! the last use and a counter that rises with uses, the more seldom the higher it is, and falls by
//! one each minute (Redis's, with `lfu-log-factor` 10 and `lfu-decay-time` 1). A full bucket
//! forgets the key that would go first. A key that is not in the table counts as used when the
//! table was made.
//!
//! The table has 4 Mi slots, 32 MiB, of which the system gives the pages that are used; it exists
//! under the policies that ask for it, and no other.

use crate::eviction_policy::Order;
use std::hash::{DefaultHasher, Hasher};

/// Slots of a bucket.
const WAYS: usize = 8;
/// Slots of the table.
const SLOTS: usize = 4 << 20;
/// The counter of a key that is new.
const NEW: u8 = 5;
/// A step of the counter above [`NEW`] costs so many uses more than the one before it.
const FACTOR: u64 = 10;
/// Milliseconds of a unit of time: of the last use, and of the decay.
const TENTH: u64 = 100;
const MINUTE: u64 = 60_000;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Access {
    kind: Option<Order>,
    slots: Vec<u64>,
    /// Milliseconds since 1970 at which the table was made.
    begun: u64,
}

/// A slot's bits of the hash, never 0, and its bits of knowledge.
fn slot_of(tag: u32, known: u32) -> u64 {
    u64::from(tag | 1) << 32 | u64::from(known)
}

impl Access {
    /// The kind of knowledge that is kept.
    #[inline]
    pub(super) fn kind(&self) -> Option<Order> {
        self.kind
    }

    /// Keeps this from now on; whether it is something else than before.
    pub(super) fn set(&mut self, kind: Option<Order>, now: u64) -> bool {
        if self.kind == kind {
            return false;
        }
        let slots = if kind.is_some() { vec![0; SLOTS] } else { Vec::new() };
        *self = Access { kind, slots, begun: now };
        true
    }

    fn find(&self, database: u8, key: &[u8]) -> (u32, usize) {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(database);
        hasher.write(key);
        let hash = hasher.finish();
        ((hash >> 32) as u32, hash as u32 as usize % (SLOTS / WAYS) * WAYS)
    }

    fn known(&self, database: u8, key: &[u8]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let (tag, bucket) = self.find(database, key);
        let slots = &self.slots[bucket..bucket + WAYS];
        slots.iter().find(|slot| **slot >> 32 == u64::from(tag | 1)).map(|slot| *slot as u32)
    }

    fn since(&self, now: u64, unit: u64) -> u64 {
        now.saturating_sub(self.begun) / unit
    }

    /// The counter as it has fallen by now.
    fn decayed(&self, known: u32, now: u64) -> u8 {
        let minutes = (self.since(now, MINUTE) as u16).wrapping_sub((known >> 8) as u16);
        (known as u8).saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
    }

    /// A key is used.
    pub(super) fn note(&mut self, database: u8, key: &[u8], now: u64, random: &mut dyn FnMut() -> u64) {
        let old = self.known(database, key);
        let known = match self.kind {
            None => return,
            Some(Order::Lfu) => {
                let counter = match old {
                    None => NEW,
                    Some(known) => {
                        let counter = self.decayed(known, now);
                        let odds = u64::from(counter.saturating_sub(NEW)) * FACTOR + 1;
                        let rises = random().is_multiple_of(odds);
                        counter.saturating_add(u8::from(rises))
                    }
                };
                u32::from(self.since(now, MINUTE) as u16) << 8 | u32::from(counter)
            }
            Some(_) => self.since(now, TENTH) as u32,
        };
        let (tag, bucket) = self.find(database, key);
        let is_mine = |slot: u64| slot >> 32 == u64::from(tag | 1);
        let worth = |slot: u64| match self.kind {
            _ if slot == 0 => 0,
            Some(Order::Lfu) => 1 + u64::from(self.decayed(slot as u32, now)),
            _ => 1 + (slot & u64::from(u32::MAX)),
        };
        let slots = &self.slots[bucket..bucket + WAYS];
        let place = slots.iter().position(|slot| is_mine(*slot));
        let place = place.or_else(|| (0..WAYS).min_by_key(|place| worth(slots[*place]))).unwrap_or(0);
        self.slots[bucket + place] = slot_of(tag, known);
    }

    /// Milliseconds since the last use.
    pub(super) fn idle(&self, database: u8, key: &[u8], now: u64) -> u64 {
        let used = self.known(database, key).map_or(0, |known| u64::from(known) * TENTH);
        now.saturating_sub(self.begun).saturating_sub(used)
    }

    /// The counter.
    pub(super) fn frequency(&self, database: u8, key: &[u8], now: u64) -> u8 {
        self.decayed(self.known(database, key).unwrap_or(u32::from(NEW)), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_and_frequencies_follow_uses() {
        let (mut access, mut draws) = (Access::default(), 0_u64);
        let mut random = || {
            draws += 1;
            draws
        };
        assert!(access.set(Some(Order::Lru), 1000) && !access.set(Some(Order::Lru), 2000));
        access.note(0, b"k", 61_000, &mut random);
        assert_eq!(
            [(0, b"k"), (1, b"k"), (0, b"l")].map(|(space, key)| access.idle(space, key, 66_000)),
            [5000, 65_000, 65_000]
        );
        access.set(Some(Order::Lfu), 0);
        for _ in 0..200 {
            access.note(0, b"k", 0, &mut random);
        }
        let often = access.frequency(0, b"k", 0);
        assert!((7..30).contains(&often), "{often}");
        assert_eq!(access.frequency(0, b"k", 3 * MINUTE), often - 3);
        assert_eq!((access.frequency(0, b"l", 0), access.frequency(0, b"k", 500 * MINUTE)), (NEW, 0));
    }

    #[test]
    fn a_full_bucket_forgets_the_key_that_would_go_first() {
        let mut access = Access::default();
        access.set(Some(Order::Lru), 0);
        let (_, bucket) = access.find(0, b"0");
        let same = (0..).map(|number: u64| number.to_string().into_bytes());
        let same = same.filter(|key| access.find(0, key).1 == bucket).take(2).collect::<Vec<_>>();
        // The other slots are of keys used later.
        access.slots[bucket..bucket + WAYS].copy_from_slice(&[slot_of(2, 90); WAYS]);
        access.slots[bucket + 3] = slot_of(4, 10);
        access.note(0, &same[1], 10_000, &mut || 0);
        assert_eq!(access.idle(0, &same[1], 10_000), 0);
        assert_eq!(access.slots[bucket + 3] as u32, 100);
    }
}
