//! The map of chunks: the file offset of each range of store offsets.
//!
//! Offsets of a store are sparse: each object has a span as large as the object may ever become.
//! The file is compact. A range of offsets gets a part of the file, a *chunk*, when one of its
//! bytes is backed for the first time. Loads and stores find the chunk because it is mapped at its
//! offset; all other code asks this map. Design: docs/design/chunks.md; format:
//! docs/formats/media.md, section 6.
//!
//! A new chunk, each step durable before the next:
//!   1. the file is as long as the chunk needs, and reads as zeros there
//!   2. the first copy of its slot
//!   3. the second copy; from now on the chunk may be used
//!
//! A chunk without a backed byte is freed when the process that has the store alone closes or trims
//! it (`free.rs`). Until then, bytes backed at its offsets lie in the same chunk again.
//!
//! Invariants
//!   CHUNK-1  A slot counts only if its checksum covers its fields and its number.
//!   CHUNK-2  No byte is stored in a chunk before both copies of its slot are on the medium and the
//!            file is long enough.
//!   CHUNK-3  Another chunk takes the place of a chunk only after both copies of its slot say that
//!            it is free.
//!   CHUNK-4  While several processes have the store, chunks are added and none is removed.
//!   CHUNK-5  A sync that returns without an error is believed only after every sync that
//!            overlapped it has ended, and none has failed: the system reports a failed write to
//!            one of them.
//!
//! Threads: any; one thread of one process makes a chunk at a time.

mod chunk_disk;
mod fault;
mod free;
mod placement;
pub(crate) mod slot;

pub(crate) use chunk_disk::ChunkDisk;
pub(crate) use fault::Guard;
pub(crate) use slot::{SEGMENT, SEGMENTS, SLOTS};

use crate::backends::file::disk::Disk;
use crate::bytes::extent::Extent;
use crate::bytes::mapping::Mapping;
use crate::museum::{misplaced, unless};
use crate::open::head::Head;
use crate::{Damage, Error, Result, seeded};
use everbyte_members::Members;
use parking_lot::{Mutex, RwLock};
use placement::Layout;
use slot::{CHUNK, Copy, FREE, LINK, SECTOR, Slot};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use zerocopy::IntoBytes;

/// The largest number of chunks: each is a mapping, and Linux allows a process 65,530.
pub(crate) const CHUNKS_MAX: usize = 30_000;

/// The map of one file, as this process has read it.
pub(crate) struct Chunks {
    path: PathBuf,
    /// One past the last offset of the store.
    max: u64,
    /// Offsets that the budget leaves out: the log.
    log: Range<u64>,
    /// The largest number of bytes that the file may take on the disk.
    limit: AtomicU64,
    /// `None`: every store offset equals its file offset.
    map_at: Option<u64>,
    state: RwLock<MapContent>,
    making: Mutex<()>,
    /// A write or sync of the map failed, or a mapping may lack a chunk of it: the content of the
    /// medium is unknown, and no write is repeated.
    failed: AtomicBool,
    /// A sync of the file holds it shared; a thread that waits for all syncs holds it exclusively
    /// (CHUNK-5).
    syncs: RwLock<()>,
    mappings: Mutex<Vec<Weak<Mapping>>>,
    members: OnceLock<Arc<Members>>,
}

/// The content of the map.
#[derive(Clone, Default)]
struct MapContent {
    layout: Layout,
    /// File offset of each segment.
    segments: Vec<u64>,
    /// Slots in use, links and free ones among them: the next one is empty.
    count: usize,
    /// Free slots, which may be reused, each with its number of changes.
    free: Vec<(usize, u64)>,
    /// Slots whose copies differ.
    stale: Vec<(usize, Slot)>,
    /// Chunks that a mapping may lack (CHUNK-7). Only a process that has the file alone frees
    /// chunks.
    unsure: Vec<Range<u64>>,
}

/// File offsets of the two copies of a slot.
fn places(segments: &[u64], number: usize) -> [u64; 2] {
    let at = segments[number / SLOTS] + (number % SLOTS * size_of::<Slot>()) as u64;
    [at, at + SEGMENT]
}

