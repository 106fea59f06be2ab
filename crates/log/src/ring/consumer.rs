//! The consumer's end: reads flushed records in order and frees their space.

use super::layout::{HEAD_AT, position_word};
use super::{Position, Ring, SharedPositions};
use crate::Result;
use everbyte_media::Damage;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Reads and truncates. One per log.
#[derive(Debug)]
pub struct Consumer {
    pub(super) ring: Ring,
    pub(super) shared: Arc<SharedPositions>,
    /// The durable head.
    pub(super) head: u64,
    /// Position of the next record to read.
    pub(super) read: u64,
}

impl Consumer {
    /// Reads the next flushed record into `into` and returns its end; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a flushed record does not read back: other code has changed the memory
    /// of the log.
    pub fn next(&mut self, into: &mut Vec<u64>) -> Result<Option<Position>> {
        let tail = self.shared.tail.load(Acquire);
        if self.read == tail {
            into.clear();
            return Ok(None);
        }
        let at = self.ring.offset(self.read);
        let end = self.ring.read(self.read, tail, into);
        let end = end.ok_or_else(|| Damage::at(at, "a flushed record of the word log does not prove itself"))?;
        self.read = end;
        Ok(Some(Position(end)))
    }

    /// Drops the records before `to`. The changes that depend on them have been flushed and fenced
    /// before, by this thread or by one whose fence happened before this call. Ordered on return;
    /// one fence.
    ///
    /// # Panics
    /// If `to` lies before the head or beyond the flushed records.
    pub fn truncate(&mut self, to: Position) {
        let tail = self.shared.tail.load(Acquire);
        assert!(self.head <= to.0 && to.0 <= tail, "RING-1: {to:?} lies outside {}..{tail}", self.head);
        if to.0 == self.head {
            return;
        }
        let media = &self.ring.media;
        let section = media.section();
        media.copy_nt(self.ring.at + HEAD_AT, &position_word(self.ring.salt, to.0).to_le_bytes());
        drop(section);
        media.fence_unless("log-ring-head-unfenced");
        self.head = to.0;
        self.read = self.read.max(to.0);
        self.shared.head.store(to.0, Release);
    }

    /// The end of the records that were read.
    pub fn position(&self) -> Position {
        Position(self.read)
    }
}
