//! Crash points: what is undecided where, by the rule of the media contract.
//!
//! A walk over a recording keeps, per *unit*, the stores that a crash may still lose. A unit is
//! what survives independently of the others: a word, a line whose stores stay in order, or all of
//! memory. The first stores of a unit become settled when a fence of a thread takes effect for what
//! that thread had flushed (and the law gives the same answer for a fence that only orders, see
//! below). Just before a fence takes effect is a crash point: images of earlier points of the same
//! epoch are images of this one too, and by now more has been promised.
//!
//! Both settling profiles share this walk. If a fence only orders, a crash may fall back to any
//! epoch since the last barrier, but to nothing else: a store of epoch m that survives drags along
//! all that the first m fences ordered. So the images are those of the epochs, and what differs is
//! the oracle: an epoch's images are judged by what had been acknowledged when the first barrier
//! passed it.
//!
//! Invariants
//!   POINT-1  Each unit's stores are in the order of the recording, so "the first k" is a state
//!            memory was in.
//!   POINT-2  A fence settles only what its own thread flushed, as it was at the flush.
//!
//! Fences count as having happened before all later stores of all threads: in another interleaving
//! they have not, and recording that one explores it. So no image is impossible, and no
//! interleaving claims more than it shows.

use crate::tape::{Event, Recording, Settling};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// How stores tear: what survives independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tear {
    /// Each aligned 8-byte word by itself: the rule.
    Words,
    /// The stores within one line survive as a prefix. Only for formats that say they rely on it.
    Lines,
    /// All stores survive as a prefix, flushed or not: eADR, where caches belong to the persistence
    /// domain.
    Stores,
}

/// One store of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordStore {
    /// Index of the event.
    pub event: usize,
    pub word: u64,
    pub value: u64,
}

/// Undecided stores that survive as a prefix (POINT-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// First byte of the word or line.
    pub at: u64,
    pub stores: Vec<WordStore>,
}

/// A place where power may fail.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Index of the event before whose effect it fails; the number of events for the end of the
    /// run.
    pub event: usize,
    /// Fences before it.
    pub epoch: u64,
    pub units: Vec<Unit>,
    /// Bytes backed.
    pub len: u64,
    /// Operations begun by then, and acknowledged before this epoch was settled.
    pub begun: usize,
    pub acked: usize,
    /// Holes punched after the crash point but before its epoch was settled: they show all the
    /// same.
    pub later_holes: Vec<(u64, u64)>,
    /// No fence is next: a process may die here, and images of a power failure are those of the
    /// next point.
    pub death_only: bool,
}

/// Walks the crash points in order. `settle(word, value)` is told each change of the settled image,
/// `read(word)` asks for it, and `visit` sees each point and the settled image as it is there. With
/// `stores`, it sees the places before stores, too. Points before the event `from` are passed over.
pub(crate) fn walk<S, B>(
    recording: &Recording,
    (settling, tear, stores, from): (Settling, Tear, bool, usize),
    state: &mut S,
    settle: impl Fn(&mut S, u64, u64),
    read: impl Fn(&S, u64) -> u64,
    mut visit: impl FnMut(&mut S, Point) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let promises = Promises::new(recording, settling, tear);
    let mut open = Undecided { tear, units: BTreeMap::new(), flushed: HashMap::new() };
    let (mut epoch, mut len, mut begun) = (0, recording.len, 0);
    for (index, event) in recording.events.iter().enumerate() {
        let boundary = match event {
            Event::Fence { thread } => open.fence_settles(*thread),
            Event::Punch { .. } => true,
            Event::Begin(_) | Event::Acked(_) => tear == Tear::Stores && !open.units.is_empty(),
            _ => false,
        };
        let is_store = matches!(event, Event::Store { words, .. } if !words.is_empty());
        if index >= from && (boundary || stores && is_store && !open.units.is_empty()) {
            let point = promises.point(index, epoch, open.list(), len, begun);
            visit(state, Point { death_only: !boundary, ..point })?;
        }
        match event {
            Event::Store { words, .. } => {
                for &(word, value) in &recording.words[words.clone()] {
                    open.store(WordStore { event: index, word, value });
                }
            }
            Event::Flush { thread, at, len } => {
                let flush = Flush { at: *at, end: at + len, when: index };
                open.flushed.entry(*thread).or_default().push(flush);
            }
            Event::Fence { thread } => {
                epoch += 1;
                open.fence(*thread, &mut |word, value| settle(state, word, value));
            }
            Event::Allocate { at, len: more } => len = len.max(at + more),
            Event::Punch { at, len } => {
                open.forget(*at, at + len);
                for word in (*at..at + len).step_by(8) {
                    if read(state, word) != 0 {
                        settle(state, word, 0);
                    }
                }
            }
            Event::Begin(_) => {
                begun += 1;
                open.all_if_ordered(&mut |word, value| settle(state, word, value));
            }
            Event::Acked(_) => open.all_if_ordered(&mut |word, value| settle(state, word, value)),
            Event::Barrier { .. } => {}
        }
    }
    visit(state, promises.point(recording.events.len(), epoch, open.list(), len, begun))
}

