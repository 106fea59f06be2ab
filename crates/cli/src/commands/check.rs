//! `everbyte check`: walks the whole store and reports. The store is opened read-only, so no byte
//! of it changes: recovery runs in private memory, and the repairs of an opening are reported.
//!
//! Steps: superblock, names, spans and clusters (the store's own check); then each object by its
//! engine: heap, lanes, tree.
//!
//! With `--repair` the command then opens the store as any program does, which recovers it, makes
//! the possible repairs (volumes are repaired by their engine), and checks the store again.
//! `--dry-run` lists the repairs.

mod deep;
mod keyspace;
pub(crate) mod repair;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress};
use everbyte::{Engines, Repair};
use everbyte_store::{Finding, FindingKind, Recovery, Store};
use serde_json::{Value, json};

pub(crate) fn run(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
    match args.token {
        Some(token) => return repair::run(args, token, output),
        None if args.deep => return deep::run(args, output),
        None => {}
    }
    let (mut findings, would) = look(args)?;
    for finding in &findings {
        output.say(finding.to_string(), as_json(finding))?;
    }
    if args.repair && args.dry_run {
        for work in &would {
            output.say(format!("to be done: {work}"), json!({ "to_be_done": work }))?;
        }
    } else if args.repair {
        for done in recover(args)? {
            output.say(format!("done: {done}"), json!({ "done": done }))?;
        }
        (findings, _) = look(args)?;
        for finding in findings.iter().filter(|finding| is_wrong(finding)) {
            output.say(format!("still there: {finding}"), as_json(finding))?;
        }
    }
    let wrong = findings.iter().filter(|finding| is_wrong(finding)).count();
    let path = args.store.store.display();
    if wrong == 0 {
        return output.say(format!("{path}: no damage, no leaks"), json!({ "store": args.store.store, "wrong": 0 }));
    }
    output.say("", json!({ "store": args.store.store, "wrong": wrong }))?;
    let way_out = if !would.is_empty() && (!args.repair || args.dry_run) {
        "`everbyte check --repair` repairs damage with a second copy and frees leaks (add `--dry-run` to list the repairs)"
    } else {
        "export the readable entries (`everbyte kv export`) and import them into a new store"
    };
    Err(Failure::No(format!("{path}: {wrong} findings; {way_out}")))
}

fn is_wrong(finding: &Finding) -> bool {
    is_wrong_kind(finding.kind)
}

fn is_wrong_kind(kind: FindingKind) -> bool {
    kind != FindingKind::Note
}

fn kind_name(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Damage => "damage",
        FindingKind::Leak => "leak",
        FindingKind::DoubleUse => "double_use",
        FindingKind::Note => "note",
    }
}

/// Reads the store; returns the findings, and the effects of opening and repairing it.
fn look(args: &CheckArgs) -> Result<(Vec<Finding>, Vec<String>), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    let findings = findings(&store);
    let mut would = opened(&store);
    let leaks = findings.iter().filter(|finding| finding.room == "store" && finding.kind == FindingKind::Leak);
    would.extend(leaks.map(|leak| format!("give back: {leak}")));
    for (name, planned) in damage_repairs(&store) {
        let steps = planned.steps();
        would.extend(steps.iter().filter_map(|step| repair::mended("", &name, step)).map(|(text, _)| text[2..].into()));
    }
    Ok((findings, would))
}

/// The repairs of objects whose engine repairs damage.
fn damage_repairs(store: &Store) -> Vec<(String, Box<dyn Repair>)> {
    let mut all = Vec::new();
    for object in store.objects().unwrap_or_default() {
        let planned = Engines::standard().with_tools(object.engine, |tools| {
            if tools.repairs_damage() { tools.plan_repair(store, &object.name, &|_, _| ()) } else { Ok(None) }
        });
        // One that cannot be repaired stays as it is; it is among the findings.
        all.extend(planned.ok().flatten().map(|planned| (object.name.clone(), planned)));
    }
    all
}

/// The findings of the store and of each object's engine.
fn findings(store: &Store) -> Vec<Finding> {
    let total = store.objects().map_or(0, |objects| objects.len());
    let bar = progress::bar("checking objects", Some(total as u64));
    let findings = Engines::standard().check(store, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    findings
}

/// Opens the store as any program does, which recovers it and every object in it, and frees leaked
/// clusters.
fn recover(args: &CheckArgs) -> Result<Vec<String>, Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let mut done = opened(&store);
    for (name, planned) in damage_repairs(&store) {
        let steps = planned.run(&|_, _| ())?;
        done.extend(steps.iter().filter_map(|step| repair::mended("", &name, step)).map(|(text, _)| text[2..].into()));
    }
    for object in store.objects()? {
        // An object that cannot be opened stays unchanged.
        let name = &object.name;
        match Engines::standard().with_tools(object.engine, |tools| tools.recover(&store, name)) {
            Ok(works) => done.extend(works.iter().map(|work| format!("`{name}`: {work}"))),
            Err(_) => done.push(format!("`{name}`: nothing, for it cannot be opened")),
        }
    }
    done.extend(store.repair()?.iter().map(Finding::to_string));
    store.close()?;
    Ok(done)
}

/// The repairs that opening the store has made: in the file, or for a read-only store in memory.
fn opened(store: &Store) -> Vec<String> {
    let Recovery { superblocks, words, creations, removals, growths, .. } = store.recovery();
    let mut done = Vec::new();
    let opened = store.media().opened();
    if opened.log_records > 0 {
        done.push(format!("{} records of the log brought to their places", opened.log_records));
    }
    done.extend(superblocks.iter().map(|at| format!("the superblock's copy at {at:#x} written again")));
    done.extend(words.iter().map(|at| format!("the word at {at:#x} written again")));
    done.extend(creations.iter().map(|name| format!("`{name}`: an interrupted creation undone")));
    done.extend(removals.iter().map(|name| format!("`{name}`: an interrupted removal finished")));
    done.extend(growths.iter().map(|name| format!("`{name}`: an interrupted growth undone")));
    done
}

fn as_json(finding: &Finding) -> Value {
    let kind = kind_name(finding.kind);
    json!({ "room": finding.room, "kind": kind, "at": finding.at, "object": finding.object, "detail": finding.detail })
}
