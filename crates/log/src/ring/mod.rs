//! The word log: a ring of 64-bit words between one producer and one consumer (Mnemosyne's raw word
//! log).
//!
//! An append is one record: a first word with length and hash, then the payload. Two forms, one
//! API:
//!   torn-bit  bit 63 of every ring word is the parity of the lap in which it was written; one
//!   fence makes records recoverable
//!   base      whole words, a fence, the tail word, a fence
//!
//! Steps of a record: [`Producer::append`] writes it past the cache -> [`Producer::flush`] orders
//! it (or [`Producer::barrier`] settles it) and makes it visible to the consumer ->
//! [`Consumer::next`] -> the consumer makes the changes that depend on the record durable ->
//! [`Consumer::truncate`].
//!
//! Invariants
//!   RING-1  The durable head is ordered before the producer learns that the space behind it is
//!           free.
//!   RING-2  Before an append, every free word carries the opposite of the sense it will get
//!           (torn-bit form): recovery inverts the words of torn records, fenced, before the first
//!           append.
//!   RING-3  The ring is never completely full, so a scan always meets a word of the opposite
//!           sense.
//!   RING-4  The tail word is stored only after a fence that follows the words it covers (base
//!           form).
//!   RING-5  A record is valid only whole: its length fits, every word has its sense, its hash
//!           covers payload and position.
//!
//! Threads: one producer and one consumer, each in any thread, without locks. They share two
//! volatile positions, each written by one of them. Elsewhere: the meaning of the words (`tx`).

mod codec;
mod consumer;
mod layout;
mod producer;
mod recover;
#[cfg(test)]
mod tests;

pub use consumer::Consumer;
pub use producer::Producer;
pub use recover::{Recovered, Stop};

use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use everbyte_media::{Checked, Media};
use layout::{FORMAT, HEAD_AT, MAGIC, POSITION, RING_AT, RingHeader, TAIL_AT, TORN, position_word};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use zerocopy::{FromZeros, IntoBytes};

/// The shortest word log: its three lines and a ring of sixteen words.
pub const RING_BYTES_MIN: u64 = RING_AT + 128;

/// How records are made recoverable. Chosen when the log is created, kept on media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// One fence a flush; 64 words for 63. Better for short appends.
    #[default]
    Torn,
    /// Two fences a flush; words as they are. Better for long appends.
    Base,
}

/// The action of an append that finds no space in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// Returns [`Error::Full`].
    #[default]
    Error,
    /// Waits for the consumer, which must be another thread. [`Error::Full`] once the consumer is
    /// gone.
    Block,
}

/// A place in the log: words since its creation. Only the log hands them out, always between two
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub(crate) u64);

/// Both ends of a log, before they are split.
#[derive(Debug)]
pub struct WordLog {
    /// Appends and flushes.
    pub producer: Producer,
    /// Reads and truncates.
    pub consumer: Consumer,
}

/// The properties of a ring, which both ends copy.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub media: Media,
    pub at: u64,
    pub words: u64,
    pub salt: u64,
    pub form: Form,
}

/// The positions that the two ends share, each written by one end alone.
#[derive(Debug)]
pub(crate) struct SharedPositions {
    /// Written by the consumer after the durable head is fenced (RING-1); Release, pairs with
    /// Acquire in `append`.
    pub head: CachePadded<AtomicU64>,
    /// Written by the producer after its fence; Release, pairs with Acquire in `next`.
    pub tail: CachePadded<AtomicU64>,
}

impl WordLog {
    /// Makes `range` a fresh, empty log, flushed and not fenced (the caller's business, as is
    /// making the log known).
    ///
    /// `salt` should differ between any two logs that could ever lie in the same bytes: a random
    /// number will do.
    ///
    /// # Errors
    /// [`Error::BadRange`] unless the range is backed, 64-byte aligned and at least
    /// [`RING_BYTES_MIN`] long.
    pub fn format(media: &Media, range: Range<u64>, form: Form, salt: u64) -> Result<()> {
        check_range(media, &range)?;
        let words = (range.end - range.start - RING_AT) / 8;
        let form = match form {
            Form::Torn => 1,
            Form::Base => 2,
        };
        let mut header = RingHeader { magic: MAGIC, format: FORMAT, salt, words, form, ..RingHeader::new_zeroed() };
        header = header.sealed();
        let mut first = [0; RING_AT as usize];
        first[..64].copy_from_slice(header.as_bytes());
        for at in [HEAD_AT as usize, TAIL_AT as usize] {
            first[at..at + 8].copy_from_slice(&position_word(salt, 0).to_le_bytes());
        }
        let _section = media.section();
        media.copy_nt(range.start, &first);
        // Zeros carry the sense opposite to the first lap (RING-2).
        media.zero(range.start + RING_AT, words * 8);
        media.flush(range.start + RING_AT, words * 8);
        Ok(())
    }

