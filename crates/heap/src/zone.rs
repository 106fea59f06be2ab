//! The state in memory of a zone: for each cluster its use, its owner, and its taken blocks.
//!
//! A block is *taken* from its reservation until the lane that freed it is retired; on media its
//! bit is set from the application of the one operation to that of the other. *Freeing* blocks are
//! taken, and a thread that owns them will clear them. A zone is loaded from its table on media
//! when it is first needed, and again after other processes have changed the heap.
//!
//! Invariants
//!   HEAP-4  A block with its bit set on media is taken. (Kept by `apply`, which takes a block that
//!           a replay finds untaken.)
//!   HEAP-5  The fields of a cluster change only under the lock of its owner, a shard or the pool;
//!           its owner changes only under the locks of both. Exception: a small block's *freeing*
//!           bit is set without a lock, and then the block is looked up again
//!           ([`Cluster::mark_freeing`]).
//!
//! Threads: fields are atomics so that they can be read without a lock; all changes follow HEAP-5.

use crate::classes;
use crate::layout::ZONE_CLUSTERS;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No cluster.
pub(crate) const NONE: u32 = u32::MAX;
/// The owner of clusters that no shard has.
pub(crate) const POOL: u32 = u32::MAX;

const KIND_PAGES: u32 = 0x100;
const KIND_SYSTEM: u32 = 0x101;
const KIND_DAMAGED: u32 = 0x102;
const KIND_BEYOND: u32 = 0x103;

/// The use of a cluster, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Pages of the pool; a free cluster is one without taken pages.
    Pages,
    /// A run of this class.
    Run(usize),
    /// The heap's own.
    System,
    /// Its record contradicts itself: nothing is allocated or freed there.
    Damaged,
    /// Not yet taken over from the object.
    Beyond,
}

/// Words that most classes need; smaller blocks have a boxed bitmap.
const INLINE: usize = 8;

#[repr(align(64))]
pub(crate) struct Cluster {
    kind: AtomicU32,
    pub owner: AtomicU32,
    pub free: AtomicU32,
    /// The word in which the search for a free block starts.
    pub hint: AtomicU32,
    /// Neighbours in the owner's list of runs of this class with free blocks.
    pub next: AtomicU32,
    pub previous: AtomicU32,
    taken: [AtomicU64; INLINE],
    freeing: [AtomicU64; INLINE],
    big: OnceLock<Box<[AtomicU64]>>,
}

pub(crate) struct Zone {
    /// Offset of its table.
    pub table: u64,
    /// The epoch of the heap (see `Zones`) in which its clusters were last loaded, or are being
    /// loaded.
    pub epoch: AtomicU64,
    /// The epoch in which all of them have been loaded; pairs with the Acquire in
    /// `HeapState::zone`.
    pub ready: AtomicU64,
    pub clusters: Box<[Cluster]>,
}

impl Zone {
    pub(crate) fn new(table: u64) -> Zone {
        let clusters = (0..ZONE_CLUSTERS).map(|_| Cluster::new()).collect();
        Zone { table, epoch: AtomicU64::new(0), ready: AtomicU64::new(0), clusters }
    }

