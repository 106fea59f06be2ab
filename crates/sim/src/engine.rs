//! The engine: walks the crash points of a recording, tries images in children, confirms and
//! shrinks what fails.
//!
//! Steps for one recording
//!   1. walk its crash points; the stage shows the settled image of each
//!   2. choose images, leave out those seen before; the rest of several points wait together
//!   3. hand them to children in batches; in the child: take back what was settled since an image's
//!      point, make the image, run the check, undo; where recovery changed media, explore that
//!      recording too
//!   4. on failure: walk again to that point, try the image alone, shrink it, tell the story
//!
//! A batch of images shares one child, each undone before the next: a fork costs more than a
//! recovery. Points wait for each other only while memory does not grow (QUEUE-1). An image that
//! fails is confirmed in a child of its own; where that passes, or where a check leaves threads
//! running, images get a child each from then on, and what was tried together is tried again.

use crate::again::{Again, End, Starts};
use crate::child::{Child, Death, Outcome, wait_any};
use crate::failure::{Deviation, Found};
use crate::points::{Point, Tear, walk};
use crate::recipes::{Choice, Recipe, menu};
use crate::stage::{Check, Stage, Trial, describe};
use crate::tape::{Event, Recording, Settling};
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

mod further;

/// Stores that wait: they bound the memory of [`Queue`].
const MOST_STORES: usize = 1 << 20;

/// How much to try.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Images per crash point where not all are tried.
    pub images: usize,
    /// All images of a point are tried up to this many.
    pub exhaustive: u64,
    /// `total` does not lower `exhaustive`.
    pub whole: bool,
    /// Images per crash point inside recovery.
    pub recovery_images: usize,
    /// One in so many images has its recovery explored; the settled image and everything always.
    pub recovery_every: u64,
    /// At most about so many recoveries of one recording are explored, drawn by seed.
    pub recoveries: u64,
    /// Crashes on the way to a checked state: 1 is the program's, 2 adds one inside recovery.
    pub depth: u32,
    /// Whether processes die, too, where memory outlives them.
    pub deaths: bool,
    /// Deaths inside each explored recovery and each second run, about.
    pub further_deaths: u64,
    /// Images of one recording, about; points share it where they are many.
    pub total: u64,
    /// Images that each point gets, whatever the total.
    pub floor: usize,
    /// At most so many crash points are tried, drawn by seed; the others are left out.
    pub points: u64,
    pub batch: usize,
    pub jobs: usize,
    pub timeout: Duration,
    pub seed: u64,
    /// A failing image is made as small as it may be before it is told.
    pub shrinks: bool,
}

/// The image that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tried {
    pub points: u64,
    /// Points of which every image was tried.
    pub whole: u64,
    pub images: u64,
    /// Left out because the same image with the same promises was tried before.
    pub repeated: u64,
    pub possible: f64,
    /// Images of crashes inside recovery, and of second runs.
    pub recoveries: u64,
}

/// A change of the settled image.
struct Settled {
    word: u64,
    before: u64,
    after: u64,
}

/// A crash point whose images wait.
struct Place {
    point: Point,
    seen: crate::Seen,
    /// Changes of [`Queue::settled`] that had been made there.
    settled: usize,
}

#[derive(Clone)]
struct Waiting {
    place: Rc<Place>,
    trial: Trial,
}

/// Images that wait for children.
///
/// Invariant QUEUE-1: memory has not grown since the first of their points, so taking back
/// `settled` makes what each point had.
#[derive(Default)]
struct Queue {
    images: Vec<Waiting>,
    /// Undecided stores of their points, which each point lists anew.
    stores: usize,
    /// Since the first of their points, in order.
    settled: Vec<Settled>,
}

