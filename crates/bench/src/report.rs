//! Results: a table for people, and with `--json` one line a metric for programs.

use crate::harness::{Unit, median};
use crate::host::host;
use everbyte_media::Counts;
use serde_json::{Map, Value, json};

/// A figure that ours should reach.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The rival's name, or the name of `base`; empty if the figure stands alone.
    pub against: String,
    /// The value to compare with, where it is no rival's of this metric.
    pub base: Option<f64>,
    /// The figure.
    pub limit: Limit,
}

/// The figure of a bar.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// The least ratio, above 1 where ours must be better.
    Ratio(f64),
    /// At most so much above the rival's value.
    Above(f64),
    /// At most so much.
    Most(f64),
    /// At most so many times the value.
    Times(f64),
    /// No bar: the ratio of a paper, to be printed beside ours.
    Paper(f64),
}

impl Bar {
    fn of(against: impl Into<String>, base: Option<f64>, limit: Limit) -> Bar {
        Bar { against: against.into(), base, limit }
    }

    /// So many times as good as a rival.
    pub fn new(against: impl Into<String>, least: f64) -> Bar {
        Bar::of(against, None, Limit::Ratio(least))
    }

    /// So many times as good as another figure.
    pub fn than(name: impl Into<String>, base: f64, least: f64) -> Bar {
        Bar::of(name, Some(base), Limit::Ratio(least))
    }

    /// At most so much above a rival's value.
    pub fn above(against: impl Into<String>, most: f64) -> Bar {
        Bar::of(against, None, Limit::Above(most))
    }

    /// At most so much, whatever rivals have.
    pub fn most(most: f64) -> Bar {
        Bar::of("", None, Limit::Most(most))
    }

    /// At most so many times another figure.
    pub fn times(name: impl Into<String>, base: f64, most: f64) -> Bar {
        Bar::of(name, Some(base), Limit::Times(most))
    }

    /// The ratio to a rival beside that of a paper.
    pub fn paper(against: impl Into<String>, ratio: f64) -> Bar {
        Bar::of(against, None, Limit::Paper(ratio))
    }
}

/// One metric, measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The case.
    pub case: &'static str,
    /// The metric.
    pub metric: String,
    /// The meaning of the values.
    pub unit: Unit,
    /// Our median.
    pub ours: f64,
    /// Half the distance between the quartiles of ours, as a share of the median: how noisy it was.
    pub spread: f64,
    /// Every rival's median.
    pub rivals: Vec<(String, f64)>,
    /// Our counters over so many operations.
    pub counts: Option<(Counts, u64)>,
    /// The bars of this metric.
    pub bars: Vec<Bar>,
    backend: String,
    profile: String,
    rounds: usize,
}

impl Outcome {
    pub(crate) fn new(
        case: &'static str,
        metric: &str,
        unit: Unit,
        measured: &[(String, Vec<f64>)],
        counts: Option<(Counts, u64)>,
        backend: &str,
        profile: &str,
    ) -> Outcome {
        let (_, ours) = &measured[0];
        let mut sorted = ours.clone();
        sorted.sort_by(f64::total_cmp);
        let quarter = |share: usize| sorted[(sorted.len() - 1) * share / 4];
        let middle = median(ours);
        Outcome {
            case,
            metric: metric.into(),
            unit,
            ours: middle,
            spread: (quarter(3) - quarter(1)) / 2.0 / middle,
            rivals: measured[1..].iter().map(|(name, values)| (name.clone(), median(values))).collect(),
            counts,
            bars: Vec::new(),
            backend: backend.into(),
            profile: profile.into(),
            rounds: ours.len(),
        }
    }

    /// The rival that comes nearest to us or is ahead.
    pub fn best_rival(&self) -> Option<&(String, f64)> {
        let better = |one: &f64, other: &f64| match self.unit.more_is_better() {
            true => other.total_cmp(one),
            false => one.total_cmp(other),
        };
        self.rivals.iter().min_by(|(_, one), (_, other)| better(one, other))
    }

    /// How many times better than the best rival ours is.
    pub fn ratio(&self) -> Option<f64> {
        let (_, rival) = self.best_rival()?;
        Some(self.ratio_to(*rival))
    }

