//! Further deaths: a process dies in the recovery or in the run that follows a crash, the next
//! process recovers or runs on the same memory, and power fails then.
//!
//! The deaths are drawn by seed from the places before the stores of that recovery or run, and its
//! end. Each is tried like a death of the first run; a third process has no deaths.

use super::ImageEngine;
use crate::points::{Point, walk};
use everbyte_workload::Random;
use std::ops::ControlFlow;

impl ImageEngine<'_> {
    /// Whether processes die in what follows a crash of this recording.
    pub(super) fn has_further_deaths(&self) -> bool {
        self.budget.further_deaths > 0 && self.further.is_none() && self.mortal()
    }

    /// Whether a process dies before that event, in a recording that follows a crash.
    pub(super) fn dies_further(&self, point: &Point) -> bool {
        self.further.as_ref().is_some_and(|events| events.contains(&point.event))
    }

    /// Chooses these events.
    pub(super) fn draw_further_deaths(&mut self) {
        if self.further.is_none() {
            return;
        }
        let (mut places, from) = (Vec::new(), self.from);
        let how = (self.settling, self.tear, self.stores(), self.from);
        let visit = |_: &mut (), point: Point| {
            // At its start nothing has been stored since the crash.
            if point.event > from && !point.units.is_empty() {
                places.push(point.event);
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = walk(self.recording, how, &mut (), |_, _, _| {}, |_, _| 0, visit);
        Random::new(self.budget.seed ^ from as u64).shuffle(&mut places);
        places.truncate(usize::try_from(self.budget.further_deaths).unwrap_or(usize::MAX));
        self.further = Some(places.into_iter().collect());
    }
}
