//! [`Hash`]: linear hashing in buckets of one line, committed by one word.
//!
//! A log record (`log_record`) makes an insertion, an update or a deletion; it changes one word: a
//! slot.
//!
//! After some insertions the next group of buckets is split in others, by a log record too: the
//! table grows by some lines and no operation ever moves all of it (Litwin, "Linear Hashing", VLDB
//! 1980). A new segment or a long chain is too large for a log record and takes a transaction for
//! each bucket.
//!
//! Invariants
//!   HKV-1  A slot that is not empty leads to a record whose hash belongs into that bucket; a key
//!          is in one slot.
//!   HKV-2  Buckets at and beyond `buckets` have no meaning: they are written without a log record
//!          before that word counts them.
//!   HKV-3  No caller learns of a change that is not settled: a reader waits for the newest commit
//!          it could have seen.
//!
//! Threads: any; one changes, or several read. A thread that waits for the disk holds no lock.

mod chain;
mod check;
pub(crate) mod linked;
pub(crate) mod split;

use crate::base::{Base, after_change};
use crate::hasher;
use crate::layout::{BUCKETS_AT, HASH_MAGIC, HashRoot, LINK, PLACE_BITS, RootHead, SEGMENTS, SEGMENTS_AT, SLOTS};
use crate::log_record::LogState;
use crate::raw::Raw;
use crate::record::{Draft, Record};
use crate::{Error, Result};
use chain::Chain;
use everbyte_heap::Heap;
use everbyte_media::Offset;
use everbyte_media::lock_order::{RankedRwLock, RankedWriteGuard, rank};
use everbyte_store::Object;
use everbyte_store::raw::{AsStore, IntoObject};
use everbyte_tx::Undo;
use zerocopy::FromZeros;

/// A key-value store in a hash table. Keys and values are byte strings of at most 4 GiB - 1.
pub struct Hash {
    pub(crate) base: Base,
    seed: [u64; 2],
    state: RankedRwLock<{ rank::ENGINE }, HashState>,
}

/// The state in memory.
struct HashState {
    buckets: u64,
    segments: [u64; SEGMENTS],
    /// Pairs added since the last split.
    added: u64,
    log: LogState,
}

/// Pairs for each bucket on average, of seven slots: few chains then have more than one bucket.
const PER_BUCKET: u64 = 3;

/// The end of a walk for a key.
enum Lookup {
    /// The slot of the key, and its record.
    Here(u64, Record),
    /// The key is absent, and this slot is empty.
    Slot(u64),
    /// The key is absent, and the chain is full: the link of its last bucket.
    Link(u64),
}

