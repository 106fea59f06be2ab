//! Readers in other processes: the page by which the writer tells them what it has published, and
//! they tell the writer what they read.
//!
//! The page lies in the prime page, in memory that all members of a shared store map
//! ([`ReadersPage`]). Its words are those of `pins`, with other processes behind them:
//!   1. the writer stores the published version between two steps of `sequence`, and then reads the
//!      slots of readers
//!   2. a reader stores its oldest version in its slot, and then looks whether `sequence` has moved
//!
//! A fence on either side makes both orders one, so PIN-1 holds for these pins, too. One word for
//! each reader is enough: the writer asks for the oldest pin only.
//!
//! Invariants
//!   BESIDE-1  A pin of a version that has expired, or that nothing pinned before, counts as the
//!             oldest one that may be pinned: the reader may have newer pins that still count. So a
//!             reader that died, stopped or stores nonsense costs the space of as many commits as
//!             the limit allows. There always is a limit.
//!   BESIDE-2  The writer raises `opening` before it recovers the tree, and `expired` before it
//!             reclaims. Nothing that a reader has read counts if one of them has moved beyond its
//!             version (PIN-2).
//!   BESIDE-3  The writer believes no word of the page but the pins: its own state is elsewhere.
//!
//! Threads: any, of any process. `schedules` compiles this file again, with atomics of its own.
//!
//! Design: docs/design/readers-beside-a-writer.md

use super::pins::{KeyCounts, Published};
use super::sync::{ATTEMPTS, AtomicU64, Mutex, SPINS, Words, fence, pause};
use crate::tree::layout::{READERS_MAX, ReaderSlot, ReadersPage};
use crate::tree::number::Version;
use everbyte_media::seeded;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Commits that a reader in another process may be behind while the writer has set no limit.
pub(crate) const LIMIT: u64 = 1 << 16;
/// Calls of [`Page::bury`] for each look at the processes behind the pins.
const LOOKS: u64 = 64;

const OBJECT: usize = offset_of!(ReadersPage, object);
const GENERATION: usize = offset_of!(ReadersPage, generation);
const OPENING: usize = offset_of!(ReadersPage, opening);
const WRITER: usize = offset_of!(ReadersPage, writer);
const EXPIRED: usize = offset_of!(ReadersPage, expired);
const USED: usize = offset_of!(ReadersPage, used);
const SEQUENCE: usize = offset_of!(ReadersPage, sequence);
const VERSION: usize = offset_of!(ReadersPage, version);
const ROOT: usize = offset_of!(ReadersPage, root);
const KEYS: usize = offset_of!(ReadersPage, keys);
const MAIN_KEYS: usize = offset_of!(ReadersPage, main_keys);
const LEN: usize = offset_of!(ReadersPage, len);

fn token_at(slot: usize) -> usize {
    offset_of!(ReadersPage, slots) + slot * size_of::<ReaderSlot>() + offset_of!(ReaderSlot, token)
}

fn pin_at(slot: usize) -> usize {
    offset_of!(ReadersPage, slots) + slot * size_of::<ReaderSlot>() + offset_of!(ReaderSlot, version)
}

/// Whether the process with that number still shares the store.
pub(crate) type IsAlive = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The tree that a page is of, and the process that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub object: u64,
    pub generation: u64,
    pub token: u64,
}

/// The writer's side of the page.
pub(crate) struct Page {
    words: Words,
    /// As the word of the page.
    sequence: AtomicU64,
    expired: AtomicU64,
    /// Pins of versions before this one are nonsense.
    floor: AtomicU64,
    looks: AtomicU64,
    token: u64,
    is_alive: IsAlive,
}

impl Page {
    /// Takes the page for a new opening of the tree. From here on no reader of an earlier one
    /// counts what it reads, and none begins (BESIDE-2).
    pub(crate) fn begin(words: Words, place: Place, is_alive: IsAlive) -> Page {
        if (words.load(OBJECT), words.load(GENERATION)) != (place.object, place.generation) {
            // Of an earlier opening of the store, of which no reader is left.
            (0..size_of::<ReadersPage>()).step_by(8).for_each(|at| words.store(at, 0));
            words.store(SEQUENCE, 1); // nothing is published when the page counts
            words.store(GENERATION, place.generation);
            words.store(OBJECT, place.object);
        }
        words.store(WRITER, place.token);
        let sequence = words.load(SEQUENCE) | 1;
        words.store(SEQUENCE, sequence);
        if !seeded("readers-opening-unraised") {
            words.store(OPENING, words.load(OPENING) + 1);
        }
        fence(SeqCst);
        Page {
            words,
            sequence: AtomicU64::new(sequence),
            expired: AtomicU64::new(u64::MAX),
            floor: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            token: place.token,
            is_alive,
        }
    }

