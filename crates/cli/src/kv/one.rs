//! `everbyte kv get|put|del`: single keys. A put or delete is durable when the command returns.

use super::{TablePath, close, word};
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use serde_json::{Map, Value, json};
use std::io::Read;

pub(super) fn get(place: &TablePath, key: &str, output: &Output) -> Result<(), Failure> {
    let key = word(key)?;
    let (store, kv) = place.read()?;
    let value = match place.named(&kv)? {
        Some(table) => table.get(&key)?,
        None => kv.get(&key)?,
    };
    let Some(value) = value else {
        return Err(Failure::No(format!("no key `{}`", text::escape(&key))));
    };
    if output.is_json() {
        let mut object = Map::new();
        text::set_json(&mut object, "key", &key);
        text::set_json(&mut object, "value", &value);
        output.say("", Value::Object(object))?;
    } else {
        output.bytes(&value)?;
        output.bytes(b"\n")?;
    }
    close(store, kv)
}

pub(super) fn put(place: &TablePath, key: &str, value: Option<&str>, output: &Output) -> Result<(), Failure> {
    let key = word(key)?;
    let value = match value {
        Some(value) => word(value)?,
        None => {
            let mut value = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut value);
            read.map_err(|error| Failure::System(format!("cannot read standard input: {error}")))?;
            value
        }
    };
    let (store, kv) = place.write()?;
    match place.named_or_made(&kv)? {
        Some(table) => table.put(&key, &value)?,
        None => kv.put(&key, &value)?,
    }
    close(store, kv)?;
    if output.is_json() { output.say("", json!({ "stored": 1 })) } else { Ok(()) }
}

pub(super) fn del(place: &TablePath, keys: &[String], output: &Output) -> Result<(), Failure> {
    let keys = keys.iter().map(|key| word(key)).collect::<Result<Vec<_>, _>>()?;
    let (store, kv) = place.read()?;
    let table = place.named(&kv)?;
    let mut absent = Vec::new();
    for key in &keys {
        let found = match &table {
            Some(table) => table.delete(key)?,
            None => kv.delete(key)?,
        };
        if !found {
            absent.push(text::escape(key));
        }
    }
    drop(table);
    close(store, kv)?;
    let deleted = keys.len() - absent.len();
    output.say(format!("deleted {deleted}"), json!({ "deleted": deleted, "absent": absent }))?;
    if absent.is_empty() { Ok(()) } else { Err(Failure::No(format!("no such key: {}", absent.join(", ")))) }
}
