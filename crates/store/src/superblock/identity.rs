//! The identity of a store: 16 random bytes that no other store has, so that tools and copies can
//! tell stores apart.
//!
//! A copy made by hand (`cp`) bears its original's identity. A process opens such a pair one at a
//! time; `rebase` gives the copy an identity of its own.
//!
//! Invariants
//!   STORE-9  A process has each identity open for writing at most once; a copy beside its original
//!            is refused before a byte of it changes.
//!
//! Threads: any. Each process knows its own open identities alone: no promise between processes
//! rests on identities.

use crate::layout::{SUPERBLOCKS, Superblock};
use crate::{Error, Result};
use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_media::{Checked, binding};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use zerocopy::{FromZeros, IntoBytes};

/// The identities that this process has open, with the paths of their stores.
static OPEN: RankedMutex<{ rank::IDENTITIES }, BTreeMap<[u8; 16], PathBuf>> = RankedMutex::new(BTreeMap::new());

/// An identity that this process has open, until the value is dropped.
struct OpenIdentity([u8; 16]);

impl OpenIdentity {
    fn new(identity: [u8; 16], path: &Path) -> Result<OpenIdentity> {
        let mut open = OPEN.lock();
        if let Some(other) = open.get(&identity) {
            return Err(Error::SameIdentity { path: path.into(), open: other.clone() });
        }
        // The whole path: the process may change its directory.
        open.insert(identity, std::path::absolute(path).unwrap_or_else(|_| path.into()));
        Ok(OpenIdentity(identity))
    }
}

impl Drop for OpenIdentity {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.0);
    }
}

/// The part of an open store that keeps its identity open. Empty in a store over attached media:
/// their owner tells them apart.
#[derive(Default)]
pub(crate) struct IdentityHold(RankedMutex<{ rank::IDENTITY }, Option<OpenIdentity>>);

impl IdentityHold {
    /// Opens the identity of the store at `path` (STORE-9).
    pub(crate) fn open(&self, identity: [u8; 16], path: &Path) -> Result<()> {
        let opened = OpenIdentity::new(identity, path)?;
        *self.0.lock() = Some(opened);
        Ok(())
    }

    /// Opens another identity of the store, if one is open.
    pub(crate) fn replace(&self, identity: [u8; 16], path: &Path) -> Result<()> {
        let mut hold = self.0.lock();
        if hold.is_some() {
            *hold = Some(OpenIdentity::new(identity, path)?);
        }
        Ok(())
    }
}

/// Refuses a copy of a store that is open, by the bytes of the file (STORE-9). Later checks refuse
/// a file that is no store; the lock of the file refuses the store itself, opened again.
pub(crate) fn refuse_copy(path: &Path) -> Result<()> {
    let open = OPEN.lock();
    if open.is_empty() {
        return Ok(());
    }
    let Ok(file) = File::open(path) else { return Ok(()) };
    let whole = SUPERBLOCKS.iter().filter_map(|&at| {
        let mut found = Superblock::new_zeroed();
        file.read_exact_at(found.as_mut_bytes(), at).ok()?;
        found.checksum_agrees().then_some(found)
    });
    let Some(newest) = whole.max_by_key(|found| found.sequence) else { return Ok(()) };
    match open.get(&newest.identity) {
        Some(other) if !same_file(&file, other) => Err(Error::SameIdentity { path: path.into(), open: other.clone() }),
        _ => Ok(()),
    }
}

/// Refuses a store that this process has open already; the lock of a shared store does not.
pub(crate) fn refuse_twice(path: &Path) -> Result<()> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    if !OPEN.lock().values().any(|other| same_file(&file, other)) {
        return Ok(());
    }
    let holder = format!("this process (pid {})", std::process::id());
    Err(Error::Media(everbyte_media::Error::InUse { path: path.into(), holder }))
}

fn same_file(file: &File, other: &Path) -> bool {
    match (file.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Sixteen random bytes.
pub(crate) fn random() -> Result<[u8; 16]> {
    let mut identity = [0; 16];
    File::open(RANDOM).and_then(|mut file| file.read_exact(&mut identity)).map_err(no_random)?;
    Ok(identity)
}

/// The error of a system without random bytes.
pub(crate) fn no_random(source: std::io::Error) -> Error {
    Error::Media(everbyte_media::Error::Io { action: "read random bytes", path: RANDOM.into(), source })
}

const RANDOM: &str = "/dev/urandom";

/// An address for a new bound store of at most `max` bytes.
pub(crate) fn random_address(max: u64) -> Result<u64> {
    let random = u64::from_le_bytes(*random()?.first_chunk().expect("eight of sixteen bytes"));
    binding::address(max, random).ok_or_else(|| {
        let room = binding::WINDOW.end - binding::WINDOW.start;
        Error::BadOption { detail: format!("a bound store has at most {room} bytes, not {max}") }
    })
}
