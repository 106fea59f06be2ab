//! Attributes of files, and lookups.

use crate::core::Core;
use crate::layout::{Inode, PAGE_LINES, inode};
use crate::names::{self, Line};
use crate::node::Node;
use crate::volume::Volume;
use crate::{Attributes, Error, FileKind, Held, Ino, Result};
use everbyte_media::Damage;
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::Arc;

/// The attributes that rights to a file depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The inode.
    pub ino: Ino,
    /// The type of the file.
    pub kind: FileKind,
    /// The permission bits, the sticky bit and the set-id bits.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Tells this file from an earlier one with the same number.
    pub generation: u32,
    /// Whether the file has extended attributes.
    pub has_xattrs: bool,
}

/// A file that a call has found, with the attributes of that moment. It may be removed; then calls
/// on it fail, and none reaches another file of its number.
#[derive(Clone)]
pub struct Found {
    pub(crate) node: Arc<Node>,
    owner: Owner,
}

impl Deref for Found {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.owner.fmt(f)
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but `/` and zero, 1 to 255 of them.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// Its type.
    pub kind: FileKind,
    /// The cookie behind this entry, for [`Volume::entries`].
    pub next: u64,
}

impl Volume {
    /// The inode of a name in a directory; `.` and `..` are none.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::Stale`], [`Error::NameTooLong`], [`Error::Damaged`].
    pub fn lookup(&self, directory: Ino, name: &[u8]) -> Result<Option<Ino>> {
        let core = &*self.core;
        if name.len() > crate::NAME_MAX {
            return Err(Error::NameTooLong { len: name.len() });
        }
        let node = core.node(directory)?;
        let state = node.read(core)?;
        if let Some(names) = &state.names {
            return Ok(names.get(core, name).map(|named| named.ino));
        }
        drop(state);
        let mut state = node.write_index(core)?;
        Ok(state.names(core, &node)?.get(core, name).map(|named| named.ino))
    }

    /// The file of a name in a directory, with what rights depend on: all of one moment.
    ///
    /// # Errors
    /// As [`Volume::lookup`].
    pub fn find(&self, directory: Ino, name: &[u8]) -> Result<Option<Found>> {
        find(&self.core, &*self.core.node(directory)?, name)
    }

    /// [`Volume::find`] in a directory that a call has found.
    ///
    /// # Errors
    /// As [`Volume::lookup`].
    pub fn find_in(&self, directory: &Found, name: &[u8]) -> Result<Option<Found>> {
        find(&self.core, &directory.node, name)
    }

