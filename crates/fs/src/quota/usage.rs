//! [`Quotas`]: the pages and inodes of each user, group and project, in memory, with their limits.
//!
//! A change is charged before its words change, under one lock for all owners, so that no two
//! threads pass a limit together. A volume without limits is not counted: one load a call.
//!
//! Threads: any. The lock is held for one charge; no other lock is taken under it.

use super::limits::{Quota, QuotaKind, QuotaLimit, QuotaLimits};
use crate::layout::{Inode, PAGE};
use crate::{Clock, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A user, a group or a project.
pub(crate) type Key = (QuotaKind, u32);

/// The owners that a file is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
    pub project: u32,
}

impl Owner {
    pub(crate) fn of(inode: &Inode) -> Owner {
        Owner { uid: inode.uid, gid: inode.gid, project: inode.project }
    }

    fn keys(self) -> [Key; 3] {
        [(QuotaKind::User, self.uid), (QuotaKind::Group, self.gid), (QuotaKind::Project, self.project)]
    }
}

/// A change of what a file has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub owner: Owner,
    pub pages: i64,
    pub inodes: i64,
}

/// Pages and inodes, and since when each is above its soft limit; 0: it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub pages: u64,
    pub inodes: u64,
    pub since: [i64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    used: Used,
    limits: QuotaLimits,
}

/// The counters of all owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(HashMap<Key, Counter>);

impl Counters {
    /// A file with these pages.
    pub(crate) fn add(&mut self, owner: Owner, pages: u64) {
        for key in owner.keys() {
            let used = &mut self.0.entry(key).or_default().used;
            (used.pages, used.inodes) = (used.pages + pages, used.inodes + 1);
        }
    }

    /// The pages and inodes of each owner, in the order of keys.
    pub(crate) fn into_used(self) -> Vec<(Key, Used)> {
        let mut all: Vec<(Key, Used)> = self.0.into_iter().map(|(key, counter)| (key, counter.used)).collect();
        all.retain(|(_, used)| used.pages > 0 || used.inodes > 0);
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

/// The counters of a volume.
pub(crate) struct Quotas {
    /// The volume has limits, and is counted.
    is_on: AtomicBool,
    counters: Mutex<Counters>,
    clock: Clock,
}

/// A charge, which is given back when it is dropped before [`Charge::keep`].
#[must_use = "it is given back"]
pub(crate) struct Charge<'q> {
    quotas: Option<&'q Quotas>,
    sums: Vec<(Key, i64, i64)>,
}

impl Quotas {
    pub(crate) fn new(clock: Clock) -> Quotas {
        Quotas { is_on: AtomicBool::new(false), counters: Mutex::default(), clock }
    }

    /// Whether the volume is counted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counters as a scan, or a saved state, has them.
    pub(crate) fn load(&self, used: Vec<(Key, Used)>) {
        let all = used.into_iter().map(|(key, used)| (key, Counter { used, ..Counter::default() }));
        *self.counters.lock() = Counters(all.collect());
    }

