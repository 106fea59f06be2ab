//! `everbyte check --deep`: follows every pointer of the typed pools in a store, by the description that lies in each.
//! What is allocated and cannot be reached has leaked. Other objects are checked as ever, and named as not walked.

use super::{as_json, check_object, is_wrong, repair};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress};
use everbyte_object::{Error, Report, Total, UntypedPool};
use everbyte_store::{Engine, Finding, FindingKind, ObjectInfo, Store};
use indicatif::ProgressBar;
use serde_json::{Value, json};

pub fn run(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    let said = Said { args, output };
    let mut wrong = said.findings(&store.check())?;
    // A damaged record, which the store's check has reported, makes the list empty.
    for object in store.objects().unwrap_or_default() {
        match look(&store, &object) {
            Look::Pool(report) => {
                wrong += said.findings(&report.findings())?;
                said.pool(&report)?;
            }
            Look::Other(findings, why) => {
                wrong += said.findings(&findings)?;
                said.line(
                    format!("`{}`: not walked: {why}", object.name),
                    json!({ "object": object.name, "not_walked": why }),
                )?;
            }
        }
    }
    if wrong == 0 {
        return said.line("no damage, no leaks", json!({ "wrong": 0 }));
    }
    said.line(format!("{wrong} findings"), json!({ "wrong": wrong }))?;
    let path = args.store.store.display();
    let way_out = match args.repair && args.token.is_none() {
        false => format!("`everbyte check --deep --repair {path}` says what of them it would put right"),
        true => match repair::rehearse(&store, &said)? {
            Some(token) => format!(
                "`everbyte check --deep --repair --token {token} {path}` does what is said to be done, if nothing changes until then"
            ),
            None => "no typed pool and no table needs a repair; see what `everbyte check --repair` does".into(),
        },
    };
    Err(said.no(format!("{wrong} findings; {way_out}")))
}

/// What a look at one object has found.
enum Look {
    Pool(Box<Report>),
    /// What its engine's own check says, and why that is all.
    Other(Vec<Finding>, String),
}

fn look(store: &Store, object: &ObjectInfo) -> Look {
    let mut findings = Vec::new();
    let why = match object.engine {
        Engine::Undo => match UntypedPool::open(store, &object.name) {
            Ok(pool) => return Look::Pool(walk(&pool, &object.name).into()),
            Err(Error::NotTyped { .. }) => "what its blocks hold only its program knows".into(),
            Err(error) => {
                findings.push(unopened(object, &error));
                "it cannot be opened".into()
            }
        },
        Engine::Cdds | Engine::Hkv => "it is a table, whose own check reads all of it".into(),
        Engine::Heap | Engine::None => "what it holds only its program knows".into(),
        engine => format!("this program has no engine `{engine}`"),
    };
    check_object(store, object, &mut findings);
    Look::Other(findings, why)
}

/// A pool whose own words are damaged.
fn unopened(object: &ObjectInfo, error: &Error) -> Finding {
    let at = if let Error::Damaged { at, .. } = error { *at } else { object.span.start };
    let detail = format!("cannot be opened: {error}");
    Finding { room: "object", kind: FindingKind::Damage, at, object: Some(object.name.clone()), detail }
}

fn walk(pool: &UntypedPool, name: &str) -> Report {
    let bar = bar(pool, name);
    let report = pool.examine(&|met| bar.set_position(met));
    bar.finish_and_clear();
    report
}

/// Counts the blocks of a pool that a walk meets.
pub fn bar(pool: &UntypedPool, name: &str) -> ProgressBar {
    let total = pool.allocated().ok().map(|total| total.blocks);
    progress::bar("walking", total).with_message(format!("walking `{name}`"))
}

/// Says what was found, each line with the store that it is about.
pub struct Said<'a> {
    pub args: &'a CheckArgs,
    pub output: &'a Output,
}

impl Said<'_> {
    pub fn line(&self, text: impl std::fmt::Display, mut value: Value) -> Result<(), Failure> {
        let store = &self.args.store.store;
        value["store"] = json!(store);
        self.output.say(format!("{}: {text}", store.display()), value)
    }

    /// The answer is no.
    pub fn no(&self, why: String) -> Failure {
        Failure::No(format!("{}: {why}", self.args.store.store.display()))
    }

    /// How many are wrong.
    fn findings(&self, findings: &[Finding]) -> Result<usize, Failure> {
        findings.iter().try_for_each(|finding| self.line(finding, as_json(finding)))?;
        Ok(findings.iter().filter(|finding| is_wrong(finding)).count())
    }

    /// The sums of a pool.
    fn pool(&self, report: &Report) -> Result<(), Failure> {
        let total = |total: &Total| json!({ "blocks": total.blocks, "bytes": total.bytes });
        let Report { object, reached, leaked, unsure, .. } = report;
        let mut text = format!("`{object}`: walked: {reached} are in use");
        for (total, what) in [(leaked, "have leaked"), (unsure, "may have leaked")] {
            if total.blocks > 0 {
                text += &format!(", {total} {what}");
            }
        }
        let sums =
            json!({ "object": object, "in_use": total(reached), "leaked": total(leaked), "unsure": total(unsure) });
        self.line(text, sums)
    }
}
