//! [`Hash`]: linear hashing in buckets of one line, committed by one word.
//!
//! An insertion, an update and a deletion are a note (`note.rs`), which changes one word: a slot.
//!
//! After so many insertions the next group of buckets is split into others, by a record too: the
//! table grows by some lines and no operation ever moves all of it (Litwin, "Linear Hashing", VLDB
//! 1980). A change that does not fit a record, a new segment or a long chain, takes a transaction
//! for each bucket.
//!
//! Invariants
//!   HKV-1  A slot that is not empty leads to a record whose hash belongs into that bucket; a key
//!          is in one slot.
//!   HKV-2  Buckets at and beyond `buckets` hold nothing that counts: they are written unnoted
//!          before the word says so.
//!   HKV-3  A result is returned only when it is settled: a reader waits for the newest commit that
//!          it could have seen.
//!
//! Threads: any; one changes, or several read. A thread that waits for the disk holds no lock.

mod chain;
mod check;
pub(crate) mod linked;
pub(crate) mod split;

use crate::base::Base;
use crate::hasher;
use crate::layout::{BUCKETS_AT, HASH_MAGIC, HashRoot, LINK, PLACE_BITS, RootHead, SEGMENTS, SEGMENTS_AT, SLOTS};
use crate::note::Past;
use crate::raw::Raw as _;
use crate::record::{Draft, Record};
use crate::{Error, Result};
use chain::Chain;
use everbyte_heap::Heap;
use everbyte_store::raw::{AsStore, IntoObject};
use everbyte_tx::Undo;
use parking_lot::{RwLock, RwLockWriteGuard};
use zerocopy::FromZeros;

/// A key-value store in a hash table. Keys and values are byte strings of at most 4 GiB - 1.
pub struct Hash {
    pub(crate) base: Base,
    seed: [u64; 2],
    state: RwLock<State>,
}

/// State cached in memory.
struct State {
    buckets: u64,
    segments: [u64; SEGMENTS],
    /// Pairs added since buckets were.
    added: u64,
    past: Past,
}

/// Pairs that a bucket is to have, of the seven for which it has room: few chains then have more
/// than one.
const PER_BUCKET: u64 = 3;

/// The end of a walk for a key.
enum Found {
    /// The slot of the key, and its record.
    Here(u64, Record),
    /// It is not there, and this slot is empty.
    Slot(u64),
    /// It is not there, and the chain is full: the link of its last bucket.
    Link(u64),
}

impl Hash {
    /// Makes an object that holds an empty store, in a span of so many bytes (a power of two;
    /// `None`: the largest there is). Settled on return; a crash leaves it whole or absent. HEAPO's
    /// `heapo_kv_init`.
    ///
    /// # Errors
    /// As `Store::create_object`.
    pub fn create(store: &impl AsStore, name: &str, span: Option<u64>) -> Result<Hash> {
        let identity = store.as_store().identity();
        let (one, two) = identity.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of an identity"));
        let object = Base::create(store.as_store(), name, HASH_MAGIC, span, |undo| {
            Hash::format(undo, [word(one) ^ undo.heap().object().id(), word(two)])
        })?;
        Hash::open(object)
    }

    /// An empty table.
    fn format(undo: &Undo, seed: [u64; 2]) -> Result<()> {
        let buckets = crate::layout::FIRST_SEGMENT;
        Ok(undo.run(|tx| {
            let segment = tx.allocate(split::segment_len(0))?;
            tx.media().zero(segment.at, segment.size);
            let root = tx.allocate(size_of::<HashRoot>() as u64)?;
            let mut new = HashRoot { head: RootHead::new(HASH_MAGIC, seed), buckets, ..HashRoot::new_zeroed() };
            new.segments[0] = segment.at;
            tx.media().put(root.at, &new);
            Ok::<_, Error>(tx.store(tx.heap().object().root_at(), root.at)?)
        })?)
    }

