//! The room of the log: the part of it that is backed and in use. Little in a new store, more when
//! load needs it.
//!
//! The log's addresses are reserved from the beginning, and its ring has the first `log_room` bytes
//! of them. After a checkpoint which shows that the ring is too small, it grows:
//! 1. back the part to come, write zeros there, sync
//! 2. let no record begin, and see that those which count lie in one piece; else leave it to the
//!    next checkpoint
//! 3. write and sync both copies of the head with the new room (HEAD-4)
//! 4. go on in the larger ring
//!
//! Invariants
//!   ROOM-1  The room changes only while the records that count lie in one piece: they have the
//!           same places in the old ring and in the new one, so the head before and the head after
//!           both lead to all of them.
//!   ROOM-2  Records are written in the ring that the head on the medium describes, and none while
//!           that head is written.
//!
//! Threads: part of a checkpoint, so one at a time, beside any number of writers.

use super::dirty_pages::PAGE;
use super::disk::Page;
use super::{Disk, LOG_MIN, Shared};
use crate::open::head::Head;
use crate::{Error, Result, seeded};
use std::io;
use std::path::Path;
use zerocopy::IntoBytes;

/// Prepares the log, once in the life of a store: `room` bytes of it, or as many as it has.
pub(crate) fn prepare_log(disk: &dyn Disk, path: &Path, head: &mut Head, room: u64) -> Result<()> {
    if head.log_ready == 1 {
        return Ok(());
    }
    if head.log_len < LOG_MIN {
        let detail = format!("its log of {} bytes is too small for backend `file`; use `shm` or `pmem`", head.log_len);
        return Err(Error::Unsupported { path: path.into(), detail });
    }
    let io = |source| Error::Io { action: "allocate the log", path: path.into(), source };
    let room = (room & !(PAGE - 1)).clamp(LOG_MIN, head.log_len);
    back(disk, head.log_at, room, || ()).map_err(io)?;
    disk.sync().map_err(io)?;
    head.file_len = disk.len().map_err(io)?.min(head.max);
    (head.log_ready, head.log_clean, head.log_room) = (1, 1, room);
    (head.log_head, head.log_sequence, head.log_chain, head.log_synced) = (0, 1, 0, 1);
    let (at, bytes) = head.next();
    disk.write_sync_at(at, bytes).map_err(io)
}

/// Backs a part of the log with blocks of zeros, so that a record overwrites blocks in place and
/// its sync has no file system metadata to carry.
/// `between` is called behind each MiB.
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

impl Shared {
    /// Doubles the log's room if that is `needed`, or was and had to wait. `backed` is how far the
    /// log is ready to be used.
    pub(crate) fn grow_log(&self, backed: &mut u64, needed: bool) -> Result<()> {
        self.check_alive()?;
        let (log_at, log_len) = self.log_place;
        let room = self.log.lock().room;
        if *backed <= room {
            let part = room.min(log_len - room);
            if !needed || part == 0 {
                return Ok(());
            }
            if back(&*self.disk, log_at + room, part, || self.sync_if_due()).is_err() {
                // a full disk, most likely: the log serves as it is
                self.disk.punch(log_at + room, part);
                return Ok(());
            }
            self.try_io("sync the log", |shared| shared.disk.sync())?;
            *backed = room + part;
        }
        self.set_room(*backed)
    }

    /// Steps 2 to 4.
    fn set_room(&self, room: u64) -> Result<()> {
        let Some((start, used)) = self.hold_records() else { return Ok(()) };
        let written = if seeded("media-room-late") {
            Ok(())
        } else {
            self.write_both_heads(|head| (head.log_room, head.log_head) = (room, start))
        };
        let mut log = self.log.lock();
        if written.is_ok() && !seeded("media-room-early") {
            (log.room, log.start, log.tail) = (room, start, start + used);
            log.limit();
        }
        log.writing = false;
        self.turn.notify_all();
        written
    }

    /// Keeps records from being written until `writing` is no more, if those that count lie in one
    /// piece: where, and how long.
    fn hold_records(&self) -> Option<(u64, u64)> {
        let mut log = self.log.lock();
        while log.writing {
            self.check_alive().ok()?; // else nobody may end it
            self.turn.wait(&mut log);
        }
        let (start, used) = (log.start % log.room, log.tail - log.start);
        if start + used > log.room && !seeded("media-room-in-two-pieces") {
            return None; // ROOM-1
        }
        log.writing = true; // ROOM-2
        Some((start, used))
    }
}
