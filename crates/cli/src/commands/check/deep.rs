//! `everbyte check --deep`: follows every pointer of the typed pools in a store, by the description
//! in each pool. An allocated block that no pointer reaches has leaked. Other objects are checked
//! as without `--deep`, and reported as not walked; of a key-value store that a server has opened,
//! the server's tables are compared with each other.

use super::{as_json, is_wrong, keyspace, repair};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress};
use everbyte::{Deep, Engines, Sums, Walk};
use everbyte_store::{Finding, Total};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::cell::OnceCell;

pub(super) fn run(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    let said = Said { args, output };
    let mut wrong = said.findings(&store.check())?;
    // A damaged record, which the store's check has reported, makes the list empty.
    for object in store.objects().unwrap_or_default() {
        let bar = Bar::new(&object.name);
        let Deep { findings, walk } = Engines::standard().deep(&store, &object, &|met, total| bar.set(met, total));
        drop(bar);
        wrong += said.findings(&findings)?;
        wrong += keyspace::check(&store, &object, &said)?;
        match walk {
            Walk::Whole(sums) => said.sums(&object.name, &sums)?,
            Walk::No(why) => said.line(
                format!("`{}`: not walked: {why}", object.name),
                json!({ "object": object.name, "not_walked": why }),
            )?,
        }
    }
    if wrong == 0 {
        return said.line("no damage, no leaks", json!({ "wrong": 0 }));
    }
    said.line(format!("{wrong} findings"), json!({ "wrong": wrong }))?;
    let path = args.store.store.display();
    let way_out = match args.repair && args.token.is_none() {
        false => format!("`everbyte check --deep --repair {path}` lists the repairs that it would make"),
        true => match repair::rehearse(&store, &said)? {
            Some(token) => format!(
                "`everbyte check --deep --repair --token {token} {path}` executes this plan, if nothing changes until then"
            ),
            None => "no typed pool and no table needs a repair; `everbyte check --repair` may repair the rest".into(),
        },
    };
    Err(said.no(format!("{wrong} findings; {way_out}")))
}

/// The progress of a walk over one object; shown from its first step on.
pub(super) struct Bar {
    name: String,
    bar: OnceCell<ProgressBar>,
}

impl Bar {
    pub(super) fn new(name: &str) -> Bar {
        Bar { name: name.into(), bar: OnceCell::new() }
    }

    /// The walk has visited `met` blocks of `total`.
    pub(super) fn set(&self, met: u64, total: Option<u64>) {
        let new = || progress::bar("walking", total).with_message(format!("walking `{}`", self.name));
        self.bar.get_or_init(new).set_position(met);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Prints findings, each with the path of its store.
pub(super) struct Said<'a> {
    pub args: &'a CheckArgs,
    pub output: &'a Output,
}

impl Said<'_> {
    pub(super) fn line(&self, text: impl std::fmt::Display, mut value: Value) -> Result<(), Failure> {
        let store = &self.args.store.store;
        value["store"] = json!(store);
        self.output.say(format!("{}: {text}", store.display()), value)
    }

    /// A failure with exit code 1.
    pub(super) fn no(&self, why: String) -> Failure {
        Failure::No(format!("{}: {why}", self.args.store.store.display()))
    }

    /// The number of findings.
    fn findings(&self, findings: &[Finding]) -> Result<usize, Failure> {
        findings.iter().try_for_each(|finding| self.line(finding, as_json(finding)))?;
        Ok(findings.iter().filter(|finding| is_wrong(finding)).count())
    }

    /// The sums of a walk.
    fn sums(&self, object: &str, sums: &Sums) -> Result<(), Failure> {
        let total = |total: &Total| json!({ "blocks": total.blocks, "bytes": total.bytes });
        let Sums { reached, leaked, unsure } = sums;
        let mut text = format!("`{object}`: walked: {reached} are in use");
        for (total, state) in [(leaked, "have leaked"), (unsure, "may have leaked")] {
            if total.blocks > 0 {
                text += &format!(", {total} {state}");
            }
        }
        let sums =
            json!({ "object": object, "in_use": total(reached), "leaked": total(leaked), "unsure": total(unsure) });
        self.line(text, sums)
    }
}
