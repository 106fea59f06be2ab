//! [`HeapWalk`]: the blocks that a walk through a pool has met, and those still to visit. The
//! walkers, the program's own tracers (`trace.rs`) or a reader of the pool's description
//! (`reader.rs`), know the contents of a value; everything else is here, so both find the same.
//!
//! Pointers are followed from a list, not by recursion, and no pointer is followed that leads to no
//! block of its size.
//!
//! A walk is done twice where something is wrong: the first one only finds out what, the second one
//! keeps the way to every block and says where.
//!
//! Invariants
//!   DEEP-1  A block is reported as leaked only if nothing that could not be followed may lead to
//!           it: an opaque value is searched word by word, and keeps all blocks that its words
//!           could mean; after a damaged pointer or value no block counts as leaked.
//!
//! Threads: one; no other thread may change the pool meanwhile.

use crate::transaction::counts::ByPlace;
use crate::types::hash_map::tags;
use crate::verify::deep::maps::Tree;
use crate::verify::deep::report::{Fault, FaultKind};
use crate::verify::deep::starts::Starts;
use crate::verify::deep::trail::{Label, Trail};
use everbyte_heap::{Error, Heap};
use everbyte_media::Media;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The pointers to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// One that must be alone.
    Alone,
    /// One that counts.
    Strong,
    /// One that counts as weak.
    Weak,
}

/// How a block was met that has more than one owner, or counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub alone: u64,
    pub strong: u64,
    pub weak: u64,
    /// Its counts as they stand on media: strong and weak.
    pub stored: Option<(u64, u64)>,
    searched: bool,
}

impl Tally {
    /// Owners that cannot be beside each other.
    pub(crate) fn is_double(&self) -> bool {
        self.alone > 1 || self.alone == 1 && self.strong + self.weak > 0
    }

    /// A value that its own count says is there, and no strong pointer to it.
    pub(crate) fn is_lost(&self) -> bool {
        self.strong == 0 && self.is_there()
    }

    /// Whether its own count says that the value is there.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.stored, Some((1.., _)))
    }

    /// Strong pointers to a value that its own count says was dropped.
    pub(crate) fn is_dead(&self) -> bool {
        self.strong > 0 && matches!(self.stored, Some((0, _)))
    }

    /// Whether its counts are those that were found.
    pub(crate) fn is_counted_right(&self) -> bool {
        self.stored.is_none_or(|stored| stored == (self.strong, self.weak))
    }
}

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockForm {
    One,
    /// So many, one behind the other.
    Elements(u64),
    /// So many in a ring of places, from a place on.
    Ring {
        /// Place of the first one.
        first: u64,
        len: u64,
        cap: u64,
    },
    /// So many bytes of text.
    Text(u64),
    /// Tags of so many groups, and behind them the places of a hash map.
    Places(u64),
    /// A node of an ordered map, of this level if that is known.
    Node(Option<u64>),
    /// No block, but the end of the ordered map there.
    End,
}

/// A block to be looked at: all of it, or these elements.
#[derive(Clone, Debug)]
pub(crate) struct Visit<V> {
    pub at: u64,
    pub elements: Option<Range<u64>>,
    pub what: V,
}

struct Waiting<V> {
    at: u64,
    held: BlockForm,
    /// Elements looked at.
    done: u64,
    what: V,
    depth: usize,
    label: Label,
}

/// Elements that are looked at between two looks at the list, so that a long vector does not fill
/// it.
pub(super) const TURN: u64 = 64;
/// Faults that are kept; further ones are counted.
const FAULTS: usize = 1000;
/// Paths to one block that are reported.
const PATHS: usize = 8;
/// Blocks between two calls for progress.
const STRIDE: u64 = 1024;

