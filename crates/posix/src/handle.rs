//! [`FileHandle`]: a name for a file that outlives its paths and the process, as
//! `name_to_handle_at` gives it.

use crate::open::{OpenFile, OpenFlags};
use crate::process::Process;
use crate::walk::{At, LastLink};
use crate::{Errno, Error, Result};
use everbyte_fs::{FileKind, Ino};

/// A persistent handle: it leads to the same file after renames and restarts, or to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// The volume.
    pub volume: [u8; 16],
    /// The inode.
    pub ino: Ino,
    /// Tells it from other files that had the number.
    pub generation: u32,
}

impl FileHandle {
    /// The bytes of a handle.
    pub const LEN: usize = 28;

    /// The handle as bytes.
    pub fn bytes(&self) -> [u8; FileHandle::LEN] {
        let mut bytes = [0; FileHandle::LEN];
        bytes[..16].copy_from_slice(&self.volume);
        bytes[16..24].copy_from_slice(&self.ino.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// The handle of such bytes.
    ///
    /// # Errors
    /// [`Errno::EINVAL`] for another length.
    pub fn parse(bytes: &[u8]) -> Result<FileHandle> {
        let bytes: &[u8; FileHandle::LEN] = bytes.try_into().map_err(|_| Errno::EINVAL)?;
        let (volume, rest) = bytes.split_first_chunk::<16>().expect("28 bytes");
        let (ino, generation) = rest.split_first_chunk::<8>().expect("12 bytes");
        let generation = u32::from_le_bytes(generation.try_into().expect("4 bytes"));
        Ok(FileHandle { volume: *volume, ino: Ino(u64::from_le_bytes(*ino)), generation })
    }
}

impl Process {
    /// The handle of a file; a symbolic link at the end of the path is the file.
    ///
    /// # Errors
    /// Those of paths.
    pub fn handle<'a>(&self, at: impl Into<At<'a>>) -> Result<FileHandle> {
        let at = at.into();
        self.files().look(at.path, |volume| {
            let file = self.file(volume, at, LastLink::Keep)?;
            Ok(FileHandle { volume: volume.uuid(), ino: file.ino, generation: file.generation })
        })
    }

    /// Opens the file of a handle. For root alone, since it asks no directory.
    ///
    /// # Errors
    /// [`Errno::EPERM`]; [`Errno::ESTALE`] if the file was removed, or the handle is of another
    /// volume; as [`Process::open`]. The flags `CREAT` and `TMPFILE` are [`Errno::EINVAL`].
    pub fn open_handle(&self, handle: &FileHandle, flags: OpenFlags) -> Result<OpenFile> {
        if !self.user().is_root() {
            return Err(Errno::EPERM.into());
        }
        if flags.intersects(OpenFlags::CREAT) || flags.contains(OpenFlags::TMPFILE) {
            return Err(Errno::EINVAL.into());
        }
        let opened = self.files().look(b"", |volume| {
            if handle.volume != volume.uuid() {
                return Err(Errno::ESTALE.into());
            }
            let file = volume.found(handle.ino).map_err(|error| match error {
                everbyte_fs::Error::Stale { .. } => Errno::ESTALE.into(),
                error => Error::from(error),
            })?;
            if file.generation != handle.generation {
                return Err(Errno::ESTALE.into());
            }
            let held = self.files().hold(&file)?.ok_or(Errno::ESTALE)?;
            self.require_openable(volume, &file, flags)?;
            if flags.contains(OpenFlags::TRUNC) && file.kind == FileKind::Regular {
                volume.resize(file.ino, 0)?;
            }
            Ok(self.opened(b"", held, file.kind, flags, false))
        })?;
        if flags.contains(OpenFlags::TRUNC) {
            self.files().settle_if_sync()?;
        }
        Ok(opened)
    }
}
