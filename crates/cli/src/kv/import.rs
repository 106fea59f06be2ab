//! `everbyte kv import FILE`: loads entries in batches. A crash leaves whole batches; a second
//! run completes the load.
//!
//! As long as keys come in ascending order into a table that was empty, a batch is loaded in bulk:
//! whole leaves are written, once. From the first other batch on entries are put.

use super::{TablePath, close, exchange, types};
use crate::args::{ImportArgs, Shape};
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, open, progress};
use everbyte_kv::{Kv, KvTable};
use serde_json::json;
use std::io::BufRead;

pub(super) fn run(place: &TablePath, args: &ImportArgs, output: &Output) -> Result<(), Failure> {
    let (mut lines, len) = files::lines(&args.file)?;
    let form = exchange::form_of(&args.file, args.format);
    if args.create && !place.store.exists() {
        open::create(&place.store, &place.open, &Shape::default())?.close()?;
    }
    let (store, kv) = place.write()?;
    place.require_plain(&kv)?;
    let table = place.named_or_made(&kv)?;
    let types = place.types(&kv)?;
    let bar = progress::bar("importing", len);
    let mut import = Import::new(&kv, table)?;
    let (mut line, mut number) = (Vec::new(), 0u64);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| Failure::system("read", &args.file, error))?;
        if read > 0 {
            number += 1;
            bar.inc(read as u64);
            let wrong = |why| {
                let so_far = import.stored;
                Failure::Words(format!(
                    "{} line {number}: {why}; the {so_far} entries of earlier batches are stored",
                    args.file.display()
                ))
            };
            if let Some((key, value)) = exchange::read(form, &line).map_err(wrong)? {
                types::require(types.as_ref(), &key, Some(&value)).map_err(wrong)?;
                import.pending.push((key, value));
            }
        }
        if import.pending.len() == args.batch as usize || read == 0 {
            import.store()?;
        }
        if read == 0 {
            break;
        }
    }
    let (stored, in_bulk) = (import.stored, import.in_bulk);
    drop(import);
    bar.finish_and_clear();
    close(store, kv)?;
    output.say(format!("imported {stored} entries"), json!({ "imported": stored, "in_bulk": in_bulk }))
}

/// The import of one table.
struct Import<'k> {
    kv: &'k Kv,
    table: Option<KvTable>,
    /// The next batch.
    pending: Vec<exchange::Pair>,
    /// Whether the table has no key but those of this import, in ascending order up to `last`.
    is_sorted: bool,
    last: Option<Vec<u8>>,
    stored: u64,
    in_bulk: u64,
}

impl Import<'_> {
    fn new(kv: &Kv, table: Option<KvTable>) -> Result<Import<'_>, Failure> {
        let is_sorted = match &table {
            Some(table) => table.is_empty()?,
            None => kv.is_empty(),
        };
        Ok(Import { kv, table, pending: Vec::new(), is_sorted, last: None, stored: 0, in_bulk: 0 })
    }

    /// Stores the pending entries in one batch.
    fn store(&mut self) -> Result<(), Failure> {
        let Some((newest, _)) = self.pending.last() else { return Ok(()) };
        let newest = newest.clone();
        let mut keys = self.last.iter().chain(self.pending.iter().map(|(key, _)| key));
        self.is_sorted = self.is_sorted && keys.clone().zip(keys.by_ref().skip(1)).all(|(one, next)| one < next);
        let mut batch = self.kv.batch();
        let pairs = &self.pending;
        match (&self.table, self.is_sorted) {
            (Some(table), true) => {
                self.in_bulk += batch.table(table)?.load(pairs.iter().map(|(key, value)| (key, value)))?
            }
            (None, true) => self.in_bulk += batch.load(pairs.iter().map(|(key, value)| (key, value)))?,
            (Some(table), false) => {
                let mut table = batch.table(table)?;
                pairs.iter().try_for_each(|(key, value)| table.put(key, value).map(drop))?;
            }
            (None, false) => pairs.iter().try_for_each(|(key, value)| batch.put(key, value).map(drop))?,
        }
        let commit = batch.commit()?;
        self.kv.settle(commit)?;
        self.stored += self.pending.len() as u64;
        self.pending.clear();
        self.last = Some(newest);
        Ok(())
    }
}
