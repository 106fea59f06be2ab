//! The shared pool: free pages, runs found on media, unscanned zones, and growth. Guarded by the
//! pool's lock.
//!
//! Growth, a fence between the lines:
//!   1. the object backs more clusters (recorded and fenced by the store)
//!   2. records of the new clusters are zeros; new tables are zeros; the records of tables' own
//!      clusters have the kind "system"; their names stand in the header or a directory. Tables are
//!      made in batches, some before their zones begin
//!   3. `end` makes the clusters the heap's
//!
//! A crash before 3 leaves backed clusters above `end`; the next growth takes them first and does 2
//! again.
//!
//! Invariants
//!   HEAP-2  Bytes on media of clusters at or above `end` have no meaning.
//!   HEAP-3  A zone with a cluster below `end` has a table below `end`, at its name; so have the
//!           later zones of its batch (`tabled_zones`).
//!   HEAP-10  Words that a process left unflushed at its death, and that this process reads, are
//!            flushed before any change depends on them: the end, the heap's log, the kinds of
//!            clusters.
//!
//! Threads: everything here happens under the pool's lock.

use crate::classes::{self, PAGE};
use crate::extents::{CLUSTER_PAGES, Extents};
use crate::heap::{Block, HeapState};
use crate::layout::{self, CLUSTER, ClusterKind, DIRECT, DIRECTORY_ZONES, RECORD, ZONE_CLUSTERS};
use crate::op::PAGES_MAX;
use crate::shard::Lists;
use crate::zone::{Use, Zone, words_of};
use crate::{Error, Result};
use everbyte_media::sealed::{seal_for, unseal_for};
use everbyte_media::{Length, Offset, PublishWord, seeded};
use everbyte_store::Error as StoreError;
use std::sync::atomic::Ordering;

/// Zones loaded before the object is grown instead: bounds the time of an allocation after opening.
const EXAMINE: u64 = 16;
/// Clusters backed ahead of need at most.
const AHEAD_MAX: u64 = 128;
/// Clusters of a large page of memory.
const LARGE: u64 = (2 << 20) / CLUSTER;

pub(crate) struct Pool {
    pub extents: Extents,
    /// Free clusters that the object does not back at present.
    pub released: Extents,
    /// Free pages at which the search for clusters to release starts.
    pub release_at: u64,
    /// Runs with free blocks.
    pub lists: Lists,
    /// Zones below this have been loaded.
    examined: u64,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool {
            extents: Extents::default(),
            released: Extents::default(),
            release_at: 0,
            lists: Lists::new(),
            examined: 0,
        }
    }
}

impl HeapState {
    /// Reserves a run of pages.
    pub(crate) fn reserve_pages(&self, size: u64) -> Result<Block> {
        let count = size.div_ceil(PAGE);
        if count > PAGES_MAX || count > self.end_max() * 16 {
            return Err(Error::TooLarge { size, object: self.name(), span: self.end_max() * CLUSTER });
        }
        let mut pool = self.pool.lock();
        let first = self.free_pages(&mut pool, count as u32)?;
        let mut converted = false;
        self.each_cluster(first, count, |cluster, mask| {
            let taken = self.cluster(cluster).pages();
            taken.store(taken.load(Ordering::Relaxed) | mask, Ordering::Relaxed);
            if self.media.load(self.record(cluster)) != 0 {
                self.write_kind(cluster, ClusterKind::Pages); // it was a run once
                converted = true;
            }
        });
        if converted {
            self.media.fence(); // HEAP-1
        }
        Ok(Block { at: Offset::new(self.prime + first * PAGE), size: Length::new(count * PAGE) })
    }

    /// Calls `each` with every cluster of a run of pages and the mask of its pages there.
    pub(crate) fn each_cluster(&self, first: u64, count: u64, mut each: impl FnMut(u64, u64)) {
        let end = first + count;
        let mut page = first;
        while page < end {
            let step = (16 - page % 16).min(end - page);
            each(page / 16, ((1 << step) - 1) << (page % 16));
            page += step;
        }
    }

    /// Makes pages free for the next reservation.
    pub(crate) fn give_back_pages(&self, first: u64, count: u64) {
        let mut pool = self.pool.lock();
        self.each_cluster(first, count, |cluster, mask| {
            let twin = self.cluster(cluster);
            let taken = twin.pages().load(Ordering::Relaxed);
            assert!(
                twin.usage() == Use::Pages && taken & mask == mask,
                "HEAP-4: pages are given back and were not taken"
            );
            twin.pages().store(taken & !mask, Ordering::Relaxed);
            twin.pages_freeing().store(twin.pages_freeing().load(Ordering::Relaxed) & !mask, Ordering::Relaxed);
        });
        pool.extents.insert(first as u32, count as u32);
        self.release_some(&mut pool);
    }