impl Chunks {
    /// Reads the map, which lies behind the first `map_at` bytes of a file. With `map_at` 0 store
    /// offsets equal file offsets.
    ///
    /// # Errors
    /// [`Error::Damaged`]: a slot that cannot be read is named; [`Error::Io`].
    pub(crate) fn open(disk: &dyn Disk, path: &Path, head: &Head) -> Result<Chunks> {
        let chunks = Chunks {
            path: path.into(),
            max: head.max,
            log: head.log_at..head.log_at + head.log_len,
            limit: u64::MAX.into(),
            map_at: (head.map_at != 0).then_some(head.map_at),
            state: RwLock::default(),
            making: Mutex::new(()),
            failed: AtomicBool::new(false),
            syncs: RwLock::new(()),
            mappings: Mutex::default(),
            members: OnceLock::new(),
        };
        *chunks.state.write() = chunks.read(disk)?;
        Ok(chunks)
    }

    /// Whether every store offset equals its file offset.
    pub(crate) fn is_linear(&self) -> bool {
        self.map_at.is_none()
    }

    fn damaged(&self, at: u64, detail: String) -> Error {
        Error::from(Damage::at(at, detail).of_file(&self.path))
    }

    /// Reads both copies of every segment. Nothing is written.
    fn read(&self, disk: &dyn Disk) -> Result<MapContent> {
        let mut state = MapContent::default();
        let Some(map_at) = self.map_at else {
            let whole = state.layout.insert(Extent::identity(self.max));
            whole.expect("the first extent shares no bytes");
            return Ok(state);
        };
        let measure = || disk.len().map_err(|source| Error::Io { action: "measure", path: self.path.clone(), source });
        let mut overlapping = state.layout.insert(Extent::identity(map_at)).is_err();
        let mut next = Some(map_at);
        let mut ended = false;
        while let Some(segment) = next.take() {
            let len = measure()?;
            if state.segments.is_empty() && segment + 2 * SEGMENT > len {
                let detail = format!("the file has {len} bytes and should have more: it was truncated from outside");
                return Err(self.damaged(len, detail));
            }
            if state.segments.len() == SEGMENTS || segment.checked_add(2 * SEGMENT).is_none_or(|end| end > len) {
                return Err(self.damaged(segment, "the map of chunks leads to no segment there".into()));
            }
            overlapping |= state.layout.take(segment, 2 * SEGMENT).is_err();
            state.segments.push(segment);
            let copies = [read_copy(disk, segment), read_copy(disk, segment + SEGMENT)];
            let len = measure()?; // after the slots: another process may lengthen the file
            for index in 0..SLOTS {
                let number = (state.segments.len() - 1) * SLOTS + index;
                let place = places(&state.segments, number)[0];
                let parsed = copies.each_ref().map(|copy| Slot::parse(copy.slot(index), number));
                let slot = Slot::choose(parsed);
                let slot = slot.map_err(|()| {
                    self.damaged(place, format!("both copies of slot {number} of the map of chunks are damaged"))
                })?;
                let Some(slot) = slot else {
                    ended = true;
                    continue;
                };
                if ended {
                    let detail = format!("slot {number} of the map of chunks lies behind one that is empty");
                    return Err(self.damaged(place, detail));
                }
                state.count = number + 1;
                if parsed != [Copy::Good(slot); 2] {
                    state.stale.push((number, slot));
                }
                match slot.kind() {
                    LINK if index == SLOTS - 1 => next = Some(slot.file),
                    FREE if index != SLOTS - 1 => state.free.push((number, slot.count())),
                    CHUNK if index != SLOTS - 1 => {
                        let (number, changes) = (number + 1, slot.count());
                        let extent = Extent { at: slot.at, file: slot.file, len: slot.len, slot: number, changes };
                        self.require_sane(&extent, len, place)?;
                        overlapping |= state.layout.insert(extent).is_err();
                    }
                    kind => {
                        return Err(
                            self.damaged(place, format!("slot {number} of the map of chunks is of kind {kind}"))
                        );
                    }
                }
                if overlapping {
                    let detail = format!("slot {number} of the map of chunks shares bytes with another");
                    return Err(self.damaged(place, detail));
                }
            }
        }
        Ok(state)
    }

    fn require_sane(&self, extent: &Extent, file_len: u64, place: u64) -> Result<()> {
        let Extent { at, file, len, slot, .. } = *extent;
        let ends = [at, file].map(|start| start.checked_add(len));
        let whole = [at, file, len].iter().all(|size| size.is_multiple_of(4096)) && len > 0;
        if !whole || ends[0].is_none_or(|end| end > 1 << 46) || ends[1].is_none() {
            let detail = format!("slot {} of the map of chunks: {len:#x} bytes of {at:#x} at {file:#x}", slot - 1);
            return Err(self.damaged(place, detail));
        }
        if file + len > file_len {
            let needed = file + len;
            let detail =
                format!("the file has {file_len} bytes and should have {needed}: it was truncated from outside");
            return Err(self.damaged(file_len, detail));
        }
        Ok(())
    }

