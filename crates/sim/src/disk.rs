//! A recorded disk: what the `file` backend did to it, what a power cut could leave of it, and
//! failures on request.
//!
//! The model is that of a file in a page cache over a disk with a volatile write cache:
//! * a sector (512 bytes) is written whole or not at all; unsynced sectors reach the medium in any
//!   order, at any time, with any of the contents they had since they were last synced;
//! * a synced write covers its own sectors only; a sync covers everything;
//! * the file's length is part of what a sync brings to the medium;
//! * a failed sync leaves the cache looking clean: what was pending may be on the medium or not,
//!   reads show it, and later syncs do not write it, unless its page is written again. Forgetting
//!   the cache shows what the medium has.
//!
//! On request calls fail, once or for ever: a write stops half-way, an allocation keeps what it
//! took (`allocate_by_halves`), reads and syncs fail at any position, sectors cannot be read
//! (`make_unreadable`). The file system may lack `fallocate`, and another thread may let the file
//! grow between any two calls (`grow_before`).
//!
//! Threads: any; events are recorded in one total order.

use everbyte_media::Disk;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The unit that a disk writes whole or not at all.
pub const SECTOR: usize = 512;
const SECTORS_PER_PAGE: usize = 8;

/// One thing that happened to the disk.
#[derive(Clone, Debug)]
pub enum DiskEvent {
    /// Bytes were given to the disk.
    Write {
        /// The offset.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A range is on the medium.
    SyncRange {
        /// Start.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// Everything is on the medium.
    Sync,
    /// A sync failed: see the head of this file.
    SyncFailed,
    /// The file grew.
    Grow {
        /// Its new length.
        len: u64,
    },
    /// A range was given back.
    Punch {
        /// Start.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// The cache was dropped.
    Forget {
        /// Start.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// The program said something to the model, such as "acknowledged".
    Note(u64),
}

/// Which call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// The write part of [`Disk::write_at`] and [`Disk::write_sync_at`]: nothing, or some sectors,
    /// were written.
    Write,
    /// [`Disk::sync`], or the sync part of [`Disk::write_sync_at`].
    Sync,
    /// [`Disk::allocate`]: nothing has changed, or half of it was done (see
    /// [`RecordedDisk::allocate_by_halves`]).
    Allocate,
    /// [`Disk::read_at`].
    Read,
}

/// Kinds of calls.
const CALLS: usize = 4;

/// The contents of the medium, and the writes that may still reach it.
#[derive(Clone, Default)]
pub(crate) struct Medium {
    durable: Vec<u8>,
    durable_len: usize,
    cache: Vec<u8>,
    /// Contents since the last sync, oldest first, by sector.
    pending: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// Sectors whose sync failed: pending for ever, and no longer dirty.
    doomed: BTreeSet<usize>,
}

impl Medium {
    pub(crate) fn new(image: &[u8]) -> Medium {
        Medium { durable: image.to_vec(), durable_len: image.len(), cache: image.to_vec(), ..Medium::default() }
    }

    pub(crate) fn apply(&mut self, event: &DiskEvent) {
        match event {
            DiskEvent::Write { at, bytes } => self.write(*at as usize, bytes),
            DiskEvent::SyncRange { at, len } => {
                let (at, end) = (*at as usize, (*at + *len) as usize);
                self.settle(at / SECTOR..end.div_ceil(SECTOR));
                self.durable_len = self.durable_len.max(end);
            }
            DiskEvent::Sync => {
                self.settle(0..usize::MAX);
                self.durable_len = self.cache.len();
            }
            DiskEvent::SyncFailed => self.doomed = self.pending.keys().copied().collect(),
            DiskEvent::Grow { len } => self.cache.resize(self.cache.len().max(*len as usize), 0),
            DiskEvent::Punch { at, len } => {
                let end = (*at + *len).min(self.cache.len() as u64);
                self.write(*at as usize, &vec![0; end.saturating_sub(*at) as usize]);
            }
            DiskEvent::Forget { at, len } => {
                self.forget(*at as usize / SECTOR..((*at + *len) as usize).div_ceil(SECTOR))
            }
            DiskEvent::Note(_) => {}
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR..end.div_ceil(SECTOR) {
            let content = sector_of(&self.cache, sector).into();
            self.doomed.remove(&sector);
            self.pending.entry(sector).or_default().push(content);
        }
        // A page is written back whole: its doomed sectors are dirty again.
        let pages = at / SECTOR / SECTORS_PER_PAGE..end.div_ceil(SECTOR).div_ceil(SECTORS_PER_PAGE);
        let revived = self.doomed.range(pages.start * SECTORS_PER_PAGE..pages.end * SECTORS_PER_PAGE);
        for sector in revived.copied().collect::<Vec<_>>() {
            self.doomed.remove(&sector);
        }
    }

    fn settle(&mut self, sectors: std::ops::Range<usize>) {
        let clean: Vec<_> = self.pending.range(sectors).map(|(&sector, _)| sector).collect();
        for sector in clean.into_iter().filter(|sector| !self.doomed.contains(sector)) {
            let content = self.pending.remove(&sector).and_then(|mut contents| contents.pop());
            put_sector(&mut self.durable, sector, &content.expect("pending sectors have contents"));
        }
    }

    /// A doomed write reads as the medium has it: here, as it was before.
    fn forget(&mut self, sectors: std::ops::Range<usize>) {
        for sector in self.doomed.range(sectors).copied().collect::<Vec<_>>() {
            self.doomed.remove(&sector);
            self.pending.remove(&sector);
            let content = sector_of(&self.durable, sector);
            put_sector(&mut self.cache, sector, &content);
        }
    }

    /// The sectors that may come to hold something else than the medium has now, and what.
    pub(crate) fn undecided(&self) -> Vec<(usize, Vec<&[u8]>)> {
        let undecided = self.pending.iter().map(|(&sector, contents)| {
            let settled = sector_of(&self.durable, sector);
            let mut others: Vec<&[u8]> = Vec::new();
            for content in contents.iter().map(|content| &**content).filter(|content| *content != settled) {
                others.retain(|other| *other != content); // the newest stays the last
                others.push(content);
            }
            (sector, others)
        });
        undecided.filter(|(_, others)| !others.is_empty()).collect()
    }

    /// Whether the length is undecided.
    pub(crate) fn is_growing(&self) -> bool {
        self.durable_len < self.cache.len()
    }

    /// The image with, of each undecided sector, the content chosen (0 is the settled one), and the
    /// length it was growing to if `grown`.
    pub(crate) fn image(&self, undecided: &[(usize, Vec<&[u8]>)], choices: &[usize], grown: bool) -> Vec<u8> {
        let mut image = self.durable.clone();
        for ((sector, contents), &choice) in undecided.iter().zip(choices) {
            if choice > 0 {
                put_sector(&mut image, *sector, contents[choice - 1]);
            }
        }
        image.resize(if grown { self.cache.len() } else { self.durable_len }, 0);
        image
    }
}

fn sector_of(bytes: &[u8], sector: usize) -> Vec<u8> {
    let start = sector * SECTOR;
    let mut content = vec![0; SECTOR];
    if start < bytes.len() {
        let end = bytes.len().min(start + SECTOR);
        content[..end - start].copy_from_slice(&bytes[start..end]);
    }
    content
}

fn put_sector(bytes: &mut Vec<u8>, sector: usize, content: &[u8]) {
    let end = (sector + 1) * SECTOR;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[end - SECTOR..end].copy_from_slice(content);
}

/// The events of a [`RecordedDisk`] since it was made.
#[derive(Clone, Debug)]
pub struct DiskTape {
    /// Its first content, all of it on the medium.
    pub image: Vec<u8>,
    /// The events, in order.
    pub events: Vec<DiskEvent>,
}

/// A [`Disk`] in memory that records and fails.
pub struct RecordedDisk {
    file: File,
    state: Mutex<State>,
}

struct State {
    tape: DiskTape,
    live: Medium,
    /// Calls of each kind so far, and which of them fail from when on with what.
    calls: [u64; CALLS],
    failing: Option<(DiskCall, u64, i32)>,
    /// Bytes of the file beyond which allocations fail.
    capacity: u64,
    /// An allocation that fails keeps the first half of what was asked for.
    halves: bool,
    /// The file system has no `fallocate`: growth is a write of zeros.
    zeros: bool,
    /// Ranges that cannot be read until they are written again.
    unreadable: Vec<Range<u64>>,
    /// Before which call of any kind (from 0) another thread lets the file grow, and to what.
    growth: Option<(u64, u64)>,
    /// Calls of all kinds so far; hints and measurements count as well.
    steps: u64,
}

impl RecordedDisk {
    /// A disk with that content.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(image: &[u8]) -> io::Result<Arc<RecordedDisk>> {
        // SAFETY: the name is a constant C string, and the call touches nothing else of ours.
        let fd = unsafe { libc::memfd_create(c"everbyte-disk".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made for us and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.write_all_at(image, 0)?;
        let tape = DiskTape { image: image.to_vec(), events: Vec::new() };
        let live = Medium::new(image);
        let state = State {
            tape,
            live,
            calls: [0; CALLS],
            failing: None,
            capacity: u64::MAX,
            halves: false,
            zeros: false,
            unreadable: Vec::new(),
            growth: None,
            steps: 0,
        };
        Ok(Arc::new(RecordedDisk { file, state: state.into() }))
    }

    /// Says something to the model that reads the tape later.
    pub fn note(&self, what: u64) {
        self.record(DiskEvent::Note(what));
    }

    /// From now on the `nth` (from 0) call of that kind fails with `errno`, and all later ones if
    /// `errno` is `ENOSPC`.
    pub fn fail(&self, call: DiskCall, nth: u64, errno: i32) {
        let mut state = self.state.lock();
        let base = state.calls[call as usize];
        state.failing = Some((call, base + nth, errno));
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        (state.failing, state.capacity) = (None, u64::MAX);
        state.unreadable.clear();
    }

    /// Allocations beyond that length of the file fail with `ENOSPC`.
    pub fn limit(&self, capacity: u64) {
        self.state.lock().capacity = capacity;
    }

    /// From now on an allocation that fails keeps the first half of what was asked for, as `ext4`
    /// does.
    pub fn allocate_by_halves(&self) {
        self.state.lock().halves = true;
    }

    /// From now on the file grows by writes of zeros, as on a file system without `fallocate`.
    pub fn without_fallocate(&self) {
        self.state.lock().zeros = true;
    }

    /// Reads that touch the range fail with `EIO` until all of it has been written again.
    pub fn make_unreadable(&self, at: u64, len: u64) {
        self.state.lock().unreadable.push(at..at + len);
    }

    /// Before the `nth` call from now, of any kind, another thread lets the file grow to `len`
    /// bytes.
    pub fn grow_before(&self, nth: u64, len: u64) {
        let mut state = self.state.lock();
        state.growth = Some((state.steps + nth, len));
    }

    /// Calls of all kinds so far.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Calls of that kind so far.
    pub fn calls(&self, call: DiskCall) -> u64 {
        self.state.lock().calls[call as usize]
    }

    /// Everything so far.
    pub fn tape(&self) -> DiskTape {
        self.state.lock().tape.clone()
    }

    /// The contents that a reader of the file sees now.
    pub fn content(&self) -> Vec<u8> {
        self.state.lock().live.cache.clone()
    }

    fn record(&self, event: DiskEvent) {
        let mut state = self.state.lock();
        state.live.apply(&event);
        state.tape.events.push(event);
    }

    /// Between two calls of one thread, other threads act.
    fn step(&self) {
        let mut state = self.state.lock();
        let step = state.steps;
        state.steps += 1;
        if let Some((_, len)) = state.growth.take_if(|(at, _)| *at == step) {
            self.grow(&mut state, len).expect("memory for a larger file");
        }
    }

    fn grow(&self, state: &mut State, len: u64) -> io::Result<()> {
        if len > self.file.metadata()?.len() {
            self.file.set_len(len)?;
        }
        let event = DiskEvent::Grow { len };
        state.live.apply(&event);
        state.tape.events.push(event);
        Ok(())
    }

    fn try_call(&self, call: DiskCall) -> io::Result<()> {
        let mut state = self.state.lock();
        let number = state.calls[call as usize];
        state.calls[call as usize] += 1;
        match state.failing {
            Some((kind, nth, errno)) if kind == call && (number == nth || number > nth && errno == libc::ENOSPC) => {
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.try_call(DiskCall::Write) {
            // Half of it was written, in sectors.
            let half = bytes.len() / 2 / SECTOR * SECTOR;
            self.put(at, &bytes[..half])?;
            return Err(error);
        }
        self.put(at, bytes)
    }

    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // The event first: another thread's sync then covers at most what the medium may already
        // have.
        let mut state = self.state.lock();
        self.file.write_all_at(bytes, at)?;
        let end = at + bytes.len() as u64;
        state.unreadable.retain(|range| range.start < at || range.end > end);
        let event = DiskEvent::Write { at, bytes: bytes.to_vec() };
        state.live.apply(&event);
        state.tape.events.push(event);
        Ok(())
    }

    fn synced(&self, event: DiskEvent) -> io::Result<()> {
        match self.try_call(DiskCall::Sync) {
            Ok(()) => self.record(event),
            Err(error) => {
                self.record(DiskEvent::SyncFailed);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Disk for RecordedDisk {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.step();
        self.try_call(DiskCall::Read)?;
        let end = at + into.len() as u64;
        if self.state.lock().unreadable.iter().any(|range| range.start < end && range.end > at) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.file.read_exact_at(into, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step();
        self.write(at, bytes)
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step();
        self.write(at, bytes)?;
        self.step();
        self.synced(DiskEvent::SyncRange { at, len: bytes.len() as u64 })
    }

    fn sync(&self) -> io::Result<()> {
        self.step();
        self.synced(DiskEvent::Sync)
    }

    fn len(&self) -> io::Result<u64> {
        self.step();
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.step();
        let called = self.try_call(DiskCall::Allocate);
        let mut state = self.state.lock();
        let allocated = match called {
            Ok(()) if at + len > state.capacity => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            called => called,
        };
        let there = self.file.metadata()?.len();
        let end = match &allocated {
            Ok(()) => at + len,
            Err(_) if state.halves => at + (len / 2).next_multiple_of(SECTOR as u64),
            Err(_) => there,
        };
        if state.zeros && end > there {
            drop(state);
            let zeros = vec![0; (end - there) as usize];
            self.write(there, &zeros)?;
        } else if end > there || allocated.is_ok() {
            self.grow(&mut state, end)?;
        }
        allocated
    }

    fn forget(&self, at: u64, len: u64) {
        let mut state = self.state.lock();
        let event = DiskEvent::Forget { at, len };
        let before = state.live.doomed.clone();
        state.live.apply(&event);
        for &sector in before.difference(&state.live.doomed) {
            let content = sector_of(&state.live.cache, sector);
            self.file.write_all_at(&content, (sector * SECTOR) as u64).expect("memory takes what it took before");
        }
        state.tape.events.push(event);
    }

    fn punch(&self, at: u64, len: u64) {
        let mut state = self.state.lock();
        let event = DiskEvent::Punch { at, len };
        state.live.apply(&event);
        state.tape.events.push(event);
        let end = (at + len).min(state.live.cache.len() as u64);
        if at < end {
            self.file.write_all_at(&vec![0; (end - at) as usize], at).expect("memory takes what it took before");
        }
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
