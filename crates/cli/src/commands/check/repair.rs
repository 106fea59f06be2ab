//! `everbyte check --deep --repair`: says what would be freed and mended in typed pools, and gives a token for that. With the
//! token it is done, if nothing has changed since. Where anything in the store is damaged nothing is repaired.

use super::deep::{self, Said};
use super::{check_object, opened};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use everbyte_object::{Error, Fault, FaultKind, RepairPlan, Token, UntypedPool};
use everbyte_store::{Engine, Finding, Store};
use serde_json::json;

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
    for plan in &plans {
        let mut pool = UntypedPool::open(&store, &plan.report().object)?;
        let bar = deep::bar(&pool, &plan.report().object);
        let done = pool.repair(plan.token(), &|met| bar.set_position(met))?;
        bar.finish_and_clear();
        tell(&done, "done", &said)?;
    }
    store.close()?;
    drop((plans, store));
    deep::run(args, output)
}

/// Says what would be done, and the token for it; `None`: there is nothing to do.
pub fn rehearse(store: &Store, said: &Said<'_>) -> Result<Option<Token>, Failure> {
    let plans = plans(store, said)?;
    plans.iter().try_for_each(|plan| tell(plan, "to be done", said))?;
    if plans.is_empty() {
        return Ok(None);
    }
    let token = name(&plans);
    said.line(format!("token: {token}"), json!({ "token": token.to_string() }))?;
    Ok(Some(token))
}

/// One token for all pools.
fn name(plans: &[RepairPlan]) -> Token {
    plans.iter().map(RepairPlan::token).collect()
}

/// What each pool needs, of those that need something. Refused if anything in the store is damaged.
fn plans(store: &Store, said: &Said<'_>) -> Result<Vec<RepairPlan>, Failure> {
    let mut plans = Vec::new();
    require_whole(&store.check(), said)?;
    for object in store.objects()? {
        let pool = match object.engine {
            Engine::Undo => UntypedPool::open(store, &object.name),
            _ => Err(Error::NotTyped { object: object.name.clone(), detail: "it has another engine" }),
        };
        match pool {
            Ok(pool) => {
                let bar = deep::bar(&pool, &object.name);
                let plan = pool.plan_repair(&|met| bar.set_position(met));
                bar.finish_and_clear();
                let plan = plan.map_err(|error| said.no(error.to_string()))?;
                plans.extend(Some(plan).filter(|plan| !plan.is_empty()));
            }
            Err(Error::NotTyped { .. }) => {
                let mut findings = Vec::new();
                check_object(store, &object, &mut findings);
                require_whole(&findings, said)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(plans)
}

fn require_whole(findings: &[Finding], said: &Said<'_>) -> Result<(), Failure> {
    match findings.iter().find(|finding| finding.is_damage()) {
        Some(found) => Err(said
            .no(format!("{found}; nothing is repaired while there is damage; see what `everbyte check` says of it"))),
        None => Ok(()),
    }
}

/// Each count and each block.
fn tell(plan: &RepairPlan, when: &str, said: &Said<'_>) -> Result<(), Failure> {
    let object = &plan.report().object;
    let key = when.replace(' ', "_");
    for Fault { kind, at, paths, .. } in plan.counts() {
        let FaultKind::Counts { stored, found } = *kind else { continue };
        let ((strong, weak), ways) = (found, paths.join(", "));
        let what =
            if strong == 0 { "give up the value, which weak pointers alone lead to, of" } else { "mend the counts of" };
        let text = format!("{when}: `{object}`: {what} {at:#x} ({ways}): {strong} strong, {weak} weak pointers");
        let value = json!({ key.as_str(): "mend", "object": object, "at": at, "paths": paths, "stored": stored, "found": found });
        said.line(text, value)?;
    }
    for leak in plan.leaks() {
        let text = format!("{when}: `{object}`: free {:#x}: {leak}", leak.at);
        let value = json!({ key.as_str(): "free", "object": object, "at": leak.at, "bytes": leak.bytes, "looks_like": leak.looks_like });
        said.line(text, value)?;
    }
    Ok(())
}
