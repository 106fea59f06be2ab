//! Reads a lane back: entry after entry until a line has no valid proof. Recovery and rollback both
//! use it.
//!
//! A walk ends for any bytes: every step moves forward inside a segment, and the segments of a
//! chain may not have more bytes in all than the range they must lie in.

use super::SEGMENT_BYTES_MIN;
use super::append::digest;
use super::layout::{BULK_INLINE, BulkData, EntryKind, INLINE, JournalEntry, LINE, seed, target, used};
use crate::{Error, Result};
use everbyte_media::museum::misplaced;
use everbyte_media::{Damage, Media, seeded, sums_agree};
use std::ops::Range;
use zerocopy::FromBytes;

/// Old bytes and their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub target: u64,
    pub len: u64,
    /// Place of the old bytes in the journal.
    pub source: u64,
}

/// The entries of a lane.
#[derive(Debug, Default)]
pub(super) struct JournalWalk {
    /// Oldest first.
    pub pieces: Vec<Piece>,
    pub ops: Vec<u64>,
    pub digest: u64,
    /// Entries, links left out.
    pub entries: u64,
    /// Offset of the first line without a valid proof.
    pub end: u64,
}

/// Reads the entries of `generation`, starting in `own`. Targets and links must lie in `allowed`.
pub(super) fn walk(
    media: &Media,
    own: Range<u64>,
    salt: u64,
    generation: u64,
    allowed: Range<u64>,
) -> Result<JournalWalk> {
    let seed = seed(salt, generation);
    let mut walk = JournalWalk::default();
    let mut segment = own;
    let mut budget = allowed.end.saturating_sub(allowed.start);
    let mut at = segment.start;
    loop {
        walk.end = at;
        if at >= segment.end {
            return Ok(walk);
        }
        let entry: JournalEntry = media.get(at);
        let Some(kind) = EntryKind::of(entry.place) else { return Ok(walk) };
        let proven = entry.proof == entry.proof(seed, generation, at);
        let believed = proven || seeded("log-journal-no-checksum") && entry.proof as u16 == generation as u16;
        if !believed {
            return Ok(walk);
        }
        let bad = |detail| Err(Error::from(Damage::at(at, detail)));
        let len = used(entry.place);
        if len > INLINE {
            return bad("an entry claims more bytes than it has");
        }
        let mut step = LINE;
        match kind {
            EntryKind::Range => {
                walk.pieces.push(Piece { target: target(entry.place), len, source: at + LINE - INLINE });
            }
            EntryKind::Bulk => {
                let data = BulkData::read_from_bytes(&entry.data[..]).expect("a bulk header fills the data");
                let first = data.len.get().min(BULK_INLINE);
                let rest = data.len.get() - first;
                let end = rest.checked_next_multiple_of(LINE).and_then(|lines| (at + LINE).checked_add(lines));
                let Some(end) = end.filter(|&end| end <= segment.end) else {
                    return bad("a long entry reaches beyond its segment");
                };
                if !sums_to(media, at + LINE, rest, data.rest_sum) {
                    return Ok(walk); // torn: the header survived, some of the bytes did not
                }
                let to = target(entry.place);
                walk.pieces.push(Piece { target: to, len: first, source: at + LINE - BULK_INLINE });
                if rest > 0 {
                    let piece = to.checked_add(first).map(|target| Piece { target, len: rest, source: at + LINE });
                    walk.pieces.push(piece.expect("48-bit offsets do not overflow"));
                }
                step = end - at;
            }
            EntryKind::Words => {
                for (index, pair) in entry.data[..len as usize].chunks_exact(16).enumerate() {
                    let target = u64::from_le_bytes(pair[..8].try_into().expect("eight bytes"));
                    walk.pieces.push(Piece { target, len: 8, source: at + LINE - INLINE + 16 * index as u64 + 8 });
                }
            }
            EntryKind::Ops => {
                let words = entry.data[..len as usize].chunks_exact(8);
                walk.ops.extend(words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))));
                walk.digest = digest(walk.digest, entry.proof);
            }
            EntryKind::Link => {
                let start = target(entry.place);
                let len = u64::from_le_bytes(entry.data[..8].try_into().expect("eight bytes"));
                let end = start.checked_add(len);
                let inside = end.is_some_and(|end| allowed.start <= start && end <= allowed.end);
                if !inside
                    || !start.is_multiple_of(LINE)
                    || !len.is_multiple_of(LINE)
                    || len < SEGMENT_BYTES_MIN
                    || !media.holds(start, len)
                {
                    return bad("a link leads outside what the lane may use");
                }
                let Some(left) = budget.checked_sub(len) else { return bad("the chain of segments goes in a circle") };
                budget = left;
                segment = start..start + len;
                at = start;
                continue;
            }
        }
        let allowed = |piece: &Piece| {
            let end = piece.target.checked_add(piece.len);
            end.is_some_and(|end| allowed.start <= piece.target && end <= allowed.end)
                && media.holds(piece.target, piece.len)
        };
        if !walk.pieces.iter().rev().take(3).all(allowed) {
            return bad("an entry's target lies outside what the lane may change");
        }
        walk.entries += 1;
        at += step;
    }
}

fn sums_to(media: &Media, at: u64, len: u64, sum: u32) -> bool {
    let mut chunk = [0; 4096];
    let (mut done, mut found) = (0, 0);
    while done < len {
        let step = (len - done).min(chunk.len() as u64) as usize;
        media.read(at + done, &mut chunk[..step]);
        found = crc32c::crc32c_append(found, &chunk[..step]);
        done += step as u64;
    }
    sums_agree(found, sum)
}

impl JournalWalk {
    /// Restores all old bytes, newest first, and flushes them. Not fenced; may be repeated.
    pub(super) fn undo(&self, media: &Media) {
        let mut newest_first: Vec<&Piece> = self.pieces.iter().rev().collect();
        misplaced("log-journal-undo-forward", || newest_first.reverse());
        let mut chunk = [0; 4096];
        for piece in newest_first {
            let _section = media.section();
            let mut done = 0;
            while done < piece.len {
                let step = (piece.len - done).min(chunk.len() as u64) as usize;
                media.read(piece.source + done, &mut chunk[..step]);
                media.write(piece.target + done, &chunk[..step]);
                done += step as u64;
            }
            media.flush(piece.target, piece.len);
        }
    }
}
