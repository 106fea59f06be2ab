//! The backing file: a header that says which object it belongs to, then slots of one cluster each.
//!
//! Format: docs/formats/swap.md, section 1. The cold table alone says which slots are in use, and
//! which clusters they hold.
//!
//! A path proves nothing: the file behind it may be a user's document, or hold the cold clusters of
//! another object. So a file is created under a free name, or taken if it is empty; it is removed
//! only after its header was verified.
//!
//! Invariants
//!   COLD-5  A file is truncated, written to or removed only if it is empty, or its header names
//!           this object: its pair, its id, and the path of the store unless the file lies beside
//!           the store.
//!   COLD-6  No user may read or write a file who may not do so with the store's file.

use crate::layout::{SWAP_FORMAT, SWAP_MAGIC, SWAP_SLOTS, SwapHeader};
use crate::{Error, FileRights, Result, Tier};
use everbyte_media::{Checked, Disk, Length, disk_alone, sums_agree};
use everbyte_space::{CLUSTER, ObjectId};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// The directory of backing files. Tests replace it to explore crashes of backing files.
pub trait Files: Send + Sync {
    /// A new file of this name, empty, for this process alone.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` if anything has this name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>>;
    /// The regular file of this name, for this process alone unless it is only read.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn Disk>>;
    /// Removes the file of this name if it is the one that is open as `disk`.
    fn remove(&self, path: &Path, disk: &dyn Disk);
    /// Makes the removal of a file of this name durable, perhaps by a process that has died since.
    fn settle_removal(&self, _path: &Path) {}
    /// The descriptor of a file that has rights of its own.
    fn file_of<'d>(&self, _disk: &'d dyn Disk) -> Option<BorrowedFd<'d>> {
        None
    }
    /// The random bytes that a new backing file and its table bear both.
    ///
    /// # Errors
    /// The system has no random bytes.
    fn pair(&self) -> io::Result<[u8; 16]> {
        let mut pair = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut pair)?;
        Ok(pair)
    }
    /// Whether the program calls [`crate::Pager::warm`] before it touches a cold cluster, on media
    /// that report no touches.
    fn reports_touches(&self) -> bool {
        false
    }
}

/// The use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It is read alone, perhaps by several processes.
    ReadOnly,
    /// It is read and written, by this process alone.
    ReadWrite,
}

/// The files of the operating system.
pub struct RealFiles;

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let disk = disk_alone(file, path).map_err(io::Error::other)?;
        sync_directory_of(path)?;
        Ok(disk)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        use rustix::fs::OFlags;
        // The path may come from media: no symbolic link is followed, and no pipe or terminal is
        // waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = File::options().read(true).write(mode == OpenMode::ReadWrite).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        match mode {
            OpenMode::ReadOnly => Ok(Arc::new(file)),
            OpenMode::ReadWrite => disk_alone(file, path).map_err(io::Error::other),
        }
    }

    fn settle_removal(&self, path: &Path) {
        let _ = sync_directory_of(path);
    }

    fn file_of<'d>(&self, disk: &'d dyn Disk) -> Option<BorrowedFd<'d>> {
        Some(disk.mappable())
    }

    fn remove(&self, path: &Path, disk: &dyn Disk) {
        if let Ok(true) = is_of_this_name(disk.mappable(), path) {
            // a file that stays is found and taken by the next limit
            let _ = std::fs::remove_file(path);
            self.settle_removal(path); // it does not come back when its object is gone
        }
    }
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // the path may come from media: no pipe is waited for
    let flags = rustix::fs::OFlags::DIRECTORY.bits() as i32;
    File::options().read(true).custom_flags(flags).open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn is_of_this_name(open: BorrowedFd<'_>, path: &Path) -> io::Result<bool> {
    let (open, named) = (rustix::fs::fstat(open)?, path.symlink_metadata()?);
    Ok((open.st_dev, open.st_ino) == (named.dev(), named.ino()))
}

/// An object's backing file, open.
pub struct Backing {
    disk: Arc<dyn Disk>,
    owner: Owner,
}

/// The object that a backing file belongs to, and the file's path.
#[derive(Clone)]
pub struct Owner {
    /// The store's path, for messages.
    pub store: PathBuf,
    /// The store's identity.
    pub identity: [u8; 16],
    /// The object's name, for messages.
    pub object: String,
    /// The object's id.
    pub id: u64,
    /// The random bytes that the cold table and the file bear.
    pub pair: [u8; 16],
    /// The path of the backing file.
    pub path: PathBuf,
    /// The path of the store's file, for a backing file that does not lie beside it.
    pub home: Option<PathBuf>,
    /// The rights of the store's file; `None`: they are unknown, and the file is its maker's alone.
    pub rights: Option<FileRights>,
}

impl Owner {
    fn error(&self, detail: String) -> Error {
        let Owner { store, object, path, .. } = self.clone();
        Error::Backing { store, object, path, detail }
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |source| self.error(format!("cannot {action} it: {source}"))
    }

