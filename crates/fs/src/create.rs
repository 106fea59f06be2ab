//! New files and new names.
//!
//! One creation, a fence between the steps:
//!   1. the inode, still free, and the bytes of the entry are stored
//!   2. old words are logged: the inode's state, the entry's first word, the directory's times
//!   3. these words are stored
//!   4. the lane is retired

use crate::change::Change;
use crate::core::Core;
use crate::layout::{INLINE, Inode, PAGE, Run, STATE_INLINE, STATE_PROJECT, State, inode};
use crate::names::require_name;
use crate::node::{Node, NodeState};
use crate::order::{Fresh, Linked, NewInode};
use crate::quota::usage::{Delta, Owner};
use crate::table::Body;
use crate::volume::Volume;
use crate::xattr;
use crate::{Error, FileKind, Found, Held, Ino, Result};
use everbyte_media::sealed::seal_low;
use std::sync::Arc;

/// Links that an inode may have.
pub const LINKS_MAX: u64 = 1 << 31;
/// Bytes of the longest target of a symbolic link.
pub const TARGET_MAX: usize = PAGE as usize - 1;

/// A file to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile<'a> {
    /// Its type.
    pub kind: FileKind,
    /// Permission bits, the sticky bit and the set-id bits.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of a device; 0 in other files.
    pub device: u64,
    /// The target of a symbolic link; empty in other files.
    pub target: &'a [u8],
    /// Extended attributes, by name.
    pub xattrs: &'a [(&'a [u8], &'a [u8])],
}

impl NewFile<'_> {
    /// A file of this type, of user and group 0.
    pub fn new(kind: FileKind, permissions: u16) -> NewFile<'static> {
        NewFile { kind, permissions, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] }
    }
}

impl Volume {
    /// Makes a file and gives it the name `name` in the directory `directory`. Ordered on return:
    /// durable at once where fences settle, else after [`Volume::settle`]. A crash leaves the file
    /// whole or absent.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NotADirectory`], [`Error::Stale`], [`Error::BadName`],
    /// [`Error::NameTooLong`], [`Error::TooManyLinks`], [`Error::TooLarge`] for a long target,
    /// [`Error::NoSpace`], [`Error::NoInodes`]: nothing has changed.
    pub fn make(&self, directory: Ino, name: &[u8], new: &NewFile<'_>) -> Result<Ino> {
        make_in(&self.core, &*self.core.node(directory)?, name, new, Ok)
    }

    /// [`Volume::make`] in a directory that a call has found. The file is held from the start.
    ///
    /// # Errors
    /// As [`Volume::make`].
    pub fn make_held(&self, directory: &Found, name: &[u8], new: &NewFile<'_>) -> Result<Held> {
        make_in(&self.core, &directory.node, name, new, |ino| {
            let node = self.core.node(ino)?;
            node.hold(&self.core)?;
            Ok(Held { core: Arc::clone(&self.core), node })
        })
    }

    /// Makes a file without a name, which lives until the result is dropped, or gets a name by
    /// [`Volume::link`]. A crash removes it.
    ///
    /// # Errors
    /// As [`Volume::make`].
    pub fn make_unnamed(&self, new: &NewFile<'_>) -> Result<Held> {
        self.make_without_name(None, new)
    }

    /// As [`Volume::make_unnamed`], of the project that the directory passes on.
    ///
    /// # Errors
    /// As [`Volume::make`].
    pub fn make_unnamed_in(&self, directory: Ino, new: &NewFile<'_>) -> Result<Held> {
        self.make_without_name(Some(directory), new)
    }

    fn make_without_name(&self, directory: Option<Ino>, new: &NewFile<'_>) -> Result<Held> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let directory = directory.map(|ino| core.node(ino)).transpose()?;
        let _names = directory.as_ref().map(|node| node.read(core)).transpose()?;
        let ino = core.table.take(core)?;
        let mut change = core.change();
        let unnamed = |content: &mut Inode, state: &mut State| {
            content.links = seal_low(0);
            if let Some(directory) = &directory {
                inherit_project(core, directory, new.kind, content, state);
            }
        };
        let prepared = prepare(core, ino, new, change.now(), unnamed).inspect_err(|_| core.table.give(ino))?;
        change.make_live(&prepared.inode);
        change.charge_owner(prepared.delta);
        change.commit().inspect_err(|_| {
            prepared.give_back(core);
            core.table.give(ino);
        })?;
        let held = self.hold(ino)?;
        let _state = held.node.lock_last();
        held.node.leave(); // its last holder frees it
        drop(_state);
        Ok(held)
    }

