//! Every test of continuous integration, step by step, with the time each took.
//!
//! Steps: formatting; lints as errors; tidy; all tests of the workspace, with the crash explorer,
//! the museum, the fuzz corpora and each bench in miniature among them; a new crate of persistent
//! types with its C++ program; redis-py on the server; the Python package; the emulated
//! persistent-memory machine. The first failure does not stop the steps after it, so one run tells
//! everything.

use crate::shell::{self, Result, cargo};
use crate::{bridge, clients, dax, posix, python, tidy};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

type Step = (&'static str, fn(&mut Tally) -> Result);

const STEPS: &[Step] = &[
    ("format", |_| shell::run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lint", |_| lint()),
    ("tidy", |_| tidy::run(&[])),
    ("test", test),
    ("bridge", |tally| bridge::run(tally.programs_built)),
    ("clients", |tally| redis_py(tally.programs_built)),
    ("python", |_| python::run(&[])),
    ("dax", |_| dax::run(&[])),
];

/// Counts of all `test result:` lines.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// The tests of this run have built the programs of the workspace.
    programs_built: bool,
}

/// Runs the named steps, or all.
pub(crate) fn run(words: &[&str]) -> Result {
    if words == ["--list"] {
        STEPS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    if let Some(unknown) = words.iter().find(|word| !STEPS.iter().any(|(name, _)| name == *word)) {
        return Err(format!("ci has no step `{unknown}`; `cargo xtask ci --list` names them"));
    }
    let mut tally = Tally::default();
    let mut rows = Vec::new();
    for (name, step) in STEPS.iter().filter(|(name, _)| words.is_empty() || words.contains(name)) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step(&mut tally);
        if let Err(message) = &result {
            println!("{name}: {message}");
            if tally.failed == 0 || *name != "test" {
                tally.failed += 1;
            }
        } else {
            tally.passed += 1;
        }
        rows.push((*name, start.elapsed(), result));
    }
    println!();
    for (name, took, result) in &rows {
        println!("{name:8} {:7.1} s  {}", took.as_secs_f64(), if result.is_ok() { "ok" } else { "FAILED" });
    }
    println!("\nci: {} passed, {} failed", tally.passed, tally.failed);
    let failed: Vec<&str> = rows.iter().filter(|(_, _, result)| result.is_err()).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("these steps failed: {}", failed.join(", "))) }
}

/// Warnings are errors with the compiler that the manifests name; a newer one may know more lints
/// than we do.
fn lint() -> Result {
    let ours = concat!("cargo ", env!("CARGO_PKG_RUST_VERSION"), ".");
    let level = if shell::output(&mut cargo(&["--version"]))?.starts_with(ours) { "-D" } else { "-W" };
    let words = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", level, "warnings"];
    shell::run(&mut cargo(&words))
}

fn test(tally: &mut Tally) -> Result {
    for compiler in ["g++", "clang++"] {
        let said = shell::output(Command::new(compiler).arg("--version"))?;
        println!("{}", said.lines().next().unwrap_or_default());
    }
    let can_mount = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if can_mount && let Err(why) = posix::install_suites() {
        println!("tests of mounts skip pjdfstest and fsx: {why}");
    }
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.env("EVERBYTE_PROGRAMS_BUILT", "1"); // by this command, before the tests run
    command.env("EVERBYTE_ALL_TOOLS", "1"); // a test of C++ without its compiler fails
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo test: {error}"))?;
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in lines.map_while(std::result::Result::ok) {
        println!("{line}");
        if line.starts_with("test result:") {
            tally.passed += count(&line, "passed");
            tally.failed += count(&line, "failed");
        }
    }
    let _ = std::io::stdout().flush();
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    tally.programs_built = tally.passed > 0; // no test runs before all are built
    if status.success() { Ok(()) } else { Err(format!("cargo test failed ({status})")) }
}

/// The client that needs nothing but Python, which `ci/setup` installs: the others are run by
/// `cargo xtask clients`.
fn redis_py(programs_built: bool) -> Result {
    if !programs_built {
        clients::build()?;
    }
    clients::run_rows(&["redis-py"])
}

/// The number before `word` in a `test result:` line.
fn count(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|found| *found == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_are_read_from_a_result_line() {
        let line = "test result: ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!((super::count(line, "passed"), super::count(line, "failed")), (12, 3));
    }
}
