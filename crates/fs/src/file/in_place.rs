//! Pages that a write changes at their place, under undo records: those of mapped ranges (FS-30),
//! and those of large pages, which stay whole so.

use super::allocate::pieces;
use super::large;
use super::map_range::own;
use crate::change::Change;
use crate::core::Core;
use crate::extents::Extents;
use crate::layout::PAGE;
use crate::node::Node;
use crate::order::NewRun;
use crate::{Error, PageSize, Result};
use everbyte_media::seeded;
use std::ops::Range;

/// The written pages of a range that stay at their place, in order.
///
/// # Errors
/// [`Error::Mapped`]: one of them is mapped and shared, so that it may not be stored to (FS-20).
pub(super) fn staying(core: &Core, node: &Node, extents: &Extents, pages: &Range<u64>) -> Result<Vec<NewRun>> {
    let mut staying = Vec::new();
    let mut mapped = core.maps.within(node, pages);
    if seeded("fs-mapped-replaced") {
        mapped.clear();
    }
    let mut next = pages.start;
    for part in mapped.into_iter().chain(std::iter::once(pages.end..pages.end)) {
        if large::size_of(core, node) != PageSize::Small {
            let between = own(core, extents, &(next..part.start)).into_iter();
            staying.extend(between.filter(|run| large::is_aligned(run.first, run.place.page)));
        }
        let (own, mut written) = (own(core, extents, &part), pieces(extents, &part, |flags| flags));
        written.retain(|run| !run.place.is_unwritten());
        let count = |runs: &[NewRun]| runs.iter().map(|run| run.len).sum::<u64>();
        if count(&own) < count(&written) {
            return Err(Error::Mapped { ino: node.ino });
        }
        staying.extend(own);
        next = part.end;
    }
    Ok(staying)
}

/// The part of a range of pages without the pages that stay at its two ends.
pub(super) fn replaced(pages: &Range<u64>, staying: &[NewRun]) -> Range<u64> {
    let mut rest = pages.clone();
    for run in staying.iter().take_while(|run| run.first <= pages.end) {
        if run.first == rest.start {
            rest.start += run.len;
        }
    }
    for run in staying.iter().rev() {
        if run.first + run.len == rest.end && rest.start < rest.end {
            rest.end = run.first;
        }
    }
    rest
}

/// Adds to `change` the bytes of a write to pages that stay. Bytes behind the old end, which
/// nothing reads, are stored at once; flushed, not fenced.
pub(super) fn put<'c>(
    core: &Core,
    change: &mut Change<'c>,
    staying: &[NewRun],
    (at, size): (u64, u64),
    bytes: &'c [u8],
) {
    let end = at + bytes.len() as u64;
    let part = |from: u64, until: u64| &bytes[(from - at) as usize..(until - at) as usize];
    for run in staying {
        let (from, until) = ((run.first * PAGE).max(at), ((run.first + run.len) * PAGE).min(end));
        let place = |offset: u64| core.at(run.place.page) + (offset - run.first * PAGE);
        let old = until.min(size).max(from);
        change.put(place(from), part(from, old));
        if old < until {
            let _section = core.media().section();
            core.media().copy_nt_unless("fs-behind-unflushed", place(old), part(old, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Place;

    #[test]
    fn pages_that_stay_at_the_ends_of_a_range_are_left_out() {
        let run = |first, len| NewRun { first, len, place: Place::page(100 + first) };
        assert_eq!(replaced(&(3..9), &[]), 3..9);
        assert_eq!(replaced(&(3..9), &[run(4, 2)]), 3..9, "in the middle");
        assert_eq!(replaced(&(3..9), &[run(3, 1), run(4, 2), run(8, 1)]), 6..8);
        assert!(replaced(&(3..9), &[run(3, 2), run(5, 4)]).is_empty());
        assert!(replaced(&(3..9), &[run(3, 6)]).is_empty());
    }
}