    fn free_pages(&self, pool: &mut Pool, count: u32) -> Result<u64> {
        self.obtain(pool, count, |pool| pool.extents.take(count))
    }

    /// A free cluster.
    pub(crate) fn free_cluster(&self, pool: &mut Pool) -> Result<u64> {
        Ok(self.obtain(pool, 16, |pool| pool.extents.take_cluster())? / 16)
    }

    /// Takes pages: loads some more zones, backs released clusters, grows, loads all zones, in this
    /// order, until there are some.
    fn obtain(&self, pool: &mut Pool, count: u32, take: impl Fn(&mut Pool) -> Option<u32>) -> Result<u64> {
        if let Some(page) = take(pool) {
            return Ok(u64::from(page));
        }
        if self.examine_some(pool)?
            && let Some(page) = take(pool)
        {
            return Ok(u64::from(page));
        }
        if self.back_released(pool, count)?
            && let Some(page) = take(pool)
        {
            return Ok(u64::from(page));
        }
        loop {
            match self.grow(pool, u64::from(count)) {
                Ok(()) => return Ok(u64::from(take(pool).expect("HEAP-2: growth brought the requested pages"))),
                Err(full) if full.is_full() => {
                    if !self.examine_some(pool)? && !self.back_released(pool, 1)? {
                        return Err(full);
                    }
                    if let Some(page) = take(pool) {
                        return Ok(u64::from(page));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Loads a few zones that were never loaded. `false`: there are none.
    pub(crate) fn examine_some(&self, pool: &mut Pool) -> Result<bool> {
        let zones = self.end().div_ceil(ZONE_CLUSTERS);
        let first = pool.examined;
        pool.examined = (first + EXAMINE).min(zones).max(first);
        for zone in first..pool.examined {
            if self.zones.get(zone).is_none() {
                self.load_zone(zone, pool)?;
            }
        }
        Ok(pool.examined > first)
    }

    /// Offset of the table of a zone, read from media.
    pub(crate) fn table_of(&self, zone: u64, end: u64) -> Result<u64> {
        if zone == 0 { Ok(self.prime + layout::FIRST_TABLE) } else { self.follow(self.name_of(zone, end)?, end) }
    }

    /// Offset of the word with the name of a zone's table.
    fn name_of(&self, zone: u64, end: u64) -> Result<u64> {
        if zone < DIRECT {
            return Ok(self.prime + layout::DIRECT_AT + zone * 8);
        }
        let (directory, index) = ((zone - DIRECT) / DIRECTORY_ZONES, (zone - DIRECT) % DIRECTORY_ZONES);
        Ok(self.follow(self.prime + layout::DIRECTORIES_AT + directory * 8, end)? + index * 8)
    }

    /// Offsets of the directories of a heap of `end` clusters, read from media.
    pub(crate) fn directories(&self, end: u64) -> impl Iterator<Item = Result<u64>> {
        let names = (0..self.directories_before(end)).map(|number| self.prime + layout::DIRECTORIES_AT + number * 8);
        names.map(move |name| self.follow(name, end))
    }

    /// The cluster below `end` that the word at `at` names.
    fn follow(&self, at: u64, end: u64) -> Result<u64> {
        match unseal_for(at - self.prime, self.media.load(at)) {
            Some(cluster) if (1..end).contains(&u64::from(cluster)) => Ok(self.at(u64::from(cluster))),
            _ => Err(self.damaged(at, "this word should name a table of the heap and does not")),
        }
    }

    /// Makes the twin of a zone from its table.
    pub(crate) fn load_zone(&self, number: u64, pool: &mut Pool) -> Result<&Zone> {
        if let Some(zone) = self.zones.get(number) {
            return Ok(zone);
        }
        let zone = self.zones.begin(number, || self.table_of(number, self.end()))?;
        let first = number * ZONE_CLUSTERS;
        for cluster in first..(first + ZONE_CLUSTERS).min(self.end()) {
            self.load_cluster(cluster, pool);
        }
        if self.object.store().may_follow_a_death() {
            // Not left to the fence that orders a log entry: the entry may survive before it,
            // without the kind that its operation is validated against (HEAP-10).
            self.media.fence();
        }
        if !self.object.store().recovery().clean && self.zones.epoch() == 1 {
            // After a crash memory does not hold which released clusters are already holes in the
            // file.
            self.object.forget(self.at(first)..self.at((first + ZONE_CLUSTERS).min(self.end())));
        }
        zone.ready.store(self.zones.epoch(), Ordering::Release);
        Ok(zone)
    }

    fn load_cluster(&self, cluster: u64, pool: &mut Pool) {
        let (twin, record) = (self.cluster(cluster), self.record(cluster));
        // Blocks handed out here must not survive without the kind of their cluster (HEAP-10).
        self.media.reflush(record, 8);
        match layout::unseal_kind(self.media.load(record), cluster) {
            Some(ClusterKind::System) => twin.set_usage(Use::System),
            Some(ClusterKind::Pages) => {
                let word = self.media.load(record + layout::PAGE_WORD);
                let used = word & layout::PAGES_USED;
                if word >> layout::START_SHIFT & !used != 0 {
                    twin.set_usage(Use::Damaged);
                    return;
                }
                twin.begin_pages(used);
                if used == 0 {
                    self.load_free(cluster, pool);
                } else {
                    self.each_free(cluster, used, |first, count| pool.extents.insert(first, count));
                }
            }
            Some(ClusterKind::Run(class)) => {
                twin.begin_run(class);
                let mut set = 0;
                for word in 0..words_of(class) {
                    let bits = self.media.load(layout::bitmap_at(record, word));
                    let beyond = twin.taken(class, word).load(Ordering::Relaxed);
                    if bits & beyond != 0 {
                        // the record has bits of blocks that the class does not have
                        twin.set_usage(Use::Damaged);
                        return;
                    }
                    twin.taken(class, word).store(bits | beyond, Ordering::Relaxed);
                    set += bits.count_ones();
                }
                let free = classes::count_of(class) - set;
                twin.free.store(free, Ordering::Relaxed);
                if set == 0 {
                    twin.begin_pages(0);
                    self.load_free(cluster, pool);
                } else if free > 0 {
                    pool.lists.push(self, class, cluster);
                }
            }
            None => twin.set_usage(Use::Damaged),
        }
    }

    /// A cluster without blocks: free, and backed or not.
    fn load_free(&self, cluster: u64, pool: &mut Pool) {
        let backed = self.object.is_backed(self.at(cluster));
        let extents = if backed { &mut pool.extents } else { &mut pool.released };
        extents.insert(cluster as u32 * CLUSTER_PAGES, CLUSTER_PAGES);
    }

    fn each_free(&self, cluster: u64, used: u64, mut each: impl FnMut(u32, u32)) {
        let mut free = !used & layout::PAGES_USED;
        while free != 0 {
            let first = free.trailing_zeros();
            let count = (free >> first).trailing_ones();
            each(cluster as u32 * 16 + first, count);
            free &= !(((1 << count) - 1) << first);
        }
    }

    /// Takes over clusters of at least `bytes` bytes.
    pub(crate) fn expand(&self, bytes: u64) -> Result<()> {
        let room = self.end_max() * CLUSTER;
        if bytes > room {
            return Err(Error::TooLarge { size: bytes, object: self.name(), span: room });
        }
        self.take_over(&mut self.pool.lock(), bytes.div_ceil(CLUSTER))
    }

    /// Takes over enough clusters for `pages` adjacent pages, and some more while the object is
    /// large.
    fn grow(&self, pool: &mut Pool, pages: u64) -> Result<()> {
        let end = self.end();
        let tail = u64::from(pool.extents.tail(end as u32 * 16));
        // A cluster must be whole; runs of pages may use free pages at the end, unless a new table
        // comes between.
        let needed = if pages == 16 { 1 } else { pages.div_ceil(16) };
        let ahead = self.ahead(end);
        if needed < ahead {
            match self.take_over(pool, ahead) {
                Err(error) if error.is_full() => {}
                other => return other,
            }
        }
        match self.take_over(pool, needed) {
            Err(error)
                if error.is_full()
                    && pages != 16
                    && tail > 0
                    && self.tables_before(end + needed) == self.tables_before(end) =>
            {
                self.take_over(pool, (pages - tail).div_ceil(16))
            }
            other => other,
        }
    }

    /// Clusters to back ahead of need. Most growths end at the boundary of a large page of memory:
    /// the system makes a large page that growth cuts in two steps, first with small pages.
    fn ahead(&self, end: u64) -> u64 {
        let ahead = (end / 8).clamp(1, AHEAD_MAX);
        if ahead < LARGE {
            return ahead;
        }
        let goal = (end + ahead).next_multiple_of(LARGE);
        let tables = self.tables_before(goal) - self.tables_before(end);
        // A batch of tables may be longer than all that would lie ahead.
        (goal - end).checked_sub(tables).filter(|&count| count > 0).unwrap_or(ahead)
    }

    /// Zones that have a table in a heap of `end` clusters.
    pub(crate) fn tabled(&self, end: u64) -> u64 {
        layout::tabled_zones(end.div_ceil(ZONE_CLUSTERS), self.plan.zones)
    }

    /// Tables and directories that a heap of `end` clusters has.
    fn tables_before(&self, end: u64) -> u64 {
        let zones = self.tabled(end);
        zones.saturating_sub(1) + self.directories_before(end)
    }

    fn directories_before(&self, end: u64) -> u64 {
        self.tabled(end).saturating_sub(DIRECT).div_ceil(DIRECTORY_ZONES)
    }

    /// Makes `count` more clusters usable, behind as many new tables as they need.
    fn take_over(&self, pool: &mut Pool, count: u64) -> Result<()> {
        let end = self.end();
        let mut total = count;
        while total < count + self.tables_before(end + total) - self.tables_before(end) {
            total = count + self.tables_before(end + total) - self.tables_before(end);
        }
        let tables = total - count;
        if end + total > self.end_max() {
            let (span, left) = (self.end_max() * CLUSTER, (self.end_max() - end) * CLUSTER);
            let (object, asked) = (self.name(), total * CLUSTER);
            return Err(StoreError::SpanFull { object, span, asked, left }.into());
        }
        let backed = (self.object.backed().get() - self.prime) / CLUSTER;
        if end + total > backed {
            self.object.grow((end + total - backed) * CLUSTER)?; // 1
        }
        if !end.is_multiple_of(ZONE_CLUSTERS) {
            self.load_zone(end / ZONE_CLUSTERS, pool)?;
        }
        let _section = self.media.section();
        let zeroed_from = backed.max(end); // clusters that the store has just backed read as zeros
        for cluster in end..(end + tables).min(zeroed_from) {
            self.media.zero(self.at(cluster), CLUSTER);
            self.media.flush(self.at(cluster), CLUSTER);
        }
        self.name_tables(end, end + total)?; // 2
        self.clear_records(end, end + total)?;
        for cluster in end..end + tables {
            let record = self.table_of(cluster / ZONE_CLUSTERS, end + total)? + cluster % ZONE_CLUSTERS * RECORD;
            self.media.store(record, layout::seal_kind(ClusterKind::System, cluster));
            self.media.flush(record, 8);
        }
        let ordered = self.media.fence_after_unless("heap-end-before-tables", end + total);
        let word = PublishWord::new(Offset::new(self.prime + layout::END)); // 3
        word.publish(&self.media, seal_for(layout::END, *ordered as u32), &ordered);
        self.media.fence();
        self.end.store(end + total, Ordering::Release);
        self.add_clusters(pool, end, end + total)
    }

    /// Names the tables that a heap of `new_end` clusters has and one of `end` has not; they are
    /// the clusters from `end` on.
    fn name_tables(&self, end: u64, new_end: u64) -> Result<()> {
        let mut next = end;
        let mut put = |at: u64| {
            self.media.store(at, seal_for(at - self.prime, next as u32));
            self.media.flush(at, 8);
            next += 1;
        };
        for zone in self.tabled(end)..self.tabled(new_end) {
            if zone >= DIRECT && (zone - DIRECT).is_multiple_of(DIRECTORY_ZONES) {
                put(self.prime + layout::DIRECTORIES_AT + (zone - DIRECT) / DIRECTORY_ZONES * 8);
            }
            put(self.name_of(zone, new_end)?);
        }
        Ok(())
    }

    /// Zeroes the records of new clusters whose tables are not new: an interrupted growth may have
    /// written there. Records that read as zeros are flushed: another process may have zeroed them,
    /// and died before it flushed them (HEAP-10).
    fn clear_records(&self, end: u64, new_end: u64) -> Result<()> {
        let may_be_unflushed = self.object.store().may_follow_a_death(); // HEAP-10
        for cluster in end..new_end.min(self.tabled(end) * ZONE_CLUSTERS) {
            let record = self.table_of(cluster / ZONE_CLUSTERS, end)? + cluster % ZONE_CLUSTERS * RECORD;
            if seeded("heap-stale-records") {
                continue;
            }
            if self.media.get::<[u8; RECORD as usize]>(record) != [0; RECORD as usize] {
                self.media.zero(record, RECORD);
                self.media.flush(record, RECORD);
            } else if may_be_unflushed {
                self.media.reflush(record, RECORD);
            }
        }
        Ok(())
    }

    /// Makes the states in memory of new clusters.
    fn add_clusters(&self, pool: &mut Pool, from: u64, until: u64) -> Result<()> {
        for zone in from / ZONE_CLUSTERS..until.div_ceil(ZONE_CLUSTERS) {
            if self.zones.get(zone).is_none() {
                self.load_zone(zone, pool)?;
            } else {
                let first = from.max(zone * ZONE_CLUSTERS);
                (first..until.min((zone + 1) * ZONE_CLUSTERS)).for_each(|cluster| self.load_cluster(cluster, pool));
            }
        }
        Ok(())
    }
}
