//! Extended attributes: named bytes beside a file.
//!
//! All attributes of a file lie in one run of pages, which its inode leads to. A change writes a
//! new run, and then one word of the inode together with the time of its change.

pub(crate) mod run;

use crate::change::Change;
use crate::core::Core;
use crate::extents::Pages;
use crate::layout::{PAGE, Place, XATTRS_MAX, inode};
use crate::node::Node;
use crate::order::{Fresh, Linked};
use crate::space::Space;
use crate::volume::Volume;
use crate::{Error, Ino, Result};
use run::{HEAD, Xattrs, read, written};

/// Whether an attribute may exist, see [`Volume::set_xattr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// It is made, or replaced.
    Any,
    /// It is made; one that exists is an error.
    Create,
    /// It is replaced; one that is absent is an error.
    Replace,
}

fn require_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(Error::BadName),
        1..=255 if !name.contains(&0) => Ok(()),
        1..=255 => Err(Error::BadName),
        len => Err(Error::NameTooLong { len }),
    }
}

impl Volume {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`]; [`Error::Stale`], [`Error::Damaged`].
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.all_xattrs(ino)?.remove(name).ok_or(Error::NoAttribute { ino })
    }

    /// The names of the extended attributes of a file, in order.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Damaged`].
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(self.all_xattrs(ino)?.into_keys().collect())
    }

    fn all_xattrs(&self, ino: Ino) -> Result<Xattrs> {
        let core = &*self.core;
        let node = core.node(ino)?;
        let _state = node.read(core)?;
        let all = load(core, &node)?;
        core.object().require_readable()?;
        Ok(all)
    }

    /// Sets an extended attribute. Ordered on return; whole or absent after a crash.
    ///
    /// # Errors
    /// [`Error::Exists`] and [`Error::NoAttribute`] as `mode` says; [`Error::BadName`],
    /// [`Error::NameTooLong`]; [`Error::TooLarge`] if the attributes of the file are more than
    /// 64 KiB together; [`Error::NoSpace`]: nothing has changed.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        require_name(name)?;
        self.change_xattrs(ino, |all| match (all.contains_key(name), mode) {
            (true, SetXattr::Create) => Err(Error::Exists),
            (false, SetXattr::Replace) => Err(Error::NoAttribute { ino }),
            _ => {
                all.insert(name.to_vec(), value.to_vec());
                Ok(())
            }
        })
    }

    /// Removes an extended attribute. Ordered on return; whole or absent after a crash.
    ///
    /// # Errors
    /// [`Error::NoAttribute`]; otherwise as [`Volume::set_xattr`].
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change_xattrs(ino, |all| match all.remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::NoAttribute { ino }),
        })
    }

    fn change_xattrs(&self, ino: Ino, change: impl FnOnce(&mut Xattrs) -> Result<()>) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let node = core.node(ino)?;
        let _state = node.write(core)?;
        let mut all = load(core, &node)?;
        change(&mut all)?;
        let mut words = core.change();
        let replaced = Replaced::write(core, &node, &mut words, &all)?;
        words.set(node.at + inode::CHANGED, words.now());
        replaced.commit(core, words)
    }
}

/// The new run of a file's attributes, which a change will lead to, and the old one.
pub(crate) struct Replaced {
    old: Option<(u64, u64, bool)>,
    new: Option<Fresh<NewAttributes>>,
}

/// A run of pages with attributes that nothing leads to yet.
#[derive(Clone, Copy)]
pub(crate) struct NewAttributes {
    page: u64,
    count: u64,
}

impl NewAttributes {
    /// Its first page, and their number.
    pub(crate) fn pages(self) -> (u64, u64) {
        (self.page, self.count)
    }
}

impl Linked for NewAttributes {
    fn word(&self) -> u64 {
        Place::page(self.page).word()
    }
}

impl Replaced {
    /// Writes `all` to new pages, flushed and not fenced, and adds the word that leads to them.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoSpace`]; [`Error::Damaged`] if the old run is damaged.
    pub(crate) fn write(core: &Core, node: &Node, words: &mut Change<'_>, all: &Xattrs) -> Result<Replaced> {
        let old = run::run(Pages::of(core.object()), node.at).map_err(|damage| node.damaged(core, damage))?;
        let new = write_run(core, all)?;
        let count = |run: Option<u64>| run.map_or(0, |count| count as i64);
        let more = count(new.as_ref().map(|new| new.count)) - count(old.map(|(_, count, _)| count));
        words.charge(node.at, more, 0);
        match &new {
            Some(new) => words.link(node.at + inode::ATTRIBUTES, new),
            None => words.set(node.at + inode::ATTRIBUTES, 0),
        }
        Ok(Replaced { old, new })
    }

    /// Commits the change.
    pub(crate) fn commit(self, core: &Core, words: Change<'_>) -> Result<()> {
        words.commit().inspect_err(|_| self.new.iter().for_each(|new| core.give_runs(&[new.pages()])))?;
        if let Some((page, count, _)) = self.old {
            core.give_pages(page, count);
        }
        Ok(())
    }
}

/// Writes attributes to new pages.
pub(crate) fn write_run(core: &Core, all: &Xattrs) -> Result<Option<Fresh<NewAttributes>>> {
    if all.is_empty() {
        return Ok(None);
    }
    let bytes = written(all);
    let len = (bytes.len() - HEAD) as u64;
    if len > XATTRS_MAX {
        return Err(Error::TooLarge { len, max: XATTRS_MAX });
    }
    let count = (bytes.len() as u64).div_ceil(PAGE);
    let page = core.take_run(count)?;
    let new = core.copy_pages_unless("fs-xattr-unflushed", page, &bytes);
    Ok(Some(new.with(NewAttributes { page, count })))
}

pub(crate) fn load(space: &Space, node: &Node) -> Result<Xattrs> {
    read(Pages::of(space.object()), node.at).map_err(|damage| node.damaged(space, damage))
}
