//! Running a planned repair.

use super::VolumeRepair;
use crate::change::Change;
use crate::extents::Pages;
use crate::free_pages::FreePages;
use crate::lanes::Lanes;
use crate::layout::{HEAD_AT, HEAD_COPY_AT, Head, PAGE};
use crate::shared_pages::SharedPages;
use crate::space::Space;
use crate::{Error, Result, recover, saved};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::seeded;
use everbyte_store::{Object, RepairStep};

/// Undoes the changes that a crash interrupted; returns the lanes that are damaged.
pub(super) fn damaged_lanes(object: &Object, count: u32) -> Result<Vec<u32>> {
    let start = object.prime().get();
    let allowed = start..object.backed().get();
    let mut damaged = Vec::new();
    if object.store().may_follow_a_death() {
        // A repair that died may have left whole heads and lanes in the caches alone.
        [HEAD_AT, HEAD_COPY_AT].iter().for_each(|at| object.media().reflush(start + at, size_of::<Head>() as u64));
        Lanes::reflush(object.media(), start, count); // FS-13
    }
    for index in 0..count {
        if Lanes::undo(object.media(), start, index, &allowed).is_err() {
            damaged.push(index);
        }
    }
    object.media().fence();
    Ok(damaged)
}

impl VolumeRepair {
    /// Repairs the volume; see the header of [`super`]. Returns the steps that were done. Settled
    /// on return.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the volume cannot grow by the pages that the repair needs: nothing has
    /// changed. A failed write or sync poisons the store.
    pub fn run(self) -> Result<Vec<RepairStep>> {
        let media = self.object.media();
        let start = self.object.prime().get();
        let missing = (start + self.needed * PAGE).saturating_sub(self.object.backed().get());
        if missing > 0 {
            self.object.grow(missing).map_err(|error| Error::no_space(self.object.name(), error))?;
        }
        unless("fs-repair-saved-kept", || saved::invalidate(&self.object));
        for &at in &self.heads {
            let _section = media.section();
            media.put(at, &self.head);
            media.flush(at, size_of_val(&self.head) as u64);
            media.fence(); // one of them after the other: either is whole
        }
        let salt = u64::from_le_bytes(self.head.uuid[..8].try_into().expect("eight bytes"));
        for &lane in &self.lanes {
            Lanes::renew(media, start, lane, salt)?;
        }
        media.fence();
        let (lanes, _) = Lanes::recover(media, start, self.head.lanes, &(start..self.object.backed().get()))?;
        if self.object.store().may_follow_a_death() {
            let pages = Pages::of(&self.object);
            self.inodes.iter().for_each(|&at| recover::reflush(pages, at)); // FS-13
            self.tables.iter().for_each(|&at| media.reflush(at, PAGE));
        }
        media.fence(); // the lanes before their next use
        let mut free = FreePages::new();
        self.free.iter().for_each(|&(first, count)| free.give(first, count));
        let space = Space::new(self.object.clone(), free, SharedPages::default(), || 0);
        unless("fs-repair-fresh-late", || self.store_fresh());
        let parts = if seeded("fs-repair-halves") { 2 } else { 1 };
        for words in self.words.chunks(self.words.len().div_ceil(parts).max(1)) {
            let mut change = Change::new(&space, &lanes, 0).of_bytes();
            words.iter().for_each(|&(at, value)| change.add(at, value));
            change.commit()?;
        }
        misplaced("fs-repair-fresh-late", || self.store_fresh());
        media.barrier()?;
        Ok(self.steps)
    }

    /// Stores the bytes of pages that nothing leads to; flushed, no fence.
    fn store_fresh(&self) {
        let media = self.object.media();
        let _section = media.section();
        for (page, bytes) in &self.fresh {
            let at = self.object.prime().get() + page * PAGE;
            media.copy_nt_unless("fs-repair-unflushed", at, bytes);
        }
    }
}
