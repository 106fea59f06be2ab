//! Pages ahead of use, and holes.

use super::supply::{self, Supply};
use super::{inline, is_inline, large, lock, own_tail, read_page, require_range, require_unmapped, zero_tail};
use crate::core::Core;
use crate::extents::{Extents, Piece};
use crate::layout::{PAGE, PLACE_SEALED, PLACE_UNWRITTEN, Place};
use crate::node::Node;
use crate::order::{Fresh, NewRun};
use crate::volume::Volume;
use crate::{Ino, Result, seal};
use std::ops::Range;

/// A change of the pages of a range, see [`Volume::allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Gives pages to the holes of the range; a range behind the end makes the file larger.
    Grow,
    /// As [`Allocate::Grow`], and the size stays.
    KeepSize,
    /// Makes the range a hole, as far as the file goes; the size stays.
    Punch,
    /// Makes the range zeros that have pages; a range behind the end makes the file larger.
    Zero,
    /// As [`Allocate::Zero`], and the size stays.
    ZeroKeepSize,
}

impl Volume {
    /// Gives pages to a range of a regular file, or takes them away. Whole or absent after a
    /// crash; ordered on return. In an empty file a range of at least 2 MiB or 1 GiB that gets
    /// pages selects the page size of the file.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn allocate(&self, ino: Ino, at: u64, len: u64, mode: Allocate) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let end = require_range(at, len)?;
        let node = core.node(ino)?;
        let mut state = lock(core, &node)?;
        core.object().require_readable()?;
        if len == 0 {
            return Ok(());
        }
        if is_inline(core, &node) {
            inline::to_pages(core, &node, &mut state)?;
        }
        let size = node.size(core);
        let extents = state.extents(core, &node)?;
        if matches!(mode, Allocate::Grow | Allocate::KeepSize) {
            large::hint(core, &node, extents, len);
        }
        if matches!(mode, Allocate::Grow | Allocate::Zero) && end > size {
            own_tail(core, &node, extents, size)?;
        }
        match mode {
            Allocate::Punch => {
                let size_end = end.min(size.next_multiple_of(PAGE));
                if at < size_end {
                    clear(core, &node, extents, at..size_end, (size, size), false)?;
                }
                Ok(())
            }
            Allocate::Zero => clear(core, &node, extents, at..end, (size, size.max(end)), true),
            Allocate::ZeroKeepSize => clear(core, &node, extents, at..end, (size, size), true),
            Allocate::Grow => fill(core, &node, extents, at..end, (size, size.max(end))),
            Allocate::KeepSize => fill(core, &node, extents, at..end, (size, size)),
        }
    }
}

/// The pieces of a file in a range of its pages, cut to it, with other flags.
pub(super) fn pieces(extents: &Extents, range: &Range<u64>, flags: impl Fn(u8) -> u8) -> Vec<NewRun> {
    let cut = |(first, piece): (u64, Piece)| {
        let (from, to) = (first.max(range.start), (first + piece.len).min(range.end));
        let place = Place { page: piece.place.page + (from - first), flags: flags(piece.place.flags), ..piece.place };
        NewRun { first: from, len: to - from, place }
    };
    extents.overlapping(range.clone()).into_iter().map(cut).collect()
}

/// The number of pages of a range that the file does not have.
pub(super) fn missing(extents: &Extents, range: &Range<u64>) -> u64 {
    supply::missing(range, &pieces(extents, range, |flags| flags))
}

fn unwritten(place: Place) -> Place {
    Place { flags: place.flags & !PLACE_SEALED | PLACE_UNWRITTEN, ..place }
}

/// A change of the pages of a range, together with the size.
fn commit(
    core: &Core,
    node: &Node,
    extents: &mut Extents,
    pages: Range<u64>,
    runs: &Fresh<Vec<NewRun>>,
    sizes: (u64, u64),
) -> Result<()> {
    extents.reserve_for(core, node.at, &pages, runs)?;
    if sizes.1 > sizes.0 {
        let _before_the_commit = zero_tail(core, extents, sizes.0);
    }
    let mut change = core.change();
    let remapped = extents.remap(core, node.at, &mut change, pages, runs);
    change.charge(node.at, remapped.net, 0);
    inline::set_size(&mut change, node, sizes.1);
    change.commit()?;
    extents.apply(&remapped);
    core.give_runs(&remapped.freed);
    Ok(())
}

