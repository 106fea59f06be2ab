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
        if is_last && !state.removed && self.node.word(core, inode::LINKS) == 0 {
            // After a failure the next opening removes it.
            drop(crate::remove::free(core, &self.node, &mut state));
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.ino())
    }
}
