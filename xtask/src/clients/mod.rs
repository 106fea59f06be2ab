//! `cargo xtask clients [NAME..]`: other projects' clients, and applications on Redis, unmodified,
//! against `everbyte serve`.
//!
//! Steps
//!   1. the server is built, as tests are
//!   2. each client runs a program in `xtask/clients`: every kind of use once (`programs`)
//!   3. each application and client suite runs its own tests (`suites`)
//!
//! Everything is installed below `target/clients` from the package registries, in the versions
//! below. A row whose language is not on this machine is skipped, and the last lines say so. Tests
//! that are left out: `xtask/clients/exclusions.txt`, each with its reason.

mod programs;
mod server;
mod suites;

use crate::shell::{self, Result, root};
pub(crate) use server::build;
use std::path::PathBuf;
use std::time::Instant;

/// One client or application.
struct Row {
    name: &'static str,
    /// The kind of program, with its version.
    about: &'static str,
    /// Programs that it needs, from the distribution.
    tools: &'static [&'static str],
    run: fn() -> Result,
}

const ROWS: &[Row] = &[
    Row { name: "redis-py", about: "redis-py 8.1.0 (PyPI)", tools: &["python3"], run: programs::redis_py },
    Row { name: "ioredis", about: "ioredis 6.0.0 (npm)", tools: &["node", "npm"], run: programs::ioredis },
    Row { name: "go-redis", about: "go-redis 9.23.0 (Go modules)", tools: &["go"], run: programs::go_redis },
    Row { name: "jedis", about: "Jedis 5.2.0 (Maven)", tools: &["mvn", "javac", "java"], run: programs::jedis },
    Row { name: "redis-py-suite", about: "the tests of redis-py", tools: &["python3"], run: suites::redis_py },
    Row { name: "rq", about: "a job queue, RQ 3.0.0 (PyPI)", tools: &["python3"], run: suites::rq },
    Row { name: "asynq", about: "a job queue, Asynq 0.26.0 (Go modules)", tools: &["go"], run: suites::asynq },
    Row {
        name: "django-redis",
        about: "a cache with sessions, django-redis 7.0.0 (PyPI)",
        tools: &["python3"],
        run: suites::django_redis,
    },
    Row { name: "limits", about: "a rate limiter, limits 5.8.0 (PyPI)", tools: &["python3"], run: suites::limits },
];

/// Runs the rows named, or all.
pub(crate) fn run(words: &[&str]) -> Result {
    if words == ["--list"] {
        ROWS.iter().for_each(|row| println!("{:15} {}", row.name, row.about));
        return Ok(());
    }
    if let Some(unknown) = words.iter().find(|word| !ROWS.iter().any(|row| row.name == **word)) {
        return Err(format!("no client is called `{unknown}`; `cargo xtask clients --list` names them"));
    }
    build()?;
    run_rows(words)
}

/// The same, for names that are known, on a server that is built.
pub(crate) fn run_rows(words: &[&str]) -> Result {
    std::fs::create_dir_all(place()).map_err(|error| format!("{}: {error}", place().display()))?;
    let (mut said, mut failed) = (Vec::new(), Vec::new());
    for row in ROWS.iter().filter(|row| words.is_empty() || words.contains(&row.name)) {
        println!("\n== {}: {}", row.name, row.about);
        if let Some(absent) = row.tools.iter().find(|tool| shell::which(tool).is_err()) {
            said.push(format!("{:15} skipped: `{absent}` is not installed", row.name));
            continue;
        }
        let start = Instant::now();
        let result = (row.run)();
        let state = if result.is_ok() { "ok" } else { "FAILED" };
        said.push(format!("{:15} {state}, {:.1} s", row.name, start.elapsed().as_secs_f64()));
        if let Err(message) = result {
            println!("{}: {message}", row.name);
            failed.push(row.name);
        }
    }
    println!();
    said.iter().for_each(|line| println!("{line}"));
    if failed.is_empty() { Ok(()) } else { Err(format!("clients: these failed: {}", failed.join(", "))) }
}

/// The directory of everything that is installed.
fn place() -> PathBuf {
    root().join("target/clients")
}

/// The directory of the programs.
fn sources() -> PathBuf {
    root().join("xtask/clients")
}
