//! `everbyte kv dump|load`: all tables and named versions, or one version, in a file and back. A
//! file appears whole or not at all, and so does a store that is loaded.

use super::{TablePath, close};
use crate::args::{KvDumpArgs, KvLoadArgs, Shape};
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, open, progress};
use everbyte_kv::{Dumped, Error, Kv};
use serde_json::{Value, json};
use std::io::Write;

/// "3 tables, 120 entries, 4800 bytes of keys and values".
fn said(dumped: &Dumped) -> String {
    let Dumped { tables, entries, bytes, versions } = dumped;
    let named = if *versions > 0 { format!(", {versions} named versions") } else { String::new() };
    format!("{tables} tables, {entries} entries, {bytes} bytes of keys and values{named}")
}

fn counted(word: &str, name: &str, dumped: &Dumped) -> Value {
    let Dumped { tables, entries, bytes, versions } = dumped;
    json!({ word: name, "tables": tables, "entries": entries, "bytes": bytes, "versions": versions })
}

/// Keys and values pass by tables of one object: options that choose one table do not apply.
fn require_all(place: &TablePath) -> Result<(), Failure> {
    match &place.within {
        None => Ok(()),
        Some(_) => Err(Failure::Words("a dump has all tables: leave out `--in`, or use `kv export`".into())),
    }
}

pub(super) fn dump(place: &TablePath, args: &KvDumpArgs, output: &Output) -> Result<(), Failure> {
    require_all(place)?;
    let (store, kv) = place.read()?;
    let at = args.at.as_deref().map(|name| kv.open_version(name)).transpose()?;
    let bar = progress::counted_bytes("dumping");
    let write = |file: &mut dyn Write| match &at {
        Some(snapshot) => snapshot.dump(file, &mut |bytes| bar.inc(bytes)),
        None => kv.dump(file, &mut |bytes| bar.inc(bytes)),
    };
    let stdout = files::is_standard(&args.file);
    let dumped = match stdout {
        true => write(&mut *output.writer()).map_err(|error| match error {
            Error::DumpIo { source, .. } => Failure::output(source),
            error => error.into(),
        }),
        false => files::write_new(&args.file, |file| Ok(write(file)?)),
    };
    bar.finish_and_clear();
    let dumped = dumped?;
    drop(at);
    close(store, kv)?;
    if stdout {
        return Ok(());
    }
    let text = format!("dumped {} to {}: {}", place.table, args.file.display(), said(&dumped));
    output.say(text, counted("dumped", &place.table, &dumped))
}

pub(super) fn load(place: &TablePath, args: &KvLoadArgs, output: &Output) -> Result<(), Failure> {
    require_all(place)?;
    let (mut file, _) = files::lines(&args.file)?;
    if args.create && !place.store.exists() {
        open::create(&place.store, &place.open, &Shape::default())?.close()?;
    }
    let store = open::store(&place.store, &place.open)?;
    let bar = progress::counted_bytes("loading");
    let loaded = Kv::load(&store, &place.table, &mut file, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let (kv, loaded) = loaded?;
    close(store, kv)?;
    output.say(format!("loaded {}: {}", place.table, said(&loaded)), counted("loaded", &place.table, &loaded))
}
