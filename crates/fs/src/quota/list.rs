//! The list of limits on media: a head and records in one run of pages. It changes as a whole.

use super::limits::{QuotaKind, QuotaLimit, QuotaLimits};
use super::usage::Key;
use crate::extents::Pages;
use crate::layout::{PAGE, Place, QUOTAS_AT, QUOTAS_MAGIC, QuotaHead, QuotaRecord};
use everbyte_media::{Checked, Damage};
use zerocopy::IntoBytes;

/// The limits of all owners, in the order of their keys.
pub(crate) type Limits = Vec<(Key, QuotaLimits)>;

/// Owners that may have limits.
pub(super) const MAX: usize = 16_384;

const HEAD: u64 = size_of::<QuotaHead>() as u64;
const RECORD: u64 = size_of::<QuotaRecord>() as u64;

/// The place of the word that leads to the list.
pub(crate) fn word_at(start: u64) -> u64 {
    start + QUOTAS_AT
}

/// The run of pages of the list: its first page, and their number.
pub(crate) fn run(pages: Pages<'_>) -> Result<Option<(u64, u64)>, Damage> {
    let at = word_at(pages.start);
    let word = pages.media.load(at);
    if word == 0 {
        return Ok(None);
    }
    let place = pages.place(at, word, 1)?;
    run_at(pages, place).map(Some)
}

/// The run of pages of a list at a place within the volume.
pub(crate) fn run_at(pages: Pages<'_>, place: Place) -> Result<(u64, u64), Damage> {
    let head_at = pages.start + place.page * PAGE;
    let head: QuotaHead = pages.media.get(head_at);
    let count = len(u64::from(head.count)).div_ceil(PAGE);
    let is_whole = head.magic == QUOTAS_MAGIC
        && head.checksum_agrees()
        && head.count as usize <= MAX
        && place.page + count <= pages.end
        && place.flags == 0;
    match is_whole {
        true => Ok((place.page, count)),
        false => Err(Damage::at(head_at, "the head of the list of quotas fails its check")),
    }
}

fn len(count: u64) -> u64 {
    HEAD + count * RECORD
}

/// Reads the list.
pub(crate) fn read(pages: Pages<'_>) -> Result<Limits, Damage> {
    let Some((page, _)) = run(pages)? else { return Ok(Limits::new()) };
    let (all, damaged) = records(pages, page);
    match damaged.first() {
        None => Ok(all),
        Some(&at) => Err(Damage::at(at, "a record of the list of quotas fails its check")),
    }
}

/// The records of a list with a whole head, from `page` on, and the places of those that fail
/// their checks.
pub(crate) fn records(pages: Pages<'_>, page: u64) -> (Limits, Vec<u64>) {
    let head_at = pages.start + page * PAGE;
    let head: QuotaHead = pages.media.get(head_at);
    let (mut all, mut damaged) = (Limits::new(), Vec::new());
    for index in 0..u64::from(head.count) {
        let at = head_at + len(index);
        let record: QuotaRecord = pages.media.get(at);
        let kind = QuotaKind::ALL.get(record.kind as usize).filter(|_| record.checksum_agrees());
        let key = kind.map(|&kind| (kind, record.id));
        match key.filter(|key| all.last().is_none_or(|(before, _)| before < key)) {
            Some(key) => all.push((key, record.limits())),
            None => damaged.push(at),
        }
    }
    (all, damaged)
}

/// The bytes of a list.
pub(crate) fn bytes(all: &[(Key, QuotaLimits)]) -> Vec<u8> {
    let head = QuotaHead { magic: QUOTAS_MAGIC, checksum: 0, count: all.len() as u32, reserved: [0; 48] };
    let mut bytes = head.sealed().as_bytes().to_vec();
    for &(key, limits) in all {
        bytes.extend_from_slice(QuotaRecord::new(key, limits).sealed().as_bytes());
    }
    bytes
}

impl QuotaRecord {
    fn new((kind, id): Key, limits: QuotaLimits) -> QuotaRecord {
        let QuotaLimits { bytes, inodes } = limits;
        QuotaRecord {
            checksum: 0,
            kind: kind as u32,
            id,
            bytes_grace: bytes.grace,
            inodes_grace: inodes.grace,
            reserved: [0; 12],
            bytes_soft: bytes.soft,
            bytes_hard: bytes.hard,
            inodes_soft: inodes.soft,
            inodes_hard: inodes.hard,
        }
    }

    fn limits(&self) -> QuotaLimits {
        QuotaLimits {
            bytes: QuotaLimit { soft: self.bytes_soft, hard: self.bytes_hard, grace: self.bytes_grace },
            inodes: QuotaLimit { soft: self.inodes_soft, hard: self.inodes_hard, grace: self.inodes_grace },
        }
    }
}