    /// Writes the slots again whose copies differ, with the content that counts. For a process that
    /// has the store alone, or makes a chunk.
    pub(crate) fn repair(&self, disk: &dyn Disk) -> Result<()> {
        let _making = self.making.lock();
        let stale = std::mem::take(&mut self.state.write().stale);
        for (number, slot) in stale {
            let written = self.put(disk, number, slot);
            written.map_err(|source| Error::Io {
                action: "write the map of chunks of",
                path: self.path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Maps later chunks into this mapping, too.
    pub(crate) fn show_in(&self, mapping: &Arc<Mapping>) {
        if !self.is_linear() {
            self.mappings.lock().push(Arc::downgrade(mapping));
        }
    }

    /// Other processes have the store, too: chunks are made under their common lock.
    pub(crate) fn share(&self, members: &Arc<Members>) {
        let _ = self.members.set(Arc::clone(members));
    }

    /// All extents, in the order of store offsets.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        self.state.read().layout.extents.values().copied().collect()
    }

    /// One past the last store offset in a chunk.
    pub(crate) fn reach(&self) -> u64 {
        self.state.read().layout.extents.values().next_back().map_or(0, Extent::end)
    }

    /// The extent that holds `at`.
    pub(crate) fn find(&self, at: u64) -> Option<Extent> {
        self.state.read().layout.find(at)
    }

    /// The longest first part of a range that lies in one piece, and its file offset; `None` if it
    /// has no chunk.
    pub(crate) fn part(&self, range: Range<u64>) -> (Range<u64>, Option<u64>) {
        if self.is_linear() {
            let file = range.start;
            return (range, Some(file));
        }
        let (layout, Range { start, end }) = (&self.state.read().layout, range);
        match layout.find(start) {
            Some(extent) => (start..extent.end().min(end), Some(extent.file + (start - extent.at))),
            None => (start..layout.extents.range(start..).next().map_or(end, |(next, _)| *next).min(end), None),
        }
    }

    /// The parts of a range, each with its file offset, or `None`.
    pub(crate) fn parts(&self, at: u64, len: u64) -> Vec<(Range<u64>, Option<u64>)> {
        let (mut parts, mut at, end) = (Vec::with_capacity(1), at, at + len);
        while at < end {
            let (range, file) = self.part(at..end);
            at = range.end;
            parts.push((range, file));
        }
        parts
    }

    /// Whether the whole range lies in chunks.
    pub(crate) fn has(&self, at: u64, len: u64) -> bool {
        self.is_linear() || self.state.read().layout.gap(at..at + len).is_none()
    }

    /// Makes chunks for the parts of a range that have none (CHUNK-2).
    pub(crate) fn cover(&self, disk: &dyn Disk, at: u64, len: u64) -> io::Result<()> {
        if self.state.read().unsure.iter().any(|chunk| chunk.start < at + len && at < chunk.end) {
            self.require_good()?;
        }
        if self.has(at, len) {
            return Ok(());
        }
        let _making = self.making.lock();
        let members = self.members.get();
        let _growth = members.map(|members| members.lock_growth()).transpose().map_err(io::Error::other)?;
        if members.is_some() {
            self.catch_up(disk).map_err(io::Error::other)?;
            unless("media-chunk-left-half", || self.complete(disk))?;
        }
        self.require_room(disk, at..at + len)?;
        loop {
            let gap = self.state.read().layout.gap(at..at + len);
            let Some(gap) = gap else { return Ok(()) };
            self.make(disk, gap)?;
        }
    }

    /// Writes the second copies that dead processes have not written. The caller has the lock, so
    /// no other process is about to write them. Members look for new chunks in the second copies.
    fn complete(&self, disk: &dyn Disk) -> io::Result<()> {
        let stale = std::mem::take(&mut self.state.write().stale);
        stale.into_iter().try_for_each(|(number, slot)| self.put(disk, number, slot))
    }

    /// Refuses a range with which the file would exceed its limit. The log has a reserve within the
    /// limit.
    fn require_limit(&self, disk: &ChunkDisk, at: u64, len: u64) -> io::Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == u64::MAX || self.is_linear() || self.log.contains(&at) || seeded("media-no-limit") {
            return Ok(());
        }
        let begun = self.log_chunks();
        let aside = if begun > 0 { (self.log.end - self.log.start).saturating_sub(begun) } else { 0 };
        let room = disk.room()?;
        if room.saturating_add(len).saturating_add(aside) <= limit {
            return Ok(());
        }
        // Parts that hold data have their space already.
        let data = disk.data(at, len).unwrap_or_default().iter().map(|data| data.end - data.start).sum();
        if room.saturating_add(len - len.min(data)).saturating_add(aside) <= limit {
            return Ok(());
        }
        let detail = format!(
            "the store's maximum (`--max`) is {limit} bytes, of which {room} are in use and {aside} are for its log; remove \
             something, or raise the maximum with `everbyte grow`"
        );
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, detail))
    }

