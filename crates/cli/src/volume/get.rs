//! Copies files of a volume to this machine.
//!
//! Each file is written under a name of its own beside its place, and renamed; all are synced at
//! the end. No other user reads a file before its owner and its rights are set, or enters a new
//! directory before it is filled. Owners are set where the system allows it, and set-id bits only
//! with them; everything else that cannot be set is an error.

use super::Copied;
use crate::failure::Failure;
use everbyte_backup::part_path;
use everbyte_fs::{Attributes, FileKind, Ino, Volume};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// A running copy.
struct Get<'g> {
    volume: &'g Volume,
    replace: bool,
    /// The path of each file with several names that was copied.
    linked: HashMap<Ino, PathBuf>,
    /// A directory that was filled in each file system, by its device.
    filled: BTreeMap<u64, (PathBuf, File)>,
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
    let mut get =
        Get { volume, replace, linked: HashMap::new(), filled: BTreeMap::new(), copied: Copied::default(), progress };
    get.one(source, target)?;
    if get.filled.is_empty() {
        get.fills(target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    }
    for (place, directory) in get.filled.values() {
        rustix::fs::syncfs(directory).map_err(|error| Failure::system("sync", place, error.into()))?;
    }
    Ok(get.copied)
}

impl Get<'_> {
    /// Remembers a directory that is filled: its file system is synced at the end. It is opened
    /// now, since the rights that it gets may not allow that.
    fn fills(&mut self, path: &Path) -> Result<(), Failure> {
        let failed = |error| Failure::system("open", path, error);
        let device = fs::metadata(path).map_err(failed)?.dev();
        if let Entry::Vacant(place) = self.filled.entry(device) {
            place.insert((path.into(), File::open(path).map_err(failed)?));
        }
        Ok(())
    }

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
        self.set(found, part)?;
        Ok(true)
    }

    /// Copies the bytes of a file; holes are passed over, and pages of zeros become holes.
    fn content(&mut self, found: &Attributes, part: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::system("write", part, error);
        let file = File::options().write(true).create_new(true).mode(0o600).open(part).map_err(failed)?;
        file.set_len(found.size).map_err(failed)?;
        let mut bytes = vec![0; CHUNK];
        let mut at = 0;
        while at < found.size {
            let data = self.volume.next_data(found.ino, at)?.map_or(found.size, |data| data.min(found.size));
            self.copied.bytes += data - at;
            at = data;
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
        match DirBuilder::new().mode(0o700).create(target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => (),
            made => made.map_err(failed)?,
        }
        self.fills(target)?;
        let mut cookie = 0;
        loop {
            let entries = self.volume.entries(found.ino, cookie, 1000)?;
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for entry in entries {
                self.one(entry.ino, &target.join(OsStr::from_bytes(&entry.name)))?;
            }
        }
        self.set(found, target)?;
        self.copied.directories += 1;
        Ok(())
    }

    /// Sets owner, extended attributes, rights and times, in this order: the kernel takes
    /// capabilities and set-id bits from a file that gets another owner.
    fn set(&self, found: &Attributes, path: &Path) -> Result<(), Failure> {
        let refused = |error: io::Error| Failure::system("change", path, error);
        let owned = |uid: Option<u32>, gid: u32| {
            let (uid, gid) = (uid.map(Uid::from_raw), Gid::from_raw(gid));
            rustix::fs::chownat(CWD, path, uid, Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        };
        let is_refused = |owned: &rustix::io::Result<()>| *owned == Err(rustix::io::Errno::PERM);
        // Only root gives files away; others give them to their groups.
        let mut done = owned(Some(found.uid), found.gid);
        if is_refused(&done) {
            done = owned(None, found.gid);
        }
        if !is_refused(&done) {
            done.map_err(|error| refused(error.into()))?;
        }
        self.xattrs(found.ino, path)?;
        if found.kind != FileKind::Link {
            let now = fs::metadata(path).map_err(refused)?;
            let set_uid = if now.uid() == found.uid { 0 } else { 0o4000 };
            let set_gid = if now.gid() == found.gid { 0 } else { 0o2000 };
            let mode = Mode::from_raw_mode(u32::from(found.permissions) & !(set_uid | set_gid));
            rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()).map_err(|error| refused(error.into()))?;
        }
        let time = |nanoseconds: i64| Timespec {
            tv_sec: nanoseconds.div_euclid(1_000_000_000),
            tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
        };
        let times = Timestamps { last_access: time(found.accessed), last_modification: time(found.modified) };
        let set = rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
        set.map_err(|error| refused(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{NewFile, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;

    /// A volume with a directory `inner` of mode 0755, and in it a file of 0644 and 3 MiB.
    fn volume() -> (Volume, Ino) {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "home", &VolumeOptions::default()).unwrap();
        let inner = volume.make(Ino::ROOT, b"inner", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        let file = volume.make(inner, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        volume.write(file, 0, &vec![7; 3 << 20]).unwrap();
        (volume, inner)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn no_other_user_reads_a_copy_before_it_is_done() {
        let place = tempfile::tempdir().unwrap();
        let ((volume, inner), target) = (volume(), place.path().join("copy"));
        let parts = Cell::new(0);
        let looks = |_: &Copied| {
            assert_eq!(mode(&target), 0o700);
            for path in fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()) {
                if !path.ends_with("file") {
                    assert_eq!(mode(&path), 0o600);
                    parts.set(parts.get() + 1);
                }
            }
            Ok(())
        };
        get(&volume, inner, &target, false, &looks).unwrap();
        assert!(parts.get() > 0);
        assert_eq!((mode(&target), mode(&target.join("file"))), (0o755, 0o644));
    }

    /// A directory that its owner may not read any more when it is done.
    #[test]
    fn a_directory_without_rights_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let (volume, _) = volume();
        volume.make(Ino::ROOT, b"closed", &NewFile::new(FileKind::Directory, 0)).unwrap();
        let closed = volume.lookup(Ino::ROOT, b"closed").unwrap().unwrap();
        get(&volume, closed, &place.path().join("closed"), false, &|_| Ok(())).unwrap();
        assert_eq!(mode(&place.path().join("closed")), 0);
        fs::set_permissions(place.path().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// /dev/shm is a file system of its own, as a mount point is.
    #[test]
    fn each_file_system_that_is_filled_is_synced() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        let (volume, inner) = volume();
        std::os::unix::fs::symlink(other.path(), place.path().join("inner")).unwrap();
        let mut get = Get {
            volume: &volume,
            replace: false,
            linked: HashMap::new(),
            filled: BTreeMap::new(),
            copied: Copied::default(),
            progress: &|_| Ok(()),
        };
        get.one(inner, &place.path().join("inner")).unwrap();
        assert_eq!(get.filled.keys().copied().collect::<Vec<_>>(), [device(other.path())]);
        fs::remove_file(other.path().join("file")).unwrap();
        get.one(Ino::ROOT, place.path()).unwrap();
        assert!([place.path(), other.path()].iter().all(|path| get.filled.contains_key(&device(path))));
    }
}
