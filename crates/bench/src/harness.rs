//! Rounds: ours and each rival in turn, as many operations as fill a round, the median of all
//! rounds.
//!
//! Steps of one metric:
//!   1. every runner is warmed up and asked how long a few operations take
//!   2. rounds: each runner once per round, the order turned each time, so that drift of the
//!      machine hits all alike
//!   3. the median of each; counters of ours over all its rounds, per operation

use crate::host;
use crate::report::{Bar, Outcome, Reporter};
use everbyte_media::{Counts, Media};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How much is measured, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long a round should be.
    pub round: Duration,
    /// Rounds of each runner.
    pub rounds: usize,
    /// Fewer keys, fewer rounds.
    pub quick: bool,
    /// Tiny: only whether it runs.
    pub smoke: bool,
    /// Only metrics whose name holds this; empty: all.
    pub only: String,
    /// Memory: a folder on tmpfs.
    pub memory: PathBuf,
    /// A folder on a disk.
    pub disk: PathBuf,
}

impl Plan {
    /// `full`, `quick` or `smoke` when the count of something is chosen.
    pub fn pick<T>(&self, full: T, quick: T, smoke: T) -> T {
        match (self.smoke, self.quick) {
            (true, _) => smoke,
            (_, true) => quick,
            _ => full,
        }
    }
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds an operation; less is better.
    Nanoseconds,
    /// Microseconds an operation; less is better.
    Microseconds,
    /// Operations a second; more is better.
    PerSecond,
    /// Bytes; less is better.
    Bytes,
    /// Milliseconds; less is better.
    Milliseconds,
    /// So many inserts; more is better.
    Inserts,
    /// Of a hundred; more is better.
    Percent,
    /// So many times another figure; less is better.
    Times,
}

impl Unit {
    /// As results spell it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns/op",
            Unit::Microseconds => "us/op",
            Unit::PerSecond => "op/s",
            Unit::Bytes => "bytes",
            Unit::Milliseconds => "ms",
            Unit::Inserts => "inserts",
            Unit::Percent => "percent",
            Unit::Times => "times",
        }
    }

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::PerSecond | Unit::Inserts | Unit::Percent)
    }

    fn of(self, elapsed: Duration, operations: u64) -> f64 {
        let seconds = elapsed.as_secs_f64() / operations as f64;
        match self {
            Unit::Nanoseconds => seconds * 1e9,
            Unit::Microseconds => seconds * 1e6,
            Unit::Milliseconds => seconds * 1e3,
            Unit::PerSecond => 1.0 / seconds,
            Unit::Bytes | Unit::Inserts | Unit::Percent | Unit::Times => operations as f64,
        }
    }
}

/// Does so many operations and says how long they took. Preparations inside are not timed.
type Run<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// Reads counters.
type Count<'a> = Box<dyn Fn() -> Counts + 'a>;

/// The systems measured.
pub struct Runner<'a> {
    name: String,
    run: Run<'a>,
    counts: Option<Count<'a>>,
}

impl<'a> Runner<'a> {
    /// A runner whose operations are timed from call to return.
    pub fn new(name: impl Into<String>, mut body: impl FnMut(u64) + 'a) -> Runner<'a> {
        Runner::timed(name, move |count| {
            let start = Instant::now();
            body(count);
            start.elapsed()
        })
    }

    /// A runner that keeps its own time.
    pub fn timed(name: impl Into<String>, run: impl FnMut(u64) -> Duration + 'a) -> Runner<'a> {
        Runner { name: name.into(), run: Box::new(run), counts: None }
    }

    /// The runner under another name.
    pub fn named(self, name: impl Into<String>) -> Runner<'a> {
        Runner { name: name.into(), ..self }
    }

    /// Counters of this media are reported per operation.
    pub fn counting(self, media: &Media) -> Runner<'a> {
        let media = media.clone();
        self.counted_by(move || media.counts())
    }

    /// These counters are reported per operation.
    pub fn counted_by(mut self, counts: impl Fn() -> Counts + 'a) -> Runner<'a> {
        self.counts = Some(Box::new(counts));
        self
    }
}

/// A running case: measures metrics and reports them.
pub struct Bench<'r> {
    /// How much and where.
    pub plan: Plan,
    case: &'static str,
    /// The backend, or where a server keeps its data.
    pub backend: String,
    /// The device profile.
    pub profile: String,
    /// The bars of the next metric that is reported.
    pub bars: Vec<Bar>,
    reporter: &'r mut Reporter,
}

