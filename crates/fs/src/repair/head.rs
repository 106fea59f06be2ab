//! Repair of the two copies of the head.

use crate::format;
use crate::layout::{
    FORMAT, HEAD_AT, HEAD_COPY_AT, Head, LANE_LEN, LANES_MAX, LANES_PAGE, MAGIC, PAGE, Place, TABLE_AT,
};
use crate::{Error, Result};
use everbyte_media::{Checked, Length, Media};
use everbyte_store::Object;
use zerocopy::FromZeros;

/// The head, and the copies that a repair writes anew. If neither copy is whole, the inode table
/// tells the number of lanes.
///
/// # Errors
/// As opening the volume, if the number of lanes is not known.
pub(super) fn mend(object: &Object, now: i64) -> Result<(Head, Vec<u64>)> {
    let (media, start) = (object.media(), object.prime().get());
    match format::read(object, false) {
        Ok((head, _)) => Ok((head, lost(media, start, &head))),
        Err(Error::Damaged(damage)) => match lanes(media, start) {
            Some(lanes) if both_are_damaged(media, start) => {
                let head = Head {
                    magic: MAGIC,
                    format: FORMAT,
                    uuid: format::random_uuid(),
                    created: now,
                    lanes,
                    lane_len: Length::new(LANE_LEN),
                    ..Head::new_zeroed()
                }
                .sealed();
                Ok((head, lost(media, start, &head)))
            }
            _ => Err(Error::Damaged(damage)),
        },
        Err(error) => Err(error),
    }
}

/// A sentence about copies that are written anew.
pub(super) fn detail(heads: &[u64]) -> &'static str {
    match heads.len() {
        1 => "a copy of the head is damaged: it is written from the other one",
        _ => "both copies of the head are damaged: the volume has a new identity, and no label",
    }
}

fn both_are_damaged(media: &Media, start: u64) -> bool {
    [HEAD_AT, HEAD_COPY_AT].into_iter().all(|at| {
        let head: Head = media.get(start + at);
        head.magic != MAGIC || !head.checksum_agrees()
    })
}

/// The copies that differ from `head`.
fn lost(media: &Media, start: u64, head: &Head) -> Vec<u64> {
    let copies = [HEAD_AT, HEAD_COPY_AT].map(|at| start + at);
    copies.into_iter().filter(|&at| media.get::<Head>(at) != *head).collect()
}

/// The number of lanes: the inode table lies behind them.
fn lanes(media: &Media, start: u64) -> Option<u32> {
    if !media.holds(start, (LANES_PAGE + 1) * PAGE) {
        return None;
    }
    let table = Place::of(media.load(start + TABLE_AT))?.page;
    let lanes = u32::try_from(table.checked_sub(LANES_PAGE)? * PAGE / LANE_LEN).ok()?;
    let fits = (1..=LANES_MAX).contains(&lanes) && media.holds(start, format::first_free(lanes) * PAGE);
    fits.then_some(lanes)
}
