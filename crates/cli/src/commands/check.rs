//! `everbyte check`: walks everything, reports, repairs nothing. Opening recovers the store as any opening does (the log
//! is brought in, what a crash left half-made is taken back); the check itself only reads.
//!
//! Steps: superblock, names, spans and clusters (the store's own check); then each object by its engine.

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use everbyte_store::{Finding, FindingKind, Store};
use serde_json::{Value, json};

pub fn run(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let findings = findings(&store)?;
    store.close()?;
    for finding in &findings {
        output.say(finding.to_string(), as_json(finding))?;
    }
    let wrong = findings.iter().filter(|finding| finding.kind != FindingKind::Note).count();
    let path = args.store.store.display();
    if wrong == 0 {
        return output.say(format!("{path}: no damage, no leaks"), json!({ "store": args.store.store, "wrong": 0 }));
    }
    output.say("", json!({ "store": args.store.store, "wrong": wrong }))?;
    Err(Failure::No(format!(
        "{path}: {wrong} findings; export what can be read (`everbyte kv export`) and restore it into a new store"
    )))
}

/// What the store and every engine in it find.
fn findings(store: &Store) -> Result<Vec<Finding>, Failure> {
    let findings = store.check();
    Ok(findings)
}

fn as_json(finding: &Finding) -> Value {
    let kind = match finding.kind {
        FindingKind::Damage => "damage",
        FindingKind::Leak => "leak",
        FindingKind::DoubleUse => "double_use",
        _ => "note",
    };
    json!({ "room": finding.room, "kind": kind, "at": finding.at, "object": finding.object, "detail": finding.detail })
}
