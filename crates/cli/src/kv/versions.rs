//! `everbyte kv versions|name|forget|restore|changes`: versions that have names.

use super::{TablePath, close, exchange};
use crate::args::Form;
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use everbyte_kv::Change;
use serde_json::{Map, Value, json};
use std::time::UNIX_EPOCH;

pub(super) fn list(place: &TablePath, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let versions = kv.versions()?;
    close(store, kv)?;
    let seconds = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if output.is_json() {
        let list: Vec<_> = versions
            .iter()
            .map(|named| {
                json!({
                    "name": named.name,
                    "version": named.version.get(),
                    "keys": named.keys,
                    "named_at": seconds(named.named_at),
                })
            })
            .collect();
        return output.say("", json!({ "versions": list }));
    }
    for named in versions {
        let line = format!(
            "{}\tversion {}\t{} keys\tsince {} s after 1970\n",
            named.name,
            named.version,
            named.keys,
            seconds(named.named_at)
        );
        output.bytes(line.as_bytes())?;
    }
    Ok(())
}

pub(super) fn name(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let version = kv.name_version(name)?;
    close(store, kv)?;
    output.say(format!("{name} is version {version}"), json!({ "name": name, "version": version.get() }))
}

/// Removes the name, and gives the space of the version back before it returns.
pub(super) fn forget(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    kv.remove_version(name)?;
    while kv.reclaim()? {}
    close(store, kv)?;
    output.say(format!("removed the name {name}"), json!({ "removed": name }))
}

pub(super) fn restore(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    match place.named(&kv)? {
        Some(table) => kv.restore_table(&table, name)?,
        None => kv.restore_version(name)?,
    }
    close(store, kv)?;
    output.say(format!("restored version {name}"), json!({ "restored": name }))
}

pub(super) fn changes(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let (then, now) = (kv.open_version(name)?, kv.snapshot());
    let changes = match place.named(&kv)? {
        Some(table) => then.table(&table)?.changes(&now.table(&table)?)?,
        None => then.changes(&now)?,
    };
    for change in changes {
        print(&change?, output)?;
    }
    drop((then, now));
    close(store, kv)
}

fn print(change: &Change, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let mut object = Map::new();
        text::set_json(&mut object, "key", &change.key);
        for (field, value) in [("before", &change.before), ("after", &change.after)] {
            if let Some(value) = value {
                text::set_json(&mut object, field, value);
            }
        }
        return output.bytes(format!("{}\n", Value::Object(object)).as_bytes());
    }
    for (sign, value) in [('-', &change.before), ('+', &change.after)] {
        if let Some(value) = value {
            let line = exchange::write(Form::Tsv, &change.key, Some(value));
            output.bytes(format!("{sign}{line}\n").as_bytes())?;
        }
    }
    Ok(())
}
