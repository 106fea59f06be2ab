//! Changing the size of a file.

use super::{
    inline, is_inline, large, lock, own_tail, publish_size, require_range, require_unmapped, store_times, zero_tail,
};
use crate::layout::{INLINE, PAGE};
use crate::order::Fresh;
use crate::volume::Volume;
use crate::{Ino, Result};

impl Volume {
    /// Sets the size of a regular file. Bytes behind a smaller size are gone; a larger one adds
    /// zeros, as a hole. Ordered on return. In an empty file a size of at least 2 MiB or 1 GiB
    /// selects the page size of the file, which its pages have when they are written.
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
        let (media, size) = (core.media(), node.size(core));
        if to < size {
            // The last page of a mapping keeps its bytes, too.
            require_unmapped(core, &node, &(to / PAGE..size.div_ceil(PAGE)))?;
        }
        let extents = state.extents(core, &node)?;
        large::hint(core, &node, extents, to);
        let mut covered = Fresh::linked(());
        if to > size {
            own_tail(core, &node, extents, size)?;
            covered = zero_tail(core, extents, size);
        }
        publish_size(core, &node, to, covered.and(store_times(core, &node, [core.now() as u64; 2])));
        // Also without a change of the size: pages that were allocated behind the end go.
        let freed = extents.cut_behind(core, node.at, to.div_ceil(PAGE));
        if !freed.is_empty() {
            media.fence_unless("fs-cut-unfenced"); // before the pages have another use
            core.charge(node.at, -freed.iter().map(|&(_, count)| count as i64).sum::<i64>())?.keep();
            core.give_runs(&freed);
        }
        Ok(())
    }
}
