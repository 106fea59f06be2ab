//! Attributes of files, and lookups.

use crate::core::Core;
use crate::layout::{Inode, PAGE_LINES, State, inode};
use crate::names::{self, Line};
use crate::node::Node;
use crate::volume::Volume;
use crate::{Attributes, Error, FileKind, Ino, Result, SetAttributes};
use everbyte_media::Damage;

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
            return Ok(names.get(name).map(|named| named.ino));
        }
        drop(state);
        let mut state = node.write_index(core)?;
        Ok(state.names(core, &node)?.get(name).map(|named| named.ino))
    }

    /// The directory that holds a directory; the root holds itself.
    ///
    /// # Errors
    /// [`Error::NotADirectory`], [`Error::Stale`].
    pub fn parent(&self, directory: Ino) -> Result<Ino> {
        let core = &*self.core;
        let node = core.node(directory)?;
        let _state = node.read(core)?;
        match node.kind(core)? {
            FileKind::Directory => Ok(Ino(node.inode(core).parent)),
            _ => Err(Error::NotADirectory { ino: directory }),
        }
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
            read.map_err(|damage| damage.of_object(core.name()))?;
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

    /// Changes attributes of a file, and the time of its change. Ordered on return; whole or absent
    /// after a crash.
    ///
    /// # Errors
    /// As [`Volume::attributes`]: nothing has changed.
    pub fn set_attributes(&self, ino: Ino, set: &SetAttributes) -> Result<()> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let node = core.node(ino)?;
        let _state = node.write(core)?;
        let mut inode = whole(core, &node)?;
        let mut change = core.change();
        if let Some(permissions) = set.permissions {
            let state = node.state_word(core);
            let mode = state.mode & 0o170_000 | permissions & 0o7777;
            change.set(node.at + inode::STATE, State { mode, ..state }.word());
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.project = set.project.unwrap_or(inode.project);
        inode.checksum = inode.owner_sum();
        change.set(node.at + inode::OWNER, u64::from(inode.checksum) | u64::from(inode.uid) << 32);
        change.set(node.at + inode::OWNER + 8, u64::from(inode.gid) | u64::from(inode.project) << 32);
        for (offset, time) in [(inode::ACCESSED, set.accessed), (inode::MODIFIED, set.modified)] {
            if let Some(time) = time {
                change.set(node.at + offset, time as u64);
            }
        }
        change.set(node.at + inode::CHANGED, change.now());
        change.commit()
    }
}

/// The inode, whose second line agrees with its checksum.
fn whole(core: &Core, node: &Node) -> Result<Inode> {
    let inode = node.inode(core);
    if !everbyte_media::sums_agree(inode.checksum, inode.owner_sum()) {
        let damage = Damage::at(node.at + inode::OWNER, format!("the owner of inode {} fails its checksum", node.ino));
        return Err(damage.of_object(core.name()).into());
    }
    Ok(inode)
}