impl<'r> Bench<'r> {
    /// A bench of the case of that name.
    pub fn new(plan: Plan, case: &'static str, reporter: &'r mut Reporter) -> Bench<'r> {
        Bench { plan, case, backend: "shm".into(), profile: "dram".into(), bars: Vec::new(), reporter }
    }

    /// Says which media the next metrics run on.
    pub fn on(&mut self, media: &Media) {
        self.backend = media.kind().name().into();
    }

    /// Whether a metric is wanted.
    pub fn wants(&self, metric: &str) -> bool {
        metric.contains(&self.plan.only)
    }

    /// Measures, unless only others are wanted: the first runner is ours. `most` bounds the
    /// operations of a round (0: no bound).
    pub fn metric(&mut self, metric: &str, unit: Unit, most: u64, mut runners: Vec<Runner<'_>>) -> Outcome {
        if !self.wants(metric) {
            self.bars.clear();
            let unmeasured = [(String::new(), vec![f64::NAN])];
            return Outcome::new(self.case, metric, unit, &unmeasured, None, &self.backend, &self.profile);
        }
        host::pin(0);
        let sizes: Vec<u64> = runners.iter_mut().map(|runner| self.calibrate(runner, most)).collect();
        let mut values: Vec<Vec<f64>> = runners.iter().map(|_| Vec::new()).collect();
        let (mut counts, mut operations) = (Counts::default(), 0);
        for round in 0..self.plan.rounds {
            for turn in 0..runners.len() {
                let index = (turn + round) % runners.len();
                let (runner, size) = (&mut runners[index], sizes[index]);
                let before = runner.counts.as_ref().map(|counts| counts());
                values[index].push(unit.of((runner.run)(size), size));
                if let (Some(before), Some(after), 0) = (before, &runner.counts, index) {
                    counts = counts + (after() - before);
                    operations += size;
                }
            }
        }
        let names = runners.into_iter().map(|runner| runner.name);
        let measured: Vec<(String, Vec<f64>)> = names.zip(values).collect();
        let counts = (operations > 0).then_some((counts, operations));
        self.report(metric, unit, measured, counts)
    }

    /// Reports values that were measured in another way; the first is ours.
    pub fn report(
        &mut self,
        metric: &str,
        unit: Unit,
        measured: Vec<(String, Vec<f64>)>,
        counts: Option<(Counts, u64)>,
    ) -> Outcome {
        let mut outcome = Outcome::new(self.case, metric, unit, &measured, counts, &self.backend, &self.profile);
        outcome.bars = std::mem::take(&mut self.bars);
        self.reporter.report(&outcome);
        outcome
    }

    /// Reports that something could not be measured here, and why.
    pub fn skipped(&mut self, metric: &str, why: &str) {
        self.reporter.skipped(self.case, metric, why);
    }

    /// How many operations fill a round.
    fn calibrate(&self, runner: &mut Runner<'_>, most: u64) -> u64 {
        let most = if most == 0 { u64::MAX } else { most };
        let mut size = 1;
        loop {
            let mut took = (runner.run)(size).max(Duration::from_nanos(1));
            if took * 2 >= self.plan.round {
                // a hiccup of the machine is no round
                took = took.min((runner.run)(size)).max(Duration::from_nanos(1));
            }
            if took * 2 >= self.plan.round || size >= most {
                let fitting = size as f64 * self.plan.round.as_secs_f64() / took.as_secs_f64();
                return (fitting as u64).clamp(1, most);
            }
            let factor = (self.plan.round.as_secs_f64() / took.as_secs_f64()).clamp(2.0, 16.0);
            size = ((size as f64 * factor) as u64).min(most);
        }
    }
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn units_say_what_is_better() {
        assert_eq!(Unit::Nanoseconds.of(Duration::from_micros(1), 10), 100.0);
        assert_eq!(Unit::PerSecond.of(Duration::from_secs(1), 10), 10.0);
        assert!(Unit::PerSecond.more_is_better() && !Unit::Bytes.more_is_better());
    }
}