    /// Bytes of the chunks of the log.
    fn log_chunks(&self) -> u64 {
        self.state.read().layout.extents.range(self.log.clone()).map(|(_, extent)| extent.len).sum()
    }

    /// Refuses chunks that are larger than the free space of the file system: they would lengthen
    /// the file in vain.
    fn require_room(&self, disk: &dyn Disk, range: Range<u64>) -> io::Result<()> {
        let (mut missing, mut from) = (0, range.start);
        while let Some(gap) = self.state.read().layout.gap(from..range.end) {
            missing += gap.end - gap.start;
            from = gap.end;
        }
        match missing > disk.free()? {
            true => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            false => Ok(()),
        }
    }

    /// Reads the map again: another process may have made chunks. The caller has the lock, or does
    /// not need the newest chunks.
    fn catch_up(&self, disk: &dyn Disk) -> Result<()> {
        let read = self.read(disk)?;
        let extents: Vec<Extent> = read.layout.extents.values().copied().collect();
        // Mapped first: a thread that finds a chunk in the map stores to it at once.
        let shown = self.show(disk, &extents);
        shown.map_err(|source| Error::Io { action: "map", path: self.path.clone(), source })?;
        *self.state.write() = read;
        Ok(())
    }

    /// Reads the map again if other processes have made chunks.
    pub(crate) fn refresh(&self, disk: &dyn Disk) -> Result<()> {
        if self.is_linear() {
            return Ok(());
        }
        let (segments, count) = {
            let state = self.state.read();
            (state.segments.clone(), state.count)
        };
        // The next slot to be written, or the slot that will link to the next segment.
        let next = if count < segments.len() * SLOTS { count } else { count - 1 };
        let mut tag = [0; 8];
        disk.read_at(places(&segments, next)[1] + 24, &mut tag).map_err(|source| Error::Io {
            action: "read the map of chunks of",
            path: self.path.clone(),
            source,
        })?;
        if next == count && tag == [0; 8] {
            return Ok(());
        }
        let _making = self.making.lock();
        self.catch_up(disk)
    }

    fn show(&self, disk: &dyn Disk, extents: &[Extent]) -> io::Result<()> {
        let mappings = self.mappings.lock().clone();
        mappings
            .iter()
            .filter_map(Weak::upgrade)
            .try_for_each(|mapping| mapping.show(disk.mappable(), extents).map(drop))
    }

    /// Makes one chunk for the beginning of `gap`.
    fn make(&self, disk: &dyn Disk, gap: Range<u64>) -> io::Result<()> {
        self.require_good()?;
        let most = if seeded("media-few-chunks") { 8 } else { CHUNKS_MAX };
        if self.state.read().layout.extents.len() >= most {
            let detail = format!("the store has {most} separate ranges in its file: no more can be mapped");
            return Err(io::Error::other(detail));
        }
        // In a shared store a slot is used once: other members read only the next slot.
        let free = self.state.read().free.last().copied().filter(|_| self.members.get().is_none());
        let (number, count) = match free {
            Some((number, count)) => (number, count + 1),
            None => (self.next_slot(disk)?, 1),
        };
        let room = disk.room()?;
        let mut chunk = {
            let apart = self.log_chunks();
            let most = self.limit.load(Ordering::Relaxed);
            self.state.read().layout.choose(gap, self.max, (room, most), apart)
        };
        (chunk.slot, chunk.changes) = (number + 1, count);
        unless("media-chunk-no-room", || self.prepare(disk, chunk.file, chunk.len))?; // 1
        // 2, 3
        self.put(disk, number, Slot::new(CHUNK, count, (chunk.at, chunk.file, chunk.len), number))?;
        misplaced("media-chunk-no-room", || self.prepare(disk, chunk.file, chunk.len))?;
        self.show(disk, &[chunk])?; // before a thread finds it in the map and stores to it
        let mut state = self.state.write();
        match free {
            Some(_) => drop(state.free.pop()),
            None => state.count = number + 1,
        }
        state.layout.insert(chunk).expect("a free place was chosen");
        Ok(())
    }