    fn ratio_to(&self, rival: f64) -> f64 {
        if self.unit.more_is_better() { self.ours / rival } else { rival / self.ours }
    }

    /// Each bar whose rival was measured, with what its limit is compared with, and whether it is
    /// met; a paper's ratio is no bar.
    pub fn reached(&self) -> impl Iterator<Item = (&Bar, f64, Option<bool>)> {
        self.bars.iter().filter_map(|bar| {
            let rival = || self.rivals.iter().find(|(name, _)| *name == bar.against).map(|(_, value)| *value);
            let base = || bar.base.or_else(rival).filter(|base| base.is_finite());
            let (value, met) = match bar.limit {
                Limit::Ratio(least) => {
                    let ratio = self.ratio_to(base()?);
                    (ratio, Some(ratio >= least))
                }
                Limit::Above(most) => {
                    let above = self.ours - base()?;
                    (above, Some(above <= most))
                }
                Limit::Most(most) => (self.ours, Some(self.ours <= most)),
                Limit::Times(most) => {
                    let times = self.ours / base()?;
                    (times, Some(times <= most))
                }
                Limit::Paper(_) => (self.ratio_to(base()?), None),
            };
            Some((bar, value, met))
        })
    }

    /// The line for programs.
    pub fn json(&self) -> Value {
        let rival = self.best_rival();
        let per = |count: u64| self.counts.map(|(_, operations)| count as f64 / operations as f64);
        let counters = self.counts.map(|(counts, _)| {
            json!({
                "lines": per(counts.lines),
                "fences": per(counts.fences),
                "barriers": per(counts.barriers),
                "log_bytes": per(counts.log_bytes),
                "syncs": per(counts.syncs),
                "windows": per(counts.windows),
            })
        });
        let rivals: Map<String, Value> = self.rivals.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let bar = |(bar, value, met): (&Bar, f64, Option<bool>)| match bar.limit {
            Limit::Ratio(least) => json!({ "against": bar.against, "least": least, "ratio": value, "met": met }),
            Limit::Above(most) => json!({ "against": bar.against, "most": most, "above": value, "met": met }),
            Limit::Most(most) => json!({ "most": most, "value": value, "met": met }),
            Limit::Times(most) => json!({ "against": bar.against, "most": most, "times": value, "met": met }),
            Limit::Paper(ratio) => json!({ "against": bar.against, "paper": ratio, "ratio": value }),
        };
        let bars: Vec<Value> = self.reached().map(bar).collect();
        let host = host();
        json!({
            "case": self.case,
            "metric": self.metric,
            "unit": self.unit.name(),
            "ours": self.ours,
            "rival": rival.map(|(name, _)| name),
            "rival_value": rival.map(|(_, value)| value),
            "ratio": self.ratio(),
            "rivals": rivals,
            "bars": bars,
            "counters_per_op": counters,
            "spread": self.spread,
            "rounds": self.rounds,
            "backend": self.backend,
            "profile": self.profile,
            "machine": host.cpu,
            "kernel": host.kernel,
            "cores": host.cores,
            "commit": host.commit,
            "date": host.date,
        })
    }
}

/// The destination of results.
pub struct Reporter {
    json: bool,
    last_case: &'static str,
    /// How many metrics were reported.
    pub reported: usize,
}

impl Reporter {
    /// Lines for programs, or a table for people.
    pub fn new(json: bool) -> Reporter {
        if !json {
            let host = host();
            println!("{}, Linux {}, {} cores, commit {}", host.cpu, host.kernel, host.cores, host.commit);
        }
        Reporter { json, last_case: "", reported: 0 }
    }

