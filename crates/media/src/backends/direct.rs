//! `pmem` and `shm`: a shared mapping and the CPU's own flush instructions, slowed to a device
//! profile on request.

use crate::backends::file::disk::Disk;
use crate::backends::profile::{Profile, spin_until, ticks_per_ns};
use crate::bytes::isa;
use crate::bytes::mapping::Mapping;
use crate::bytes::sizes::LARGE;
use crate::open::chunks::{ChunkDisk, Guard};
use crate::open::head::Head;
use crate::{BackendKind, Error, FlushKind, Options, Result};
use everbyte_members::Birth;
use parking_lot::Mutex;
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Direct {
    pub kind: BackendKind,
    pub flush: FlushKind,
    pub profile: Profile,
    /// `None` for memory without a file.
    pub file: Option<Box<Backing>>,
    /// The file that a read-only media was copied from: kept open for its lock, too.
    pub read_from: Option<ChunkDisk>,
    pub path: PathBuf,
    /// Whether the profile asks for any delay.
    pub slow: bool,
    /// The time, in ticks, at which the profile's device will have taken the lines of all threads.
    pub busy_until: AtomicU64,
    /// The process that opened it.
    pub birth: Birth,
    /// Ranges were released to the file system since its metadata was last synced.
    pub punched: AtomicBool,
}

/// The file of a direct mapping, and its head.
pub(crate) struct Backing {
    pub file: Arc<File>,
    /// The file by store offsets.
    pub disk: ChunkDisk,
    pub head: Mutex<Head>,
    /// Set if other processes make chunks, too.
    pub _guard: Option<Guard>,
}

thread_local! {
    /// Lines that this thread has sent since its last fence, and the time of the first, for the
    /// device profile.
    static SENT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Counts lines for the next fence. `start` is the time at which the first of them was sent.
#[inline]
fn count_sent(lines: u64, start: u64) {
    let (sent, since) = SENT.get();
    SENT.set((sent + lines, if sent == 0 { start } else { since }));
}

/// Makes each whole, empty large page of a range a large page from the start, around one small page
/// that is allocated first. Otherwise the system would allocate, clear and copy many small pages. A
/// failure here also fails the allocation of the whole range.
fn begin_large(mapping: &Mapping, disk: &ChunkDisk, range: Range<u64>) {
    let mut at = range.start.next_multiple_of(LARGE);
    while at + LARGE <= range.end {
        // A whole large page in the file, too.
        if matches!(disk.chunks.parts(at, LARGE)[..], [(_, Some(file))] if file % LARGE == 0) {
            if disk.back(at + LARGE - 4096, 4096).is_err() {
                return;
            }
            mapping.gather(at);
        }
        at += LARGE;
    }
}

impl Direct {
    /// The backend of a shared mapping; `file` is `None` for memory without a file.
    pub(crate) fn new(kind: BackendKind, file: Option<Box<Backing>>, path: &Path, options: &Options) -> Result<Direct> {
        let flush = if options.flush_on_fail { FlushKind::None } else { options.flush.unwrap_or_else(isa::detect) };
        if !isa::supported(flush) {
            let detail = format!("this CPU has no {}; leave the flush instruction to be chosen", flush.name());
            return Err(Error::Unsupported { path: path.into(), detail });
        }
        let profile = options.profile;
        let slow = !profile.is_free();
        if slow {
            ticks_per_ns(); // calibrate now, not inside the first fence
        }
        Ok(Direct {
            kind,
            flush,
            profile,
            slow,
            busy_until: 0.into(),
            punched: false.into(),
            file,
            read_from: None,
            birth: Birth::new(),
            path: path.into(),
        })
    }

    /// The backend of a private copy that is only read. It has no file to allocate in or to sync.
    pub(crate) fn for_reading(kind: BackendKind, disk: ChunkDisk, path: &Path) -> Direct {
        Direct {
            kind,
            flush: FlushKind::None,
            profile: Profile::DRAM,
            slow: false,
            busy_until: 0.into(),
            punched: false.into(),
            file: None,
            read_from: Some(disk),
            birth: Birth::new(),
            path: path.into(),
        }
    }

    #[inline]
    pub(crate) fn flush(&self, mapping: &Mapping, at: u64, len: u64) -> u64 {
        let start = if self.slow { isa::ticks() } else { 0 };
        let lines = mapping.flush(self.flush, at, len);
        if self.slow {
            count_sent(lines, start);
        }
        lines
    }

    #[inline]
    pub(crate) fn copy_nt(&self, mapping: &Mapping, at: u64, bytes: &[u8]) {
        let start = if self.slow { isa::ticks() } else { 0 };
        mapping.copy_nt(self.flush, at, bytes);
        if self.slow {
            let (first, end) = crate::bytes::mapping::line_range(at, bytes.len() as u64);
            count_sent((end - first) / isa::LINE, start);
        }
    }

    #[inline]
    pub(crate) fn fence(&self) {
        let start = if self.slow { isa::ticks() } else { 0 };
        isa::fence();
        if self.slow {
            let (lines, since) = SENT.replace((0, 0));
            spin_until(self.profile.fence_end(lines, since, start, &self.busy_until));
        }
    }

    pub(crate) fn allocate(&self, mapping: &Mapping, at: u64, len: u64) -> Result<()> {
        let Some(Backing { file, disk, head, .. }) = self.file.as_deref() else { return Ok(()) };
        let io = |action| move |source| Error::Io { action, path: self.path.clone(), source };
        let mut head = head.lock();
        disk.cover(at, len).map_err(io("allocate space"))?; // a refusal takes no space
        if self.kind == BackendKind::Shm {
            begin_large(mapping, disk, at.max(head.file_len)..at + len);
        }
        disk.back(at, len).map_err(io("allocate space"))?;
        if at + len > head.file_len {
            // The growth first: a head must never promise bytes that a power loss can take back.
            Disk::sync(&**file).map_err(io("sync the growth of"))?;
            // Memory follows the medium: after a failed write the next growth writes the head.
            let mut grown = *head;
            grown.file_len = at + len;
            let (place, bytes) = grown.next();
            Disk::write_sync_at(&**file, place, bytes).map_err(io("write the media head of"))?;
            *head = grown;
        }
        Ok(())
    }

    pub(crate) fn punch(&self, at: u64, len: u64) {
        if let Some(backing) = &self.file {
            backing.disk.punch(at, len);
            self.punched.store(true, Ordering::Release);
        }
    }

    /// As [`Disk::data`].
    pub(crate) fn data(&self, at: u64, len: u64) -> Option<Vec<Range<u64>>> {
        if let Some(Backing { file, disk, _guard: Some(_), .. }) = self.file.as_deref()
            && !disk.chunks.has(at, len)
        {
            disk.chunks.refresh(&**file).ok()?; // another process may have made its chunk
        }
        self.file.as_deref().map(|backing| &backing.disk).or(self.read_from.as_ref())?.data(at, len)
    }

    /// Syncs holes: after a clean close no record is left of the holes that were to be made.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(backing) = self.file.as_deref().filter(|_| self.punched.swap(false, Ordering::AcqRel)) else {
            return Ok(());
        };
        let io = |source| Error::Io { action: "sync the holes of", path: self.path.clone(), source };
        Disk::sync(&*backing.file).map_err(io)
    }
}
