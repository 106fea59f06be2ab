//! Recovery: committed bytes are stored again, in the order of their timestamps, whichever log it
//! lies in.
//!
//! Steps, a fence between them; each may be repeated:
//!   1. every log is read; nothing is changed before every record has been understood
//!   2. records above the floor are stored and their operations applied, in order, and flushed
//!   3. the floor is raised to the newest of them
//!   4. every log is emptied; blocks that were freed become allocatable

use super::engine::Replayed;
use super::layout::{ENGINE_END, FLOOR, FORMAT, MAGIC};
use super::record::RedoRecord;
use crate::table::{self, holds_data};
use crate::{Error, Result};
use everbyte_heap::{Heap, Op};
use everbyte_log::{Full, WordLog};
use everbyte_media::museum::unless;
use everbyte_media::sealed::{seal_low, unseal_low};
use everbyte_media::{Damage, Flusher, Media, Offset};
use std::ops::Range;

pub(super) struct RecoveredLogs {
    pub logs: Vec<WordLog>,
    pub log_bytes: Range<u64>,
    /// No timestamp on media is newer.
    pub clock: u64,
    pub replayed: Replayed,
}

pub(super) fn recover(heap: &Heap) -> Result<RecoveredLogs> {
    let parts = table::read(heap, (MAGIC, FORMAT))?;
    let (object, media) = (heap.object(), heap.media());
    let floor_at = object.prime() + FLOOR;
    let damaged = |at, detail: &str| Error::from(Damage::at(at, detail).of_object(object.name()));
    let floor = unseal_low(media.load(floor_at)).ok_or_else(|| damaged(floor_at, "the floor fails its check bits"))?;
    media.reflush(floor_at, 8); // the fence of the logs' own recovery orders it
    let (mut logs, mut records) = (Vec::with_capacity(parts.count as usize), Vec::new());
    for part in parts.each() {
        let at = part.start;
        let mut found = Vec::new();
        // 1
        let recovered = WordLog::recover(media, part, Full::Error, |words| found.push(RedoRecord::read(media, words)))?;
        logs.push(recovered.log);
        for record in found {
            let record = record.ok_or_else(|| damaged(Offset::new(at), "a record of this log contradicts itself"))?;
            if record.timestamp > floor {
                records.push(record);
            }
        }
    }
    unless("redo-replay-unordered", || records.sort_by_key(|record| record.timestamp));
    for record in &records {
        record.ops.iter().try_for_each(|&op| heap.validate(op))?;
        if let Some((at, ..)) = record
            .stores()
            .find(|&(at, _, _)| !at.is_multiple_of(8) || !holds_data(heap, &parts.bytes, ENGINE_END, at, 8))
        {
            return Err(damaged(Offset::new(at), "a record of the logs stores there, where no transaction may"));
        }
    }
    let clock = records.iter().map(|record| record.timestamp).fold(floor, u64::max);
    replay(heap, &records); // 2
    media.fence();
    if clock > floor {
        raise_floor(media, floor_at.get(), clock); // 3
        media.fence();
    }
    logs.iter_mut().for_each(WordLog::truncate_all); // 4
    let frees: Vec<Op> = records.iter().flat_map(|record| &record.ops).copied().filter(|op| op.frees()).collect();
    heap.finish(&frees);
    let words = records.iter().map(|record| record.stores().count() as u64).sum();
    let replayed = Replayed { transactions: records.len() as u64, words };
    Ok(RecoveredLogs { logs, log_bytes: parts.bytes, clock, replayed })
}

fn replay(heap: &Heap, records: &[RedoRecord]) {
    let media = heap.media();
    let _section = media.section();
    let mut flusher = Flusher::new(media);
    for record in records {
        for (at, mask, value) in record.stores() {
            store_masked(media, at, mask, value);
            flusher.touch(at, 8);
        }
        heap.apply(&record.ops);
    }
}

/// Says that records up to `timestamp` are nothing any more; flushed, and fenced by the caller.
pub(super) fn raise_floor(media: &Media, floor_at: u64, timestamp: u64) {
    let _section = media.section();
    media.store(floor_at, seal_low(timestamp));
    media.flush(floor_at, 8);
}

/// Stores those bytes of a word that the mask names, and no others: their neighbours may belong to
/// another block.
#[inline(always)]
pub(super) fn store_masked(media: &Media, at: u64, mask: u8, value: u64) {
    match mask {
        0xff => media.store(at, value),
        _ => store_bytes(media, at, mask, value),
    }
}

fn store_bytes(media: &Media, at: u64, mask: u8, value: u64) {
    let bytes = value.to_le_bytes();
    for byte in (0..8).filter(|byte| mask & 1 << byte != 0) {
        media.write(at + byte as u64, &bytes[byte..=byte]);
    }
}
