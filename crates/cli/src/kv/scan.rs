//! `everbyte kv scan`: entries in the order of their keys, from one snapshot.

use super::{TablePath, View, close, exchange, types, word};
use crate::args::{Form, ScanArgs};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_kv::TableTypes;
use serde_json::Value;
use std::ops::Bound;

pub(super) fn run(place: &TablePath, args: &ScanArgs, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let (types, snapshot) = (place.types(&kv)?, place.snapshot(&kv)?);
    print(args, types.as_ref(), &snapshot, output)?;
    drop(snapshot);
    close(store, kv)
}

/// Prints the entries of one version.
pub(super) fn print(
    args: &ScanArgs,
    types: Option<&TableTypes>,
    snapshot: &View,
    output: &Output,
) -> Result<(), Failure> {
    let bound = |text: &Option<String>| text.as_deref().map(word).transpose();
    let (start, end, prefix) = (bound(&args.start)?, bound(&args.end)?, bound(&args.prefix)?);
    let limit = args.limit.unwrap_or(usize::MAX);
    let form = if output.is_json() { Form::Jsonl } else { Form::Tsv };
    let mut print = |entry: everbyte_kv::Result<(Vec<u8>, Vec<u8>)>| -> Result<(), Failure> {
        let (key, value) = entry?;
        let value = (!args.keys).then_some(&value[..]);
        let line = match (types, form) {
            (None, _) => exchange::write(form, &key, value),
            (Some(types), Form::Jsonl) => {
                let mut object = exchange::object(&key, value);
                types::add_shown(&mut object, types, &key, value)?;
                Value::Object(object).to_string()
            }
            (Some(types), Form::Tsv) => {
                let mut line = types::shown("key", &types.key, &key)?;
                if let Some(value) = value {
                    line = format!("{line}\t{}", types::shown("value", &types.value, value)?);
                }
                line
            }
        };
        output.bytes(format!("{line}\n").as_bytes())
    };
    let entries = match &prefix {
        Some(prefix) => snapshot.prefix(prefix),
        None => {
            let from = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            snapshot.range((from, to))
        }
    };
    if args.reverse {
        entries.rev().take(limit).try_for_each(&mut print)
    } else {
        entries.take(limit).try_for_each(&mut print)
    }
}
