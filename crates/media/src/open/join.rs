//! Opening a store that several processes use at once, on backends where they see each other's
//! stores.
//!
//! Who opens it first brings its log in and recovers it; whoever comes while it has users only maps
//! it. Both hold the same lock on the file that readers hold, so that who wants it alone is
//! refused, and told by whom.

use crate::backends::direct::Direct;
use crate::media::{Backend, Media, Opened};
use crate::open::open_options::{bring_in, choose, chunked, examine, repair_copies};
use crate::processes::file_lock::{self, Hold};
use crate::processes::members::{self, Opening, Users};
use crate::{BackendKind, Error, Options, Result};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

impl Media {
    /// Opens a store that other processes may have open, too; see [`Opening`] for what is to be
    /// done next. `None`: the backend is not shared, and this process has the store alone.
    ///
    /// # Errors
    /// As [`Media::open`]; [`Error::InUse`] while a process has the store alone, or looks at it.
    pub fn open_shared(path: &Path, options: &Options) -> Result<(Media, Option<Opening>)> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        Media::share_file(file, None, path, options)
    }

    /// [`Media::open_shared`] over descriptors that somebody has passed: of the store's bytes, and
    /// one of a description of its own for locks. `name` is for messages.
    ///
    /// # Errors
    /// As [`Media::open_shared`].
    pub fn open_shared_files(
        bytes: File,
        locks: File,
        name: &Path,
        options: &Options,
    ) -> Result<(Media, Option<Opening>)> {
        Media::share_file(bytes, Some(locks), name, options)
    }

    fn share_file(file: File, locks: Option<File>, path: &Path, options: &Options) -> Result<(Media, Option<Opening>)> {
        let io = |action| move |source| Error::Io { action, path: path.into(), source };
        if choose(&file, path, options.backend)? == BackendKind::File {
            return Ok((Media::open_file(file, locks, path, options)?, None));
        }
        let users = Arc::new(Users::of_file(&file, locks, path)?);
        let locks = users.locks().expect("users of a file");
        file_lock::lock(locks, path, Hold::Users)?;
        let opening = users.begin()?;
        if members::is_looked_at(&file).map_err(io("look for locks of"))? {
            return Err(Error::InUse { path: path.into(), holder: file_lock::holders(file.as_fd()) });
        }
        let (head, copies) = examine(&file, path)?;
        let file = Arc::new(file);
        let (mut head, chunks, opened) = match opening.is_alone() {
            true => bring_in(&file, path, head)?,
            // The log was brought in by who opened it first.
            false => (head, chunked(&file, path, &head)?.chunks, Opened::default()),
        };
        if opening.is_alone() {
            repair_copies(&*file, path, &mut head, &copies)?;
        }
        let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
        let media = Media::map((file, None), path, (head, chunks, opened), options, Some(&users))?;
        let child_has_it = media.inner.mapping.keep_from_children();
        child_has_it.map_err(io("keep from children"))?;
        assert!(media.inner.users.set(users).is_ok(), "a media has its users once");
        Ok((media, Some(opening)))
    }

    /// The users of memory without a file, or of a recorder's: to become one of several in this
    /// process. For tests.
    ///
    /// # Errors
    /// None on such media.
    pub fn share(&self) -> Result<Opening> {
        self.inner.users.get_or_init(|| Arc::new(Users::in_memory())).begin()
    }

    /// Looks how far the file reaches by now: other users may have let it grow.
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

    /// Who has the store's file open, by the kernel's table of locks: ` (pid 12, 34)`, or empty.
    pub fn users(&self) -> String {
        match &self.inner.backend {
            Backend::Direct(Direct { file: Some(backing), .. }) => file_lock::holders(backing.file.as_fd()),
            _ => String::new(),
        }
    }

    /// Waits until somebody wakes who waits for this word, unless its lower half is no longer
    /// `expected`; not longer than `most`, and perhaps for nothing.
    pub(crate) fn wait_for_word(&self, at: u64, expected: u32, most: Duration) {
        self.inner.mapping.wait(at, expected, most);
    }

    /// Wakes one that waits for this word.
    pub(crate) fn wake_word(&self, at: u64) {
        self.inner.mapping.wake(at);
    }
}
