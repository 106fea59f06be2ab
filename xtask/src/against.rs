//! `bench CASE --against COMMIT`: this tree and another commit as rivals.
//!
//! The other commit is checked out in a worktree below `target/against` and built there. Both
//! programs run the case in turn, nine times each; the median of each run is one sample. A metric
//! is worse than before when
//! - a counter per operation has grown by more than a hundredth (growth that many operations share
//!   makes smaller differences), or
//! - the medians of the samples differ by more than 5 % (servers and disks 10 %) and by more than 1
//!   ns, and the quartile ranges of the samples do not overlap.

use crate::shell::{self, Result, cargo, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Interleaved runs of each side.
const ROUNDS: usize = 9;
const COUNTERS: [&str; 5] = ["lines", "fences", "barriers", "log_bytes", "syncs"];

/// The samples of one metric on one side.
#[derive(Clone, Debug, Default)]
struct Samples {
    unit: String,
    values: Vec<f64>,
    counters: BTreeMap<String, f64>,
}

type Metrics = BTreeMap<(String, String), Samples>;

/// The verdict on a metric.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Same,
    Better(String),
    Worse(String),
}

/// Builds both sides, runs them in turn, compares.
pub(crate) fn run(commit: &str, words: &[&str]) -> Result {
    let commit = shell::output(Command::new("git").args(["rev-parse", "--short", commit]).current_dir(root()))?;
    let commit = commit.trim();
    let tree = root().join("target/against").join(commit);
    if !tree.exists() {
        let tree = tree.to_str().ok_or("the path of the repository is not UTF-8")?;
        shell::run(
            Command::new("git").args(["worktree", "add", "--detach", "--force", tree, commit]).current_dir(root()),
        )?;
    }
    let sides = [build(&root())?, build(&tree)?];
    let (mut ours, mut theirs) = (Metrics::new(), Metrics::new());
    for round in 0..ROUNDS {
        eprintln!("round {} of {ROUNDS}", round + 1);
        let mut order = [(&sides[0], &mut ours), (&sides[1], &mut theirs)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (program, metrics) in order {
            let text = shell::output(Command::new(program).args(words).arg("--json"))?;
            text.lines().try_for_each(|line| note(metrics, line))?;
        }
    }
    report(commit, &ours, &theirs)
}

/// The bench program of a tree.
fn build(tree: &Path) -> Result<PathBuf> {
    for package in ["everbyte-capi", "everbyte-bench"] {
        let words = ["build", "--release", "--quiet", "--locked", "--package", package];
        shell::run(cargo(&words).current_dir(tree).env("CARGO_TARGET_DIR", tree.join("target")))?;
    }
    Ok(tree.join("target/release/everbyte-bench"))
}

/// Adds one line of a run to the samples.
fn note(metrics: &mut Metrics, line: &str) -> Result {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    if !text("skipped").is_empty() {
        return Ok(()); // a rival that is not installed
    }
    let sample = metrics.entry((text("case"), text("metric"))).or_default();
    sample.unit = text("unit");
    sample.values.push(value["ours"].as_f64().ok_or_else(|| format!("no figure: {line}"))?);
    for counter in COUNTERS {
        if let Some(count) = value["counters_per_op"][counter].as_f64() {
            let least = sample.counters.entry(counter.into()).or_insert(f64::INFINITY);
            *least = least.min(count);
        }
    }
    Ok(())
}

/// Median and quartiles.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|share| sorted[(sorted.len() - 1) * share / 4])
}

fn nanoseconds(unit: &str) -> Option<f64> {
    match unit.trim_end_matches("/op") {
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        _ => None,
    }
}

