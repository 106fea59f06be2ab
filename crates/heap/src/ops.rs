//! Changing bits on media, by operations that the caller has made valid with a commit word of its
//! own.
//!
//! One use, a fence between the lines:
//!   1. the caller writes operations and its own changes to its log
//!   2. the caller's commit word makes them valid
//!   3. `apply`: the bits change; the caller's own changes
//!   4. the caller retires its log entry
//!   5. `finish`: freed blocks can be allocated again
//!
//! A crash before 2 leaves nothing: reservations live in memory. After a later crash recovery
//! repeats 3, so an operation is "set" or "clear" and never the value of a word; other threads may
//! have changed their bits of that word meanwhile.
//!
//! Invariants
//!   HEAP-6  A freed block stays taken until its lane is retired, so a replay never touches a block
//!           of another caller.
//!   HEAP-7  Operations read from media are validated before they are applied.
//!
//! Threads: any. Words are changed by compare-and-exchange: several lanes may apply to one word.

use crate::classes::{self, PAGE};
use crate::heap::{ClusterPlace, HeapState};
use crate::layout::{self, CLUSTER, ClusterKind, ZONE_CLUSTERS};
use crate::op::Change;
use crate::pool::Pool;
use crate::shard::Owner;
use crate::zone::Use;
use crate::{Block, Error, Heap, Op, Result};
use everbyte_media::{Flusher, Offset, seeded};
use std::sync::atomic::Ordering;

impl Heap {
    /// The operation that allocates a reserved block.
    #[inline]
    pub fn op_allocate(&self, block: &Block) -> Op {
        let inner = &*self.inner;
        if block.size > classes::SMALL_MAX {
            return Op::pages(true, (block.at.get() - inner.prime) / PAGE, block.size.get() / PAGE);
        }
        let class = classes::class_of(block.size.get());
        let (index, rest) = classes::locate(class, (block.at % CLUSTER) as u32);
        debug_assert!(rest == 0, "HEAP-4: {block:?} was never reserved");
        Op::small(true, class, index, inner.cluster_of(block.at.get()))
    }

    /// The operation that frees the allocated block at `at`, which may be any number. From now on
    /// no other caller can free it, until [`Heap::finish`] or [`Heap::abandon`].
    ///
    /// # Errors
    /// [`Error::NotABlock`] (wild or foreign), [`Error::NotAllocated`] (freed before),
    /// [`Error::BeingFreed`], [`Error::Damaged`]. Nothing has changed.
    pub fn op_free(&self, at: impl Into<Offset>) -> Result<Op> {
        let at = at.into().get();
        let inner = &*self.inner;
        let place = inner.place(at)?;
        match place.twin.usage() {
            Use::Run(class) => inner.op_free_small(at, &place, class),
            _ => inner.op_free_pages(at, &place),
        }
    }

    /// Drops operations that were never made valid: reservations end, blocks that were to be freed
    /// stay.
    pub fn abandon(&self, ops: &[Op]) {
        let inner = &*self.inner;
        for op in ops {
            match op.decode().expect("HEAP-7: an operation of this process is whole") {
                Change::Small { set: true, class, index, cluster } => inner.give_back_small(cluster, class, index),
                Change::Pages { set: true, first, count } => inner.give_back_pages(first, count),
                Change::Small { set: false, class, index, cluster } => {
                    inner.cluster(cluster).unmark_freeing(class, index);
                }
                Change::Pages { set: false, first, .. } => {
                    let twin = inner.cluster(first / 16);
                    let _owner = inner.lock_owner(twin);
                    let word = twin.pages_freeing();
                    word.store(word.load(Ordering::Relaxed) & !(1 << (first % 16)), Ordering::Relaxed);
                }
            }
        }
    }

    /// Whether this heap can apply an operation read from media.
    ///
    /// # Errors
    /// [`Error::BadOp`], [`Error::Damaged`].
    pub fn validate(&self, op: Op) -> Result<()> {
        let inner = &*self.inner;
        let bad = |detail| Error::BadOp { op: op.into(), object: inner.name(), detail };
        match op.decode().ok_or_else(|| bad("it is not an operation"))? {
            Change::Small { class, cluster, .. } => {
                if cluster >= inner.end() {
                    return Err(bad("its block lies outside the heap"));
                }
                let record = inner.zone_record(cluster)?;
                if !inner.object.is_backed(inner.at(cluster)) {
                    return Err(bad("its block lies in a cluster that is not backed"));
                }
                match layout::unseal_kind(inner.media.load(record), cluster) {
                    Some(ClusterKind::Run(found))
                        if found == class && inner.cluster(cluster).usage() != Use::Damaged =>
                    {
                        Ok(())
                    }
                    Some(ClusterKind::Run(_)) => Err(bad("its block lies in a run of another class, or a damaged one")),
                    Some(_) => Err(bad("its block lies in no run")),
                    None => Err(inner.damaged(record, "the record of this cluster is not whole")),
                }
            }
            Change::Pages { first, count, .. } => {
                if first < inner.plan.system_pages || first + count > inner.end() * 16 {
                    return Err(bad("its pages lie outside the heap, or are the heap's own"));
                }
                for cluster in first / 16..(first + count).div_ceil(16) {
                    let record = inner.zone_record(cluster)?;
                    if !inner.object.is_backed(inner.at(cluster)) {
                        return Err(bad("its pages lie in a cluster that is not backed"));
                    }
                    if inner.media.load(record) != 0 || inner.cluster(cluster).usage() != Use::Pages {
                        return Err(bad("its pages lie in a run, or are the heap's own, or damaged"));
                    }
                }
                Ok(())
            }
        }
    }