    /// Tells readers that `next` is settled. Versions before the first one of an opening are not
    /// kept. The caller publishes one version at a time.
    pub(crate) fn publish(&self, next: Published) {
        let sequence = self.sequence.load(Relaxed) | 1;
        self.words.store(SEQUENCE, sequence);
        if self.expired.load(Relaxed) == u64::MAX {
            self.expired.store(next.version.get(), SeqCst);
            self.words.store(EXPIRED, next.version.get());
        }
        self.words.store(VERSION, next.version.get());
        self.words.store(ROOT, next.root);
        self.words.store(KEYS, next.keys.all);
        self.words.store(MAIN_KEYS, next.keys.main);
        self.words.store(LEN, self.words.len());
        self.words.store(SEQUENCE, sequence + 1);
        self.sequence.store(sequence + 1, Relaxed);
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        0..self.words.load(USED).min(READERS_MAX as u64) as usize
    }

    /// Whether there may be readers.
    pub(crate) fn is_read(&self) -> bool {
        self.words.load(USED) > 0
    }

    /// The oldest version that a reader pins (BESIDE-1). The caller has published, and fenced.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let least = self.expired.load(SeqCst).max(self.floor.load(Relaxed));
        let pins = self.slots().map(|slot| self.words.load(pin_at(slot))).filter(|&pin| pin > 0);
        pins.map(|pin| if seeded("readers-pin-ignored") { u64::MAX } else { pin.max(least) }).min()
    }

    /// Notes that no reader has a version before `oldest`: one that appears later never pinned it.
    pub(crate) fn forget(&self, oldest: u64) {
        self.floor.fetch_max(oldest, Relaxed);
    }

    /// Ends the pins of versions before `version` (BESIDE-2).
    pub(crate) fn expire(&self, version: u64) {
        if version > self.expired.fetch_max(version, SeqCst) && !seeded("readers-expired-unsaid") {
            self.words.store(EXPIRED, version);
            fence(SeqCst);
        }
    }

    /// Ends the pins of processes that have died, if they hold versions before `newest` back; looks
    /// at processes once in many calls.
    pub(crate) fn bury(&self, newest: u64) {
        let behind = |slot: &usize| (1..newest).contains(&self.words.load(pin_at(*slot)));
        if self.slots().any(|slot| behind(&slot)) && self.looks.fetch_add(1, Relaxed) % LOOKS == LOOKS - 1 {
            for slot in self.slots().filter(behind) {
                // The slot is this process's until it is free: it dies with the process.
                let token = self.words.load(token_at(slot));
                if !(self.is_alive)(token) && self.words.exchange(token_at(slot), token, self.token) {
                    self.words.store(pin_at(slot), 0);
                    self.words.store(token_at(slot), 0);
                }
            }
        }
    }
}

impl Drop for Page {
    /// The last publication stays: nothing changes before the next opening.
    fn drop(&mut self) {
        if self.words.are_here() {
            self.words.exchange(WRITER, self.token, 0);
        }
    }
}

/// The reader's side of the page.
pub(crate) struct Reader {
    words: Words,
    place: Place,
    slot: usize,
    is_alive: IsAlive,
    pins: Mutex<Held>,
}

/// The versions that the threads of one reader have pinned.
#[derive(Default)]
struct Held {
    /// The opening of the tree that they belong to.
    opening: u64,
    pins: BTreeMap<u64, usize>,
    /// The opening for which the reader has made itself ready.
    ready: u64,
}

/// A pin of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReaderPin {
    pub opening: u64,
    pub version: Version,
    /// Bytes of the store that the version may lie in.
    pub len: u64,
}

/// Reasons for which a reader cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// No process has had the tree open since the store was opened, or it was removed.
    NoWriter,
    /// The last writer died, or failed, while it opened the tree or published a version.
    Unfinished,
    /// The writer opens the tree, for longer than the reader waits.
    Opening,
    /// There are as many readers as can be.
    Full,
}

/// One look at the page.
struct Look {
    sequence: u64,
    opening: u64,
    expired: u64,
    seen: Published,
    len: u64,
}

impl Reader {
    /// Takes a slot of the page.
    pub(crate) fn join(words: Words, place: Place, is_alive: IsAlive) -> Result<Reader, Unready> {
        if (words.load(OBJECT), words.load(GENERATION)) != (place.object, place.generation) {
            return Err(Unready::NoWriter);
        }
        let free = |slot: usize| words.exchange(token_at(slot), 0, place.token);
        let dead = |slot: usize| {
            let token = words.load(token_at(slot));
            token != 0 && !is_alive(token) && words.exchange(token_at(slot), token, place.token)
        };
        let found = (0..READERS_MAX).find(|&slot| free(slot)).or_else(|| (0..READERS_MAX).find(|&slot| dead(slot)));
        let slot = found.ok_or(Unready::Full)?;
        words.store(pin_at(slot), 0);
        let needed = slot as u64 + 1;
        loop {
            let used = words.load(USED);
            if used >= needed || words.exchange(USED, used, needed) {
                break;
            }
        }
        Ok(Reader { words, place, slot, is_alive, pins: Mutex::new(Held::default()) })
    }

