//! `everbyte kv tables|drop-table`: the tables that have names.

use super::{TablePath, close};
use crate::failure::Failure;
use crate::output::Output;
use serde_json::json;

pub(super) fn list(place: &TablePath, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let mut tables = Vec::new();
    for name in kv.tables()? {
        let keys = kv.open_table(&name)?.len()?;
        tables.push((name, keys));
    }
    close(store, kv)?;
    if output.is_json() {
        let list: Vec<_> = tables.iter().map(|(name, keys)| json!({ "name": name, "keys": keys })).collect();
        return output.say("", json!({ "tables": list }));
    }
    for (name, keys) in tables {
        output.bytes(format!("{name}\t{keys} keys\n").as_bytes())?;
    }
    Ok(())
}

pub(super) fn drop_table(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    kv.drop_table(name)?;
    close(store, kv)?;
    output.say(format!("dropped {name}"), json!({ "dropped": name }))
}
