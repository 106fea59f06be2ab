//! The second generation: a program runs on what a crash left, is crashed again, and its recovery
//! is checked.
//!
//! Steps, in the child that tries an image of the first run and found that it passes
//!   1. the image is recovered and read out: what it holds is what the second run starts from;
//!      undone
//!   2. the program runs on the image, its opening recovers once more; recorded, undone
//!   3. the crash images of that recording are tried like those of any other, without a third run
//!
//! A second run follows the death of a process, too, where memory outlives it: what the dead one
//! stored and did not flush stays undecided through that run, and only images behind its first
//! acknowledgement are tried. Where all starts are deaths, those before it are tried, too, each of
//! which may also be an image of what the dead process had promised.
//!
//! Starts are drawn by seed: some crash points, and of each the settled image, the one with all
//! stores, and samples.

use crate::stage::{Check, Stage};
use crate::tape::Tape;
use crate::{Oracle, Seen, Threads};
use everbyte_media::Media;

/// A program for recovered images, and how much of it is tried.
pub(crate) struct Again<'a> {
    /// Recovers an image and keeps what it holds as the start of the second run.
    pub begin: Check<'a>,
    pub program: &'a dyn Fn(Media, &Oracle),
    pub check: Check<'a>,
    /// Forgets the second run.
    pub end: &'a dyn Fn(),
    pub threads: Threads,
    /// Images that a second run starts from, about; 0 for all that are tried.
    pub runs: u64,
    /// Images per crash point of a second run.
    pub images: usize,
    /// Crash points of a second run that are tried.
    pub points: u64,
    /// Images of a second run, about.
    pub total: u64,
    /// Only deaths are starts: before each store, not before each fence alone.
    pub deaths: bool,
}

/// Which images a second run starts from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts {
    /// One crash point in so many; 0 for none.
    pub point_every: u64,
    /// Of the samples of such a point one in so many; its settled image and the one with all stores
    /// always.
    pub image_every: u64,
}

/// Ends the second run when it is dropped.
pub(crate) struct End<'a>(&'a dyn Fn());

impl Drop for End<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Again<'_> {
    pub(crate) fn starts(&self, points: u64) -> Starts {
        match self.runs {
            runs if self.deaths => Starts { point_every: points.div_ceil(runs.max(1)).max(1), image_every: 1 },
            0 => Starts { point_every: 1, image_every: 4 },
            runs => {
                let point_every = (points * 3).div_ceil(runs).max(1);
                // If every point is a start, more of its samples are, too.
                Starts { point_every, image_every: if point_every == 1 { 4 } else { 24 } }
            }
        }
    }

    pub(crate) fn begin(&self, stage: &Stage, seen: &Seen) -> Result<End<'_>, String> {
        let (result, _) = stage.check(self.begin, seen);
        result.map(|()| End(self.end))
    }

    pub(crate) fn run(&self, media: Media, tape: &Tape) {
        (self.program)(media, &Oracle { tape: tape.clone(), threads: self.threads });
    }
}