    /// Changes the bits and flushes them; no fence. The caller has made the operations valid: after
    /// a crash from here on recovery applies them again. Applying twice has the effect of once.
    ///
    /// # Panics
    /// HEAP-7: operations from media must have passed [`Heap::validate`].
    #[inline]
    pub fn apply(&self, ops: &[Op]) {
        let inner = &*self.inner;
        let _section = inner.media.section();
        let mut flusher = Flusher::new(&inner.media);
        for op in ops {
            match op.decode().expect("HEAP-7: operations are validated before they are applied") {
                Change::Small { set, class, index, cluster } => {
                    inner.hold_small(set, class, index, cluster);
                    let at = layout::bitmap_at(inner.record(cluster), index as usize / 64);
                    flusher.touch(at, 8);
                    inner.change(at, 1 << (index % 64), set);
                }
                Change::Pages { set, first, count } => {
                    inner.hold_pages(set, first, count);
                    if first % 16 + count > 16 {
                        // Cleared with its block: the word becomes a run's bitmap if the cluster
                        // becomes a run (HEAP-1).
                        let at = inner.record(first / 16) + layout::TAIL_WORD;
                        flusher.touch(at, 8);
                        inner.media.store(at, if set || seeded("heap-tail-kept") { count } else { 0 });
                    }
                    inner.each_cluster(first, count, |cluster, mask| {
                        let at = inner.record(cluster) + layout::PAGE_WORD;
                        let start =
                            if cluster == first / 16 { 1 << (first % 16 + u64::from(layout::START_SHIFT)) } else { 0 };
                        flusher.touch(at, 8);
                        inner.change(at, mask | start, set);
                    });
                }
            }
        }
        flusher.finish_unless("heap-bits-not-flushed");
    }

    /// Flushes the words of operations that another process applied; no fence.
    pub fn flush(&self, ops: &[Op]) {
        let inner = &*self.inner;
        let mut flusher = Flusher::new(&inner.media);
        for op in ops {
            match op.decode().expect("HEAP-7: an operation that was applied is whole") {
                Change::Small { index, cluster, .. } => {
                    flusher.touch(layout::bitmap_at(inner.record(cluster), index as usize / 64), 8);
                }
                Change::Pages { first, count, .. } => inner.each_cluster(first, count, |cluster, _| {
                    // the tail word is its neighbour
                    flusher.touch(inner.record(cluster) + layout::PAGE_WORD, 16);
                }),
            }
        }
    }

    /// Ends reservations and makes freed blocks allocatable. The caller's log entry is retired: its
    /// retiring store is flushed and fenced, so that recovery cannot replay these operations any
    /// more.
    #[inline]
    pub fn finish(&self, ops: &[Op]) {
        for op in ops {
            match op.decode().expect("HEAP-7: an operation that was applied is whole") {
                Change::Small { set: false, class, index, cluster } => {
                    self.inner.give_back_small(cluster, class, index)
                }
                Change::Pages { set: false, first, count } => self.inner.give_back_pages(first, count),
                _ => {} // a block of a damaged cluster stays taken
            }
        }
    }
}

impl HeapState {
    /// The operation that frees a block of a run.
    #[inline]
    fn op_free_small(&self, at: u64, place: &ClusterPlace<'_>, class: usize) -> Result<Op> {
        let index = self.find_small(at, place, class)?;
        if !place.twin.mark_freeing(class, index) {
            return Err(Error::BeingFreed { at, object: self.name() });
        }
        // Another thread may have freed the block since the look-up, and its run may have another
        // use by now.
        let found = match place.twin.usage() == Use::Run(class) {
            true => self.find_small(at, place, class),
            false => Err(Error::NotAllocated { at, object: self.name() }),
        };
        if found.is_err() {
            place.twin.unmark_freeing(class, index);
        }
        found.map(|index| Op::small(false, class, index, place.cluster))
    }

