//! Changes of attributes, decided under the lock of the file.

use crate::attributes::whole;
use crate::change::Change;
use crate::core::Core;
use crate::layout::{STATE_PROJECT, inode};
use crate::node::{Node, NodeState};
use crate::quota::usage::{Delta, Owner};
use crate::remove;
use crate::volume::Volume;
use crate::xattr::run::Xattrs;
use crate::xattr::{self, Replaced};
use crate::{Attributes, Error, FileKind, Ino, Result, SetAttributes};

/// New attributes of a file, see [`Volume::update`].
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Words of the inode.
    pub set: SetAttributes,
    /// Extended attributes by name: a value, or `None` to remove one.
    pub xattrs: Vec<(&'static [u8], Option<Vec<u8>>)>,
}

/// A file whose attributes are about to change.
#[derive(Debug)]
pub struct Present<'a> {
    /// Its attributes; the number of its pages is not among them.
    pub attributes: Attributes,
    xattrs: &'a Xattrs,
}

impl Present<'_> {
    /// The value of an extended attribute.
    pub fn xattr(&self, name: &[u8]) -> Option<&[u8]> {
        self.xattrs.get(name).map(Vec::as_slice)
    }
}

impl Volume {
    /// Changes attributes of a file, and the time of its change. Ordered on return; whole or absent
    /// after a crash.
    ///
    /// # Errors
    /// As [`Volume::attributes`]: nothing has changed.
    pub fn set_attributes(&self, ino: Ino, set: &SetAttributes) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let node = core.node(ino)?;
        let mut state = node.write(core)?;
        let mut change = core.change();
        set_words(core, &node, &mut state, &mut change, set)?;
        change.commit()
    }

    /// Changes attributes and extended attributes of a file as `decide` says, which sees those that
    /// the file has: no other change comes between. `decide` calls no volume. Ordered on return;
    /// whole or absent after a crash.
    ///
    /// # Errors
    /// Those of `decide`, and as [`Volume::attributes`] and [`Volume::set_xattr`]: nothing has
    /// changed.
    pub fn update<E: From<Error>>(
        &self,
        ino: Ino,
        decide: impl FnOnce(&Present<'_>) -> Result<Update, E>,
    ) -> Result<(), E> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let node = core.node(ino)?;
        let mut state = node.write(core)?;
        let inode = whole(core, &node)?;
        let mut xattrs = xattr::load(core, &node)?;
        node.kind(core)?;
        let attributes = Attributes::of(ino, &inode, 0).expect("the inode has a kind");
        let update = decide(&Present { attributes, xattrs: &xattrs })?;
        let mut change = core.change();
        set_words(core, &node, &mut state, &mut change, &update.set)?;
        if update.xattrs.is_empty() {
            return Ok(change.commit()?);
        }
        for (name, value) in update.xattrs {
            match value {
                Some(value) => _ = xattrs.insert(name.to_vec(), value),
                None => _ = xattrs.remove(name),
            }
        }
        let replaced = Replaced::write(core, &node, &mut change, &xattrs)?;
        Ok(replaced.commit(core, change)?)
    }

    /// Sets the time of the last read, and nothing else: one word, without a record. Ordered on
    /// return.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn set_accessed(&self, ino: Ino, accessed: i64) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let node = core.node(ino)?;
        let _state = node.write(core)?;
        let mut change = core.change();
        change.set(node.at + inode::ACCESSED, accessed as u64);
        change.commit()
    }
}

fn set_words(
    core: &Core,
    node: &Node,
    state: &mut NodeState,
    change: &mut Change<'_>,
    set: &SetAttributes,
) -> Result<()> {
    let mut inode = whole(core, node)?;
    if set.permissions.is_some() || set.inherits_project.is_some() {
        let mut word = node.state_word(core);
        if let Some(permissions) = set.permissions {
            word.mode = word.mode & 0o170_000 | permissions & 0o7777;
        }
        match set.inherits_project {
            Some(true) if node.kind(core)? != FileKind::Directory => {
                return Err(Error::NotADirectory { ino: node.ino });
            }
            Some(true) => word.flags |= STATE_PROJECT,
            Some(false) => word.flags &= !STATE_PROJECT,
            None => (),
        }
        change.set(node.at + inode::STATE, word.word());
    }
    let old = Owner::of(&inode);
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    inode.project = set.project.unwrap_or(inode.project);
    inode.checksum = inode.owner_sum();
    if core.quotas.is_on() && old != Owner::of(&inode) {
        let pages: i64 = remove::pages(core, node, state)?.iter().map(|&(_, count)| count as i64).sum();
        change.charge_owner(Delta { owner: old, pages: -pages, inodes: -1 });
        change.charge_owner(Delta { owner: Owner::of(&inode), pages, inodes: 1 });
    }
    change.set(node.at + inode::OWNER, u64::from(inode.checksum) | u64::from(inode.uid) << 32);
    change.set(node.at + inode::OWNER + 8, u64::from(inode.gid) | u64::from(inode.project) << 32);
    for (offset, time) in [(inode::ACCESSED, set.accessed), (inode::MODIFIED, set.modified)] {
        if let Some(time) = time {
            change.set(node.at + offset, time as u64);
        }
    }
    change.set(node.at + inode::CHANGED, change.now());
    Ok(())
}
