//! Filling a tree from a dump: entries in bulk, then version by version what each changes.
//!
//! Invariants
//!   KVDUMP-4  A named version of a dump gets its name, and with it its pin, behind the commit of
//!             all that it sees and before the first write of what comes later.

use super::Dumped;
use super::read::{DumpReader, Piece};
use crate::catalogue;
use crate::range::Bounds;
use crate::tree::{TableNumber, Tree, TreeBatch};
use crate::versions::{commit_name, name_followed};
use crate::{Error, Result};
use everbyte_media::seeded;

/// Bytes of entries in a batch of a load.
const BATCH: u64 = 4 << 20;
/// A table counts as so many of them: a batch has a bounded number of loads.
const TABLE_COST: u64 = 512;

/// The piece that ends a run of entries or of changes.
enum Step {
    Table(String, Vec<u8>),
    Changed(String),
    Dropped(String),
    Version(String, u64),
    End(Dumped),
}

/// The table that the next entries or changes belong to.
struct Place {
    table: TableNumber,
    is_changed: bool,
}

/// Puts the entries of a dump into a tree that no other thread uses yet.
pub(super) fn fill(tree: &Tree, reader: &mut DumpReader<'_>, progress: &mut dyn FnMut(u64)) -> Result<Dumped> {
    let mut place = Place { table: TableNumber::MAIN, is_changed: false };
    loop {
        let (mut batch, mut bytes, mut dropped) = (tree.batch(), 0, Vec::new());
        let (mut named, mut end) = (None, None);
        while end.is_none() && named.is_none() && bytes < BATCH {
            let run = if place.is_changed { change } else { load };
            let Some(step) = run(&mut batch, place.table, reader, &mut bytes)? else { continue };
            bytes += TABLE_COST;
            match step {
                Step::Table(name, description) => {
                    place = Place { table: TableNumber::MAIN, is_changed: false };
                    if !name.is_empty() {
                        place.table = catalogue::add_described(&mut batch, &name, &description, &dropped)?;
                    }
                }
                Step::Changed(name) => {
                    let table = if name.is_empty() { TableNumber::MAIN } else { number_of(&batch, &name)? };
                    place = Place { table, is_changed: true };
                }
                Step::Dropped(name) => {
                    let table = number_of(&batch, &name)?;
                    let all = Bounds::prefix(table, b"");
                    batch.delete_range(&all.low, &all.high())?;
                    batch.delete(TableNumber::CATALOGUE, name.as_bytes())?;
                    dropped.push(table);
                }
                Step::Version(name, named_at) => named = Some((name, named_at)),
                Step::End(dumped) => end = Some(dumped),
            }
        }
        tree.settle(batch.commit()?)?;
        progress(bytes);
        if let Some((name, named_at)) = named {
            let mut batch = tree.batch();
            let seen = name_followed(&mut batch, &name, named_at)?; // KVDUMP-4
            tree.settle(commit_name(tree, batch, seen, || {})?)?;
            if seeded("kv-load-version-unpinned") {
                tree.release_version(seen.version);
            }
        }
        if let Some(dumped) = end {
            return Ok(dumped);
        }
    }
}

/// The number of the table `name`, which the reader has found to be there.
fn number_of(batch: &TreeBatch<'_>, name: &str) -> Result<TableNumber> {
    match catalogue::find(batch, name)? {
        Some(record) => Ok(TableNumber(record.number)),
        None => Err(Error::TableGone { name: name.into() }),
    }
}

/// The step that a piece is, if it is no entry.
fn step(piece: Piece<'_>) -> Option<Step> {
    match piece {
        Piece::Table { name, description } => Some(Step::Table(name.into(), description.into())),
        Piece::Changed { name } => Some(Step::Changed(name.into())),
        Piece::Dropped { name } => Some(Step::Dropped(name.into())),
        Piece::Version { name, named_at } => Some(Step::Version(name.into(), named_at)),
        Piece::End(dumped) => Some(Step::End(dumped)),
        Piece::Entry { .. } | Piece::Change { .. } => None,
    }
}

/// Loads entries up to the next step, or to the end of the batch.
fn load(
    batch: &mut TreeBatch<'_>,
    table: TableNumber,
    reader: &mut DumpReader<'_>,
    bytes: &mut u64,
) -> Result<Option<Step>> {
    let mut load = batch.load()?;
    while *bytes < BATCH {
        match reader.next()? {
            Piece::Entry { key, value } => {
                load.push(table, key, value)?;
                *bytes += (key.len() + value.len()).max(64) as u64;
            }
            piece => {
                load.finish()?;
                return Ok(step(piece));
            }
        }
    }
    load.finish().map(|_| None)
}

/// Writes changes up to the next step, or to the end of the batch.
fn change(
    batch: &mut TreeBatch<'_>,
    table: TableNumber,
    reader: &mut DumpReader<'_>,
    bytes: &mut u64,
) -> Result<Option<Step>> {
    while *bytes < BATCH {
        match reader.next()? {
            Piece::Change { key, value } => {
                match value {
                    Some(value) => batch.put(table, key, value)?,
                    None => batch.delete(table, key)?,
                };
                *bytes += (key.len() + value.map_or(0, <[u8]>::len)).max(64) as u64;
            }
            piece => return Ok(step(piece)),
        }
    }
    Ok(None)
}
