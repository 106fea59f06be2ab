//! Appending: old bytes, old words, operations, links. Each entry is one whole line; the bytes of
//! long ranges are written past the cache.

use super::Journal;
use super::layout::{BULK_INLINE, BulkData, EntryKind, INLINE, JournalEntry, LINE, fold, place};
use crate::{Error, Result};
use everbyte_media::Length;
use zerocopy::{FromZeros, IntoBytes};

/// Old bytes are copied to the log through a buffer of this size: the checksum takes that much at
/// once, in three parallel streams of 256 bytes.
const CHUNK: usize = 768;

impl Journal {
    /// Appends the present bytes of `at..at+len`. The caller stores nothing there before the next
    /// [`Journal::fence`].
    ///
    /// Up to 48 bytes take one line; longer ranges one line and the bytes after the first 32 in
    /// whole lines.
    ///
    /// # Errors
    /// [`Error::Full`] if the lane has no space: [`Journal::extend`] it and call again (nothing has
    /// been appended). [`Error::Media`] if the range is not backed.
    #[inline]
    pub fn log(&mut self, at: u64, len: u64) -> Result<()> {
        self.media.check_range(at, len)?;
        if len > INLINE {
            return self.log_bulk(at, len);
        }
        if len == 0 {
            return Ok(());
        }
        let mut entry = JournalEntry::new_zeroed();
        entry.place = place(EntryKind::Range, at, len);
        if len == 8 && at.is_multiple_of(8) {
            entry.data[..8].copy_from_slice(&self.media.load(at).to_le_bytes());
        } else {
            self.media.read(at, &mut entry.data[..len as usize]);
        }
        self.append(entry)?;
        Ok(())
    }

    /// Appends the words found at `offsets` (multiples of 8), three to a line: for pointers known
    /// in advance.
    ///
    /// # Errors
    /// As [`Journal::log`]. When full, some may have been appended: appending them again is
    /// harmless.
    ///
    /// # Panics
    /// If an offset is not a multiple of 8.
    pub fn log_words(&mut self, offsets: &[u64]) -> Result<()> {
        for three in offsets.chunks(3) {
            let mut entry = JournalEntry::new_zeroed();
            for (&at, pair) in three.iter().zip(entry.data.chunks_exact_mut(16)) {
                self.media.check_range(at, 8)?;
                pair[..8].copy_from_slice(&at.to_le_bytes());
                pair[8..].copy_from_slice(&self.media.load(at).to_le_bytes());
            }
            entry.place = place(EntryKind::Words, 0, 16 * three.len() as u64);
            self.append(entry)?;
        }
        Ok(())
    }

    /// Appends operations, six to a line. Only the commit word makes them valid, and it needs a
    /// fence after them.
    ///
    /// # Errors
    /// As [`Journal::log`]: all are appended or none.
    pub fn log_ops(&mut self, ops: &[u64]) -> Result<()> {
        if (ops.len() as u64).div_ceil(6) > self.spaces().map(|space| space / LINE).sum() {
            return Err(self.full(ops.len() as u64 * 8));
        }
        for six in ops.chunks(6) {
            let mut entry = JournalEntry::new_zeroed();
            for (op, slot) in six.iter().zip(entry.data.chunks_exact_mut(8)) {
                slot.copy_from_slice(&op.to_le_bytes());
            }
            entry.place = place(EntryKind::Ops, 0, 8 * six.len() as u64);
            let proof = self.append(entry)?;
            self.digest = digest(self.digest, proof);
        }
        Ok(())
    }

