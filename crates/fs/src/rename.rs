//! Renaming: one change of all words that the old and the new name consist of.

use crate::attributes::Found;
use crate::change::Change;
use crate::core::Core;
use crate::create::{NewFile, Prepared, inherit_project, prepare, require_links, require_project, touch};
use crate::layout::{EntryHead, Inode, State, inode, number};
use crate::names::{Named, Names, require_name};
use crate::node::{Node, NodeState, Writing};
use crate::remove::{drop_link, finish, require_empty};
use crate::volume::Volume;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::sealed::seal_low;
use std::sync::Arc;

/// The fate of a file that has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename<'a> {
    /// It loses the name.
    Replace,
    /// The rename is refused.
    NoReplace,
    /// The two files exchange their names.
    Exchange,
    /// The old name leads to a new file, in the same change: a whiteout of an overlay.
    Whiteout {
        /// Whether a file with the new name loses it; else the rename is refused.
        replace: bool,
        /// The new file, which is no directory.
        file: NewFile<'a>,
    },
}

/// The directories of a rename, locked: one or two.
struct Directories<'n> {
    from: &'n Node,
    to: &'n Node,
    from_state: Writing<'n>,
    /// `None`: both are one.
    to_state: Option<Writing<'n>>,
}

impl<'n> Directories<'n> {
    /// One directory, with both names.
    fn one(core: &'n Core, directory: &'n Node) -> Result<Directories<'n>> {
        Ok(Directories { from: directory, to: directory, from_state: directory.write(core)?, to_state: None })
    }

    /// The file that a name of the only directory leads to.
    fn found(&mut self, core: &Core, name: &[u8]) -> Result<Option<Arc<Node>>> {
        let named = self.from_state.names(core, self.from)?.get(core, name);
        named.map(|named| core.node(named.ino)).transpose()
    }

    fn target(&mut self) -> &mut NodeState {
        self.to_state.as_mut().unwrap_or(&mut self.from_state)
    }
}

impl Volume {
    /// Gives the file `from_name` of `from` the name `to_name` in `to`. Ordered on return. After a
    /// crash all of it has happened, or nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Exists`] with [`Rename::NoReplace`]; [`Error::NotEmpty`],
    /// [`Error::IsADirectory`] and [`Error::NotADirectory`] for the replaced file;
    /// [`Error::Loop`] for a directory that would move below itself; [`Error::OtherProject`] where
    /// the directory passes its project on; otherwise as
    /// [`Volume::make`]. Nothing has changed then.
    pub fn rename(&self, from: Ino, from_name: &[u8], to: Ino, to_name: &[u8], mode: Rename<'_>) -> Result<()> {
        if from == to && self.rename_if(from, from_name, to_name, mode, |_, _| true)? {
            return Ok(());
        }
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_name(from_name)?;
        require_name(to_name)?;
        let _tree = core.tree.write();
        let (from, to) = (core.node(from)?, core.node(to)?);
        let mut both = Directories::one(core, &from)?;
        if from.ino != to.ino {
            both.to = &to;
            both.to_state = Some(to.write(core)?);
        }
        renamed(core, &mut both, from_name, to_name, mode)
    }

    /// [`Volume::rename`] inside of a directory, of a file that a call has found there; `to` is the
    /// new name and the file that has it. `false`, and nothing has changed: a name leads to another
    /// file now, or to a directory.
    ///
    /// # Errors
    /// As [`Volume::rename`].
    pub fn rename_found(
        &self,
        directory: Ino,
        from: (&[u8], &Found),
        to: (&[u8], Option<&Found>),
        mode: Rename<'_>,
    ) -> Result<bool> {
        let is_meant = |moved: Option<&Arc<Node>>, other: Option<&Arc<Node>>| {
            let is = |node: Option<&Arc<Node>>, found: Option<&Found>| match (node, found) {
                (Some(node), Some(found)) => Arc::ptr_eq(node, &found.node),
                (None, None) => true,
                _ => false,
            };
            is(moved, Some(from.1)) && is(other, to.1)
        };
        self.rename_if(directory, from.0, to.0, mode, is_meant)
    }

