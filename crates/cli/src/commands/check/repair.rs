//! `everbyte check --deep --repair`: says what would be freed and mended in typed pools, and freed in tables, and gives a token
//! for that. With the token it is done, if nothing has changed since. Where anything in the store is damaged nothing is
//! repaired.

use super::deep::{self, Said};
use super::{check_object, opened};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use everbyte_kv::Kv;
use everbyte_object::{Error, Fault, FaultKind, Leak, RepairPlan, Token, UntypedPool};
use everbyte_store::{Engine, Finding, FindingKind, ObjectInfo, Store};
use serde_json::json;

/// What an object needs.
enum Plan {
    Pool(Box<RepairPlan>),
    /// Blocks of a table's heap that its tree does not own.
    Table(String, Vec<Finding>, Token),
}

/// Does what was planned under `token`; the last word is a second look.
pub fn run(args: &CheckArgs, token: Token, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let said = Said { args, output };
    let plans = plans(&store, &said)?;
    if name(&plans) != token {
        return Err(said.no(format!(
            "not what token {token} was given for; nothing was repaired; `everbyte check --deep --repair` plans again"
        )));
    }
    for done in opened(&store) {
        said.line(format!("done: {done}"), json!({ "done": done }))?;
    }
    for plan in plans {
        let done = match plan {
            Plan::Pool(plan) => {
                let mut pool = UntypedPool::open(&store, &plan.report().object)?;
                let bar = deep::bar(&pool, &plan.report().object);
                let done = pool.repair(plan.token(), &|met| bar.set_position(met))?;
                bar.finish_and_clear();
                Plan::Pool(done.into())
            }
            Plan::Table(name, _, token) => {
                let leaks = Kv::open(&store, &name)?.free_leaks()?;
                Plan::Table(name, leaks, token)
            }
        };
        done.tell("done", &said)?;
    }
    store.close()?;
    drop(store);
    deep::run(args, output)
}

/// Says what would be done, and the token for it; `None`: there is nothing to do.
pub fn rehearse(store: &Store, said: &Said<'_>) -> Result<Option<Token>, Failure> {
    let plans = plans(store, said)?;
    plans.iter().try_for_each(|plan| plan.tell("to be done", said))?;
    if plans.is_empty() {
        return Ok(None);
    }
    let token = name(&plans);
    said.line(format!("token: {token}"), json!({ "token": token.to_string() }))?;
    Ok(Some(token))
}

/// One token for all.
fn name(plans: &[Plan]) -> Token {
    let tokens = plans.iter().map(|plan| match plan {
        Plan::Pool(plan) => plan.token(),
        Plan::Table(_, _, token) => *token,
    });
    tokens.collect()
}

/// What each object needs, of those that need something. Refused if anything in the store is damaged.
fn plans(store: &Store, said: &Said<'_>) -> Result<Vec<Plan>, Failure> {
    require_whole(&store.check(), said)?;
    let mut plans = Vec::new();
    for object in store.objects()? {
        plans.extend(plan(store, &object, said)?);
    }
    Ok(plans)
}

fn plan(store: &Store, object: &ObjectInfo, said: &Said<'_>) -> Result<Option<Plan>, Failure> {
    if object.engine == Engine::Undo {
        match UntypedPool::open(store, &object.name) {
            Ok(pool) => {
                let bar = deep::bar(&pool, &object.name);
                let plan = pool.plan_repair(&|met| bar.set_position(met));
                bar.finish_and_clear();
                let plan = plan.map_err(|error| said.no(error.to_string()))?;
                return Ok((!plan.is_empty()).then(|| Plan::Pool(plan.into())));
            }
            Err(Error::NotTyped { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut findings = Vec::new();
    check_object(store, object, &mut findings);
    require_whole(&findings, said)?;
    findings.retain(|finding| object.engine == Engine::Cdds && finding.kind == FindingKind::Leak);
    if findings.is_empty() {
        return Ok(None);
    }
    let identity = u128::from_le_bytes(store.identity());
    let words = [identity as u64, (identity >> 64) as u64, object.id];
    let token = words.into_iter().chain(findings.iter().map(|leak| leak.at)).collect();
    Ok(Some(Plan::Table(object.name.clone(), findings, token)))
}

fn require_whole(findings: &[Finding], said: &Said<'_>) -> Result<(), Failure> {
    match findings.iter().find(|finding| finding.is_damage()) {
        Some(found) => Err(said
            .no(format!("{found}; nothing is repaired while there is damage; see what `everbyte check` says of it"))),
        None => Ok(()),
    }
}

impl Plan {
    /// Each count and each block.
    fn tell(&self, when: &str, said: &Said<'_>) -> Result<(), Failure> {
        let key = when.replace(' ', "_");
        let plan = match self {
            Plan::Pool(plan) => plan,
            Plan::Table(object, leaks, _) => {
                return leaks.iter().try_for_each(|leak| {
                    let text = format!("{when}: `{object}`: free {:#x}: {}", leak.at, leak.detail);
                    said.line(text, json!({ key.as_str(): "free", "object": object, "at": leak.at }))
                });
            }
        };
        let object = &plan.report().object;
        for Fault { kind, at, paths, .. } in plan.counts() {
            let FaultKind::Counts { stored, found } = *kind else { continue };
            let ((strong, weak), ways) = (found, paths.join(", "));
            let what = if strong == 0 {
                "give up the value, which weak pointers alone lead to, of"
            } else {
                "mend the counts of"
            };
            said.line(
                format!("{when}: `{object}`: {what} {at:#x} ({ways}): {strong} strong, {weak} weak pointers"),
                json!({ key.as_str(): "mend", "object": object, "at": at, "paths": paths, "stored": stored, "found": found }),
            )?;
        }
        for leak in plan.leaks() {
            let Leak { at, bytes, looks_like } = leak;
            said.line(
                format!("{when}: `{object}`: free {at:#x}: {leak}"),
                json!({ key.as_str(): "free", "object": object, "at": at, "bytes": bytes, "looks_like": looks_like }),
            )?;
        }
        Ok(())
    }
}
