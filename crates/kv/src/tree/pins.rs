//! Pins: readers say which version they read, the writer asks for the oldest.
//!
//! A reader stores the published version in a slot and then looks whether it is still the published
//! one. The writer publishes first and reads the slots afterwards. With both in sequentially
//! consistent order, either the writer sees the pin or the reader sees the newer version and pins
//! that instead. So (PIN-1) nothing a pinned version sees is reclaimed.
//!
//! A limit may say how many commits behind a reader may be: numbers would not do, since a batch may
//! use many. The writer raises `expired` before it reclaims beyond such a reader's version; the
//! reader looks at `expired` after it has read, and what it read counts only if its version is not
//! expired (PIN-2).
//!
//! In a store that processes share, the pins of readers in other processes count, too: `readers`.
//!
//! Threads: any. `Pinned` may move between threads. `schedules` compiles this file again, with
//! atomics of its own.
//!
//! Design: docs/design/readers-beside-a-writer.md

use super::readers::{self, Page, Reader, ReaderPin, Unready};
use super::sync::{AtomicU64, Mutex, SLOTS, fence, hint, set_hint, spin_loop};
use crate::tree::number::Version;
use crossbeam_utils::CachePadded;
use everbyte_media::seeded;
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;

/// The newest settled version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub version: Version,
    pub root: u64,
    pub keys: KeyCounts,
}

/// Live keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCounts {
    /// Of all tables.
    pub all: u64,
    /// Of the main table.
    pub main: u64,
}

pub(crate) struct Pins {
    /// Odd while a publication is under way.
    sequence: AtomicU64,
    version: AtomicU64,
    root: AtomicU64,
    keys: AtomicU64,
    main_keys: AtomicU64,
    /// 0 is free; else the pinned version (versions start at 1).
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Pins that found no free slot: how many for each version.
    overflow: Mutex<BTreeMap<u64, usize>>,
    /// Versions that have names, and how many each.
    named: Mutex<BTreeMap<u64, usize>>,
    /// How many commits behind the newest a reader may be; 0: any number.
    limit: AtomicU64,
    /// Pins of versions before this one count no more (PIN-2).
    expired: AtomicU64,
    /// Versions committed while there is a limit, the oldest first: those that some reader may be
    /// behind. Held while a version is published.
    recent: Mutex<VecDeque<u64>>,
    /// The page of readers in other processes, if there may be some.
    page: OnceLock<Page>,
    /// Set if the writer is another process: all pins go there.
    reader: Option<Reader>,
}

/// The place of a pin.
pub(crate) struct Ticket {
    slot: Option<usize>,
    version: Version,
    /// The pin of a reader of another process's tree.
    outside: Option<ReaderPin>,
}

impl Pins {
    pub(crate) fn new(first: Published) -> Pins {
        Pins {
            sequence: AtomicU64::new(0),
            version: AtomicU64::new(first.version.get()),
            root: AtomicU64::new(first.root),
            keys: AtomicU64::new(first.keys.all),
            main_keys: AtomicU64::new(first.keys.main),
            slots: (0..SLOTS).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            overflow: Mutex::new(BTreeMap::new()),
            named: Mutex::new(BTreeMap::new()),
            limit: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            recent: Mutex::default(),
            page: OnceLock::new(),
            reader: None,
        }
    }

    /// The pins of a reader of a tree that another process writes.
    pub(crate) fn outside(reader: Reader) -> Pins {
        let none = Published { version: Version::NONE, root: 0, keys: KeyCounts::default() };
        Pins { reader: Some(reader), ..Pins::new(none) }
    }

    /// Lets processes read what is published, from the version on that is published now.
    ///
    /// # Panics
    /// If they can already.
    pub(crate) fn show(&self, page: Page) {
        let _recent = self.recent.lock();
        page.publish(self.published());
        assert!(self.page.set(page).is_ok(), "a tree has one page of readers");
    }

