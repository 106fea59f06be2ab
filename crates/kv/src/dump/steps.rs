//! The contents of a dump: one version whole, then for each later version what it changes.
//!
//! Two versions have the same table under a name if its number and the version that made it are
//! the same. Otherwise the one goes, and the other is dumped whole.

use super::STEP;
use super::write::DumpWriter;
use crate::Result;
use crate::catalogue::{self, TableRecord};
use crate::range::{Bounds, Range};
use crate::tree::{TableNumber, TreeChanges, TreeSnapshot};

type Progress<'p> = &'p mut dyn FnMut(u64);

/// Calls `each` with every table that has a name, in the order of names: its name, its record and
/// its description.
fn each_table(tree: &TreeSnapshot, mut each: impl FnMut(&str, TableRecord, &[u8]) -> Result<()>) -> Result<()> {
    let mut names = Range::new(tree.cursor(), Bounds::prefix(TableNumber::CATALOGUE, b""));
    while let Some((name, value)) = names.next_ref()? {
        // The empty name holds the highest number.
        if name.is_empty() {
            continue;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return crate::error::damaged(0, "a name in the catalogue of tables is not UTF-8");
        };
        let (record, description) = catalogue::parse_described(value)?;
        each(name, record, description)?;
    }
    Ok(())
}

/// Writes all tables of a version.
pub(super) fn dump_whole(tree: &TreeSnapshot, writer: &mut DumpWriter<'_>, progress: Progress<'_>) -> Result<()> {
    writer.table("", b"")?;
    dump_table(tree, TableNumber::MAIN, writer, progress)?;
    each_table(tree, |name, record, description| {
        writer.table(name, description)?;
        dump_table(tree, TableNumber(record.number), writer, progress)
    })
}

fn dump_table(
    tree: &TreeSnapshot,
    number: TableNumber,
    writer: &mut DumpWriter<'_>,
    progress: Progress<'_>,
) -> Result<()> {
    let mut entries = Range::new(tree.cursor(), Bounds::prefix(number, b""));
    let mut bytes = 0;
    while let Some((key, value)) = entries.next_ref()? {
        writer.entry(key, value)?;
        bytes += (key.len() + value.len()) as u64;
        if bytes >= STEP {
            progress(std::mem::take(&mut bytes));
        }
    }
    progress(bytes);
    Ok(())
}

/// Whether `tree` has this very table under this name.
fn has(tree: &TreeSnapshot, name: &str, record: &TableRecord) -> Result<bool> {
    let value = tree.get(TableNumber::CATALOGUE, name.as_bytes())?;
    let there = value.as_deref().map(catalogue::parse).transpose()?;
    Ok(there.is_some_and(|there| (there.number, there.created) == (record.number, record.created)))
}

/// Writes what is different in `after`, a later version than `before`, which has been written.
pub(super) fn dump_changes(
    [before, after]: [&TreeSnapshot; 2],
    writer: &mut DumpWriter<'_>,
    progress: Progress<'_>,
) -> Result<()> {
    each_table(before, |name, record, _| if has(after, name, &record)? { Ok(()) } else { writer.dropped(name) })?;
    dump_changed([before, after], "", TableNumber::MAIN, writer, progress)?;
    each_table(after, |name, record, description| {
        if has(before, name, &record)? {
            return dump_changed([before, after], name, TableNumber(record.number), writer, progress);
        }
        writer.table(name, description)?;
        dump_table(after, TableNumber(record.number), writer, progress)
    })
}

fn dump_changed(
    [before, after]: [&TreeSnapshot; 2],
    name: &str,
    number: TableNumber,
    writer: &mut DumpWriter<'_>,
    progress: Progress<'_>,
) -> Result<()> {
    let all = Bounds::prefix(number, b"");
    let mut changes = TreeChanges::new(before, after, &all.low, &all.high())?;
    let mut has_begun = false;
    while let Some(change) = changes.next()? {
        if !std::mem::replace(&mut has_begun, true) {
            writer.changed(name)?;
        }
        writer.change(&change.key, change.after.as_deref())?;
        progress((change.key.len() + change.after.map_or(0, |value| value.len())) as u64);
    }
    Ok(())
}
