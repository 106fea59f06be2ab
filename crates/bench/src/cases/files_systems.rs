//! The systems of the case `files`: a volume called directly, and file systems through their
//! system calls, with the same operations.

use super::Result;
use everbyte_fs::{FileKind, Ino, NewFile, Rename, Volume, VolumeOptions};
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fdatasync, fstatfs, ftruncate, mkdirat, openat, renameat, unlinkat};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// Bytes of the image that holds ext4.
const IMAGE: u64 = 4 << 30;
/// Inodes of the image.
const IMAGE_INODES: u32 = 400_000;
/// The type that the system reports for ext4.
const EXT4: u64 = 0xef53;

/// A file system with a tree of files. Names are those of the caller, and all calls succeed.
pub(super) trait Files: Sync {
    /// A file, or a directory.
    type File: Sync;
    fn name(&self) -> &str;
    fn root(&self) -> &Self::File;
    fn make_directory(&self, parent: &Self::File, name: &str) -> Result<Self::File>;
    /// A new file, open to read and write.
    fn make(&self, parent: &Self::File, name: &str) -> Result<Self::File>;
    /// A new file, closed again.
    fn create(&self, parent: &Self::File, name: &str) -> Result;
    /// The file of a path from the root, open for as long as the call takes.
    fn open(&self, path: &str) -> Result;
    fn rename(&self, parent: &Self::File, from: &str, to: &str) -> Result;
    fn unlink(&self, parent: &Self::File, name: &str) -> Result;
    fn read(&self, file: &Self::File, at: u64, into: &mut [u8]) -> Result<usize>;
    fn write(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    /// A write that a power cut does not undo, where the system has a call for that.
    fn write_settled(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    /// Writes behind the end, which is at `at`.
    fn append(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    fn cut(&self, file: &Self::File) -> Result;
    /// The number of names in a directory.
    fn list(&self, directory: &Self::File) -> Result<usize>;
}

/// A volume in a store on shared memory.
pub(super) struct Ours {
    pub volume: Volume,
    pub store: Store,
}

impl Ours {
    pub(super) fn create(path: &Path) -> Result<Ours> {
        Ours::create_on(path, Options::default())
    }

    /// A volume on memory with these options.
    pub(super) fn create_on(path: &Path, media: Options) -> Result<Ours> {
        let options = CreateOptions { media, max: 64 << 30, ..CreateOptions::default() };
        let store = Store::create(path, &options)?;
        let options = VolumeOptions { span: Some(16 << 30), ..VolumeOptions::default() };
        Ok(Ours { volume: Volume::create(&store, "files", &options)?, store })
    }

    /// The volume of a store that exists.
    pub(super) fn open_again(path: &Path) -> Result<Ours> {
        let store = Store::open(path, &Options::default())?;
        Ok(Ours { volume: Volume::open(store.object("files")?)?, store })
    }
}

fn plain(kind: FileKind) -> NewFile<'static> {
    NewFile::new(kind, 0o644)
}

impl Files for Ours {
    type File = Ino;

    fn name(&self) -> &str {
        crate::ours::NAME
    }

    fn root(&self) -> &Ino {
        &Ino::ROOT
    }

    fn make_directory(&self, parent: &Ino, name: &str) -> Result<Ino> {
        Ok(self.volume.make(*parent, name.as_bytes(), &plain(FileKind::Directory))?)
    }

    fn make(&self, parent: &Ino, name: &str) -> Result<Ino> {
        Ok(self.volume.make(*parent, name.as_bytes(), &plain(FileKind::Regular))?)
    }

    fn create(&self, parent: &Ino, name: &str) -> Result {
        self.make(parent, name).map(drop)
    }

    fn open(&self, path: &str) -> Result {
        let mut at = Ino::ROOT;
        for name in path.split('/') {
            at = self.volume.lookup(at, name.as_bytes())?.ok_or("a name that was made")?;
        }
        drop(self.volume.hold(at)?);
        Ok(())
    }

    fn rename(&self, parent: &Ino, from: &str, to: &str) -> Result {
        Ok(self.volume.rename(*parent, from.as_bytes(), *parent, to.as_bytes(), Rename::Replace)?)
    }

    fn unlink(&self, parent: &Ino, name: &str) -> Result {
        Ok(self.volume.unlink(*parent, name.as_bytes())?)
    }

    fn read(&self, file: &Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        Ok(self.volume.read(*file, at, into)?)
    }

    fn write(&self, file: &Ino, at: u64, bytes: &[u8]) -> Result {
        Ok(self.volume.write(*file, at, bytes)?)
    }

    fn write_settled(&self, file: &Ino, at: u64, bytes: &[u8]) -> Result {
        self.write(file, at, bytes) // the last fence settles it on shared memory
    }

    fn append(&self, file: &Ino, at: u64, bytes: &[u8]) -> Result {
        let appended = self.volume.append(*file, bytes)?;
        assert_eq!(appended, at, "the end of the file");
        Ok(())
    }

    fn cut(&self, file: &Ino) -> Result {
        Ok(self.volume.resize(*file, 0)?)
    }

    fn list(&self, directory: &Ino) -> Result<usize> {
        Ok(self.volume.entries(*directory, 0, usize::MAX)?.len())
    }
}

/// A folder of a file system, used through system calls.
pub(super) struct Calls {
    name: String,
    folder: OwnedFd,
    /// A settled write is followed by fdatasync.
    syncs: bool,
}

impl Calls {
    pub(super) fn of(name: &str, folder: &Path, syncs: bool) -> Result<Calls> {
        let folder = rustix::fs::open(folder, OFlags::DIRECTORY, Mode::empty())?;
        Ok(Calls { name: name.into(), folder, syncs })
    }

    /// ext4 in an image whose bytes lie in `folder`, mounted for as long as the result lives, or
    /// the reason why not.
    pub(super) fn ext4_in(folder: &Path) -> Result<Calls> {
        let (image, place) = (folder.join("image"), folder.join("mounted"));
        std::fs::File::create(&image)?.set_len(IMAGE)?;
        std::fs::create_dir(&place)?;
        let inodes = IMAGE_INODES.to_string();
        done(Command::new("mkfs.ext4").args(["-q", "-F", "-N", &inodes]).arg(&image))?;
        done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&place))?;
        let calls = Calls::of("ext4", &place, true);
        // The descriptor keeps the file system; so nothing is left when this process ends.
        done(Command::new("umount").arg("-l").arg(&place))?;
        std::fs::remove_file(&image)?;
        calls
    }

