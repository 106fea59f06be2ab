//! [`Lanes`]: the journals of a volume, one for each change that runs at a time.
//!
//! Threads: a thread takes the first lane that is free, beginning with one of its own choice.

use crate::Result;
use crate::layout::{LANE_LEN, LANES_PAGE, LINE, PAGE};
use crate::parts::{Apart, thread_number};
use everbyte_log::Journal;
use everbyte_media::Media;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;

/// The lanes of an open volume.
pub(crate) struct Lanes(Vec<Apart<Mutex<Journal>>>);

/// The bytes of lane `index` of the volume at `start`.
fn range(start: u64, index: u32) -> Range<u64> {
    let at = start + LANES_PAGE * PAGE + u64::from(index) * LANE_LEN;
    at..at + LANE_LEN
}

impl Lanes {
    /// Writes empty lanes; flushed, no fence.
    pub(crate) fn format(media: &Media, start: u64, count: u32, salt: u64) -> Result<()> {
        for index in 0..count {
            Lanes::format_one(media, start, index, salt)?;
        }
        Ok(())
    }

    /// Writes one empty lane; flushed, no fence.
    fn format_one(media: &Media, start: u64, index: u32, salt: u64) -> Result<()> {
        Ok(Journal::format(media, range(start, index), salt ^ u64::from(index))?)
    }

    /// Makes a damaged lane empty; flushed, no fence.
    ///
    /// The lane counts its generations anew and keeps its salt: a record of the lane's first
    /// generations would be valid again, so that none may outlive the new header.
    pub(crate) fn renew(media: &Media, start: u64, index: u32, salt: u64) -> Result<()> {
        let Range { start: at, end } = range(start, index);
        {
            let _section = media.section();
            media.zero(at, end - at);
            media.flush(at, end - at);
            media.fence();
        }
        Lanes::format_one(media, start, index, salt)
    }

    /// Flushes again the headers of lanes that a repair that died may have made empty.
    pub(crate) fn reflush(media: &Media, start: u64, count: u32) {
        (0..count).for_each(|index| media.reflush(range(start, index).start, LINE));
    }

    /// Undoes the change that a crash interrupted in one lane.
    ///
    /// # Errors
    /// [`crate::Error::Log`] if the lane is damaged: nothing has changed.
    pub(crate) fn undo(media: &Media, start: u64, index: u32, allowed: &Range<u64>) -> Result<()> {
        let found = Journal::recover(media, range(start, index), allowed.clone())?;
        found.undo();
        drop(found.finish());
        Ok(())
    }

    /// Undoes the changes that a crash interrupted, and opens the lanes. Returns the number of
    /// changes undone, too.
    ///
    /// Two lanes never hold undo records of one word: a word's lock is held until the lane is
    /// retired and that is fenced. So the order of lanes is free.
    pub(crate) fn recover(media: &Media, start: u64, count: u32, allowed: &Range<u64>) -> Result<(Lanes, usize)> {
        let mut undone = 0;
        let mut lanes = Vec::new();
        for index in 0..count {
            let found = Journal::recover(media, range(start, index), allowed.clone())?;
            undone += usize::from(found.outcome() == everbyte_log::Outcome::Undo);
            found.undo();
            lanes.push(Apart::new(Mutex::new(found.finish())));
        }
        Ok((Lanes(lanes), undone))
    }

    /// A free lane; waits for one if all are taken.
    pub(crate) fn take(&self) -> MutexGuard<'_, Journal> {
        let home = thread_number() % self.0.len();
        let order = (home..self.0.len()).chain(0..home);
        order.filter_map(|index| self.0[index].try_lock()).next().unwrap_or_else(|| self.0[home].lock())
    }

    /// Bytes that were stored to lanes since the volume was opened.
    pub(crate) fn written(&self) -> u64 {
        self.0.iter().map(|lane| lane.lock().written()).sum()
    }
}
