//! The places at which a file has bytes, and those at which it has holes.

use super::is_inline;
use crate::layout::PAGE;
use crate::volume::Volume;
use crate::{Error, FileKind, Ino, Result};

impl Volume {
    /// The first offset at or behind `at` that lies in a written page; `None`: there is none before
    /// the end of the file.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn next_data(&self, ino: Ino, at: u64) -> Result<Option<u64>> {
        self.seek(ino, at, true)
    }

    /// The first offset at or behind `at` that lies in a hole or in an unwritten page, or the end
    /// of the file; `None`: `at` is not before the end.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn next_hole(&self, ino: Ino, at: u64) -> Result<Option<u64>> {
        self.seek(ino, at, false)
    }

    fn seek(&self, ino: Ino, at: u64, for_data: bool) -> Result<Option<u64>> {
        let core = &*self.core;
        let node = core.node(ino)?;
        if node.kind(core)? != FileKind::Regular {
            return Err(Error::NotAFile { ino });
        }
        let state = node.read_extents(core)?;
        let size = node.size(core);
        if at >= size {
            return Ok(None);
        }
        if is_inline(core, &node) {
            return Ok(Some(if for_data { at } else { size }));
        }
        let extents = state.extents.as_ref().expect("they are loaded");
        let mut at = at;
        while at < size {
            let page = at / PAGE;
            let (is_data, end) = match extents.find(page) {
                Some((first, piece)) => (!piece.place.is_unwritten(), first + piece.len),
                None => (false, extents.next(page).map_or(u64::MAX / PAGE, |(first, _)| first)),
            };
            if is_data == for_data {
                return Ok(Some(at));
            }
            at = end * PAGE;
        }
        Ok(if for_data { None } else { Some(size) })
    }
}
