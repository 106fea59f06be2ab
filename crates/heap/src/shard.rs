//! Small blocks: each shard owns runs, and each thread allocates from one shard.
//!
//! A run that a shard allocates from is *current*; the other runs with free blocks are in the
//! shard's list of their class; full ones are in no list. A run that becomes empty goes back to the
//! pool, unless it is current.
//!
//! A new run, a fence between the lines:
//!   1. a free cluster's record gets the kind "run of this class", with an empty bitmap: other
//!      threads still see a free cluster
//!   2. blocks of it are handed out
//!
//! Invariants
//!   HEAP-1  The record of a cluster changes its kind only while no bit of it is set and no
//!           operation on it can be replayed; the change is fenced before a block of the new kind
//!           is handed out.
//!
//! Threads: a thread takes another shard when its own is in use. Order of locks: shard, then pool;
//! never two shards.

use crate::classes::{self, COUNT};
use crate::heap::{Block, HeapState};
use crate::layout::{self, ClusterKind};
use crate::pool::Pool;
use crate::zone::{Cluster, NONE, POOL, Use};
use crate::{Error, Result};
use everbyte_media::lock_order::RankedMutexGuard;
use everbyte_media::{Length, Offset};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs by class.
pub(crate) struct Lists {
    heads: [u32; COUNT],
}

impl Lists {
    pub(crate) const fn new() -> Lists {
        Lists { heads: [NONE; COUNT] }
    }

    pub(crate) fn first(&self, class: usize) -> Option<u64> {
        (self.heads[class] != NONE).then_some(u64::from(self.heads[class]))
    }

    pub(crate) fn push(&mut self, inner: &HeapState, class: usize, cluster: u64) {
        let twin = inner.cluster(cluster);
        let head = self.heads[class];
        twin.previous.store(NONE, Ordering::Relaxed);
        twin.next.store(head, Ordering::Relaxed);
        if head != NONE {
            inner.cluster(u64::from(head)).previous.store(cluster as u32, Ordering::Relaxed);
        }
        self.heads[class] = cluster as u32;
    }

    pub(crate) fn remove(&mut self, inner: &HeapState, class: usize, cluster: u64) {
        let twin = inner.cluster(cluster);
        let (previous, next) = (twin.previous.load(Ordering::Relaxed), twin.next.load(Ordering::Relaxed));
        if next != NONE {
            inner.cluster(u64::from(next)).previous.store(previous, Ordering::Relaxed);
        }
        match previous {
            NONE => {
                assert!(self.heads[class] == cluster as u32, "HEAP-5: run {cluster} is not in the list it leaves");
                self.heads[class] = next;
            }
            previous => inner.cluster(u64::from(previous)).next.store(next, Ordering::Relaxed),
        }
    }
}

/// The runs of one shard.
pub(crate) struct Shard {
    current: [u32; COUNT],
    pub lists: Lists,
}

impl Shard {
    pub(crate) fn new() -> Shard {
        Shard { current: [NONE; COUNT], lists: Lists::new() }
    }

    /// The run of a class that it allocates from.
    pub(crate) fn current(&self, class: usize) -> Option<u64> {
        (self.current[class] != NONE).then_some(u64::from(self.current[class]))
    }

    /// Ends allocation from that run.
    pub(crate) fn drop_current(&mut self, class: usize) {
        self.current[class] = NONE;
    }
}

