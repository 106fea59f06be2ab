//! Recovery: the records of the log that no checkpoint has passed count again.
//!
//! 1. sync the file, so that bytes read now cannot be lost after recovery has acted on them
//! 2. follow the chain of records from the head's position to the first break
//! 3. search behind the break for a record that proves the broken one had been on the medium: that
//!    is damage
//!
//! If the `file` backend opens the store, the log continues, and the pages are left to the next
//! checkpoint:
//! 4. back the ranges that the records name; lines go to the private pages
//! 5. write and sync, at the break, a record that begins a new incarnation
//!
//! On every other backend, and in a log without space for that record:
//! 4. back the ranges that the records name, write the lines to their places, sync
//! 5. write and sync a head that says the log is empty and begins a new incarnation
//!
//! A crash may cut any step: the head still leads to the records, and replay writes lines, which is
//! idempotent.
//!
//! Invariants
//!   REPLAY-1  The file is not changed before the whole log has been examined.
//!   REPLAY-2  Only records that are themselves on the medium count.
//!   REPLAY-3  No record follows the break before an incarnation has begun there: bytes that a torn
//!             or lost record left behind the break join no chain.

use super::batch::{ALL, EpochBatch, bits, record_max};
use super::dirty_pages::{LINES_PER_PAGE, PAGE};
use super::disk::Disk;
use super::layout::{
    HEADER_LEN, LINE_WORDS, RECORD_MAGIC, RUN_WORDS, RecordHeader, SECTOR, padded, run_parts, words_mask,
};
use crate::bytes::mapping::Mapping;
use crate::museum::unless;
use crate::open::layout::{COPIES, HEAD_END, Head};
use crate::open::opened::Opened;
use crate::sums_agree;
use crate::{Damage, Error, LINE, Result, seeded};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use zerocopy::FromBytes;

/// Incarnations that a record can begin: a line number has 48 bits.
const INCARNATION_MAX: u64 = 1 << 47;

/// Replays the log to its place, on any backend, before anything is mapped.
pub(crate) fn replay(disk: &dyn Disk, path: &Path, head: Head) -> Result<(Head, Opened)> {
    match read(disk, path, head)? {
        None => Ok((head, Opened::default())),
        Some(content) => Ok((apply(disk, path, head, &content)?, content.opened())),
    }
}

/// Reads and examines the log; `None`: it is empty. The file is unchanged, and the content returned
/// is on the medium.
pub(crate) fn read(disk: &dyn Disk, path: &Path, head: Head) -> Result<Option<LogContent>> {
    if head.log_ready != 1 || head.log_clean == 1 {
        return Ok(None); // never used, or cleanly closed
    }
    let replay = Replay { disk, path, head };
    let synced = unless("media-replay-unsynced", || disk.sync()); // REPLAY-2
    synced.map_err(|source| replay.io("sync before recovery", source))?;
    disk.forget(head.log_at, head.log_room);
    Ok(Some(replay.examine()?))
}

/// Reads the log without a sync and without effect on the system's cache, for read-only openings.
pub(crate) fn peek(disk: &dyn Disk, path: &Path, head: Head) -> Result<LogContent> {
    if head.log_ready != 1 || head.log_clean == 1 {
        return Ok(LogContent::default());
    }
    Replay { disk, path, head }.examine()
}

/// Writes the log's content to its place. Returns the head that says the log is empty.
pub(crate) fn apply(disk: &dyn Disk, path: &Path, head: Head, content: &LogContent) -> Result<Head> {
    Replay { disk, path, head }.finish(content)
}

/// Raises the head of an older program to our format, before the log continues with records that
/// the older program does not know (HEAD-3). An empty log needs no such step: a head is written
/// before its first record.
pub(crate) fn raise_format(disk: &dyn Disk, path: &Path, head: &mut Head) -> Result<()> {
    if !head.is_older() || seeded("media-format-late") {
        return Ok(());
    }
    head.write_both(disk).map_err(|source| Error::Io { action: "write the media head", path: path.into(), source })
}