    /// Checks a header against this owner, except for the path of the store.
    fn require(&self, header: &SwapHeader) -> Result<(), String> {
        if header.magic != SWAP_MAGIC {
            return Err("it is no backing file".into());
        }
        if header.format < SWAP_FORMAT {
            return Err("an older Everbyte has made it; lift the object's limit with that one first".into());
        }
        if !header.checksum_agrees() {
            return Err("the checksum of its header is wrong".into());
        }
        if header.format != SWAP_FORMAT || header.slot != CLUSTER {
            return Err("its format is unknown to this program; use a newer Everbyte".into());
        }
        if header.pair != self.pair || header.object != self.id {
            return Err("it belongs to another object, or to another store".into());
        }
        Ok(())
    }

    /// Refuses the file of a store at another path: the owner's store may be a copy of that one.
    fn require_home(&self, header: &SwapHeader) -> Result<(), String> {
        let found = home_of(header);
        let same = match (&self.home, &found) {
            (None, None) => true,
            (Some(home), Some(found)) => home == found || is_same_file(home, found),
            _ => false,
        };
        if same {
            return Ok(());
        }
        let found = found.map_or("beside which it lies".into(), |found| format!("at {}", found.display()));
        Err(format!(
            "it belongs to the store {found}; if that store is this one, moved, name the file again with `everbyte limit --backing`"
        ))
    }
}

fn home_of(header: &SwapHeader) -> Option<PathBuf> {
    let home = header.home.get(..header.home_len as usize).unwrap_or(&[]);
    (!home.is_empty()).then(|| OsStr::from_bytes(home).into())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// A file that may become an object's backing file: a new one, an empty one, or the object's
/// earlier one.
pub struct Candidate {
    disk: Arc<dyn Disk>,
    /// The pair of an earlier limit of the object, whose header the file bears.
    pub earlier: Option<[u8; 16]>,
}

impl Candidate {
    /// A file for an object without a limit. `earlier` is the pair of the object's earlier table.
    ///
    /// # Errors
    /// [`Error::Backing`]: the path names a file that may be another owner's. Nothing has changed.
    pub fn find(files: &dyn Files, owner: &Owner, earlier: Option<[u8; 16]>) -> Result<Candidate> {
        let disk = match files.create(&owner.path) {
            Ok(disk) => return Ok(Candidate { disk, earlier: None }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files.open(&owner.path, OpenMode::ReadWrite),
            Err(error) => Err(error),
        };
        let disk = disk.map_err(owner.failed("create"))?;
        if let (Some(file), Some(rights)) = (files.file_of(&*disk), owner.rights)
            && !rights.may_own(file).map_err(owner.failed("examine"))?
        {
            let taken = "a file of this name exists that another user owns, or that has two names";
            return Err(owner.error(format!("{taken}; remove it, or choose another name")));
        }
        if holds_nothing(&*disk).map_err(owner.failed("read"))? {
            return Ok(Candidate { disk, earlier: None });
        }
        let before = earlier.map(|pair| Owner { pair, ..owner.clone() });
        let ours = before.zip(read_header(&*disk).ok()).is_some_and(|(before, header)| {
            before.require(&header).and_then(|()| before.require_home(&header)).is_ok()
        });
        match ours {
            true => Ok(Candidate { disk, earlier }),
            false => Err(owner
                .error("a file of this name exists, and may be another's; remove it, or choose another name".into())),
        }
    }
}

/// Whether a file holds no data: it has no bytes, or its creation was interrupted before the first
/// slot.
fn holds_nothing(disk: &dyn Disk) -> io::Result<bool> {
    let len = disk.len()?;
    if len == 0 {
        return Ok(true);
    }
    if len != SWAP_SLOTS {
        return Ok(false);
    }
    let header = read_header(disk)?;
    // Any word of the header may be missing; a header of another format may have another checksum.
    let known = [0, SWAP_FORMAT].contains(&header.format);
    let torn = header.magic == SWAP_MAGIC && known && !header.checksum_agrees();
    Ok(torn || header.as_bytes().iter().all(|&byte| byte == 0))
}

fn read_header(disk: &dyn Disk) -> io::Result<SwapHeader> {
    let mut header = SwapHeader::new_zeroed();
    disk.read_at(0, header.as_mut_bytes())?;
    Ok(header)
}

impl Backing {
    /// Makes a file the object's backing file; synced. The caller has settled the pair in the cold
    /// table: a crash then leaves a file that the next limit takes.
    ///
    /// # Errors
    /// [`Error::Backing`]: the file is removed.
    pub fn make(candidate: Candidate, owner: Owner, files: &dyn Files) -> Result<Backing> {
        let Candidate { disk, .. } = candidate;
        let backing = Backing { disk, owner };
        if let (Some(file), Some(rights)) = (files.file_of(&*backing.disk), backing.owner.rights) {
            // COLD-6. Only its owner may, and not on every file system; new files have least.
            let _ = rights.give(file);
        }
        let len = backing.disk.len().unwrap_or(0);
        if len > SWAP_SLOTS {
            backing.disk.punch(SWAP_SLOTS, len - SWAP_SLOTS); // slots of an earlier limit
        }
        backing.write_header().inspect_err(|_| backing.remove(files))?;
        Ok(backing)
    }

    fn write_header(&self) -> Result<()> {
        let owner = &self.owner;
        let home = owner.home.as_deref().map_or(&[][..], |home| home.as_os_str().as_bytes());
        let mut header = SwapHeader {
            magic: SWAP_MAGIC,
            format: SWAP_FORMAT,
            store: owner.identity,
            object: ObjectId::new(owner.id),
            slot: Length::new(CLUSTER),
            pair: owner.pair,
            home_len: home.len() as u32,
            ..SwapHeader::new_zeroed()
        };
        let room = header.home.get_mut(..home.len());
        room.ok_or_else(|| owner.error("the path of the store is longer than 4024 bytes".into()))?
            .copy_from_slice(home);
        header = header.sealed();
        let written = self.disk.write_at(0, header.as_bytes()).and_then(|()| self.disk.sync());
        written.map_err(owner.failed("write"))
    }

    /// Opens the file and verifies that it belongs to this object.
    ///
    /// # Errors
    /// [`Error::Backing`].
    pub fn open(files: &dyn Files, owner: Owner, mode: OpenMode) -> Result<Backing> {
        let (backing, header) = Backing::open_any_home(files, owner, mode)?;
        backing.owner.require_home(&header).map_err(|detail| backing.owner.error(detail))?;
        Ok(backing)
    }

    fn open_any_home(files: &dyn Files, owner: Owner, mode: OpenMode) -> Result<(Backing, SwapHeader)> {
        let disk = files.open(&owner.path, mode).map_err(owner.failed("open"))?;
        let header = match read_header(&*disk) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(owner.error("it is shorter than its header".into()));
            }
            header => header.map_err(owner.failed("read"))?,
        };
        owner.require(&header).map_err(|detail| owner.error(detail))?;
        let file = files.file_of(&*disk).filter(|_| mode == OpenMode::ReadWrite);
        if let (Some(file), Some(rights)) = (file, owner.rights) {
            let _ = rights.take_excess(file); // COLD-6, as in `make`
        }
        Ok((Backing { disk, owner }, header))
    }

    /// Opens the file beside the store of an object whose clusters are all in memory. A missing
    /// file or an empty one is made.
    ///
    /// # Errors
    /// [`Error::Backing`].
    pub fn open_or_make(files: &dyn Files, owner: Owner) -> Result<Backing> {
        Backing::open(files, owner.clone(), OpenMode::ReadWrite).or_else(|error| {
            match Candidate::find(files, &owner, None) {
                Ok(candidate) => Backing::make(candidate, owner, files),
                Err(_) => Err(error), // the first error says more
            }
        })
    }

    /// Writes the store's present path into the file of a store that was moved.
    ///
    /// # Errors
    /// [`Error::Backing`]: the file is another owner's, or a store lies at the path in the header.
    /// Nothing has changed.
    pub fn bring_home(files: &dyn Files, owner: Owner) -> Result<()> {
        let (backing, header) = Backing::open_any_home(files, owner, OpenMode::ReadWrite)?;
        if backing.owner.require_home(&header).is_ok() {
            return Ok(());
        }
        match home_of(&header) {
            Some(home) if home.symlink_metadata().is_err() => backing.write_header(),
            Some(home) => {
                let detail = format!("it belongs to the store at {}, of which this one is a copy", home.display());
                Err(backing.owner.error(detail))
            }
            None => Err(backing.owner.error("it belongs to the store beside which it lies".into())),
        }
    }

    /// Removes the file, whose slots are all free.
    pub fn remove(&self, files: &dyn Files) {
        files.remove(&self.owner.path, &*self.disk); // COLD-5
    }

    fn at(slot: u32) -> u64 {
        SWAP_SLOTS + u64::from(slot) * CLUSTER
    }
}

