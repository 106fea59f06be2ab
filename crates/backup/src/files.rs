//! Files under a name of their own until they are whole.
//!
//!   1. a file is created beside its later name, as `NAME.part-` and random digits
//!   2. its bytes are written, then synced
//!   3. it is renamed; an older file of that name is refused, or replaced if it begins with bytes
//!      that the caller names
//!   4. the directory is synced
//!
//! Invariants
//!   PUBLISH-1  A file gets its name after all its bytes are on the medium, and the call returns
//!              after the name is.
//!   PUBLISH-2  A file that is given up, after an error or a panic, is removed.

use crate::error::{Error, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The calls of the operating system that write a file; tests fail and watch them.
pub trait Files: Send + Sync {
    /// A new file, readable for its owner only.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>>;
    /// Renames a file to a name that must be free.
    ///
    /// # Errors
    /// The system's; `AlreadyExists`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file to a name, in place of the file that has it.
    ///
    /// # Errors
    /// The system's.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes a file that was given up. A failure is ignored.
    fn remove(&self, path: &Path);
}

/// A file that is written from its start.
pub trait Sink: Send {
    /// Writes all bytes behind those written before.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all bytes written before are durable.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
}

/// The files of the operating system.
pub struct RealFiles;

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(Box::new(File::options().write(true).create_new(true).mode(0o600).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                // The file system cannot refuse to replace a file: check first.
                if to.try_exists()? { Err(io::ErrorKind::AlreadyExists.into()) } else { std::fs::rename(from, to) }
            }
            renamed => Ok(renamed?),
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) {
        let _ = std::fs::remove_file(path);
    }
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// The name of an unfinished file.
pub(crate) struct PartName<'f> {
    files: &'f dyn Files,
    pub part: PathBuf,
    target: PathBuf,
    replaces: bool,
    is_done: bool,
}

/// Writes a file, which gets its name when it is whole and durable. It takes the place of a file
/// that begins with `old`; any other file of its name stays, and is an error.
///
/// # Errors
/// The system's, and those of `fill`: there is no new file.
pub fn publish<T>(target: &Path, old: &[u8], fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
    write_whole(target, PartName::over(target, old, &RealFiles)?, fill)
}

/// The same for a name that must be free.
///
/// # Errors
/// The system's, and those of `fill`: there is no new file.
pub fn publish_new<T>(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
    write_whole(target, PartName::beside(target, &RealFiles)?, fill)
}

fn write_whole<T>(target: &Path, name: PartName<'_>, fill: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
    let io = |source| Error::Io { action: "write", path: target.into(), source };
    let mut file = SinkWriter(RealFiles.create(&name.part).map_err(io)?);
    let done = fill(&mut file).map_err(io)?;
    file.0.sync().map_err(io)?;
    name.publish()?;
    Ok(done)
}

/// A sink as the standard library knows them.
struct SinkWriter(Box<dyn Sink>);

impl Write for SinkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a file begins with these bytes; no other kind of file does.
fn begins_with(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(false);
    }
    let mut found = Vec::new();
    File::open(path)?.take(bytes.len() as u64).read_to_end(&mut found)?;
    Ok(found == bytes)
}

impl<'f> PartName<'f> {
    /// A free name beside `target`, which must be free, too.
    pub(crate) fn beside(target: &Path, files: &'f dyn Files) -> Result<PartName<'f>> {
        let io = |action| move |source| Error::Io { action, path: target.into(), source };
        if target.symlink_metadata().is_ok() {
            let taken = "a file of this name exists already; choose another name";
            return Err(io("create")(io::Error::new(io::ErrorKind::AlreadyExists, taken)));
        }
        PartName::free(target, files, false)
    }

    /// The same for a target that is free, or a file that begins with `old` and is replaced.
    fn over(target: &Path, old: &[u8], files: &'f dyn Files) -> Result<PartName<'f>> {
        if target.symlink_metadata().is_err() {
            return PartName::beside(target, files);
        }
        let io = |source| Error::Io { action: "replace", path: target.into(), source };
        if !begins_with(target, old).map_err(io)? {
            let other = "a file of this name has other content; choose another name";
            return Err(io(io::Error::new(io::ErrorKind::AlreadyExists, other)));
        }
        PartName::free(target, files, true)
    }

    fn free(target: &Path, files: &'f dyn Files, replaces: bool) -> Result<PartName<'f>> {
        let io = |action| move |source| Error::Io { action, path: target.into(), source };
        if target.file_name().is_none() {
            return Err(io("create")(io::ErrorKind::IsADirectory.into()));
        }
        let part = part_path(target).map_err(io("find random bytes for"))?;
        Ok(PartName { files, part, target: target.into(), replaces, is_done: false })
    }

    /// Gives the synced file its name (PUBLISH-1).
    pub(crate) fn publish(mut self) -> Result<()> {
        let target = self.target.clone();
        let io = |action: &'static str, source| Error::Io { action, path: target.clone(), source };
        let renamed = match self.replaces {
            true => self.files.replace(&self.part, &self.target),
            false => self.files.rename(&self.part, &self.target),
        };
        renamed.map_err(|source| io("name", source))?;
        let parent = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let synced = self
            .files
            .sync_directory(parent.unwrap_or(Path::new(".")))
            .map_err(|source| io("sync the directory of", source));
        self.is_done = true;
        synced
    }
}

impl Drop for PartName<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.files.remove(&self.part); // PUBLISH-2
        }
    }
}

/// A name beside that of a file, which no other process can foresee: for the file until it is
/// whole. It has to be created exclusively all the same.
///
/// # Errors
/// The system gives no random bytes.
pub fn part_path(target: &Path) -> io::Result<PathBuf> {
    let random = u64::from_le_bytes(random()?[..8].try_into().expect("8 bytes"));
    let mut part = target.as_os_str().to_owned();
    part.push(format!(".part-{random:016x}"));
    Ok(part.into())
}

/// Sixteen random bytes.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Writes down the calls that give a file its name.
    #[derive(Default)]
    struct WatchedFiles(Mutex<Vec<&'static str>>);

    impl Files for WatchedFiles {
        fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
            RealFiles.create(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.lock().unwrap().push("rename");
            RealFiles.rename(from, to)
        }

        fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.lock().unwrap().push("replace");
            RealFiles.replace(from, to)
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            self.0.lock().unwrap().push("sync directory");
            RealFiles.sync_directory(path)
        }

        fn remove(&self, path: &Path) {
            RealFiles.remove(path);
        }
    }

    /// PUBLISH-1, of a free name and of one that an older file has.
    #[test]
    fn the_directory_is_synced_after_a_file_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        for (call, bytes) in [("rename", b"old 1"), ("replace", b"old 2")] {
            let files = WatchedFiles::default();
            let name = PartName::over(&target, b"old", &files).unwrap();
            files.create(&name.part).unwrap().write(bytes).unwrap();
            name.publish().unwrap();
            assert_eq!(*files.0.lock().unwrap(), [call, "sync directory"]);
            assert_eq!(std::fs::read(&target).unwrap(), bytes);
        }
    }
}
