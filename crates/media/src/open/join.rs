//! Opening a store that several processes use at once, on backends where they see each other's
//! stores, and the words of the media in which such processes place their locks.
//!
//! The first process to open the store replays its log and recovers it. A process that opens it
//! while it has members only maps it. Both hold the shared lock on the file that readers hold, too,
//! so a process that wants the store exclusively is refused with the holders' ids.

use crate::backends::direct::Direct;
use crate::media::{Backend, Media};
use crate::open::examine::{chunk_disk, examine, repair_copies, replay_log};
use crate::open::open_options::map_shared;
use crate::open::opened::Opened;
use crate::{Error, Options, Result, seeded};
use everbyte_members::{FileLockMode, JoinLock, Members, SharedWords, holders, is_read, lock_file};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maps a store as one of its members, of which the caller becomes one by [`JoinLock::join`].
pub(crate) fn open_shared(
    file: File,
    locks: Option<File>,
    path: &Path,
    options: &Options,
) -> Result<(Media, JoinLock)> {
    let io = |action| move |source| Error::Io { action, path: path.into(), source };
    let members = Arc::new(Members::of_file(&file, locks, path)?);
    let locks = members.locks().expect("members of a file");
    lock_file(locks, path, FileLockMode::Members)?;
    let joining = members.lock_joining()?;
    if is_read(&file).map_err(io("look for locks of"))? {
        return Err(Error::InUse { path: path.into(), holder: holders(file.as_fd()) });
    }
    let (head, copies) = examine(&file, path)?;
    let file = Arc::new(file);
    let (mut head, chunks, opened) = match joining.is_alone() {
        true => replay_log(&file, path, head)?,
        // The first member has replayed the log.
        false => (head, chunk_disk(&file, path, &head)?.chunks, Opened::default()),
    };
    if joining.is_alone() {
        repair_copies(&*file, path, &mut head, &copies)?;
    }
    let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
    let media = map_shared((file, None), path, (head, chunks, opened), options, Some(&members))?;
    media.inner.mapping.keep_from_children().map_err(io("keep from children"))?;
    assert!(media.inner.members.set(members).is_ok(), "members are set once");
    Ok((media, joining))
}

impl Media {
    /// Locks the membership of memory without a file, or of a recorder's, whose members all live in
    /// this process. For tests.
    ///
    /// # Errors
    /// None on such media.
    pub fn lock_joining(&self) -> Result<JoinLock> {
        Ok(self.inner.members.get_or_init(|| Arc::new(Members::in_memory())).lock_joining()?)
    }

    /// Reads the file's present length and its chunks: other members may have grown it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn refresh(&self) -> Result<()> {
        if let Backend::Direct(Direct { file: Some(backing), path, .. }) = &self.inner.backend {
            let mut head = backing.head.lock();
            (*head, _) = examine(&*backing.file, path)?;
            backing.disk.chunks.refresh(&*backing.file)?;
            self.inner.mapping.raise_limit(head.file_len.min(head.max) & !4095);
        }
        Ok(())
    }

    /// The processes that hold a lock on the store's file, by the kernel's table of locks, as
    /// `another process (pid 12, 34)`; empty without a file.
    pub fn holders(&self) -> String {
        match &self.inner.backend {
            Backend::Direct(Direct { file: Some(backing), .. }) => holders(backing.file.as_fd()),
            _ => String::new(),
        }
    }
}

impl SharedWords for Media {
    #[inline]
    fn load(&self, at: u64) -> u64 {
        Media::load(self, at)
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        Media::store(self, at, value);
    }

    #[inline]
    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> std::result::Result<u64, u64> {
        Media::compare_exchange(self, at, current, new)
    }

    fn wait(&self, at: u64, expected: u32, most: Duration) {
        self.inner.mapping.wait(at, expected, most);
    }

    fn wake(&self, at: u64) {
        self.inner.mapping.wake(at);
    }

    #[inline(always)]
    fn seeded(&self, bug: &'static str) -> bool {
        seeded(bug)
    }
}
