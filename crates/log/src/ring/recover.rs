//! Recovery after a crash: the whole records from the durable head on, and a ring in which no stale
//! record can become valid.
//!
//! Steps, each idempotent:
//!   1. header, head word, and in the base form the tail word are read and checked
//!   2. records are read from the head until one is not whole; each goes to the caller
//!   3. torn-bit form: free words that carry the sense of the lap to come are inverted (RING-2)
//!   4. the words that were read are flushed again and a fence orders them: a process that died,
//!      rather than a machine, leaves words in memory that it never fenced, and later records must
//!      not survive without them. Free words of the torn-bit form are among them: an earlier
//!      recovery may have inverted them (RING-2) and died before its fence

use super::layout::{FORMAT, HEAD_AT, MAGIC, RING_AT, RingHeader, TAIL_AT, TORN};
use super::{Consumer, Form, Full, Producer, Ring, SharedPositions, WordLog, check_range, parse_position};
use crate::{Error, Result};
use crossbeam_utils::CachePadded;
use everbyte_media::{Checked, Damage, Format, Media, seeded};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The end of a scan of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At a word that was not written in this lap.
    Clean,
    /// At a record of which some words were missing or wrong; it and all after it are discarded.
    Torn {
        /// Media offset of the record's first word.
        at: u64,
    },
}

/// A recovered log and the counts of its recovery.
#[derive(Debug)]
pub struct Recovered {
    /// Ready for appends; the records found are still in it until truncated.
    pub log: WordLog,
    /// Whole records found.
    pub records: u64,
    /// The end of the scan, and its reason.
    pub stop: Stop,
    /// Words of torn records that were inverted.
    pub inverted: u64,
}

impl WordLog {
    /// Opens the log at `range` and hands every whole record since the durable head to `consume`,
    /// oldest first.
    ///
    /// The records stay until [`Consumer::truncate`]; a log truncated only here (start-up
    /// truncation) calls [`WordLog::truncate_all`] once the changes that depend on the records are
    /// flushed and fenced.
    ///
    /// # Errors
    /// [`Error::NotALog`], [`Error::NewerFormat`], [`Error::BadRange`]; [`Error::Damaged`] if the
    /// log contradicts itself in a way that no crash explains.
    pub fn recover(media: &Media, range: Range<u64>, full: Full, mut consume: impl FnMut(&[u64])) -> Result<Recovered> {
        let ring = open(media, &range)?;
        let damaged = |at, detail| Error::from(Damage::at(at, detail));
        let head = parse_position(ring.salt, media.load(ring.at + HEAD_AT));
        let head = head.ok_or_else(|| damaged(ring.at + HEAD_AT, "the head word fails its check bits"))?;
        let full_at = head + ring.words - 1;
        let limit = match ring.form {
            Form::Torn => full_at,
            Form::Base => {
                let tail = parse_position(ring.salt, media.load(ring.at + TAIL_AT));
                let tail = tail.filter(|tail| (head..=full_at).contains(tail));
                tail.ok_or_else(|| damaged(ring.at + TAIL_AT, "the tail word contradicts the head"))?
            }
        };
        let (mut tail, mut records, mut words) = (head, 0, Vec::new());
        while let Some(end) = ring.read(tail, limit, &mut words) {
            consume(&words);
            (tail, records) = (end, records + 1);
        }
        let at = ring.offset(tail);
        let (mut stop, mut inverted) = (Stop::Clean, 0);
        match ring.form {
            Form::Base if tail != limit => {
                return Err(damaged(at, "a record before the tail of the word log does not prove itself"));
            }
            Form::Base => {}
            Form::Torn => {
                if media.load(at) & TORN == ring.sense(tail) {
                    stop = Stop::Torn { at };
                }
                inverted = invert_stale(&ring, tail, head + ring.words);
            }
        }
        settle_found(&ring, head, tail);
        let shared = Arc::new(SharedPositions {
            head: CachePadded::new(AtomicU64::new(head)),
            tail: CachePadded::new(AtomicU64::new(tail)),
        });
        let producer =
            Producer { ring: ring.clone(), shared: Arc::clone(&shared), full, tail, head, scratch: Vec::new() };
        let consumer = Consumer { ring, shared, head, read: head };
        Ok(Recovered { log: WordLog { producer, consumer }, records, stop, inverted })
    }
}

fn open(media: &Media, range: &Range<u64>) -> Result<Ring> {
    check_range(media, range)?;
    let at = range.start;
    let header: RingHeader = media.get(at);
    if header.magic != MAGIC {
        return Err(Error::NotALog { what: "word log", at });
    }
    if !header.checksum_agrees() {
        return Err(Error::from(Damage::at(at, "the word log's header fails its checksum")));
    }
    if header.format > FORMAT {
        return Err(Error::NewerFormat { what: "word log", at, format: Format::new(header.format, FORMAT) });
    }
    let form = match header.form {
        1 => Form::Torn,
        2 => Form::Base,
        _ => return Err(Error::from(Damage::at(at, "the word log's form is neither torn-bit nor base"))),
    };
    if header.words != (range.end - range.start - RING_AT) / 8 {
        return Err(Error::from(Damage::at(at, "the length of the word log differs from its owner's")));
    }
    Ok(Ring { media: media.clone(), at, words: header.words, salt: header.salt, form })
}

/// Inverts every word of `from..to` that carries the sense of the lap to come.
///
/// Without this, a whole record behind a torn one would be found again once new records reach its
/// start.
fn invert_stale(ring: &Ring, from: u64, to: u64) -> u64 {
    let media = &ring.media;
    let mut turned = 0;
    for position in from..to {
        let at = ring.offset(position);
        if media.load(at) & TORN == ring.sense(position) && !seeded("log-ring-no-neutralise") {
            let _section = media.section();
            media.copy_nt(at, &(ring.sense(position) ^ TORN).to_le_bytes());
            turned += 1;
        }
    }
    turned
}

fn settle_found(ring: &Ring, head: u64, tail: u64) {
    let _section = ring.media.section();
    ring.media.reflush(ring.at, RING_AT);
    let start = ring.offset(head);
    let whole = ring.at + RING_AT + ring.words * 8;
    let len = if ring.form == Form::Torn { ring.words } else { tail - head } * 8;
    let first = len.min(whole - start);
    ring.media.reflush(start, first);
    ring.media.reflush(ring.at + RING_AT, len - first);
    ring.media.fence();
}
