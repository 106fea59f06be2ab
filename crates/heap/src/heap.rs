//! [`Heap`]: the public interface, and the way from an address to its block.

use crate::atomic::Slots;
use crate::classes::{self, PAGE, SMALL_MAX};
use crate::extents::CLUSTER_PAGES;
use crate::format::{self, Plan};
use crate::layout::{self, CLUSTER, DIRECT, DIRECTORY_ZONES, RECORD, ZONE_CLUSTERS, ZONES_MAX};
use crate::pool::Pool;
use crate::shard::Shard;
use crate::zone::{Cluster, Use, Zone};
use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use everbyte_media::lock_order::{RankedMutex, RankedMutexGuard, rank};
use everbyte_media::{Damage, Length, Media, Offset};
use everbyte_store::Object;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An allocated or reserved block: bytes of the object that belong to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// Its first byte, as a store offset: a multiple of 16; of 64 if it has 64 bytes or more; of
    /// 4096 if it has more than 10880.
    pub at: Offset,
    /// Bytes that may be used, at least those asked for.
    pub size: Length,
}

impl Block {
    /// One past its last byte.
    pub fn end(&self) -> Offset {
        self.at + self.size
    }
}

/// The heap of an object. Cheap to clone; all clones are one heap. Open it once per process.
#[derive(Clone)]
pub struct Heap {
    pub(crate) inner: Arc<HeapState>,
    /// See [`Heap::based_at`].
    pub(crate) base: u64,
}

pub(crate) struct HeapState {
    pub object: Object,
    pub media: Media,
    pub prime: u64,
    pub plan: Plan,
    /// Clusters of the heap; grows under the pool's lock.
    pub end: AtomicU64,
    pub zones: Zones,
    pub pool: RankedMutex<{ rank::HEAP_POOL }, Pool>,
    pub shards: Box<[CachePadded<RankedMutex<{ rank::HEAP_SHARD }, Shard>>]>,
    pub slots: Slots,
}

/// Zones by number, loaded when needed.
pub(crate) struct Zones {
    /// Raised when every loaded zone becomes stale; from 1.
    epoch: AtomicU64,
    direct: Box<[OnceLock<Zone>]>,
    directories: Box<[OnceLock<Directory>]>,
}

type Directory = Box<[OnceLock<Zone>]>;

fn empty<T>(count: u64) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

impl Zones {
    fn new() -> Zones {
        Zones { epoch: AtomicU64::new(1), direct: empty(DIRECT), directories: empty(layout::DIRECTORIES) }
    }

    #[inline(always)]
    fn cell(&self, zone: u64) -> &OnceLock<Zone> {
        if zone < DIRECT {
            return &self.direct[zone as usize];
        }
        let (directory, index) = ((zone - DIRECT) / DIRECTORY_ZONES, (zone - DIRECT) % DIRECTORY_ZONES);
        &self.directories[directory as usize].get_or_init(|| empty(DIRECTORY_ZONES))[index as usize]
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// A zone that has been loaded, or is being loaded.
    #[inline(always)]
    pub(crate) fn get(&self, zone: u64) -> Option<&Zone> {
        self.cell(zone).get().filter(|zone| zone.epoch.load(Ordering::Acquire) == self.epoch())
    }

    /// A zone for a caller that loads it, for the first time or again.
    pub(crate) fn begin(&self, number: u64, table: impl FnOnce() -> Result<u64>) -> Result<&Zone> {
        let cell = self.cell(number);
        if cell.get().is_none() {
            assert!(cell.set(Zone::new(table()?)).is_ok(), "HEAP-5: zone {number} is loaded twice");
        }
        let zone = cell.get().expect("made just now");
        zone.begin(self.epoch());
        Ok(zone)
    }

    /// Makes every loaded zone stale. No other thread uses the heap meanwhile.
    pub(crate) fn expire(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }
}

impl Heap {
    /// Creates a heap in an object that is being created. To be called inside
    /// `Store::create_object`'s `init`: the barrier that publishes the object's name settles the
    /// heap too.
    ///
    /// # Errors
    /// [`Error::Store`] if the span or the disk is too small.
    pub fn format(object: &Object) -> Result<()> {
        format::format(object)
    }

