//! [`Node`]: an inode that this process uses, with its lock and its indexes in memory.

use crate::extents::{Extents, Loaded, Pages};
use crate::layout::{Inode, PAGE, STATE_SNAPSHOT, State, inode, lines, number};
use crate::names::Names;
use crate::order::NewRun;
use crate::space::Space;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::Damage;
use everbyte_media::sealed::seal_low;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// In [`Node::holds`]: the file has lost its last name, and its last holder frees it.
const NAMELESS: u32 = 1 << 31;
/// In [`Node::holds`]: the file was freed, or a call is about to free it. After such a call has
/// failed the flag stays until the next holder has looked under the lock of the file.
const LEAVING: u32 = 1 << 30;
/// The number of holders.
const HOLDERS: u32 = LEAVING - 1;

/// An inode in use, in a line of its own: threads that use others do not wait for it.
#[repr(align(64))]
pub(crate) struct Node {
    pub ino: Ino,
    /// Offset of the inode in the store.
    pub at: u64,
    /// Callers that keep the file alive, with [`NAMELESS`] and [`LEAVING`].
    holds: AtomicU32,
    /// The inode was freed, and its number may hold another file. Guarded by the lock of the state.
    is_removed: AtomicBool,
    /// The node was used since [`crate::nodes`] last looked.
    pub is_used: AtomicBool,
    /// Ranges of the file are mapped: see [`crate::maps`].
    pub is_mapped: AtomicBool,
    state: RwLock<NodeState>,
}
const _: () = assert!(size_of::<Node>() == 64);

/// The part of a node that its lock guards, beside the inode on media.
#[derive(Default)]
pub(crate) struct NodeState {
    /// The pages of the file; loaded at first use.
    pub extents: Option<Extents>,
    /// The names of a directory; loaded at first use.
    pub names: Option<Box<Names>>,
}

/// The lock of a file that a thread changes.
pub(crate) struct Writing<'n> {
    state: RwLockWriteGuard<'n, NodeState>,
    space: &'n Space,
}

impl Deref for Writing<'_> {
    type Target = NodeState;

    fn deref(&self) -> &NodeState {
        &self.state
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut NodeState {
        &mut self.state
    }
}

impl Drop for Writing<'_> {
    /// A panic may have left a change in the middle; it is not saved.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.space.require_scan();
        }
    }
}

/// The indexes that a volume has in memory, beside a bit for each of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Files.
    pub files: usize,
    /// Extents of them.
    pub extents: usize,
    /// Entries of directories among them.
    pub names: usize,
    /// Bytes of all of these, without those that the allocator adds.
    pub bytes: usize,
}

impl Node {
    /// A node of which nothing is loaded.
    pub(crate) fn new(ino: Ino, at: u64) -> Node {
        Node {
            ino,
            at,
            holds: AtomicU32::new(0),
            is_removed: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            is_mapped: AtomicBool::new(false),
            state: RwLock::default(),
        }
    }

    /// The inode was freed; the caller holds its lock.
    pub(crate) fn set_removed(&self) {
        self.is_removed.store(true, Ordering::Relaxed);
    }

