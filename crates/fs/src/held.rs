//! [`Held`]: a file that stays alive without a name.

use crate::layout::inode;
use crate::node::Node;
use crate::volume::Volume;
use crate::{Ino, Result};
use std::sync::Arc;

/// Keeps a file alive that may lose its last name meanwhile; its pages become free when the last
/// of these is dropped.
#[derive(Clone)]
pub struct Held {
    inner: Arc<Hold>,
}

struct Hold {
    volume: Volume,
    node: Arc<Node>,
}

impl Held {
    /// The inode.
    pub fn ino(&self) -> Ino {
        self.inner.node.ino
    }

    /// The permission bits, the sticky bit and the set-id bits: one load.
    pub fn permissions(&self) -> u16 {
        self.inner.node.state_word(&self.inner.volume.core).mode & 0o7777
    }

    /// The times of the last read, of the last change of the bytes, and of the last change of the
    /// attributes, each a load of its own.
    pub fn times(&self) -> [i64; 3] {
        let word = |offset| self.inner.node.word(&self.inner.volume.core, offset) as i64;
        [word(inode::ACCESSED), word(inode::MODIFIED), word(inode::CHANGED)]
    }

    /// Bytes of the file: one load.
    pub fn size(&self) -> u64 {
        self.inner.node.word(&self.inner.volume.core, inode::SIZE)
    }
}

impl Volume {
    /// Keeps a file alive until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed already.
    pub fn hold(&self, ino: Ino) -> Result<Held> {
        let node = self.core.node(ino)?;
        let state = node.read(&self.core)?;
        node.hold();
        drop(state);
        Ok(Held { inner: Arc::new(Hold { volume: self.clone(), node }) })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let core = &*self.volume.core;
        let _change = core.freeze.enter();
        let (mut state, is_last) = self.node.release();
        if is_last && !self.node.is_removed() && self.node.word(core, inode::LINKS) == 0 {
            // After a failure the next opening removes it.
            if crate::remove::free(core, &self.node, &mut state).is_err() {
                core.require_scan();
            }
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.ino())
    }
}