    /// Starts loading: no state of its clusters is known.
    pub(crate) fn begin(&self, epoch: u64) {
        self.clusters.iter().for_each(Cluster::forget);
        self.epoch.store(epoch, Ordering::Release);
    }
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            kind: AtomicU32::new(KIND_BEYOND),
            owner: AtomicU32::new(POOL),
            free: AtomicU32::new(0),
            hint: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            previous: AtomicU32::new(NONE),
            taken: Default::default(),
            freeing: Default::default(),
            big: OnceLock::new(),
        }
    }

    fn forget(&self) {
        self.set_usage(Use::Beyond);
        self.owner.store(POOL, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn usage(&self) -> Use {
        match self.kind.load(Ordering::Acquire) {
            KIND_PAGES => Use::Pages,
            KIND_SYSTEM => Use::System,
            KIND_DAMAGED => Use::Damaged,
            KIND_BEYOND => Use::Beyond,
            class => Use::Run(class as usize),
        }
    }

    pub(crate) fn set_usage(&self, usage: Use) {
        let kind = match usage {
            Use::Pages => KIND_PAGES,
            Use::System => KIND_SYSTEM,
            Use::Damaged => KIND_DAMAGED,
            Use::Beyond => KIND_BEYOND,
            Use::Run(class) => class as u32,
        };
        self.kind.store(kind, Ordering::Release);
    }

    /// Makes this a run without taken blocks: bits beyond the last block count as taken.
    pub(crate) fn begin_run(&self, class: usize) {
        let count = classes::count_of(class);
        for word in 0..words_of(class) {
            let blocks = (count - word as u32 * 64).min(64);
            self.taken(class, word).store(if blocks == 64 { 0 } else { u64::MAX << blocks }, Ordering::Relaxed);
            self.freeing(class, word).store(0, Ordering::Relaxed);
        }
        self.free.store(count, Ordering::Relaxed);
        self.hint.store(0, Ordering::Relaxed);
        self.set_usage(Use::Run(class));
    }

    /// Makes this a cluster of pages, with those in `taken` taken.
    pub(crate) fn begin_pages(&self, taken: u64) {
        self.taken[0].store(taken, Ordering::Relaxed);
        self.freeing[0].store(0, Ordering::Relaxed);
        self.set_usage(Use::Pages);
    }

    #[inline(always)]
    pub(crate) fn taken(&self, class: usize, word: usize) -> &AtomicU64 {
        if words_of(class) <= INLINE { &self.taken[word] } else { &self.big()[word] }
    }

    #[inline(always)]
    pub(crate) fn freeing(&self, class: usize, word: usize) -> &AtomicU64 {
        if words_of(class) <= INLINE { &self.freeing[word] } else { &self.big()[classes::BITMAP_WORDS + word] }
    }

    /// Marks a block of a run as being freed; `false` if it is already. The thread that marked it
    /// looks the block up again: from then on no other thread frees it, and its bit on media stays
    /// set until that thread clears it.
    #[inline]
    pub(crate) fn mark_freeing(&self, class: usize, index: u32) -> bool {
        let bit = 1u64 << (index % 64);
        self.freeing(class, index as usize / 64).fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// Takes [`Cluster::mark_freeing`] back.
    pub(crate) fn unmark_freeing(&self, class: usize, index: u32) {
        self.freeing(class, index as usize / 64).fetch_and(!(1 << (index % 64)), Ordering::Release);
    }

    fn big(&self) -> &[AtomicU64] {
        self.big.get_or_init(|| (0..2 * classes::BITMAP_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    /// The taken pages.
    pub(crate) fn pages(&self) -> &AtomicU64 {
        &self.taken[0]
    }

    /// The pages with starts of blocks that are being freed.
    pub(crate) fn pages_freeing(&self) -> &AtomicU64 {
        &self.freeing[0]
    }

    /// Takes a free block of the run. The owner's lock is held.
    #[inline]
    pub(crate) fn take_any(&self, class: usize) -> Option<u32> {
        let free = self.free.load(Ordering::Relaxed);
        if free == 0 {
            return None;
        }
        let words = words_of(class);
        let first = self.hint.load(Ordering::Relaxed) as usize;
        for word in (first..words).chain(0..first) {
            let taken = self.taken(class, word);
            let bits = taken.load(Ordering::Relaxed);
            if bits != u64::MAX {
                let bit = (!bits).trailing_zeros();
                taken.store(bits | 1 << bit, Ordering::Relaxed);
                self.free.store(free - 1, Ordering::Relaxed);
                self.hint.store(word as u32, Ordering::Relaxed);
                return Some(word as u32 * 64 + bit);
            }
        }
        unreachable!("HEAP-4: a run counts {free} free blocks of class {class} and has none")
    }

    /// Takes this block if it is free. The owner's lock is held.
    pub(crate) fn take(&self, class: usize, index: u32) -> bool {
        let (word, bit) = (self.taken(class, index as usize / 64), 1u64 << (index % 64));
        let bits = word.load(Ordering::Relaxed);
        if bits & bit != 0 {
            return false;
        }
        word.store(bits | bit, Ordering::Relaxed);
        self.free.store(self.free.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        true
    }

    /// Gives a block back and returns how many are free now. The owner's lock is held.
    #[inline]
    pub(crate) fn give_back(&self, class: usize, index: u32) -> u32 {
        let (place, bit) = (index as usize / 64, 1u64 << (index % 64));
        let (taken, freeing) = (self.taken(class, place), self.freeing(class, place));
        let bits = taken.load(Ordering::Relaxed);
        assert!(bits & bit != 0, "HEAP-4: block {index} of class {class} is given back and was not taken");
        taken.store(bits & !bit, Ordering::Relaxed);
        if freeing.load(Ordering::Relaxed) & bit != 0 {
            self.unmark_freeing(class, index);
        }
        self.hint.store(place as u32, Ordering::Relaxed);
        let free = self.free.load(Ordering::Relaxed) + 1;
        self.free.store(free, Ordering::Relaxed);
        free
    }
}

/// Words of bitmap that a run of this class uses.
#[inline(always)]
pub(crate) fn words_of(class: usize) -> usize {
    classes::count_of(class).div_ceil(64) as usize
}
