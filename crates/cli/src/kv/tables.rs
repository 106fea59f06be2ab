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
        let types = kv.table_types(&name)?.map(|types| types.to_string());
        tables.push((name, keys, types));
    }
    close(store, kv)?;
    if output.is_json() {
        let one =
            |(name, keys, types): &(String, u64, Option<String>)| json!({ "name": name, "keys": keys, "types": types });
        let list: Vec<_> = tables.iter().map(one).collect();
        return output.say("", json!({ "tables": list }));
    }
    for (name, keys, types) in tables {
        let types = types.map_or(String::new(), |types| format!("\t{types}"));
        output.bytes(format!("{name}\t{keys} keys{types}\n").as_bytes())?;
    }
    Ok(())
}

pub(super) fn drop_table(place: &TablePath, name: &str, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    kv.drop_table(name)?;
    close(store, kv)?;
    output.say(format!("dropped {name}"), json!({ "dropped": name }))
}
