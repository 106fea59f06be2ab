//! The header on an object's prime page.
//!
//! Invariants
//!   STORE-5  No bit of an object's span is set at or above its `reach`, once its header is whole.
//!            A `creating` record whose header is torn may have its first bit set.

use crate::catalogue::record::Entry;
use crate::layout::{FLAG_SMALL, HEADER_MAGIC, Header, header};
use crate::{Error, Result};
use everbyte_cold::ColdTable;
use everbyte_media::sealed::{seal, unseal};
use everbyte_media::{Checked, Damage, Length, Media, Offset};
use everbyte_space::{CLUSTER, Span};
use zerocopy::FromZeros;

/// Bytes of the prime page that belong to the store; the rest is the engine's.
pub const HEADER_LEN: u64 = 512;
/// Bytes of the prime page.
pub const PRIME_LEN: u64 = 4096;

/// The words of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) backed: u64,
    pub(crate) reach: u64,
    /// 0 in objects without a quota; likewise the three below.
    pub(crate) quota: u64,
    pub(crate) resident: u64,
    pub(crate) tail: u64,
    pub(crate) tail_reach: u64,
}

impl Extent {
    /// One past the last byte that the file must hold of the object.
    pub(crate) fn needed(&self, entry: &Entry) -> u64 {
        let first = entry.span.at() + CLUSTER;
        if entry.small && self.backed == first { entry.span.at() + PRIME_LEN } else { self.backed }
    }
}

/// One past the last address that an object may grow to.
pub(crate) fn growth_end(media: &Media, entry: &Entry) -> u64 {
    entry.span.end() - unseal(media.load(entry.span.at() + header::TAIL)).unwrap_or(0)
}

/// Stores a sealed word and flushes it; no fence.
pub(crate) fn set_word(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, seal(value));
    media.flush(at, 8);
}

/// Writes the header of an object that is backed to `backed`; flushed, no fence.
pub(crate) fn write(media: &Media, entry: &Entry, backed: u64) {
    let at = entry.span.at();
    let _section = media.section();
    media.put(at, &of(entry, backed));
    media.flush(at, HEADER_LEN);
}

fn of(entry: &Entry, backed: u64) -> Header {
    Header {
        magic: HEADER_MAGIC,
        engine: entry.engine.code(),
        id: entry.id,
        span_at: Offset::new(entry.span.at()),
        span_len: Length::new(entry.span.len()),
        fingerprint: entry.fingerprint,
        flags: if entry.small { FLAG_SMALL } else { 0 },
        backed: seal(backed),
        reach: seal(backed),
        shared_at: seal(0),
        shared_len: seal(0),
        ..Header::new_zeroed()
    }
    .sealed()
}

/// The extent of a live object, with errors that say where it is damaged.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Truncated`].
pub(crate) fn extent(media: &Media, entry: &Entry) -> Result<Extent> {
    let truncated = |needed| Error::Truncated { path: media.path().into(), len: media.len(), needed };
    if !media.holds(entry.span.at(), PRIME_LEN) {
        return Err(truncated(entry.span.at() + PRIME_LEN));
    }
    let extent = read(media, entry).map_err(|(at, detail)| damaged(media, entry, at, &detail))?;
    if extent.needed(entry) > media.len() {
        return Err(truncated(extent.needed(entry)));
    }
    Ok(extent)
}

/// The error of a damaged object.
pub(crate) fn damaged(media: &Media, entry: &Entry, at: u64, detail: &str) -> Error {
    Error::from(Damage::at(at, detail).of_file(media.path()).of_object(&entry.name))
}

/// Reads the header of `entry` and checks it against the record. Never panics, changes nothing.
///
/// # Errors
/// The offset of the damage, and its description.
pub(crate) fn read(media: &Media, entry: &Entry) -> Result<Extent, (u64, String)> {
    let at = entry.span.at();
    let wrong = |offset: u64, detail: String| Err((at + offset, detail));
    if !media.holds(at, HEADER_LEN) {
        return wrong(0, format!("it lies beyond the file's {} bytes", media.len()));
    }
    let found: Header = media.get(at);
    if found.magic != HEADER_MAGIC {
        return wrong(0, "it has no header".into());
    }
    if !found.checksum_agrees() {
        return wrong(8, "its header's checksum is wrong".into());
    }
    let expected = of(entry, 0);
    if found.checksum != expected.checksum {
        return wrong(16, "its header and its record differ".into());
    }
    let word = |offset: u64, value: u64| {
        unseal(value).filter(|&end| holds_end(entry.span, end)).ok_or((at + offset, format!("the word {value:#018x}")))
    };
    let backed = word(header::BACKED, found.backed)?;
    let reach = word(header::REACH, found.reach)?;
    if reach < backed {
        return wrong(header::REACH, format!("reach {reach:#x} lies below backed {backed:#x}"));
    }
    let shared = (unseal(found.shared_at), unseal(found.shared_len));
    match shared {
        (Some(0), Some(0)) => {}
        (Some(shared_at), Some(len)) if entry.span.holds(shared_at, len) => {}
        _ => return wrong(header::SHARED_AT, "its shared area lies outside its span".into()),
    }
    let limit = |offset: u64, value: u64| match value {
        0 => Ok(0),
        _ => unseal(value).ok_or((at + offset, format!("the word {value:#018x}"))),
    };
    let (quota, resident) = (limit(header::QUOTA, found.quota)?, limit(header::RESIDENT, found.resident)?);
    let tails = (limit(header::TAIL, found.tail)?, limit(header::TAIL_REACH, found.tail_reach)?);
    let table = ColdTable::range(entry.span).map_or(0, |range| range.end - range.start);
    let (tail, tail_reach) = match tails {
        (0, reach) if reach == 0 || reach == table => (0, reach),
        (tail, reach) if tail == table && reach == table && backed <= entry.span.end() - table => tails,
        _ => return wrong(header::TAIL, "its cold table is not where it should be".into()),
    };
    if resident > 0 && tail == 0 {
        return wrong(header::RESIDENT, "it has a limit and no cold table".into());
    }
    Ok(Extent { backed, reach, quota, resident, tail, tail_reach })
}

/// [`read`] of an object that may have no first cluster: a hole is not loaded, since a load could
/// allocate a page.
///
/// # Errors
/// As [`read`].
pub(crate) fn find(media: &Media, entry: &Entry) -> Result<Extent, (u64, String)> {
    match media.is_hole(entry.span.at(), PRIME_LEN) {
        true => Err((entry.span.at(), "it has no header".into())),
        false => read(media, entry),
    }
}

fn holds_end(span: Span, end: u64) -> bool {
    end > span.at() && end <= span.end() && end.is_multiple_of(CLUSTER)
}
