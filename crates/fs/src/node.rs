//! [`Nodes`]: the inodes that this process has used, each with its lock and its indexes in memory.

use crate::extents::{Extents, NewRun, Pages};
use crate::hash::Seeded;
use crate::layout::{Inode, PAGE, PAGE_LINES, Place, STATE_SNAPSHOT, State, inode, lines};
use crate::names::Names;
use crate::space::Space;
use crate::table::InodeTable;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::Damage;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

/// The inodes in use, by number.
pub(crate) struct Nodes {
    shards: [Shard; SHARDS],
    damaged: HashSet<Ino>,
}

/// A part of the inodes, in lines of its own: threads that use others do not wait for them.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<u64, Arc<Node>, Seeded>>);

/// An inode in use, in lines of its own as [`Shard`] is.
#[repr(align(128))]
pub(crate) struct Node {
    pub ino: Ino,
    /// Offset of the inode in the store.
    pub at: u64,
    /// Callers that keep the file alive.
    holds: AtomicU64,
    state: RwLock<NodeState>,
}

/// The part of a node that its lock guards, beside the inode on media.
#[derive(Default)]
pub(crate) struct NodeState {
    /// The pages of the file; loaded at first use.
    pub extents: Option<Box<Extents>>,
    /// The names of a directory; loaded at first use.
    pub names: Option<Box<Names>>,
    /// The inode was freed, and its number may hold another file.
    pub removed: bool,
}

impl Nodes {
    pub(crate) fn new(damaged: &[Ino]) -> Nodes {
        Nodes { shards: Default::default(), damaged: damaged.iter().copied().collect() }
    }

    /// Whether no file was damaged when the volume was opened.
    pub(crate) fn are_whole(&self) -> bool {
        self.damaged.is_empty()
    }

    /// Refuses a file that was damaged when the volume was opened.
    pub(crate) fn require_whole(&self, ino: Ino, at: u64, space: &Space) -> Result<()> {
        if self.damaged.contains(&ino) {
            let damage = Damage::at(at, format!("the extents of inode {ino} contradict themselves"));
            return Err(damage.of_object(space.name()).into());
        }
        Ok(())
    }

    /// The node of an inode, if it is in memory.
    pub(crate) fn loaded(&self, ino: Ino) -> Option<Arc<Node>> {
        self.shard(ino).lock().get(&ino.0).cloned()
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<u64, Arc<Node>, Seeded>> {
        &self.shards[(ino.0 % SHARDS as u64) as usize].0
    }

    /// Forgets a node whose inode was freed; the next file of that number gets one of its own.
    pub(crate) fn forget(&self, ino: Ino) {
        self.shard(ino).lock().remove(&ino.0);
    }
}

impl Nodes {
    /// The node of an inode.
    ///
    /// # Errors
    /// [`Error::Stale`] if the volume has no such inode; whether it is free the lock tells.
    pub(crate) fn get(&self, ino: Ino, table: &InodeTable, space: &Space) -> Result<Arc<Node>> {
        let mut shard = self.shard(ino).lock();
        if let Some(node) = shard.get(&ino.0) {
            return Ok(Arc::clone(node));
        }
        let at = table.at(ino).ok_or(Error::Stale { ino })?;
        self.require_whole(ino, at, space)?;
        let node = Arc::new(Node { ino, at, holds: AtomicU64::new(0), state: RwLock::default() });
        shard.insert(ino.0, Arc::clone(&node));
        Ok(node)
    }
}

impl Node {
    /// Locks the file to read it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed.
    pub(crate) fn read(&self, space: &Space) -> Result<RwLockReadGuard<'_, NodeState>> {
        let state = self.state.read();
        self.require_live(space, &state)?;
        Ok(state)
    }

