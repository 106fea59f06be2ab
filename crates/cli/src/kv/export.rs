//! `everbyte kv export FILE`: writes one snapshot's entries in key order. The file appears whole or
//! not at all.

use super::{TablePath, close, exchange};
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, progress};
use serde_json::json;

pub(super) fn run(place: &TablePath, args: &ExportArgs, output: &Output) -> Result<(), Failure> {
    let form = exchange::form_of(&args.file, args.format);
    let (store, kv) = place.read()?;
    let snapshot = place.snapshot(&kv)?;
    let bar = progress::bar("exporting", Some(snapshot.len()?));
    let write = |line: &mut dyn FnMut(String) -> Result<(), Failure>| {
        let mut count = 0u64;
        for entry in snapshot.prefix(b"") {
            let (key, value) = entry?;
            line(exchange::write(form, &key, Some(&value)))?;
            count += 1;
            bar.inc(1);
        }
        Ok(count)
    };
    let stdout = files::is_standard(&args.file);
    let count = match stdout {
        true => write(&mut |line| output.bytes(format!("{line}\n").as_bytes()))?,
        false => files::write_new(&args.file, |file| {
            write(&mut |line| writeln!(file, "{line}").map_err(|error| Failure::system("write", &args.file, error)))
        })?,
    };
    bar.finish_and_clear();
    drop(snapshot);
    close(store, kv)?;
    if stdout { Ok(()) } else { output.say(format!("exported {count} entries"), json!({ "exported": count })) }
}
