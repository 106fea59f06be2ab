//! The systems of the case `files`: a volume through the library of POSIX calls, and file systems
//! through their system calls, with the same operations.

use super::Result;
use super::files_bars::EXT4;
use super::files_mapped::Mapped;
use everbyte_bench_rivals::MappedFile;
use everbyte_fs::{MapOptions, OpenVolume, Volume, VolumeOptions};
use everbyte_media::Options;
use everbyte_posix::{Files as VolumeInUse, FilesOptions, OpenFile, OpenFlags, Process, RenameFlags, User};
use everbyte_store::{CreateOptions, Store};
use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, fdatasync, fstatfs, fsync, ftruncate, mkdirat, openat, renameat, unlinkat,
};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Bytes of the image that holds ext4.
const IMAGE: u64 = 4 << 30;
/// Inodes of the image.
const IMAGE_INODES: u32 = 400_000;
/// The type that the system reports for ext4.
const EXT4_TYPE: u64 = 0xef53;

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
    fn remove_directory(&self, parent: &Self::File, name: &str) -> Result;
    fn read(&self, file: &Self::File, at: u64, into: &mut [u8]) -> Result<usize>;
    fn write(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    /// A write that a power cut does not undo, where the system has a call for that.
    fn write_settled(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    /// Waits until the file survives a power cut with all its attributes, where the system has a
    /// call for that.
    fn sync(&self, file: &Self::File) -> Result;
    /// Writes behind the end, which is at `at`.
    fn append(&self, file: &Self::File, at: u64, bytes: &[u8]) -> Result;
    fn cut(&self, file: &Self::File) -> Result;
    /// The number of names in a directory.
    fn list(&self, directory: &Self::File) -> Result<usize>;
    /// A whole file of `len` bytes, its pages mapped ahead.
    fn map(&self, file: &Self::File, len: u64) -> Result<Box<dyn Mapped>>;
}

/// A volume in a store, used through the library of POSIX calls by one process, root.
pub(super) struct Ours {
    root: OpenFile,
    process: Process,
    files: VolumeInUse,
    pub store: Store,
}

impl Ours {
    pub(super) fn create(path: &Path) -> Result<Ours> {
        Ours::create_on(path, Options::default())
    }

    /// A volume on memory with these options.
    pub(super) fn create_on(path: &Path, media: Options) -> Result<Ours> {
        Ours::create_of(path, media, &VolumeOptions { span: Some(16 << 30), ..VolumeOptions::default() })
    }

    pub(super) fn create_with(path: &Path, options: &VolumeOptions) -> Result<Ours> {
        Ours::create_of(path, Options::default(), options)
    }

    fn create_of(path: &Path, media: Options, options: &VolumeOptions) -> Result<Ours> {
        let create = CreateOptions { media, max: 64 << 30, ..CreateOptions::default() };
        let store = Store::create(path, &create)?;
        let volume = Volume::create(&store, "files", options)?;
        Ours::of(store, volume)
    }

    /// The volume of a store that exists.
    pub(super) fn open_again(path: &Path) -> Result<Ours> {
        Ours::open_with(path, &OpenVolume::default())
    }

    /// [`Ours::open_again`] with options.
    pub(super) fn open_with(path: &Path, options: &OpenVolume) -> Result<Ours> {
        let store = Store::open(path, &Options::default())?;
        let volume = Volume::open_with(store.object("files")?, options)?;
        Ours::of(store, volume)
    }

    fn of(store: Store, volume: Volume) -> Result<Ours> {
        let files = VolumeInUse::new(volume, FilesOptions::default());
        let process = files.process(User::root())?;
        let root = process.open("/", OpenFlags::DIRECTORY, 0)?;
        Ok(Ours { root, process, files, store })
    }

    /// The volume below the calls.
    pub(super) fn volume(&self) -> &Volume {
        self.files.volume()
    }

    /// Closes the volume and its store.
    pub(super) fn close(self) -> Result {
        let Ours { root, process, files, store } = self;
        drop((root, process));
        files.close()?;
        Ok(store.close()?)
    }
}

impl Files for Ours {
    type File = OpenFile;

    fn name(&self) -> &str {
        crate::ours::NAME
    }

    fn root(&self) -> &OpenFile {
        &self.root
    }

    fn make_directory(&self, parent: &OpenFile, name: &str) -> Result<OpenFile> {
        self.process.make_directory((parent, name), 0o755)?;
        Ok(self.process.open((parent, name), OpenFlags::DIRECTORY, 0)?)
    }

    fn make(&self, parent: &OpenFile, name: &str) -> Result<OpenFile> {
        let new = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::RDWR;
        Ok(self.process.open((parent, name), new, 0o644)?)
    }

    fn create(&self, parent: &OpenFile, name: &str) -> Result {
        self.make(parent, name).map(drop)
    }

    fn open(&self, path: &str) -> Result {
        drop(self.process.open(path, OpenFlags::empty(), 0)?);
        Ok(())
    }

    fn rename(&self, parent: &OpenFile, from: &str, to: &str) -> Result {
        Ok(self.process.rename((parent, from), (parent, to), RenameFlags::empty())?)
    }

    fn unlink(&self, parent: &OpenFile, name: &str) -> Result {
        Ok(self.process.remove((parent, name))?)
    }

    fn remove_directory(&self, parent: &OpenFile, name: &str) -> Result {
        Ok(self.process.remove_directory((parent, name))?)
    }

    fn read(&self, file: &OpenFile, at: u64, into: &mut [u8]) -> Result<usize> {
        Ok(file.read_at(into, at)?)
    }

    fn write(&self, file: &OpenFile, at: u64, bytes: &[u8]) -> Result {
        file.write_at(bytes, at)?;
        Ok(())
    }

    fn write_settled(&self, file: &OpenFile, at: u64, bytes: &[u8]) -> Result {
        self.write(file, at, bytes)?;
        self.sync(file)
    }

    fn sync(&self, file: &OpenFile) -> Result {
        Ok(file.sync()?)
    }

    fn append(&self, file: &OpenFile, at: u64, bytes: &[u8]) -> Result {
        self.write(file, at, bytes)
    }

    fn cut(&self, file: &OpenFile) -> Result {
        Ok(file.set_size(0)?)
    }

    fn list(&self, directory: &OpenFile) -> Result<usize> {
        let (mut cookie, mut count) = (0, 0);
        loop {
            let entries = directory.entries_from(cookie, 512)?;
            let Some(last) = entries.last() else { return Ok(count - 2) };
            cookie = last.next;
            count += entries.len(); // with `.` and `..`
        }
    }

    fn map(&self, file: &OpenFile, len: u64) -> Result<Box<dyn Mapped>> {
        let options = MapOptions { writable: true, populate: true, ..MapOptions::default() };
        Ok(Box::new(self.volume().map(file.ino(), 0, len, &options)?))
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

    /// Whether a sync of a file makes it durable.
    pub(super) fn syncs(&self) -> bool {
        self.syncs
    }

    /// A file of the root whose writes are durable on return.
    pub(super) fn open_synced(&self, name: &str) -> Result<OwnedFd> {
        Ok(openat(&self.folder, name, OFlags::RDWR | OFlags::DSYNC, Mode::empty())?)
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
        let calls = Calls::of(EXT4, &place, true);
        // The descriptor keeps the file system; so nothing is left when this process ends.
        done(Command::new("umount").arg("-l").arg(&place))?;
        std::fs::remove_file(&image)?;
        calls
    }

    /// ext4 of the disk that `folder` lies on, if that is one.
    pub(super) fn ext4_disk(folder: &Path) -> Result<Calls> {
        let calls = Calls::on_disk(folder)?;
        match fstatfs(&calls.folder)?.f_type as u64 {
            EXT4_TYPE => Ok(calls),
            _ => Err("the disk has another file system".into()),
        }
    }

    /// The file system of the disk that `folder` lies on. The name tells whether it is ext4, and
    /// whether that has a journal.
    pub(super) fn on_disk(folder: &Path) -> Result<Calls> {
        let is_ext4 = rustix::fs::statfs(folder)?.f_type as u64 == EXT4_TYPE;
        let name = match (is_ext4, is_ext4 && has_journal(folder)?) {
            (true, true) => "ext4 disk",
            (true, false) => "ext4 disk without a journal",
            (false, _) => "disk",
        };
        Calls::of(name, folder, true)
    }
}

/// Whether the ext4 that `folder` lies on has a journal. The kernel lists the journals in use by
/// the names of their devices, with the number of their inode behind a dash.
fn has_journal(folder: &Path) -> Result<bool> {
    let device = std::fs::metadata(folder)?.dev();
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let target = std::fs::canonicalize(link)?;
    let device = target.file_name().ok_or("a device without a name")?.to_string_lossy().into_owned();
    let Ok(journals) = std::fs::read_dir("/proc/fs/jbd2") else { return Ok(false) };
    for journal in journals {
        let journal = journal?.file_name().to_string_lossy().into_owned();
        if journal.rsplit_once('-').is_some_and(|(of, _)| of == device) {
            return Ok(true);
        }
    }
    Ok(false)
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

    fn remove_directory(&self, parent: &OwnedFd, name: &str) -> Result {
        Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
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

    fn sync(&self, file: &OwnedFd) -> Result {
        if self.syncs {
            fsync(file)?;
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

    fn map(&self, file: &OwnedFd, _len: u64) -> Result<Box<dyn Mapped>> {
        Ok(Box::new(MappedFile::of(file.try_clone()?, true)?))
    }
}
