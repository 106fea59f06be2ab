//! Ranges that leave a file, or come into it: everything behind them moves.

use super::allocate::pieces;
use super::{inline, is_inline, lock, require_range, require_unmapped};
use crate::layout::PAGE;
use crate::order::{Fresh, NewRun};
use crate::volume::Volume;
use crate::{Error, Ino, Result};

impl Volume {
    /// Removes a range from a regular file; the bytes behind it take its place, and the file is
    /// smaller by its length. Both numbers are multiples of 4096, and the range ends before the end
    /// of the file. Whole or absent after a crash; ordered on return. The cost grows with the
    /// number of extents behind the range.
    ///
    /// # Errors
    /// [`Error::Unaligned`]; otherwise as [`Volume::write`].
    pub fn collapse(&self, ino: Ino, at: u64, len: u64) -> Result<()> {
        self.shift(ino, at, len, false)
    }

    /// Adds a hole to a regular file before the byte at `at`, which moves behind it with all that
    /// follow. Both numbers are multiples of 4096, and `at` lies before the end of the file. Whole
    /// or absent after a crash; ordered on return. The cost grows with the number of extents behind
    /// the hole.
    ///
    /// # Errors
    /// [`Error::Unaligned`], [`Error::TooLarge`]; otherwise as [`Volume::write`].
    pub fn insert(&self, ino: Ino, at: u64, len: u64) -> Result<()> {
        self.shift(ino, at, len, true)
    }

    fn shift(&self, ino: Ino, at: u64, len: u64, is_insert: bool) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let end = require_range(at, len)?;
        let node = core.node(ino)?;
        let mut state = lock(core, &node)?;
        core.object().require_readable()?;
        let size = node.size(core);
        let is_inside = if is_insert { at < size } else { end < size };
        if !at.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) || len == 0 || !is_inside {
            return Err(Error::Unaligned { at, len });
        }
        let new_size = if is_insert { require_range(size, len)? } else { size - len };
        if is_inline(core, &node) {
            inline::to_pages(core, &node, &mut state)?;
        }
        require_unmapped(core, &node, &(at / PAGE..size.div_ceil(PAGE)))?;
        let extents = state.extents(core, &node)?;
        let last = extents.last().map_or(0, |(first, piece)| first + piece.len);
        let (from, count) = (at / PAGE, len / PAGE);
        let moved_from = if is_insert { from } else { from + count };
        let mut runs = pieces(extents, &(moved_from..last.max(moved_from)), |flags| flags);
        for run in &mut runs {
            run.first = if is_insert { run.first + count } else { run.first - count };
        }
        if runs.last().is_some_and(|run: &NewRun| run.first + run.len > crate::layout::FILE_MAX / PAGE) {
            return Err(Error::TooLarge { len: new_size, max: crate::layout::FILE_MAX });
        }
        let range = from..last.max(from);
        extents.reserve_for(core, node.at, &range, &runs)?;
        let gone = if is_insert { from..from } else { from..from + count };
        let freed = pieces(extents, &gone, |flags| flags);
        let mut change = core.change();
        let remapped = extents.remap(core, node.at, &mut change, range, &Fresh::linked(runs));
        change.charge(node.at, remapped.net, 0);
        inline::set_size(&mut change, &node, new_size);
        change.commit()?;
        extents.apply(&remapped);
        // The pages that moved are still the file's.
        freed.iter().for_each(|run| core.give_pages(run.place.page, run.len));
        Ok(())
    }
}
