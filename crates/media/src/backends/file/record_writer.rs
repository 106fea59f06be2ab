//! [`RecordWriter`]: takes the open batch out of the log, seals it and writes it into the ring. It
//! knows the disk and the ring, and neither waiting threads nor checkpoints.
//!
//! Invariants
//!   FILE-3  One record is written at a time; in `always` mode the next is not begun before it is
//!           on the medium.
//!
//! Threads: one writer at a time, by `Log::writing`.

use super::batch::EpochBatch;
use super::guarded_disk::GuardedDisk;
use super::layout::{RECORD_MAGIC, RecordHeader, SECTOR};
use super::log::Log;
use crate::Result;
use crate::counters::Counter;

pub(crate) struct RecordWriter {
    /// Offset of the ring in the store.
    pub log_at: u64,
    /// Largest length of the ring.
    pub log_len: u64,
    /// Whether a record is on the medium when its write returns.
    pub syncs: bool,
}

/// A batch on its way into the ring.
pub(crate) struct OutgoingRecord {
    pub header: RecordHeader,
    batch: EpochBatch,
    /// Offset in the ring, and the ring's length.
    at: u64,
    ring_len: u64,
    /// The head on the medium says that the log is empty, and must be rewritten before this record.
    pub first: bool,
}

impl RecordWriter {
    /// Takes the open batch, which is not empty, and reserves its place. `synced` is the sequence
    /// below which all records are on the medium.
    pub(crate) fn take(&self, log: &mut Log, synced: u64) -> OutgoingRecord {
        let spare = log.spare.take().expect("FILE-3: a spare buffer while no record is being written");
        let batch = std::mem::replace(&mut log.open, spare);
        let header = RecordHeader {
            checksum: 0,
            magic: RECORD_MAGIC,
            sequence: log.sequence,
            incarnation: log.incarnation,
            chain: log.chain,
            synced,
            payload_len: 0,
            reserved: [0; 2],
        };
        let (at, ring_len) = (log.tail % log.ring_len, log.ring_len);
        (log.writing, log.asked) = (true, false);
        log.sequence += 1;
        log.tail += batch.padded();
        log.limit();
        let first = std::mem::take(&mut log.clean);
        OutgoingRecord { header, batch, at, ring_len, first }
    }

    /// Writes sealed bytes at their place in the ring; they may continue at the ring's beginning.
    pub(crate) fn write(&self, disk: &GuardedDisk, (at, ring_len): (u64, u64), bytes: &[u8]) -> Result<()> {
        let first = bytes.len().min((ring_len - at) as usize);
        debug_assert!(at.is_multiple_of(SECTOR) && (bytes.len() as u64).is_multiple_of(SECTOR));
        let syncs = self.syncs && !crate::seeded("media-barrier-unsynced");
        for (at, part) in [(self.log_at + at, &bytes[..first]), (self.log_at, &bytes[first..])] {
            if part.is_empty() {
                continue;
            }
            disk.check_alive()?;
            disk.attempt(
                "write the log",
                |disk| {
                    if syncs { disk.write_sync_at(at, part) } else { disk.write_at(at, part) }
                },
            )?;
            disk.count(Counter::Syncs, syncs.into());
        }
        disk.count(Counter::LogBytes, bytes.len() as u64);
        Ok(())
    }
}

impl OutgoingRecord {
    /// Fills in the header. Returns the record's checksum, its offset in the ring with the ring's
    /// length, and its bytes.
    pub(crate) fn seal(&mut self) -> (u64, (u64, u64), &[u8]) {
        let (chain, bytes) = self.batch.seal(self.header);
        (chain, (self.at, self.ring_len), bytes)
    }

    /// The buffer, empty again.
    pub(crate) fn into_buffer(mut self) -> EpochBatch {
        self.batch.reset();
        self.batch
    }
}