/// Judges one metric; `slow`: a server's or a disk's.
fn judge(ours: &Samples, theirs: &Samples, slow: bool) -> Verdict {
    for (counter, &before) in &theirs.counters {
        let now = ours.counters.get(counter).copied().unwrap_or(before);
        let (worse, better) = (now > before * 1.01 + 0.005, now < before * 0.99 - 0.005);
        if worse || better {
            let said = format!("{counter} {before:.3} -> {now:.3} per operation");
            return if worse { Verdict::Worse(said) } else { Verdict::Better(said) };
        }
    }
    let ([low, now, high], [low_before, before, high_before]) = (quartiles(&ours.values), quartiles(&theirs.values));
    let more_is_better = matches!(ours.unit.as_str(), "op/s" | "inserts");
    let share = if slow { 0.10 } else { 0.05 };
    let far = (now - before).abs() > share * before
        && nanoseconds(&ours.unit).is_none_or(|scale| (now - before).abs() * scale > 1.0);
    let apart = low > high_before || high < low_before;
    if !far || !apart {
        return Verdict::Same;
    }
    let said = format!("{before:.3} -> {now:.3} {}, {:+.1} %", ours.unit, (now / before - 1.0) * 100.0);
    if (now > before) == more_is_better { Verdict::Better(said) } else { Verdict::Worse(said) }
}

fn report(commit: &str, ours: &Metrics, theirs: &Metrics) -> Result {
    let mut worse = 0;
    for ((case, metric), samples) in ours {
        let Some(before) = theirs.get(&(case.clone(), metric.clone())) else {
            println!("{case:<10} {metric:<26} new");
            continue;
        };
        let slow = case == "serve" || metric.contains("_disk");
        let medians = (quartiles(&before.values)[1], quartiles(&samples.values)[1]);
        let verdict = judge(samples, before, slow);
        let said = match &verdict {
            Verdict::Same => "same".into(),
            Verdict::Better(said) => format!("better: {said}"),
            Verdict::Worse(said) => format!("WORSE: {said}"),
        };
        println!("{case:<10} {metric:<26} {:>12.3} {:>12.3} {:<6} {said}", medians.0, medians.1, samples.unit);
        worse += usize::from(matches!(verdict, Verdict::Worse(_)));
    }
    if worse == 0 { Ok(()) } else { Err(format!("{worse} metrics are worse than at {commit}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(unit: &str, values: &[f64], lines: f64) -> Samples {
        Samples { unit: unit.into(), values: values.into(), counters: [("lines".into(), lines)].into() }
    }

    #[test]
    fn a_metric_is_worse_by_its_counters_or_far_beyond_its_noise() {
        let before = samples("ns/op", &[100.0, 101.0, 102.0, 103.0, 104.0], 15.0);
        let judged = |values: &[f64], lines| judge(&samples("ns/op", values, lines), &before, false);
        assert_eq!(judged(&[100.0, 101.0, 103.0, 104.0, 105.0], 15.004), Verdict::Same);
        assert!(matches!(judged(&[100.0; 5], 16.0), Verdict::Worse(said) if said.contains("lines 15.000 -> 16.000")));
        assert!(matches!(judged(&[90.0; 5], 14.0), Verdict::Better(_)));
        assert!(matches!(judged(&[110.0; 5], 15.0), Verdict::Worse(said) if said.contains("+7.8 %")));
        assert!(matches!(judged(&[90.0; 5], 15.0), Verdict::Better(_)));
        assert_eq!(judged(&[100.0, 101.0, 110.0, 111.0, 112.0], 15.0), Verdict::Same, "the quartile ranges overlap");
        let slow = judge(&samples("ns/op", &[110.0; 5], 15.0), &before, true);
        assert_eq!(slow, Verdict::Same, "a tenth for disks and servers");
        let tiny = judge(&samples("ns/op", &[5.5; 5], 1.0), &samples("ns/op", &[5.0; 5], 1.0), false);
        assert_eq!(tiny, Verdict::Same, "less than a nanosecond");
        let rate = judge(&samples("op/s", &[80.0; 5], 1.0), &samples("op/s", &[100.0; 5], 1.0), false);
        assert!(matches!(rate, Verdict::Worse(_)), "less is worse for rates");
    }

    #[test]
    fn a_line_of_results_becomes_a_sample() {
        let mut metrics = Metrics::new();
        let line =
            r#"{"case":"kv","metric":"put","unit":"us/op","ours":2.4,"counters_per_op":{"lines":15.0,"fences":2.0}}"#;
        note(&mut metrics, line).unwrap();
        note(&mut metrics, line).unwrap();
        let found = &metrics[&("kv".into(), "put".into())];
        assert_eq!((found.values.len(), found.counters["fences"], found.unit.as_str()), (2, 2.0, "us/op"));
        assert!(note(&mut metrics, "table").is_err());
    }
}