    /// The operation that frees pages.
    fn op_free_pages(&self, at: u64, place: &ClusterPlace<'_>) -> Result<Op> {
        // No other thread frees or hands out pages of this cluster under the lock, so the answer
        // holds until the bit is set.
        let mut owner = self.lock_owner(place.twin);
        let (freeing, bit) = (place.twin.pages_freeing(), 1 << (at / PAGE % 16));
        let marked = freeing.load(Ordering::Relaxed);
        // Before the pages are counted: its bits may be changing at this moment.
        if at.is_multiple_of(PAGE) && place.twin.usage() == Use::Pages && marked & bit != 0 {
            return Err(Error::BeingFreed { at, object: self.name() });
        }
        let (first, count) = match &mut owner {
            Owner::Shard(_) => self.find_pages(at, place, &mut |cluster| self.zone_record(cluster))?,
            // The pool's lock is held, which loading a zone needs.
            Owner::Pool(pool) => self.find_pages(at, place, &mut |cluster| self.record_under(pool, cluster))?,
        };
        freeing.store(marked | bit, Ordering::Relaxed);
        Ok(Op::pages(false, first, count))
    }

    /// Offset of the record of a cluster below the end, for a caller that holds the pool's lock.
    fn record_under(&self, pool: &mut Pool, cluster: u64) -> Result<u64> {
        Ok(self.load_zone(cluster / ZONE_CLUSTERS, pool)?.table + cluster % ZONE_CLUSTERS * layout::RECORD)
    }

    /// Sets or clears bits of one word; other threads may change its other bits meanwhile.
    #[inline]
    fn change(&self, at: u64, bits: u64, set: bool) {
        let mut old = self.media.load(at);
        loop {
            let new = if set { old | bits } else { old & !bits };
            if new == old {
                return;
            }
            match self.media.compare_exchange(at, old, new) {
                Ok(_) => return,
                Err(found) => old = found,
            }
        }
    }

    /// HEAP-4 and HEAP-6 for a block that a replay changes: usually its state in memory already
    ///        agrees.
    #[inline]
    fn hold_small(&self, set: bool, class: usize, index: u32, cluster: u64) {
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        if let Some(zone) = self.zones.get(cluster / ZONE_CLUSTERS) {
            let twin = &zone.clusters[(cluster % ZONE_CLUSTERS) as usize];
            let held = if set { twin.taken(class, word) } else { twin.freeing(class, word) };
            if twin.usage() == Use::Run(class) && held.load(Ordering::Relaxed) & bit != 0 {
                return;
            }
        }
        self.hold_replayed(set, class, index, cluster);
    }

    #[cold]
    fn hold_replayed(&self, set: bool, class: usize, index: u32, cluster: u64) {
        self.zone(cluster / ZONE_CLUSTERS).expect("HEAP-7: the zone was loaded to validate the operation");
        let twin = self.cluster(cluster);
        let mut owner = self.lock_owner(twin);
        if twin.usage() == Use::Pages {
            // Empty on media and free to this process, until now.
            let Owner::Pool(pool) = &mut owner else { unreachable!("HEAP-5: the pool owns all pages") };
            assert!(pool.extents.take_at(cluster as u32 * 16, 16), "HEAP-7: replay comes before reservations");
            twin.begin_run(class);
            pool.lists.push(self, class, cluster);
        }
        assert!(twin.usage() == Use::Run(class), "HEAP-7: the operation's class was validated");
        if twin.take(class, index) && twin.free.load(Ordering::Relaxed) == 0 {
            let Owner::Pool(pool) = &mut owner else { panic!("HEAP-7: replay comes before reservations") };
            pool.lists.remove(self, class, cluster);
        }
        if !set {
            let freeing = twin.freeing(class, index as usize / 64);
            freeing.store(freeing.load(Ordering::Relaxed) | 1 << (index % 64), Ordering::Relaxed);
        }
    }

    fn load_zones(&self, first: u64, count: u64) -> Result<()> {
        (first / 16 / ZONE_CLUSTERS..(first + count).div_ceil(16 * ZONE_CLUSTERS))
            .try_for_each(|zone| self.zone(zone).map(|_| ()))
    }

    fn hold_pages(&self, set: bool, first: u64, count: u64) {
        self.load_zones(first, count).expect("HEAP-7: the zone was loaded to validate the operation");
        // A crash in the middle of `apply` leaves bits of some pages and not of others.
        let mut held = set || self.cluster(first / 16).pages_freeing().load(Ordering::Relaxed) >> (first % 16) & 1 == 1;
        self.each_cluster(first, count, |cluster, mask| {
            held &= self.cluster(cluster).pages().load(Ordering::Relaxed) & mask == mask;
        });
        if held {
            return;
        }
        let mut pool = self.pool.lock();
        let pool: &mut Pool = &mut pool;
        self.each_cluster(first, count, |cluster, mask| {
            let twin = self.cluster(cluster);
            let taken = twin.pages().load(Ordering::Relaxed);
            for page in 0..16 {
                if mask & !taken & 1 << page != 0 {
                    let free = pool.extents.take_at(cluster as u32 * 16 + page, 1);
                    assert!(free, "HEAP-4: a page is neither taken nor free");
                }
            }
            twin.pages().store(taken | mask, Ordering::Relaxed);
        });
        if !set {
            let freeing = self.cluster(first / 16).pages_freeing();
            freeing.store(freeing.load(Ordering::Relaxed) | 1 << (first % 16), Ordering::Relaxed);
        }
    }
}