    /// Bytes left for entries, segment by segment from the current one on.
    fn spaces(&self) -> impl Iterator<Item = u64> + '_ {
        let here = (self.segments[self.segment].end - LINE).saturating_sub(self.next);
        let later = self.segments[self.segment + 1..].iter();
        std::iter::once(here).chain(later.map(|segment| segment.end - segment.start - LINE))
    }

    #[cold]
    fn full(&self, needed: u64) -> Error {
        Error::Full { at: self.at, needed: needed.next_multiple_of(LINE) + 2 * LINE }
    }

    /// Proves an entry and writes it to the next line.
    #[inline]
    fn append(&mut self, entry: JournalEntry) -> Result<u64> {
        let at = self.slot(LINE)?;
        let proof = self.write(at, entry);
        self.next = at + LINE;
        self.entries += 1;
        Ok(proof)
    }

    #[inline]
    fn write(&mut self, at: u64, mut entry: JournalEntry) -> u64 {
        debug_assert!(!self.committed, "UNDO-3: nothing is appended between commit and retirement");
        entry.proof = entry.proof(self.seed, self.generation, at);
        let _section = self.media.section();
        self.media.rewrite(at, entry.as_bytes());
        self.unfenced = true;
        self.written += LINE;
        entry.proof
    }

    /// Offset of the next entry, at least `least` bytes before the segment's last line, which is
    /// the link's.
    #[inline]
    fn slot(&mut self, least: u64) -> Result<u64> {
        if self.word_unfenced {
            self.catch_up();
        }
        if self.next + least <= self.segments[self.segment].end - LINE {
            return Ok(self.next);
        }
        self.follow()
    }

    /// Fences after a retirement whose caller did not announce a fence (UNDO-2).
    #[cold]
    fn catch_up(&mut self) {
        self.media.fence_unless("log-journal-reuse-unfenced");
        self.word_unfenced = false;
    }

    /// Writes the link to the next segment and goes on there.
    #[cold]
    fn follow(&mut self) -> Result<u64> {
        let Some(next) = self.segments.get(self.segment + 1).cloned() else { return Err(self.full(LINE)) };
        let mut entry = JournalEntry::new_zeroed();
        entry.place = place(EntryKind::Link, next.start, 8);
        entry.data[..8].copy_from_slice(&(next.end - next.start).to_le_bytes());
        // The walk looks for the next entry behind this segment's last entry, not only in its last
        // line.
        let at = self.next;
        self.write(at, entry);
        (self.segment, self.next) = (self.segment + 1, next.start);
        Ok(next.start)
    }

    /// A long range, cut where a segment ends.
    fn log_bulk(&mut self, at: u64, len: u64) -> Result<()> {
        if !self.room_bulk(len) {
            return Err(self.full(len));
        }
        let (mut at, mut left) = (at, len);
        while left > 0 {
            let here = self.slot(LINE)?;
            let space = self.segments[self.segment].end - LINE - here;
            let piece = left.min(space - LINE + BULK_INLINE);
            self.bulk_piece(here, at, piece);
            (at, left) = (at + piece, left - piece);
        }
        Ok(())
    }

    fn room_bulk(&self, len: u64) -> bool {
        let pieces = self.spaces().filter(|&space| space >= LINE).map(|space| space - LINE + BULK_INLINE);
        pieces.fold(len, u64::saturating_sub) == 0
    }

    fn bulk_piece(&mut self, here: u64, at: u64, len: u64) {
        let mut data = BulkData { len: Length::new(len), ..BulkData::new_zeroed() };
        let first = len.min(BULK_INLINE);
        self.media.read(at, &mut data.first[..first as usize]);
        let mut chunk = [0; CHUNK];
        let mut done = first;
        let mut to = here + LINE;
        while done < len {
            let step = (len - done).min(CHUNK as u64);
            let padded = step.next_multiple_of(LINE);
            self.media.read(at + done, &mut chunk[..step as usize]);
            chunk[step as usize..padded as usize].fill(0);
            data.rest_sum = crc32c::crc32c_append(data.rest_sum, &chunk[..step as usize]);
            let _section = self.media.section();
            self.media.copy_nt(to, &chunk[..padded as usize]);
            self.written += padded;
            (done, to) = (done + step, to + padded);
        }
        let mut entry = JournalEntry::new_zeroed();
        entry.place = place(EntryKind::Bulk, at, INLINE);
        entry.data.copy_from_slice(data.as_bytes());
        self.write(here, entry);
        self.next = to;
        self.entries += 1;
    }
}

/// Folds one operation line's proof into the digest of the commit word.
#[inline]
pub(super) fn digest(before: u64, proof: u64) -> u64 {
    fold(before.rotate_left(7) ^ proof, proof.rotate_left(32))
}
