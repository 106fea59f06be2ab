//! `everbyte-cases museum [--json]`: visits the museum and fails if a seeded bug is not found.
//! `everbyte-cases cases`: explores every case.

#![forbid(unsafe_code)]

use everbyte_cases::{Settings, cases, museum};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["museum"] => visit(false),
        ["museum", "--json"] => visit(true),
        ["cases"] => explore(),
        _ => {
            eprintln!("usage: everbyte-cases museum [--json] | cases");
            ExitCode::from(2)
        }
    }
}

fn visit(json: bool) -> ExitCode {
    let bad: Vec<_> =
        museum::canaries().into_iter().filter(|canary| !canary.right_passes || !canary.wrong_fails).collect();
    if !bad.is_empty() {
        eprintln!("the explorer does not tell right from wrong: {bad:?}");
        return ExitCode::FAILURE;
    }
    let mut outcomes = Vec::new();
    for exhibit in museum::EXHIBITS {
        let outcome = exhibit.visit();
        if !json {
            let verdict = if outcome.found { "found" } else { "NOT FOUND" };
            println!("{verdict:9} {:28} by {:18} {}", outcome.name, outcome.case, outcome.story);
        }
        outcomes.push(outcome);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&outcomes).expect("plain data"));
    }
    let missed = outcomes.iter().filter(|outcome| !outcome.found).count();
    if !json {
        println!("{} of {} seeded bugs found", outcomes.len() - missed, outcomes.len());
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn explore() -> ExitCode {
    let mut failed = false;
    for case in cases() {
        let report = case.explore(&Settings::default());
        println!("{report}");
        failed |= !report.passed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
