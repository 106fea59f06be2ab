//! Files with pages of 2 MiB or 1 GiB.
//!
//! A large page is an aligned run of pages, taken whole before the first byte of it is written. The
//! file has it as unwritten pages, and then, page by page, as written ones; a slot covers as much
//! of it as is one or the other. So large pages need nothing on media but their flag. Where no
//! aligned run is free the file gets a run of the next smaller size.

use crate::Result;
use crate::core::Core;
use crate::extents::{Extents, Pages, Piece};
use crate::layout::{LARGE_PAGES, PAGE, PLACE_UNWRITTEN, Place, RUN_LEN_MAX, STATE_SNAPSHOT, State, inode};
use crate::node::Node;
use crate::order::{Fresh, NewRun};
use crate::volume::Volume;
use crate::{Error, FileKind, Ino, PageSize, step};
use std::ops::Range;

/// The pages of a file, see [`Volume::pages`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePages {
    /// The size that the file asks for.
    pub size: PageSize,
    /// Bytes of all of them.
    pub allocated: u64,
    /// Bytes of them in aligned runs of 2 MiB, which one entry of a page table can map.
    pub aligned: u64,
    /// Number of extents.
    pub extents: usize,
}

impl Volume {
    /// The page size of new files.
    pub fn page_size(&self) -> PageSize {
        self.core.page_size
    }

    /// The pages that a file has.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn pages(&self, ino: Ino) -> Result<FilePages> {
        let core = &*self.core;
        let node = core.node(ino)?;
        let state = node.read_extents(core)?;
        let extents = state.extents.as_ref().expect("they are loaded");
        Ok(FilePages { size: size_of(core, &node), ..counted(extents) })
    }

    /// The pages of all regular files, without those of snapshots: their size is that of new files.
    /// Reads every inode; files that are damaged are left out.
    pub fn all_pages(&self) -> FilePages {
        let core = &*self.core;
        let mut all = FilePages { size: core.page_size, ..FilePages::default() };
        for at in core.table.numbers().filter_map(|ino| core.table.at(ino)) {
            let state = State::of(core.media().load(at + inode::STATE));
            let is_file = FileKind::of_mode(state.mode) == Some(FileKind::Regular);
            if !is_file || state.flags & STATE_SNAPSHOT != 0 {
                continue;
            }
            if let Ok(loaded) = Extents::load(Pages::of(core.object()), at) {
                let found = counted(&loaded.extents);
                all.allocated += found.allocated;
                all.aligned += found.aligned;
                all.extents += found.extents;
            }
        }
        all
    }
}

/// Counts the pages of a file.
fn counted(extents: &Extents) -> FilePages {
    let mut found = FilePages::default();
    let mut add = |run: NewRun| {
        let first = run.first.next_multiple_of(LARGE_PAGES);
        if is_aligned(run.first, run.place.page) {
            found.aligned += (run.first + run.len).saturating_sub(first) / LARGE_PAGES * LARGE_PAGES * PAGE;
        }
        found.allocated += run.len * PAGE;
    };
    let mut run = None::<NewRun>;
    for (first, piece) in extents.pieces() {
        match &mut run {
            // Written and unwritten pages of one large page.
            Some(run) if run.first + run.len == first && run.place.page + run.len == piece.place.page => {
                run.len += piece.len;
            }
            _ => run.replace(NewRun { first, len: piece.len, place: piece.place }).into_iter().for_each(&mut add),
        }
    }
    run.into_iter().for_each(add);
    FilePages { extents: extents.pieces().count(), ..found }
}

/// The page size that a file asks for.
pub(super) fn size_of(core: &Core, node: &Node) -> PageSize {
    PageSize::of_flags(node.state_word(core).flags).unwrap_or_default()
}

/// Whether a page of the volume lies at the same place of its 2 MiB as the page of the file.
pub(super) fn is_aligned(first: u64, page: u64) -> bool {
    first % LARGE_PAGES == page % LARGE_PAGES
}

/// Sets the page size that a range of so many bytes hints at, if the file is empty. Not flushed: an
/// empty file is the same with every page size, and the size or the times of a file that gets bytes
/// are flushed with their line, which is this word's.
pub(super) fn hint(core: &Core, node: &Node, extents: &Extents, len: u64) {
    let is_empty = node.size(core) == 0 && extents.pieces().next().is_none();
    let Some(size) = PageSize::hinted(len).filter(|_| is_empty) else { return };
    let state = node.state_word(core);
    let flags = state.flags & !(PageSize::Large.flag() | PageSize::Giant.flag()) | size.flag();
    let media = core.media();
    let _section = media.section();
    media.store(node.at + inode::STATE, State { flags, ..state }.word());
}

/// Takes the large pages in which `pages` lie, and of which the file has no part. The content stays
/// the same, so a crash may fall between this change and the one that it is for. Returns what was
/// taken, for [`release`] if that change is refused.
pub(super) fn reserve(core: &Core, node: &Node, extents: &mut Extents, pages: &Range<u64>) -> Result<Vec<NewRun>> {
    let mut reserved = Vec::new();
    let mut largest = size_of(core, node);
    for first in (pages.start / LARGE_PAGES * LARGE_PAGES..pages.end).step_by(LARGE_PAGES as usize) {
        if largest == PageSize::Small {
            break;
        }
        for size in [PageSize::Giant, PageSize::Large] {
            let start = first / size.pages() * size.pages();
            if size > largest || !extents.overlapping(start..start + size.pages()).is_empty() {
                continue;
            }
            match take(core, node, extents, start, size) {
                Ok(Some(run)) => reserved.push(run),
                // This call does not ask for one again: its range may be that of the largest file.
                Ok(None) => largest = if size == PageSize::Giant { PageSize::Large } else { PageSize::Small },
                Err(error) => {
                    release(core, node, extents, &reserved);
                    return Err(error);
                }
            }
        }
    }
    Ok(reserved)
}

