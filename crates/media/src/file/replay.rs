//! Recovery: the records of the log are brought to their places before anything is mapped.
//!
//! 1. sync the file, so that what is read now cannot be lost after it has been acted upon
//! 2. follow the chain of records from the head's position to the first break
//! 3. look behind the break for a record that proves the broken one had been on the medium: that is damage
//! 4. back what the records say was backed, write each line's newest bytes to its place, sync
//! 5. write and sync a head that says the log is empty, and begins a new incarnation
//!
//! Every step may be cut short: the head still says what to replay, and lines are written, not changed.
//!
//! Invariants
//!   REPLAY-1  Nothing is written before the whole log has been judged.
//!   REPLAY-2  Only records that are themselves on the medium are brought to their places.

use super::Disk;
use super::layout::{HEADER_LEN, LINE_WORDS, RECORD_MAGIC, RecordHeader, SECTOR, padded, run_parts};
use crate::head::{COPIES, Head};
use crate::mapping::Mapping;
use crate::{Error, LINE, Opened, Result, seeded};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use zerocopy::FromBytes;

/// Brings the records of the log to their places, on any backend, before anything is mapped.
pub(crate) fn replay(disk: &dyn Disk, path: &Path, head: Head) -> Result<(Head, Opened)> {
    if head.log_ready != 1 || head.log_clean == 1 {
        return Ok((head, Opened::default())); // never used, or closed in order
    }
    let replay = Replay { disk, path, head };
    if !seeded("media-replay-unsynced") {
        disk.sync().map_err(|source| replay.io("sync before recovery", source))?; // REPLAY-2
    }
    disk.forget(head.log_at, head.log_len);
    let pending = replay.judge()?;
    Ok((replay.settle(&pending)?, pending.opened()))
}

/// Reads what the log holds beyond its place, and changes nothing: for those who only look.
pub(crate) fn pending(disk: &dyn Disk, path: &Path, head: Head) -> Result<Pending> {
    if head.log_ready != 1 || head.log_clean == 1 {
        return Ok(Pending::default());
    }
    Replay { disk, path, head }.judge()
}

struct Replay<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    head: Head,
}

/// What the chain holds, newest values only.
#[derive(Default)]
pub(crate) struct Pending {
    /// The log's bytes, turned so that they begin at the head's position.
    log: Vec<u8>,
    /// Where in them each line lies.
    lines: BTreeMap<u64, usize>,
    allocations: Vec<(u64, u64)>,
    /// Where the record to come will be written, from the head's position.
    position: u64,
    /// The number it will carry, and the checksum it will be chained to.
    sequence: u64,
    chain: u64,
    records: u64,
}

impl Pending {
    pub(crate) fn opened(&self) -> Opened {
        Opened { log_records: self.records, log_bytes: self.position, ..Opened::default() }
    }

    /// Makes a private copy of the file what recovery would make of the file.
    pub(crate) fn put(&self, mapping: &Mapping) {
        let ends = self.allocations.iter().map(|(at, len)| at + len);
        let end = ends.chain(self.lines.last_key_value().map(|(line, _)| (line + 1) * LINE)).max().unwrap_or(0);
        mapping.raise_limit(end.next_multiple_of(4096).min(mapping.reserve()));
        for (line, &at) in &self.lines {
            mapping.write(line * LINE, &self.log[at..at + LINE as usize]);
        }
    }
}

