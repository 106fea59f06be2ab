//! Tests that a chore runs by name: those of the soak, and those of orders of threads.
//!
//! Cargo answers a filter that fits no test with success, and a program that another package has
//! with nothing. So the names are a table, and a test compares it with the sources.

use crate::shell::{self, Result, cargo};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A set of tests in the release profile.
struct Tests {
    /// A line that says what begins.
    about: &'static str,
    packages: &'static [&'static str],
    /// Test programs; `--lib` is the library's own. None: every program of the packages.
    programs: &'static [&'static str],
    /// Parts of the tests' names; none: every test of the programs.
    filters: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// Programs that the explorer crashes, with second runs from every image.
const WHOLE: &[(&str, &str)] = &[("EVERBYTE_CRASH_AGAIN", "whole")];

/// Tests of the soak that run once.
const ONCE: &[Tests] = &[
    Tests {
        about: "programs of C++",
        packages: &["everbyte-examples-cpp"],
        programs: &["programs"],
        filters: &["crashed", "explored"],
        environment: WHOLE,
    },
    Tests {
        about: "a list of ten million elements behind the server",
        packages: &["everbyte-server"],
        programs: &["api"],
        filters: &["long_lists"],
        environment: &[("EVERBYTE_SOAK", "10000000")],
    },
    Tests {
        about: "commands that are killed before each of their system calls",
        packages: &["everbyte-cli"],
        programs: &["api"],
        filters: &["kills"],
        environment: &[("EVERBYTE_SOAK", "1")],
    },
    Tests {
        about: "transactions of a million changes, and a million transactions",
        packages: &["everbyte-tx"],
        programs: &["api"],
        filters: &["chains"],
        environment: &[("EVERBYTE_SOAK", "1")],
    },
];

/// Tests of the soak that run in each round, with its number in `EVERBYTE_ROUND`.
const ROUND: &[Tests] = &[
    Tests {
        about: "kill -9 of real processes",
        packages: &["everbyte-suite"],
        programs: &[],
        filters: &[],
        environment: &[("EVERBYTE_SOAK", "1")],
    },
    Tests {
        about: "full disks and models of names",
        packages: &["everbyte-store"],
        programs: &["faults", "model"],
        filters: &["full_disk", "names_model"],
        environment: &[("EVERBYTE_SOAK", "1"), ("PROPTEST_CASES", "2000")],
    },
    Tests {
        about: "programs of typed objects",
        packages: &["everbyte-object"],
        programs: &["soundness"],
        filters: &[],
        environment: &[("EVERBYTE_SOAK", "50")],
    },
    Tests {
        about: "models of the engines",
        packages: &["everbyte-kv", "everbyte-heap", "everbyte-tx", "everbyte-hkv", "everbyte-log", "everbyte-fs"],
        programs: &["model", "io"],
        filters: &[],
        environment: &[("EVERBYTE_SOAK", "500")],
    },
    Tests {
        about: "calls of volumes beside those of the kernel",
        packages: &["everbyte-posix"],
        programs: &["kernel"],
        filters: &[],
        environment: &[("EVERBYTE_SOAK", "100")],
    },
];

/// Orders of threads on typed pools and on pins of versions.
const SCHEDULES: Tests = Tests {
    about: "orders of threads",
    packages: &["everbyte-object", "everbyte-kv"],
    programs: &["--lib"],
    filters: &["schedules"],
    environment: &[],
};

impl Tests {
    fn run(&self, environment: &[(&str, &str)]) -> Result {
        println!("soak: {}", self.about);
        let mut command = cargo(&["test", "--release", "--quiet", "--locked"]);
        self.packages.iter().for_each(|package| _ = command.args(["--package", package]));
        for program in self.programs {
            match *program {
                "--lib" => command.arg("--lib"),
                program => command.args(["--test", program]),
            };
        }
        command.arg("--").args(self.filters);
        shell::run(command.envs(self.environment.iter().chain(environment).copied()))
    }
}

