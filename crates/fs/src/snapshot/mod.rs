//! Snapshots: copies of the whole tree that cannot be changed, and share the pages of files.
//!
//! Making one, a fence between the steps; changes of the volume wait meanwhile (`freeze`):
//!   1. every file with a name gets a twin, still free: inode, pages of names, pages of extents;
//!      the slots of the files get the flag of shared pages
//!   2. the twins become live; nothing leads to them, so a crash frees them (FS-22)
//!   3. a change publishes the root's entry in the directory of snapshots
//!
//! Removing one, a fence between the steps:
//!   1. a change withdraws the entry; a crash frees all inodes of the snapshot from here on (FS-22)
//!   2. the inodes become free
//!   3. their pages and numbers may be used; that of the root last (FS-23)

mod copy;
pub(crate) mod published;

use crate::core::Core;
use crate::create::touch;
use crate::extents::Pages;
use crate::layout::{Inode, PAGE, Run, SNAPSHOTS_AT, STATE_SNAPSHOT, State, inode};
use crate::names::require_name;
use crate::node::{Node, NodeState};
use crate::order::NewInode;
use crate::remove;
use crate::table::Body;
use crate::volume::Volume;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::sealed::seal_low;
use everbyte_media::seeded;
use std::sync::Arc;

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSnapshot {
    /// Its name: any bytes that a file's name may have.
    pub name: Vec<u8>,
    /// The root directory of its tree.
    pub root: Ino,
    /// When it was made, in nanoseconds since 1970.
    pub taken: i64,
}

impl Volume {
    /// Makes a snapshot: a tree of files that is the volume's tree at one moment and does not
    /// change. It has inodes of its own, whose numbers differ, and shares the pages of files and
    /// extended attributes; directories are copied. Files that have no name are left out. Ordered
    /// on return; a crash leaves the snapshot whole or absent.
    ///
    /// The time grows with the number of files and extents, and changes of the volume wait for it.
    /// Reading goes on.
    ///
    /// # Errors
    /// [`Error::Exists`] if a snapshot has the name; [`Error::BadName`], [`Error::NameTooLong`],
    /// [`Error::NoSpace`], [`Error::NoInodes`]; [`Error::Damaged`] if a file is damaged: there is
    /// no snapshot of that name then, and no page is lost.
    pub fn snapshot(&self, name: &[u8]) -> Result<VolumeSnapshot> {
        let core = &*self.core;
        require_name(name)?;
        let _one = core.snapshots.lock();
        let _frozen = core.freeze.stop();
        core.object().require_readable()?;
        if let Some(directory) = directory(core)?
            && directory.write_index(core)?.names(core, &directory)?.get(core, name).is_some()
        {
            return Err(Error::Exists);
        }
        let taken = core.now();
        let twins = copy::prepare(core, taken)?;
        let published = publish(core, name, &twins).map(|()| twins.root());
        let root = published.inspect_err(|_| twins.give_back(core))?;
        Ok(VolumeSnapshot { name: name.to_vec(), root, taken })
    }

    /// The snapshots of the volume, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        let core = &*self.core;
        let Some(directory) = directory(core)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut cookie = 0;
        loop {
            let entries = self.entries(directory.ino, cookie, 100)?;
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for entry in entries {
                let at = core.table.at(entry.ino).ok_or(Error::Stale { ino: entry.ino })?;
                let taken = core.media().get::<Inode>(at).taken;
                found.push(VolumeSnapshot { name: entry.name, root: entry.ino, taken });
            }
        }
        found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// The root directory of a snapshot. Its tree is read as that of the volume is, and every call
    /// that would change it is refused with [`Error::ReadOnly`]. A file of it may be the source of
    /// [`Volume::copy_range`] and [`Volume::clone_range`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameTooLong`], [`Error::Damaged`].
    pub fn snapshot_root(&self, name: &[u8]) -> Result<Ino> {
        match directory(&self.core)? {
            Some(directory) => self.lookup(directory.ino, name)?.ok_or(Error::NotFound),
            None => Err(Error::NotFound),
        }
    }

    /// Removes a snapshot, and frees the pages that no other file shares. Ordered on return; a
    /// crash leaves the snapshot whole or absent. Files of it that are held stay until they are
    /// released. The time grows with the number of its files and extents; changes of the volume go
    /// on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::BadName`], [`Error::NameTooLong`], [`Error::Damaged`]: nothing
    /// has changed.
    pub fn remove_snapshot(&self, name: &[u8]) -> Result<()> {
        let core = &*self.core;
        require_name(name)?;
        let _one = core.snapshots.lock();
        let directory = directory(core)?.ok_or(Error::NotFound)?;
        let mut state = directory.write_index(core)?;
        let named = state.names(core, &directory)?.get(core, name).ok_or(Error::NotFound)?;
        if !seeded("fs-snapshot-unadopted") {
            core.freeze.adopt();
        }
        let mut change = core.change();
        change.set(state.names(core, &directory)?.at(core, named.line), 0);
        change.set_number(directory.at + inode::LINKS, directory.links(core) - 1);
        touch(&mut change, &directory);
        change.commit()?;
        state.names(core, &directory)?.remove(core, name);
        drop(state);
        free_all(core, named.ino);
        Ok(())
    }
}

