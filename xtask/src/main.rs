//! `cargo xtask`: the chores of this repository, the same words on a laptop and in continuous
//! integration.
//!
//! Light on purpose (it is compiled before everything else): heavy work is in crates that this
//! program runs.

#![forbid(unsafe_code)]

mod aarch64;
mod against;
mod bridge;
mod chores;
mod ci;
mod clients;
mod dax;
mod posix;
mod python;
mod shell;
mod soak;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask WORD

  ci [STEP..]                    every test of continuous integration, or the steps named; `ci --list` names them
  tidy [--bless]                 the rules of the project; --bless records the present byte layouts
       [--list RULE]             every place that a rule counts: language, columns, terms, ids, circles
  museum [--json]                seeded bugs, each of which the crash explorer must find
  mutants [--minutes N] [PART..] leave out each flush, fence, barrier and checksum: a case must fail; ten minutes, resumable
          [--show] [--bless] [--fresh]   what is known; write the list; forget what is known
  bench CASE [--quick] [--json]  ours and rivals, interleaved and pinned; `bench --list` names the cases
  bench CASE --against COMMIT    this tree and another commit, in turn: which metrics are better or worse
  plots RESULTS..                figures of what `bench --json` wrote, in docs/plots
  rivals                         install what the rivals of the benches need
  dax [all|tests|kills]          boot an emulated persistent-memory machine, test there, kill it, check on the host
  posix [--operations N]         other projects' suites and programs on a mounted volume; as root
  bridge                         a new crate of persistent types with its C++ program, by cargo and CMake, on an installed Everbyte
  python                         build the Python package as a wheel, install it in target/python, run its tests
  clients [NAME..]               other projects' Redis clients, and applications with their own tests, on the server
          [--list]               their names
  aarch64                        build for 64-bit ARM, and run the tests of media, log and kv there, under QEMU
  fuzz [TARGET] [--seconds N]    fuzz every parser of outside bytes, ten minutes each
  schedules [--count N]          threads on pools and pins, in many more orders than the tests try
  soak [--minutes N]             every case of the explorer whole; then load, kill -9, reopen, compare, again and again
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy", rest @ ..] => tidy::run(rest),
        ["ci", rest @ ..] => ci::run(rest),
        ["museum", rest @ ..] => chores::museum(rest),
        ["mutants", rest @ ..] => chores::mutants(rest),
        ["bench", rest @ ..] => chores::bench(rest),
        ["plots", rest @ ..] => chores::plots(rest),
        ["rivals", rest @ ..] => chores::rivals(rest),
        ["dax", rest @ ..] => dax::run(rest),
        ["posix", rest @ ..] => posix::run(rest),
        ["bridge"] => bridge::run(false),
        ["python", rest @ ..] => python::run(rest),
        ["clients", rest @ ..] => clients::run(rest),
        ["aarch64", rest @ ..] => aarch64::run(rest),
        ["fuzz", rest @ ..] => chores::fuzz(rest),
        ["schedules", rest @ ..] => soak::schedules(rest),
        ["soak", rest @ ..] => soak::run(rest),
        [] | ["help" | "--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(())
        }
        [word, ..] => Err(format!("no chore is called `{word}`\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
