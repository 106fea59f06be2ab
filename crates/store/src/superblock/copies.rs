//! The superblock on media: two copies.
//!
//! A change is written to copy A, settled by a barrier, and only then written to copy B. So after
//! any crash one copy is whole, and the sequence numbers tell which of them a change had reached.
//!
//! Invariants
//!   STORE-1  At most one copy at a time holds bytes that are not settled.
//!   STORE-2  Nothing is changed before a whole copy was found and its positions were checked
//!            against the media.

use super::words::Words;
use crate::layout::{FEATURE_ADDRESSES, FEATURES, FORMAT, Record, SUPERBLOCK_MAGIC, SUPERBLOCKS, Superblock};
use crate::{Error, Result};
use everbyte_media::{Checked, Damage, Format, Length, Media, Offset, seeded};
use everbyte_space::{Bitmap, CLUSTER};
use zerocopy::IntoBytes;

/// The state of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // two of them exist, for a moment
pub(crate) enum Copy {
    /// All zeros: never written.
    Blank,
    /// Another magic.
    Foreign,
    /// Our magic and a wrong checksum.
    Torn,
    /// Good by its own checksum.
    Whole(Superblock),
}

/// Both copies, in order. Never panics and changes nothing.
pub(crate) fn copies(media: &Media) -> [Copy; 2] {
    SUPERBLOCKS.map(|at| {
        if !media.holds(at, size_of::<Superblock>() as u64) {
            return Copy::Blank; // media that is yet to be formatted
        }
        let superblock: Superblock = media.get(at);
        if superblock.magic == SUPERBLOCK_MAGIC {
            if superblock.checksum_agrees() { Copy::Whole(superblock) } else { Copy::Torn }
        } else if superblock.as_bytes().iter().all(|&byte| byte == 0) {
            Copy::Blank
        } else {
            Copy::Foreign
        }
    })
}

/// The superblock that counts (STORE-2), and the copies that opening has to write again from it.
///
/// # Errors
/// [`Error::NotAStore`], [`Error::Unfinished`], [`Error::NewerFormat`], [`Error::Damaged`],
/// [`Error::Truncated`].
pub(crate) fn choose(media: &Media) -> Result<(Superblock, Vec<u64>)> {
    let path = || media.path().to_path_buf();
    if !media.holds(0, everbyte_media::HEAD_END) {
        return Err(Error::NotAStore { path: path(), detail: format!("only {} bytes long", media.len()) });
    }
    let found = copies(media);
    let whole = found.iter().filter_map(|copy| match copy {
        Copy::Whole(superblock) => Some(*superblock),
        _ => None,
    });
    // Of equals the first: B is only ever behind A.
    let Some(best) = whole.reduce(|best, next| if next.sequence > best.sequence { next } else { best }) else {
        return Err(match found {
            // A crash interrupted `format` before its first copy was settled: the call has not
            // returned, and the file never was a store. The words beside the copies are settled
            // earlier; they tell a torn copy from foreign bytes.
            [Copy::Blank, Copy::Blank] => Error::Unfinished { path: path() },
            [_, Copy::Blank] if Words::read(media).is_ok() => Error::Unfinished { path: path() },
            [Copy::Foreign | Copy::Blank, Copy::Foreign | Copy::Blank] => {
                Error::NotAStore { path: path(), detail: "no superblock at 0 or 4 KiB".into() }
            }
            _ => Damage::at(SUPERBLOCKS[0], "neither copy of the superblock is whole").of_file(path()).into(),
        });
    };
    validate(media, &best)?;
    let stale = SUPERBLOCKS.into_iter().zip(found).filter(|(_, copy)| *copy != Copy::Whole(best));
    Ok((best, stale.map(|(at, _)| at).collect()))
}

/// Checks the fields of the superblock against each other and the media.
fn validate(media: &Media, superblock: &Superblock) -> Result<()> {
    let path = media.path().to_path_buf();
    if superblock.format > FORMAT {
        return Err(Error::NewerFormat { path, format: Format::new(superblock.format, FORMAT) });
    }
    let unknown = superblock.features & !FEATURES;
    if unknown != 0 {
        return Err(Error::NewerFormat { path, format: Format::new(unknown, FORMAT) });
    }
    let damaged = |detail: String| {
        Err(Error::from(Damage::at(SUPERBLOCKS[0], format!("the superblock: {detail}")).of_file(path.clone())))
    };
    let bound_to = media.binding().unwrap_or(0);
    if superblock.binding != bound_to {
        return damaged(format!("bound to {:#x}, and the media head says {bound_to:#x}", superblock.binding));
    }
    if superblock.cluster != CLUSTER {
        return damaged(format!("clusters of {} bytes", superblock.cluster));
    }
    let (max, end) = (superblock.max, superblock.end());
    if end > media.max() {
        return damaged(format!("addresses for {end} bytes, and the media head says {}", media.max()));
    }
    if end < max.get() || (superblock.addresses != 0) != (superblock.features & FEATURE_ADDRESSES != 0) {
        return damaged(format!("addresses for {} bytes and a maximum of {max}", superblock.addresses));
    }
    let Superblock { table_at, bitmap_at, used_at, bitmap_len, log_at, log_len, spans_at, .. } = *superblock;
    let table_len = superblock.table_slots.saturating_mul(size_of::<Record>() as u64);
    // Each part starts at or after the end of the one before.
    let parts = [
        ("the heads", Offset::ZERO, Length::new(everbyte_media::HEAD_END)),
        ("the object table", table_at, Length::new(table_len)),
        ("the bitmap", bitmap_at, bitmap_len),
        ("the used bitmap", used_at, bitmap_len),
        ("the log", log_at, log_len),
        ("the spans", spans_at, Length::new(CLUSTER)),
    ];
    for pair in parts.windows(2) {
        let [(before, at, len), (name, next, _)] = [pair[0], pair[1]];
        if at.checked_add(len).is_none_or(|end| end > next) || next % 4096 != 0 {
            return damaged(format!("{name} at {next:#x} runs into {before} at {at:#x} + {len:#x}"));
        }
    }
    let speaks_for = if bitmap_len.get() % 4096 == 0 { Bitmap::capacity_of(bitmap_len.get()) } else { 0 };
    let whole = [spans_at.get(), max.get(), end].iter().all(|size| size % CLUSTER == 0);
    if !whole || max == 0 || spans_at >= end || end > speaks_for {
        return damaged(format!("spans from {spans_at:#x} to {end:#x} and bitmaps for {speaks_for:#x} bytes"));
    }
    if superblock.table_slots == 0 || superblock.table_slots > 1 << 20 {
        return damaged(format!("an object table of {} records", superblock.table_slots));
    }
    let needed = table_at + table_len;
    if media.len() < needed.get() {
        return Err(Error::Truncated { path, len: media.len(), needed: needed.get() });
    }
    Ok(())
}

/// Writes `superblock` over the copies at `places`, each settled before the next (STORE-1).
pub(crate) fn write(media: &Media, superblock: Superblock, places: &[u64]) -> Result<()> {
    let superblock = superblock.sealed();
    for (index, &at) in places.iter().enumerate() {
        if index > 0 && !seeded("store-superblocks-together") {
            settle(media)?; // STORE-1
        }
        let _section = media.section();
        media.put(at, &superblock);
        media.flush(at, size_of::<Superblock>() as u64);
    }
    settle(media)
}

fn settle(media: &Media) -> Result<()> {
    Ok(media.barrier_or_fence("store-superblocks-fenced")?)
}
