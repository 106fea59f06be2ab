//! Removal of names and of files.
//!
//! A file without a name and without a holder becomes free: one word of its inode, in the change
//! that withdraws its last name, or alone when its last holder goes. Its pages are free with it,
//! since the free pages are those that no inode leads to.

use crate::change::Change;
use crate::core::Core;
use crate::create::touch;
use crate::extents::Pages;
use crate::layout::{State, inode};
use crate::names::require_name;
use crate::node::{Node, NodeState};
use crate::volume::Volume;
use crate::xattr::run as xattr;
use crate::{Error, FileKind, Found, Ino, Result};
use std::sync::Arc;

impl Volume {
    /// Withdraws the name of a file that is no directory. The file is freed with its last name, or
    /// when its last [`crate::Held`] is dropped. Ordered on return; whole or absent after a crash.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::NotADirectory`], [`Error::Stale`]:
    /// nothing has changed.
    pub fn unlink(&self, directory: Ino, name: &[u8]) -> Result<()> {
        self.unlink_if(directory, name, |_| true).map(drop)
    }

    /// [`Volume::unlink`] of the name of a file that a call has found. `false`: another file has
    /// the name now, and keeps it.
    ///
    /// # Errors
    /// As [`Volume::unlink`].
    pub fn unlink_found(&self, directory: Ino, name: &[u8], found: &Found) -> Result<bool> {
        self.unlink_if(directory, name, |node| Arc::ptr_eq(node, &found.node))
    }

    fn unlink_if(&self, directory: Ino, name: &[u8], is_meant: impl FnOnce(&Arc<Node>) -> bool) -> Result<bool> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_name(name)?;
        let _tree = core.tree.read();
        let parent = core.node(directory)?;
        let mut names = parent.write(core)?;
        let named = names.names(core, &parent)?.get(core, name).ok_or(Error::NotFound)?;
        let node = core.node(named.ino)?;
        if !is_meant(&node) {
            return Ok(false);
        }
        if node.kind(core)? == FileKind::Directory {
            return Err(Error::IsADirectory { ino: node.ino });
        }
        let mut file = node.write(core)?;
        let mut change = core.change();
        change.set(names.names(core, &parent)?.at(core, named.line), 0);
        touch(&mut change, &parent);
        let freed = drop_link(core, &mut change, &node, &mut file)?;
        change.commit()?;
        names.names(core, &parent)?.remove(core, name);
        finish(core, &node, &mut file, freed);
        Ok(true)
    }

    /// Removes an empty directory. Ordered on return; whole or absent after a crash.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::NotFound`], [`Error::NotADirectory`], [`Error::Stale`]:
    /// nothing has changed.
    pub fn remove_directory(&self, directory: Ino, name: &[u8]) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_name(name)?;
        let _tree = core.tree.write(); // no rename moves a directory into this one meanwhile
        let parent = core.node(directory)?;
        let mut names = parent.write(core)?;
        let named = names.names(core, &parent)?.get(core, name).ok_or(Error::NotFound)?;
        let node = core.node(named.ino)?;
        let mut removed = node.write(core)?;
        require_empty(core, &node, &mut removed)?;
        let mut change = core.change();
        change.set(names.names(core, &parent)?.at(core, named.line), 0);
        touch(&mut change, &parent);
        change.set_number(parent.at + inode::LINKS, parent.links(core) - 1);
        let freed = drop_link(core, &mut change, &node, &mut removed)?;
        change.commit()?;
        names.names(core, &parent)?.remove(core, name);
        finish(core, &node, &mut removed, freed);
        Ok(())
    }
}

/// Refuses a directory with entries, and everything that is no directory.
pub(crate) fn require_empty(core: &Core, node: &Node, state: &mut NodeState) -> Result<()> {
    match state.names(core, node)?.len() {
        0 => Ok(()),
        _ => Err(Error::NotEmpty { ino: node.ino }),
    }
}

/// Takes a name from a file, in `change`; a directory loses all. Returns its pages if it becomes
/// free with the change.
pub(crate) fn drop_link(
    core: &Core,
    change: &mut Change<'_>,
    node: &Node,
    state: &mut NodeState,
) -> Result<Option<Vec<(u64, u64)>>> {
    let links = match node.kind(core)? {
        FileKind::Directory => 0,
        _ => node.links(core).saturating_sub(1),
    };
    if links > 0 || !node.leave() {
        change.set_number(node.at + inode::LINKS, links);
        change.set(node.at + inode::CHANGED, change.now());
        return Ok(None);
    }
    let pages = pages(core, node, state)?;
    charge_removal(change, node, &pages);
    change.set(node.at + inode::STATE, free_state(core, node).word());
    Ok(Some(pages))
}

/// A file that becomes free is charged to its owners no more.
fn charge_removal(change: &mut Change<'_>, node: &Node, pages: &[(u64, u64)]) {
    change.charge(node.at, -pages.iter().map(|&(_, count)| count as i64).sum::<i64>(), -1);
}

/// Every run of pages that the file has.
pub(crate) fn pages(core: &Core, node: &Node, state: &mut NodeState) -> Result<Vec<(u64, u64)>> {
    let mut pages = state.extents(core, node)?.all_pages();
    let xattrs = xattr::run(Pages::of(core.object()), node.at).map_err(|damage| node.damaged(core, damage))?;
    pages.extend(xattrs.map(|(page, count, _)| (page, count)));
    Ok(pages)
}

/// The state of a free inode: the next file of this number has another generation.
pub(crate) fn free_state(core: &Core, node: &Node) -> State {
    State { mode: 0, flags: 0, generation: node.state_word(core).generation.wrapping_add(1) }
}

/// After the commit of a change that freed a file.
pub(crate) fn finish(core: &Core, node: &Node, state: &mut NodeState, freed: Option<Vec<(u64, u64)>>) {
    let Some(pages) = freed else { return };
    *state = NodeState::default();
    node.set_removed();
    core.nodes.forget(node.ino);
    core.give_runs(&pages);
    core.table.give(node.ino);
}

/// Frees a file without a name, whose last holder is gone.
pub(crate) fn free(core: &Core, node: &Node, state: &mut NodeState) -> Result<()> {
    let pages = pages(core, node, state)?;
    let mut change = core.change();
    charge_removal(&mut change, node, &pages);
    change.set(node.at + inode::STATE, free_state(core, node).word());
    change.commit()?;
    finish(core, node, state, Some(pages));
    Ok(())
}
