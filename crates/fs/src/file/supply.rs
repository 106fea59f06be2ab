//! New pages for ranges of a file.

use crate::core::Core;
use crate::layout::{PLACE_UNWRITTEN, Place, RUN_LEN_MAX};
use crate::order::{Blank, Fresh, NewRun};
use crate::{Error, Result};
use std::ops::Range;

/// Pages that were taken for a change, dealt out in order.
pub(super) struct Supply {
    taken: Vec<(u64, u64)>,
    next: usize,
    rest: (u64, u64),
}

impl Supply {
    /// Takes `count` pages.
    pub(super) fn take(core: &Core, count: u64) -> Result<Supply> {
        Ok(Supply { taken: core.take_runs(count)?, next: 0, rest: (0, 0) })
    }

    /// Deals out pages for the pages `range` of a file.
    pub(super) fn fill(&mut self, range: Range<u64>, flags: u8, runs: &mut Vec<NewRun>) {
        let mut first = range.start;
        while first < range.end {
            if self.rest.1 == 0 {
                self.rest = self.taken[self.next];
                self.next += 1;
            }
            let (page, left) = self.rest;
            let count = left.min(range.end - first);
            push_runs(runs, first, count, Place { flags, ..Place::page(page) });
            (first, self.rest) = (first + count, (page + count, left - count));
        }
    }

    /// The pages that were taken.
    pub(super) fn pages(&self) -> Vec<u64> {
        self.taken.iter().flat_map(|&(first, count)| first..first + count).collect()
    }

    /// Gives all pages back after `error`.
    pub(super) fn give_back(&self, core: &Core, error: Error) -> Error {
        core.give_runs(&self.taken);
        error
    }
}

/// Runs for the pages of a range but those of `staying`, which are stored then: those of `kept`,
/// and new ones between them.
pub(super) fn replace(
    core: &Core,
    range: &Range<u64>,
    kept: &[NewRun],
    staying: &[NewRun],
) -> Result<(Blank<Vec<NewRun>>, Supply)> {
    let mut there = [kept, staying].concat();
    there.sort_unstable_by_key(|run| run.first);
    let (mut runs, supply) = fill_between(core, range, &there, 0)?;
    runs.extend(kept);
    runs.sort_unstable_by_key(|run| run.first);
    Ok((Blank::new(runs), supply))
}

/// Runs for all pages of a range: those of `kept`, and new ones between them that are not written.
pub(super) fn reserve(
    core: &Core,
    range: &Range<u64>,
    kept: Fresh<Vec<NewRun>>,
) -> Result<(Fresh<Vec<NewRun>>, Supply)> {
    core.require_available(missing(range, &kept))?;
    let (runs, supply) = fill_between(core, range, &kept, PLACE_UNWRITTEN)?;
    Ok((kept.join(Fresh::unwritten(runs)), supply))
}

/// The number of pages of a range that no run has.
pub(super) fn missing(range: &Range<u64>, runs: &[NewRun]) -> u64 {
    range.end - range.start - runs.iter().map(|run| run.len).sum::<u64>()
}

/// New runs for the pages between those of `kept`.
fn fill_between(core: &Core, range: &Range<u64>, kept: &[NewRun], flags: u8) -> Result<(Vec<NewRun>, Supply)> {
    let mut supply = Supply::take(core, missing(range, kept))?;
    let mut runs = Vec::new();
    let mut next = range.start;
    for &run in kept {
        supply.fill(next..run.first, flags, &mut runs);
        next = run.first + run.len;
    }
    supply.fill(next..range.end, flags, &mut runs);
    Ok((runs, supply))
}

/// Adds a run of pages, cut where it is longer than an extent may be.
pub(super) fn push_runs(runs: &mut Vec<NewRun>, first: u64, len: u64, place: Place) {
    let mut done = 0;
    while done < len {
        let part = (len - done).min(RUN_LEN_MAX);
        runs.push(NewRun { first: first + done, len: part, place: Place { page: place.page + done, ..place } });
        done += part;
    }
}
