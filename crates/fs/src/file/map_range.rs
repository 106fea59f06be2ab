//! Pages of a range that is about to be mapped: each gets a written page that is the file's alone.
//!
//! Holes get new pages of zeros, unwritten pages are zeroed at their place, and shared pages are
//! copied (FS-20). The content stays the same, so a crash may fall between this change and the
//! mapping.

use super::allocate::{missing, pieces};
use super::{is_shared, large, read_page, supply};
use crate::core::Core;
use crate::extents::Extents;
use crate::layout::{PAGE, PLACE_UNWRITTEN, Place};
use crate::node::Node;
use crate::order::{Copier, Fresh, NewRun};
use crate::{Result, seal};
use everbyte_media::seeded;
use std::ops::Range;

/// Gives every page of a range a written page of its own, without a seal; ordered on return.
pub(super) fn own_pages(core: &Core, node: &Node, extents: &mut Extents, pages: &Range<u64>) -> Result<()> {
    seal::open(core, node, extents, pages)?;
    core.require_available(missing(extents, pages))?;
    let reserved = large::reserve(core, node, extents, pages)?;
    change(core, node, extents, pages).inspect_err(|_| large::release(core, node, extents, &reserved))
}

fn change(core: &Core, node: &Node, extents: &mut Extents, pages: &Range<u64>) -> Result<()> {
    let size = node.size(core);
    if own(core, extents, pages).iter().map(|run| run.len).sum::<u64>() == pages.end - pages.start {
        return Ok(());
    }
    // Written pieces keep their slots whole.
    let mut range = pages.clone();
    for (first, piece) in
        extents.overlapping(pages.clone()).into_iter().filter(|(_, piece)| !piece.place.is_unwritten())
    {
        range = range.start.min(first)..range.end.max(first + piece.len);
    }
    let mut zeroed = pieces(extents, pages, |flags| flags);
    zeroed.retain(|run| run.place.is_unwritten());
    for run in &mut zeroed {
        run.place.flags &= !PLACE_UNWRITTEN;
    }
    let outside = [range.start..pages.start, pages.end..range.end];
    let mut kept = own(core, extents, pages);
    kept.extend(outside.iter().flat_map(|part| pieces(extents, part, |flags| flags)));
    kept.sort_unstable_by_key(|run| run.first);
    let (new, supply) = supply::replace(core, &range, &zeroed, &kept)?;
    let (mut content, mut copier) = ([0; PAGE as usize], Copier::new(core.media()));
    for (run, page) in new.iter().flat_map(|run| (run.first..run.first + run.len).map(move |page| (run, page))) {
        read_page(core, extents, size, page, &mut content);
        let _section = core.media().section();
        copier.copy_nt_unless("fs-map-unflushed", core.at(run.place.page + (page - run.first)), &content);
    }
    let runs = copier.finish(new).join(Fresh::linked(kept)).coalesced();
    let outcome = extents.reserve_for(core, node.at, &range, &runs).and_then(|()| {
        let mut change = core.change();
        let remapped = extents.remap(core, node.at, &mut change, range, &runs);
        change.charge(node.at, remapped.net, 0);
        change.commit()?;
        Ok(remapped)
    });
    let remapped = outcome.map_err(|error| supply.give_back(core, error))?;
    extents.apply(&remapped);
    core.give_runs(&remapped.freed);
    Ok(())
}

/// The written pages of a range that no other extent leads to, as runs.
pub(super) fn own(core: &Core, extents: &Extents, pages: &Range<u64>) -> Vec<NewRun> {
    let mut own = Vec::new();
    for run in pieces(extents, pages, |flags| flags).into_iter().filter(|run| !run.place.is_unwritten()) {
        if !run.place.is_shared() || seeded("fs-map-shared") {
            own.push(run);
            continue;
        }
        let piece = extents.find(run.first).expect("the run is part of a piece");
        let mut next = run.first;
        for page in run.first..=run.first + run.len {
            if page == run.first + run.len || is_shared(core, piece, page) {
                let place = Place { page: run.place.page + (next - run.first), ..run.place };
                own.extend((next < page).then_some(NewRun { first: next, len: page - next, place }));
                next = page + 1;
            }
        }
    }
    own
}