    /// Makes `next` what new readers see, unless they already see a newer version.
    pub(crate) fn publish(&self, next: Published) {
        let mut recent = self.recent.lock();
        if next.version <= self.version.load(SeqCst) {
            return;
        }
        self.count(&mut recent, next.version);
        // First: from `oldest`, which is at most the version published here, no reader in another
        // process is still to pin an older one.
        if let Some(page) = self.page.get() {
            page.publish(next);
        }
        let sequence = self.sequence.load(SeqCst);
        self.sequence.store(sequence + 1, SeqCst);
        self.version.store(next.version.get(), SeqCst);
        self.root.store(next.root, SeqCst);
        self.keys.store(next.keys.all, SeqCst);
        self.main_keys.store(next.keys.main, SeqCst);
        self.sequence.store(sequence + 2, SeqCst);
    }

    /// Counts a commit that is passed over: a newer one is published with it.
    pub(crate) fn pass(&self, version: Version) {
        self.count(&mut self.recent.lock(), version);
    }

    fn count(&self, recent: &mut VecDeque<u64>, version: Version) {
        if self.limit_now().is_some() && recent.back().is_none_or(|&newest| newest < version.get()) {
            recent.push_back(version.get());
        }
    }

    /// How many commits behind the newest a reader may be, and whether that holds for readers of
    /// this process, too.
    fn limit_now(&self) -> Option<(u64, bool)> {
        match self.limit.load(SeqCst) {
            0 => self.page.get().filter(|page| page.is_read()).map(|_| (readers::LIMIT, false)),
            limit => Some((limit, true)),
        }
    }

    fn read(&self) -> (u64, Published) {
        loop {
            let before = self.sequence.load(SeqCst);
            if before.is_multiple_of(2) {
                let (version, root) = (self.version.load(SeqCst), self.root.load(SeqCst));
                let keys = KeyCounts { all: self.keys.load(SeqCst), main: self.main_keys.load(SeqCst) };
                if self.sequence.load(SeqCst) == before {
                    return (before, Published { version: Version::new(version), root, keys });
                }
            }
            spin_loop();
        }
    }

    /// The newest settled version, without pinning it.
    pub(crate) fn published(&self) -> Published {
        self.read().1
    }

    /// Pins the newest settled version. A locked instruction and a few loads; never waits for the
    /// writer.
    pub(crate) fn pin(&self) -> (Ticket, Published) {
        let hint = hint();
        let (mut sequence, mut seen) = self.read();
        let slot = (0..SLOTS).map(|step| (hint + step) % SLOTS).find(|&slot| {
            self.slots[slot].load(SeqCst) == 0
                && self.slots[slot].compare_exchange(0, seen.version.get(), SeqCst, SeqCst).is_ok()
        });
        let Some(slot) = slot else {
            // The map's lock orders this with `oldest`, which takes it too.
            let mut overflow = self.overflow.lock();
            let seen = if seeded("tree-overflow-early") { seen } else { self.read().1 };
            *overflow.entry(seen.version.get()).or_default() += 1;
            return (Ticket { slot: None, version: seen.version, outside: None }, seen);
        };
        set_hint(slot);
        // PIN-1: pairs with the publication before `oldest` reads the slots.
        while self.sequence.load(SeqCst) != sequence && !seeded("tree-pin-unchecked") {
            (sequence, seen) = self.read();
            self.slots[slot].store(seen.version.get(), SeqCst);
        }
        (Ticket { slot: Some(slot), version: seen.version, outside: None }, seen)
    }

    /// Whether the tree is another process's, which this one reads.
    #[inline]
    pub(crate) fn is_outside(&self) -> bool {
        self.reader.is_some()
    }

    /// As [`Pins::pin`], of another process's tree; see [`Reader::pin`].
    ///
    /// # Panics
    /// If the tree is this process's own.
    pub(crate) fn pin_outside<E: From<Unready>>(
        &self,
        ready: impl FnMut(&ReaderPin) -> Result<(), E>,
    ) -> Result<(Ticket, Published, u64), E> {
        let reader = self.reader.as_ref().expect("a reader of another process's tree");
        let (pin, seen) = reader.pin(ready)?;
        Ok((Ticket { slot: None, version: seen.version, outside: Some(pin) }, seen, pin.len))
    }

    /// Pins an older version that something else keeps meanwhile: a name, or a pin.
    pub(crate) fn hold(&self, version: Version) -> Ticket {
        *self.overflow.lock().entry(version.get()).or_default() += 1;
        Ticket { slot: None, version, outside: None }
    }

    /// Pins a version until [`Pins::release_named`]; no limit ends it.
    pub(crate) fn hold_named(&self, version: Version) {
        *self.named.lock().entry(version.get()).or_default() += 1;
    }