    /// The limits of all owners; none: the volume is not counted from now on. No call that is
    /// charged runs.
    pub(crate) fn set_limits(&self, all: &[(Key, QuotaLimits)]) {
        let mut counters = self.counters.lock();
        counters.0.values_mut().for_each(|counter| counter.limits = QuotaLimits::default());
        for &(key, limits) in all {
            counters.0.entry(key).or_default().limits = limits;
        }
        if all.is_empty() {
            counters.0.clear();
        } else {
            let now = (self.clock)();
            counters.0.values_mut().for_each(|counter| counter.note(now));
        }
        self.is_on.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// All owners with limits.
    pub(crate) fn all(&self) -> Vec<Quota> {
        let counters = self.counters.lock();
        let limited = counters.0.iter().filter(|(_, counter)| counter.limits != QuotaLimits::default());
        let mut all: Vec<Quota> = limited
            .map(|(&(kind, id), &Counter { used, limits })| {
                let Used { pages, inodes, since } = used;
                Quota { kind, id, limits, bytes: pages * PAGE, inodes, since }
            })
            .collect();
        all.sort_unstable_by_key(|quota| (quota.kind, quota.id));
        all
    }

    /// The pages and inodes of each owner.
    pub(crate) fn used(&self) -> Vec<(Key, Used)> {
        self.counters.lock().clone().into_used()
    }

    /// Charges a change to all of its owners, or to none.
    ///
    /// # Errors
    /// [`Error::Quota`]: a limit would be passed.
    pub(crate) fn charge(&self, volume: &str, deltas: &[Delta]) -> Result<Charge<'_>> {
        if deltas.is_empty() || !self.is_on() {
            return Ok(Charge { quotas: None, sums: Vec::new() });
        }
        let mut sums: Vec<(Key, i64, i64)> = Vec::with_capacity(6);
        for delta in deltas {
            for key in delta.owner.keys() {
                match sums.iter_mut().find(|(found, ..)| *found == key) {
                    Some((_, pages, inodes)) => {
                        (*pages, *inodes) = (*pages + delta.pages, *inodes + delta.inodes);
                    }
                    None => sums.push((key, delta.pages, delta.inodes)),
                }
            }
        }
        let now = (self.clock)();
        let mut counters = self.counters.lock();
        for &(key, pages, inodes) in &sums {
            if let Some(counter) = counters.0.get(&key) {
                counter.admit(pages, inodes, now).map_err(|limit| {
                    let (kind, id) = key;
                    Error::Quota { volume: volume.into(), kind, id, limit }
                })?;
            }
        }
        for &(key, pages, inodes) in &sums {
            counters.change(key, pages.max(0), inodes.max(0), now);
        }
        Ok(Charge { quotas: Some(self), sums })
    }
}

impl Charge<'_> {
    /// The change is made: what its owners have no more is theirs to use from now on.
    pub(crate) fn keep(mut self) {
        self.end(|pages, inodes| (pages.min(0), inodes.min(0)));
    }

    fn end(&mut self, rest: impl Fn(i64, i64) -> (i64, i64)) {
        let Some(quotas) = self.quotas.take() else { return };
        let now = (quotas.clock)();
        let mut counters = quotas.counters.lock();
        for &(key, pages, inodes) in &self.sums {
            let (pages, inodes) = rest(pages, inodes);
            counters.change(key, pages, inodes, now);
        }
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.end(|pages, inodes| (-pages.max(0), -inodes.max(0)));
    }
}

impl Counters {
    fn change(&mut self, key: Key, pages: i64, inodes: i64, now: i64) {
        if pages == 0 && inodes == 0 {
            return;
        }
        let counter = self.0.entry(key).or_default();
        let used = &mut counter.used;
        used.pages = used.pages.saturating_add_signed(pages);
        used.inodes = used.inodes.saturating_add_signed(inodes);
        counter.note(now);
        if counter.used == Used::default() && counter.limits == QuotaLimits::default() {
            self.0.remove(&key);
        }
    }
}

impl Counter {
    /// The numbers of both limits, in their units.
    fn both(&self) -> [(u64, QuotaLimit, &'static str); 2] {
        let bytes = self.limits.bytes;
        let pages = QuotaLimit { soft: bytes.soft / PAGE, hard: bytes.hard / PAGE, grace: bytes.grace };
        [(self.used.pages, pages, "bytes"), (self.used.inodes, self.limits.inodes, "inodes")]
    }

    /// Refuses what would pass a limit: the name of it.
    fn admit(&self, pages: i64, inodes: i64, now: i64) -> Result<(), &'static str> {
        for (index, (added, (used, limit, name))) in [pages, inodes].into_iter().zip(self.both()).enumerate() {
            if added <= 0 {
                continue;
            }
            let next = used.saturating_add_signed(added);
            let since = self.used.since[index];
            let grace = i64::from(limit.grace).saturating_mul(1_000_000_000);
            let is_late = limit.grace == 0 || since != 0 && now.saturating_sub(since) >= grace;
            if limit.hard > 0 && next > limit.hard || limit.soft > 0 && next > limit.soft && is_late {
                return Err(name);
            }
        }
        Ok(())
    }