    /// The attributes that rights to a file depend on; without its pages.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn owner(&self, ino: Ino) -> Result<Owner> {
        let core = &*self.core;
        let node = core.node(ino)?;
        let _state = node.read(core)?;
        owner(core, &node)
    }

    /// [`Volume::owner`], for calls that go on with the file.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn found(&self, ino: Ino) -> Result<Found> {
        found(&self.core, self.core.node(ino)?)
    }

    /// The directory that holds a directory; the root holds itself.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::Stale`], [`Error::Damaged`].
    pub fn parent(&self, directory: Ino) -> Result<Ino> {
        let core = &*self.core;
        let node = core.node(directory)?;
        let _state = node.read(core)?;
        match node.kind(core)? {
            FileKind::Directory if directory == Ino::ROOT => Ok(Ino::ROOT),
            // Its parent may be gone, too.
            FileKind::Directory if node.links(core) == 0 => Err(Error::Stale { ino: directory }),
            FileKind::Directory => Ok(Ino(whole(core, &node)?.parent)),
            _ => Err(Error::NotADirectory { ino: directory }),
        }
    }

    /// Whether a directory is another one, or holds it over any number of others. The root of a
    /// snapshot holds itself.
    ///
    /// # Errors
    /// As [`Volume::parent`]; [`Error::Damaged`] for directories that hold each other in a circle.
    pub fn is_above(&self, directory: Ino, other: Ino) -> Result<bool> {
        let (mut at, mut passed) = (other, other);
        for step in 1_u64.. {
            if at == directory {
                return Ok(true);
            }
            let up = self.parent(at)?;
            if up == at {
                return Ok(false);
            }
            if up == passed {
                break;
            }
            if step.is_power_of_two() {
                passed = up;
            }
            at = up;
        }
        let node = self.core.node(at)?;
        let damage = Damage::at(node.at + inode::PARENT, format!("directory {at} lies below itself"));
        Err(damage.of_object(self.core.name()).into())
    }

    /// The entries of a directory from `cookie` on, at most `count`; 0 begins. Entries that are
    /// made meanwhile may be left out; one that exists all the time is told once. `.` and `..` are
    /// not among them.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::Stale`], [`Error::Damaged`].
    pub fn entries(&self, directory: Ino, cookie: u64, count: usize) -> Result<Vec<Entry>> {
        let core = &*self.core;
        let node = core.node(directory)?;
        let mut state = node.write_index(core)?;
        let names = state.names(core, &node)?;
        let mut entries = Vec::new();
        let first_page = (cookie / u64::from(PAGE_LINES)) as usize;
        for (index, &page) in names.pages().iter().enumerate().skip(first_page) {
            let take = |line: Line| {
                if u64::from(line.line) >= cookie {
                    let Line { line, ino, kind, name } = line;
                    entries.push(Entry { name, ino, kind, next: u64::from(line) + 1 });
                }
                Ok::<_, Damage>(())
            };
            let read = names::read_page(core.media(), core.at(page), index as u32 * PAGE_LINES, take, |_| ());
            read.map_err(|damage| node.damaged(core, damage))?;
            if entries.len() >= count {
                break;
            }
        }
        core.object().require_readable()?;
        entries.truncate(count);
        Ok(entries)
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Damaged`].
    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        let core = &*self.core;
        let node = core.node(ino)?;
        let state = node.read_extents(core)?;
        let pages = state.extents.as_ref().expect("they are loaded").page_count();
        let inode = whole(core, &node)?;
        core.object().require_readable()?;
        let damage = || Damage::at(node.at, format!("inode {ino} has a mode of no kind"));
        Attributes::of(ino, &inode, pages).ok_or_else(|| damage().of_object(core.name()).into())
    }
}

impl Held {
    /// The file, as of now.
    ///
    /// # Errors
    /// As [`Volume::attributes`].
    pub fn found(&self) -> Result<Found> {
        found(&self.core, Arc::clone(&self.node))
    }
}

fn found(core: &Core, node: Arc<Node>) -> Result<Found> {
    let state = node.read(core)?;
    let owner = owner(core, &node)?;
    drop(state);
    Ok(Found { node, owner })
}

fn find(core: &Core, directory: &Node, name: &[u8]) -> Result<Option<Found>> {
    if name.len() > crate::NAME_MAX {
        return Err(Error::NameTooLong { len: name.len() });
    }
    loop {
        let state = directory.read(core)?;
        if let Some(names) = &state.names {
            let Some(named) = names.get(core, name) else { return Ok(None) };
            // The lock of the directory keeps the name, and the name keeps the inode.
            let node = core.node(named.ino)?;
            let owner = owner(core, &node)?;
            return Ok(Some(Found { node, owner }));
        }
        drop(state);
        directory.write_index(core)?.names(core, directory)?;
    }
}

fn owner(core: &Core, node: &Node) -> Result<Owner> {
    // The line alone: the inode is four.
    let mut line = [0; (inode::INLINE - inode::OWNER) as usize];
    core.media().read(node.at + inode::OWNER, &mut line);
    let field = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().expect("four bytes"));
    if !everbyte_media::sums_agree(field(0), crc32c::crc32c(&line[4..])) {
        return Err(owner_damage(core, node));
    }
    core.object().require_readable()?;
    let state = node.state_word(core);
    Ok(Owner {
        ino: node.ino,
        kind: node.kind(core)?,
        permissions: state.mode & 0o7777,
        uid: field(offset_of!(Inode, uid) - inode::OWNER as usize),
        gid: field(offset_of!(Inode, gid) - inode::OWNER as usize),
        generation: state.generation,
        has_xattrs: node.word(core, inode::ATTRIBUTES) != 0,
    })
}

fn owner_damage(core: &Core, node: &Node) -> Error {
    let damage = Damage::at(node.at + inode::OWNER, format!("the owner of inode {} fails its checksum", node.ino));
    damage.of_object(core.name()).into()
}

/// The inode, whose second line agrees with its checksum.
pub(crate) fn whole(core: &Core, node: &Node) -> Result<Inode> {
    let inode = node.inode(core);
    if !everbyte_media::sums_agree(inode.checksum, inode.owner_sum()) {
        return Err(owner_damage(core, node));
    }
    Ok(inode)
}
