//! Savepoints: places in a batch to which it can go back.
//!
//! A savepoint ends one version of the batch and begins the next: what is stored behind it carries
//! a number of its own, so going back takes back the stamps of that number, as giving up a batch
//! does, and leaves all earlier ones. The commit word makes the last number real, and with it all
//! numbers before it: no reader ever pins one of them.
//!
//! Invariants
//!   SAVE-1  What a batch stored under one of its numbers is taken back before the number is used
//!           again in the same batch. Both stores are flushed before the fence of the commit, in
//!           this order, so no stamp that was taken back is there when the number commits.
//!   SAVE-2  Nodes and blocks of an earlier number are to a later one as if they were committed:
//!           it ends their entries and overwrites nothing.
//!   SAVE-3  A crash makes all numbers of a batch void: opening adds as many to the list of void
//!           versions as a batch may have ([`NUMBERS_MAX`]).

use crate::error::{Error, Result};
use crate::tree::batch::TreeBatch;
use crate::tree::hash::OffsetMap;
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::pins::KeyCounts;
use everbyte_heap::Block;
use everbyte_media::museum::unless;
use everbyte_media::seeded;

/// Versions that one batch may have.
pub(crate) const NUMBERS_MAX: u64 = 1 << 16;

/// A place in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeSavepoint {
    index: usize,
    serial: u64,
}

/// The state to which a batch goes back.
pub(crate) struct SavepointMark {
    serial: u64,
    version: Version,
    root: u64,
    keys: KeyCounts,
    gained: Vec<(u32, i64)>,
    /// The length of the list of touched slots.
    touched: usize,
    graves: usize,
    gone: usize,
    /// Blocks reserved before.
    allocated: OffsetMap<Block>,
}

impl TreeBatch<'_> {
    /// Marks this place.
    ///
    /// # Errors
    /// The batch is spoiled, or has as many savepoints as it may have.
    pub(crate) fn savepoint(&mut self) -> Result<TreeSavepoint> {
        if self.doomed {
            return Err(Error::Doomed);
        }
        if !self.try_number() {
            return Err(Error::SavepointsExhausted { max: NUMBERS_MAX - 1 });
        }
        self.serial += 1;
        self.marks.last_mut().expect("just made").serial = self.serial;
        Ok(TreeSavepoint { index: self.marks.len() - 1, serial: self.serial })
    }

    fn mark(&mut self, serial: u64) {
        self.marks.push(SavepointMark {
            serial,
            version: self.view.version,
            root: self.root,
            keys: self.keys,
            gained: self.gained.clone(),
            touched: self.touched.len(),
            graves: self.graves.len(),
            gone: self.gone.len(),
            allocated: std::mem::take(&mut self.allocated),
        });
        self.view.version = self.view.version.next();
    }

    /// Goes back to a savepoint, which stays: what was written behind it has not happened.
    ///
    /// # Errors
    /// The savepoint is of another batch, or the batch has gone back to an earlier one.
    pub(crate) fn roll_back(&mut self, savepoint: TreeSavepoint) -> Result<()> {
        if self.marks.get(savepoint.index).is_none_or(|mark| mark.serial != savepoint.serial) {
            return Err(Error::NoSavepoint);
        }
        while self.marks.len() > savepoint.index + 1 {
            self.leave_mark();
        }
        self.leave_mark();
        self.writer.prefetched.clear();
        self.mark(savepoint.serial);
        Ok(())
    }

    /// Takes back what was stored behind the last mark, and the mark.
    pub(crate) fn leave_mark(&mut self) {
        let Some(mark) = self.marks.pop() else { return };
        unless("tree-savepoint-keeps-stamps", || self.take_back(mark.touched, mark.version.next()));
        unless("tree-savepoint-keeps-graves", || self.graves.truncate(mark.graves));
        self.gone.truncate(mark.gone);
        let allocated = std::mem::replace(&mut self.allocated, mark.allocated);
        for (_, block) in allocated {
            self.shared.heap.cancel(block);
        }
        self.view.version = mark.version;
        (self.root, self.keys, self.gained, self.doomed) = (mark.root, mark.keys, mark.gained, false);
    }

    /// Takes the numbers from `first` to the newest one out of the slots touched from `from` on.
    pub(crate) fn take_back(&mut self, from: usize, first: Version) {
        let (numbers, media) = (first..=self.view.version, &self.shared.media);
        let is_own = |at: u64| numbers.contains(&Version::new(media.load(at)));
        for at in self.touched.split_off(from) {
            if is_own(at + START_AT) {
                self.store(at + START_AT, 0);
                self.emptied.insert(at);
            }
            if is_own(at + END_AT) && !seeded("tree-abort-keeps-ends") {
                self.store(at + END_AT, 0);
            }
        }
    }

    /// Begins a new number without a savepoint: later stores are kept by
    /// [`TreeBatch::keep_number`], or taken back by [`TreeBatch::leave_mark`]. `false`: the batch
    /// has no number left.
    pub(crate) fn try_number(&mut self) -> bool {
        let is_left = self.view.version.get() + 1 < self.writer.next.get() + NUMBERS_MAX;
        if is_left {
            self.mark(0);
        }
        is_left
    }

    /// The stores under the newest number belong to the batch.
    pub(crate) fn keep_number(&mut self) {
        if let Some(mark) = self.marks.pop() {
            join(&mut self.allocated, mark.allocated);
        }
    }

    /// Before the commit: what was reserved before the marks counts like the rest.
    pub(crate) fn join_marks(&mut self) {
        for mark in self.marks.drain(..) {
            unless("tree-savepoint-forgets-blocks", || self.allocated.extend(mark.allocated));
        }
    }
}

/// Adds `others` to `blocks`; returns how many blocks that has moved: never most of them, so a
/// batch of many numbers that each reserve little costs no more than its blocks.
fn join(blocks: &mut OffsetMap<Block>, mut others: OffsetMap<Block>) -> usize {
    if others.len() > blocks.len() {
        std::mem::swap(blocks, &mut others);
    }
    let moved = others.len();
    blocks.extend(others);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::{Length, Offset};

    #[test]
    fn numbers_that_reserve_little_move_no_more() {
        let mut all = OffsetMap::default();
        let moved = (0..1000_u64).map(|number| {
            let block = Block { at: Offset::new(number * 64), size: Length::new(64) };
            let older = std::mem::replace(&mut all, [(number * 64, block)].into_iter().collect());
            join(&mut all, older)
        });
        assert!(moved.sum::<usize>() <= 1000);
        assert_eq!(all.len(), 1000);
    }
}
