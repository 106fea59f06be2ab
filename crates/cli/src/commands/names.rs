//! `everbyte ls`, `stat`, `rm`, `chmod`, `chown`, `mv`, `limit`: the names of objects. The first
//! two open the store read-only.

use super::info::object;
use crate::args::{ChmodArgs, ChownArgs, InStore, Limit, LimitArgs, LsArgs, MvArgs, NamesArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use everbyte_store::{ObjectInfo, Residency, Store};
use serde_json::json;

pub(crate) fn ls(args: &LsArgs, output: &Output) -> Result<(), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    if !args.long {
        let names = store.names(&args.prefix)?;
        return names.iter().try_for_each(|name| output.say(name, json!({ "name": name })));
    }
    for info in store.objects_below(&args.prefix)? {
        output.say(
            format!("{}  {:>12}  {:8}  {}", info.access, used(&info), info.engine.name(), info.name),
            object(&info),
        )?;
    }
    Ok(())
}

pub(crate) fn stat(args: &NamesArgs, output: &Output) -> Result<(), Failure> {
    let store = open::to_read(&args.store.store, &args.store.open)?;
    for name in &args.names {
        let info = store.stat(name)?;
        if output.is_json() {
            output.say("", object(&info))?;
            continue;
        }
        output.table(&json!({
            "name": info.name,
            "id": info.id.get(),
            "rights": info.access.to_string(),
            "engine": info.engine.name(),
            "fingerprint": format!("{:#018x}", info.fingerprint),
            "span": format!("{:#x}..{:#x}", info.span.start, info.span.end),
            "used": used(&info),
            "quota": quota(&info),
            "memory": residency(&info),
        }))?;
    }
    Ok(())
}

pub(crate) fn rm(args: &NamesArgs, output: &Output) -> Result<(), Failure> {
    each(&args.store, &args.names, |store, name| {
        store.remove_object(name)?;
        output.say(format!("removed {name}"), json!({ "removed": name }))
    })
}

pub(crate) fn chmod(args: &ChmodArgs, output: &Output) -> Result<(), Failure> {
    each(&args.store, &args.names, |store, name| {
        store.chmod(name, args.mode)?;
        told(store, name, output)
    })
}

pub(crate) fn chown(args: &ChownArgs, output: &Output) -> Result<(), Failure> {
    each(&args.store, &args.names, |store, name| {
        store.chown(name, args.owner.user, args.owner.group)?;
        told(store, name, output)
    })
}

pub(crate) fn limit(args: &LimitArgs, output: &Output) -> Result<(), Failure> {
    if let Some(Limit(clusters)) = args.each_user {
        let store = open::store(&args.store.store, &args.store.open)?;
        store.set_user_quota(clusters)?;
        let told = clusters.map_or("none".into(), |clusters| format!("{clusters} clusters"));
        output.say(format!("each user: quota {told}"), json!({ "each_user": clusters }))?;
        store.close()?;
    }
    each(&args.store, args.name.as_slice(), |store, name| {
        if let Some(Limit(clusters)) = args.quota {
            store.set_quota(name, clusters)?;
        }
        if let Some(Limit(clusters)) = args.resident {
            store.set_resident(name, clusters, args.backing.as_deref())?;
        }
        let info = store.stat(name)?;
        let limits = format!("{name}: quota {}, {}", quota(&info), residency(&info));
        output.say(limits, object(&info))
    })
}

pub(crate) fn mv(args: &MvArgs, output: &Output) -> Result<(), Failure> {
    let (from, to) = (&args.from, &args.to);
    each(&args.store, std::slice::from_ref(from), |store, from| {
        store.rename_object(from, to)?;
        output.say(format!("{from} is now {to}"), json!({ "from": from, "to": to }))
    })
}

/// Applies a change to one object after another, until one fails; earlier changes stay.
fn each(
    args: &InStore,
    names: &[String],
    mut change: impl FnMut(&Store, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let store = open::store(&args.store, &args.open)?;
    let changed = names.iter().try_for_each(|name| change(&store, name));
    store.close()?;
    changed
}

/// Prints the rights of an object after a change.
fn told(store: &Store, name: &str, output: &Output) -> Result<(), Failure> {
    let info = store.stat(name)?;
    output.say(format!("{}  {name}", info.access), object(&info))
}

fn quota(info: &ObjectInfo) -> String {
    info.quota.map_or("none".into(), |clusters| format!("{clusters} clusters"))
}

fn residency(info: &ObjectInfo) -> String {
    info.residency.map_or("all in memory".into(), |Residency { limit, resident, cold }| {
        format!("{resident} clusters in memory of at most {limit}, {cold} cold")
    })
}

fn used(info: &ObjectInfo) -> String {
    info.backed.map_or("damaged".into(), |end| text::bytes(end - info.span.start))
}
