//! `everbyte kv cas|incr`: writes that depend on the value before.

use super::{TablePath, close, types, word};
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use everbyte_kv::Compared;
use serde_json::{Map, Value, json};

/// Sets `key` to `new` if its value is `expected`; `None` stands for a key that is not there.
pub(super) fn cas(
    place: &TablePath,
    key: &str,
    expected: Option<&str>,
    new: Option<&str>,
    output: &Output,
) -> Result<(), Failure> {
    let key = word(key)?;
    let (expected, new) = (expected.map(word).transpose()?, new.map(word).transpose()?);
    let (store, kv) = place.write()?;
    place.require_plain(&kv)?;
    let table = place.named_or_made(&kv)?;
    types::require(place.types(&kv)?.as_ref(), &key, new.as_deref()).map_err(Failure::Words)?;
    let compared = match table {
        Some(table) => table.compare_and_set(&key, expected.as_deref(), new.as_deref())?,
        None => kv.compare_and_set(&key, expected.as_deref(), new.as_deref())?,
    };
    close(store, kv)?;
    match compared {
        Compared::Set if output.is_json() => output.say("", json!({ "set": true })),
        Compared::Set => Ok(()),
        Compared::Differs(found) => {
            let mut object = Map::from_iter([("set".to_string(), Value::Bool(false))]);
            let found = match found {
                Some(value) => {
                    text::set_json(&mut object, "value", &value);
                    format!("its value is `{}`", text::escape(&value))
                }
                None => "it is not there".into(),
            };
            if output.is_json() {
                output.say("", Value::Object(object))?;
            }
            Err(Failure::No(format!("the key `{}` is unchanged: {found}", text::escape(&key))))
        }
    }
}

/// Adds to the counter of `key`, and prints the sum.
pub(super) fn incr(place: &TablePath, key: &str, by: i64, output: &Output) -> Result<(), Failure> {
    let key = word(key)?;
    let (store, kv) = place.write()?;
    place.require_plain(&kv)?;
    let table = place.named_or_made(&kv)?;
    if let Some(types) = place.types(&kv)? {
        return Err(Failure::Words(format!("a table of {types} has no counters")));
    }
    let sum: i64 = match table {
        Some(table) => table.increment(&key, by)?,
        None => kv.increment(&key, by)?,
    };
    close(store, kv)?;
    output.say(sum.to_string(), json!({ "sum": sum }))
}