    /// Whether the inode was freed; the caller holds its lock.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Locks the file to read it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed.
    pub(crate) fn read(&self, space: &Space) -> Result<RwLockReadGuard<'_, NodeState>> {
        let state = self.state.read();
        self.require_live(space)?;
        Ok(state)
    }

    /// Locks the file to change it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed, [`Error::ReadOnly`] if it belongs to a snapshot.
    pub(crate) fn write<'n>(&'n self, space: &'n Space) -> Result<Writing<'n>> {
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
    pub(crate) fn write_index<'n>(&'n self, space: &'n Space) -> Result<Writing<'n>> {
        let state = self.state.write();
        self.require_live(space)?;
        Ok(Writing { state, space })
    }

    /// Whether a thread has the file's lock.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    fn require_live(&self, space: &Space) -> Result<()> {
        match self.is_removed() || self.state_word(space).mode == 0 {
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

    /// The error of a damage of this file.
    #[cold]
    pub(crate) fn damaged(&self, space: &Space, mut damage: Damage) -> Error {
        damage.detail = format!("inode {}: {}", self.ino, damage.detail);
        damage.of_object(space.name()).into()
    }

    /// A word of the inode.
    #[inline]
    pub(crate) fn word(&self, space: &Space, offset: u64) -> u64 {
        space.media().load(self.at + offset)
    }

    /// Names that lead to the file.
    #[inline]
    pub(crate) fn links(&self, space: &Space) -> u64 {
        number(self.word(space, inode::LINKS))
    }

    /// The size of the file in bytes.
    #[inline]
    pub(crate) fn size(&self, space: &Space) -> u64 {
        number(self.word(space, inode::SIZE))
    }

    /// The inode.
    pub(crate) fn inode(&self, space: &Space) -> Inode {
        space.media().get(self.at)
    }

    /// Adds what is in memory of this file.
    pub(crate) fn count(&self, indexed: &mut Indexed) {
        // The counts of the pointer that leads here take a line.
        let Some(state) = self.state.try_read() else { return };
        let (extents, bytes) = state.extents.as_ref().map_or((0, 0), Extents::indexed);
        let (entries, names) = state.names.as_ref().map_or((0, 0), |names| (names.len(), names.bytes()));
        indexed.files += 1;
        indexed.extents += extents;
        indexed.names += entries;
        indexed.bytes += 2 * size_of::<Node>() + bytes + names;
    }

    /// Keeps the file alive until [`Node::release`]; the caller has seen it alive.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed since.
    #[inline]
    pub(crate) fn hold(&self, space: &Space) -> Result<()> {
        match self.holds.fetch_add(1, Ordering::AcqRel) & LEAVING {
            0 => Ok(()),
            _ => self.hold_slowly(space),
        }
    }

    /// A call was about to free the file: it has done so, or was refused.
    #[cold]
    fn hold_slowly(&self, space: &Space) -> Result<()> {
        let is_live = self.read(space).map(|_state| _ = self.holds.fetch_and(!LEAVING, Ordering::AcqRel));
        is_live.inspect_err(|_| _ = self.holds.fetch_sub(1, Ordering::AcqRel))
    }

    /// Ends a [`Node::hold`]. Whether the caller has to free the file, if no other thread holds it
    /// meanwhile: see [`Node::leave`].
    #[inline]
    pub(crate) fn release(&self) -> bool {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        before & HOLDERS == 1 && before & NAMELESS != 0
    }

    /// Locks the file, whatever its state is, for a caller that [`Node::release`] has told to.
    pub(crate) fn lock_last(&self) -> RwLockWriteGuard<'_, NodeState> {
        self.state.write()
    }

    /// The file loses its last name, or has lost it; the caller holds its lock. `false`: a caller
    /// keeps it alive, and the last one frees it. Else no thread holds it from now on, unless it is
    /// found alive later.
    pub(crate) fn leave(&self) -> bool {
        let mark = |holds: u32| Some(holds | if holds & HOLDERS == 0 { LEAVING } else { NAMELESS });
        let before = self.holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark);
        before.is_ok_and(|holds| holds & HOLDERS == 0)
    }

    /// Reads the slots of the file, whose lock the caller holds: an index that another thread loads
    /// meanwhile would miss the changes of this one.
    pub(crate) fn load_extents(&self, space: &Space) -> Result<Extents> {
        let loaded = Extents::load(Pages::of(space.object()), self.at);
        let whole = |loaded: Loaded| {
            space.require_used(loaded.extents.all_pages().into_iter())?;
            Ok(loaded.extents)
        };
        loaded.and_then(whole).map_err(|damage| self.damaged(space, damage))
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
            self.extents = Some(node.load_extents(space)?);
        }
        Ok(self.extents.as_mut().expect("it was loaded"))
    }

    /// The names of the directory.
    pub(crate) fn names(&mut self, space: &Space, node: &Node) -> Result<&mut Names> {
        if self.names.is_none() {
            if node.kind(space)? != FileKind::Directory {
                return Err(Error::NotADirectory { ino: node.ino });
            }
            let size = node.size(space);
            let names = Names::load(space, self.extents(space, node)?, size);
            self.names = Some(Box::new(names.map_err(|damage| node.damaged(space, damage))?));
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
        let size = node.size(space);
        let extents = self.extents(space, node)?;
        extents.reserve_slots(space, node.at, 1)?;
        let charge = space.charge(node.at, 1)?;
        let page = space.take_run(1)?;
        let zeros = space.zero_pages(page, 1);
        let run = NewRun { first: size / PAGE, len: 1, place: *zeros };
        let added = extents.add_behind(space, node.at, &zeros.with(vec![run]));
        let media = space.media();
        let ordered = media.fence_after_unless("fs-page-unfenced", added);
        let at = (node.at + inode::SIZE).into();
        everbyte_media::PublishWord::new(at).publish(media, seal_low(size + PAGE), &ordered);
        // The caller may be refused, and then flushes this line no more; another one goes on.
        media.fence_unless("fs-names-left");
        charge.keep();
        let names = self.names(space, node)?;
        names.add_page(page);
        Ok(names.find_free(count).expect("a page was added"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, FileKind, Ino, NewFile, Volume, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// A thread that has looked a file up before another one removes it finds it gone, and not the
    /// file that has its number now.
    #[test]
    fn the_node_of_a_removed_file_stays_removed() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        let file = NewFile::new(FileKind::Regular, 0o644);
        let ino = volume.make(Ino::ROOT, b"old", &file).unwrap();
        let old = volume.core.node(ino).unwrap();
        volume.unlink(Ino::ROOT, b"old").unwrap();
        assert_eq!(volume.make(Ino::ROOT, b"new", &file).unwrap(), ino);
        let space = &volume.core.space;
        assert!(matches!(old.write(space).map(drop), Err(Error::Stale { .. })));
        assert!(matches!(old.read(space).map(drop), Err(Error::Stale { .. })));
        assert!(volume.core.node(ino).unwrap().write(space).is_ok());
    }
}