    /// Opens the heap of an object and finishes the operation that a crash left in the heap's own
    /// log. The cost does not depend on the heap's size: zones are loaded when they are needed.
    ///
    /// # Errors
    /// [`Error::NoHeap`], [`Error::NewerFormat`], [`Error::Damaged`].
    pub fn open(object: Object) -> Result<Heap> {
        let heap = Heap::join(object)?;
        heap.inner.recover()?;
        Ok(heap)
    }

    /// [`Heap::open`] without recovery, for a heap that other processes use. The caller calls
    /// [`Heap::refresh`] or [`Heap::refresh_after_death`] before it changes anything.
    ///
    /// # Errors
    /// As [`Heap::open`].
    pub fn join(object: Object) -> Result<Heap> {
        let plan = format::read(&object)?;
        let threads = std::thread::available_parallelism().map_or(4, |count| count.get());
        let shards = (2 * threads).next_power_of_two().min(64);
        let inner = HeapState {
            media: object.media().clone(),
            prime: object.prime().get(),
            end: AtomicU64::new(plan.end),
            plan,
            zones: Zones::new(),
            pool: RankedMutex::new(Pool::new()),
            shards: (0..shards).map(|_| CachePadded::new(RankedMutex::new(Shard::new()))).collect(),
            slots: Slots::new(),
            object,
        };
        Ok(Heap { inner: Arc::new(inner), base: 0 })
    }

    /// The smallest span for a copy of this heap, for `Store::create_copy`.
    pub fn least_span(&self) -> u64 {
        format::least_span(&self.inner.object)
    }

    /// Fills `copy` with the contents of this heap, each block at the same distance from the prime
    /// page. To be called inside `Store::create_copy`'s `init`. No thread may change the heap
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Store`] if the span or the disk is too small.
    pub fn copy_into(&self, copy: &Object, progress: &mut dyn FnMut(u64)) -> Result<()> {
        copy.take_over(&self.inner.object, progress)?;
        format::adapt(copy);
        Ok(())
    }

    /// The same heap, for programs that store plain pointers: the words that [`Heap::alloc_into`]
    /// and its variants store to, and that [`Heap::free_from`] reads, hold `base` more than a
    /// block's offset. `base` is the address at which offset 0 is always mapped.
    pub fn based_at(&self, base: u64) -> Heap {
        Heap { inner: Arc::clone(&self.inner), base }
    }

    /// The object of the heap.
    pub fn object(&self) -> &Object {
        &self.inner.object
    }

    /// The media of the store.
    #[inline(always)]
    pub fn media(&self) -> &Media {
        &self.inner.media
    }

    /// Reserves a block of at least `size` bytes for the caller, in memory alone: a crash, or
    /// [`Heap::cancel`], gives it back. Its bytes are unspecified. Grows the object when needed.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Store`] when the span or the disk is full; [`Error::Damaged`].
    #[inline]
    pub fn reserve(&self, size: u64) -> Result<Block> {
        if size <= self.inner.plan.small_max {
            self.inner.reserve_small(classes::class_of(size))
        } else {
            self.inner.reserve_pages(size)
        }
    }

    /// Usable bytes of the block that a request of `size` bytes gets.
    pub fn block_bytes(&self, size: u64) -> u64 {
        if size <= self.inner.plan.small_max {
            classes::size_of(classes::class_of(size))
        } else {
            size.next_multiple_of(PAGE)
        }
    }

    /// Gives a reservation back. The block must come from [`Heap::reserve`], and no operation on it
    /// may have been made valid.
    ///
    /// # Panics
    /// If the block is not reserved: a bug of the caller.
    pub fn cancel(&self, block: Block) {
        let inner = &*self.inner;
        let cluster = inner.cluster_of(block.at.get());
        if block.size > SMALL_MAX {
            inner.give_back_pages((block.at.get() - inner.prime) / PAGE, block.size.get() / PAGE);
            return;
        }
        let class = classes::class_of(block.size.get());
        let index = classes::locate(class, (block.at % CLUSTER) as u32).0;
        inner.give_back_small(cluster, class, index);
    }