    fn look(&self) -> Option<Look> {
        let sequence = self.words.load(SEQUENCE);
        if !sequence.is_multiple_of(2) {
            return None;
        }
        let keys = KeyCounts { all: self.words.load(KEYS), main: self.words.load(MAIN_KEYS) };
        let seen = Published { version: Version::new(self.words.load(VERSION)), root: self.words.load(ROOT), keys };
        let (len, opening, expired) = (self.words.load(LEN), self.words.load(OPENING), self.words.load(EXPIRED));
        fence(Acquire);
        (self.words.load(SEQUENCE) == sequence).then_some(Look { sequence, opening, expired, seen, len })
    }

    /// Whether the page is still of the tree that it was of.
    fn is_of_tree(&self) -> bool {
        (self.words.load(OBJECT), self.words.load(GENERATION)) == (self.place.object, self.place.generation)
    }

    /// Pins the newest settled version. Waits while the writer publishes one, or opens the tree;
    /// the number of attempts has a bound. `ready` is called once for each opening of the tree,
    /// before the first pin in it is handed out.
    pub(crate) fn pin<E: From<Unready>>(
        &self,
        ready: impl FnMut(&ReaderPin) -> Result<(), E>,
    ) -> Result<(ReaderPin, Published), E> {
        let mut held = self.pins.lock();
        self.pin_newest(&mut held, ready).inspect_err(|_| self.store_pin(&held))
    }

    fn pin_newest<E: From<Unready>>(
        &self,
        held: &mut Held,
        mut ready: impl FnMut(&ReaderPin) -> Result<(), E>,
    ) -> Result<(ReaderPin, Published), E> {
        for attempt in 0..ATTEMPTS {
            if !self.is_of_tree() {
                return Err(Unready::NoWriter.into());
            }
            let Some(look) = self.look() else {
                let is_slow = attempt >= SPINS;
                if is_slow && !(self.is_alive)(self.words.load(WRITER)) && self.look().is_none() {
                    return Err(Unready::Unfinished.into());
                }
                pause(attempt);
                continue;
            };
            if held.opening != look.opening {
                held.pins.clear();
                held.opening = look.opening;
            }
            let newest = look.seen.version.get();
            let oldest = held.oldest(look.expired).map_or(newest, |oldest| oldest.min(newest));
            self.words.store(pin_at(self.slot), oldest);
            fence(SeqCst); // PIN-1: pairs with the one before `oldest` reads the slots
            if self.words.load(SEQUENCE) != look.sequence && !seeded("readers-pin-unchecked") {
                continue;
            }
            let pin = ReaderPin { opening: look.opening, version: look.seen.version, len: look.len };
            if held.ready != look.opening {
                ready(&pin)?;
                held.ready = look.opening;
            }
            *held.pins.entry(newest).or_default() += 1;
            return Ok((pin, look.seen));
        }
        Err(Unready::Opening.into())
    }

    pub(crate) fn unpin(&self, pin: &ReaderPin) {
        let mut held = self.pins.lock();
        let version = pin.version.get();
        if held.opening != pin.opening {
            return;
        }
        if let Some(count) = held.pins.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                held.pins.remove(&version);
            }
        }
        if self.words.are_here() {
            self.store_pin(&held);
        }
    }

    /// Stores the oldest pin, unless the page has gone: its place may be another object's.
    fn store_pin(&self, held: &Held) {
        if !self.is_of_tree() {
            return;
        }
        self.words.store(pin_at(self.slot), held.oldest(self.words.load(EXPIRED)).unwrap_or(0));
    }

    /// Whether what a reader has read by this pin until now may have been reclaimed (BESIDE-2).
    #[inline]
    pub(crate) fn is_expired(&self, pin: &ReaderPin) -> bool {
        fence(Acquire);
        self.words.load(OPENING) != pin.opening || self.words.load(EXPIRED) > pin.version.get() || !self.is_of_tree()
    }

    /// Whether no newer version is published.
    pub(crate) fn is_newest(&self, pin: &ReaderPin) -> bool {
        self.words.load(VERSION) == pin.version.get() && self.words.load(OPENING) == pin.opening
    }
}

impl Held {
    fn oldest(&self, expired: u64) -> Option<u64> {
        self.pins.range(expired..).next().map(|(&version, _)| version)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.words.are_here() && self.is_of_tree() {
            self.words.store(pin_at(self.slot), 0);
            self.words.exchange(token_at(self.slot), self.place.token, 0);
        }
    }
}