/// Begins a new life of the log behind its content: steps 4 and 5 without the private pages. The
/// caller has checked [`LogContent::may_continue`].
pub(crate) fn continue_log(disk: &dyn Disk, path: &Path, head: Head, content: &mut LogContent) -> Result<()> {
    let replay = Replay { disk, path, head };
    let io = |source| replay.io("replay the log", source);
    for &(at, len) in &content.allocations {
        disk.allocate(at, len).map_err(io)?;
    }
    let (end, len) = (content.end(), disk.len().map_err(io)?);
    if end > len {
        disk.allocate(len, end - len).map_err(io)?;
    }
    replay.expect_pages(content);
    unless("media-no-life", || replay.begin_life(content))
}

impl Replay<'_> {
    /// Writes the first record of the next life of the log.
    fn begin_life(&self, content: &mut LogContent) -> Result<()> {
        let mut life = EpochBatch::new(4096);
        life.put_allocation((content.incarnation + 1) * LINE, 0);
        let (checksum, bytes) = life.seal(RecordHeader {
            checksum: 0,
            magic: RECORD_MAGIC,
            sequence: content.sequence,
            incarnation: content.incarnation,
            chain: content.chain,
            synced: content.sequence,
            payload_len: 0,
            reserved: [0; 2],
        });
        let at = self.head.log_at + (self.head.log_head + content.position) % self.head.log_room;
        let written = self.disk.write_sync_at(at, bytes); // REPLAY-3
        written.map_err(|source| self.io("write the log", source))?;
        content.position += bytes.len() as u64;
        (content.sequence, content.chain) = (content.sequence + 1, checksum);
        content.incarnation += 1;
        Ok(())
    }
}

struct Replay<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    head: Head,
}

/// Adjacent lines, or words of one line, with the position of their bytes in the log.
struct Run {
    first: u64,
    count: u64,
    at: usize,
    /// The words of each line; all words in a run of several lines.
    mask: u8,
}

/// The content of the chain of records.
#[derive(Default)]
pub(crate) struct LogContent {
    /// The log's bytes from the head's position on, as far as they were needed.
    log: Vec<u8>,
    /// In the order of the log: a later run has the newer bytes.
    runs: Vec<Run>,
    allocations: Vec<(u64, u64)>,
    /// The place of the next record, counted from the head's position.
    pub position: u64,
    /// The next record's sequence, the checksum that it is chained to, and its incarnation.
    pub sequence: u64,
    pub chain: u64,
    pub incarnation: u64,
    records: u64,
}

impl LogContent {
    pub(crate) fn opened(&self) -> Opened {
        Opened { log_records: self.records, log_bytes: self.position, ..Opened::default() }
    }

    /// Whether the log can continue behind its content: the record that begins a life fits.
    pub(crate) fn may_continue(&self, head: &Head) -> bool {
        self.position + padded(16) <= head.log_room && self.incarnation < INCARNATION_MAX
    }

    /// One past the last byte that the log names, in whole pages.
    fn end(&self) -> u64 {
        let backed = self.allocations.iter().map(|(at, len)| at + len);
        let lines = self.runs.iter().map(|run| (run.first + run.count) * LINE);
        backed.chain(lines).max().unwrap_or(0).next_multiple_of(4096)
    }

    /// Restores the private pages as they were when the log's last record was written.
    pub(crate) fn put(&self, mapping: &Mapping) {
        mapping.raise_limit(self.end().min(mapping.reserve()));
        for run in &self.runs {
            if run.mask == ALL {
                mapping.write(run.first * LINE, &self.log[run.at..run.at + (run.count * LINE) as usize]);
            } else {
                for (word, bytes) in bits(run.mask).zip(self.log[run.at..].chunks_exact(8)) {
                    mapping.write(run.first * LINE + word * 8, bytes);
                }
            }
        }
    }

    /// Calls `each` with every line in the log.
    pub(crate) fn lines(&self, mut each: impl FnMut(u64)) {
        self.runs.iter().for_each(|run| (run.first..run.first + run.count).for_each(&mut each));
    }
}