/// The node of the directory of snapshots.
fn directory(core: &Core) -> Result<Option<Arc<Node>>> {
    let found = published::directory(Pages::of(core.object())).map_err(|damage| damage.of_object(core.name()))?;
    found.map(|ino| core.node(ino)).transpose()
}

/// The node of the directory of snapshots, which is made at its first use: it belongs to itself,
/// and a word behind the head leads to it.
fn made_directory(core: &Core) -> Result<Arc<Node>> {
    if let Some(directory) = directory(core)? {
        return Ok(directory);
    }
    let ino = core.table.take(core)?;
    let page = core.take_run(1).inspect_err(|_| core.table.give(ino))?;
    let zeros = core.zero_pages(page, 1);
    let at = core.table.at(ino).expect("the table has it");
    let mut change = core.change();
    let body = Body::new(FileKind::Directory, 0o700, change.now() as i64);
    let old = State::of(core.media().load(at + inode::STATE));
    let mut content = body.inode(old);
    (content.parent, content.snapshot, content.size) = (ino.0, ino.0, seal_low(PAGE));
    content.checksum = content.owner_sum();
    content.inline[..8].copy_from_slice(&Run { first: 0, len: 1 }.word().to_le_bytes());
    content.inline[8..16].copy_from_slice(&zeros.word().to_le_bytes());
    let state = State { flags: STATE_SNAPSHOT, ..body.state(old.generation) };
    let inode = NewInode::blank(ino, at, state).put(core.media(), &content);
    change.make_live(&inode);
    change.link(core.at(0) + SNAPSHOTS_AT, &inode);
    change.commit().inspect_err(|_| {
        core.give_pages(page, 1);
        core.table.give(ino);
    })?;
    core.node(ino)
}

/// Steps 2 and 3 of making a snapshot.
fn publish(core: &Core, name: &[u8], twins: &copy::Twins) -> Result<()> {
    let directory = made_directory(core)?;
    let mut state = directory.write_index(core)?;
    let line = state.free_line(core, &directory, name)?;
    // The twins before their states.
    twins.set_live(core, &core.media().fence_after_unless("fs-snapshot-unfenced", twins.fresh()));
    let names = state.names(core, &directory)?;
    let entry = names.write(core, line, name, FileKind::Directory, twins.root());
    let mut change = core.change();
    change.name(&entry);
    change.set_number(directory.at + inode::LINKS, directory.links(core) + 1);
    touch(&mut change, &directory);
    change.commit()?;
    names.insert(name, twins.root(), line);
    Ok(())
}

/// Steps 2 and 3 of removing the snapshot `root`. A damaged inode is left to the next opening.
fn free_all(core: &Core, root: Ino) {
    let (mut numbers, mut pages, mut is_free) = (Vec::new(), Vec::new(), true);
    for ino in core.table.numbers() {
        let at = core.table.at(ino).expect("the number is the table's");
        let inode: Inode = core.media().get(at);
        let state = State::checked(inode.state);
        let is_of_this = state.is_none_or(|state| state.mode != 0 && state.flags & STATE_SNAPSHOT != 0);
        if is_of_this && inode.snapshot == root.0 {
            match free(core, ino, &mut pages) {
                Ok(freed) => numbers.extend(freed),
                Err(_) => is_free = false,
            }
        }
    }
    core.media().fence_unless("fs-snapshot-free-unfenced");
    core.give_runs(&pages);
    // A damaged inode names the root still (FS-23); one that is held has no link.
    let (roots, others): (Vec<Ino>, Vec<Ino>) = numbers.into_iter().partition(|&ino| ino == root);
    core.table.give_many(others.into_iter());
    core.table.give_many(roots.into_iter().filter(|_| is_free));
}

/// Frees an inode of a snapshot, flushed and not fenced. Returns it unless it is held.
fn free(core: &Core, ino: Ino, pages: &mut Vec<(u64, u64)>) -> Result<Option<Ino>> {
    let node = core.node(ino)?;
    let mut state = node.write_index(core)?;
    let media = core.media();
    let _section = media.section();
    if !node.leave() {
        media.store(node.at + inode::LINKS, seal_low(0));
        media.flush(node.at + inode::LINKS, 8);
        return Ok(None);
    }
    pages.extend(remove::pages(core, &node, &mut state)?);
    media.store(node.at + inode::STATE, remove::free_state(core, &node).word());
    media.flush_unless("fs-snapshot-free-unflushed", node.at + inode::STATE, 8);
    *state = NodeState::default();
    node.set_removed();
    core.nodes.forget(ino);
    Ok(Some(ino))
}