    /// Locks the file to change it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed, [`Error::ReadOnly`] if it belongs to a snapshot.
    pub(crate) fn write(&self, space: &Space) -> Result<RwLockWriteGuard<'_, NodeState>> {
        let state = self.write_index(space)?;
        match self.state_word(space).flags & STATE_SNAPSHOT {
            0 => Ok(state),
            _ => Err(Error::ReadOnly { ino: self.ino }),
        }
    }

    /// Locks the file to load its indexes in memory; it may belong to a snapshot.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed.
    pub(crate) fn write_index(&self, space: &Space) -> Result<RwLockWriteGuard<'_, NodeState>> {
        let state = self.state.write();
        self.require_live(space, &state)?;
        Ok(state)
    }

    fn require_live(&self, space: &Space, state: &NodeState) -> Result<()> {
        match state.removed || self.state_word(space).mode == 0 {
            true => Err(Error::Stale { ino: self.ino }),
            false => Ok(()),
        }
    }

    /// Mode, flags and generation.
    pub(crate) fn state_word(&self, space: &Space) -> State {
        State::of(space.media().load(self.at + inode::STATE))
    }

    /// The type of the file.
    pub(crate) fn kind(&self, space: &Space) -> Result<FileKind> {
        let damage = || Damage::at(self.at, format!("inode {} has a mode of no kind", self.ino));
        FileKind::of_mode(self.state_word(space).mode).ok_or_else(|| damage().of_object(space.name()).into())
    }

    /// A word of the inode.
    #[inline]
    pub(crate) fn word(&self, space: &Space, offset: u64) -> u64 {
        space.media().load(self.at + offset)
    }

    /// The inode.
    pub(crate) fn inode(&self, space: &Space) -> Inode {
        space.media().get(self.at)
    }

    /// Keeps the file alive until [`Node::release`].
    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends a [`Node::hold`]. Returns the lock of the file, and whether no other hold is left.
    pub(crate) fn release(&self) -> (RwLockWriteGuard<'_, NodeState>, bool) {
        let state = self.state.write();
        let is_last = self.holds.fetch_sub(1, Ordering::AcqRel) == 1;
        (state, is_last)
    }

    /// Whether a caller keeps the file alive.
    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }

    /// Locks the file to read it, with its extents loaded.
    pub(crate) fn read_extents(&self, space: &Space) -> Result<RwLockReadGuard<'_, NodeState>> {
        loop {
            let state = self.read(space)?;
            if state.extents.is_some() {
                return Ok(state);
            }
            drop(state);
            self.write_index(space)?.extents(space, self)?;
        }
    }
}

impl NodeState {
    /// The pages of the file.
    pub(crate) fn extents(&mut self, space: &Space, node: &Node) -> Result<&mut Extents> {
        if self.extents.is_none() {
            let loaded = Extents::load(Pages::of(space.object()), node.at);
            let loaded = loaded.map_err(|damage| damage.of_object(space.name()))?;
            self.extents = Some(Box::new(loaded.extents));
        }
        Ok(self.extents.as_mut().expect("it was loaded"))
    }

    /// The names of the directory.
    pub(crate) fn names(&mut self, space: &Space, node: &Node) -> Result<&mut Names> {
        if self.names.is_none() {
            if node.kind(space)? != FileKind::Directory {
                return Err(Error::NotADirectory { ino: node.ino });
            }
            let size = node.word(space, inode::SIZE);
            let names = Names::load(space, self.extents(space, node)?, size);
            self.names = Some(Box::new(names.map_err(|damage| damage.of_object(space.name()))?));
        }
        Ok(self.names.as_mut().expect("it was loaded"))
    }

    /// The line for an entry of a name, which is free. The directory grows by a page where none is:
    /// a change of its own, since a directory may have empty pages.
    pub(crate) fn free_line(&mut self, space: &Space, node: &Node, name: &[u8]) -> Result<u32> {
        let count = lines(name.len());
        if let Some(line) = self.names(space, node)?.find_free(count) {
            return Ok(line);
        }
        let size = node.word(space, inode::SIZE);
        let extents = self.extents(space, node)?;
        extents.reserve_slots(space, node.at, 1)?;
        let page = space.take_run(1)?;
        space.zero_pages(page, 1);
        extents.add_behind(space, node.at, &[NewRun { first: size / PAGE, len: 1, place: Place::page(page) }]);
        let media = space.media();
        let ordered = media.fence_after_unless("fs-page-unfenced", ());
        let at = (node.at + inode::SIZE).into();
        everbyte_media::PublishWord::new(at).publish(media, size + PAGE, &ordered);
        media.fence();
        let first = (size / PAGE) as u32 * PAGE_LINES; // the page's first line
        let names = self.names(space, node)?;
        names.add_page(page, first);
        Ok(names.find_free(count).expect("a page was added"))
    }
}
