//! `everbyte kv repair NEW`: the readable entries of a damaged store in a new one, and a line for
//! each loss.

use super::TablePath;
use crate::args::KvRepairArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress, text};
use everbyte_kv::{Kv, Loss, Salvaged};
use serde_json::{Map, Value, json};

pub(super) fn run(place: &TablePath, args: &KvRepairArgs, output: &Output) -> Result<(), Failure> {
    if place.within.is_some() {
        return Err(Failure::Words("a repair saves all tables: leave out `--in`".into()));
    }
    let store = open::store(&place.store, &place.open)?;
    let other = args.into.as_deref().map(|path| open::store(path, &place.open)).transpose()?;
    let bar = progress::counted_bytes("saving");
    let to = other.as_ref().unwrap_or(&store);
    let salvaged = Kv::salvage(&store, &place.table, to, &args.name, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let salvaged = salvaged?;
    salvaged.losses.iter().try_for_each(|loss| output.say(line(loss), value(loss)))?;
    other.map_or(Ok(()), |other| other.close())?;
    store.close()?;
    let Salvaged { entries, bytes, doubtful, missing, renamed, losses } = &salvaged;
    let mut said = format!("saved {entries} entries, {bytes} bytes of keys and values, to {}", args.name);
    let missed = match missing {
        Some(0) => String::new(),
        Some(missing) => format!("; {missing} keys are missing"),
        None => "; how many keys there were is not known".into(),
    };
    said.push_str(&missed);
    if *doubtful > 0 {
        said.push_str(&format!(
            "; {doubtful} of them come from leaves without a parent: deleted ones may be among them"
        ));
    }
    if !renamed.is_empty() {
        said.push_str(&format!("; tables whose names are lost: {}", renamed.join(", ")));
    }
    output.say(
        &said,
        json!({
            "saved": args.name,
            "entries": entries,
            "bytes": bytes,
            "doubtful": doubtful,
            "missing": missing,
            "renamed": renamed,
            "losses": losses.len(),
        }),
    )?;
    match salvaged.is_whole() {
        true => Ok(()),
        false => Err(Failure::No(format!("{} is damaged: {} losses", place.table, losses.len().max(1)))),
    }
}

fn line(loss: &Loss) -> String {
    let table = loss.table.as_deref().map_or(String::new(), |table| format!(" of {table}"));
    let keys = match (&loss.low, &loss.high) {
        (None, None) => "all keys".into(),
        (Some(low), Some(high)) if *high == [low, &[0][..]].concat() => format!("key {}", text::escape(low)),
        (low, high) => {
            let end = |key: &Option<Vec<u8>>| key.as_deref().map(text::escape).unwrap_or_default();
            format!("keys {}..{}", end(low), end(high))
        }
    };
    format!("{:#x}: {keys}{table}: {}", loss.at, loss.detail)
}

fn value(loss: &Loss) -> Value {
    let mut object = Map::new();
    object.insert("at".into(), loss.at.into());
    object.insert("table".into(), loss.table.clone().into());
    for (name, key) in [("low", &loss.low), ("high", &loss.high)] {
        if let Some(key) = key {
            text::set_json(&mut object, name, key);
        }
    }
    object.insert("detail".into(), loss.detail.clone().into());
    Value::Object(object)
}
