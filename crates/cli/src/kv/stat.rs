//! `everbyte kv stat`: the figures of a key-value store.

use super::{TablePath, close};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_kv::{Kv, Range, Result};
use serde_json::json;
use std::time::UNIX_EPOCH;

/// The figures of one version. With `entries`, all of them are read, for the bytes of their keys
/// and values.
pub(super) fn stat(place: &TablePath, entries: bool, output: &Output) -> std::result::Result<(), Failure> {
    let (store, kv) = place.read()?;
    let stats = kv.stats();
    let (tables, keys_in_tables, payload) = of_tables(&kv, entries)?;
    let mut versions = kv.versions()?;
    versions.sort_by_key(|named| named.version);
    let named_at = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let allocated = kv.allocated()?;
    let amplification = payload.filter(|&payload| payload > 0).map(|payload| allocated as f64 / payload as f64);
    let rounded = amplification.map(|ratio| (ratio * 100.0).round() / 100.0);
    let rows = json!({
        "keys": stats.keys,
        "tables": tables,
        "keys_in_tables": keys_in_tables,
        "levels": stats.levels,
        "version": stats.version.get(),
        "named_versions": versions.len(),
        "oldest_version_in_use": stats.oldest,
        "oldest_name": versions.first().map(|oldest| &oldest.name),
        "oldest_named_at": versions.first().map(|oldest| named_at(oldest.named_at)),
        "void_ranges": stats.void_ranges,
        "bytes_in_blocks": allocated,
        "bytes_of_entries": payload,
        "space_amplification": rounded,
    });
    close(store, kv)?;
    output.table(&rows)
}

/// The number of tables that have names, that of their keys, and, if all entries are to be read,
/// the bytes of all keys and values.
fn of_tables(kv: &Kv, entries: bool) -> Result<(usize, u64, Option<u64>)> {
    let snapshot = kv.snapshot();
    let mut payload = if entries { bytes_of(snapshot.range::<[u8]>(..))? } else { 0 };
    let (names, mut keys) = (kv.tables()?, 0);
    for name in &names {
        let table = snapshot.table(&kv.open_table(name)?)?;
        keys += table.len()?;
        if entries {
            payload += bytes_of(table.range::<[u8]>(..))?;
        }
    }
    Ok((names.len(), keys, entries.then_some(payload)))
}

/// The bytes of keys and values. Only their lengths are fetched.
fn bytes_of(mut range: Range<'_>) -> Result<u64> {
    let mut bytes = 0;
    while let Some(entry) = range.next_entry()? {
        bytes += entry.key_len() as u64 + entry.value_len();
    }
    Ok(bytes)
}
