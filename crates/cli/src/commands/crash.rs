//! `everbyte crash [CASE]`: runs registered programs, or a program of the user, against the
//! crashes that the crash rule permits, and replays a failure.

use crate::args::{CrashArgs, ProgramArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use everbyte_cases::{Case, Foreign, Settings, cases, explore_program, find};

use serde_json::{Value, json};

pub(crate) fn run(args: &CrashArgs, output: &Output) -> Result<(), Failure> {
    if args.list {
        return list(output);
    }
    let settings = Settings {
        seed: args.seed,
        image: args.image.clone(),
        images: args.images,
        total: args.total,
        profiles: (!args.profiles.is_empty()).then(|| args.profiles.clone()),
    };
    settings.validate().map_err(Failure::Words)?;
    if let ProgramArgs { run: Some(run), check: Some(check), store: Some(store), precise } = &args.program {
        let foreign = Foreign { store: store.clone(), run: run.clone(), check: check.clone(), precise: *precise };
        return program(&foreign, &settings, output);
    }
    if settings.image.is_some() && args.case.is_none() {
        return Err(Failure::Words("--image belongs to one case or program: name it, too".into()));
    }
    let chosen =
        match &args.case {
            None => cases(),
            Some(name) => {
                vec![find(name).ok_or_else(|| {
                    Failure::Words(format!("no case `{name}`; `everbyte crash --list` lists the cases"))
                })?]
            }
        };
    let bar = progress::bar("exploring crashes", Some(chosen.len() as u64));
    let mut failed = Vec::new();
    for case in &chosen {
        bar.set_message(format!("exploring {}", case.name));
        let report = case.explore(&settings);
        bar.suspend(|| output.say(report.to_string(), serde_json::to_value(&report).unwrap_or(Value::Null)))?;
        output.finish()?;
        bar.inc(1);
        if !report.passed() {
            failed.push(case.name);
        }
    }
    bar.finish_and_clear();
    if failed.is_empty() { Ok(()) } else { Err(Failure::No(format!("not crash-safe: {}", failed.join(", ")))) }
}

fn program(foreign: &Foreign, settings: &Settings, output: &Output) -> Result<(), Failure> {
    let bar = progress::bar("exploring crashes", None);
    bar.set_message(format!("exploring `{}`", foreign.run));
    let report = explore_program(foreign, settings).map_err(Failure::No)?;
    bar.finish_and_clear();
    output.say(report.to_string(), serde_json::to_value(&report).unwrap_or(Value::Null))?;
    output.finish()?;
    if report.passed() { Ok(()) } else { Err(Failure::No(format!("not crash-safe: {}", report.case))) }
}

fn list(output: &Output) -> Result<(), Failure> {
    let all = cases();
    let wide = all.iter().map(|case| case.name.len()).max().unwrap_or(0);
    all.iter().try_for_each(|Case { name, crate_name, about, .. }| {
        output.say(format!("{name:wide$}  {about}"), json!({ "case": name, "room": crate_name, "about": about }))
    })
}
