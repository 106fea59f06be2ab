//! `everbyte kv import FILE`: loads entries in batches. A crash leaves whole batches; a second
//! run completes the load.

use super::{TablePath, close, exchange};
use crate::args::{ImportArgs, Shape};
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, open, progress};
use serde_json::json;
use std::io::BufRead;

pub(super) fn run(place: &TablePath, args: &ImportArgs, output: &Output) -> Result<(), Failure> {
    let (mut lines, len) = files::lines(&args.file)?;
    let form = exchange::form_of(&args.file, args.format);
    if args.create && !place.store.exists() {
        open::create(&place.store, &place.open, &Shape::default())?.close()?;
    }
    let (store, kv) = place.write()?;
    let table = place.named_or_made(&kv)?;
    let bar = progress::bar("importing", len);
    let mut batch = kv.batch();
    let (mut line, mut number, mut loaded, mut pending) = (Vec::new(), 0u64, 0u64, 0u32);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| Failure::system("read", &args.file, error))?;
        if read > 0 {
            number += 1;
            bar.inc(read as u64);
            let entry = exchange::read(form, &line);
            let wrong = |why| {
                let so_far = loaded - u64::from(pending);
                Failure::Words(format!(
                    "{} line {number}: {why}; the {so_far} entries of earlier batches are stored",
                    args.file.display()
                ))
            };
            if let Some((key, value)) = entry.map_err(wrong)? {
                match &table {
                    Some(table) => batch.table(table)?.put(&key, &value)?,
                    None => batch.put(&key, &value)?,
                };
                (loaded, pending) = (loaded + 1, pending + 1);
            }
        }
        if pending == args.batch || (read == 0 && pending > 0) {
            let mark = batch.commit()?;
            kv.settle(mark)?;
            batch = kv.batch();
            pending = 0;
        }
        if read == 0 {
            break;
        }
    }
    drop(batch);
    drop(table);
    bar.finish_and_clear();
    close(store, kv)?;
    output.say(format!("imported {loaded} entries"), json!({ "imported": loaded }))
}
