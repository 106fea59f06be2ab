//! `everbyte kv export FILE`: writes one snapshot's entries in key order. The file appears whole or
//! not at all.

use super::{TablePath, close, exchange};
use crate::args::ExportArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(super) fn run(place: &TablePath, args: &ExportArgs, output: &Output) -> Result<(), Failure> {
    let form = exchange::form_of(&args.file, args.format);
    let stdout = args.file == Path::new("-");
    if !stdout && args.file.exists() {
        return Err(Failure::Words(format!("{} exists already; name another file", args.file.display())));
    }
    let (store, kv) = place.read()?;
    let snapshot = kv.snapshot();
    let bar = progress::bar("exporting", Some(snapshot.len()));
    let mut count = 0u64;
    let mut part = args.file.clone().into_os_string();
    part.push(".part");
    let failed = |error| Failure::system("write", Path::new(&part), error);
    let mut file = if stdout { None } else { Some(BufWriter::new(File::create(&part).map_err(failed)?)) };
    for entry in snapshot.prefix(b"") {
        let (key, value) = entry?;
        let line = exchange::write(form, &key, Some(&value));
        match &mut file {
            Some(file) => writeln!(file, "{line}").map_err(failed)?,
            None => output.bytes(format!("{line}\n").as_bytes())?,
        }
        count += 1;
        bar.inc(1);
    }
    if let Some(file) = file {
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&part, &args.file).map_err(failed)?;
    }
    bar.finish_and_clear();
    drop(snapshot);
    close(store, kv)?;
    if stdout { Ok(()) } else { output.say(format!("exported {count} entries"), json!({ "exported": count })) }
}