    /// Opens a store; what a crash left half done is undone first. Costs the same whatever it
    /// holds. HEAPO's `heapo_kv_open`.
    ///
    /// # Errors
    /// [`Error::Store`] for an object of another kind, or one that is open already;
    /// [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Tx`].
    pub fn open(object: impl IntoObject) -> Result<Hash> {
        let (base, head, past) = Base::open(object.into_object(), HASH_MAGIC, size_of::<HashRoot>())?;
        let root: HashRoot = base.media().get(base.root);
        let made = root.segments.iter().take_while(|&&segment| segment != 0).count();
        if root.buckets < crate::layout::FIRST_SEGMENT || root.buckets > split::buckets_of(made) {
            return Err(base.damaged(base.root + BUCKETS_AT, "more or fewer buckets than segments hold"));
        }
        let state = State { buckets: root.buckets, segments: root.segments, added: 0, past };
        Ok(Hash { base, seed: head.seed, state: RwLock::new(state) })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Media`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let hash = hasher::hash(self.seed, key);
        let state = self.state.read();
        let value = match self.find(&state, hash, key)? {
            Found::Here(_, record) => Some(record.value(self.heap())),
            Found::Slot(_) | Found::Link(_) => None,
        };
        let seen = state.past.last;
        drop(state);
        self.base.settle(seen)?;
        Ok(value)
    }

    /// Adds a pair; `false`, and nothing happens, if the key is there. Settled on return.
    ///
    /// # Errors
    /// [`Error::Tx`] without room, [`Error::TooLarge`], [`Error::Damaged`]: nothing has changed.
    /// [`Error::Media`]: unknown until the store is opened again.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        self.expect(&state, hash);
        let draft = Draft::new(hash, key, value)?;
        let found = self.find(&state, hash, key)?;
        match found {
            Found::Here(..) => return self.answer(state, false),
            Found::Slot(at) => {
                self.base.change(&mut state.past, Some(&draft), None, |place| [(at, slot_of(hash, place))])?;
            }
            Found::Link(at) => self.link(&mut state, &draft, hash, at)?,
        }
        state.added += 1;
        if state.added >= PER_BUCKET * split::GROUP || matches!(found, Found::Link(_)) {
            state.added = 0;
            self.split_some(&mut state)?;
        }
        self.answer(state, true)
    }

    /// Replaces the value of a key; `false`, and nothing happens, if it is not there. Settled on
    /// return.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        self.expect(&state, hash);
        let draft = Draft::new(hash, key, value)?;
        let Found::Here(at, old) = self.find(&state, hash, key)? else { return self.answer(state, false) };
        self.base.change(&mut state.past, Some(&draft), Some(old.at), |place| [(at, slot_of(hash, place))])?;
        self.answer(state, true)
    }

    /// Takes a key away; `false` if it is not there. Settled on return.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        let Found::Here(at, old) = self.find(&state, hash, key)? else { return self.answer(state, false) };
        self.base.change(&mut state.past, None, Some(old.at), |_| [(at, 0)])?;
        self.answer(state, true)
    }

    /// Hands every pair to `each`, in no order, until it answers `false`. `each` must not use the
    /// store.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Media`].
    pub fn scan(&self, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let state = self.state.read();
        self.base.settle(state.past.last)?;
        for index in 0..state.buckets {
            for (_, slot) in Chain::of(self, state.bucket_at(index)).slots()? {
                let record = self.record(slot)?;
                if !each(&record.key(self.heap()), &record.value(self.heap())) {
                    return self.base.settle(None);
                }
            }
        }
        self.base.settle(None)
    }

    /// Buckets of the longest chain: one where no bucket is full.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn longest_chain(&self) -> Result<usize> {
        let state = self.state.read();
        (0..state.buckets).try_fold(0, |longest, index| {
            let chain = Chain::of(self, state.bucket_at(index)).collect::<Result<Vec<_>>>()?;
            Ok(longest.max(chain.len()))
        })
    }

    /// Bytes that changes have stored to the log since it was opened.
    pub fn logged(&self) -> u64 {
        self.base.logged(&self.state.read().past)
    }

    fn heap(&self) -> &Heap {
        self.base.heap()
    }

    fn answer(&self, state: RwLockWriteGuard<'_, State>, value: bool) -> Result<bool> {
        let seen = state.past.last;
        self.base.answer(state, seen, value)
    }

    fn record(&self, slot: u64) -> Result<Record> {
        Record::read(self.heap(), place_of(slot))
    }

    /// A hint that the chain of this hash is walked soon: there is something to do until its first
    /// bucket is there.
    fn expect(&self, state: &State, hash: u64) {
        self.base.media().prefetch(state.bucket_at(state.index_of(hash)));
    }

    /// Walks the chain of a key once: where it is, or where it would go.
    fn find(&self, state: &State, hash: u64, key: &[u8]) -> Result<Found> {
        let (mut empty, mut link) = (None, 0);
        for bucket in Chain::of(self, state.bucket_at(state.index_of(hash))) {
            let bucket = bucket?;
            for (at, slot) in bucket.slots().filter(|&(_, slot)| slot >> PLACE_BITS == hash >> PLACE_BITS) {
                Record::expect(self.heap(), place_of(slot));
                let record = self.record(slot)?;
                if record.head.hash == hash && record.compare(self.heap(), key).is_eq() {
                    return Ok(Found::Here(at, record));
                }
            }
            empty = empty.or_else(|| bucket.empty());
            link = bucket.at + LINK;
        }
        Ok(empty.map_or(Found::Link(link), Found::Slot))
    }
}

impl State {
    /// The bucket that a hash belongs to: of twice as many as there are at least, or its lower
    /// half.
    fn index_of(&self, hash: u64) -> u64 {
        let whole = self.buckets.next_power_of_two();
        let index = hash & (whole - 1);
        if index < self.buckets { index } else { index - whole / 2 }
    }

    fn bucket_at(&self, index: u64) -> u64 {
        split::bucket_at(&self.segments, index)
    }
}

fn slot_of(hash: u64, place: u64) -> u64 {
    hash >> PLACE_BITS << PLACE_BITS | place
}

fn place_of(slot: u64) -> u64 {
    slot & ((1 << PLACE_BITS) - 1)
}

const _: () = assert!(SLOTS == 7 && SEGMENTS_AT == 128);

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hash({}, {} buckets)", self.object().name(), self.state.read().buckets)
    }
}