    /// Splits the ends, for two threads.
    pub fn split(self) -> (Producer, Consumer) {
        (self.producer, self.consumer)
    }

    /// Drops every flushed record: empties a log at start-up, after the changes that depend on its
    /// records have been flushed and fenced.
    pub fn truncate_all(&mut self) {
        let end = self.producer.flushed();
        self.consumer.truncate(end);
    }
}

impl Ring {
    /// The media offset of a position.
    #[inline]
    pub(crate) fn offset(&self, position: u64) -> u64 {
        self.at + RING_AT + position % self.words * 8
    }

    /// The torn bit of words written at `position`: 1 in the first lap, inverted in each.
    #[inline]
    pub(crate) fn sense(&self, position: u64) -> u64 {
        if self.form == Form::Torn && (position / self.words).is_multiple_of(2) { TORN } else { 0 }
    }

    /// Offset of `count` words from `position`, and their torn bit, unless the ring wraps among
    /// them.
    #[inline]
    pub(crate) fn place(&self, position: u64, count: u64) -> Option<(u64, u64)> {
        let (lap, index) = (position / self.words, position % self.words);
        let sense = if self.form == Form::Torn && lap.is_multiple_of(2) { TORN } else { 0 };
        (index + count <= self.words).then(|| (self.at + RING_AT + index * 8, sense))
    }

    /// Ring words of a record with that many payload words.
    #[inline]
    pub(crate) fn record_len(&self, payload: u64) -> u64 {
        match self.form {
            Form::Torn => 1 + codec::encoded_len(payload),
            Form::Base => 1 + payload,
        }
    }

    /// Payload words of the longest record that takes no more than `len` ring words.
    #[inline]
    pub(crate) fn payload_in(&self, len: u64) -> u64 {
        match self.form {
            Form::Torn => (len - 1) - (len - 1).div_ceil(64),
            Form::Base => len - 1,
        }
    }

    /// Payload words of the longest record (RING-3).
    #[inline]
    pub(crate) fn payload_max(&self) -> u64 {
        self.payload_in((self.words - 2).min(layout::LENGTH) + 1)
    }

    /// Reads the record at `position`, whose end may not lie beyond `limit`. `None`: no whole
    /// record is there (RING-5).
    pub(crate) fn read(&self, position: u64, limit: u64, into: &mut Vec<u64>) -> Option<u64> {
        into.clear();
        let first = self.media.load(self.offset(position));
        let torn = self.form == Form::Torn;
        if position >= limit || torn && first & TORN != self.sense(position) {
            return None;
        }
        let payload = first & layout::LENGTH;
        let end = position + self.record_len(payload);
        if end > limit {
            return None;
        }
        let checked = |at| {
            let word = self.media.load(self.offset(at));
            (!torn || word & TORN == self.sense(at)).then_some(word)
        };
        if torn {
            let pieces: Vec<u64> = (position + 1..end).map(checked).collect::<Option<_>>()?;
            codec::decode(&pieces, payload as usize, into);
        } else {
            into.extend((position + 1..end).map(|at| self.media.load(self.offset(at))));
        }
        (first & !TORN == layout::record_word(self.salt, position, into)).then_some(end)
    }
}

fn check_range(media: &Media, range: &Range<u64>) -> Result<()> {
    let bad = |detail| Err(Error::BadRange { start: range.start, end: range.end, detail });
    match range.end.checked_sub(range.start) {
        _ if !range.start.is_multiple_of(64) || !range.end.is_multiple_of(64) => {
            bad("a log is made of whole 64-byte lines")
        }
        Some(len) if len >= RING_BYTES_MIN && media.holds(range.start, len) => Ok(()),
        Some(len) if len >= RING_BYTES_MIN => bad("the range is not backed"),
        _ => bad("a word log needs 320 bytes"),
    }
}

/// A head or tail word, if its check bits agree.
fn parse_position(salt: u64, word: u64) -> Option<u64> {
    let position = word & POSITION;
    (position_word(salt, position) == word).then_some(position)
}