    /// Takes back a pin of [`Pins::hold_named`].
    pub(crate) fn release_named(&self, version: Version) {
        release(&mut self.named.lock(), version);
    }

    /// Sets how many commits behind the newest a reader may be; 0: any number. Commits before this
    /// are not counted.
    pub(crate) fn set_limit(&self, commits: u64) {
        let mut recent = self.recent.lock();
        self.limit.store(commits, SeqCst);
        recent.clear();
    }

    /// Ends the pins of readers that are too far behind. The writer calls this before it reclaims.
    pub(crate) fn expire(&self) {
        let Some((limit, has_limit)) = self.limit_now() else { return };
        if let Some(page) = self.page.get() {
            page.bury(self.published().version.get());
        }
        let oldest = self.oldest_of_readers();
        if let Some(page) = self.page.get() {
            page.forget(oldest);
        }
        let mut recent = self.recent.lock();
        while recent.front().is_some_and(|&version| version <= oldest) {
            recent.pop_front();
        }
        let newest = self.published().version.get();
        let behind = recent.partition_point(|&version| version <= newest);
        if let Some(more) = (behind as u64).checked_sub(limit).filter(|&more| more > 0) {
            // Those before count for no reader any more.
            recent.drain(..more as usize - 1);
            if has_limit {
                self.expired.fetch_max(recent[0], SeqCst);
            }
            if let Some(page) = self.page.get() {
                page.expire(recent[0]);
            }
        }
    }

    /// As [`Pins::is_expired`], of the version that a ticket pins.
    #[inline]
    pub(crate) fn is_over(&self, ticket: &Ticket) -> bool {
        match (&ticket.outside, &self.reader) {
            (Some(pin), Some(reader)) => reader.is_expired(pin),
            _ => self.is_expired(ticket.version),
        }
    }

    /// Whether the version that a ticket pins is the newest settled one.
    pub(crate) fn is_newest(&self, ticket: &Ticket) -> bool {
        match (&ticket.outside, &self.reader) {
            (Some(pin), Some(reader)) => reader.is_newest(pin),
            _ => self.published().version == ticket.version,
        }
    }

    /// Whether what a reader at `version` has read until now may have been reclaimed (PIN-2).
    #[inline]
    pub(crate) fn is_expired(&self, version: Version) -> bool {
        fence(std::sync::atomic::Ordering::Acquire);
        let expired = self.expired.load(SeqCst);
        version.get() < expired && !self.named.lock().contains_key(&version.get())
    }

    pub(crate) fn unpin(&self, ticket: &Ticket) {
        match (ticket.slot, &ticket.outside, &self.reader) {
            (Some(slot), ..) => self.slots[slot].store(0, std::sync::atomic::Ordering::Release),
            (None, Some(pin), Some(reader)) => reader.unpin(pin),
            (None, ..) => self.release(ticket.version),
        }
    }

    /// Takes one pin of the list of pins back.
    pub(crate) fn release(&self, version: Version) {
        release(&mut self.overflow.lock(), version);
    }

    /// The oldest version that a reader may be at or may still pin: versions that ended at or
    /// before it are unreachable.
    pub(crate) fn oldest(&self) -> u64 {
        let readers = self.oldest_of_readers();
        self.named.lock().keys().next().map_or(readers, |&named| named.min(readers))
    }

    /// As [`Pins::oldest`], apart from versions that have names.
    fn oldest_of_readers(&self) -> u64 {
        let overflow = self.overflow.lock();
        let published = self.published().version;
        fence(SeqCst);
        let expired = self.expired.load(SeqCst).max(1);
        let pinned = self.slots.iter().map(|slot| slot.load(SeqCst)).filter(|&version| version >= expired).min();
        let crowded = overflow.range(expired..).next().map(|(&version, _)| version);
        let outside = self.page.get().and_then(Page::oldest);
        [pinned, crowded, outside].into_iter().flatten().fold(published.get(), u64::min)
    }
}

fn release(pins: &mut BTreeMap<u64, usize>, version: Version) {
    if let Some(count) = pins.get_mut(&version.get()) {
        *count -= 1;
        if *count == 0 {
            pins.remove(&version.get());
        }
    }
}