    /// Renames in a directory, if the names lead to files that are meant, and none to a directory.
    fn rename_if(
        &self,
        directory: Ino,
        from_name: &[u8],
        to_name: &[u8],
        mode: Rename<'_>,
        is_meant: impl FnOnce(Option<&Arc<Node>>, Option<&Arc<Node>>) -> bool,
    ) -> Result<bool> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        require_name(from_name)?;
        require_name(to_name)?;
        let _tree = core.tree.read();
        let directory = core.node(directory)?;
        let mut both = Directories::one(core, &directory)?;
        let moved = both.found(core, from_name)?;
        let other = both.found(core, to_name)?;
        for node in moved.iter().chain(&other) {
            if node.kind(core)? == FileKind::Directory {
                return Ok(false);
            }
        }
        if !is_meant(moved.as_ref(), other.as_ref()) {
            return Ok(false);
        }
        renamed(core, &mut both, from_name, to_name, mode)?;
        Ok(true)
    }
}

/// A rename in locked directories.
fn renamed(core: &Core, both: &mut Directories<'_>, from_name: &[u8], to_name: &[u8], mode: Rename<'_>) -> Result<()> {
    let (from, to) = (both.from, both.to);
    let moved = both.from_state.names(core, from)?.get(core, from_name).ok_or(Error::NotFound)?;
    let other = both.target().names(core, to)?.get(core, to_name);
    if to.links(core) == 0 {
        return Err(Error::Stale { ino: to.ino });
    }
    match (other, mode) {
        (Some(other), Rename::Replace | Rename::Whiteout { replace: true, .. }) if other.ino == moved.ino => Ok(()),
        (Some(_), Rename::NoReplace | Rename::Whiteout { replace: false, .. }) => Err(Error::Exists),
        (None, Rename::Exchange) => Err(Error::NotFound),
        (Some(other), Rename::Exchange) => exchange(core, both, (from_name, moved), (to_name, other)),
        (Some(other), _) => {
            let left = Left::take(core, from, mode)?;
            let renamed = replace(core, both, (from_name, moved), (to_name, other), &left);
            renamed.inspect_err(|_| left.give_back(core))
        }
        (None, _) => {
            let left = Left::take(core, from, mode)?;
            let renamed = rename(core, both, (from_name, moved), to_name, &left);
            renamed.inspect_err(|_| left.give_back(core))
        }
    }
}

/// The inode that the old name leads to after a rename; `None`: the name is gone.
struct Left(Option<Whiteout>);

/// A new file, still free.
struct Whiteout {
    ino: Ino,
    kind: FileKind,
    prepared: Prepared,
}

impl Left {
    fn take(core: &Core, directory: &Node, mode: Rename<'_>) -> Result<Left> {
        let Rename::Whiteout { file: new, .. } = mode else { return Ok(Left(None)) };
        if new.kind == FileKind::Directory {
            return Err(Error::BadOption { detail: "a whiteout is no directory".into() });
        }
        let ino = core.table.take(core)?;
        let inherit =
            |content: &mut Inode, state: &mut State| inherit_project(core, directory, new.kind, content, state);
        let prepared = prepare(core, ino, &new, core.now() as u64, inherit).inspect_err(|_| core.table.give(ino))?;
        Ok(Left(Some(Whiteout { ino, kind: new.kind, prepared })))
    }

    fn give_back(&self, core: &Core) {
        if let Some(left) = &self.0 {
            left.prepared.give_back(core);
            core.table.give(left.ino);
        }
    }

    /// Changes the old entry.
    fn set(&self, change: &mut Change<'_>, entry: u64, name: &[u8]) {
        let Some(left) = &self.0 else { return change.set(entry, 0) };
        change.make_live(&left.prepared.inode);
        change.charge_owner(left.prepared.delta);
        change.link(entry, &left.prepared.inode);
        change.set(entry + 8, EntryHead::new(name, left.kind.byte()).word());
    }

    /// Follows the change in the index of the directory.
    fn apply(&self, core: &Core, names: &mut Names, name: &[u8]) {
        match &self.0 {
            Some(left) => names.replace(core, name, left.ino),
            None => names.remove(core, name),
        }
    }
}

/// Refuses to move a directory below itself.
fn require_outside(core: &Core, moved: &Node, directory: &Node) -> Result<()> {
    let mut at = directory.ino;
    for _ in 0..=core.table.numbers().size_hint().1.unwrap_or(usize::MAX) {
        if at == moved.ino {
            return Err(Error::Loop { ino: moved.ino });
        }
        if at == Ino::ROOT {
            return Ok(());
        }
        at = Ino(core.node(at)?.inode(core).parent);
    }
    Err(Error::Loop { ino: moved.ino })
}