    /// Begins or ends the time above a soft limit.
    fn note(&mut self, now: i64) {
        for (index, (used, limit, _)) in self.both().into_iter().enumerate() {
            let since = &mut self.used.since[index];
            match limit.soft > 0 && used > limit.soft {
                true if *since == 0 => *since = now,
                true => (),
                false => *since = 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    const OWNER: Owner = Owner { uid: 7, gid: 8, project: 9 };
    static NOW: AtomicI64 = AtomicI64::new(0);

    fn clock() -> i64 {
        NOW.load(Ordering::Relaxed)
    }

    fn limited(bytes: QuotaLimit) -> Quotas {
        let quotas = Quotas::new(clock);
        quotas.set_limits(&[((QuotaKind::Group, 8), QuotaLimits { bytes, ..QuotaLimits::default() })]);
        quotas
    }

    fn charge(quotas: &Quotas, pages: i64) -> bool {
        let charged = quotas.charge("v", &[Delta { owner: OWNER, pages, inodes: 0 }]);
        charged.map(Charge::keep).is_ok()
    }

    #[test]
    fn a_soft_limit_counts_as_hard_after_its_grace() {
        let second = 1_000_000_000;
        NOW.store(5 * second, Ordering::Relaxed);
        let quotas = limited(QuotaLimit { soft: 10 * PAGE, hard: 20 * PAGE, grace: 3 });
        assert!(charge(&quotas, 10) && charge(&quotas, 2), "the soft limit is passed");
        assert!(!charge(&quotas, 9), "the hard limit is not");
        NOW.store(8 * second - 1, Ordering::Relaxed);
        assert!(charge(&quotas, 1));
        NOW.store(8 * second, Ordering::Relaxed);
        assert!(!charge(&quotas, 1), "the grace has ended");
        assert!(charge(&quotas, -3), "usage may always shrink");
        assert_eq!(quotas.all()[0].since[0], 0);
        assert!(charge(&quotas, 1), "below the limit the grace begins anew");
        assert_eq!(quotas.all()[0].since[0], 8 * second);
        assert_eq!(quotas.all()[0].bytes, 11 * PAGE);
        assert!(charge(&limited(QuotaLimit { soft: 2 * PAGE, ..QuotaLimit::default() }), 2));
        assert!(!charge(&limited(QuotaLimit { soft: 2 * PAGE, ..QuotaLimit::default() }), 3), "no grace");
    }

    #[test]
    fn a_charge_that_is_dropped_is_given_back_and_one_that_falls_waits() {
        let quotas = limited(QuotaLimit { hard: 10 * PAGE, ..QuotaLimit::default() });
        assert!(charge(&quotas, 8));
        drop(quotas.charge("v", &[Delta { owner: OWNER, pages: 2, inodes: 1 }]).unwrap());
        assert_eq!((quotas.all()[0].bytes, quotas.all()[0].inodes), (8 * PAGE, 0));
        let falling = quotas.charge("v", &[Delta { owner: OWNER, pages: -5, inodes: 0 }]).unwrap();
        assert!(!charge(&quotas, 3), "the pages are in use until the change is made");
        falling.keep();
        assert!(charge(&quotas, 7));
        // From one user to another one of the same group.
        let other = Owner { uid: 1, ..OWNER };
        let moved = [(OWNER, -10), (other, 10)].map(|(owner, pages)| Delta { owner, pages, inodes: 0 });
        quotas.charge("v", &moved).unwrap().keep();
        let used = quotas.used();
        assert_eq!(used.iter().find(|(key, _)| *key == (QuotaKind::User, 1)).unwrap().1.pages, 10);
        assert!(!used.iter().any(|(key, _)| *key == (QuotaKind::User, 7)));
    }

    #[test]
    fn threads_do_not_pass_a_limit_together() {
        let quotas = limited(QuotaLimit { hard: 1000 * PAGE, ..QuotaLimit::default() });
        let granted = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if charge(&quotas, 1) {
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((granted.into_inner(), quotas.all()[0].bytes), (1000, 1000 * PAGE));
    }
}
