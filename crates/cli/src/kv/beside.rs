//! `everbyte kv --beside`: reading a table beside the process that writes it. Both share the store;
//! a process that has its store alone, such as a server, lets no other one read it.

use super::{TablePath, View, scan, word};
use crate::args::KvCommand;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use everbyte_kv::{KvReader, Snapshot};
use everbyte_store::Store;
use serde_json::{Map, Value, json};

pub(super) fn run(place: &TablePath, command: KvCommand, output: &Output) -> Result<(), Failure> {
    let reads = matches!(command, KvCommand::Get { .. } | KvCommand::Scan(_) | KvCommand::Tables);
    if !reads {
        return Err(Failure::Words("with `--beside` there are `get`, `scan` and `tables`".into()));
    }
    open::exists(&place.store)?;
    let store = Store::options(&place.store).shared().open(&open::options(&place.open));
    let store = store.map_err(|error| match Failure::from(error) {
        Failure::InUse(text) => Failure::InUse(format!("{text}, which does not share it, as a server does not")),
        other => other,
    })?;
    let reader = KvReader::open(&store, &place.table)?;
    let snapshot = reader.snapshot()?;
    let view = match &place.within {
        Some(name) => View::Table(snapshot.open_table(name)?),
        None => View::Main(snapshot.clone()),
    };
    match command {
        KvCommand::Get { key } => get(&view, &word(&key)?, output)?,
        KvCommand::Scan(args) => scan::print(&args, None, &view, output)?,
        _ => tables(&snapshot, output)?,
    }
    drop((view, snapshot, reader));
    Ok(store.close()?)
}

fn get(view: &View, key: &[u8], output: &Output) -> Result<(), Failure> {
    let Some(value) = view.get(key)? else {
        return Err(Failure::No(format!("no key `{}`", text::escape(key))));
    };
    if !output.is_json() {
        output.bytes(&value)?;
        return output.bytes(b"\n");
    }
    let mut object = Map::new();
    text::set_json(&mut object, "key", key);
    text::set_json(&mut object, "value", &value);
    output.say("", Value::Object(object))
}

fn tables(snapshot: &Snapshot, output: &Output) -> Result<(), Failure> {
    let mut tables = Vec::new();
    for name in snapshot.tables()? {
        let keys = snapshot.open_table(&name)?.len()?;
        tables.push((name, keys));
    }
    if output.is_json() {
        let list: Vec<_> = tables.iter().map(|(name, keys)| json!({ "name": name, "keys": keys })).collect();
        return output.say("", json!({ "tables": list }));
    }
    tables.iter().try_for_each(|(name, keys)| output.bytes(format!("{name}\t{keys} keys\n").as_bytes()))
}