    /// ext4 of the disk that `folder` lies on, if that is one.
    pub(super) fn ext4_disk(folder: &Path) -> Result<Calls> {
        let calls = Calls::of("ext4 disk", folder, true)?;
        match fstatfs(&calls.folder)?.f_type as u64 {
            EXT4 => Ok(calls),
            _ => Err("the disk has another file system".into()),
        }
    }
}

fn done(command: &mut Command) -> Result {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string().into()),
    }
}

const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::RDWR);

impl Files for Calls {
    type File = OwnedFd;

    fn name(&self) -> &str {
        &self.name
    }

    fn root(&self) -> &OwnedFd {
        &self.folder
    }

    fn make_directory(&self, parent: &OwnedFd, name: &str) -> Result<OwnedFd> {
        mkdirat(parent, name, Mode::from(0o755))?;
        Ok(openat(parent, name, OFlags::DIRECTORY, Mode::empty())?)
    }

    fn make(&self, parent: &OwnedFd, name: &str) -> Result<OwnedFd> {
        Ok(openat(parent, name, NEW, Mode::from(0o644))?)
    }

    fn create(&self, parent: &OwnedFd, name: &str) -> Result {
        self.make(parent, name).map(drop)
    }

    fn open(&self, path: &str) -> Result {
        drop(openat(&self.folder, path, OFlags::RDONLY, Mode::empty())?);
        Ok(())
    }

    fn rename(&self, parent: &OwnedFd, from: &str, to: &str) -> Result {
        Ok(renameat(parent, from, parent, to)?)
    }

    fn unlink(&self, parent: &OwnedFd, name: &str) -> Result {
        Ok(unlinkat(parent, name, AtFlags::empty())?)
    }

    fn read(&self, file: &OwnedFd, at: u64, into: &mut [u8]) -> Result<usize> {
        Ok(rustix::io::pread(file, into, at)?)
    }

    fn write(&self, file: &OwnedFd, at: u64, bytes: &[u8]) -> Result {
        let written = rustix::io::pwrite(file, bytes, at)?;
        assert_eq!(written, bytes.len(), "all is written");
        Ok(())
    }

    fn write_settled(&self, file: &OwnedFd, at: u64, bytes: &[u8]) -> Result {
        self.write(file, at, bytes)?;
        if self.syncs {
            fdatasync(file)?;
        }
        Ok(())
    }

    fn append(&self, file: &OwnedFd, at: u64, bytes: &[u8]) -> Result {
        self.write(file, at, bytes)
    }

    fn cut(&self, file: &OwnedFd) -> Result {
        Ok(ftruncate(file, 0)?)
    }

    fn list(&self, directory: &OwnedFd) -> Result<usize> {
        let mut count = 0;
        for entry in Dir::read_from(directory)? {
            count += usize::from(!matches!(entry?.file_name().to_bytes(), b"." | b".."));
        }
        Ok(count)
    }
}