/// Moves a directory's entry: its own word of its parent, and the links of both.
fn move_directory(core: &Core, change: &mut Change<'_>, moved: &Node, from: &Node, to: &Node) -> Result<()> {
    if from.ino == to.ino {
        return Ok(());
    }
    require_outside(core, moved, to)?;
    require_links(core, to)?;
    let mut inode = moved.inode(core);
    inode.parent = to.ino.0;
    inode.checksum = inode.owner_sum();
    let owner = u64::from(inode.checksum) | u64::from(inode.uid) << 32;
    change.set(moved.at + inode::OWNER, owner);
    change.set(moved.at + inode::PARENT, inode.parent);
    let links = |change: &Change<'_>, node: &Node| number(change.get(node.at + inode::LINKS));
    change.set_number(from.at + inode::LINKS, links(change, from) - 1);
    change.set_number(to.at + inode::LINKS, links(change, to) + 1);
    Ok(())
}

fn rename(core: &Core, both: &mut Directories<'_>, moved: (&[u8], Named), to_name: &[u8], left: &Left) -> Result<()> {
    let node = core.node(moved.1.ino)?;
    let (from, to) = (both.from, both.to);
    let kind = node.kind(core)?;
    require_project(core, to, &node)?;
    if kind == FileKind::Directory && from.ino != to.ino {
        require_outside(core, &node, to)?; // before its lock: it could be `to`
        require_links(core, to)?;
    }
    let line = both.target().free_line(core, to, to_name)?;
    let _file = node.write(core)?;
    let names = both.target().names(core, to)?;
    let entry = names.write(core, line, to_name, kind, node.ino);
    let mut change = core.change();
    change.name(&entry);
    left.set(&mut change, both.from_state.names(core, from)?.at(core, moved.1.line), moved.0);
    touch(&mut change, from);
    touch(&mut change, to);
    change.set(node.at + inode::CHANGED, change.now());
    if kind == FileKind::Directory {
        move_directory(core, &mut change, &node, from, to)?;
    }
    change.commit()?;
    left.apply(core, both.from_state.names(core, from)?, moved.0);
    both.target().names(core, to)?.insert(to_name, node.ino, line);
    Ok(())
}

fn replace(
    core: &Core,
    both: &mut Directories<'_>,
    moved: (&[u8], Named),
    other: (&[u8], Named),
    left: &Left,
) -> Result<()> {
    let (node, gone) = (core.node(moved.1.ino)?, core.node(other.1.ino)?);
    let (from, to) = (both.from, both.to);
    let (kind, gone_kind) = (node.kind(core)?, gone.kind(core)?);
    require_project(core, to, &node)?;
    match (kind, gone_kind) {
        (FileKind::Directory, FileKind::Directory) if from.ino != to.ino => require_outside(core, &node, to)?,
        (FileKind::Directory, FileKind::Directory) => (),
        (FileKind::Directory, _) => return Err(Error::NotADirectory { ino: gone.ino }),
        (_, FileKind::Directory) => return Err(Error::IsADirectory { ino: gone.ino }),
        _ => (),
    }
    if gone.ino == from.ino {
        return Err(Error::NotEmpty { ino: gone.ino }); // it holds the file that is renamed
    }
    let (_file, mut lost) = lock_both(core, &node, &gone)?;
    if gone_kind == FileKind::Directory {
        require_empty(core, &gone, &mut lost)?;
    }
    let mut change = core.change();
    let entry = both.target().names(core, to)?.at(core, other.1.line);
    change.set(entry, seal_low(node.ino.0));
    change.set(entry + 8, EntryHead::new(other.0, kind.byte()).word());
    left.set(&mut change, both.from_state.names(core, from)?.at(core, moved.1.line), moved.0);
    touch(&mut change, from);
    touch(&mut change, to);
    change.set(node.at + inode::CHANGED, change.now());
    if gone_kind == FileKind::Directory {
        change.set_number(to.at + inode::LINKS, to.links(core) - 1);
    }
    if kind == FileKind::Directory {
        move_directory(core, &mut change, &node, from, to)?;
    }
    let freed = drop_link(core, &mut change, &gone, &mut lost)?;
    change.commit()?;
    left.apply(core, both.from_state.names(core, from)?, moved.0);
    both.target().names(core, to)?.replace(core, other.0, node.ino);
    finish(core, &gone, &mut lost, freed);
    Ok(())
}

