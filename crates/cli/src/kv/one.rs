//! `everbyte kv get|put|del`: single keys. A put or delete is durable when the command returns.

use super::{TablePath, close, types, word};
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use everbyte_kv::{ExpiringTable, SystemClock};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::time::{Duration, UNIX_EPOCH};

pub(super) fn get(place: &TablePath, key: &str, output: &Output) -> Result<(), Failure> {
    let key = word(key)?;
    let (store, kv) = place.read()?;
    let expiring = place.expiring(&kv)?;
    let value = match (&expiring, place.named(&kv)?) {
        (Some(table), _) => table.get(&key)?,
        (None, Some(table)) => table.get(&key)?,
        (None, None) => kv.get(&key)?,
    };
    let Some(value) = value else {
        return Err(Failure::No(format!("no key `{}`", text::escape(&key))));
    };
    let types = place.types(&kv)?;
    if output.is_json() {
        let mut object = Map::new();
        text::set_json(&mut object, "key", &key);
        text::set_json(&mut object, "value", &value);
        if let Some(Some(deadline)) = expiring.as_ref().map(|table| table.deadline(&key)).transpose()?.flatten() {
            let since = deadline.duration_since(UNIX_EPOCH).unwrap_or_default();
            object.insert("deadline_ms".into(), (since.as_millis() as u64).into());
        }
        if let Some(types) = &types {
            types::add_shown(&mut object, types, &key, Some(&value))?;
        }
        output.say("", Value::Object(object))?;
    } else if let Some(types) = &types {
        output.bytes(format!("{}\n", types::shown("value", &types.value, &value)?).as_bytes())?;
    } else {
        output.bytes(&value)?;
        output.bytes(b"\n")?;
    }
    drop(expiring);
    close(store, kv)
}

pub(super) fn put(
    place: &TablePath,
    key: &str,
    value: Option<&str>,
    ttl: Option<Duration>,
    output: &Output,
) -> Result<(), Failure> {
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
    let expiring = match (place.expiring_to_write(&kv)?, ttl, &place.within) {
        (None, Some(_), Some(name)) => Some(ExpiringTable::open_or_create(&kv, name, SystemClock)?),
        (found, ..) => found,
    };
    match (expiring, ttl) {
        (Some(table), Some(ttl)) => table.put_for(&key, &value, ttl)?,
        (Some(table), None) => table.put(&key, &value)?,
        (None, _) => {
            let table = place.named_or_made(&kv)?;
            types::require(place.types(&kv)?.as_ref(), &key, Some(&value)).map_err(Failure::Words)?;
            match table {
                Some(table) => table.put(&key, &value)?,
                None => kv.put(&key, &value)?,
            }
        }
    }
    close(store, kv)?;
    if output.is_json() { output.say("", json!({ "stored": 1 })) } else { Ok(()) }
}

pub(super) fn del(place: &TablePath, keys: &[String], output: &Output) -> Result<(), Failure> {
    let keys = keys.iter().map(|key| word(key)).collect::<Result<Vec<_>, _>>()?;
    let (store, kv) = place.read()?;
    let (expiring, table) = (place.expiring_to_write(&kv)?, place.named(&kv)?);
    let mut absent = Vec::new();
    for key in &keys {
        let found = match (&expiring, &table) {
            (Some(table), _) => table.contains(key)? && table.delete(key)?,
            (None, Some(table)) => table.delete(key)?,
            (None, None) => kv.delete(key)?,
        };
        if !found {
            absent.push(text::escape(key));
        }
    }
    drop((expiring, table));
    close(store, kv)?;
    let deleted = keys.len() - absent.len();
    output.say(format!("deleted {deleted}"), json!({ "deleted": deleted, "absent": absent }))?;
    if absent.is_empty() { Ok(()) } else { Err(Failure::No(format!("no such key: {}", absent.join(", ")))) }
}
