//! Restoring: a store's file of a backup and its increments.
//!
//!   1. heads, tables and end marks of all files are read; each must follow the one before
//!   2. all chunks are read: the place of the newest bytes of each page of the last image
//!   3. a file is made beside the new store's name and filled with these pages, each of which must
//!      have the hash of the table
//!   4. the store in it is opened: recovery completes or undoes changes that were in progress. Its
//!      clusters get their space on the disk, and a new identity if one was asked for
//!   5. it is closed and gets its name
//!
//! A crash before step 5 leaves a file `NAME.part-..`, and no store.

use crate::files::{PartName, RealFiles, random};
use crate::layout::{Entry, Head, PAGE};
use crate::read::BackupFile;
use crate::{Error, Phase, Progress, RestoreOptions, Restored, Result};
use everbyte_media::{Geometry, OpenOptions};
use everbyte_store::Store;
use std::io;
use std::path::{Path, PathBuf};

/// Pages that are written at once.
const STEP: usize = 64;

/// The place of a page: a file of the chain, and an offset in it.
type Place = (usize, u64);

/// See [`crate::restore`].
pub(crate) fn restore(
    files: &[PathBuf],
    to: &Path,
    options: &RestoreOptions,
    report: &mut dyn FnMut(Progress),
) -> Result<Restored> {
    let chain = read_chain(files)?;
    let Some(last) = chain.last() else {
        let detail = "nothing to restore: name a backup, and its increments in order".into();
        return Err(Error::Refused { path: to.into(), detail });
    };
    let places = find_places(&chain, last)?;
    let part = PartName::beside(to, &RealFiles)?;
    fill(&chain, last, &places, &part.part, report)?;

    let media = OpenOptions::new(&part.part).open(&options.media)?;
    let store = Store::attach(media)?; // 4
    let identity = match options.new_identity {
        true => random().map_err(|source| Error::Io { action: "read", path: "/dev/urandom".into(), source })?,
        false => last.head().store,
    };
    store.rebase(identity)?;
    let findings = store.check();
    store.close()?;
    drop(store);
    RealFiles.sync_file(&part.part)?;
    part.publish()?; // 5
    let pages = last.end().pages;
    Ok(Restored { identity, files: chain.len(), len: last.end().len, pages, findings })
}

/// Step 1.
fn read_chain(files: &[PathBuf]) -> Result<Vec<BackupFile>> {
    let mut chain: Vec<BackupFile> = Vec::new();
    for path in files {
        let next = BackupFile::open(path)?;
        let (head, path) = (next.head(), path.clone());
        let detail = match chain.last().map(BackupFile::head) {
            None if head.depth > 0 => {
                Some(format!("holds only the changes since the backup {}, which goes before it", hex(&head.parent)))
            }
            Some(_) if head.depth == 0 => Some("is a whole backup: it follows no other".into()),
            Some(last) if head.parent != last.identity && !everbyte_media::seeded("backup-any-parent") => {
                Some(format!(
                    "holds the changes since the backup {}, and follows {}",
                    hex(&head.parent),
                    hex(&last.identity)
                ))
            }
            Some(last) if !same_store(head, last) => Some("is of another store than the backup before it".into()),
            _ => None,
        };
        if let Some(detail) = detail {
            return Err(Error::WrongParent { path, detail });
        }
        chain.push(next);
    }
    Ok(chain)
}

/// A store may have been grown between two backups.
fn same_store(head: &Head, last: &Head) -> bool {
    let of = |head: &Head| (head.store, head.linear, head.log_at, head.log_len, head.binding);
    of(head) == of(last)
}

/// Step 2: the places of the pages of `last`, in the order of its table.
fn find_places(chain: &[BackupFile], last: &BackupFile) -> Result<Vec<Place>> {
    let table = last.table();
    let mut places: Vec<Option<Place>> = vec![None; table.len()];
    for (index, file) in chain.iter().enumerate() {
        file.walk(&mut |page, at| {
            if let Ok(found) = table.binary_search_by_key(&page, |entry| entry.page) {
                places[found] = Some((index, at));
            }
        })?;
    }
    let missing = |entry: &Entry| {
        let detail = format!("no file has the page at {:#x} of the store", entry.page * PAGE);
        Error::from(everbyte_media::Damage::at(last.end().table_at, detail).of_file(last.path()))
    };
    places.into_iter().zip(table).map(|(place, entry)| place.ok_or_else(|| missing(entry))).collect()
}

/// Step 3.
fn fill(
    chain: &[BackupFile],
    last: &BackupFile,
    places: &[Place],
    to: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<()> {
    let Head { max, linear, log_at, log_len, binding, .. } = *last.head();
    let (table, mut done, mut failed) = (last.table(), 0, None);
    let total = table.len() as u64 * PAGE;
    let mut next = || {
        report(Progress { phase: Phase::Copy, done: done as u64 * PAGE, total });
        let Some(first) = table.get(done) else { return Ok(None) };
        let run = table[done..].iter().take(STEP).enumerate();
        let run = run.take_while(|(index, entry)| entry.page == first.page + *index as u64).count();
        let mut bytes = vec![0; run * PAGE as usize];
        for (index, bytes) in (done..).zip(bytes.chunks_exact_mut(PAGE as usize)) {
            let (file, at) = places[index];
            if let Err(error) = chain[file].page(at, &table[index], bytes) {
                failed = Some(error);
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        done += run;
        Ok(Some((first.page * PAGE, bytes)))
    };
    let geometry = Geometry { max, len: linear, log_at, log_len };
    let address = (binding != 0).then_some(binding);
    let filled = OpenOptions::new(to).bound_to(address).create_filled(geometry, last.end().len, &mut next);
    match failed {
        Some(error) => Err(error),
        None => Ok(filled?),
    }
}

/// An identity as text.
pub(crate) fn hex(identity: &[u8]) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RealFiles {
    fn sync_file(&self, path: &Path) -> Result<()> {
        let synced = std::fs::File::open(path).and_then(|file| file.sync_all());
        synced.map_err(|source| Error::Io { action: "sync", path: path.into(), source })
    }
}
