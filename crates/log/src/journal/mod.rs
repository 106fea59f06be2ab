//! The undo journal: the bytes that a transaction is about to overwrite, written down first.
//!
//! One transaction, a fence between the groups:
//!   1. [`Journal::log`] for each range about to change, all in one group if they are known in
//!      advance; [`Journal::fence`]
//!   2. the changes in place, flushed; [`Journal::log_ops`] for operations that follow the commit
//!   3. without operations [`Journal::retire`], with them [`Journal::commit`]; a fence orders, a
//!      barrier settles
//!   4. with operations: they are applied and flushed, fenced, then [`Journal::retire`] and a fence
//!
//! One 8-byte word is the state of a lane: `active(g)` -> commit -> `committed(g)` -> retire ->
//! `active(g+1)`, or straight from `active(g)` to `active(g+1)`. Entries of other generations are
//! invalid, so that retirement clears nothing.
//!
//! Invariants
//!   UNDO-1  An entry is valid only if its proof covers its bytes, the whole generation, the lane
//!           and its position.
//!   UNDO-2  No entry is written before the fence that follows the retirement of the generation it
//!           overwrites.
//!   UNDO-3  The commit word is stored only after a fence that follows the last operation entry.
//!   UNDO-4  Recovery retires every lane, idle ones too: whole entries after a torn one must never
//!           become valid.
//!   UNDO-5  A link is an entry like any other: it is valid in its generation only, and owns no
//!           space.
//!   UNDO-6  Recovery orders a commit word that a dead process left unflushed before it hands out
//!           the operations.
//!
//! Threads: a lane belongs to one thread at a time (`&mut self`). Elsewhere: the ranges to log and
//! the meaning of operations (`tx`, `heap`).

mod append;
pub(crate) mod layout;
mod recover;
#[cfg(test)]
mod tests;
mod walk;

pub use recover::{Outcome, Recovery, Undo};

use crate::{Error, Result};
use everbyte_media::{Checked, Damage, Length, Media, Ordered};
use layout::{ENTRIES_AT, FORMAT, LINE, LaneHeader, MAGIC, WORD_AT, lane_word};
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// Offset, from the lane's start, of bytes for the lane's owner (the holder of the lane): 56 of
/// them, 8-aligned.
pub const OWNER_AT: u64 = layout::OWNER_AT;
/// Number of the owner's bytes at [`OWNER_AT`].
pub const OWNER_BYTES: u64 = layout::OWNER_BYTES;
/// The shortest lane: header, lane word, one entry and the line kept for a link.
pub const LANE_BYTES_MIN: u64 = 256;
/// The shortest further segment: one entry and the line kept for a link.
pub const SEGMENT_BYTES_MIN: u64 = 128;

/// One lane of old bytes. See the [module](self) for the order of calls.
///
/// Appending 8 bytes costs one line; the fence is the caller's to share.
pub struct Journal {
    media: Media,
    /// Start of the lane.
    at: u64,
    salt: u64,
    generation: u64,
    /// The start value of this generation's checksums.
    seed: u64,
    /// The lane's own entries, then the segments of [`Journal::extend`].
    segments: Vec<Range<u64>>,
    /// Position of the next entry: a segment, an offset.
    segment: usize,
    next: u64,
    /// Entries of this generation, links left out.
    entries: u64,
    /// The digest for the commit word.
    digest: u64,
    /// Entries have been written that no fence follows yet.
    unfenced: bool,
    /// The lane word has been stored and no fence follows yet (UNDO-2).
    word_unfenced: bool,
    committed: bool,
    /// Bytes stored to the lane since it was opened.
    written: u64,
}

impl Journal {
    /// Makes `range` a fresh lane: header, lane word, zeroed entries, all flushed and not fenced
    /// (the caller's business, as is making the lane known).
    ///
    /// `salt` should differ between any two lanes that could ever lie in the same bytes: a random
    /// number will do.
    ///
    /// # Errors
    /// [`Error::BadRange`] unless the range is backed, 64-byte aligned and at least
    /// [`LANE_BYTES_MIN`] long.
    pub fn format(media: &Media, range: Range<u64>, salt: u64) -> Result<()> {
        check_lane(media, &range)?;
        let len = range.end - range.start;
        let mut header =
            LaneHeader { magic: MAGIC, format: FORMAT, salt, len: Length::new(len), ..LaneHeader::new_zeroed() };
        header = header.sealed();
        let mut first = [0; 128];
        first[..64].copy_from_slice(header.as_bytes());
        first[64..72].copy_from_slice(&lane_word(salt, 1, false, 0).to_le_bytes());
        let _section = media.section();
        media.copy_nt(range.start, &first);
        media.zero(range.start + ENTRIES_AT, len - ENTRIES_AT);
        media.flush(range.start + ENTRIES_AT, len - ENTRIES_AT);
        Ok(())
    }

    /// A lane in `generation`, nothing appended, no further segments.
    fn assemble(media: Media, range: Range<u64>, salt: u64, generation: u64) -> Journal {
        let own = range.start + ENTRIES_AT..range.end;
        let seed = layout::seed(salt, generation);
        Journal {
            media,
            at: range.start,
            salt,
            generation,
            seed,
            next: own.start,
            segments: vec![own],
            segment: 0,
            entries: 0,
            digest: 0,
            unfenced: false,
            word_unfenced: false,
            committed: false,
            written: 0,
        }
    }

    /// Offset of the lane.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The media of the lane.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// Bytes stored to the lane since it was opened: entries whole, and lane words.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether nothing has been appended since the lane was retired.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether entries have been appended that no [`Journal::fence`] follows: changes in place must
    /// wait.
    pub fn is_unfenced(&self) -> bool {
        self.unfenced
    }