    pub(crate) fn report(&mut self, outcome: &Outcome) {
        self.reported += 1;
        if self.json {
            println!("{}", outcome.json());
            return;
        }
        if self.last_case != outcome.case {
            self.last_case = outcome.case;
            println!(
                "\n{:<8} {:<24} {:>6} {:>12} {:>7}  {:<32} our lines, fences, barriers, log bytes, syncs, windows per operation",
                "case", "metric", "unit", "ours", "ratio", "rivals"
            );
        }
        let rivals: Vec<String> =
            outcome.rivals.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        let ratio = outcome.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}x"));
        let counters = outcome.counts.map_or(String::new(), |(counts, operations)| {
            let per = |count: u64| short(count as f64 / operations as f64);
            let fields = [counts.lines, counts.fences, counts.barriers, counts.log_bytes, counts.syncs, counts.windows];
            fields.map(per).join(", ")
        });
        println!(
            "{:<8} {:<24} {:>6} {:>12} {:>7}  {:<32} {counters}",
            outcome.case,
            outcome.metric,
            outcome.unit.name(),
            short(outcome.ours),
            ratio,
            rivals.join(", "),
        );
        for (bar, value, met) in outcome.reached() {
            let (unit, against) = (outcome.unit.name(), &bar.against);
            let word = met.map_or("beside the paper", |met| if met { "met" } else { "missed" });
            let said = match bar.limit {
                Limit::Ratio(least) => format!("{value:.2}x of {against}, at least {least:.2}x"),
                Limit::Above(most) => format!("{value:.2} {unit} above {against}, at most {most:.2}"),
                Limit::Most(most) => format!("{value:.2} {unit}, at most {most:.2}"),
                Limit::Times(most) => format!("{value:.2} times {against}, at most {most:.2}"),
                Limit::Paper(ratio) => format!("{value:.2}x of {against}, there {ratio:.2}x"),
            };
            println!("{:<8} {:<24} {word}: {said}", "", "");
        }
    }

    pub(crate) fn skipped(&mut self, case: &str, metric: &str, why: &str) {
        match self.json {
            true => println!("{}", json!({ "case": case, "metric": metric, "skipped": why })),
            false => println!("{case:<8} {metric:<24} skipped: {why}"),
        }
    }
}

/// Three or four digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        big if big >= 1e6 => format!("{:.2} M", value / 1e6),
        big if big >= 1e4 => format!("{:.1} k", value / 1e3),
        big if big >= 100.0 => format!("{value:.0}"),
        big if big >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_above_one_where_ours_is_better() {
        let measured =
            [("ours".to_string(), vec![10.0, 12.0, 11.0]), ("slow".into(), vec![44.0]), ("mid".into(), vec![22.0])];
        let less = Outcome::new("case", "m", Unit::Nanoseconds, &measured, None, "shm", "dram");
        assert_eq!((less.ratio(), &less.best_rival().unwrap().0[..]), (Some(2.0), "mid"));
        let more = Outcome::new("case", "m", Unit::PerSecond, &measured, None, "shm", "dram");
        assert_eq!((more.ratio(), &more.best_rival().unwrap().0[..]), (Some(0.25), "slow"));
        assert_eq!(more.json()["ratio"], 0.25);
        assert_eq!(more.json()["rivals"]["mid"], 22.0);
    }

    #[test]
    fn a_bar_is_met_or_missed_against_its_rival_alone() {
        let measured = [("ours".to_string(), vec![10.0]), ("slow".into(), vec![44.0]), ("fast".into(), vec![8.0])];
        let mut outcome = Outcome::new("case", "m", Unit::Nanoseconds, &measured, None, "shm", "dram");
        outcome.bars = vec![Bar::new("slow", 4.0), Bar::new("fast", 1.0), Bar::new("absent", 1.0)];
        let reached = |outcome: &Outcome| outcome.reached().map(|(_, value, met)| (value, met)).collect::<Vec<_>>();
        assert_eq!(reached(&outcome), [(4.4, Some(true)), (0.8, Some(false))]);
        outcome.bars = vec![Bar::above("fast", 2.0), Bar::above("fast", 1.0), Bar::most(10.0), Bar::most(9.0)];
        let found = [(2.0, Some(true)), (2.0, Some(false)), (10.0, Some(true)), (10.0, Some(false))];
        assert_eq!(reached(&outcome), found);
        outcome.bars = vec![Bar::times("median", 0.5, 20.0), Bar::times("median", 0.5, 19.0)];
        assert_eq!(reached(&outcome), [(20.0, Some(true)), (20.0, Some(false))]);
        outcome.bars =
            vec![Bar::than("one", 15.0, 1.6), Bar::than("unmeasured", f64::NAN, 1.6), Bar::paper("slow", 5.0)];
        assert_eq!(reached(&outcome), [(1.5, Some(false)), (4.4, None)]);
    }
}
