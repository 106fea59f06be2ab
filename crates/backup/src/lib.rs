//! # everbyte-backup: copies of an open store as of one moment
//!
//! [`backup`] writes a file with all objects of a store, while other threads change them.
//! An increment holds the pages that changed since another backup. [`restore`] makes a store of a
//! backup and its increments; opening it is a recovery, as after a crash.
//!
//! ```
//! use everbyte_backup::{Options, RestoreOptions, backup, restore};
//! use everbyte_store::{CreateOptions, Store};
//! let directory = tempfile::tempdir()?;
//! let path = |name: &str| directory.path().join(name);
//! let store = Store::create(&path("store"), &CreateOptions::default())?;
//! backup(&store, &path("monday"), &Options::default(), &mut |_| {})?;
//! let tuesday = Options { since: Some(path("monday")), ..Options::default() };
//! backup(&store, &path("tuesday"), &tuesday, &mut |_| {})?;
//! store.close()?;
//! drop(store);
//! restore(&[path("monday"), path("tuesday")], &path("again"), &RestoreOptions::default(), &mut |_| {})?;
//! assert!(Store::open(&path("again"), &Default::default())?.check().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: docs/formats/backup.md. Promises: docs/semantics/backup.md.

#![forbid(unsafe_code)]

mod error;
mod files;
pub mod layout;
mod read;
mod restore;
mod take;
mod write;

pub use error::{Error, Result};
#[doc(hidden)]
pub use files::{Files, RealFiles, Sink, part_path, publish, publish_new};
pub use read::{BackupFile, Source};

use everbyte_store::{Finding, Store};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of a backup.
#[derive(Clone, Debug)]
pub struct Options {
    /// An earlier backup of the same store, or an increment: only pages that differ are written.
    pub since: Option<PathBuf>,
    /// How long to wait for open write sections, such as long transactions.
    pub wait: Duration,
    /// The identity of the backup and its moment; `None`: random, and now. Tests that compare bytes
    /// give both.
    #[doc(hidden)]
    pub fixed: Option<([u8; 16], u64)>,
    /// Pages between two reports of progress, for tests.
    #[doc(hidden)]
    pub step: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { since: None, wait: Duration::from_secs(10), fixed: None, step: None }
    }
}

/// The part of the work that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All pages are copied.
    Copy,
    /// Pages that changed meanwhile are copied again.
    Again,
    /// The moment of the image is near: threads will be held back while the last pages are copied
    /// to memory.
    Close,
}

/// Progress of a backup or of restoring one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part of the work.
    pub phase: Phase,
    /// Bytes of it that are done.
    pub done: u64,
    /// All bytes of it.
    pub total: u64,
}

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The identity of the store.
    pub store: [u8; 16],
    /// The identity of the backup.
    pub identity: [u8; 16],
    /// The identity of the backup that this one needs.
    pub parent: Option<[u8; 16]>,
    /// Bytes of the store.
    pub len: u64,
    /// Pages of 4096 bytes that are not zeros.
    pub pages: u64,
    /// Pages in the file.
    pub stored: u64,
    /// Bytes of the file.
    pub size: u64,
    /// How long write sections were held back.
    pub pause: Duration,
    /// How long all of it took.
    pub time: Duration,
}

/// Options of [`restore`].
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// Gives the store a new identity, so that it opens beside the original. Otherwise it has the
    /// identity of the store that was lost, and its increments go on.
    pub new_identity: bool,
    /// Options of its first opening.
    pub media: everbyte_media::Options,
}

/// A restored store.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The identity of the store.
    pub identity: [u8; 16],
    /// Backups that were read.
    pub files: usize,
    /// Bytes of the store.
    pub len: u64,
    /// Pages that were written.
    pub pages: u64,
    /// The findings of the check of the store's own structures.
    pub findings: Vec<Finding>,
}

/// Copies all objects of a store to a new file, as of one moment near the end of the call. Every
/// change that was acknowledged before that moment is in it. Threads of this process may change the
/// store meanwhile. Durable on return.
///
/// # Errors
/// [`Error::Refused`] for a store that is open for reading; [`Error::Busy`] if a transaction stays
/// open for longer than [`Options::wait`], or another backup runs; [`Error::Store`] if other
/// processes have the store, and for objects with backing files; [`Error::WrongParent`];
/// [`Error::Media`]; [`Error::Io`]. No file is left behind.
pub fn backup(store: &Store, to: &Path, options: &Options, report: &mut dyn FnMut(Progress)) -> Result<Summary> {
    backup_with(store, to, options, &RealFiles, report)
}

/// [`backup`] with other calls than the operating system's, for tests.
///
/// # Errors
/// As [`backup`].
#[doc(hidden)]
pub fn backup_with(
    store: &Store,
    to: &Path,
    options: &Options,
    files: &dyn Files,
    report: &mut dyn FnMut(Progress),
) -> Result<Summary> {
    take::take(store, to, options, files, report)
}

/// Makes the store `to`, which must not exist, of a whole backup and its increments, in order. The
/// store is recovered, closed, and durable on return.
///
/// # Errors
/// [`Error::Damaged`], [`Error::NotABackup`], [`Error::NewerFormat`], [`Error::WrongParent`],
/// [`Error::Io`], [`Error::Media`], [`Error::Store`]. No file is left behind.
pub fn restore(
    files: &[PathBuf],
    to: &Path,
    options: &RestoreOptions,
    report: &mut dyn FnMut(Progress),
) -> Result<Restored> {
    restore::restore(files, to, options, report)
}

/// Reads all of a file's bytes, as restoring does, and makes nothing of them: for the fuzzer.
///
/// # Errors
/// As [`restore`].
#[doc(hidden)]
pub fn verify(bytes: &[u8]) -> Result<()> {
    let file = BackupFile::of(bytes, Path::new("fuzz"))?;
    file.walk(&mut |_, _| {})
}
