//! Recovery of a lane after a crash, to an empty lane.
//!
//! Steps, each idempotent:
//!   1. [`Journal::recover`] reads header, lane word and entries; nothing is changed
//!   2. by [`Outcome`]: `Undo` -> [`Recovery::undo`]; `Redo` -> the owner checks and applies
//!      [`Recovery::ops`]
//!   3. [`Recovery::finish`] fences that, retires the lane, fences, and hands out the [`Journal`]

use super::layout::{COMMITTED, ENTRIES_AT, FORMAT, GENERATION, LaneHeader, MAGIC, WORD_AT, lane_word};
use super::walk::{JournalWalk, walk};
use super::{Journal, check_lane};
use crate::{Error, Result};
use everbyte_media::{Checked, Damage, Format, Media, seeded};
use std::ops::Range;

/// The state of a lane's last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No transaction was running.
    Idle,
    /// It did not commit: the old bytes go back.
    Undo,
    /// It committed: its operations are to be applied, which may be repeated.
    Redo,
}

/// One range that undoing will restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    /// Offset of the bytes.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A lane with the entries that a crash left.
#[must_use = "a lane that is not finished may bring dead entries to life"]
pub struct Recovery {
    media: Media,
    range: Range<u64>,
    salt: u64,
    generation: u64,
    committed: bool,
    walk: JournalWalk,
}

impl Journal {
    /// Reads the lane at `range` and changes nothing. Entries must target `allowed`, and further
    /// segments lie in it.
    ///
    /// # Errors
    /// [`Error::NotALog`], [`Error::NewerFormat`], [`Error::BadRange`]; [`Error::Damaged`] if the
    /// lane contradicts itself in a way that no crash explains.
    pub fn recover(media: &Media, range: Range<u64>, allowed: Range<u64>) -> Result<Recovery> {
        let (header, word) = read_lane(media, &range)?;
        let at = range.start;
        let (committed, generation, salt) = (word & COMMITTED != 0, word & GENERATION, header.salt);
        if !committed && word != lane_word(salt, generation, false, 0) {
            return Err(Error::from(Damage::at(at + WORD_AT, "the lane word fails its check bits")));
        }
        let walk = walk(media, at + ENTRIES_AT..range.end, salt, generation, allowed)?;
        if committed && word != lane_word(salt, generation, true, walk.digest) {
            return Err(Error::from(Damage::at(at + WORD_AT, "the commit word does not prove the operations found")));
        }
        if committed {
            // Operations are applied because of this word: it must survive if their changes do
            // (UNDO-6).
            media.reflush(at + WORD_AT, 8);
            media.fence();
        }
        Ok(Recovery { media: media.clone(), range, salt, generation, committed, walk })
    }
}

/// The header of a lane, and its word.
fn read_lane(media: &Media, range: &Range<u64>) -> Result<(LaneHeader, u64)> {
    check_lane(media, range)?;
    let at = range.start;
    let header: LaneHeader = media.get(at);
    if header.magic != MAGIC {
        return Err(Error::NotALog { what: "undo journal", at });
    }
    if !header.checksum_agrees() {
        return Err(Error::from(Damage::at(at, "the lane's header fails its checksum")));
    }
    if header.format > FORMAT {
        let (found, known) = (header.format, FORMAT);
        return Err(Error::NewerFormat { what: "undo journal", at, format: Format::new(found, known) });
    }
    if header.len != range.end - range.start {
        return Err(Error::from(Damage::at(at, "the length of the lane differs from its owner's")));
    }
    Ok((header, media.load(at + WORD_AT)))
}

impl Journal {
    /// Opens the lane at `range` of an object that other processes use. The caller calls
    /// [`Journal::refresh`] or [`Journal::recover`] before the first append.
    ///
    /// # Errors
    /// As [`Journal::recover`], for the lane's header.
    pub fn join(media: &Media, range: Range<u64>) -> Result<Journal> {
        let (header, word) = read_lane(media, &range)?;
        Ok(Journal::assemble(media.clone(), range, header.salt, word & GENERATION))
    }

    /// Reads the lane's state after another process has retired it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not retired.
    ///
    /// # Panics
    /// If this process has a transaction in it.
    pub fn refresh(&mut self) -> Result<()> {
        assert!(self.entries == 0 && self.segments.len() == 1, "UNDO-5: a lane that is handed over is at rest");
        let word = self.media.load(self.at + WORD_AT);
        let generation = word & GENERATION;
        if word != lane_word(self.salt, generation, false, 0) {
            return Err(Error::from(Damage::at(self.at + WORD_AT, "the lane was not left at rest")));
        }
        *self = Journal::assemble(self.media.clone(), self.at..self.segments[0].end, self.salt, generation);
        Ok(())
    }
}

impl Recovery {
    /// The recovery that the lane needs.
    pub fn outcome(&self) -> Outcome {
        match (self.committed, self.walk.entries) {
            (true, _) => Outcome::Redo,
            (false, 0) => Outcome::Idle,
            (false, _) => Outcome::Undo,
        }
    }

    /// The operations of a committed transaction, in the order they were appended; empty otherwise.
    /// The owner validates each before it applies any.
    pub fn ops(&self) -> &[u64] {
        if self.committed { &self.walk.ops } else { &[] }
    }

    /// The ranges that [`Recovery::undo`] will restore, newest first; empty unless the outcome is
    /// `Undo`.
    pub fn undo_entries(&self) -> impl Iterator<Item = Undo> + '_ {
        let pieces = if self.committed { &[] } else { &self.walk.pieces[..] };
        pieces.iter().rev().map(|piece| Undo { at: piece.target, len: piece.len })
    }

    /// Puts the old bytes back and flushes them, unless the transaction committed. Not fenced; may
    /// be repeated.
    pub fn undo(&self) {
        if !self.committed {
            self.walk.undo(&self.media);
        }
    }

    /// Fences the undone or applied changes, retires the lane and fences that. Ordered on return.
    ///
    /// The caller has called [`Recovery::undo`], or applied and flushed the operations.
    pub fn finish(self) -> Journal {
        let idle = self.outcome() == Outcome::Idle;
        let mut journal = Journal::assemble(self.media, self.range, self.salt, self.generation);
        if !idle {
            journal.media.fence_unless("log-journal-finish-unfenced");
        }
        if !(idle && seeded("log-journal-idle-unretired")) {
            journal.retire(); // UNDO-4
        }
        journal.fence();
        journal
    }
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recovery(lane {:#x}, {:?}, {} entries)", self.range.start, self.outcome(), self.walk.entries)
    }
}