thread_local! {
    /// The shard this thread tries first; `usize::MAX` before the first time.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The owner of a cluster, locked.
pub(crate) enum Owner<'h> {
    Shard(RankedMutexGuard<'h, Shard>),
    Pool(RankedMutexGuard<'h, Pool>),
}

impl HeapState {
    /// Number of this thread's shard, and the shard, locked.
    #[inline]
    fn my_shard(&self) -> (usize, RankedMutexGuard<'_, Shard>) {
        let mask = self.shards.len() - 1;
        let mine = MINE.get() & mask;
        match self.shards[mine].try_lock() {
            Some(shard) if MINE.get() != usize::MAX => (mine, shard),
            other => {
                drop(other);
                self.choose_shard(mask)
            }
        }
    }

    #[cold]
    fn choose_shard(&self, mask: usize) -> (usize, RankedMutexGuard<'_, Shard>) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        if MINE.get() == usize::MAX {
            MINE.set(NEXT.fetch_add(1, Ordering::Relaxed) & 0xffff);
        }
        for _ in 0..=mask {
            if let Some(shard) = self.shards[MINE.get() & mask].try_lock() {
                return (MINE.get() & mask, shard);
            }
            MINE.set(MINE.get().wrapping_add(1) & 0xffff);
        }
        (MINE.get() & mask, self.lock_shard(MINE.get() & mask))
    }

    /// The number of this thread's shard, for other choices by thread.
    pub(crate) fn shard_hint(&self) -> usize {
        if MINE.get() == usize::MAX {
            drop(self.my_shard());
        }
        MINE.get()
    }

    #[inline]
    pub(crate) fn reserve_small(&self, class: usize) -> Result<Block> {
        loop {
            let (number, mut shard) = self.my_shard();
            let current = shard.current[class];
            if current != NONE
                && let Some(index) = self.cluster(u64::from(current)).take_any(class)
            {
                let size = classes::size_of(class);
                return Ok(Block {
                    at: Offset::new(self.at(u64::from(current)) + u64::from(index) * size),
                    size: Length::new(size),
                });
            }
            match self.find_run(&mut shard, number as u32, class) {
                Ok(run) => shard.current[class] = run as u32,
                Err(full) if full.is_full() => {
                    drop(shard);
                    if !self.steal(number, class) {
                        return self.reserve_larger(number, class, full);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A run with free blocks for the shard, removed from all lists. When the object is full, other
    /// shards may have one.
    #[cold]
    fn find_run(&self, shard: &mut Shard, number: u32, class: usize) -> Result<u64> {
        shard.current[class] = NONE;
        if let Some(run) = shard.lists.first(class) {
            shard.lists.remove(self, class, run);
            return Ok(run);
        }
        let mut pool = self.pool.lock();
        let run = match self.pooled_run(&mut pool, class)? {
            Some(run) => run,
            None => {
                let cluster = self.free_cluster(&mut pool)?;
                self.write_kind(cluster, ClusterKind::Run(class));
                self.media.fence(); // HEAP-1
                self.cluster(cluster).begin_run(class);
                cluster
            }
        };
        self.cluster(run).owner.store(number, Ordering::Release);
        Ok(run)
    }

    /// A run of the class that no shard owns, if one is known or a short search finds one.
    fn pooled_run(&self, pool: &mut Pool, class: usize) -> Result<Option<u64>> {
        loop {
            if let Some(run) = pool.lists.first(class) {
                pool.lists.remove(self, class, run);
                return Ok(Some(run));
            }
            if pool.extents.pages() > 0 || !self.examine_some(pool)? {
                return Ok(None);
            }
        }
    }

    /// Stores the kind of a cluster and flushes it; no fence.
    pub(crate) fn write_kind(&self, cluster: u64, kind: ClusterKind) {
        let _section = self.media.section();
        let record = self.record(cluster);
        self.media.store(record, layout::seal_kind(kind, cluster));
        self.media.flush_unless("heap-run-not-flushed", record, 8);
    }

    /// Moves a run with free blocks from another shard to the pool. `false`: no shard has one.
    fn steal(&self, mine: usize, class: usize) -> bool {
        let others = (1..self.shards.len()).map(|step| (mine + step) % self.shards.len());
        for number in others {
            let mut shard = self.lock_shard(number);
            let current = shard.current[class];
            let run = match shard.lists.first(class) {
                Some(run) => {
                    shard.lists.remove(self, class, run);
                    run
                }
                None if current != NONE && self.cluster(u64::from(current)).free.load(Ordering::Relaxed) > 0 => {
                    shard.current[class] = NONE;
                    u64::from(current)
                }
                None => continue,
            };
            let mut pool = self.pool.lock();
            self.cluster(run).owner.store(POOL, Ordering::Release);
            pool.lists.push(self, class, run);
            return true;
        }
        false
    }

    /// Reserves a block of a larger class, when the object cannot grow.
    fn reserve_larger(&self, mine: usize, class: usize, full: Error) -> Result<Block> {
        for larger in class + 1..=classes::class_of(self.plan.small_max) {
            loop {
                let (number, mut shard) = self.my_shard();
                let current = shard.current[larger];
                if current != NONE
                    && let Some(index) = self.cluster(u64::from(current)).take_any(larger)
                {
                    let size = classes::size_of(larger);
                    return Ok(Block {
                        at: Offset::new(self.at(u64::from(current)) + u64::from(index) * size),
                        size: Length::new(size),
                    });
                }
                match self.find_run(&mut shard, number as u32, larger) {
                    Ok(run) => shard.current[larger] = run as u32,
                    Err(error) if error.is_full() => {
                        drop(shard);
                        if !self.steal(mine, larger) {
                            break;
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Err(full)
    }

    /// Locks the owner of a cluster (HEAP-5).
    #[inline]
    pub(crate) fn lock_owner(&self, twin: &Cluster) -> Owner<'_> {
        loop {
            let owner = twin.owner.load(Ordering::Acquire);
            let locked = match owner {
                POOL => Owner::Pool(self.pool.lock()),
                number => Owner::Shard(self.lock_shard(number as usize)),
            };
            if twin.owner.load(Ordering::Acquire) == owner {
                return locked;
            }
        }
    }

    /// Makes a block free for the next reservation.
    #[inline]
    pub(crate) fn give_back_small(&self, cluster: u64, class: usize, index: u32) {
        let twin = self.cluster(cluster);
        let mut owner = self.lock_owner(twin);
        assert!(twin.usage() == Use::Run(class), "HEAP-4: a taken block's run has changed its class");
        let free = twin.give_back(class, index);
        let empty = free == classes::count_of(class);
        match &mut owner {
            Owner::Shard(shard) => {
                if shard.current[class] == cluster as u32 {
                    return;
                }
                if free == 1 && !empty {
                    shard.lists.push(self, class, cluster);
                } else if empty {
                    shard.lists.remove(self, class, cluster);
                    let mut pool = self.pool.lock();
                    self.retire_run(&mut pool, cluster);
                }
            }
            Owner::Pool(pool) => {
                if free == 1 && !empty {
                    pool.lists.push(self, class, cluster);
                } else if empty {
                    pool.lists.remove(self, class, cluster);
                    self.retire_run(pool, cluster);
                }
            }
        }
    }

    /// Makes free pages of an empty run. Its record is unchanged until the pages are used (HEAP-1).
    pub(crate) fn retire_run(&self, pool: &mut Pool, cluster: u64) {
        let twin = self.cluster(cluster);
        twin.begin_pages(0);
        twin.owner.store(POOL, Ordering::Release);
        pool.extents.insert(cluster as u32 * 16, 16);
        self.release_some(pool);
    }
}
