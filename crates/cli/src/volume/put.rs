//! Copies files of this machine into a volume.
//!
//! Each file is made without a name, filled, and named last: after a crash it is there whole, or
//! not at all. Directories are made as they are met; their rights and times are set when they are
//! filled.

use super::Copied;
use crate::failure::Failure;
use everbyte_fs::{Error, FileKind, Ino, NewFile, Rename, SetAttributes, SetXattr, Volume};
use everbyte_fuse::Changed;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// A running copy.
struct Put<'p> {
    volume: &'p Volume,
    replace: bool,
    /// The inode of each file with several names that was copied.
    linked: HashMap<(u64, u64), Ino>,
    /// The directories that were made.
    made: HashSet<Ino>,
    copied: Copied,
    progress: &'p dyn Fn(&Copied) -> Result<(), Failure>,
    /// Is told of each change of what was there before.
    changed: &'p dyn Fn(Changed<'_>),
}

/// Copies a file or a tree into a directory of a volume.
pub(crate) fn put(
    volume: &Volume,
    source: &Path,
    directory: Ino,
    replace: bool,
    progress: &dyn Fn(&Copied) -> Result<(), Failure>,
    changed: &dyn Fn(Changed<'_>),
) -> Result<Copied, Failure> {
    // A path such as `..` has the name of the directory that it leads to. Others are not resolved:
    // a symbolic link is copied as it is, also one that leads nowhere.
    let absolute = match source.file_name() {
        Some(_) => source.to_path_buf(),
        None => source.canonicalize().map_err(|error| Failure::system("open", source, error))?,
    };
    let Some(name) = absolute.file_name() else {
        return Err(Failure::Words(format!("{}: name a file or a directory that has a name", source.display())));
    };
    let mut put = Put {
        volume,
        replace,
        linked: HashMap::new(),
        made: HashSet::new(),
        copied: Copied::default(),
        progress,
        changed,
    };
    put.one(source, directory, name.as_bytes())?;
    Ok(put.copied)
}

impl Put<'_> {
    fn one(&mut self, source: &Path, directory: Ino, name: &[u8]) -> Result<(), Failure> {
        let failed = |error| Failure::system("read", source, error);
        let found = fs::symlink_metadata(source).map_err(failed)?;
        let kind = kind(&found);
        if kind == FileKind::Directory {
            return self.tree(source, &found, directory, name);
        }
        if found.nlink() > 1
            && let Some(&ino) = self.linked.get(&(found.dev(), found.ino()))
        {
            self.name(ino, directory, name)?;
            self.copied.links += 1;
            return Ok(());
        }
        let target = match kind {
            FileKind::Link => fs::read_link(source).map_err(failed)?.into_os_string(),
            _ => Default::default(),
        };
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let new = NewFile {
            kind,
            permissions: (found.mode() & 0o7777) as u16,
            uid: found.uid(),
            gid: found.gid(),
            device: if is_device { found.rdev() } else { 0 },
            target: target.as_bytes(),
            xattrs: &[],
        };
        let file = self.volume.make_unnamed_in(directory, &new)?;
        if kind == FileKind::Regular {
            self.content(source, file.ino(), found.len())?;
        }
        self.xattrs(source, file.ino())?;
        self.volume.set_attributes(file.ino(), &times(&found))?;
        self.name(file.ino(), directory, name)?;
        self.linked.insert((found.dev(), found.ino()), file.ino());
        self.copied.files += 1;
        (self.progress)(&self.copied)?;
        Ok(())
    }

    /// Gives a file its name; one that exists is replaced in one step, if that was asked for.
    fn name(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<(), Failure> {
        let replaced = if self.replace { self.volume.lookup(directory, name)? } else { None };
        let named = self.link(ino, directory, name);
        // Also after a failure, which may have come between two changes.
        (self.changed)(Changed::Name(directory, name));
        (self.changed)(Changed::File(ino));
        replaced.into_iter().for_each(|replaced| (self.changed)(Changed::File(replaced)));
        named
    }

    fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<(), Failure> {
        match self.volume.link(ino, directory, name) {
            Err(Error::Exists) if self.replace => {
                let mut part = b".everbyte-put-".to_vec();
                part.extend(ino.to_string().bytes());
                self.volume.link(ino, directory, &part)?;
                let renamed = self.volume.rename(directory, &part, directory, name, Rename::Replace);
                if renamed.is_err() {
                    self.volume.unlink(directory, &part)?;
                }
                // A program may have met it.
                (self.changed)(Changed::Name(directory, &part));
                Ok(renamed?)
            }
            Err(Error::Exists) => {
                let name = crate::text::escape(name);
                Err(Failure::Words(format!("`{name}` exists in the volume; --replace replaces it")))
            }
            linked => Ok(linked?),
        }
    }

    /// Copies the bytes of a file; holes are passed over, and pages of zeros become holes.
    fn content(&mut self, source: &Path, ino: Ino, len: u64) -> Result<(), Failure> {
        let failed = |error| Failure::system("read", source, error);
        let file = File::open(source).map_err(failed)?;
        let mut bytes = vec![0; CHUNK];
        let mut at = 0;
        loop {
            let data = next_data(&file, at).map_err(failed)?;
            self.copied.bytes += data - at;
            at = data;
            let count = fill(&file, at, &mut bytes).map_err(failed)?;
            let mut page = 0;
            while page < count {
                // Runs of pages that are zeros, and runs of pages that are not.
                let is_zero = |page: usize| bytes[page..(page + 4096).min(count)].iter().all(|&byte| byte == 0);
                let hole = is_zero(page);
                let mut end = (page + 4096).min(count);
                while end < count && is_zero(end) == hole {
                    end = (end + 4096).min(count);
                }
                if !hole {
                    self.volume.write(ino, at + page as u64, &bytes[page..end])?;
                }
                page = end;
            }
            at += count as u64;
            self.copied.bytes += count as u64;
            (self.progress)(&self.copied)?;
            if count < bytes.len() {
                break;
            }
        }
        if self.volume.attributes(ino)?.size < at {
            self.volume.resize(ino, at)?; // it ends in a hole
        }
        match at == len {
            true => Ok(()),
            false => Err(Failure::System(format!("{}: it changed while it was copied", source.display()))),
        }
    }

    /// Copies extended attributes, where the source has them.
    fn xattrs(&self, source: &Path, ino: Ino) -> Result<(), Failure> {
        let refused = |error: rustix::io::Errno| Failure::system("read extended attributes of", source, error.into());
        let mut names = vec![0; 1 << 16];
        let len = match rustix::fs::llistxattr(source, &mut names[..]) {
            Err(rustix::io::Errno::NOTSUP) => 0,
            listed => listed.map_err(refused)?,
        };
        for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0; 1 << 16];
            let len = rustix::fs::lgetxattr(source, name, &mut value[..]).map_err(refused)?;
            self.volume.set_xattr(ino, name, &value[..len], SetXattr::Any)?;
        }
        Ok(())
    }

    /// Whether a directory, seen through a mount of the volume, is one that this copy has made.
    fn is_made(&self, found: &Metadata) -> Result<bool, Failure> {
        let ino = Ino(found.ino());
        // Another file system may use the number; the time in nanoseconds tells them apart.
        Ok(self.made.contains(&ino) && self.volume.attributes(ino)?.changed == time(found.ctime(), found.ctime_nsec()))
    }

    fn tree(&mut self, source: &Path, found: &Metadata, directory: Ino, name: &[u8]) -> Result<(), Failure> {
        let failed = |error| Failure::system("read", source, error);
        if self.is_made(found)? {
            return Err(Failure::Words(format!("{}: a directory cannot be copied into itself", source.display())));
        }
        let new = NewFile {
            uid: found.uid(),
            gid: found.gid(),
            ..NewFile::new(FileKind::Directory, (found.mode() & 0o7777) as u16)
        };
        let ino = match self.volume.make(directory, name, &new) {
            Err(Error::Exists) => {
                let ino = self.volume.lookup(directory, name)?.ok_or(Error::NotFound)?;
                if self.volume.attributes(ino)?.kind != FileKind::Directory {
                    let name = crate::text::escape(name);
                    return Err(Failure::Words(format!("`{name}` exists in the volume and is no directory")));
                }
                ino
            }
            made => made?,
        };
        self.made.insert(ino);
        (self.changed)(Changed::Name(directory, name));
        for entry in fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.one(&entry.path(), ino, entry.file_name().as_bytes())?;
        }
        let set = self.xattrs(source, ino).and_then(|()| Ok(self.volume.set_attributes(ino, &times(found))?));
        // Also after a failure, which may have come between two changes.
        (self.changed)(Changed::File(ino));
        set?;
        self.copied.directories += 1;
        (self.progress)(&self.copied)?;
        Ok(())
    }
}

