//! [`Change`]: a set of words of a volume that change together.
//!
//! Everything new (an inode, a page, the bytes of a name) is written where nothing leads to it.
//! Everything that exists changes by words. One change, a fence between the steps:
//!   1. the old words are logged; new bytes were written and flushed before
//!   2. the words are stored and flushed
//!   3. the lane is retired
//!
//! A single word of an inode, a slot or an entry needs no log: a fence, the store, a fence.
//!
//! Invariants
//!   FS-1  Nothing leads to new bytes before the fence that follows their flush.
//!   FS-2  A word that exists is logged and the log is fenced before the word changes, unless it
//!         changes alone.
//!   FS-3  The locks of all files whose words change are held until the lane is retired and that is
//!         fenced.

use crate::Result;
use crate::lanes::Lanes;
use crate::layout::PAGE;
use crate::space::Space;
use everbyte_log::{Error as LogError, Journal};
use everbyte_media::{Flusher, Ordered, seeded};

/// Words that will change, and have not yet. Dropped without [`Change::commit`] it has no effect.
#[must_use = "nothing changes before the commit"]
pub(crate) struct Change<'v> {
    space: &'v Space,
    lanes: &'v Lanes,
    words: Vec<(u64, u64)>,
    now: i64,
    always_logged: bool,
}

impl<'v> Change<'v> {
    /// A change of nothing, at the time `now`.
    pub(crate) fn new(space: &'v Space, lanes: &'v Lanes, now: i64) -> Change<'v> {
        Change { space, lanes, words: Vec::with_capacity(12), now, always_logged: false }
    }

    /// A change of bytes of files: one word is logged, too, since recovery flushes words that
    /// change alone in inodes and slots only (FS-13).
    pub(crate) fn of_bytes(self) -> Change<'v> {
        Change { always_logged: true, ..self }
    }

    /// The time of the change, as inodes have it.
    pub(crate) fn now(&self) -> u64 {
        self.now as u64
    }

    /// The word at `at` becomes `value`. The last call for a place counts.
    pub(crate) fn set(&mut self, at: u64, value: u64) {
        match self.words.iter_mut().find(|(place, _)| *place == at) {
            Some((_, word)) => *word = value,
            None => self.words.push((at, value)),
        }
    }

    /// [`Change::set`] of a place that has no value in this change yet.
    pub(crate) fn add(&mut self, at: u64, value: u64) {
        self.words.push((at, value));
    }

    /// The word at `at` as it will be.
    pub(crate) fn get(&self, at: u64) -> u64 {
        let set = self.words.iter().find(|(place, _)| *place == at);
        set.map_or_else(|| self.space.media().load(at), |(_, value)| *value)
    }

    /// Changes all words, or none after a crash. Ordered on return.
    ///
    /// # Errors
    /// No space for the lane's records, or an unreadable page: nothing has changed.
    pub(crate) fn commit(mut self) -> Result<()> {
        let media = self.space.media();
        self.words.retain(|&(at, value)| media.load(at) != value);
        match self.words[..] {
            [] => {
                media.fence(); // new bytes that the caller has flushed
                Ok(())
            }
            [_] if !self.always_logged => {
                self.space.object().require_readable()?;
                self.store(&media.fence_after_unless("fs-single-unfenced", ()));
                media.fence();
                Ok(())
            }
            _ => self.commit_logged(),
        }
    }

    fn commit_logged(&mut self) -> Result<()> {
        let (space, media) = (self.space, self.space.media());
        space.object().require_readable()?;
        self.words.sort_unstable();
        let places: Vec<u64> = self.words.iter().map(|&(at, _)| at).collect();
        let mut lane = self.lanes.take();
        if let Err(error) = log(space, &mut lane, &places) {
            lane.rollback()?;
            give_segments(space, &mut lane);
            return Err(error);
        }
        let ordered = lane.fence_ops(); // FS-2, and FS-1 for the new bytes
        self.store(&ordered);
        media.fence_unless("fs-change-unfenced"); // the words before the end of their records
        lane.retire();
        media.fence();
        lane.fenced();
        give_segments(space, &mut lane);
        Ok(())
    }

    fn store<T>(&self, _ordered: &Ordered<T>) {
        let media = self.space.media();
        let _section = media.section();
        let mut flusher = Flusher::new(media);
        for &(at, value) in &self.words {
            media.store(at, value);
            flusher.touch(at, 8);
        }
        flusher.finish_unless("fs-change-unflushed");
    }
}

/// Logs the words at `places`; takes pages for further segments of the lane where they do not fit.
fn log(space: &Space, lane: &mut Journal, places: &[u64]) -> Result<()> {
    let mut from = usize::from(seeded("fs-change-half-logged"));
    while let Err(error) = lane.log_words(&places[from..]) {
        let LogError::Full { .. } = error else { return Err(error.into()) };
        // Some words are logged twice: recovery restores the oldest record last.
        let (page, count) = space.take_pages((64 * places.len() as u64).div_ceil(PAGE) + 1)?;
        lane.extend(space.at(page)..space.at(page + count))?;
        from = 0;
    }
    Ok(())
}

/// Gives the pages of further segments back.
fn give_segments(space: &Space, lane: &mut Journal) {
    for range in lane.take_extra() {
        space.give_pages(space.page(range.start), (range.end - range.start) / PAGE);
    }
}
