//! Adds a bucket to a full chain: it is made unlinked, with the new record's slot in it, and then
//! linked.

use super::{Hash, HashState, slot_of};
use crate::Result;
use crate::base::Base;
use crate::layout::{BUCKET, PLACE_BITS};
use crate::record::Draft;
use zerocopy::IntoBytes;

type Words = [u64; 8];

impl Hash {
    /// Adds a record to a chain whose last bucket has its link at `link`, by a log record: a crash
    /// leaves both, or neither.
    pub(super) fn link(&self, state: &mut HashState, draft: &Draft, hash: u64, link: u64) -> Result<()> {
        let (heap, media, log) = (self.heap(), self.base.media(), &mut state.log);
        let record = self.base.reserve(log, draft.len())?;
        let bucket = self.base.reserve(log, BUCKET).inspect_err(|_| heap.cancel(record))?;
        let _section = media.section();
        draft.write(media, record.at.get());
        let words: Words = [slot_of(hash, record.at.get()), 0, 0, 0, 0, 0, 0, 0];
        media.put(bucket.at, &words);
        media.flush(bucket.at, BUCKET);
        let ops = [record, bucket].map(|block| heap.op_allocate(&block));
        self.base.write_log_record(log, &ops, &[(link, bucket.at.get())], checksum(draft.checksum(), &words));
        Ok(())
    }
}

/// The bucket at `at`, if a bucket can lie there.
pub(crate) fn read(base: &Base, at: u64) -> Option<Words> {
    let good = at < 1 << PLACE_BITS && at.is_multiple_of(BUCKET) && base.heap().may_hold_blocks(at, BUCKET);
    base.media().window(at, BUCKET).filter(|_| good).map(|window| window.words(0))
}

/// The checksum of a record and a bucket.
pub(crate) fn checksum(record: u32, bucket: &Words) -> u32 {
    crc32c::crc32c_append(record, bucket.as_bytes())
}
