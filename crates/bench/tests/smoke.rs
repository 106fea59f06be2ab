//! Every case runs tiny and reports what it should, as lines that programs can read.

use std::collections::BTreeSet;
use std::process::Command;

fn bench(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_everbyte-bench")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn every_case_runs_tiny() {
    let text = bench(&["all", "--smoke", "--json"]);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in lines.iter().filter(|line| line.get("skipped").is_none()) {
        assert!(line["ours"].as_f64().is_some_and(|value| value.is_finite() && value > 0.0), "{line}");
        for field in ["case", "metric", "unit", "backend", "profile", "machine", "commit"] {
            assert!(line[field].is_string(), "{field} in {line}");
        }
    }
    // Fences do not depend on the machine: C++ takes those that Rust takes.
    for (metric, fences) in [("txn_empty", 0.0), ("mut_first", 3.0)] {
        let measured = lines.iter().filter(|line| line["case"] == "bridge" && line["metric"] == metric);
        measured.for_each(|line| assert_eq!(line["counters_per_op"]["fences"], fences, "{line}"));
    }
    // A change of a volume that one word publishes takes a fence less than a logged one.
    for (metric, fences) in [("append_64_in_place", 2.0), ("write_64_logged", 3.0)] {
        let measured: Vec<_> =
            lines.iter().filter(|line| line["case"] == "files" && line["metric"] == metric).collect();
        assert_eq!(measured.len(), 1, "{metric}");
        assert_eq!(measured[0]["counters_per_op"]["fences"], fences, "{}", measured[0]);
    }
    let bar = |metric: &str| {
        let of = lines.iter().find(|line| line["case"] == "files" && line["metric"] == metric);
        of.and_then(|line| line["bars"][0].as_object()).unwrap_or_else(|| panic!("a bar of {metric}")).clone()
    };
    assert_eq!(bar("append_64_in_place")["paper"], 1.8);
    let bars = ["create", "latency_read_4k_p999", "threads_2_open", "remount_clean", "synced_create_1_disk"];
    bars.into_iter().for_each(|metric| assert!(bar(metric)["met"].is_boolean(), "{metric}"));
    let cases: BTreeSet<&str> = lines.iter().map(|line| line["case"].as_str().unwrap()).collect();
    let listed = bench(&["--list"]);
    let listed: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(cases, listed);
}