    /// The number of the next unused slot; adds a segment if there is none.
    fn next_slot(&self, disk: &dyn Disk) -> io::Result<usize> {
        let (count, at) = {
            let state = self.state.read();
            (state.count, state.layout.free(0, 2 * SEGMENT))
        };
        if count % SLOTS < SLOTS - 1 {
            return Ok(count);
        }
        self.prepare(disk, at, 2 * SEGMENT)?;
        self.put(disk, count, Slot::new(LINK, 1, (0, at, 2 * SEGMENT), count))?;
        let mut state = self.state.write();
        state.layout.take(at, 2 * SEGMENT).expect("a free place was chosen");
        state.segments.push(at);
        state.count = count + 1;
        Ok(count + 1)
    }

    /// Step 1: a range of the file that reads as zeros, durably.
    fn prepare(&self, disk: &dyn Disk, at: u64, len: u64) -> io::Result<()> {
        let file_len = disk.len()?;
        if at < file_len {
            disk.clear(at, (at + len).min(file_len) - at)?;
        }
        if at + len > file_len {
            disk.lengthen(at + len)?;
        }
        self.synced(|| disk.sync())
    }

    /// Writes both copies of a slot, one after the other.
    fn put(&self, disk: &dyn Disk, number: usize, slot: Slot) -> io::Result<()> {
        let places = places(&self.state_segments(), number);
        for (copy, place) in places.into_iter().enumerate() {
            let freed = slot.kind() == FREE;
            if copy == 1 && (seeded("media-chunk-one-copy") || freed && seeded("media-chunk-free-one-copy")) {
                break;
            }
            let unsynced = seeded("media-chunk-unsynced") || freed && seeded("media-chunk-free-unsynced");
            self.synced(|| match unsynced {
                true => disk.write_at(place, slot.as_bytes()),
                false => disk.write_sync_at(place, slot.as_bytes()),
            })?;
        }
        Ok(())
    }

    fn state_segments(&self) -> Vec<u64> {
        self.state.read().segments.clone()
    }

    /// Runs one sync. A failure is recorded before an overlapping sync is believed (CHUNK-5).
    fn synced(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _runs = self.syncs.read();
        sync().inspect_err(|_| self.failed.store(true, Ordering::Release))
    }

    /// Refuses if a sync failed that overlapped the caller's sync, which has ended (CHUNK-5).
    fn require_no_other_failed(&self) -> io::Result<()> {
        if !seeded("media-chunk-sync-believed") {
            drop(self.syncs.write());
        }
        self.require_good()
    }

    /// Refuses after a failure: earlier writes may exist only in the system's cache, which drops
    /// them.
    pub(crate) fn require_good(&self) -> io::Result<()> {
        match self.failed.load(Ordering::Acquire) {
            true => Err(io::Error::other("a change of the map of chunks failed earlier")),
            false => Ok(()),
        }
    }
}

/// One copy of a segment, with the sectors that cannot be read.
struct SegmentCopy {
    bytes: Vec<u8>,
    missing: [bool; SEGMENT as usize / SECTOR],
}

impl SegmentCopy {
    fn slot(&self, index: usize) -> Option<&[u8]> {
        let at = index * size_of::<Slot>();
        (!self.missing[at / SECTOR]).then(|| &self.bytes[at..at + size_of::<Slot>()])
    }
}

fn read_copy(disk: &dyn Disk, at: u64) -> SegmentCopy {
    let mut copy = SegmentCopy { bytes: vec![0; SEGMENT as usize], missing: Default::default() };
    if disk.read_at(at, &mut copy.bytes).is_err() {
        for (index, sector) in copy.bytes.chunks_exact_mut(SECTOR).enumerate() {
            copy.missing[index] = disk.read_at(at + (index * SECTOR) as u64, sector).is_err();
        }
    }
    copy
}