    /// Whether all of `at..at+len`, which may be any numbers, lies in the part of the heap that
    /// blocks may use: outside its own pages and tables. Does not tell whether a block is there.
    #[inline]
    pub fn may_hold_blocks(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        self.inner.may_hold_blocks(at, len)
    }

    /// Whether all of `at..at+len`, which may be any numbers, lies inside the heap, so that it can
    /// be read. [`Heap::may_hold_blocks`] tells more, and costs a cache miss.
    #[inline]
    pub fn encloses(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        at >= self.inner.prime && at.checked_add(len).is_some_and(|end| end <= self.inner.at(self.inner.end()))
    }

    /// Usable bytes of the allocated block at `at`.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::NotAllocated`], [`Error::Damaged`].
    pub fn size_of(&self, at: impl Into<Offset>) -> Result<u64> {
        let at = at.into().get();
        let inner = &*self.inner;
        let place = inner.place(at)?;
        if let Use::Run(class) = place.twin.usage() {
            return inner.find_small(at, &place, class).map(|_| classes::size_of(class));
        }
        let (_, count) = inner.find_pages(at, &place, &mut |cluster| inner.zone_record(cluster))?;
        Ok(count * PAGE)
    }

    /// Whether each byte of `at..at+len`, which may be any numbers, lies in an allocated block: in
    /// one of a run, or in pages of blocks. Reads only the records of these clusters, even for a
    /// block that begins in an earlier one.
    pub fn is_allocated(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        let inner = &*self.inner;
        let first = inner.prime + inner.plan.system_pages * PAGE;
        let Some(end) = at.checked_add(len.max(1)).filter(|_| at >= first) else { return false };
        let mut at = at;
        while at < end {
            let Ok(place) = inner.place(at) else { return false };
            let cluster_end = inner.at(place.cluster + 1);
            let next = end.min(cluster_end);
            let (first, last) = ((at % CLUSTER) as u32, ((next - 1) % CLUSTER) as u32);
            let held = match place.twin.usage() {
                Use::Run(class) => {
                    let (index, last) = (classes::locate(class, first).0, classes::locate(class, last).0);
                    let word = |index| inner.media.load(layout::bitmap_at(place.record, index as usize / 64));
                    index == last && index < classes::count_of(class) && word(index) >> (index % 64) & 1 == 1
                }
                Use::Pages if inner.media.load(place.record) == 0 => {
                    let (first, last) = (u64::from(first) / PAGE, u64::from(last) / PAGE);
                    let pages = (2 << last) - (1 << first);
                    inner.media.load(place.record + layout::PAGE_WORD) & pages == pages
                }
                _ => false,
            };
            if !held {
                return false;
            }
            at = next;
        }
        true
    }
}

/// The cluster of an address.
pub(crate) struct ClusterPlace<'h> {
    pub cluster: u64,
    pub twin: &'h Cluster,
    /// Offset of its record.
    record: u64,
}

impl HeapState {
    /// Store offset of a cluster.
    #[inline(always)]
    pub(crate) fn at(&self, cluster: u64) -> u64 {
        self.prime + cluster * CLUSTER
    }