pub(crate) struct HeapWalk<'w, V> {
    pub heap: &'w Heap,
    prime: u64,
    pub trail: Trail<'w>,
    met: Starts,
    pub tallies: ByPlace<u64, Tally>,
    /// Counted objects whose values are taken for dropped.
    given_up: Option<&'w BTreeSet<u64>>,
    /// Only one counted object's value is walked through: others are met, and not looked at.
    is_single: bool,
    /// Counted objects, with what they hold: those that a weak pointer led to first, and in a
    /// single walk all.
    pub kept: Vec<(u64, V)>,
    /// Blocks behind opaque values.
    perhaps: Starts,
    /// The number of values of each opaque type.
    pub unread: BTreeMap<String, u64>,
    pub faults: Vec<Fault>,
    pub faults_left_out: u64,
    /// Blocks, and ways that lead to them.
    pub told: BTreeMap<u64, Vec<String>>,
    /// Ordered maps whose nodes are being looked at, the innermost last.
    pub(super) trees: Vec<Tree>,
    waiting: Vec<Waiting<V>>,
    visited: u64,
    progress: &'w dyn Fn(u64),
}

impl<'w, V: Copy> HeapWalk<'w, V> {
    /// A walk that records the paths to the blocks in `told`; without it no path is kept.
    pub(crate) fn new(
        heap: &'w Heap,
        told: Option<BTreeMap<u64, Vec<String>>>,
        progress: &'w dyn Fn(u64),
    ) -> HeapWalk<'w, V> {
        HeapWalk {
            heap,
            prime: heap.object().prime().get(),
            trail: Trail::new(told.is_some()),
            met: Starts::default(),
            tallies: ByPlace::default(),
            given_up: None,
            is_single: false,
            kept: Vec::new(),
            perhaps: Starts::default(),
            unread: BTreeMap::new(),
            faults: Vec::new(),
            faults_left_out: 0,
            told: told.unwrap_or_default(),
            trees: Vec::new(),
            waiting: Vec::new(),
            visited: 0,
            progress,
        }
    }

    /// Takes the values of these counted objects for dropped.
    pub(crate) fn without(mut self, given_up: &'w BTreeSet<u64>) -> HeapWalk<'w, V> {
        self.given_up = Some(given_up);
        self
    }

    /// A walk through the value of one counted object alone.
    pub(crate) fn single(heap: &'w Heap, word: u64, what: V) -> HeapWalk<'w, V> {
        let mut walk = HeapWalk::new(heap, None, &|_| ());
        walk.is_single = true;
        walk.later(walk.place(word), BlockForm::One, what);
        walk
    }

    pub(crate) fn media(&self) -> &'w Media {
        self.heap.media()
    }

    /// The little-endian number of so many bytes at `at`, 8 at most.
    pub(crate) fn number(&self, at: u64, bytes: u64) -> u64 {
        let mut word = [0; 8];
        self.media().read(at, &mut word[..bytes as usize]);
        u64::from_le_bytes(word)
    }

    /// The place of an offset of the pool.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        self.prime.saturating_add(offset)
    }

    /// A block of the pool's own, that no pointer may lead to.
    pub(crate) fn own(&mut self, at: u64) {
        let word = at.wrapping_sub(self.prime);
        if self.block(word).is_ok() {
            self.met.insert(word);
        }
    }

    /// The pointer `word` at `from`, to a block of `size` bytes. The first time that the block is
    /// met it is put on the list, and the answer is `true`.
    pub(crate) fn pointer(&mut self, from: u64, word: u64, size: u64, owner: Owner, held: BlockForm, what: V) -> bool {
        let is_new = self.meets(from, word, size, owner);
        if is_new && (owner == Owner::Weak || owner == Owner::Strong && self.is_single) {
            self.kept.push((word, what));
        }
        if is_new && (owner == Owner::Alone || !self.is_single) {
            self.later(self.place(word), held, what);
        }
        is_new
    }

    /// Puts the block at `at` on the list.
    pub(super) fn later(&mut self, at: u64, held: BlockForm, what: V) {
        let (depth, label) = (self.trail.depth(), self.trail.label());
        self.waiting.push(Waiting { at, held, done: 0, what, depth, label });
    }

    /// Whether the pointer `word` at `from` leads to a block of `size` bytes that was not met
    /// before.
    fn meets(&mut self, from: u64, word: u64, size: u64, owner: Owner) -> bool {
        let detail = match self.block(word) {
            Ok(found) if found >= size => None,
            Ok(found) => Some(format!("a block of {found} bytes is to hold {size}")),
            Err(why) => Some(format!("a pointer to {:#x}: {why}", self.place(word))),
        };
        if let Some(detail) = detail {
            self.fault(FaultKind::Pointer, from, detail);
            return false;
        }
        if let Some(paths) = self.told.get_mut(&word)
            && paths.len() < PATHS
        {
            paths.push(self.trail.path());
        }
        let is_new = self.met.insert(word);
        if !is_new || owner != Owner::Alone {
            let before = Tally { alone: u64::from(!is_new), ..Tally::default() };
            let tally = self.tallies.entry(word).or_insert(before);
            match owner {
                Owner::Alone => tally.alone += 1,
                Owner::Strong => tally.strong += 1,
                Owner::Weak => tally.weak += 1,
            }
        }
        is_new
    }

    /// The words of a vector at `from`: where its block lies, elements of `size` bytes, and how
    /// many have room (VEC-2). Elements without bytes have no block.
    pub(crate) fn vector(&mut self, from: u64, words: [u64; 3], size: u64, held: BlockForm, what: V) {
        let [word, len, room] = words;
        if len > room && size > 0 || word == 0 && room > 0 || word != 0 && size == 0 {
            let kind = if matches!(held, BlockForm::Text(_)) { "text" } else { "a vector" };
            return self.fault(FaultKind::Value, from, format!("{kind} longer than its block"));
        }
        if word != 0 {
            self.pointer(from, word, size.saturating_mul(room), Owner::Alone, held, what);
        }
    }

    /// The words of a queue at `from`: its block, how many elements it has and how many have room,
    /// and the place of the first one (DEQUE-2). `looked`: whether elements are looked at.
    pub(crate) fn ring(&mut self, from: u64, words: [u64; 4], size: u64, looked: bool, what: V) {
        let [word, len, cap, first] = words;
        if len > cap || first >= cap.max(1) || word == 0 && cap > 0 && size > 0 {
            return self.fault(FaultKind::Value, from, "a queue longer than its block".into());
        }
        if word != 0 {
            let held = BlockForm::Ring { first, len: if looked && size > 0 { len } else { 0 }, cap };
            self.pointer(from, word, size.saturating_mul(cap), Owner::Alone, held, what);
        }
    }

    /// Usable bytes of the block at an offset.
    pub(super) fn block(&self, word: u64) -> Result<u64, String> {
        let at = self.place(word);
        let size = self.heap.size_of(at).map_err(|error| match error {
            Error::NotABlock { detail, .. } => detail.into(),
            Error::NotAllocated { .. } => "the block is free".into(),
            Error::Damaged(damage) => damage.detail,
            error => error.to_string(),
        })?;
        if self.media().holds(at, size) { Ok(size) } else { Err("the block is not backed".into()) }
    }

    /// The next block to visit.
    pub(crate) fn next(&mut self) -> Option<Visit<V>> {
        loop {
            let Some(mut next) = self.waiting.pop() else {
                self.search_the_dead()?;
                continue;
            };
            self.trail.go(next.depth, &next.label);
            if next.done == 0 && next.held != BlockForm::End {
                self.visited += 1;
                if self.visited.is_multiple_of(STRIDE) {
                    (self.progress)(self.visited);
                }
            }
            let Waiting { at, held, done, what, .. } = next;
            match held {
                BlockForm::One => return Some(Visit { at, elements: None, what }),
                BlockForm::Text(len) => self.text(at, len),
                BlockForm::Elements(count) => {
                    next.done = count.min(done + TURN);
                    let elements = Some(done..next.done);
                    if next.done < count {
                        self.waiting.push(next);
                    }
                    return Some(Visit { at, elements, what });
                }
                BlockForm::Ring { first, len, cap } => {
                    let place = if first + done >= cap { first + done - cap } else { first + done };
                    let count = TURN.min(len - done).min(cap - place);
                    next.done = done + count;
                    if next.done < len {
                        self.waiting.push(next);
                    }
                    return Some(Visit { at, elements: Some(place..place + count), what });
                }
                BlockForm::Places(groups) => {
                    let elements = self.row(at, groups, done);
                    next.done = elements.end;
                    if next.done < groups * tags::GROUP {
                        self.waiting.push(next);
                    }
                    return Some(Visit { at: at + tags::before(groups), elements: Some(elements), what });
                }
                BlockForm::Node(level) => return Some(self.node(at, level, what)),
                BlockForm::End => self.end(at),
            }
        }
    }

    /// Searches a value whose count says that it is gone, so that its contents are not taken for
    /// leaked. `None`: there is none.
    fn search_the_dead(&mut self) -> Option<()> {
        let (&word, tally) = self.tallies.iter_mut().find(|(_, tally)| tally.is_dead() && !tally.searched)?;
        tally.searched = true;
        if let Ok(size) = self.block(word) {
            self.search(self.place(word), size);
        }
        Some(())
    }

    /// The counts of a counted object, met for the first time, as they stand; `true`: its value is
    /// there, to be looked at.
    pub(crate) fn stored(&mut self, at: u64, counts: (u64, u64)) -> bool {
        let word = at - self.prime;
        if let Some(tally) = self.tallies.get_mut(&word) {
            tally.stored = Some(counts);
        }
        counts.0 > 0 && !self.given_up.is_some_and(|given_up| given_up.contains(&word))
    }

    /// `len` bytes at `at` are of an opaque type.
    pub(crate) fn unread(&mut self, of: &str, at: u64, len: u64) {
        *self.unread.entry(of.into()).or_default() += 1;
        self.search(at, len);
    }

    /// DEEP-1: every word that could be a pointer keeps the block that it leads to, and the
    /// blocks behind that.
    fn search(&mut self, at: u64, len: u64) {
        let mut regions = vec![(at, len)];
        while let Some((at, len)) = regions.pop() {
            for at in (at.next_multiple_of(8)..(at + len).saturating_sub(7)).step_by(8) {
                let word = self.media().load(at);
                if let Ok(size) = self.block(word)
                    && self.perhaps.insert(word)
                {
                    regions.push((self.place(word), size));
                }
            }
        }
    }

    /// Text must be text.
    pub(crate) fn text(&mut self, at: u64, len: u64) {
        let mut kept = Vec::new();
        for start in (0..len).step_by(1 << 16) {
            kept.extend(self.media().read_vec(at + start, (len - start).min(1 << 16) as usize));
            let whole = match std::str::from_utf8(&kept) {
                Ok(_) => kept.len(),
                // the rest of a character is to come
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(_) => return self.fault(FaultKind::Value, at, "text that is not UTF-8".into()),
            };
            kept.drain(..whole);
        }
        if !kept.is_empty() {
            self.fault(FaultKind::Value, at, "text that is not UTF-8".into());
        }
    }

    pub(crate) fn fault(&mut self, kind: FaultKind, at: u64, detail: String) {
        // A path costs its length: of a fault that is only counted none is made.
        let path = if self.faults.len() < FAULTS { self.trail.path() } else { String::new() };
        self.fault_on(kind, at, &path, &detail);
    }

    /// A fault on another way than that of the walk.
    pub(super) fn fault_on(&mut self, kind: FaultKind, at: u64, path: &str, detail: &str) {
        if self.faults.len() < FAULTS {
            self.faults.push(Fault { kind, at: at.into(), paths: vec![path.into()], detail: detail.into() });
        } else {
            self.faults_left_out += 1;
        }
    }

    pub(crate) fn is_met(&self, offset: u64) -> bool {
        self.met.contains(offset)
    }

    pub(crate) fn is_perhaps(&self, offset: u64) -> bool {
        self.perhaps.contains(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Options;
    use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};

    /// A path costs its length, so those of a long list with a fault in each node would cost its
    /// square.
    #[test]
    fn paths_are_made_of_the_faults_that_are_kept() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, ..ObjectOptions::default() };
        let heap = Heap::open(store.create_object("heap", options, Heap::format).unwrap()).unwrap();
        let mut walk = HeapWalk::<()>::new(&heap, Some(BTreeMap::new()), &|_| ());
        for at in 0..FAULTS as u64 + 9 {
            walk.fault(FaultKind::Value, at, "wrong".into());
        }
        assert_eq!((walk.faults.len(), walk.faults_left_out, walk.trail.made.get()), (FAULTS, 9, FAULTS));
    }
}
