//! Copies files of a volume to this machine.
//!
//! Each file is written under a name of its own beside its place, and renamed; all are synced at
//! the end. Owners are set where the system allows it; everything else that cannot be set is an
//! error.

use super::Copied;
use crate::failure::Failure;
use everbyte_backup::part_path;
use everbyte_fs::{Attributes, FileKind, Ino, Volume};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// A running copy.
struct Get<'g> {
    volume: &'g Volume,
    replace: bool,
    /// The path of each file with several names that was copied.
    linked: HashMap<Ino, PathBuf>,
    copied: Copied,
    progress: &'g dyn Fn(&Copied) -> Result<(), Failure>,
}

/// Copies a file or a tree of a volume to `target`.
pub(crate) fn get(
    volume: &Volume,
    source: Ino,
    target: &Path,
    replace: bool,
    progress: &dyn Fn(&Copied) -> Result<(), Failure>,
) -> Result<Copied, Failure> {
    let mut get = Get { volume, replace, linked: HashMap::new(), copied: Copied::default(), progress };
    get.one(source, target)?;
    let place = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(place).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    synced.map_err(|error| Failure::system("sync", place, error))?;
    Ok(get.copied)
}

impl Get<'_> {
    fn one(&mut self, ino: Ino, target: &Path) -> Result<(), Failure> {
        let found = self.volume.attributes(ino)?;
        if found.kind == FileKind::Directory {
            return self.tree(&found, target);
        }
        if !self.replace && target.symlink_metadata().is_ok() {
            return Err(Failure::Words(format!("{} exists already; --replace replaces it", target.display())));
        }
        let part = part_path(target).map_err(|error| Failure::system("find random bytes for", target, error))?;
        let made = self.make(&found, &part).and_then(|is_new| {
            let failed = |error: io::Error| Failure::system("write", target, error);
            fs::rename(&part, target).map_err(failed)?;
            Ok(is_new)
        });
        match made {
            Ok(true) => self.copied.files += 1,
            Ok(false) => self.copied.links += 1,
            Err(failure) => {
                let _ = fs::remove_file(&part);
                return Err(failure);
            }
        }
        if found.links > 1 {
            self.linked.insert(ino, target.to_path_buf());
        }
        (self.progress)(&self.copied)?;
        Ok(())
    }

    /// Makes a file at `part`; false: it is one more name of a file that was copied.
    fn make(&mut self, found: &Attributes, part: &Path) -> Result<bool, Failure> {
        let failed = |error: io::Error| Failure::system("write", part, error);
        if let Some(first) = self.linked.get(&found.ino) {
            fs::hard_link(first, part).map_err(failed)?;
            return Ok(false);
        }
        let refused = |error: rustix::io::Errno| failed(error.into());
        match found.kind {
            FileKind::Regular => self.content(found, part)?,
            FileKind::Link => {
                let target = self.volume.read_link(found.ino)?;
                std::os::unix::fs::symlink(OsStr::from_bytes(&target), part).map_err(failed)?;
            }
            kind => {
                let of = FileType::from_raw_mode(u32::from(kind.bits()));
                rustix::fs::mknodat(CWD, part, of, Mode::from_raw_mode(0o600), found.device).map_err(refused)?;
            }
        }
        self.xattrs(found.ino, part)?;
        set(found, part)?;
        Ok(true)
    }

    /// Copies the bytes of a file; pages of zeros become holes.
    fn content(&mut self, found: &Attributes, part: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::system("write", part, error);
        let file = File::create_new(part).map_err(failed)?;
        file.set_len(found.size).map_err(failed)?;
        let mut bytes = vec![0; CHUNK];
        let mut at = 0;
        while at < found.size {
            let count = self.volume.read(found.ino, at, &mut bytes)?;
            if count == 0 {
                break; // it was made shorter meanwhile
            }
            for (index, page) in bytes[..count].chunks(4096).enumerate() {
                if page.iter().any(|&byte| byte != 0) {
                    file.write_all_at(page, at + 4096 * index as u64).map_err(failed)?;
                }
            }
            at += count as u64;
            self.copied.bytes += count as u64;
            (self.progress)(&self.copied)?;
        }
        Ok(())
    }

    /// Sets the extended attributes of a file.
    fn xattrs(&self, ino: Ino, path: &Path) -> Result<(), Failure> {
        for name in self.volume.xattrs(ino)? {
            let value = self.volume.xattr(ino, &name)?;
            let set = rustix::fs::lsetxattr(path, &name[..], &value, XattrFlags::empty());
            set.map_err(|error| Failure::system("set extended attributes of", path, error.into()))?;
        }
        Ok(())
    }

    fn tree(&mut self, found: &Attributes, target: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::system("create", target, error);
        match fs::create_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => (),
            made => made.map_err(failed)?,
        }
        let mut cookie = 0;
        loop {
            let entries = self.volume.entries(found.ino, cookie, 1000)?;
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for entry in entries {
                self.one(entry.ino, &target.join(OsStr::from_bytes(&entry.name)))?;
            }
        }
        self.xattrs(found.ino, target)?;
        set(found, target)?;
        self.copied.directories += 1;
        Ok(())
    }
}

/// Sets owner, rights and times.
fn set(found: &Attributes, path: &Path) -> Result<(), Failure> {
    let refused = |error: rustix::io::Errno| Failure::system("change", path, error.into());
    let (uid, gid) = (Uid::from_raw(found.uid), Gid::from_raw(found.gid));
    match rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::PERM) => (), // only root gives files away
        owned => owned.map_err(refused)?,
    }
    if found.kind != FileKind::Link {
        let mode = Mode::from_raw_mode(found.permissions.into());
        rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()).map_err(refused)?;
    }
    let time = |nanoseconds: i64| Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
    };
    let times = Timestamps { last_access: time(found.accessed), last_modification: time(found.modified) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(refused)
}