    #[inline(always)]
    pub(crate) fn cluster_of(&self, at: u64) -> u64 {
        (at - self.prime) / CLUSTER
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> String {
        self.object.name().into()
    }

    #[cold]
    pub(crate) fn damaged(&self, at: u64, detail: impl Into<String>) -> Error {
        Error::from(Damage::at(at, detail).of_object(self.name()))
    }

    #[cold]
    pub(crate) fn not_a_block(&self, at: u64, detail: &'static str) -> Error {
        Error::NotABlock { at, object: self.name(), detail }
    }

    /// The state in memory of a cluster whose zone is loaded.
    #[inline(always)]
    pub(crate) fn cluster(&self, cluster: u64) -> &Cluster {
        let zone = self.zones.get(cluster / ZONE_CLUSTERS).expect("HEAP-4: the zone of a taken block is loaded");
        &zone.clusters[(cluster % ZONE_CLUSTERS) as usize]
    }

    /// Offset of the record of a cluster whose zone is loaded.
    #[inline(always)]
    pub(crate) fn record(&self, cluster: u64) -> u64 {
        let zone = self.zones.get(cluster / ZONE_CLUSTERS).expect("HEAP-4: the zone of a taken block is loaded");
        zone.table + cluster % ZONE_CLUSTERS * RECORD
    }

    /// The zone with this number, loaded if it is not yet. Every look-up of a block comes here, so
    /// the way to a loaded zone is inlined; with the other way in it compilers decline that.
    #[inline(always)]
    pub(crate) fn zone(&self, number: u64) -> Result<&Zone> {
        match self.zones.get(number) {
            Some(zone) if zone.ready.load(Ordering::Acquire) == self.zones.epoch() => Ok(zone),
            _ => self.unready_zone(number),
        }
    }

    /// A zone that is not loaded, or that another thread is loading: that thread holds the pool's
    /// lock until the zone is whole.
    #[cold]
    fn unready_zone(&self, number: u64) -> Result<&Zone> {
        self.load_zone(number, &mut self.pool.lock())
    }

    /// See [`Heap::may_hold_blocks`].
    #[inline]
    pub(crate) fn may_hold_blocks(&self, at: u64, len: u64) -> bool {
        let first = self.prime + self.plan.system_pages * PAGE;
        let end = at.checked_add(len).filter(|&end| at >= first && end <= self.at(self.end()));
        let Some(end) = end else { return false };
        let mut clusters = self.cluster_of(at)..self.cluster_of(end + CLUSTER - 1);
        clusters.all(|cluster| match self.zone(cluster / ZONE_CLUSTERS) {
            Ok(zone) => zone.clusters[(cluster % ZONE_CLUSTERS) as usize].usage() != Use::System,
            Err(_) => false,
        })
    }

    /// Clusters that the heap can have at most.
    pub(crate) fn end_max(&self) -> u64 {
        let span = self.object.span();
        ((span.end - span.start) / CLUSTER).min(ZONES_MAX * ZONE_CLUSTERS)
    }

    /// The cluster of an address, which may be any number; its zone is loaded.
    #[inline(always)]
    pub(crate) fn place(&self, at: u64) -> Result<ClusterPlace<'_>> {
        if at < self.prime || at - self.prime >= self.end() * CLUSTER {
            return Err(self.not_a_block(at, "it lies outside the heap"));
        }
        let cluster = self.cluster_of(at);
        let (zone, index) = (self.zone(cluster / ZONE_CLUSTERS)?, cluster % ZONE_CLUSTERS);
        Ok(ClusterPlace { cluster, twin: &zone.clusters[index as usize], record: zone.table + index * RECORD })
    }

    /// The index of the allocated block that starts at `at`, in a run of a class. While another
    /// thread changes that very block the answer may be an error; a caller that needs the exact
    /// answer has marked the block ([`Cluster::mark_freeing`]).
    #[inline]
    pub(crate) fn find_small(&self, at: u64, place: &ClusterPlace<'_>, class: usize) -> Result<u32> {
        let (index, rest) = classes::locate(class, (at % CLUSTER) as u32);
        if rest != 0 || index >= classes::count_of(class) {
            return Err(self.not_a_block(at, "it lies inside a block, not at its start"));
        }
        let word = self.media.load(layout::bitmap_at(place.record, index as usize / 64));
        if word >> (index % 64) & 1 == 0 {
            return Err(Error::NotAllocated { at, object: self.name() });
        }
        Ok(index)
    }

