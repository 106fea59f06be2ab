//! Changing the size of a file.

use super::{inline, is_inline, lock, own_tail, publish_size, require_range, store_times, zero_tail};
use crate::layout::{INLINE, PAGE, inode};
use crate::volume::Volume;
use crate::{Ino, Result};

impl Volume {
    /// Sets the size of a regular file. Bytes behind a smaller size are gone; a larger one adds
    /// zeros, as a hole. Ordered on return.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn resize(&self, ino: Ino, to: u64) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_range(0, to)?;
        let node = core.node(ino)?;
        let mut state = lock(core, &node)?;
        core.object().require_readable()?;
        if is_inline(core, &node) {
            if to <= INLINE {
                return inline::resize(core, &node, to);
            }
            inline::to_pages(core, &node, &mut state)?;
        }
        let (media, size) = (core.media(), node.word(core, inode::SIZE));
        let extents = state.extents(core, &node)?;
        if to > size {
            own_tail(core, &node, extents, size)?;
            zero_tail(core, extents, size);
        }
        store_times(core, &node, core.now() as u64);
        publish_size(core, &node, to);
        // Also without a change of the size: pages that were allocated behind the end go.
        let freed = extents.cut_behind(core, node.at, to.div_ceil(PAGE));
        if !freed.is_empty() {
            media.fence_unless("fs-cut-unfenced"); // before the pages have another use
            core.give_runs(&freed);
        }
        Ok(())
    }
}