    /// Gives a file one more name. Ordered on return.
    ///
    /// # Errors
    /// [`Error::IsADirectory`], [`Error::TooManyLinks`]; [`Error::OtherProject`] where the
    /// directory passes its project on; otherwise as [`Volume::make`].
    pub fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_name(name)?;
        let _tree = core.tree.read();
        let (parent, node) = (core.node(directory)?, core.node(ino)?);
        if node.kind(core)? == FileKind::Directory {
            return Err(Error::IsADirectory { ino });
        }
        let mut names = parent.write(core)?;
        require_absent(core, &parent, &mut names, name)?;
        let line = names.free_line(core, &parent, name)?;
        let _file = node.write(core)?;
        let links = node.links(core);
        if links >= LINKS_MAX {
            return Err(Error::TooManyLinks { ino, max: LINKS_MAX });
        }
        require_project(core, &parent, &node)?;
        let kind = node.kind(core)?;
        let entry = names.names(core, &parent)?.write(core, line, name, kind, ino);
        let mut change = core.change();
        change.name(&entry);
        change.set_number(node.at + inode::LINKS, links + 1);
        change.set(node.at + inode::CHANGED, change.now());
        touch(&mut change, &parent);
        change.commit()?;
        names.names(core, &parent)?.insert(name, ino, line);
        Ok(())
    }
}

/// Makes a file in a directory, and calls `made` before the name may be withdrawn.
fn make_in<T>(
    core: &Core,
    node: &Node,
    name: &[u8],
    new: &NewFile<'_>,
    made: impl FnOnce(Ino) -> Result<T>,
) -> Result<T> {
    let _change = core.freeze.enter();
    require_name(name)?;
    if new.target.len() > TARGET_MAX {
        return Err(Error::TooLarge { len: new.target.len() as u64, max: TARGET_MAX as u64 });
    }
    let _tree = core.tree.read();
    let mut state = node.write(core)?;
    require_absent(core, node, &mut state, name)?;
    let is_directory = new.kind == FileKind::Directory;
    if is_directory {
        require_links(core, node)?;
    }
    let line = state.free_line(core, node, name)?;
    let ino = core.table.take(core)?;
    make(core, node, &mut state, ino, line, name, new).inspect_err(|_| core.table.give(ino))?;
    state.names(core, node)?.insert(name, ino, line);
    made(ino)
}

fn require_absent(core: &Core, node: &Node, state: &mut NodeState, name: &[u8]) -> Result<()> {
    match state.names(core, node)?.get(core, name) {
        Some(_) => Err(Error::Exists),
        // A directory that was removed while it was held gets no new names.
        None if node.links(core) == 0 => Err(Error::Stale { ino: node.ino }),
        None => Ok(()),
    }
}

/// Refuses a directory that has as many subdirectories as it may have.
pub(crate) fn require_links(core: &Core, node: &Node) -> Result<()> {
    match node.links(core) {
        LINKS_MAX.. => Err(Error::TooManyLinks { ino: node.ino, max: LINKS_MAX }),
        _ => Ok(()),
    }
}

/// The times of a directory whose names change.
pub(crate) fn touch(change: &mut Change<'_>, directory: &Node) {
    let now = change.now();
    change.set(directory.at + inode::MODIFIED, now);
    change.set(directory.at + inode::CHANGED, now);
}

/// A new file that is not live yet.
pub(crate) struct Prepared {
    /// Its inode.
    pub inode: Fresh<NewInode>,
    /// Its charge.
    pub delta: Delta,
    /// The pages of a long target and of extended attributes.
    pages: Vec<(u64, u64)>,
}

