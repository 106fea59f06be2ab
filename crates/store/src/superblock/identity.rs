//! The identity of a store: 16 random bytes that no other store has, so that tools and copies can
//! tell stores apart.
//!
//! A copy made by hand (`cp`) bears its original's identity, and may have holes where the original
//! had room. A process opens such a pair one at a time; [`Store::open_rebased`] gives the copy an
//! identity of its own, and room.
//!
//! Rebasing, a barrier between the lines:
//!   1. room from the file system for every cluster that is backed (SPACE-2); may fail: nothing has
//!      changed
//!   2. the superblock's copy A with the new identity; then copy B
//!
//! Invariants
//!   STORE-9  A process has each identity open for writing at most once; a copy beside its original
//!            is refused before a byte of it changes.
//!
//! Threads: any. What is open is known to this process alone: between processes nothing rests on
//! identities.

use crate::layout::{SUPERBLOCKS, Superblock};
use crate::superblock;
use crate::{Error, PRIME_LEN, Result, Store, object};
use everbyte_media::sums_agree;
use everbyte_media::{OpenOptions, Options, binding};
use everbyte_space::CLUSTER;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use zerocopy::{FromZeros, IntoBytes};

/// Which store has which identity open.
static OPEN: Mutex<BTreeMap<[u8; 16], PathBuf>> = Mutex::new(BTreeMap::new());

/// An identity that this process has open; until it is dropped.
pub(crate) struct Held([u8; 16]);

impl Held {
    pub(crate) fn new(identity: [u8; 16], path: &Path) -> Result<Held> {
        let mut open = OPEN.lock();
        if let Some(other) = open.get(&identity) {
            return Err(Error::SameIdentity { path: path.into(), open: other.clone() });
        }
        // By its whole path: the process may change its directory.
        open.insert(identity, std::path::absolute(path).unwrap_or_else(|_| path.into()));
        Ok(Held(identity))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.0);
    }
}

/// Refuses a copy of a store that is open, by the bytes of the file (STORE-9). What is no store
/// others will refuse, and the store itself, opened again, is refused by its lock.
pub(crate) fn refuse_copy(path: &Path) -> Result<()> {
    let open = OPEN.lock();
    if open.is_empty() {
        return Ok(());
    }
    let Ok(file) = File::open(path) else { return Ok(()) };
    let whole = SUPERBLOCKS.iter().filter_map(|&at| {
        let mut found = Superblock::new_zeroed();
        file.read_exact_at(found.as_mut_bytes(), at).ok()?;
        sums_agree(found.checksum, found.sum()).then_some(found)
    });
    let Some(newest) = whole.max_by_key(|found| found.sequence) else { return Ok(()) };
    match open.get(&newest.identity) {
        Some(other) if !same_file(&file, other) => Err(Error::SameIdentity { path: path.into(), open: other.clone() }),
        _ => Ok(()),
    }
}

/// Refuses a store that this process has open: where processes share it, its lock would not.
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

impl Store {
    /// Opens a store and gives it a new identity: for a copy made by hand, which then opens beside
    /// its original.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::rebase`].
    pub fn open_rebased(path: &Path, options: &Options) -> Result<Store> {
        let store = Store::attach(OpenOptions::new(path).open(options)?)?;
        store.rebase(random()?)?;
        store.hold()
    }

    /// Gives the store this identity, which must be no other store's, and asks the file system
    /// again for room for all it has: a copy made by hand may lack it. Settled on return; a crash
    /// leaves the old identity or the new one.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::SameIdentity`]: nothing has changed. [`Error::Media`].
    pub fn rebase(&self, identity: [u8; 16]) -> Result<()> {
        let inner = &*self.inner;
        inner.media.require_opener()?;
        // what is asked for is there already, or was until it was copied
        inner.media.limit_room(u64::MAX);
        let backed = self.back_again(); // 1
        inner.limit_media(&inner.superblock());
        backed?;
        let mut current = inner.current.write();
        let mut held = inner.held.lock();
        if held.is_some() {
            let new = Held::new(identity, inner.media.path())?;
            *held = Some(new);
        }
        let rebased = Superblock { identity, sequence: current.sequence + 1, ..*current };
        superblock::write(&inner.media, rebased, &SUPERBLOCKS)?; // 2
        *current = rebased.sealed();
        Ok(())
    }

    /// Room for every backed cluster and for the pages of the bitmaps that speak for them. Small
    /// objects stay small.
    fn back_again(&self) -> Result<()> {
        let inner = &*self.inner;
        let superblock = inner.superblock();
        let (spans_at, end) = (superblock.spans_at, inner.media.len().min(superblock.end()) / CLUSTER * CLUSTER);
        let backed = inner.space.bitmap().runs(&inner.media, spans_at..end.max(spans_at), true);
        let small = self.small_objects();
        for run in backed {
            let mut at = run.start;
            for prime in small.range(run.clone()).copied() {
                if at < prime {
                    drop(inner.space.reserve(&(at..prime))?);
                }
                at = prime + CLUSTER;
                inner.space.reserve_part(&(prime..at), &(prime..prime + PRIME_LEN))?;
            }
            if at < run.end {
                drop(inner.space.reserve(&(at..run.end))?);
            }
        }
        Ok(())
    }

    /// The prime pages of the objects that have no more room than that; none where names are
    /// damaged, and all get whole clusters.
    fn small_objects(&self) -> BTreeSet<u64> {
        let inner = &*self.inner;
        let all = inner.list(&mut inner.table.lock(), "").unwrap_or_default();
        let small = all.into_iter().filter(|entry| entry.small);
        let small = small.filter(|entry| {
            let backed = object::read_header(&inner.media, entry).ok().map(|extent| extent.backed);
            backed == Some(entry.span.at() + CLUSTER)
        });
        small.map(|entry| entry.span.at()).collect()
    }

    /// Notes that this process has the store's identity open (STORE-9). Refuses what only the log
    /// of a copy could tell.
    pub(crate) fn hold(self) -> Result<Store> {
        let held = Held::new(self.identity(), self.media().path())?;
        *self.inner.held.lock() = Some(held);
        Ok(self)
    }
}