    /// Fences: everything appended before is ordered before all later stores in place.
    #[inline]
    pub fn fence(&mut self) {
        self.media.fence_unless("log-journal-no-fence");
        self.fenced();
    }

    /// [`Journal::fence`], and the proof of it for [`Journal::commit`].
    #[inline]
    pub fn fence_ops(&mut self) -> Ordered<()> {
        let ordered = self.media.fence_after_unless("log-journal-no-fence", ());
        self.fenced();
        ordered
    }

    /// The caller has fenced or passed a barrier in this thread since the last call:
    /// [`Journal::fence`] is not needed.
    #[inline]
    pub fn fenced(&mut self) {
        self.unfenced = false;
        self.word_unfenced = false;
    }

    /// Stores and flushes the commit word: once it survives, recovery applies the operations and
    /// undoes nothing. The operations lie behind [`Journal::fence_ops`].
    ///
    /// Not fenced: the caller's fence orders it, its barrier settles it.
    ///
    /// # Panics
    /// If entries were appended after the last fence (UNDO-3), or twice without
    /// [`Journal::retire`].
    pub fn commit(&mut self, _ops: &Ordered<()>) {
        assert!(!self.unfenced, "UNDO-3: the operations must be fenced before the commit word");
        assert!(!self.committed, "a lane commits once a generation");
        self.put_word(lane_word(self.salt, self.generation, true, self.digest));
        self.committed = true;
    }

    /// Stores and flushes the next generation: all entries so far are invalid from then on.
    ///
    /// Not fenced. The fence or barrier that follows must come before the next append; if the
    /// caller announces it with [`Journal::fenced`], the next append costs no fence of its own
    /// (UNDO-2).
    pub fn retire(&mut self) {
        self.generation = (self.generation + 1) & layout::GENERATION;
        self.seed = layout::seed(self.salt, self.generation);
        self.put_word(lane_word(self.salt, self.generation, false, 0));
        (self.segment, self.next) = (0, self.segments[0].start);
        (self.entries, self.digest) = (0, 0);
        (self.unfenced, self.committed) = (false, false);
    }

    fn put_word(&mut self, word: u64) {
        let _section = self.media.section();
        self.media.rewrite(self.at + WORD_AT, &word.to_le_bytes());
        self.word_unfenced = true;
        self.written += 8;
    }

    /// Undoes everything appended, newest first, flushes it, and retires the lane. Ordered on
    /// return, not settled.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the entries cannot be read back; the lane is left for recovery then.
    ///
    /// # Panics
    /// After [`Journal::commit`]: a committed transaction cannot be undone.
    pub fn rollback(&mut self) -> Result<()> {
        assert!(!self.committed, "a committed lane cannot be rolled back");
        let found = walk::walk(&self.media, self.segments[0].clone(), self.salt, self.generation, 0..self.media.len())?;
        if found.entries != self.entries {
            return Err(Error::from(Damage::at(found.end, "an undo entry of the running transaction is gone")));
        }
        found.undo(&self.media);
        self.media.fence();
        self.retire();
        self.media.fence();
        self.fenced();
        Ok(())
    }

    /// Adds a segment for entries that do not fit into the lane. It stays the caller's: reserved
    /// until [`Journal::take_extra`], and never named by a word that outlives a generation
    /// (UNDO-5).
    ///
    /// # Errors
    /// [`Error::BadRange`] unless it is backed, 64-byte aligned and at least [`SEGMENT_BYTES_MIN`]
    /// long.
    pub fn extend(&mut self, range: Range<u64>) -> Result<()> {
        check_segment(&self.media, &range)?;
        self.segments.push(range);
        Ok(())
    }

    /// Gives back the segments of [`Journal::extend`]. Only after the fence that follows
    /// [`Journal::retire`].
    ///
    /// # Panics
    /// If entries are in use, or the retirement has not been fenced: recovery could still follow
    /// the link.
    pub fn take_extra(&mut self) -> Vec<Range<u64>> {
        assert!(self.entries == 0 && !self.word_unfenced, "UNDO-5: segments are given back by a lane at rest");
        self.segments.split_off(1)
    }

    /// Number of further segments of the lane.
    pub fn extra_count(&self) -> usize {
        self.segments.len() - 1
    }
}

/// Checks a range before the first byte is written to it.
fn check_lane(media: &Media, range: &Range<u64>) -> Result<()> {
    let bad = |detail| Err(Error::BadRange { start: range.start, end: range.end, detail });
    match range.end.checked_sub(range.start) {
        _ if !range.start.is_multiple_of(LINE) || !range.end.is_multiple_of(LINE) => {
            bad("a lane is made of whole 64-byte lines")
        }
        Some(len) if len >= LANE_BYTES_MIN && media.holds(range.start, len) => Ok(()),
        Some(len) if len >= LANE_BYTES_MIN => bad("the range is not backed"),
        _ => bad("a lane needs 256 bytes"),
    }
}

fn check_segment(media: &Media, range: &Range<u64>) -> Result<()> {
    let bad = |detail| Err(Error::BadRange { start: range.start, end: range.end, detail });
    match range.end.checked_sub(range.start) {
        _ if !range.start.is_multiple_of(LINE) || !range.end.is_multiple_of(LINE) => {
            bad("a segment is made of whole 64-byte lines")
        }
        Some(len) if len >= SEGMENT_BYTES_MIN && media.holds(range.start, len) => Ok(()),
        Some(len) if len >= SEGMENT_BYTES_MIN => bad("the range is not backed"),
        _ => bad("a segment needs 128 bytes"),
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let extra = self.extra_count();
        write!(
            f,
            "Journal(lane {:#x}, generation {}, {} entries, {extra} extra)",
            self.at, self.generation, self.entries
        )
    }
}
