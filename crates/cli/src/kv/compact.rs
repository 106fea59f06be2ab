//! `everbyte kv compact`: gives back all space that the tables do not need.

use super::{TablePath, close};
use crate::failure::Failure;
use crate::output::Output;
use serde_json::json;

pub(super) fn compact(place: &TablePath, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let bar = crate::progress::bar("compacting", None);
    let done = kv.compact(&mut |entries| bar.inc(entries));
    bar.finish_and_clear();
    let done = done?;
    close(store, kv)?;
    output.say(
        format!(
            "{} entries: {} leaves became {}, {} bytes became {}, {} bytes given back to the file system",
            done.entries, done.replaced, done.written, done.before, done.after, done.trimmed
        ),
        json!({
            "entries": done.entries,
            "leaves_replaced": done.replaced,
            "leaves_written": done.written,
            "bytes_before": done.before,
            "bytes_after": done.after,
            "bytes_trimmed": done.trimmed,
        }),
    )
}