fn exchange(core: &Core, both: &mut Directories<'_>, one: (&[u8], Named), other: (&[u8], Named)) -> Result<()> {
    if one.1.ino == other.1.ino {
        return Ok(());
    }
    let (first, second) = (core.node(one.1.ino)?, core.node(other.1.ino)?);
    let (from, to) = (both.from, both.to);
    let kinds = (first.kind(core)?, second.kind(core)?);
    require_project(core, to, &first)?;
    require_project(core, from, &second)?;
    // A directory that holds the other name would come to lie in itself.
    for (moved, directory, kind) in [(&first, to, kinds.0), (&second, from, kinds.1)] {
        if kind == FileKind::Directory {
            require_outside(core, moved, directory)?;
        }
    }
    let _both = lock_both(core, &first, &second)?;
    let mut change = core.change();
    let from_entry = both.from_state.names(core, from)?.at(core, one.1.line);
    let to_entry = both.target().names(core, to)?.at(core, other.1.line);
    change.set(from_entry, seal_low(second.ino.0));
    change.set(from_entry + 8, EntryHead::new(one.0, kinds.1.byte()).word());
    change.set(to_entry, seal_low(first.ino.0));
    change.set(to_entry + 8, EntryHead::new(other.0, kinds.0.byte()).word());
    touch(&mut change, from);
    touch(&mut change, to);
    for node in [&first, &second] {
        change.set(node.at + inode::CHANGED, change.now());
    }
    if kinds.0 == FileKind::Directory {
        move_directory(core, &mut change, &first, from, to)?;
    }
    if kinds.1 == FileKind::Directory {
        move_directory(core, &mut change, &second, to, from)?;
    }
    change.commit()?;
    both.from_state.names(core, from)?.replace(core, one.0, second.ino);
    both.target().names(core, to)?.replace(core, other.0, first.ino);
    Ok(())
}

/// Locks two files that are not one, neither of them a directory of the rename: in the order of
/// their numbers, as others do who lock two.
fn lock_both<'n>(core: &'n Core, one: &'n Arc<Node>, other: &'n Arc<Node>) -> Result<(Writing<'n>, Writing<'n>)> {
    if one.ino < other.ino {
        let first = one.write(core)?;
        Ok((first, other.write(core)?))
    } else {
        let first = other.write(core)?;
        Ok((one.write(core)?, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VolumeOptions;
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::sync::mpsc;
    use std::time::Duration;

    /// A file that stays in its directory is renamed beside other changes of names; a directory is
    /// not.
    #[test]
    fn files_of_one_directory_are_renamed_under_the_tree_lock_for_reading() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = VolumeOptions { span: Some(32 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(&store, "files", &options).unwrap();
        let names: [(&[u8], FileKind); 3] =
            [(b"one", FileKind::Regular), (b"two", FileKind::Regular), (b"inside", FileKind::Directory)];
        for (name, kind) in names {
            volume.make(Ino::ROOT, name, &NewFile::new(kind, 0o755)).unwrap();
        }
        std::thread::scope(|scope| {
            let other_change = volume.core.tree.read();
            let (done, renamed) = mpsc::channel();
            let (root, volume) = (Ino::ROOT, &volume);
            scope.spawn(move || {
                done.send(volume.rename(root, b"one", root, b"new", Rename::Replace)).unwrap();
                done.send(volume.rename(root, b"new", root, b"two", Rename::Exchange)).unwrap();
                done.send(volume.rename(root, b"new", root, b"two", Rename::Replace)).unwrap();
                done.send(volume.rename(root, b"inside", root, b"moved", Rename::Replace)).unwrap();
            });
            for _ in 0..3 {
                renamed.recv_timeout(Duration::from_secs(60)).expect("no wait for the other change").unwrap();
            }
            assert!(renamed.try_recv().is_err(), "a directory is renamed alone");
            drop(other_change);
            renamed.recv().unwrap().unwrap();
        });
        assert_eq!(volume.check(), []);
    }
}
