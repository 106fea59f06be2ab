//! `everbyte-cases museum [--json] [PART...]`: visits the museum, or the exhibits whose names have
//! one of the parts in them, and fails if a seeded bug is not found.
//! `everbyte-cases mutants [--minutes N] [--fresh] [--survivors] [--bless] [--show] [PART...]`:
//! leaves out each call site of flush, fence and barrier and each comparison of a checksum, and
//! looks for a case that fails; goes on where the last run stopped, or anew, or anew with the
//! survivors.
//! `everbyte-cases cases [PART...]`: explores every case, or those whose names have one of the
//! parts in them.
//! `everbyte-cases deaths DEATHS IMAGES CASE...`: explores each case with so many deaths of a
//! process, spread over its stores, and so many images of each run that follows one.
//! DEATHS is `40`, or `40+3` for 3 further deaths in each of these runs, which third runs follow.
//! `everbyte-cases mutant-deaths DEATHS IMAGES CALL FILE LINE CASE...`: the same with one call site
//! left out, until a case fails.

#![forbid(unsafe_code)]

mod chore;

use everbyte_cases::{Settings, cases, museum};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["museum", "--json", parts @ ..] => visit(true, parts),
        ["museum", parts @ ..] => visit(false, parts),
        ["cases", parts @ ..] => explore(parts),
        ["deaths", deaths, images, names @ ..] => dead(deaths, images, names),
        ["mutant-deaths", deaths, images, call, file, line, names @ ..] => {
            chore::one_with_deaths([deaths, images], [call, file, line], names)
        }
        ["mutant", size, call, file, line, names @ ..] => chore::one(size, call, file, line, names),
        ["reach", case] => chore::reach(case),
        ["control", case, total] => chore::control(case, total),
        ["mutants", words @ ..] => chore::run(words),
        _ => {
            eprintln!("usage: everbyte-cases museum [--json] [PART...] | cases [PART...] | mutants [PART...]");
            ExitCode::from(2)
        }
    }
}

/// Whether a name has one of the parts in it; no parts: every name.
fn wanted(name: &str, parts: &[&str]) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.contains(part))
}

fn visit(json: bool, parts: &[&str]) -> ExitCode {
    let bad: Vec<_> =
        museum::canaries().into_iter().filter(|canary| !canary.right_passes || !canary.wrong_fails).collect();
    if !bad.is_empty() {
        eprintln!("the explorer does not tell right from wrong: {bad:?}");
        return ExitCode::FAILURE;
    }
    let mut outcomes = Vec::new();
    for exhibit in museum::exhibits().iter().filter(|exhibit| wanted(exhibit.name, parts)) {
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

fn explore(parts: &[&str]) -> ExitCode {
    let mut failed = false;
    for case in cases().into_iter().filter(|case| wanted(case.name, parts)) {
        let report = case.explore(&Settings::default());
        println!("{report}");
        failed |= !report.passed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn dead(deaths: &str, images: &str, names: &[&str]) -> ExitCode {
    let (Some(deaths), Ok(images)) = (chore::deaths(deaths), images.parse()) else { return ExitCode::from(2) };
    let mut failed = false;
    for name in names {
        let Some(case) = everbyte_cases::find(name) else {
            eprintln!("no case is called {name}");
            failed = true;
            continue;
        };
        let report = case.explore_deaths(deaths, images);
        println!("{report}");
        failed |= !report.passed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
