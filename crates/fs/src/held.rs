//! [`Held`]: a file that stays alive without a name.
//!
//! A hold is a count in the node of the file. The call that takes the last name away leaves the
//! file to its holders, if it has any, and the last of them frees it. No lock is taken for that,
//! but by the one that frees.

use crate::core::Core;
use crate::layout::inode;
use crate::node::Node;
use crate::volume::Volume;
use crate::{Found, Ino, Result};
use std::sync::Arc;

/// Keeps a file alive that may lose its last name meanwhile; its pages become free when the last
/// of these is dropped.
pub struct Held {
    pub(crate) core: Arc<Core>,
    pub(crate) node: Arc<Node>,
}

impl Held {
    /// The inode.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// The permission bits, the sticky bit and the set-id bits: one load.
    pub fn permissions(&self) -> u16 {
        self.node.state_word(&self.core).mode & 0o7777
    }

    /// Whether the file has extended attributes: one load.
    pub fn has_xattrs(&self) -> bool {
        self.node.word(&self.core, inode::ATTRIBUTES) != 0
    }

    /// The times of the last read, of the last change of the bytes, and of the last change of the
    /// attributes, each a load of its own.
    pub fn times(&self) -> [i64; 3] {
        let word = |offset| self.node.word(&self.core, offset) as i64;
        [word(inode::ACCESSED), word(inode::MODIFIED), word(inode::CHANGED)]
    }

    /// Bytes of the file: one load.
    pub fn size(&self) -> u64 {
        self.node.size(&self.core)
    }
}

impl Volume {
    /// Keeps a file alive until the result is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Stale`] if it was removed already.
    pub fn hold(&self, ino: Ino) -> Result<Held> {
        let node = self.core.node(ino)?;
        let state = node.read(&self.core)?;
        node.hold(&self.core)?;
        drop(state);
        Ok(Held { core: Arc::clone(&self.core), node })
    }

    /// Keeps a file alive that a call has found.
    ///
    /// # Errors
    /// [`crate::Error::Stale`] if it was removed since.
    pub fn hold_found(&self, found: &Found) -> Result<Held> {
        found.node.hold(&self.core)?;
        Ok(Held { core: Arc::clone(&self.core), node: Arc::clone(&found.node) })
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.node.hold(&self.core).expect("a file that is held is alive");
        Held { core: Arc::clone(&self.core), node: Arc::clone(&self.node) }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.node.release() {
            free(&self.core, &self.node);
        }
    }
}

/// Frees a file without a name, unless it is held again.
#[cold]
fn free(core: &Core, node: &Node) {
    let _change = core.freeze.enter();
    let mut state = node.lock_last();
    // Another holder, or a new name, may have come between; or the file is freed already.
    if !node.is_removed() && node.links(core) == 0 && node.leave() {
        // After a failure the next opening removes it.
        if crate::remove::free(core, node, &mut state).is_err() {
            core.require_scan();
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.ino())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, FileKind, Found, Ino, NewFile, Volume, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::sync::Barrier;

    fn volume() -> (Store, Volume) {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        (store, volume)
    }

    fn make(volume: &Volume) -> Found {
        let ino = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        volume.write(ino, 0, &[7; 10_000]).unwrap();
        volume.find(Ino::ROOT, b"file").unwrap().unwrap()
    }

    /// A name is withdrawn while two threads take and drop holds. One of the three frees the file,
    /// once, and no hold outlives it.
    #[test]
    fn one_thread_frees_a_file() {
        let (_store, volume) = volume();
        make(&volume);
        volume.unlink(Ino::ROOT, b"file").unwrap();
        let before = (volume.usage().free_pages, volume.usage().free_inodes);
        for turn in 0..500 {
            let (found, start) = (make(&volume), Barrier::new(3));
            let held = (turn % 3 == 0).then(|| volume.hold_found(&found).unwrap());
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        start.wait();
                        for _ in 0..turn % 7 {
                            match volume.hold_found(&found) {
                                Ok(held) => assert_eq!(held.clone().size(), 10_000),
                                Err(error) => assert!(matches!(error, Error::Stale { .. }), "{error}"),
                            }
                        }
                    });
                }
                start.wait();
                drop(held);
                volume.unlink(Ino::ROOT, b"file").unwrap();
            });
            assert!(matches!(volume.hold_found(&found), Err(Error::Stale { .. })));
            assert_eq!((volume.usage().free_pages, volume.usage().free_inodes), before, "turn {turn}");
        }
    }

    /// After a removal that was refused the file is held as before.
    #[test]
    fn a_file_that_was_not_removed_is_held() {
        let (_store, volume) = volume();
        let found = make(&volume);
        assert!(found.node.leave(), "no thread holds it");
        let (held, other) = (volume.hold_found(&found).unwrap(), volume.hold_found(&found).unwrap());
        volume.unlink(Ino::ROOT, b"file").unwrap();
        drop(other);
        let mut bytes = [0; 3];
        assert_eq!(held.read(9_997, &mut bytes).unwrap(), 3);
        assert_eq!(bytes, [7; 3]);
        drop(held);
        assert!(matches!(volume.hold_found(&found), Err(Error::Stale { .. })));
    }
}