/// Takes a large page of this size or, if none is free, of the next smaller one: the first page,
/// and their number. `None`: there is no large page.
pub(super) fn take_any(core: &Core, size: PageSize) -> Result<Option<(u64, u64)>> {
    for size in [PageSize::Giant, PageSize::Large].into_iter().filter(|of| *of <= size) {
        if let Some(page) = core.take_large(size)? {
            return Ok(Some((page, size.pages())));
        }
    }
    Ok(None)
}

/// Takes a large page for the pages of a file from `first` on. `None`: none is free.
fn take(core: &Core, node: &Node, extents: &mut Extents, first: u64, size: PageSize) -> Result<Option<NewRun>> {
    step::pass("large-take");
    let Some(page) = core.take_large(size)? else { return Ok(None) };
    let place = Place { flags: PLACE_UNWRITTEN, ..Place::page(page) };
    let run = NewRun { first, len: size.pages(), place };
    match set(core, node, extents, first..first + run.len, vec![run]) {
        Ok(()) => Ok(Some(run)),
        Err(error) => {
            core.give_pages(page, run.len);
            // Smaller pages may be within the quota.
            if let Error::Quota { .. } = error { Ok(None) } else { Err(error) }
        }
    }
}

/// Gives back what [`reserve`] has taken, after the change that it was for was refused. What cannot
/// be given back stays with the file.
pub(super) fn release(core: &Core, node: &Node, extents: &mut Extents, reserved: &[NewRun]) {
    for run in reserved {
        if set(core, node, extents, run.first..run.first + run.len, Vec::new()).is_ok() {
            core.give_pages(run.place.page, run.len);
        }
    }
}

/// Gives a range of a file unwritten pages, or takes them away; ordered on return.
fn set(core: &Core, node: &Node, extents: &mut Extents, range: Range<u64>, runs: Vec<NewRun>) -> Result<()> {
    let runs = Fresh::unwritten(runs);
    extents.reserve_for(core, node.at, &range, &runs)?;
    let mut change = core.change();
    let remapped = extents.remap(core, node.at, &mut change, range, &runs);
    change.charge(node.at, remapped.net, 0);
    change.commit()?;
    extents.apply(&remapped);
    Ok(())
}

/// The written pieces before and behind a range that its unwritten pages adjoin, in the file and in
/// the volume: the range grows over them, so that one slot covers these pages, which become
/// written, and those beside them.
pub(super) fn neighbours(extents: &Extents, range: &mut Range<u64>, unwritten: &[NewRun]) -> Vec<NewRun> {
    let adjoins = |left: &NewRun, right: &NewRun| {
        let next = Place { page: left.place.page + left.len, ..left.place };
        left.first + left.len == right.first && next == right.place && left.len + right.len <= RUN_LEN_MAX
    };
    let run = |(first, piece): (u64, Piece)| NewRun { first, len: piece.len, place: piece.place };
    let first = unwritten.first().filter(|run| run.first == range.start);
    let last = unwritten.last().filter(|run| run.first + run.len == range.end);
    let before = range.start.checked_sub(1).and_then(|page| extents.find(page)).map(run);
    let before = before.filter(|before| first.is_some_and(|first| adjoins(before, first)));
    let behind = extents.find(range.end).map(run);
    let behind = behind.filter(|behind| last.is_some_and(|last| adjoins(last, behind)));
    range.start = before.map_or(range.start, |before| before.first);
    range.end = behind.map_or(range.end, |behind| behind.first + behind.len);
    before.into_iter().chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewFile, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::cell::Cell;
    use std::rc::Rc;

    /// A size of which none is free is asked for once, however long the range is.
    #[test]
    fn a_large_page_that_is_not_to_be_had_is_asked_for_once() {
        let store = Store::format(Media::anonymous(16 << 20, &Options::default()).unwrap(), &FormatOptions::default());
        let options = VolumeOptions { span: Some(4 << 20), page_size: PageSize::Giant, ..Default::default() };
        let volume = Volume::create(&store.unwrap(), "volume", &options).unwrap();
        let file = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        let (core, asked) = (&*volume.core, Rc::new(Cell::new(0)));
        let node = core.node(file).unwrap();
        let mut state = node.write(core).unwrap();
        let (extents, counted) = (state.extents(core, &node).unwrap(), Rc::clone(&asked));
        let count = move |_| counted.set(counted.get() + 1);
        let pages = 0..1000 * LARGE_PAGES;
        let taken = step::with(count, || reserve(core, &node, extents, &pages).unwrap());
        assert!(taken.len() <= 2, "{taken:?}");
        assert_eq!(asked.get(), taken.len() + 2, "one refusal for each size");
        release(core, &node, extents, &taken);
    }
}
