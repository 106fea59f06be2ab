//! `everbyte check --deep --repair`: plans frees and corrected counts in typed pools, frees in
//! tables, and repairs of volumes, and prints a token for the plan. With the token the plan is
//! executed, if nothing has changed since. A store with damage is not repaired.

use super::deep::{Bar, Said};
use super::{deep, opened};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use everbyte::{EngineError, EngineTools, Engines, ErrorInfo, ErrorKind, Repair, RepairStep, require_whole};
use everbyte_store::{ObjectInfo, Store, Token};
use serde_json::json;

/// The repair of one object.
struct Plan {
    object: String,
    repair: Box<dyn Repair>,
}

/// Executes the plan of `token`, then checks the store again.
pub(super) fn run(args: &CheckArgs, token: Token, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let said = Said { args, output };
    let plans = plans(&store, &said)?;
    if name(&plans) != token {
        return Err(said.no(format!(
            "the store changed after token {token} was printed; nothing was repaired; `everbyte check --deep --repair` plans again"
        )));
    }
    for done in opened(&store) {
        said.line(format!("done: {done}"), json!({ "done": done }))?;
    }
    for Plan { object, repair } in plans {
        let bar = Bar::new(&object);
        let done = repair.run(&|met, total| bar.set(met, total))?;
        drop(bar);
        tell("done", &object, &done, &said)?;
    }
    store.close()?;
    drop(store);
    deep::run(args, output)
}

/// Prints the plan and its token; `None`: no repair is needed.
pub(super) fn rehearse(store: &Store, said: &Said<'_>) -> Result<Option<Token>, Failure> {
    let plans = plans(store, said)?;
    plans.iter().try_for_each(|plan| tell("to be done", &plan.object, &plan.repair.steps(), said))?;
    if plans.is_empty() {
        return Ok(None);
    }
    let token = name(&plans);
    said.line(format!("token: {token}"), json!({ "token": token.to_string() }))?;
    Ok(Some(token))
}

/// The token of all repairs together.
fn name(plans: &[Plan]) -> Token {
    plans.iter().map(|plan| plan.repair.token()).collect()
}

/// The repairs of all objects that need one. Refused if anything in the store is damaged.
fn plans(store: &Store, said: &Said<'_>) -> Result<Vec<Plan>, Failure> {
    let refused = |error: EngineError| match error.kind() {
        ErrorKind::Damaged => said.no(error.to_string()),
        _ => error.into(),
    };
    require_whole(store.check()).map_err(refused)?;
    let mut plans = Vec::new();
    for object in store.objects()? {
        plans.extend(plan(store, &object).map_err(refused)?);
    }
    Ok(plans)
}

fn plan(store: &Store, object: &ObjectInfo) -> Result<Option<Plan>, EngineError> {
    let bar = Bar::new(&object.name);
    let plan = |tools: &dyn EngineTools| tools.plan_repair(store, &object.name, &|met, total| bar.set(met, total));
    let repair = Engines::standard().with_tools(object.engine, plan)?;
    Ok(repair.map(|repair| Plan { object: object.name.clone(), repair }))
}

/// Prints one line per step.
fn tell(when: &str, object: &str, steps: &[RepairStep], said: &Said<'_>) -> Result<(), Failure> {
    let key = when.replace(' ', "_");
    for step in steps {
        match step {
            RepairStep::Counts { at, paths, stored, found } => {
                let ((strong, weak), ways) = (*found, paths.join(", "));
                let action = if strong == 0 {
                    "give up the value, which weak pointers alone lead to, of"
                } else {
                    "mend the counts of"
                };
                said.line(
                    format!("{when}: `{object}`: {action} {at:#x} ({ways}): {strong} strong, {weak} weak pointers"),
                    json!({ key.as_str(): "mend", "object": object, "at": at, "paths": paths, "stored": stored, "found": found }),
                )?;
            }
            RepairStep::Mend { .. } => {
                if let Some((text, value)) = mended(when, object, step) {
                    said.line(text, value)?;
                }
            }
            RepairStep::Free { at, bytes, looks_like, detail } => {
                let mut value = json!({ key.as_str(): "free", "object": object, "at": at });
                if let Some(bytes) = bytes {
                    value["bytes"] = json!(bytes);
                    value["looks_like"] = json!(looks_like);
                }
                said.line(format!("{when}: `{object}`: free {at:#x}: {detail}"), value)?;
            }
        }
    }
    Ok(())
}

/// The line of a step that removes damage.
pub(crate) fn mended(when: &str, object: &str, step: &RepairStep) -> Option<(String, serde_json::Value)> {
    let RepairStep::Mend { at, paths, detail } = step else { return None };
    let key = when.replace(' ', "_");
    let places = if paths.is_empty() { String::new() } else { format!(" ({})", paths.join(", ")) };
    let text = format!("{when}: `{object}` at {at:#x}: {detail}{places}");
    Some((text, json!({ key.as_str(): "mend", "object": object, "at": at, "paths": paths, "detail": detail })))
}
