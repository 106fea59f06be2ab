//! Recovery of log records: applies those whose changes a crash may have cut off. Format:
//! docs/formats/hkv.md; the invariants HKV-7 to HKV-10 are those of `log_record.rs`.

use crate::Result;
use crate::base::Base;
use crate::hash::{linked, split};
use crate::layout::{BUCKET, PLACE_BITS};
use crate::log_record::{LAPS, LogRecord, Words, decode, encode};
use crate::record::Record;
use crate::tree;
use everbyte_media::{seeded, sums_agree};

impl Base {
    /// Applies log records that a crash may have cut off. May itself be repeated. Returns the lap
    /// of the next log record.
    pub(crate) fn recover(&self) -> Result<u64> {
        let (heap, media) = (self.heap(), self.media());
        let _section = media.section();
        let records: [Words; 2] = [0, 1].map(|place| media.get(self.log_record_at(place)));
        // A process may have died before it flushed them: changes that depend on them must not
        // survive without them.
        [0, 1].iter().for_each(|place| media.reflush(self.log_record_at(*place), size_of::<Words>() as u64));
        let mut found: Vec<LogRecord> = records.iter().filter_map(|record| self.read(record)).collect();
        if let [one, two] = &found[..]
            && one.lap == (two.lap + 1) % LAPS
        {
            found.swap(0, 1); // the older first
        }
        let retired = found.last().is_some_and(LogRecord::is_empty);
        let again = if retired { &[][..] } else { &found[..] };
        for LogRecord { ops, words, .. } in again {
            ops.iter().try_for_each(|op| heap.validate(*op))?;
            if words.iter().any(|&(at, _)| !at.is_multiple_of(8) || !heap.may_hold_blocks(at, 8)) {
                return Err(self.damaged(self.log_record_at(0), "a log record changes a word outside the heap"));
            }
        }
        media.fence();
        for LogRecord { ops, words, .. } in again {
            self.redo(ops, words);
            if let Some(new) = split::added(self, ops, words) {
                split::sweep_again(self, new)?;
            }
            // the next log record may change the bytes that make this one valid
            media.fence_unless("hkv-notes-together");
        }
        let lap = found.last().map_or(0, |newest| newest.lap + 1);
        if again.is_empty() {
            self.erase_invalid(&records, &found);
            return Ok(lap);
        }
        self.retire_by(lap);
        media.fence();
        again.iter().flat_map(|parts| &parts.ops).filter(|op| op.frees()).for_each(|op| heap.finish(&[*op]));
        Ok(lap + 1)
    }

    /// Erases an invalid log record, so that later bytes cannot make it valid.
    fn erase_invalid(&self, records: &[Words; 2], found: &[LogRecord]) {
        let stale = |place: &u64| records[*place as usize][0] != 0 && found.iter().all(|parts| parts.lap % 2 != *place);
        (0..2).filter(stale).for_each(|place| self.set_word(place, 0));
        self.media().fence();
    }

    /// `None`: no valid log record (HKV-7).
    fn read(&self, record: &Words) -> Option<LogRecord> {
        let parts = decode(record)?;
        let checksum = self.written(&parts);
        let believed = seeded("hkv-note-believed");
        let (again, _) = encode(parts.lap, &parts.ops, &parts.words, checksum.or(believed.then_some(0))?);
        (sums_agree(again[0], record[0]) || believed).then_some(parts)
    }

    /// The checksum of the bytes written for a log record. `None`: they are not whole, or absent.
    fn written(&self, LogRecord { ops, words, .. }: &LogRecord) -> Option<u32> {
        if let Some(new) = split::added(self, ops, words) {
            return split::checksum(self, new);
        }
        let taken = ops.iter().filter(|op| !op.frees()).count();
        if let &[parent, child] = &words[..] {
            return match taken {
                0 => tree::join::checksum(self, [parent, child]),
                _ => tree::split::checksum(self, [parent, child]),
            };
        }
        let at = words.first().map_or(0, |&(_, word)| word);
        match taken {
            0 => Some(0),
            1 => self.record_checksum(at),
            _ => {
                let bucket = linked::read(self, at)?;
                self.media().reflush(at, BUCKET);
                Some(linked::checksum(self.record_checksum(bucket[0])?, &bucket))
            }
        }
    }

    /// The checksum of the record in a slot, if it is whole.
    pub(crate) fn record_checksum(&self, slot: u64) -> Option<u32> {
        let record = Record::read(self.heap(), slot & ((1 << PLACE_BITS) - 1)).ok()?;
        self.media().reflush(record.at, record.len());
        record.is_whole(self.heap()).then_some(record.head.checksum)
    }
}