impl Replay<'_> {
    /// Reads the log and follows its chain; nothing is changed (REPLAY-1).
    fn judge(&self) -> Result<Pending> {
        let mut pending = Pending {
            log: self.read_log()?,
            sequence: self.head.log_sequence,
            chain: self.head.log_chain,
            ..Pending::default()
        };
        self.follow(&mut pending)?;
        self.look_behind(&pending)?;
        Ok(pending)
    }

    /// Steps 4 and 5.
    fn settle(mut self, pending: &Pending) -> Result<Head> {
        self.apply(pending)?;
        let file_len = self.disk.len().map_err(|source| self.io("measure", source))?;
        let head = &mut self.head;
        head.file_len = file_len.min(head.max);
        (head.log_head, head.log_sequence, head.log_chain) =
            ((head.log_head + pending.position) % head.log_len, pending.sequence, pending.chain);
        (head.log_synced, head.log_clean) = (pending.sequence, 1);
        head.incarnation += 1;
        let (at, bytes) = head.next();
        self.disk.write_sync_at(at, bytes).map_err(|source| self.io("write the media head", source))?;
        Ok(self.head)
    }

    fn io(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io { action, path: self.path.into(), source }
    }

    fn damaged(&self, position: u64, detail: String) -> Error {
        let at = self.head.log_at + (self.head.log_head + position) % self.head.log_len;
        Error::Damaged { path: self.path.into(), at, detail }
    }

    /// The whole log, turned so that it begins at the head's position.
    fn read_log(&self) -> Result<Vec<u8>> {
        let Head { log_at, log_len, log_head, .. } = self.head;
        let start = log_head % log_len;
        let mut log = vec![0; log_len as usize];
        let (first, second) = log.split_at_mut((log_len - start) as usize);
        let read = self.disk.read_at(log_at + start, first).and_then(|()| self.disk.read_at(log_at, second));
        read.map_err(|source| self.io("read the log", source))?;
        Ok(log)
    }

    /// Follows the chain from the head's position to the first break.
    fn follow(&self, pending: &mut Pending) -> Result<()> {
        while let Some(header) = record_at(&pending.log, pending.position, self.head.incarnation)
            && header.sequence == pending.sequence
            && (header.chain == pending.chain || seeded("media-no-chain"))
        {
            let start = (pending.position + HEADER_LEN) as usize;
            let payload = start..start + header.payload_len as usize;
            self.collect(pending, payload).map_err(|detail| self.damaged(pending.position, detail))?;
            pending.position += padded(header.payload_len);
            (pending.sequence, pending.chain) = (pending.sequence + 1, header.checksum.into());
            pending.records += 1;
        }
        Ok(())
    }

    /// Notes the runs of one record. What is wrong here was wrong when the checksum was made.
    fn collect(&self, pending: &mut Pending, payload: std::ops::Range<usize>) -> Result<(), String> {
        let Pending { log, lines, allocations, .. } = pending;
        let mut at = payload.start;
        let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().expect("eight bytes"));
        while at < payload.end {
            let (first, count) = run_parts(word(at));
            at += 8;
            let len = if count == 0 { 8 } else { count as usize * LINE_WORDS * 8 };
            if payload.end - at < len {
                return Err("a run of the log reaches beyond its record".into());
            }
            let bytes = if count == 0 { word(at) } else { count * LINE };
            let start = first * LINE; // 48 bits and 6: no overflow
            let end = start.checked_add(bytes).filter(|&end| end <= self.head.max);
            let Some(end) = end else { return Err(format!("the log names {start:#x} + {bytes}, beyond the store")) };
            if count == 0 {
                allocations.push((start, bytes));
            } else if self.overlaps_media(start, end) {
                return Err(format!("the log names {start:#x} + {bytes}, which belongs to the media itself"));
            }
            for line in 0..count {
                lines.insert(first + line, at + (line * LINE) as usize);
            }
            at += len;
        }
        Ok(())
    }

    fn overlaps_media(&self, start: u64, end: u64) -> bool {
        let Head { log_at, log_len, .. } = self.head;
        start < log_at + log_len && end > log_at || start < crate::HEAD_END && end > COPIES[0]
    }

    /// A break is the end of the log unless something proves that the broken record had been on the medium.
    fn look_behind(&self, pending: &Pending) -> Result<()> {
        let Pending { log, position, sequence, .. } = pending;
        let (position, sequence) = (*position, *sequence);
        let broken = |witness: String| {
            Err(self.damaged(
                position,
                format!("record {sequence} of the log is broken, though {witness} says that it was synced"),
            ))
        };
        if self.head.log_synced > sequence {
            return broken("the media head".into());
        }
        for later in (position..log.len() as u64).step_by(SECTOR as usize).skip(1) {
            if let Some(header) = record_at(log, later, self.head.incarnation)
                && header.sequence > sequence
                && header.synced > sequence
            {
                return broken(format!("record {}", header.sequence));
            }
        }
        Ok(())
    }

    fn apply(&self, pending: &Pending) -> Result<()> {
        let io = |source| self.io("replay the log", source);
        for &(at, len) in &pending.allocations {
            self.disk.allocate(at, len).map_err(io)?;
        }
        let mut bytes = Vec::new();
        let mut start = 0;
        for (&line, &at) in &pending.lines {
            if start * LINE + bytes.len() as u64 != line * LINE || bytes.len() >= 1 << 20 {
                self.put(start * LINE, &bytes)?;
                bytes.clear();
                start = line;
            }
            bytes.extend_from_slice(&pending.log[at..at + LINE as usize]);
        }
        self.put(start * LINE, &bytes)?;
        self.disk.sync().map_err(io)
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let io = |source| self.io("replay the log", source);
        let end = at + bytes.len() as u64;
        let len = self.disk.len().map_err(io)?;
        if end > len {
            self.disk.allocate(len, end.next_multiple_of(4096) - len).map_err(io)?;
        }
        self.disk.write_at(at, bytes).map_err(io)
    }
}

/// The whole record of that incarnation that begins at `position`, if one does (REC-1).
fn record_at(log: &[u8], position: u64, incarnation: u64) -> Option<RecordHeader> {
    let rest = log.get(position as usize..)?;
    let (header, payload) = RecordHeader::read_from_prefix(rest).ok()?;
    let life = header.incarnation == incarnation || seeded("media-no-chain");
    let sane = header.magic == RECORD_MAGIC && life && header.payload_len % 8 == 0;
    if !sane || header.payload_len == 0 || header.payload_len > payload.len() as u64 {
        return None;
    }
    let end = (HEADER_LEN + header.payload_len) as usize;
    if seeded("media-torn-record") {
        return Some(header);
    }
    (crc32c::crc32c(&rest[4..end]) == header.checksum).then_some(header)
}
