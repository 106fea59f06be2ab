//! `everbyte check`: walks everything and reports. The store is opened for reading alone, so not a byte of it changes;
//! what recovery does it does in private memory, and what an opening would put right is reported.
//!
//! Steps: superblock, names, spans and clusters (the store's own check); then each object by its engine: heap, lanes,
//! tree.
//!
//! With `--repair` the store is then opened as any program does, which recovers it, and what can be repaired is; the
//! last word is a second look. `--dry-run` says what that would do.

mod deep;
mod repair;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress};
use everbyte_heap::Heap;
use everbyte_hkv::Kv as Hkv;
use everbyte_kv::Kv;
use everbyte_store::{Engine, Finding, FindingKind, Object, ObjectInfo, Recovery, Store};
use everbyte_tx::{Redo, Undo};
use serde_json::{Value, json};

pub fn run(args: &CheckArgs, output: &Output) -> Result<(), Failure> {
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
        "`everbyte check --repair` repairs what has a second copy or no owner (add `--dry-run` to see what)"
    } else {
        "export what can be read (`everbyte kv export`) and restore it into a new store"
    };
    Err(Failure::No(format!("{path}: {wrong} findings; {way_out}")))
}

fn is_wrong(finding: &Finding) -> bool {
    finding.kind != FindingKind::Note
}

/// Reads the store: what is found, and what opening and repairing it would do.
fn look(args: &CheckArgs) -> Result<(Vec<Finding>, Vec<String>), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    let findings = findings(&store)?;
    let mut would = opened(&store);
    let leaks = findings.iter().filter(|finding| finding.room == "store" && finding.kind == FindingKind::Leak);
    would.extend(leaks.map(|leak| format!("give back: {leak}")));
    Ok((findings, would))
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
        check_object(store, object, &mut findings);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(findings)
}

/// What the engine of an object finds; where it cannot be opened, what lies under it.
fn check_object(store: &Store, info: &ObjectInfo, findings: &mut Vec<Finding>) {
    let cannot = |room, at: Option<u64>, error: String| Finding {
        room,
        kind: FindingKind::Damage,
        at: at.unwrap_or(info.span.start),
        object: Some(info.name.clone()),
        detail: format!("cannot be opened: {error}"),
    };
    let object = match store.object(&info.name) {
        Ok(object) => object,
        Err(_) => return, // a damaged header, which the store's check has reported
    };
    let checked = match info.engine {
        Engine::None => Ok(Vec::new()),
        Engine::Heap => return check_heap(object, cannot, findings),
        Engine::Cdds => match Kv::open(store, &info.name) {
            Ok(kv) => Ok(kv.check()),
            Err(error) => Err(cannot("kv", damaged_tree(&error), error.to_string())),
        },
        Engine::Undo => match Undo::open(object.clone()) {
            Ok(undo) => Ok(undo.check(None)),
            Err(error) => Err(cannot("tx", damaged_lane(&error), error.to_string())),
        },
        Engine::Redo => match Redo::open(object.clone()) {
            Ok(redo) => Ok(redo.check(None)),
            Err(error) => Err(cannot("tx", damaged_lane(&error), error.to_string())),
        },
        Engine::Hkv => match Hkv::open(object.clone()) {
            Ok(pairs) => Ok(pairs.check()),
            Err(error) => Err(cannot("hkv", damaged_pairs(&error), error.to_string())),
        },
        other => Ok(vec![Finding {
            room: "store",
            kind: FindingKind::Note,
            at: info.span.start,
            object: Some(info.name.clone()),
            detail: format!("this program has no engine `{other}`: what it keeps was not checked"),
        }]),
    };
    match checked {
        Ok(found) => findings.extend(found),
        Err(finding) => {
            findings.push(finding);
            check_heap(object, cannot, findings);
        }
    }
}

fn check_heap(
    object: Object,
    cannot: impl Fn(&'static str, Option<u64>, String) -> Finding,
    findings: &mut Vec<Finding>,
) {
    match Heap::open(object) {
        Ok(heap) => findings.extend(heap.check(None)),
        Err(error) => findings.push(cannot("heap", damaged_heap(&error), error.to_string())),
    }
}

/// Where the damage is that an error tells of.
fn damaged_heap(error: &everbyte_heap::Error) -> Option<u64> {
    if let everbyte_heap::Error::Damaged { at, .. } = error { Some(*at) } else { None }
}

fn damaged_lane(error: &everbyte_tx::Error) -> Option<u64> {
    match error {
        everbyte_tx::Error::Damaged { at, .. } => Some(*at),
        everbyte_tx::Error::Heap(error) => damaged_heap(error),
        _ => None,
    }
}

fn damaged_tree(error: &everbyte_kv::Error) -> Option<u64> {
    use everbyte_cdds::Error as Tree;
    match error {
        everbyte_kv::Error::Tree(Tree::Damaged { at, .. }) => Some(*at),
        everbyte_kv::Error::Tree(Tree::Heap(error)) => damaged_heap(error),
        _ => None,
    }
}

fn damaged_pairs(error: &everbyte_hkv::Error) -> Option<u64> {
    match error {
        everbyte_hkv::Error::Damaged { at, .. } => Some(*at),
        everbyte_hkv::Error::Tx(error) => damaged_lane(error),
        everbyte_hkv::Error::Heap(error) => damaged_heap(error),
        _ => None,
    }
}

/// Opens the store as any program does, which recovers it and every object in it, and gives back what nobody has.
fn recover(args: &CheckArgs) -> Result<Vec<String>, Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let mut done = opened(&store);
    for object in store.objects()? {
        // Opening finishes what a crash left in an engine's own log. What cannot be opened stays as it is.
        let name = &object.name;
        let finished = match object.engine {
            Engine::Cdds => Kv::open(&store, name).is_ok(),
            Engine::Heap => Heap::open(store.object(name)?).is_ok(),
            Engine::Hkv => Hkv::open(store.object(name)?).is_ok(),
            Engine::Undo => match Undo::open(store.object(name)?) {
                Ok(undo) => {
                    let found = *undo.recovered();
                    if found.rolled_back + found.finished > 0 {
                        let (back, on) = (found.rolled_back, found.finished);
                        done.push(format!("`{name}`: {back} transactions rolled back, {on} finished"));
                    }
                    true
                }
                Err(_) => false,
            },
            _ => true,
        };
        if !finished {
            done.push(format!("`{name}`: nothing, for it cannot be opened"));
        }
    }
    done.extend(store.repair()?.iter().map(Finding::to_string));
    store.close()?;
    Ok(done)
}

/// What opening the store has done, in the file or, of one that is only read, in memory.
fn opened(store: &Store) -> Vec<String> {
    let Recovery { superblocks, words, creations, removals, growths, .. } = store.recovery();
    let mut done = Vec::new();
    let opened = store.media().opened();
    if opened.log_records > 0 {
        done.push(format!("{} records of the log brought to their places", opened.log_records));
    }
    done.extend(superblocks.iter().map(|at| format!("the superblock's copy at {at:#x} written again")));
    done.extend(words.iter().map(|at| format!("the word at {at:#x} written again")));
    done.extend(creations.iter().map(|name| format!("`{name}`: an interrupted creation taken back")));
    done.extend(removals.iter().map(|name| format!("`{name}`: an interrupted removal finished")));
    done.extend(growths.iter().map(|name| format!("`{name}`: an interrupted growth taken back")));
    done
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
