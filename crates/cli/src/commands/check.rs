//! `everbyte check`: walks everything, reports, repairs nothing. Opening recovers the store as any opening does (the log
//! is brought in, what a crash left half-made is taken back); the check itself only reads.
//!
//! Steps: superblock, names, spans and clusters (the store's own check); then each object by its engine.

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress};
use everbyte_kv::Kv;
use everbyte_store::{Engine, Finding, FindingKind, Store};
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
    let mut findings = store.check();
    let objects = match store.objects() {
        Ok(objects) => objects,
        Err(_) => return Ok(findings), // a damaged record, which the store's check has reported
    };
    let bar = progress::bar("checking objects", Some(objects.len() as u64));
    for object in &objects {
        // No other engine of this program keeps anything more than the store itself checks.
        if object.engine == Engine::Cdds {
            match Kv::open(store, &object.name) {
                Ok(kv) => findings.extend(kv.check()),
                Err(error) => findings.push(Finding {
                    room: "kv",
                    kind: FindingKind::Damage,
                    at: object.span.start,
                    object: Some(object.name.clone()),
                    detail: format!("cannot be opened: {error}"),
                }),
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
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
