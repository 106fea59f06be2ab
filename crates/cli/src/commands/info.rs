//! `everbyte info`: the properties and objects of a store. It is opened read-only: no byte of it
//! changes.

use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use everbyte::{EngineTools, Engines, Fact};
use everbyte_store::{ObjectInfo, Recovery, Store};
use serde_json::{Value, json};

pub(crate) fn run(args: &StoreArgs, output: &Output) -> Result<(), Failure> {
    let store = open::to_read(&args.store, &args.open)?;
    let info = store.info();
    let objects = store.objects()?;
    if output.is_json() {
        let objects: Vec<Value> = objects.iter().map(|info| described(&store, info)).collect();
        let recovery = recovery(store.recovery());
        output.say(
            "",
            json!({
                "store": args.store, "identity": text::hex(&info.identity), "format": info.format, "backend": info.backend.name(),
                "max": info.max, "max_max": info.max_max, "binding": info.binding, "len": info.len, "log_len": info.log_len,
                "log_room": info.log_room, "backed": info.backed, "opened": info.opened - 1, "slots": info.slots,
                "each_user": store.user_quota(), "recovery": recovery, "objects": objects,
            }),
        )?;
        return Ok(());
    }
    output.table(&json!({
        "store": args.store,
        "identity": text::hex(&info.identity),
        "format": info.format,
        "backend": info.backend.name(),
        "maximum": text::bytes(info.max),
        "mapped at": info.binding.map_or("any address".into(), |address| format!("{address:#x}, bound")),
        "file length": text::bytes(info.len),
        "log": format!("{} of at most {}", text::bytes(info.log_room), text::bytes(info.log_len)),
        "used by objects": text::bytes(info.backed),
        "opened": format!("{} times", info.opened - 1),
        "last close": if store.recovery().clean { "in good order" } else { "none: opening it will recover" },
        "objects": format!("{} of at most {}", info.objects, info.slots),
        "each user": store.user_quota().map_or("no quota".into(), |clusters| format!("quota {clusters} clusters")),
    }))?;
    for object in &objects {
        let used = object.backed.map_or("damaged".into(), |end| text::bytes(end - object.span.start));
        let at = format!("{:#x}..{:#x}", object.span.start, object.span.end);
        let facts: String = facts(&store, object)
            .iter()
            .map(|fact| format!(", {} {}", fact.name.replace('_', " "), fact.value))
            .collect();
        output
            .say(format!("  {}  engine {}, span {at}, {used} used{facts}", object.name, object.engine), Value::Null)?;
    }
    Ok(())
}

/// The figures of an object's engine; none if the object cannot be opened (`check` says why).
fn facts(store: &Store, object: &ObjectInfo) -> Vec<Fact> {
    let describe = |tools: &dyn EngineTools| tools.describe(store, &object.name);
    Engines::standard().with_tools(object.engine, describe).unwrap_or_default()
}

fn described(store: &Store, info: &ObjectInfo) -> Value {
    let mut value = object(info);
    value["facts"] = facts(store, info).iter().map(|fact| (fact.name.to_string(), json!(fact.value))).collect();
    value
}

pub(crate) fn object(object: &everbyte_store::ObjectInfo) -> Value {
    json!({
        "name": object.name, "id": object.id.get(), "engine": object.engine.name(), "fingerprint": object.fingerprint,
        "start": object.span.start, "end": object.span.end, "backed": object.backed,
        "owner": object.access.owner, "group": object.access.group, "mode": format!("{:03o}", object.access.mode),
        "quota": object.quota, "limit": object.residency.map(|residency| residency.limit),
        "resident": object.residency.map(|residency| residency.resident),
        "cold": object.residency.map(|residency| residency.cold),
    })
}

fn recovery(recovery: &Recovery) -> Value {
    json!({
        "clean": recovery.clean, "superblocks": recovery.superblocks, "creations": recovery.creations,
        "words": recovery.words, "removals": recovery.removals, "growths": recovery.growths, "unknown": recovery.unknown,
    })
}