/// Gives unwritten pages to the holes of a range.
fn fill(core: &Core, node: &Node, extents: &mut Extents, range: Range<u64>, sizes: (u64, u64)) -> Result<()> {
    let mut pages = range.start / PAGE..range.end.div_ceil(PAGE);
    core.require_available(missing(extents, &pages))?;
    let reserved = large::reserve(core, node, extents, &pages)?;
    // Whole pieces, which keep their slots.
    for (first, piece) in extents.overlapping(pages.clone()) {
        pages = pages.start.min(first)..pages.end.max(first + piece.len);
    }
    let kept = Fresh::linked(pieces(extents, &pages, |flags| flags));
    let outcome = supply::reserve(core, &pages, kept).and_then(|(runs, supply)| {
        commit(core, node, extents, pages, &runs, sizes).map_err(|error| supply.give_back(core, error))
    });
    outcome.inspect_err(|_| large::release(core, node, extents, &reserved))
}

/// Makes a range zeros. Its whole pages become holes, or unwritten if `keep`; a page at an edge
/// that has bytes outside of the range is replaced by a new one. Bytes behind the new end of the
/// file are undefined (FS-11), so the page there counts as a whole one.
fn clear(
    core: &Core,
    node: &Node,
    extents: &mut Extents,
    range: Range<u64>,
    sizes: (u64, u64),
    keep: bool,
) -> Result<()> {
    let pages = range.start / PAGE..range.end.div_ceil(PAGE);
    require_unmapped(core, node, &pages)?;
    let is_edge =
        |page: u64| page * PAGE < range.start || ((page + 1) * PAGE > range.end && range.end < sizes.0.max(sizes.1));
    let is_written = |page: u64| extents.find(page).is_some_and(|(_, piece)| !piece.place.is_unwritten());
    let mut edges: Vec<u64> = [pages.start, pages.end - 1].into_iter().filter(|&page| is_edge(page)).collect();
    edges.dedup();
    let copied: Vec<u64> = edges.iter().copied().filter(|&page| is_written(page)).collect();
    for &page in &copied {
        let found = extents.find(page).expect("it is written");
        seal::verify(core, node.ino, found, page)?;
    }
    let copies = Supply::take(core, copied.len() as u64)?;
    let mut kept = Fresh::linked(Vec::new());
    for (&page, to) in copied.iter().zip(copies.pages()) {
        let mut content = [0; PAGE as usize];
        read_page(core, extents, sizes.0, page, &mut content);
        let (from, until) = (range.start.max(page * PAGE), range.end.min((page + 1) * PAGE));
        content[(from - page * PAGE) as usize..(until - page * PAGE) as usize].fill(0);
        let new = core.copy_pages_unless("fs-punch-unflushed", to, &content);
        kept = kept.join(new.with(vec![NewRun { first: page, len: 1, place: *new }]));
    }
    let outcome = if keep {
        // The pages between the copied ones stay, as unwritten ones; but shared ones: what is
        // written to unwritten pages later is stored at their place.
        let mut next = pages.start;
        for &page in copied.iter().chain([&pages.end]) {
            let stays = |run: &NewRun| !run.place.is_shared();
            let between = pieces(extents, &(next..page), |flags| flags).into_iter().filter(stays);
            let between = between.map(|run| NewRun { place: unwritten(run.place), ..run });
            kept = kept.join(Fresh::unwritten(between.collect()));
            next = page + 1;
        }
        supply::reserve(core, &pages, kept).and_then(|(runs, supply)| {
            commit(core, node, extents, pages, &runs, sizes).map_err(|error| supply.give_back(core, error))
        })
    } else {
        // Unwritten pages at the edges stay.
        for page in edges.into_iter().filter(|page| !copied.contains(page)) {
            kept = kept.join(Fresh::linked(pieces(extents, &(page..page + 1), |flags| flags)));
        }
        commit(core, node, extents, pages, &kept, sizes)
    };
    outcome.map_err(|error| copies.give_back(core, error))
}