pub(crate) struct ImageEngine<'e> {
    pub recording: &'e Recording,
    pub settling: Settling,
    pub tear: Tear,
    pub budget: &'e Budget,
    pub check: Check<'e>,
    /// The program that runs on recovered images.
    pub again: Option<&'e Again<'e>>,
    pub stage: Stage,
    pub tried: Tried,
    /// The names of all operations, and those acknowledged, in order.
    names: Arc<Vec<String>>,
    acked: Arc<Vec<usize>>,
    running: Vec<(Child, Vec<Waiting>)>,
    queue: Queue,
    /// The changes of `queue.settled` that the stage shows: all, but for a moment.
    shown: Cell<usize>,
    /// A failure that was found between two points.
    found: Option<Waiting>,
    known: HashSet<u64>,
    isolate: bool,
    /// Points before this event are another explorer's.
    from: usize,
    /// One crash point in so many is tried.
    point_every: u64,
    starts: Starts,
    /// The settled image and everything have their recovery explored at one crash point in so many,
    /// other images one in so many.
    recovery_every: (u64, u64),
    /// The recording is of a program's second run.
    second: bool,
    /// That run follows the death of a process.
    heir: bool,
    /// In a recording of a recovery or a second run: the events before which a process dies in it.
    further: Option<HashSet<usize>>,
}

