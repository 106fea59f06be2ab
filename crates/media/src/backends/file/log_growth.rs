//! Growth of the log's ring. A new store has a small ring; load makes it larger.
//!
//! The log's addresses are reserved from the beginning, and the ring is the first `log_room` bytes
//! of them. After a checkpoint which shows that the ring is too small, it grows:
//! 1. back the new part, write zeros there, sync
//! 2. let no record begin, and require that the records that count lie in one piece; else leave
//!    growth to the next checkpoint
//! 3. write and sync both copies of the head with the new length (HEAD-4)
//! 4. continue in the larger ring
//!
//! Invariants
//!   ROOM-1  The length changes only while the records that count lie in one piece: they have the
//!           same offsets in the old ring and in the new one, so the head before and the head after
//!           both lead to all of them.
//!   ROOM-2  Records are written in the ring that the head on the medium describes, and none while
//!           that head is written.
//!
//! Threads: part of a checkpoint, so one at a time, beside any number of writers.

use super::dirty_pages::PAGE;
use super::disk::{Disk, Page};
use super::file_store::FileStore;
use super::limits::LOG_MIN;
use super::record_writer::RecordWriter;
use crate::museum::unless;
use crate::open::layout::Head;
use crate::{Error, Result, seeded};
use std::io;
use std::path::Path;
use zerocopy::IntoBytes;

/// Prepares the log, once in the life of a store: a ring of `ring_len` bytes, or of all its bytes.
pub(crate) fn prepare_log(disk: &dyn Disk, path: &Path, head: &mut Head, ring_len: u64) -> Result<()> {
    if head.log_ready == 1 {
        return Ok(());
    }
    if head.log_len < LOG_MIN {
        let detail = format!("its log of {} bytes is too small for backend `file`; use `shm` or `pmem`", head.log_len);
        return Err(Error::Unsupported { path: path.into(), detail });
    }
    let io = |source| Error::Io { action: "allocate the log", path: path.into(), source };
    let ring_len = (ring_len & !(PAGE - 1)).clamp(LOG_MIN, head.log_len);
    back(disk, head.log_at, ring_len, || ()).map_err(io)?;
    disk.sync().map_err(io)?;
    head.file_len = disk.len().map_err(io)?.min(head.max);
    (head.log_ready, head.log_clean, head.log_room) = (1, 1, ring_len);
    (head.log_head, head.log_sequence, head.log_chain, head.log_synced) = (0, 1, 0, 1);
    let (at, bytes) = head.next();
    disk.write_sync_at(at, bytes).map_err(io)
}

/// Backs a part of the log with blocks of zeros, so that a record overwrites blocks in place and
/// its sync writes no file system metadata. Calls `between` after each MiB.
fn back(disk: &dyn Disk, at: u64, len: u64, between: impl Fn()) -> io::Result<()> {
    disk.allocate(at, len)?;
    let zeros = Page::buffer((len.min(1 << 20) / PAGE) as usize);
    for done in (0..len).step_by(1 << 20) {
        let step = (len - done).min(1 << 20) as usize;
        disk.write_pages_at(at + done, &zeros.as_bytes()[..step])?;
        between();
    }
    Ok(())
}

impl FileStore {
    /// Doubles the ring if that is `needed`, or was needed and had to wait. The first `backed`
    /// bytes of the log are backed.
    pub(crate) fn grow_log(&self, backed: &mut u64, needed: bool) -> Result<()> {
        self.disk.check_alive()?;
        let RecordWriter { log_at, log_len, .. } = self.writer;
        let ring_len = self.log.lock().ring_len;
        if *backed <= ring_len {
            let part = ring_len.min(log_len - ring_len);
            if !needed || part == 0 {
                return Ok(());
            }
            if back(self.disk.disk(), log_at + ring_len, part, || self.sync_if_due()).is_err() {
                // Most likely the disk is full. The log keeps its length.
                self.disk.disk().punch(log_at + ring_len, part);
                return Ok(());
            }
            self.try_io("sync the log", |disk| disk.sync())?;
            *backed = ring_len + part;
        }
        self.set_ring_len(*backed)
    }

    /// Steps 2 to 4.
    fn set_ring_len(&self, ring_len: u64) -> Result<()> {
        let Some((start, used)) = self.hold_records() else { return Ok(()) };
        let written = unless("media-room-late", || {
            self.write_both_heads(|head| (head.log_room, head.log_head) = (ring_len, start))
        });
        let mut log = self.log.lock();
        if written.is_ok() && !seeded("media-room-early") {
            (log.ring_len, log.start, log.tail) = (ring_len, start, start + used);
            log.limit();
        }
        log.writing = false;
        self.record_done.notify_all();
        written
    }

    /// If the records that count lie in one piece: keeps further records from being written until
    /// `writing` is reset, and returns the offset and the length of the piece.
    fn hold_records(&self) -> Option<(u64, u64)> {
        let mut log = self.log.lock();
        while log.writing {
            self.disk.check_alive().ok()?; // a poisoned writer never ends
            self.record_done.wait(&mut log);
        }
        let (start, used) = (log.start % log.ring_len, log.tail - log.start);
        if start + used > log.ring_len && !seeded("media-room-in-two-pieces") {
            return None; // ROOM-1
        }
        log.writing = true; // ROOM-2
        Some((start, used))
    }
}
