//! Plots of results: `--plot DIR RESULTS..` reads the lines of `--json` and draws the figures of
//! Mnemosyne's evaluation and some of PMFS's, each an SVG that says which machine, commit and day
//! its numbers are from. A figure whose metrics are not all there is left out, and said to be.

mod svg;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use svg::{Chart, Series};

/// The system whose values of a metric make a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Each rival's, under its own name.
    Rivals,
}

/// One figure. A `*` in metrics stands for each point's name.
struct Figure {
    file: &'static str,
    case: &'static str,
    title: &'static str,
    across: &'static str,
    up: &'static str,
    points: &'static [&'static str],
    /// Name of the line, metric, whose.
    lines: &'static [(&'static str, &'static str, Whose)],
    /// Conversion of a value, given the point's name.
    scale: fn(f64, &str) -> f64,
}

const FIGURES: &[Figure] = &[
    Figure {
        file: "truncation",
        case: "patomic",
        title: "Truncation by a thread, and by the transaction",
        across: "share of its time that the program is idle, %",
        up: "latency of a transaction, ns",
        points: &["10", "50", "90"],
        lines: &[("asynchronous", "idle_*_async", Whose::Ours), ("synchronous", "idle_*_sync", Whose::Ours)],
        scale: |value, _| value,
    },
    Figure {
        file: "sensitivity",
        case: "patomic",
        title: "Slower memory",
        across: "added latency of a write, ns",
        up: "latency of an update, ns",
        points: &["150", "1000", "2000"],
        lines: &[("everbyte", "sensitivity_*", Whose::Ours), ("", "sensitivity_*", Whose::Rivals)],
        scale: |value, _| value,
    },
    Figure {
        file: "barrier",
        case: "files",
        title: "Files on memory with a slower barrier, profile pmep",
        across: "added latency of a barrier, ns",
        up: "time of an operation, us",
        points: &["100", "500", "1000"],
        lines: &[
            ("make a file of 4 KiB", "sensitivity_*_make", Whose::Ours),
            ("remove it", "sensitivity_*_remove", Whose::Ours),
            ("file server", "sensitivity_*_server", Whose::Ours),
        ],
        scale: |nanoseconds, _| nanoseconds / 1e3,
    },
    Figure {
        file: "mapped-read",
        case: "files",
        title: "Random loads of a mapped file",
        across: "bytes of an access",
        up: "MB/s",
        points: &["64", "512", "4096", "32768", "262144"],
        lines: &[
            ("pages of 4 KiB", "mapped_read_*", Whose::Ours),
            ("4 KiB, mapped ahead", "mapped_read_*_populated", Whose::Ours),
            ("2 MiB, mapped ahead", "mapped_read_*_2m", Whose::Ours),
            ("", "mapped_read_*", Whose::Rivals),
        ],
        scale: rate,
    },
    Figure {
        file: "mapped-write",
        case: "files",
        title: "Random stores to a mapped file, durable every 256 KiB",
        across: "bytes of an access",
        up: "MB/s",
        points: &["64", "512", "4096", "32768", "262144"],
        lines: &[
            ("pages of 4 KiB", "mapped_write_*", Whose::Ours),
            ("4 KiB, mapped ahead", "mapped_write_*_populated", Whose::Ours),
            ("2 MiB, mapped ahead", "mapped_write_*_2m", Whose::Ours),
            ("", "mapped_write_*", Whose::Rivals),
        ],
        scale: rate,
    },
    Figure {
        file: "torn-bits",
        case: "log",
        title: "Torn bits against the base form of the word log, profile pcm",
        across: "bytes of a record",
        up: "MB/s",
        points: &["8", "64", "256", "1024", "2048", "4096"],
        lines: &[("torn bits", "append_*_pcm", Whose::Ours), ("", "append_*_pcm", Whose::Rivals)],
        scale: rate,
    },
    Figure {
        file: "rbtree",
        case: "rbtree",
        title: "One insert into a red-black tree, and writing all of it",
        across: "nodes of 128 bytes",
        up: "us",
        points: &["1k", "8k", "64k", "256k"],
        lines: &[("insert", "insert_*", Whose::Ours), ("", "insert_*", Whose::Rivals)],
        scale: |value, _| value,
    },
];

/// MB/s of an operation on so many bytes.
fn rate(nanoseconds: f64, bytes: &str) -> f64 {
    bytes.parse::<f64>().unwrap_or(f64::NAN) * 1e3 / nanoseconds
}

/// Results by case and metric; the last line of each counts.
struct Results(BTreeMap<(String, String), Value>);

