//! The backing file: a header that says whose it is, then slots of one cluster each.
//!
//! Format: docs/formats/swap.md, section 1. Which slots are in use, and what they hold, the cold table alone says.

use crate::layout::{SWAP_FORMAT, SWAP_MAGIC, SWAP_SLOTS, SwapHeader};
use crate::{Error, Result, identity};
use everbyte_media::{Disk, disk_alone};
use everbyte_space::CLUSTER;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Where backing files are made and found: a seam for those who explore what a crash leaves of them.
pub trait Files: Send + Sync {
    /// An empty file of this name; what had it before is gone.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>>;
    /// The file of this name, for this process alone.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, read_only: bool) -> io::Result<Arc<dyn Disk>>;
    /// The file is of no use any more.
    fn remove(&self, path: &Path);
    /// What a new backing file and its table have in common.
    ///
    /// # Errors
    /// The system has no random bytes.
    fn pair(&self) -> Result<[u8; 16]> {
        identity::random()
    }
    /// Whether whoever touches a cold cluster calls [`crate::Object::warm`] first, where nobody else can notice.
    fn touches_are_told(&self) -> bool {
        false
    }
}

/// The files of the system.
pub struct RealFiles;

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let disk = disk_alone(file.try_clone()?, path).map_err(io::Error::other)?; // a copy of the store may name it, too
        file.set_len(0)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(disk)
    }

    fn open(&self, path: &Path, read_only: bool) -> io::Result<Arc<dyn Disk>> {
        let file = File::options().read(true).write(!read_only).open(path)?;
        match read_only {
            true => Ok(Arc::new(file)),
            false => disk_alone(file, path).map_err(io::Error::other),
        }
    }

    fn remove(&self, path: &Path) {
        let _ = std::fs::remove_file(path); // it may be gone
    }
}

/// An object's backing file, open.
pub(crate) struct Backing {
    disk: Arc<dyn Disk>,
    /// For messages.
    owner: Owner,
}

/// Whose file it is, and where.
#[derive(Clone)]
pub(crate) struct Owner {
    pub store: PathBuf,
    pub identity: [u8; 16],
    pub object: String,
    pub id: u64,
    pub pair: [u8; 16],
    pub path: PathBuf,
}

impl Owner {
    pub(crate) fn error(&self, detail: String) -> Error {
        let Owner { store, object, path, .. } = self.clone();
        Error::Backing { store, object, path, detail }
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |source| self.error(format!("cannot {action} it: {source}"))
    }
}

impl Backing {
    /// Makes an empty one, synced.
    pub(crate) fn create(files: &dyn Files, owner: Owner) -> Result<Backing> {
        let disk = files.create(&owner.path).map_err(owner.failed("create"))?;
        let mut header = SwapHeader {
            magic: SWAP_MAGIC,
            format: SWAP_FORMAT,
            store: owner.identity,
            object: owner.id,
            slot: CLUSTER,
            pair: owner.pair,
            ..SwapHeader::new_zeroed()
        };
        header.checksum = header.sum();
        let mut page = [0; SWAP_SLOTS as usize];
        page[..size_of::<SwapHeader>()].copy_from_slice(header.as_bytes());
        disk.write_at(0, &page).and_then(|()| disk.sync()).map_err(owner.failed("write"))?;
        Ok(Backing { disk, owner })
    }

    /// Opens it and finds out whether it is this object's.
    ///
    /// # Errors
    /// [`Error::Backing`].
    pub(crate) fn open(files: &dyn Files, owner: Owner, read_only: bool) -> Result<Backing> {
        let disk = files.open(&owner.path, read_only).map_err(owner.failed("open"))?;
        let mut header = SwapHeader::new_zeroed();
        let wrong = |detail: &str| Err(owner.error(detail.into()));
        if disk.read_at(0, header.as_mut_bytes()).is_err() {
            return wrong("it is shorter than its header");
        }
        if header.magic != SWAP_MAGIC {
            return wrong("it is no backing file");
        }
        if header.checksum != header.sum() {
            return wrong("the checksum of its header is wrong");
        }
        if header.format != SWAP_FORMAT || header.slot != CLUSTER {
            return wrong("its format is unknown to this program; use a newer Everbyte");
        }
        if header.pair != owner.pair || header.object != owner.id {
            return wrong("it belongs to another object, or to another store");
        }
        Ok(Backing { disk, owner })
    }

    fn at(slot: u32) -> u64 {
        SWAP_SLOTS + u64::from(slot) * CLUSTER
    }

    /// Makes sure of room for so many slots: a full disk is an error here, and not at a store.
    pub(crate) fn reserve(&self, slots: u64) -> Result<()> {
        self.disk.allocate(SWAP_SLOTS, slots.max(1) * CLUSTER).map_err(self.owner.failed("find room for"))
    }

    pub(crate) fn write(&self, slot: u32, bytes: &[u8]) -> Result<()> {
        self.disk.write_at(Backing::at(slot), bytes).map_err(self.owner.failed("write"))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.disk.sync().map_err(self.owner.failed("sync"))
    }

    /// Reads a slot that is to have this checksum; it is the bytes of the cluster at `at`.
    pub(crate) fn read(&self, slot: u32, checksum: u32, at: u64, into: &mut [u8]) -> Result<()> {
        let found = match self.disk.read_at(Backing::at(slot), into) {
            Ok(()) if crc32c::crc32c(into) == checksum => return Ok(()),
            Ok(()) => "they are not what was written".into(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the file ends before".into(),
            Err(error) => error.to_string(),
        };
        let offset = Backing::at(slot);
        Err(self.owner.error(format!("the bytes of offset {at:#x} of the store should lie at {offset:#x}: {found}")))
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }
}