impl Tier for Backing {
    fn reserve(&self, slots: u64) -> Result<()> {
        let (before, end) = (self.disk.len().unwrap_or(u64::MAX), SWAP_SLOTS + slots.max(1) * CLUSTER);
        let reserved = self.disk.allocate(SWAP_SLOTS, end - SWAP_SLOTS).inspect_err(|_| {
            if before < end {
                // the file system may have given a part; no slot uses it yet
                self.disk.punch(before, end - before);
            }
        });
        reserved.map_err(self.owner.failed("find room for"))
    }

    fn write(&self, slot: u32, bytes: &[u8]) -> Result<()> {
        self.disk.write_at(Backing::at(slot), bytes).map_err(self.owner.failed("write"))
    }

    fn sync(&self) -> Result<()> {
        self.disk.sync().map_err(self.owner.failed("sync"))
    }

    fn read(&self, slot: u32, checksum: u32, at: u64, into: &mut [u8]) -> Result<()> {
        let found = match self.disk.read_at(Backing::at(slot), into) {
            Ok(()) if sums_agree(crc32c::crc32c(into), checksum) => return Ok(()),
            Ok(()) => "they are not what was written".into(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the file ends before".into(),
            Err(error) => error.to_string(),
        };
        let offset = Backing::at(slot);
        Err(self.owner.error(format!("the bytes of offset {at:#x} of the store should lie at {offset:#x}: {found}")))
    }
}