/// `--count N` (20,000) orders for each program, other ones each time.
pub(crate) fn schedules(words: &[&str]) -> Result {
    let count = match words {
        [] => "20000",
        ["--count", count] => count,
        other => return Err(format!("schedules knows --count N, not {other:?}")),
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let seed = since.as_secs().to_string();
    println!("schedules: {count} each; replay: EVERBYTE_SEED={seed} EVERBYTE_SCHEDULES={count}");
    SCHEDULES.run(&[("EVERBYTE_SCHEDULES", count), ("EVERBYTE_SEED", &seed)])
}

/// Every case of the explorer as the soak runs it: one thread for all steps, then a thread for
/// each, with a second run of the program from every image.
fn explore_whole() -> Result {
    for threads in ["one", "steps"] {
        println!("soak: every case, threads: {threads}");
        let run =
            ["run", "--release", "--quiet", "--locked", "--package", "everbyte-cases", "--features", "museum", "--"];
        let mut command = cargo(&run);
        command.arg("cases").env("EVERBYTE_CRASH_THREADS", threads).envs(WHOLE.iter().copied());
        shell::run(&mut command)?;
    }
    Ok(())
}

/// Every case of the explorer, whole, and the tests that run once; then kill -9 loops on real
/// processes, rot in every sector of a store, and models, again and again, for `--minutes N` (60).
pub(crate) fn run(words: &[&str]) -> Result {
    let minutes: u64 = match words {
        [] => 60,
        ["--minutes", n] => n.parse().map_err(|_| format!("--minutes {n}: not a number"))?,
        other => return Err(format!("soak knows --minutes N, not {other:?}")),
    };
    explore_whole()?;
    ONCE.iter().try_for_each(|tests| tests.run(&[]))?;
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < Duration::from_secs(60 * minutes) {
        rounds += 1;
        println!("soak: round {rounds}, minute {}", start.elapsed().as_secs() / 60);
        let number = rounds.to_string();
        ROUND.iter().try_for_each(|tests| tests.run(&[("EVERBYTE_ROUND", &number)]))?;
    }
    println!("soak: {rounds} rounds, nothing lost");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The sources of a target: of `NAME.rs` itself and the folder beside it, of `main.rs` and
    /// `lib.rs` the folder.
    fn sources(root: &Path) -> Vec<String> {
        let is_folder = root.file_stem().is_some_and(|stem| stem == "main" || stem == "lib");
        let mut folders: Vec<PathBuf> =
            vec![if is_folder { root.parent().unwrap().into() } else { root.with_extension("") }];
        let mut texts = vec![fs::read_to_string(root).unwrap()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false if entry.extension().is_some_and(|end| end == "rs") => {
                        texts.push(fs::read_to_string(entry).unwrap());
                    }
                    false => (),
                }
            }
        }
        texts
    }

    /// Whether a test or a module of tests has this in its name.
    fn has_test(texts: &[String], part: &str) -> bool {
        let is_named = |line: &str| {
            let name = line.trim_start().trim_start_matches("pub ");
            let name = name.strip_prefix("fn ").or_else(|| name.strip_prefix("mod "));
            name.is_some_and(|name| name.split(['(', ';', ' ']).next().unwrap_or_default().contains(part))
        };
        texts.iter().flat_map(|text| text.lines()).any(is_named)
    }

    /// Names of packages, programs and tests that do not exist.
    fn missing(tests: &Tests, packages: &[Value]) -> Vec<String> {
        let mut missing = Vec::new();
        let (mut found, mut texts) = (Vec::new(), Vec::new());
        for name in tests.packages {
            let Some(package) = packages.iter().find(|package| package["name"] == *name) else {
                missing.push(format!("package {name}"));
                continue;
            };
            let before = found.len();
            for target in package["targets"].as_array().unwrap() {
                let kind = target["kind"][0].as_str().unwrap();
                let name = if kind == "lib" { "--lib" } else { target["name"].as_str().unwrap() };
                let is_named = tests.programs.is_empty() || tests.programs.contains(&name);
                if ["lib", "test"].contains(&kind) && is_named {
                    found.push(name.to_owned());
                    texts.extend(sources(Path::new(target["src_path"].as_str().unwrap())));
                }
            }
            if found.len() == before {
                missing.push(format!("each of {:?} of {name}", tests.programs));
            }
        }
        let is_found = |program: &&&str| found.iter().any(|name| name == *program);
        missing
            .extend(tests.programs.iter().filter(|program| !is_found(program)).map(|name| format!("program {name}")));
        let is_absent = |filter: &&&str| !has_test(&texts, filter);
        missing.extend(tests.filters.iter().filter(is_absent).map(|filter| format!("test {filter}")));
        missing
    }

    #[test]
    fn every_test_that_a_chore_names_exists() {
        let metadata = shell::metadata().unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        for tests in ONCE.iter().chain(ROUND).chain([&SCHEDULES]) {
            assert_eq!(missing(tests, packages), Vec::<String>::new(), "{}", tests.about);
        }
        let wrong = Tests { programs: &["api", "chains"], filters: &["chains", "no_such_test"], ..ONCE[3] };
        assert_eq!(missing(&wrong, packages), ["program chains", "test no_such_test"]);
        let wrong = Tests { packages: &["everbyte-log", "everbyte-none"], programs: &["api"], filters: &[], ..ONCE[3] };
        let expected = ["each of [\"api\"] of everbyte-log", "package everbyte-none", "program api"];
        assert_eq!(missing(&wrong, packages), expected);
    }
}