struct Undecided {
    tear: Tear,
    units: BTreeMap<u64, Vec<WordStore>>,
    /// Per thread: what it flushed since its last fence.
    flushed: HashMap<u32, Vec<Flush>>,
}

/// The bytes `at..end` as they were before event `when`.
struct Flush {
    at: u64,
    end: u64,
    when: usize,
}

impl Flush {
    /// How many of a unit's stores it takes along: all up to the last one that it covers.
    fn covers(&self, stores: &[WordStore]) -> usize {
        let last = stores
            .iter()
            .rposition(|store| store.event < self.when && store.word < self.end && store.word + 8 > self.at);
        last.map_or(0, |last| last + 1)
    }
}

impl Undecided {
    fn key(&self, at: u64) -> u64 {
        match self.tear {
            Tear::Words => at & !7,
            Tear::Lines => at & !63,
            Tear::Stores => 0,
        }
    }

    fn store(&mut self, store: WordStore) {
        self.units.entry(self.key(store.word)).or_default().push(store);
    }

    /// Whether a fence of `thread` would settle anything.
    fn fence_settles(&self, thread: u32) -> bool {
        if self.tear == Tear::Stores {
            return !self.units.is_empty();
        }
        self.flushed
            .get(&thread)
            .into_iter()
            .flatten()
            .any(|flush| self.units.range(self.key(flush.at)..flush.end).any(|(_, stores)| flush.covers(stores) > 0))
    }

    fn fence(&mut self, thread: u32, settle: &mut dyn FnMut(u64, u64)) {
        self.all_if_ordered(settle);
        for flush in self.flushed.remove(&thread).unwrap_or_default() {
            let first = self.key(flush.at);
            let mut empty = Vec::new();
            for (&key, stores) in self.units.range_mut(first..flush.end) {
                for store in stores.drain(..flush.covers(stores)) {
                    settle(store.word, store.value);
                }
                if stores.is_empty() {
                    empty.push(key);
                }
            }
            for key in empty {
                self.units.remove(&key);
            }
        }
    }

    fn all_if_ordered(&mut self, settle: &mut dyn FnMut(u64, u64)) {
        if self.tear == Tear::Stores {
            for store in std::mem::take(&mut self.units).into_values().flatten() {
                settle(store.word, store.value);
            }
        }
    }

    fn forget(&mut self, at: u64, end: u64) {
        self.units.retain(|_, stores| {
            stores.retain(|store| !(at..end).contains(&store.word));
            !stores.is_empty()
        });
    }

    fn list(&self) -> Vec<Unit> {
        self.units.iter().map(|(&at, stores)| Unit { at, stores: stores.clone() }).collect()
    }
}

/// When each epoch was settled, and what had been promised by then.
struct Promises<'r> {
    recording: &'r Recording,
    by_barrier: bool,
    /// Marks that barriers settled, and when; marks rise.
    barriers: Vec<(u64, usize)>,
    /// Acknowledgements before each event.
    acked: Vec<usize>,
}

impl Promises<'_> {
    fn new(recording: &Recording, settling: Settling, tear: Tear) -> Promises<'_> {
        let mut barriers: Vec<(u64, usize)> = Vec::new();
        let (mut acked, mut count) = (Vec::with_capacity(recording.events.len() + 1), 0);
        for (index, event) in recording.events.iter().enumerate() {
            acked.push(count);
            match event {
                Event::Barrier { mark } if barriers.last().is_none_or(|last| last.0 < *mark) => {
                    barriers.push((*mark, index));
                }
                Event::Acked(_) => count += 1,
                _ => {}
            }
        }
        acked.push(count);
        let by_barrier = settling == Settling::Barrier && tear != Tear::Stores;
        Promises { recording, by_barrier, barriers, acked }
    }

    fn point(&self, event: usize, epoch: u64, units: Vec<Unit>, len: u64, begun: usize) -> Point {
        let settled = if self.by_barrier {
            let next = self.barriers.partition_point(|&(mark, _)| mark <= epoch);
            self.barriers.get(next).map_or(self.recording.events.len(), |&(_, index)| index)
        } else {
            event
        };
        let between = &self.recording.events[event..settled.max(event)];
        let later_holes = between.iter().filter_map(|event| match event {
            Event::Punch { at, len } => Some((*at, *len)),
            _ => None,
        });
        let (acked, later_holes) = (self.acked[settled], later_holes.collect());
        Point { event, epoch, units, len, begun, acked, later_holes, death_only: false }
    }
}