impl<'e> ImageEngine<'e> {
    pub(crate) fn new(
        recording: &'e Recording,
        (settling, tear): (Settling, Tear),
        budget: &'e Budget,
        check: Check<'e>,
        stage: Stage,
    ) -> ImageEngine<'e> {
        let isolate = budget.batch <= 1;
        let (tried, running, known) = (Tried::default(), Vec::new(), HashSet::new());
        let (names, acked) = (Arc::new(recording.ops.clone()), Arc::new(recording.acked()));
        let (queue, shown, found) = (Queue::default(), Cell::new(0), None);
        let (again, point_every, starts) = (None, 1, Starts::default());
        ImageEngine {
            recording,
            settling,
            tear,
            budget,
            check,
            again,
            stage,
            tried,
            names,
            acked,
            running,
            queue,
            shown,
            found,
            known,
            isolate,
            from: 0,
            point_every,
            starts,
            recovery_every: (1, budget.recovery_every.max(1)),
            second: false,
            heir: false,
            further: None,
        }
    }

    /// Runs a program on recovered images, too.
    pub(crate) fn followed_by(self, again: Option<&'e Again<'e>>) -> ImageEngine<'e> {
        ImageEngine { again, ..self }
    }

    /// Leaves out the points before that event.
    fn starting_at(self, from: usize) -> ImageEngine<'e> {
        ImageEngine { from, ..self }
    }

    /// Tries images of all points; the failure found, if any, is confirmed and shrunk.
    pub(crate) fn explore(&mut self) -> Option<Found> {
        let budget = self.share();
        self.draw_further_deaths();
        let flow = self.walk(|engine, point| {
            let drawn = everbyte_workload::mix(budget.seed ^ point.event as u64).is_multiple_of(engine.point_every);
            let last = point.event == engine.recording.events.len();
            let left_out = !(drawn || last);
            if point.event < engine.from || left_out && !engine.dies_further(&point) {
                return ControlFlow::Continue(());
            }
            let found = engine.point(Point { death_only: point.death_only || left_out, ..point }, &budget);
            found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
        });
        let found = match flow {
            ControlFlow::Break(found) => Some(found),
            ControlFlow::Continue(()) => self.found.take().or_else(|| self.dispatch()),
        };
        self.running.drain(..).for_each(|(child, _)| child.cancel());
        self.forget_queue();
        found.map(|Waiting { place, trial }| self.explain(place.point.event, trial))
    }

    /// Tries one image again: `Err` says why the words lead nowhere.
    pub(crate) fn replay(&mut self, chain: &[Deviation]) -> Result<Option<Found>, String> {
        let Some((first, rest)) = chain.split_first() else { return Err("an empty image id".into()) };
        let mut answer = None;
        let _ = self.at(first.event, |engine, point| {
            answer =
                Some(first.trial(point).map(|trial| engine.alone(point, &trial, rest).map(|(m, i)| (trial, m, i))));
        });
        let answer = answer.ok_or("the program took another path: no such crash point")?;
        Ok(answer?.map(|(trial, message, inner)| self.tell(first.event, &trial, message, inner)))
    }

    fn share(&mut self) -> Budget {
        let (mut points, mut places) = (0, 0);
        let _ = walk::<(), ()>(
            self.recording,
            (self.settling, self.tear, self.stores(), self.from),
            &mut (),
            |_, _, _| {},
            |_, _| 0,
            |_, point| {
                places += u64::from(point.event >= self.from);
                points += u64::from(point.event >= self.from && !point.death_only);
                ControlFlow::Continue(())
            },
        );
        self.point_every = points.div_ceil(self.budget.points.max(1)).max(1);
        self.starts =
            self.again.map_or(Starts::default(), |again| again.starts(if again.deaths { places } else { points }));
        let fair = (self.budget.total / points.div_ceil(self.point_every).max(1)) as usize;
        let images = self.budget.images.min(fair.max(if self.second { 4 } else { self.budget.floor }));
        let most = if self.budget.whole { u64::MAX } else { (fair as u64 * 4).max(images as u64) };
        let exhaustive = self.budget.exhaustive.min(most);
        // Half of the recoveries are of whole images and dead processes, three of each point, half
        // of the others.
        let half = (self.budget.recoveries / 2).max(1);
        let others = (points.saturating_mul(images as u64)).div_ceil(half).max(self.budget.recovery_every.max(1));
        self.recovery_every = ((points * 3).div_ceil(half).max(1), others);
        Budget { images, exhaustive, ..self.budget.clone() }
    }

    fn walk<B>(&mut self, mut visit: impl FnMut(&mut Self, Point) -> ControlFlow<B>) -> ControlFlow<B> {
        self.stage.reset();
        let (recording, how) = (self.recording, (self.settling, self.tear, self.stores(), self.from));
        let settle = |engine: &mut Self, word, value| engine.settle(word, value);
        let read = |engine: &Self, word| engine.stage.read(word);
        walk(recording, how, self, settle, read, &mut visit)
    }

    /// Whether processes die before each store, not before fences alone.
    fn stores(&self) -> bool {
        (self.again.is_some_and(|again| again.deaths) || self.further.is_some()) && self.mortal()
    }

    /// Whether processes die and memory stays.
    fn mortal(&self) -> bool {
        self.budget.deaths && self.settling == Settling::Fence && self.tear != Tear::Stores
    }

    /// Calls `body` at the point before `event`, with the stage as it is there.
    fn at(&mut self, event: usize, mut body: impl FnMut(&mut Self, &Point)) -> ControlFlow<()> {
        self.walk(|engine, point| {
            if point.event != event {
                return ControlFlow::Continue(());
            }
            body(engine, &point);
            ControlFlow::Break(())
        })
    }

    /// The state that the check of a point may demand.
    fn seen(&self, point: &Point) -> crate::Seen {
        crate::Seen {
            names: Arc::clone(&self.names),
            begun: point.begun,
            acked: Arc::clone(&self.acked),
            acked_count: point.acked,
            died: false,
            heir: self.heir,
            tape: self.stage.tape.clone(),
        }
    }

    /// Lets the images of a point wait, and tries all that wait if they are many.
    fn point(&mut self, point: Point, budget: &Budget) -> Option<Waiting> {
        if let Some(found) = self.found.take() {
            return Some(found);
        }
        let mut trials = Vec::new();
        if self.mortal() && !point.units.is_empty() {
            let choice = Recipe::Everything.choice(&point.units);
            let trial = Trial { choice, holes: false, death: true };
            let dies = match &self.further {
                Some(_) => self.dies_further(&point),
                None => !point.death_only || self.starts_again(&point, &trial),
            };
            if dies {
                self.admit(&point, trial, &mut trials);
            }
        }
        let mut recipes = Vec::new();
        if !point.death_only {
            let menu = menu(&point, budget.exhaustive, budget.images, budget.seed);
            self.tried.points += 1;
            self.tried.whole += u64::from(menu.all);
            self.tried.possible += menu.possible;
            recipes = menu.recipes;
            if self.from > 0 && !menu.all {
                recipes.insert(2, Recipe::Since(self.from)); // the dead process's stores are lost
            }
        }
        for (index, recipe) in recipes.into_iter().enumerate() {
            let choice = recipe.choice(&point.units);
            if !point.later_holes.is_empty() && index < 32 {
                self.admit(&point, Trial { choice: choice.clone(), holes: true, death: false }, &mut trials);
            }
            self.admit(&point, Trial { choice, holes: false, death: false }, &mut trials);
        }
        if !trials.is_empty() {
            let seen = self.seen(&point);
            self.queue.stores += point.units.iter().map(|unit| unit.stores.len()).sum::<usize>();
            let place = Rc::new(Place { point, seen, settled: self.queue.settled.len() });
            self.queue.images.extend(trials.into_iter().map(|trial| Waiting { place: Rc::clone(&place), trial }));
        }
        let many = self.budget.batch.saturating_mul(self.budget.jobs);
        let is_full = self.queue.images.len() >= many || self.queue.stores >= MOST_STORES;
        if is_full { self.dispatch() } else { None }
    }

    /// The settled image changes.
    fn settle(&mut self, word: u64, value: u64) {
        if !self.queue.images.is_empty() && !self.stage.media.holds(word, 8) {
            self.found = self.found.take().or_else(|| self.dispatch()); // QUEUE-1
        }
        if !self.queue.images.is_empty() {
            self.queue.settled.push(Settled { word, before: self.stage.read(word), after: value });
            self.shown.set(self.queue.settled.len());
        }
        self.stage.settle(word, value);
    }

    /// Brings the stage to where so many of the queue's changes were made.
    fn show(&self, settled: usize) {
        let shown = self.shown.replace(settled);
        let changes = &self.queue.settled;
        changes.get(settled..shown).into_iter().flatten().rev().for_each(|it| self.stage.place(it.word, it.before));
        changes.get(shown..settled).into_iter().flatten().for_each(|it| self.stage.place(it.word, it.after));
    }

    /// Tries all images that wait.
    fn dispatch(&mut self) -> Option<Waiting> {
        let images = std::mem::take(&mut self.queue.images);
        // Dealt out like cards: the first images of a point are those whose recoveries are
        // explored, and each job gets some of them.
        let count = images.len().div_ceil(self.budget.batch).max(self.budget.jobs).min(images.len());
        let mut hands: VecDeque<Vec<Waiting>> = (0..count).map(|_| Vec::new()).collect();
        images.into_iter().enumerate().for_each(|(index, image)| hands[index % count].push(image));
        let mut found = None;
        while found.is_none()
            && let Some(mut images) = hands.pop_front()
        {
            if self.isolate && images.len() > 1 {
                hands.push_front(images.split_off(1));
            }
            self.start(images);
            found = self.drain(self.budget.jobs.saturating_sub(1));
        }
        let found = found.or_else(|| self.drain(0));
        self.forget_queue();
        found
    }

    fn forget_queue(&mut self) {
        self.queue = Queue::default();
        self.shown.set(0);
    }

    fn admit(&mut self, point: &Point, trial: Trial, trials: &mut Vec<Trial>) {
        let promises = (point.begun as u64) << 32 | point.acked as u64;
        let mut name = self.stage.hash_of(point, &trial) ^ everbyte_workload::mix(promises + 1);
        if trial.death {
            name = everbyte_workload::mix(name ^ point.event as u64); // what is undecided counts too
        }
        if self.known.insert(name) {
            self.tried.images += 1;
            trials.push(trial);
        } else {
            self.tried.repeated += 1;
        }
    }

    fn start(&mut self, images: Vec<Waiting>) {
        let job = |index: usize| {
            let Waiting { place, trial } = &images[index];
            self.show(place.settled);
            self.try_here(&place.point, trial, &place.seen, &[]).map(|inner| inner.to_le_bytes().to_vec())
        };
        let child = Child::spawn(images.len(), &job).expect("fork a child for a crash image");
        self.running.push((child, images));
    }

    /// Waits until at most `keep` children run.
    fn drain(&mut self, keep: usize) -> Option<Waiting> {
        while self.running.len() > keep {
            let (outcome, images) = wait_any(&mut self.running, self.budget.timeout);
            self.isolate |= outcome.threads;
            self.tried.recoveries += inner_images(&outcome);
            if outcome.failure.is_none() && !(outcome.threads && images.len() > 1) {
                continue;
            }
            // Tried together is not tried alone: state of the process may have leaked from one
            // image to the next.
            let (before, rest) = images.split_at(outcome.passed.len().min(images.len()));
            let suspects = rest.iter().take(1).filter(|_| outcome.failure.is_some());
            if let Some(image) = suspects.into_iter().find(|image| self.fails_alone(image)) {
                return Some(image.clone());
            }
            self.isolate = true;
            if let Some(image) = before.iter().chain(rest).find(|image| self.fails_alone(image)) {
                return Some(image.clone());
            }
        }
        None
    }

    fn fails_alone(&mut self, image: &Waiting) -> bool {
        self.show(image.place.settled);
        let failure = self.alone(&image.place.point, &image.trial, &[]);
        self.show(self.queue.settled.len());
        failure.is_some()
    }

    /// Tries one image in its own child, twice where it hangs: what failed and, inside recovery,
    /// where.
    fn alone(&mut self, point: &Point, trial: &Trial, chain: &[Deviation]) -> Option<(String, Vec<Deviation>)> {
        let seen = self.seen(point);
        let mut children = Vec::new();
        for _ in 0..2 {
            let job = |_| self.try_here(point, trial, &seen, chain).map(|inner| inner.to_le_bytes().to_vec());
            children.push((Child::spawn(1, &job).expect("fork a child for a crash image"), ()));
            match wait_any(&mut children, self.budget.timeout).0.failure? {
                Death::Said(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let (inner, message) = text.split_once('\0').unwrap_or(("", &text));
                    return Some((message.into(), Deviation::parse_chain(inner).unwrap_or_default()));
                }
                Death::Died(how) => return Some((how, Vec::new())),
                Death::Hung => {}
            }
        }
        Some((format!("recovery or check was silent for {:?} and was killed", self.budget.timeout), Vec::new()))
    }

    /// In a child: one image, and the crashes inside its recovery. Answers with the number of inner
    /// images.
    fn try_here(&self, point: &Point, trial: &Trial, seen: &crate::Seen, chain: &[Deviation]) -> Result<u64, Vec<u8>> {
        let (result, recovery, after_death) = self.stage.with(point, trial, || {
            let (result, recovery) = self.stage.check(self.check, &crate::Seen { died: trial.death, ..seen.clone() });
            let second = match self.again {
                _ if chain.first().is_some_and(|next| !next.again) => None,
                Some(again) if !chain.is_empty() || self.starts_again(point, trial) => Some(again),
                _ => None,
            };
            let mut images = 0;
            if let (Some(again), true) = (second, result.is_ok()) {
                if trial.death {
                    let started = self.rerun(again, seen);
                    return (started.as_ref().map(|_| 0).map_err(Vec::clone), Some(recovery), started.ok());
                }
                match self.second_run(again, seen, chain) {
                    Ok(more) if chain.is_empty() => images = more,
                    other => return (other, None, None),
                }
            }
            let wanted = !trial.death && (!chain.is_empty() || self.explores_recovery(point, trial));
            if (result.is_ok() || !chain.is_empty()) && wanted && self.budget.depth >= 2 && !recovery.words.is_empty() {
                let recovery = Recording { ops: Vec::new(), ..recovery };
                let inside = self.inside(&recovery, 0, self.stage.inner(), seen, chain);
                return (inside.map(|inside| inside + images), None, None);
            }
            let result = if trial.death && !chain.is_empty() { Ok(()) } else { result };
            let result = result.map(|()| images).map_err(|message| format!("\0{message}").into_bytes());
            (result, Some(recovery), None)
        });
        let mut explored = result?;
        if let Some((end, next)) = after_death {
            // The dead process's stores go on being undecided: one recording, in which the second
            // run continues. Before it has promised anything, a crash may still go back to what the
            // dead process had promised: recovery is explored below.
            let both = self.recording.followed(point.event, &next);
            let again = self.again.expect("it ran");
            let acked = || both.events.iter().position(|event| matches!(event, Event::Acked(_)));
            if let Some(from) = Some(point.event).filter(|_| again.deaths).or_else(acked) {
                let second = |stage| self.inside_second(again, &both, Some(from), stage, chain);
                explored = self.stage.start_over(second)?;
            }
            drop(end);
            if !chain.is_empty() {
                return Ok(explored);
            }
        }
        match recovery {
            Some(recovery)
                if trial.death
                    && !recovery.words.is_empty()
                    && (self.further.is_some() || self.budget.depth >= 2 && self.draws(point) || !chain.is_empty()) =>
            {
                // Likewise, with a recovery by another process.
                let both = self.recording.continued(point.event, &recovery);
                let inside = self.stage.start_over(|stage| self.inside(&both, point.event, stage, seen, chain));
                inside.map(|inside| inside + explored)
            }
            _ => Ok(explored),
        }
    }

    /// Explores what a recovery did, or tries the one image of it that `chain` names.
    fn inside(
        &self,
        recording: &Recording,
        from: usize,
        stage: Stage,
        seen: &crate::Seen,
        chain: &[Deviation],
    ) -> Result<u64, Vec<u8>> {
        let budget = Budget {
            depth: self.budget.depth.saturating_sub(1),
            images: self.budget.recovery_images,
            exhaustive: self.budget.recovery_images as u64,
            whole: false,
            batch: self.inner_batch(),
            jobs: 1,
            deaths: self.has_further_deaths(),
            ..self.budget.clone()
        };
        let check = |media, inner: &crate::Seen| (self.check)(media, &crate::Seen { died: inner.died, ..seen.clone() });
        let mut inner =
            ImageEngine::new(recording, (self.settling, self.tear), &budget, &check, stage).starting_at(from);
        inner.further = budget.deaths.then(HashSet::new);
        let found = if chain.is_empty() {
            inner.explore()
        } else {
            inner.replay(chain).map_err(|text| format!("\0{text}").into_bytes())?
        };
        inner.stage.reset();
        found.map_or(Ok(inner.tried.images + inner.tried.recoveries), |found| Err(found.wire()))
    }

    /// Runs the program on the image that the stage shows, and explores that run or the one image
    /// of it that `chain` names.
    fn second_run(&self, again: &Again<'_>, seen: &crate::Seen, chain: &[Deviation]) -> Result<u64, Vec<u8>> {
        let (_end, recording) = self.rerun(again, seen)?;
        self.inside_second(again, &recording, None, self.stage.inner(), chain)
    }

    /// Records the program on the image that the stage shows.
    fn rerun<'a>(&self, again: &'a Again<'_>, seen: &crate::Seen) -> Result<(End<'a>, Recording), Vec<u8>> {
        let text = |message: String| format!("\0{message}").into_bytes();
        let end = again.begin(&self.stage, seen).map_err(text)?;
        let (outcome, recording) = self.stage.record(&|media| again.run(media, &self.stage.tape));
        outcome.map_err(|panic| text(format!("the program cannot run on what a crash has left: {panic}")))?;
        Ok((end, recording))
    }

    /// Explores a second run, or tries the one image of it that `chain` names: one that follows a
    /// death from that event on.
    fn inside_second(
        &self,
        again: &Again<'_>,
        recording: &Recording,
        heir_from: Option<usize>,
        stage: Stage,
        chain: &[Deviation],
    ) -> Result<u64, Vec<u8>> {
        let budget = Budget {
            depth: 1,
            images: again.images,
            exhaustive: again.images as u64,
            whole: false,
            total: again.total,
            points: again.points,
            batch: self.inner_batch(),
            jobs: 1,
            deaths: self.has_further_deaths(),
            ..self.budget.clone()
        };
        let engine = ImageEngine::new(recording, (self.settling, self.tear), &budget, again.check, stage);
        let mut inner = engine.starting_at(heir_from.unwrap_or(0));
        (inner.second, inner.heir) = (true, heir_from.is_some());
        inner.further = budget.deaths.then(HashSet::new);
        inner.again = Some(again).filter(|_| budget.deaths);
        let found = match chain {
            [] => inner.explore(),
            chain => inner.replay(chain).map_err(|text| format!("\0{text}").into_bytes())?,
        };
        inner.stage.reset();
        found.map_or(Ok(inner.tried.images + inner.tried.recoveries), |found| Err(found.wire()))
    }

    fn inner_batch(&self) -> usize {
        if self.isolate { 1 } else { self.budget.batch }
    }

    fn starts_again(&self, point: &Point, trial: &Trial) -> bool {
        if self.further.is_some() {
            return trial.death; // each of them was drawn
        }
        let Starts { mut point_every, image_every } = self.starts;
        let deaths = self.again.is_some_and(|again| again.deaths);
        if deaths && !trial.death {
            return false;
        }
        if trial.death && !deaths {
            point_every = point_every.div_ceil(2); // one image of each point
        }
        if point_every == 0
            || !everbyte_workload::mix(!self.budget.seed ^ point.event as u64).is_multiple_of(point_every)
        {
            return false;
        }
        let all = point.units.iter().map(|unit| unit.stores.len() as u32);
        let whole = trial.choice.iter().all(|&count| count == 0) || trial.choice.iter().copied().eq(all);
        whole && !trial.holes || everbyte_workload::mix(self.stage.hash_of(point, trial)).is_multiple_of(image_every)
    }

    fn explores_recovery(&self, point: &Point, trial: &Trial) -> bool {
        let all = point.units.iter().map(|unit| unit.stores.len() as u32);
        let whole = trial.choice.iter().all(|&count| count == 0) || trial.choice.iter().copied().eq(all);
        whole && self.draws(point) || self.stage.hash_of(point, trial).is_multiple_of(self.recovery_every.1)
    }

    /// Whether the recoveries of a point's whole images, and of its dead process, are explored.
    fn draws(&self, point: &Point) -> bool {
        let drawn = everbyte_workload::mix(self.budget.seed ^ !(point.event as u64));
        drawn.is_multiple_of(self.recovery_every.0)
    }

    /// Shrinks a failing trial towards the settled image or towards everything, and tells its
    /// story.
    fn explain(&mut self, event: usize, trial: Trial) -> Found {
        let mut best: Option<(Trial, String, Vec<Deviation>)> = None;
        let _ = self.at(event, |engine, point| best = engine.shrink(point, trial.clone()));
        let (trial, message, inner) = best.unwrap_or_else(|| {
            (trial, "failed once and passed when tried again: the check is not deterministic".into(), Vec::new())
        });
        self.tell(event, &trial, message, inner)
    }

    fn shrink(&mut self, point: &Point, trial: Trial) -> Option<(Trial, String, Vec<Deviation>)> {
        let (message, inner) = self.alone(point, &trial, &[])?;
        if trial.death || !self.budget.shrinks {
            // of a death everything is there: nothing to shrink
            return Some((trial, message, inner));
        }
        let mut best = (trial, message, inner);
        let mut tries = if best.2.is_empty() { 160 } else { 12 };
        let mut attempt = |engine: &mut Self, choice: Choice, best: &mut (Trial, String, Vec<Deviation>)| {
            let trial = Trial { choice, ..best.0.clone() };
            if tries == 0 || trial == best.0 {
                return trial == best.0;
            }
            tries -= 1;
            let failure = engine.alone(point, &trial, &[]);
            failure.map(|(message, inner)| *best = (trial, message, inner)).is_some()
        };
        let settled = Recipe::Settled.choice(&point.units);
        let everything = Recipe::Everything.choice(&point.units);
        for whole in [&settled, &everything] {
            if attempt(self, whole.clone(), &mut best) {
                return Some(best);
            }
        }
        let distance = |from: &Choice, to: &Choice| from.iter().zip(to).filter(|(a, b)| a != b).count();
        let near_settled = distance(&best.0.choice, &settled) < distance(&best.0.choice, &everything);
        let goal = if near_settled { settled } else { everything };
        let mut step = distance(&best.0.choice, &goal).div_ceil(2);
        while step > 0 {
            let mut deviating: Vec<usize> =
                (0..goal.len()).filter(|&index| best.0.choice[index] != goal[index]).collect();
            while !deviating.is_empty() {
                let rest = deviating.split_off(deviating.len().min(step));
                let mut choice = best.0.choice.clone();
                deviating.iter().for_each(|&index| choice[index] = goal[index]);
                attempt(self, choice, &mut best);
                deviating = rest;
            }
            step /= 2;
        }
        Some(best)
    }

    fn tell(&mut self, event: usize, trial: &Trial, message: String, inner: Vec<Deviation>) -> Found {
        let mut story = String::new();
        let mut chain = Vec::new();
        let _ = self.at(event, |engine, point| {
            let recording = engine.recording;
            let fate = |store: usize, word: u64| recording.fate(store, word, point.event);
            let seen = engine.seen(point);
            story = format!(
                "power failed before event {} of {} ({}), after {} fence(s); {seen:?}\n{}",
                point.event,
                recording.events.len(),
                recording.events.get(point.event).map_or("the end of the run".into(), Event::to_string),
                point.epoch,
                describe(&point.units, &trial.choice, engine.tear, &fate),
            );
            if trial.death {
                story = story.replacen("power failed", "the process died, its stores not flushed,", 1);
            }
            if trial.holes {
                story += "\nholes punched later show already";
            }
            chain = vec![Deviation::of(point, trial, engine.second)];
        });
        chain.extend(inner);
        Found { message, story, chain }
    }
}

fn inner_images(outcome: &Outcome) -> u64 {
    let counts = outcome.passed.iter().filter_map(|bytes| bytes.as_slice().try_into().ok());
    counts.map(u64::from_le_bytes).sum()
}