impl Hash {
    /// Creates an object with an empty store, in a span of so many bytes (a power of two; `None`:
    /// the largest free one). Settled on return; a crash leaves it whole or absent. HEAPO's
    /// `heapo_kv_init`.
    ///
    /// # Errors
    /// As `Store::create_object`.
    pub fn create(store: &impl AsStore, name: &str, span: Option<u64>) -> Result<Hash> {
        let identity = store.as_store().identity();
        let (one, two) = identity.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of an identity"));
        let object = Base::create(store.as_store(), name, HASH_MAGIC, span, |undo| {
            Hash::format(undo, [word(one) ^ undo.heap().object().id().get(), word(two)])
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
            Ok::<_, Error>(tx.store(tx.heap().object().root_at().get(), root.at.get())?)
        })?)
    }

    /// Opens a store; recovers it first after a crash. The cost does not depend on its size.
    /// HEAPO's `heapo_kv_open`.
    ///
    /// # Errors
    /// [`Error::Store`] for an object of another kind, or one that is open already;
    /// [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Tx`].
    pub fn open(object: impl IntoObject) -> Result<Hash> {
        let (base, head, log) = Base::open(object.into_object(), HASH_MAGIC, size_of::<HashRoot>())?;
        let root: HashRoot = base.media().get(base.root);
        let made = root.segments.iter().take_while(|&&segment| segment != 0).count();
        if root.buckets < crate::layout::FIRST_SEGMENT || root.buckets > split::buckets_of(made) {
            return Err(base.damaged(base.root + BUCKETS_AT, "more or fewer buckets than segments hold"));
        }
        let state = HashState { buckets: root.buckets, segments: root.segments.map(Offset::get), added: 0, log };
        Ok(Hash { base, seed: head.seed, state: RankedRwLock::new(state) })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Media`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let hash = hasher::hash(self.seed, key);
        let state = self.state.read();
        let value = match self.find(&state, hash, key)? {
            Lookup::Here(_, record) => Some(record.value(self.heap())),
            Lookup::Slot(_) | Lookup::Link(_) => None,
        };
        let seen = state.log.last;
        drop(state);
        self.base.settle(seen)?;
        Ok(value)
    }

    /// Adds a pair; `false`, without a change, if the key exists. Settled on return.
    ///
    /// # Errors
    /// [`Error::Tx`] without space, [`Error::TooLarge`], [`Error::Damaged`]: nothing has changed.
    /// [`Error::Media`]: unknown until the store is opened again.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        self.expect(&state, hash);
        let draft = Draft::new(hash, key, value)?;
        let found = self.find(&state, hash, key)?;
        match found {
            Lookup::Here(..) => return self.answer(state, false),
            Lookup::Slot(at) => {
                self.base.change(&mut state.log, Some(&draft), None, |place| [(at, slot_of(hash, place))])?;
            }
            Lookup::Link(at) => self.link(&mut state, &draft, hash, at)?,
        }
        state.added += 1;
        if state.added >= PER_BUCKET * split::GROUP || matches!(found, Lookup::Link(_)) {
            state.added = 0;
            after_change(self.split_some(&mut state))?;
        }
        self.answer(state, true)
    }

    /// Replaces the value of a key; `false`, without a change, if the key does not exist. Settled
    /// on return.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        self.expect(&state, hash);
        let draft = Draft::new(hash, key, value)?;
        let Lookup::Here(at, old) = self.find(&state, hash, key)? else { return self.answer(state, false) };
        self.base.change(&mut state.log, Some(&draft), Some(old.at), |place| [(at, slot_of(hash, place))])?;
        self.answer(state, true)
    }

    /// Removes a key; `false` if it does not exist. Settled on return.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = hasher::hash(self.seed, key);
        let mut state = self.state.write();
        let Lookup::Here(at, old) = self.find(&state, hash, key)? else { return self.answer(state, false) };
        self.base.change(&mut state.log, None, Some(old.at), |_| [(at, 0)])?;
        self.answer(state, true)
    }

    /// Calls `each` with every pair, in no order, until it returns `false`. `each` must not use the
    /// store.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Media`].
    pub fn scan(&self, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let state = self.state.read();
        self.base.settle(state.log.last)?;
        for index in 0..state.buckets {
            for (_, slot) in Chain::of(self, state.bucket_at(index)).slots()? {
                let record = self.record(slot)?;
                if !each(&record.key(self.heap()), &record.value(self.heap())) {
                    return self.base.require_readable();
                }
            }
        }
        self.base.require_readable()
    }

    /// Buckets of the longest chain: 1 if no bucket is full.
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

    /// Bytes that changes have stored to the log since the opening.
    pub fn logged(&self) -> u64 {
        self.base.logged(&self.state.read().log)
    }

    fn heap(&self) -> &Heap {
        self.base.heap()
    }

    fn answer(&self, state: RankedWriteGuard<'_, HashState>, value: bool) -> Result<bool> {
        let seen = state.log.last;
        self.base.answer(state, seen, value)
    }

    fn record(&self, slot: u64) -> Result<Record> {
        Record::read(self.heap(), place_of(slot))
    }

    /// A hint that the chain of this hash is walked soon: prefetches its first bucket.
    fn expect(&self, state: &HashState, hash: u64) {
        self.base.media().prefetch(state.bucket_at(state.index_of(hash)));
    }

    /// Walks the chain of a key once: finds its slot, or the place for a new one.
    fn find(&self, state: &HashState, hash: u64, key: &[u8]) -> Result<Lookup> {
        let (mut empty, mut link) = (None, 0);
        for bucket in Chain::of(self, state.bucket_at(state.index_of(hash))) {
            let bucket = bucket?;
            for (at, slot) in bucket.slots().filter(|&(_, slot)| slot >> PLACE_BITS == hash >> PLACE_BITS) {
                Record::expect(self.heap(), place_of(slot));
                let record = self.record(slot)?;
                if record.head.hash == hash && record.compare(self.heap(), key).is_eq() {
                    return Ok(Lookup::Here(at, record));
                }
            }
            empty = empty.or_else(|| bucket.empty());
            link = bucket.at + LINK;
        }
        Ok(empty.map_or(Lookup::Link(link), Lookup::Slot))
    }
}

impl HashState {
    /// The bucket of a hash: among the next power of two of buckets, or its lower half.
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

impl Raw for Hash {
    fn object(&self) -> &Object {
        self.base.object()
    }
}