/// Bytes of the log read at once.
const STEP: u64 = 1 << 20;
/// Bytes of the log that are announced to the disk at once.
const PREFETCH: u64 = 8 << 20;
/// The largest gap, in pages, between two wanted pages that are read together with it.
const GAP: u64 = 4;

/// A line, or some of its words, in the log.
struct LoggedLine {
    number: u64,
    at: usize,
    mask: u8,
}

impl LoggedLine {
    fn page(&self) -> u64 {
        self.number / LINES_PER_PAGE
    }

    fn put_into(&self, target: &mut [u8], log: &[u8]) {
        for (word, bytes) in bits(self.mask).zip(log[self.at..].chunks_exact(8)) {
            target[word as usize * 8..][..8].copy_from_slice(bytes);
        }
    }
}

impl Replay<'_> {
    /// Reads the log and follows its chain; the file is not changed (REPLAY-1).
    fn examine(&self) -> Result<LogContent> {
        let mut content = LogContent {
            sequence: self.head.log_sequence,
            chain: self.head.log_chain,
            incarnation: self.head.incarnation,
            // Capacity only: memory is used as the log is read.
            log: Vec::with_capacity(self.head.log_room as usize),
            ..LogContent::default()
        };
        self.follow(&mut content)?;
        self.search_behind(&mut content)?;
        Ok(content)
    }

    fn finish(mut self, content: &LogContent) -> Result<Head> {
        self.write_lines(content)?;
        let file_len = self.disk.len().map_err(|source| self.io("measure", source))?;
        let disk = self.disk;
        let head = &mut self.head;
        head.file_len = file_len.min(head.max);
        (head.log_head, head.log_sequence, head.log_chain) =
            ((head.log_head + content.position) % head.log_room, content.sequence, content.chain);
        (head.log_synced, head.log_clean) = (content.sequence, 1);
        head.incarnation = content.incarnation + 1;
        // Both: another backend may change pages from now on, and an older head would replay the
        // log over them.
        head.write_both(disk).map_err(|source| self.io("write the media head", source))?;
        Ok(self.head)
    }

    fn io(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io { action, path: self.path.into(), source }
    }

    fn damaged(&self, position: u64, detail: String) -> Error {
        let at = self.head.log_at + (self.head.log_head + position) % self.head.log_room;
        Error::from(Damage::at(at, detail).of_file(self.path))
    }

    /// Reads until the log's first `end` bytes are in `log`; the ring's length is the limit.
    fn read_to(&self, log: &mut Vec<u8>, end: u64) -> Result<()> {
        let Head { log_at, log_room, log_head, .. } = self.head;
        while (log.len() as u64) < end.min(log_room) {
            let from = log.len() as u64;
            let place = (log_head + from) % log_room;
            // Up to the ring's end, or to the position where reading began.
            let step = STEP.min(log_room - place).min(log_room - from);
            if from.is_multiple_of(PREFETCH) {
                // The disk can read further while this thread waits for one step.
                self.disk.expect(log_at + place, PREFETCH.min(log_room - place));
            }
            log.resize((from + step) as usize, 0);
            let read = self.disk.read_at(log_at + place, &mut log[from as usize..]);
            let named = |source: io::Error| {
                io::Error::new(source.kind(), format!("{source} (offset {:#x} + {step})", log_at + place))
            };
            read.map_err(|source| self.io("read the log", named(source)))?;
        }
        Ok(())
    }

    /// The header of the record that begins at `position`, if the record is whole and of one of the
    /// incarnations (REC-1).
    fn record_at(
        &self,
        log: &mut Vec<u8>,
        position: u64,
        incarnations: RangeInclusive<u64>,
    ) -> Result<Option<RecordHeader>> {
        self.read_to(log, position + HEADER_LEN)?;
        let header = log.get(position as usize..).and_then(|rest| RecordHeader::read_from_prefix(rest).ok());
        let Some((header, _)) = header else { return Ok(None) };
        let life = incarnations.contains(&header.incarnation) || seeded("media-no-chain");
        let sane = header.magic == RECORD_MAGIC && life && header.payload_len % 8 == 0;
        // A longer record is none of a program's, and a search must not read all of it.
        let most = record_max(self.head.log_room).min(self.head.log_room - position) - HEADER_LEN;
        if !sane || header.payload_len == 0 || header.payload_len > most {
            return Ok(None);
        }
        let end = position + HEADER_LEN + header.payload_len;
        self.read_to(log, end)?;
        let whole = sums_agree(crc32c::crc32c(&log[position as usize + 4..end as usize]), header.checksum);
        Ok((whole || seeded("media-torn-record")).then_some(header))
    }

    /// Follows the chain from the head's position to the first break.
    fn follow(&self, content: &mut LogContent) -> Result<()> {
        while let Some(header) =
            self.record_at(&mut content.log, content.position, content.incarnation..=content.incarnation)?
            && header.sequence == content.sequence
            && (header.chain == content.chain || seeded("media-no-chain"))
        {
            let start = (content.position + HEADER_LEN) as usize;
            let payload = start..start + header.payload_len as usize;
            self.collect(content, payload).map_err(|detail| self.damaged(content.position, detail))?;
            content.position += padded(header.payload_len);
            (content.sequence, content.chain) = (content.sequence + 1, header.checksum.into());
            content.records += 1;
        }
        Ok(())
    }

    /// Collects the runs of one record. Its checksum is right: an error found here was written by a
    /// program.
    fn collect(&self, content: &mut LogContent, payload: std::ops::Range<usize>) -> Result<(), String> {
        let LogContent { log, runs, allocations, incarnation, .. } = content;
        let mut at = payload.start;
        let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().expect("eight bytes"));
        while at < payload.end {
            let (first, count) = run_parts(word(at));
            at += 8;
            let mask = words_mask(count);
            let (len, count) = match (mask, count) {
                (Some(mask), _) if mask == 0 || count != RUN_WORDS | u64::from(mask) => {
                    return Err(format!("a run of the log has no count: {count:#x}"));
                }
                (Some(mask), _) => (mask.count_ones() as usize * 8, 1),
                (None, 0) => (8, 0),
                (None, count) => (count as usize * LINE_WORDS * 8, count),
            };
            if payload.end - at < len {
                return Err("a run of the log reaches beyond its record".into());
            }
            let bytes = if count == 0 { word(at) } else { count * LINE };
            if bytes == 0 {
                if first <= *incarnation || first > INCARNATION_MAX {
                    return Err(format!("the log begins incarnation {first} after {incarnation}"));
                }
                *incarnation = first;
                at += len;
                continue;
            }
            let start = first * LINE; // 48 bits and 6: no overflow
            let end = start.checked_add(bytes).filter(|&end| end <= self.head.max);
            let Some(end) = end else { return Err(format!("the log names {start:#x} + {bytes}, beyond the store")) };
            let parts = self.disk.parts(start, bytes);
            if parts.iter().any(|(_, file)| file.is_none()) {
                return Err(format!("the log names {start:#x} + {bytes}, for which the map of chunks has no place"));
            }
            if count == 0 {
                allocations.push((start, bytes));
            } else if self.overlaps_media(start, end) {
                return Err(format!("the log names {start:#x} + {bytes}, which belongs to the media itself"));
            } else {
                runs.push(Run { first, count, at, mask: mask.unwrap_or(ALL) });
            }
            at += len;
        }
        Ok(())
    }

    fn overlaps_media(&self, start: u64, end: u64) -> bool {
        let Head { log_at, log_len, .. } = self.head;
        start < log_at + log_len && end > log_at || start < HEAD_END && end > COPIES[0]
    }

    /// A break is the end of the log unless a later record proves that the broken one had been on
    /// the medium. Records lie side by side: a stretch much longer than any record in which none
    /// begins ends the search.
    ///
    /// A record of a later life is a proof, too: it was written after the record that began the
    /// life was on the medium. A later record at the break itself shows that the head is older than
    /// the log: a write of the head was lost, or its newer copy has rotted.
    fn search_behind(&self, content: &mut LogContent) -> Result<()> {
        let (position, sequence, incarnation) = (content.position, content.sequence, content.incarnation);
        let broken = |witness: String| {
            Err(self.damaged(
                position,
                format!("record {sequence} of the log is broken, though {witness} says that it was synced"),
            ))
        };
        if self.head.log_synced > sequence {
            return broken("the media head".into());
        }
        let stretch = 4 * record_max(self.head.log_room);
        let lives = incarnation..=if seeded("media-witness-of-one-life") { incarnation } else { INCARNATION_MAX };
        let (mut later, mut until) = (position, position + stretch);
        while later < until.min(self.head.log_room) {
            if let Some(header) = self.record_at(&mut content.log, later, lives.clone())?
                && header.sequence > sequence
            {
                if header.synced > sequence {
                    return broken(format!("record {}", header.sequence));
                }
                until = later + padded(header.payload_len) + stretch;
            }
            later += SECTOR;
        }
        Ok(())
    }

    fn write_lines(&self, content: &LogContent) -> Result<()> {
        let io = |source| self.io("replay the log", source);
        for &(at, len) in &content.allocations {
            self.disk.allocate(at, len).map_err(io)?;
        }
        let whole = |run: &Run, line| LoggedLine {
            number: run.first + line,
            at: run.at + (line * LINE) as usize,
            mask: run.mask,
        };
        let mut lines: Vec<LoggedLine> =
            content.runs.iter().flat_map(|run| (0..run.count).map(move |line| whole(run, line))).collect();
        // The sort is stable: newer bytes of a line stay behind older ones.
        lines.sort_by_key(|line| line.number);
        self.expect_pages(content);
        let file_len = self.disk.len().map_err(io)?;
        let mut page = [0; PAGE as usize];
        // Bytes to be written, and their offset.
        let (mut start, mut bytes) = (0, Vec::new());
        // Page by page: if only some words of a line are in the log, the page is read first, and
        // whole lines are written back.
        for lines in lines.chunk_by(|one, next| one.page() == next.page()) {
            let page_at = lines[0].page() * PAGE;
            let partial = lines.iter().any(|line| line.mask != ALL);
            if partial {
                let there = file_len.saturating_sub(page_at).min(PAGE) as usize;
                page[there..].fill(0);
                self.disk.read_at(page_at, &mut page[..there]).map_err(io)?;
            }
            for line in lines {
                line.put_into(&mut page[(line.number % LINES_PER_PAGE * LINE) as usize..], &content.log);
            }
            for run in lines.chunk_by(|one, next| partial || next.number <= one.number + 1) {
                let (first, end) = (run[0].number * LINE, (run[run.len() - 1].number + 1) * LINE);
                if start + bytes.len() as u64 != first || bytes.len() >= 1 << 20 {
                    self.put(start, &bytes)?;
                    bytes.clear();
                    start = first;
                }
                bytes.extend_from_slice(&page[(first - page_at) as usize..(end - page_at) as usize]);
            }
        }
        self.put(start, &bytes)?;
        self.disk.sync().map_err(io)
    }

    /// Announces the pages that the log names to the disk, in runs: most of them are read soon.
    fn expect_pages(&self, content: &LogContent) {
        let mut pages: Vec<(u64, u64)> = content
            .runs
            .iter()
            .map(|run| (run.first / LINES_PER_PAGE, (run.first + run.count - 1) / LINES_PER_PAGE))
            .collect();
        pages.sort_unstable();
        let mut pages = pages.into_iter().peekable();
        while let Some((first, mut last)) = pages.next() {
            while let Some(next) = pages.next_if(|next| next.0 <= last + GAP) {
                last = last.max(next.1);
            }
            self.disk.expect(first * PAGE, (last + 1 - first) * PAGE);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use zerocopy::IntoBytes;

    /// A disk on which a record of this length seems to begin in each sector.
    struct Headers {
        payload_len: u64,
        read: AtomicU64,
    }

    impl Disk for Headers {
        fn read_at(&self, _at: u64, into: &mut [u8]) -> io::Result<()> {
            if self.read.fetch_add(into.len() as u64, Relaxed) > 8 << 20 {
                return Err(io::Error::other("the search goes too far"));
            }
            let (magic, payload_len) = (RECORD_MAGIC, self.payload_len);
            let (checksum, sequence, incarnation, chain, synced) = (0, 1, 0, 0, 0);
            let header =
                RecordHeader { checksum, magic, sequence, incarnation, chain, synced, payload_len, reserved: [0; 2] };
            for sector in into.chunks_exact_mut(SECTOR as usize) {
                sector[..HEADER_LEN as usize].copy_from_slice(header.as_bytes());
            }
            Ok(())
        }
        fn write_at(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
            unreachable!("the log is only examined")
        }
        fn write_sync_at(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
            unreachable!("the log is only examined")
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(2 << 30)
        }
        fn allocate(&self, _at: u64, _len: u64) -> io::Result<()> {
            unreachable!("the log is only examined")
        }
        fn punch(&self, _at: u64, _len: u64) {}
        fn mappable(&self) -> BorrowedFd<'_> {
            unreachable!("the log is only examined")
        }
    }

    /// A small file can claim a log of any length with records as long, and would take minutes and
    /// the memory of the whole log.
    #[test]
    fn a_search_reads_no_record_that_is_longer_than_any_program_writes() {
        const ROOM: u64 = 1 << 30;
        let mut head = Head::new(4 << 30, 64 << 10, 1 << 30, ROOM);
        (head.log_ready, head.log_room, head.log_sequence, head.log_synced) = (1, ROOM, 1, 1);
        let longest = record_max(ROOM) - HEADER_LEN;
        for payload_len in [longest + 8, ROOM - (8 << 20)] {
            let disk = Headers { payload_len, read: AtomicU64::new(0) };
            let content = peek(&disk, Path::new("hostile"), head).unwrap();
            assert_eq!((content.position, content.records), (0, 0));
            assert!(disk.read.into_inner() <= 5 << 20);
        }
    }

    /// The head says that a record was synced which the log does not have: a checkpoint beside its
    /// writer knew of it. The record that the head awaits next may be missing.
    #[test]
    fn a_record_that_the_head_calls_synced_is_missed() {
        const ROOM: u64 = 1 << 20;
        let mut head = Head::new(4 << 30, 64 << 10, 1 << 30, ROOM);
        (head.log_ready, head.log_room, head.log_sequence, head.log_synced) = (1, ROOM, 5, 5);
        let disk = Headers { payload_len: 0, read: AtomicU64::new(0) };
        assert!(peek(&disk, Path::new("rotten"), head).is_ok());
        for synced in [6, 7] {
            head.log_synced = synced;
            let missed = peek(&disk, Path::new("rotten"), head).map(|_| ()).unwrap_err();
            assert!(missed.to_string().contains("record 5 of the log is broken"), "{missed}");
        }
    }

    /// Records that a torn one has left behind it join no chain of the life that begins
    /// (REPLAY-3), and the head tells what had been synced.
    #[test]
    fn a_log_that_was_written_to_its_place_begins_another_life() {
        const ROOM: u64 = 64 << 10;
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut head = Head::new(1 << 20, 1 << 20, 64 << 10, ROOM);
        (head.log_ready, head.log_room, head.log_sequence, head.log_synced, head.incarnation) = (1, ROOM, 5, 5, 3);
        let mut batch = EpochBatch::new(4096);
        batch.put_allocation(512 << 10, 4096);
        let header = RecordHeader {
            checksum: 0,
            magic: RECORD_MAGIC,
            sequence: 5,
            incarnation: 3,
            chain: head.log_chain,
            synced: 5,
            payload_len: 0,
            reserved: [0; 2],
        };
        let (checksum, bytes) = batch.seal(header);
        Disk::write_at(&file, head.log_at, bytes).unwrap();
        let (after, opened) = replay(&file, Path::new("log"), head).unwrap();
        assert_eq!((opened.log_records, after.log_clean, after.incarnation), (1, 1, 4));
        assert_eq!((after.log_sequence, after.log_synced, after.log_chain), (6, 6, checksum));
        assert_eq!(after.log_head, bytes.len() as u64);
        let again = Head { log_clean: 0, ..after };
        assert_eq!(peek(&file, Path::new("log"), again).unwrap().records, 0);
    }
}
