//! [`Change`]: a set of words of a volume that change together.
//!
//! Everything new (an inode, a page, the bytes of a name) is written where nothing leads to it.
//! Everything that exists changes by words. One change, a fence between the steps:
//!   1. the old words are logged; new bytes were written and flushed before
//!   2. the words are stored and flushed
//!   3. the lane is retired
//!
//! A single word of an inode, a slot or an entry needs no log: a fence, the store, a fence. Bytes
//! of files that change at their place are part of a change as words are; long ranges are logged in
//! bulk, in further segments of the lane.
//!
//! Invariants
//!   FS-1  Nothing leads to new bytes before the fence that follows their flush: `order` holds this
//!         by types.
//!   FS-2  A word that exists is logged and the log is fenced before the word changes, unless it
//!         changes alone.
//!   FS-3  The locks of all files whose words change are held until the lane is retired and that is
//!         fenced.

use crate::Result;
use crate::lanes::Lanes;
use crate::layout::{PAGE, inode};
use crate::order::{Fresh, Linked, NewEntry, NewInode};
use crate::quota::usage::{Delta, Owner};
use crate::space::Space;
use everbyte_log::{Error as LogError, Journal};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Flusher, Ordered, seeded};

/// Words that will change, and have not yet. Dropped without [`Change::commit`] it has no effect.
#[must_use = "nothing changes before the commit"]
pub struct Change<'v> {
    space: &'v Space,
    lanes: &'v Lanes,
    words: Vec<(u64, u64)>,
    /// Bytes that change at their place: offsets in the store, and the new bytes.
    ranges: Vec<(u64, &'v [u8])>,
    /// Lines that are flushed with the words: see [`Change::flush`].
    flushed: Option<(u64, u64)>,
    /// What files have more or less after the change.
    deltas: Vec<Delta>,
    now: i64,
    always_logged: bool,
}

impl<'v> Change<'v> {
    /// A change of nothing, at the time `now`.
    pub(crate) fn new(space: &'v Space, lanes: &'v Lanes, now: i64) -> Change<'v> {
        let words = Vec::with_capacity(12);
        let (ranges, deltas) = (Vec::new(), Vec::new());
        Change { space, lanes, words, ranges, flushed: None, deltas, now, always_logged: false }
    }

    /// A change of bytes of files: one word is logged, too, since recovery flushes no pages of
    /// files (FS-13).
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

    /// The word at `at` becomes the sealed word of `number`.
    pub(crate) fn set_number(&mut self, at: u64, number: u64) {
        self.set(at, seal_low(number));
    }

    /// The word at `at` leads to new bytes, which are flushed; the commit fences before (FS-1).
    pub fn link<T: Linked>(&mut self, at: u64, new: &Fresh<T>) {
        self.set(at, new.word());
    }

    /// An inode becomes live.
    pub fn make_live(&mut self, inode: &Fresh<NewInode>) {
        self.set(inode.at + inode::STATE, inode.state.word());
    }

    /// A new entry leads to its inode.
    pub fn name(&mut self, entry: &Fresh<NewEntry>) {
        self.set(entry.at, seal_low(entry.ino.0));
    }

    /// [`Change::set`] of a place that has no value in this change yet.
    pub(crate) fn add(&mut self, at: u64, value: u64) {
        self.words.push((at, value));
    }

    /// The bytes from `at` on become `bytes`. Ranges do not overlap each other or words.
    pub(crate) fn put(&mut self, at: u64, bytes: &'v [u8]) {
        if !bytes.is_empty() {
            self.ranges.push((at, bytes));
        }
    }

    /// Flushes these lines with the words, whether or not the words there change: a word that has
    /// its new value already may have it from a mapping, which has not flushed it.
    pub(crate) fn flush(&mut self, at: u64, len: u64) {
        self.flushed = Some((at, len));
    }

    /// The word at `at` as it will be.
    pub(crate) fn get(&self, at: u64) -> u64 {
        let set = self.words.iter().find(|(place, _)| *place == at);
        set.map_or_else(|| self.space.media().load(at), |(_, value)| *value)
    }

    /// The owners of the file at `at`, as they will be, are charged for pages and inodes; 0 or less
    /// gives them back. A volume without quotas is not counted, nor are files of snapshots.
    pub(crate) fn charge(&mut self, at: u64, pages: i64, inodes: i64) {
        if self.space.quotas.is_on() && !self.space.is_of_snapshot(at) {
            let [user, group] = [0, 8].map(|offset| self.get(at + inode::OWNER + offset));
            let owner = Owner { uid: (user >> 32) as u32, gid: group as u32, project: (group >> 32) as u32 };
            self.deltas.push(Delta { owner, pages, inodes });
        }
    }

    /// The owners of a file are charged.
    pub(crate) fn charge_owner(&mut self, delta: Delta) {
        if self.space.quotas.is_on() {
            self.deltas.push(delta);
        }
    }

    /// Changes all words, or none after a crash. Ordered on return.
    ///
    /// # Errors
    /// A quota that would be passed; no space for the lane's records, or an unreadable page:
    /// nothing has changed.
    pub(crate) fn commit(mut self) -> Result<()> {
        let space = self.space;
        let charge = space.quotas.charge(space.name(), &self.deltas)?; // FS-27
        self.commit_words()?;
        charge.keep();
        Ok(())
    }

    fn commit_words(&mut self) -> Result<()> {
        let media = self.space.media();
        self.words.retain(|&(at, value)| media.load(at) != value);
        match self.words[..] {
            _ if !self.ranges.is_empty() => self.commit_logged(),
            [] => {
                if let Some((at, len)) = self.flushed {
                    let _section = media.section();
                    media.flush(at, len);
                }
                media.fence(); // new bytes that the caller has flushed, too
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
        let logged = log(space, &mut lane, &places).and_then(|()| log_ranges(space, &mut lane, &self.ranges));
        if let Err(error) = logged {
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
            if !self.flushed.is_some_and(|(first, len)| (first..first + len).contains(&at)) {
                flusher.touch(at, 8);
            }
        }
        if let Some((at, len)) = self.flushed {
            flusher.touch(at, len);
        }
        flusher.finish_unless("fs-change-unflushed");
        for &(at, bytes) in &self.ranges {
            media.copy_nt_unless("fs-in-place-unflushed", at, bytes);
        }
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

/// Logs the bytes that ranges have now; takes pages for further segments of the lane.
fn log_ranges(space: &Space, lane: &mut Journal, ranges: &[(u64, &[u8])]) -> Result<()> {
    for &(at, bytes) in ranges.iter().skip(usize::from(seeded("fs-in-place-half-logged"))) {
        let mut added = 0;
        while let Err(error) = lane.log(at, bytes.len() as u64) {
            let LogError::Full { needed, .. } = error else { return Err(error.into()) };
            // Nothing was appended. A page that follows no other costs a line for its link, and one
            // for the head of its part of the bytes.
            let wanted = needed.saturating_sub(added).div_ceil(PAGE).max(1);
            let (page, count) = space.take_pages(wanted)?;
            lane.extend(space.at(page)..space.at(page + count))?;
            added += count * PAGE;
        }
    }
    Ok(())
}

/// Gives the pages of further segments back.
fn give_segments(space: &Space, lane: &mut Journal) {
    for range in lane.take_extra() {
        space.give_pages(space.page(range.start), (range.end - range.start) / PAGE);
    }
}
