//! A workload that acknowledges, is killed, and is compared with its model; on this machine and on
//! an emulated NVDIMM.
//!
//! Steps of a run: `write` settles batch after batch and prints each; the test kills it; `verify`
//! reopens the store, asks how many batches it holds, and compares everything with the model after
//! exactly so many.
//!
//! Batch n changes entries of a key-value store ([`entries`]), settled, and then plain objects
//! (`objects`), settled.
//!
//! Invariants
//!   SUITE-1  A batch that was acknowledged is there.
//!   SUITE-2  The store is a prefix of the stream of batches: none torn, lost or reordered.

pub mod entries;
mod objects;

use entries::{COUNT, Change};
use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CreateOptions, Finding, FindingKind, Store};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The workload's directory.
pub struct Setup {
    /// The store file.
    pub path: PathBuf,
    /// Determines every batch.
    pub seed: u64,
    /// Which mapping.
    pub backend: BackendChoice,
}

impl Setup {
    /// A workload on the best backend the path gives.
    pub fn new(path: impl Into<PathBuf>) -> Setup {
        Setup { path: path.into(), seed: 1, backend: BackendChoice::Auto }
    }

    fn options(&self) -> Options {
        Options { backend: self.backend, log_bytes: 4 << 20, ..Options::default() }
    }
}

/// A backend by its name.
///
/// # Errors
/// Another word.
pub fn backend(name: &str) -> Result<BackendChoice, String> {
    Ok(match name {
        "auto" => BackendChoice::Auto,
        "pmem" => BackendChoice::Pmem,
        "file" => BackendChoice::File,
        "shm" => BackendChoice::Shm,
        other => return Err(format!("{other}: none of auto, pmem, file, shm")),
    })
}

/// Creates the store if it is absent, and settles batch after batch until `batches` are there.
/// `acknowledge` is told each number after its batch is settled.
///
/// # Errors
/// The store's error, as text.
pub fn write(setup: &Setup, batches: u64, mut acknowledge: impl FnMut(u64)) -> Result<(), String> {
    let store = if setup.path.exists() {
        Store::open(&setup.path, &setup.options()).map_err(text)?
    } else {
        let options = CreateOptions { media: setup.options(), max: 256 << 20, ..CreateOptions::default() };
        Store::create(&setup.path, &options).map_err(text)?
    };
    let kv = Kv::open_or_create(&store, "kv").map_err(text)?;
    let ring = objects::open(&store)?;
    // A kill between the two leaves the entries one batch ahead.
    for number in ring.root() + 1..=batches {
        if count(&kv)? < number {
            write_entries(setup, &kv, number).map_err(text)?;
        }
        objects::write(setup, &store, &ring, number)?;
        acknowledge(number);
    }
    drop((kv, ring));
    store.close().map_err(text)
}

/// Opens the store, recovers it, and compares (SUITE-1, SUITE-2). Returns how many batches it
/// holds.
///
/// # Errors
/// The first difference from the model, or what `check` found.
pub fn verify(setup: &Setup, acked: u64) -> Result<u64, String> {
    if acked == 0 && !setup.path.exists() {
        return Ok(0);
    }
    let store = Store::open(&setup.path, &setup.options()).map_err(text)?;
    let count = objects::verify(setup, &store)?;
    let entries = match Kv::open_or_create(&store, "kv") {
        Ok(kv) => verify_entries(setup, &kv)?,
        Err(error) => return Err(error.to_string()),
    };
    if !(count..=count + 1).contains(&entries) {
        return Err(format!("SUITE-2: {entries} batches of entries and {count} of objects (seed {})", setup.seed));
    }
    if count < acked {
        return Err(format!("SUITE-1: {acked} batches were acknowledged and {count} are there (seed {})", setup.seed));
    }
    // A kill between a growth of the file and the bit that records it leaves space that `trim`
    // gives back: a note.
    let wrong = |finding: &Finding| finding.kind != FindingKind::Note;
    let findings: Vec<String> = store.check().into_iter().filter(wrong).map(|finding| finding.to_string()).collect();
    if !findings.is_empty() {
        return Err(format!("check found: {}", findings.join("; ")));
    }
    Ok(count)
}

fn write_entries(setup: &Setup, kv: &Kv, number: u64) -> everbyte_kv::Result<()> {
    let mut batch = kv.batch();
    for change in entries::batch(setup.seed, number) {
        match change {
            Change::Put(key, value) => batch.put(&key, &value)?,
            Change::Delete(key) => batch.delete(&key)?,
        };
    }
    batch.put(COUNT, &number.to_le_bytes())?;
    let commit = batch.commit()?;
    kv.settle(commit)
}

/// Compares every entry with the model after as many batches as the store says it holds, and checks
/// the tree.
fn verify_entries(setup: &Setup, kv: &Kv) -> Result<u64, String> {
    let count = count(kv)?;
    let found: BTreeMap<Vec<u8>, Vec<u8>> = kv.range::<[u8]>(..).collect::<Result<_, _>>().map_err(text)?;
    let expected = entries::model(setup.seed, count);
    if let Some(key) = found.keys().chain(expected.keys()).find(|key| found.get(*key) != expected.get(*key)) {
        return Err(format!(
            "SUITE-2: after {count} batches of seed {} the key {:?} has {:?} bytes and should have {:?}",
            setup.seed,
            String::from_utf8_lossy(key),
            found.get(key).map(Vec::len),
            expected.get(key).map(Vec::len),
        ));
    }
    match kv.check().first() {
        None => Ok(count),
        Some(finding) => Err(format!("check found: {finding}")),
    }
}

/// How many batches the entries say there are.
fn count(kv: &Kv) -> Result<u64, String> {
    match kv.get(COUNT).map_err(text)? {
        None => Ok(0),
        Some(bytes) => Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| "the count is not 8 bytes".to_string())?)),
    }
}

/// The name of the backend that a folder gives.
///
/// # Errors
/// A store cannot be made there.
pub fn probe(setup: &Setup) -> Result<&'static str, String> {
    let path = setup.path.join("probe.store");
    let store =
        Store::create(&path, &CreateOptions { media: setup.options(), max: 64 << 20, ..CreateOptions::default() })
            .map_err(text)?;
    let name = store.media().kind().name();
    store.close().map_err(text)?;
    std::fs::remove_file(&path).map_err(text)?;
    Ok(name)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