    /// First page and number of pages of the allocated block that starts at `at`, in a cluster that
    /// is no run; `records` gives the offsets of other clusters' records. A caller that needs the
    /// exact answer holds the owner's lock.
    pub(crate) fn find_pages(
        &self,
        at: u64,
        place: &ClusterPlace<'_>,
        records: &mut dyn FnMut(u64) -> Result<u64>,
    ) -> Result<(u64, u64)> {
        let record = place.record;
        match place.twin.usage() {
            Use::System => return Err(self.not_a_block(at, "the heap's own bookkeeping is there")),
            Use::Damaged => return Err(self.damaged(record, "the record of this cluster contradicts itself")),
            Use::Beyond => return Err(self.not_a_block(at, "it lies outside the heap")),
            Use::Run(_) => return Err(self.not_a_block(at, "its cluster has just become a run")),
            Use::Pages => {}
        }
        if !at.is_multiple_of(PAGE) {
            return Err(self.not_a_block(at, "it lies inside a block, not at its start"));
        }
        let (first, page) = ((at - self.prime) / PAGE, at / PAGE % u64::from(CLUSTER_PAGES));
        // A cluster that was a run keeps its record until its pages are used; it has no blocks
        // then.
        let word = if self.media.load(record) == 0 { self.media.load(record + layout::PAGE_WORD) } else { 0 };
        if word >> page & 1 == 0 {
            return Err(Error::NotAllocated { at, object: self.name() });
        }
        if word >> layout::START_SHIFT >> page & 1 == 0 {
            return Err(self.not_a_block(at, "it lies inside a block, not at its start"));
        }
        Ok((first, self.count_pages(first, records)?))
    }

    /// Number of pages of the allocated block that starts at page `first`.
    pub(crate) fn count_pages(&self, first: u64, records: &mut dyn FnMut(u64) -> Result<u64>) -> Result<u64> {
        let (cluster, page) = (first / 16, first % 16);
        let record = records(cluster)?;
        let word = self.media.load(record + layout::PAGE_WORD);
        let here = continued(word >> page, 16 - page);
        if page + here < 16 {
            return Ok(here);
        }
        // It goes on behind this cluster, or ends with it: the tail word has the length, and the
        // end proves it.
        let count = self.media.load(record + layout::TAIL_WORD);
        if count > here && count <= self.end() * 16 - first {
            let last = first + count - 1;
            let word = self.media.load(records(last / 16)? + layout::PAGE_WORD);
            let inside = word >> (last % 16) & 1 == 1 && word >> layout::START_SHIFT >> (last % 16) & 1 == 0;
            if inside && !self.page_continues(last + 1, records)? && self.page_continues(first + here, records)? {
                return Ok(count);
            }
        }
        if count != 0 || self.page_continues(first + here, records)? {
            return Err(self.damaged(record + layout::TAIL_WORD, "the length of a large block does not fit its pages"));
        }
        Ok(here)
    }

    /// Whether this page belongs to the block of the page before it.
    fn page_continues(&self, page: u64, records: &mut dyn FnMut(u64) -> Result<u64>) -> Result<bool> {
        if page / 16 >= self.end() {
            return Ok(false);
        }
        let record = records(page / 16)?;
        if self.media.load(record) != 0 {
            return Ok(false);
        }
        let word = self.media.load(record + layout::PAGE_WORD);
        Ok(word >> (page % 16) & 1 == 1 && word >> layout::START_SHIFT >> (page % 16) & 1 == 0)
    }

    /// Offset of the record of a cluster below the end.
    pub(crate) fn zone_record(&self, cluster: u64) -> Result<u64> {
        Ok(self.zone(cluster / ZONE_CLUSTERS)?.table + cluster % ZONE_CLUSTERS * RECORD)
    }

    pub(crate) fn lock_shard(&self, number: usize) -> RankedMutexGuard<'_, Shard> {
        self.shards[number].lock()
    }
}

/// Pages from the start of a block on, within a page word shifted to it: the first, and those after
/// it that are used and start no block.
pub(crate) fn continued(word: u64, most: u64) -> u64 {
    let inside = word & layout::PAGES_USED & !(word >> layout::START_SHIFT) & layout::PAGES_USED;
    (1 + u64::from((inside >> 1).trailing_ones())).min(most)
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Heap({}, {} clusters)", self.inner.object.name(), self.inner.end())
    }
}
