//! Cloning: a copy of a store with an identity of its own, which opens beside the original.
//!
//! Steps:
//!   1. the source is opened read-only, recovered in private memory, and checked: damage is not
//!      passed on
//!   2. its file is copied beside the target's name
//!   3. the copy is opened, which recovers it, and gets its identity, and space for all its
//!      clusters
//!   4. it is closed, and then its file gets the target's name
//!
//! Invariants
//!   STORE-10  A clone gets its name after all of its bytes and its own identity are settled: a
//!             crash leaves it whole, or leaves no file of that name.

use crate::superblock::identity;
use crate::{Error, Finding, Recovery, Result, Store};
use everbyte_media::museum::{misplaced, once};
use everbyte_media::{Damage, Media, OpenOptions, Options, publish};
use std::path::{Path, PathBuf};

impl Store {
    /// Copies the store `source`, which no process may have open for writing, to the new file
    /// `target`: the same objects, with a new identity. A source that was never closed is recovered
    /// in the copy and stays as it is. Holes stay holes, and blocks are shared if backend and file
    /// system allow that. `progress` receives the bytes copied and the bytes to copy. Settled on
    /// return; a crash leaves the clone whole or absent, and perhaps a file `target.part`.
    ///
    /// # Errors
    /// [`Error::Occupied`] if `target` or `target.part` exists; [`Error::Damaged`] if the source
    /// is; [`Error::Media`]: the source is in use, or the disk is full. Nothing is left behind.
    pub fn clone_file(
        source: &Path,
        target: &Path,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<[u8; 16]> {
        let part = part_of(target);
        for path in [target, &part] {
            if path.symlink_metadata().is_ok() {
                return Err(Error::Occupied { path: path.into() });
            }
        }
        let original = Store::options(source).read_only().open(options)?; // 1; its lock is kept
        original.require_sound()?;
        original.require_whole()?;
        let identity = identity::random()?;
        let media = OpenOptions::new(&part).create_copy(source, options, progress)?; // 2
        let named = Store::finish_clone(media, identity, || Ok(publish(&part, target)?));
        named.map(|()| identity).inspect_err(|_| {
            let _ = std::fs::remove_file(&part); // ours: `create_copy` made it
        })
    }

    /// Refuses a store with damaged metadata that opening would not repair. Callers check this
    /// before they copy it.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn require_sound(&self) -> Result<()> {
        let Recovery { superblocks, words, .. } = self.recovery();
        let heads = &self.media().opened().torn_heads;
        let repaired = [superblocks, words, heads];
        let stays = |finding: &Finding| !repaired.iter().any(|places| places.contains(&finding.at));
        match self.check().into_iter().find(|finding| finding.is_damage() && stays(finding)) {
            None => Ok(()),
            Some(Finding { at, detail, .. }) => Err(Error::from(Damage::at(at, detail).of_file(self.media().path()))),
        }
    }

    /// Steps 3 and 4, for a copy of a store's bytes that lies on `media`; `publish` gives it its
    /// name.
    ///
    /// # Errors
    /// As [`Store::clone_file`], and the errors of `publish`.
    pub fn finish_clone(media: Media, identity: [u8; 16], publish: impl FnOnce() -> Result<()>) -> Result<()> {
        let store = Store::attach(media)?;
        let mut publish = once(publish);
        misplaced("store-clone-named-early", &mut publish)?;
        store.rebase(identity)?; // 3
        store.close()?; // 4
        drop(store);
        publish()
    }
}

/// The path of a clone before it gets its name.
fn part_of(target: &Path) -> PathBuf {
    let mut part = target.as_os_str().to_os_string();
    part.push(".part");
    part.into()
}