impl Results {
    fn read(files: &[String]) -> Result<Results, String> {
        let mut results = BTreeMap::new();
        for file in files {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('{')) {
                let value: Value =
                    serde_json::from_str(line).map_err(|error| format!("{file}, line {}: {error}", number + 1))?;
                if let (Some(case), Some(metric)) = (value["case"].as_str(), value["metric"].as_str()) {
                    results.insert((case.into(), metric.into()), value);
                }
            }
        }
        Ok(Results(results))
    }

    fn get(&self, case: &str, metric: &str) -> Result<&Value, String> {
        let found = self.0.get(&(case.into(), metric.into())).filter(|value| value["ours"].is_number());
        found.ok_or_else(|| format!("there is no `{metric}` of case `{case}` in the results"))
    }
}

impl Figure {
    fn chart(&self, results: &Results) -> Result<Chart, String> {
        let (mut lines, mut from) = (Vec::<Series>::new(), Value::Null);
        for (name, pattern, whose) in self.lines {
            for (index, point) in self.points.iter().enumerate() {
                let found = results.get(self.case, &pattern.replace('*', point))?;
                let values: Vec<(&str, f64)> = match (whose, found["rivals"].as_object()) {
                    (Whose::Ours, _) => vec![(name, found["ours"].as_f64().unwrap_or(f64::NAN))],
                    (Whose::Rivals, Some(rivals)) => {
                        rivals.iter().filter_map(|(name, value)| Some((&name[..], value.as_f64()?))).collect()
                    }
                    (Whose::Rivals, None) => vec![],
                };
                for (name, value) in values {
                    let point = (index, (self.scale)(value, point));
                    match lines.iter_mut().find(|line| line.name == name) {
                        Some(line) => line.values.push(point),
                        None => lines.push(Series { name: name.into(), values: vec![point] }),
                    }
                }
                from = found.clone();
            }
        }
        let text = |field: &str| from[field].as_str().unwrap_or("unknown").to_string();
        Ok(Chart {
            title: self.title.into(),
            across: self.across.into(),
            up: self.up.into(),
            points: self.points.iter().map(|point| point.to_string()).collect(),
            lines,
            foot: format!(
                "{}, Linux {}, {} cores; backend {}; commit {}; {}",
                text("machine"),
                text("kernel"),
                from["cores"],
                text("backend"),
                text("commit"),
                text("date")
            ),
        })
    }
}

/// Draws what the results have into an existing folder; says what it drew, and why not the rest.
///
/// # Errors
/// Results that cannot be read; a file that cannot be written; nothing to draw.
pub fn run(folder: &Path, results: &[String]) -> Result<(), String> {
    let results = Results::read(results)?;
    let mut drawn = 0;
    for figure in FIGURES {
        let path = folder.join(figure.file).with_extension("svg");
        match figure.chart(&results) {
            Ok(chart) => {
                std::fs::write(&path, chart.svg()).map_err(|error| format!("{}: {error}", path.display()))?;
                println!("{}", path.display());
                drawn += 1;
            }
            Err(why) => println!("{} left out: {why}", path.display()),
        }
    }
    if drawn > 0 { Ok(()) } else { Err("nothing was drawn; the lines of `--json` are what plots are made of".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_results_have_is_drawn_and_the_rest_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let line = |size: &str, ours: f64, disk: f64| {
            serde_json::json!({"case": "rbtree", "metric": format!("insert_{size}"), "ours": ours, "rivals": {"disk": disk},
                "machine": "a CPU <of ours>", "kernel": "6", "cores": 2, "backend": "shm", "commit": "abc", "date": "2026-01-02"})
            .to_string()
        };
        let mut text: String = ["1k", "8k", "64k"].map(|size| line(size, 2.0, 3000.0) + "\n").concat() + "a word\n";
        let file = folder.path().join("results");
        let draw = |text: &str| {
            std::fs::write(&file, text).unwrap();
            run(folder.path(), &[file.to_string_lossy().into()])
        };
        assert!(draw(&text).unwrap_err().contains("nothing was drawn"), "a point is missing");
        text += &line("256k", 4.0, 900_000.0);
        draw(&text).unwrap();
        let names = |name: &str| folder.path().join(name).with_extension("svg");
        assert!(!names("truncation").exists());
        let svg = std::fs::read_to_string(names("rbtree")).unwrap();
        for part in ["disk", "insert", "256k", "a CPU &lt;of ours&gt;", "commit abc", "2026-01-02", "1000000"] {
            assert!(svg.contains(part), "{part} in\n{svg}");
        }
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 8);
    }
}