/// The start of the page that has the next data of a file at or behind `at`; its end where there
/// is none. A file system that does not tell holes has data everywhere.
fn next_data(file: &File, at: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Ok((data & !4095).max(at)),
        Err(rustix::io::Errno::NXIO) => Ok(file.metadata()?.len().max(at)),
        Err(rustix::io::Errno::INVAL) => Ok(at),
        Err(error) => Err(error.into()),
    }
}

/// Reads from `at` on until `into` is full or the file ends.
fn fill(file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn time(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn times(found: &Metadata) -> SetAttributes {
    SetAttributes {
        permissions: Some((found.mode() & 0o7777) as u16),
        uid: Some(found.uid()),
        gid: Some(found.gid()),
        accessed: Some(time(found.atime(), found.atime_nsec())),
        modified: Some(time(found.mtime(), found.mtime_nsec())),
        ..SetAttributes::default()
    }
}

fn kind(found: &Metadata) -> FileKind {
    let of = found.file_type();
    match () {
        () if of.is_dir() => FileKind::Directory,
        () if of.is_symlink() => FileKind::Link,
        () if of.is_fifo() => FileKind::Pipe,
        () if of.is_socket() => FileKind::Socket,
        () if of.is_char_device() => FileKind::CharDevice,
        () if of.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}