impl Prepared {
    pub(crate) fn give_back(&self, core: &Core) {
        core.give_runs(&self.pages);
    }
}

/// Stores the inode `ino`, which is still free, and the pages of a new file; `adapt` changes it
/// before.
pub(crate) fn prepare(
    core: &Core,
    ino: Ino,
    new: &NewFile<'_>,
    now: u64,
    adapt: impl FnOnce(&mut Inode, &mut State),
) -> Result<Prepared> {
    let at = core.table.at(ino).expect("the table has it");
    let old = State::of(core.media().load(at + inode::STATE));
    let mut body = Body::new(new.kind, new.permissions, now as i64);
    (body.uid, body.gid, body.device) = (new.uid, new.gid, new.device);
    let (mut content, mut state) = (body.inode(old), body.state(old.generation));
    content.size = seal_low(new.target.len() as u64);
    if new.kind == FileKind::Regular {
        state.flags |= core.page_size.flag();
    }
    let xattrs = new.xattrs.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let run = xattr::write_run(core, &xattrs)?;
    let mut pages: Vec<(u64, u64)> = run.iter().map(|run| run.pages()).collect();
    content.attributes = run.map_or(0, |run| run.word());
    if let Some(bytes) = content.inline.get_mut(..new.target.len()) {
        bytes.copy_from_slice(new.target);
    } else {
        let page = core.take_run(1).inspect_err(|_| core.give_runs(&pages))?;
        pages.push((page, 1));
        let mut bytes = [0; PAGE as usize];
        bytes[..new.target.len()].copy_from_slice(new.target);
        let place = core.copy_pages_unless("fs-target-unflushed", page, &bytes);
        content.inline[..8].copy_from_slice(&Run { first: 0, len: 1 }.word().to_le_bytes());
        content.inline[8..16].copy_from_slice(&place.word().to_le_bytes());
        state.flags &= !STATE_INLINE;
    }
    adapt(&mut content, &mut state);
    content.checksum = content.owner_sum();
    let inode = NewInode::blank(ino, at, state).put(core.media(), &content);
    let delta = Delta::new_file(Owner::of(&content), pages.iter().map(|(_, count)| count).sum());
    Ok(Prepared { inode, delta, pages })
}

/// The project of a new file, if its directory passes it on.
pub(crate) fn inherit_project(core: &Core, directory: &Node, kind: FileKind, content: &mut Inode, state: &mut State) {
    if directory.state_word(core).flags & STATE_PROJECT != 0 {
        content.project = directory.inode(core).project;
        if kind == FileKind::Directory {
            state.flags |= STATE_PROJECT;
        }
    }
}

/// Refuses a file of another project than that which a directory passes on to all of its files.
pub(crate) fn require_project(core: &Core, directory: &Node, node: &Node) -> Result<()> {
    let project = directory.inode(core).project;
    match directory.state_word(core).flags & STATE_PROJECT != 0 && project != node.inode(core).project {
        true => Err(Error::OtherProject { ino: node.ino, project }),
        false => Ok(()),
    }
}

fn make(
    core: &Core,
    directory: &Node,
    names: &mut NodeState,
    ino: Ino,
    line: u32,
    name: &[u8],
    new: &NewFile<'_>,
) -> Result<()> {
    let mut change = core.change();
    let inherit = |content: &mut Inode, state: &mut State| {
        if new.kind == FileKind::Directory {
            content.parent = directory.ino.0;
        }
        inherit_project(core, directory, new.kind, content, state);
    };
    let prepared = prepare(core, ino, new, change.now(), inherit)?;
    let entry = names.names(core, directory)?.write(core, line, name, new.kind, ino);
    change.make_live(&prepared.inode);
    change.charge_owner(prepared.delta);
    change.name(&entry);
    touch(&mut change, directory);
    if new.kind == FileKind::Directory {
        change.set_number(directory.at + inode::LINKS, directory.links(core) + 1);
    }
    change.commit().inspect_err(|_| prepared.give_back(core))
}

const _: () = assert!(INLINE < TARGET_MAX as u64);
