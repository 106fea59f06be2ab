//! Recognising a store: the head that counts, the backend that its path can give, the chunks of its
//! file; and the repair of what a crash left in the head.
//!
//! Threads: any. The caller holds the lock on the file.

use crate::backends::file::disk::Disk;
use crate::backends::file::replay;
use crate::bytes::mapping::Mapping;
use crate::open::chunks::{ChunkDisk, Chunks};
use crate::open::head::{COPIES, Head};
use crate::open::opened::Opened;
use crate::{BackendChoice, BackendKind, Damage, Error, Result, seeded};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// The reads of the two copies of the head, for messages.
const READ_COPIES: [&str; 2] = ["read the media head at offset 0x2000", "read the media head at offset 0x3000"];

/// The file by store offsets.
pub(crate) fn chunk_disk(file: &Arc<File>, path: &Path, head: &Head) -> Result<ChunkDisk> {
    let chunks = Chunks::open(&**file, path, head)?;
    Ok(ChunkDisk::new(Arc::clone(file) as _, chunks.into(), head.file_len))
}

/// Replays the log of a file that this process has alone, on any backend, before the file is
/// mapped.
pub(crate) fn replay_log(file: &Arc<File>, path: &Path, head: Head) -> Result<(Head, Arc<Chunks>, Opened)> {
    let disk = chunk_disk(file, path, &head)?;
    disk.chunks.repair(&**file)?;
    let (head, opened) = replay::replay(&disk, path, head)?;
    Ok((head, disk.chunks, opened))
}

/// The offset in the file `path` of the byte at the store's offset `at`; `None`: the byte was never
/// backed. For tools, and for tests that damage a store. No process may change the store meanwhile.
///
/// # Errors
/// As [`crate::OpenOptions::open`] for reading.
pub fn file_offset(path: &Path, at: u64) -> Result<Option<u64>> {
    let file = open_for_reading(path)?;
    let (head, _) = examine(&file, path)?;
    Ok(Chunks::open(&file, path, &head)?.part(at..at + 1).1)
}

/// Turns a file that holds each byte of a store at its offset, as images of crashes do, into a
/// store without a map of chunks.
///
/// # Errors
/// [`Error::NotAStore`], [`Error::Io`].
pub fn make_linear(file: &File, path: &Path) -> Result<()> {
    let io = |action| move |source| Error::Io { action, path: path.into(), source };
    let mut copies = [[0; 512]; 2];
    for (copy, at) in copies.iter_mut().zip(COPIES) {
        Disk::read_at(file, at, copy).map_err(io("read the media head of"))?;
    }
    let mut head = Head::choose(path, [&copies[0], &copies[1]])?;
    (head.map_at, head.file_len) = (0, head.file_len.min(Disk::len(file).map_err(io("measure"))?));
    head.write_both(file).map_err(io("write the media head of"))
}

/// Opens a store file for reading and writing.
pub(crate) fn open_for_writing(path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).open(path);
    file.map_err(|source| Error::Io { action: "open", path: path.into(), source })
}

/// Opens a store file for reading only.
pub(crate) fn open_for_reading(path: &Path) -> Result<File> {
    let io = |source| Error::Io { action: "open", path: path.into(), source };
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        // the system opens directories for reading, too
        return Err(io(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Syncs the directory, so that a new file's name is durable, as its bytes are.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let io = |source| Error::Io { action: "sync the directory of", path: path.into(), source };
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io)
}

/// Recognises a store: the head that counts, and the torn copies. Changes nothing.
pub(crate) fn examine(disk: &dyn Disk, path: &Path) -> Result<(Head, Copies)> {
    let mut copies = [[0; 512]; 2];
    for (copy, (at, action)) in copies.iter_mut().zip(COPIES.into_iter().zip(READ_COPIES)) {
        match disk.read_at(at, copy) {
            // A file too short for a head is not a store.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => *copy = [0; 512],
            Err(_) if seeded("media-unread-head") => *copy = [0; 512],
            // Any other failure leaves the copy unknown, and the other copy may be older.
            read => read.map_err(|source| Error::Io { action, path: path.into(), source })?,
        }
    }
    let mut head = Head::choose(path, [&copies[0], &copies[1]])?;
    let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
    if head.map_at == 0 && len < head.file_len {
        let detail =
            format!("the file has {len} bytes and should have {}: it was truncated from outside", head.file_len);
        return Err(Error::from(Damage::at(len, detail).of_file(path)));
    }
    let torn = COPIES.into_iter().zip(&copies).filter(|(_, copy)| !Head::is_whole(*copy)).map(|(at, _)| at);
    let torn: Vec<u64> = torn.collect();
    if !torn.is_empty() && !seeded("media-clean-by-one-copy") {
        head.log_clean = 0; // HEAD-5
        if head.map_at != 0 {
            // The torn copy may have been the newer one, with a larger length. Chunks bound the
            // length: all backed bytes lie in them.
            let reach = Chunks::open(disk, path, &head)?.reach();
            head.file_len = head.file_len.max(reach.min(head.max));
        }
    }
    let agree = copies.iter().all(|copy| head.agrees_with(copy)) || seeded("media-copies-disagree");
    Ok((head, Copies { torn, agree }))
}

/// The state of the two copies of the head.
pub(crate) struct Copies {
    /// Offsets of copies that are no whole head.
    pub torn: Vec<u64>,
    /// Either copy leads to every record that the log holds or will hold.
    pub agree: bool,
}

/// Writes both copies of the head if one of them is torn, or if a crash came between the two writes
/// of one change (HEAD-4). The caller has examined the log before.
pub(crate) fn repair_copies(disk: &dyn Disk, path: &Path, head: &mut Head, copies: &Copies) -> Result<()> {
    if copies.torn.is_empty() && copies.agree {
        return Ok(());
    }
    head.write_both(disk).map_err(|source| Error::Io { action: "repair the media head", path: path.into(), source })
}

/// The backend for a file: `pmem` if `MAP_SYNC` works, `shm` on tmpfs and hugetlbfs, else `file`.
/// The answer is the same for a file that is open for reading alone.
pub(crate) fn choose(file: &File, path: &Path, choice: BackendChoice) -> Result<BackendKind> {
    const TMPFS: u64 = 0x0102_1994;
    const HUGETLBFS: u64 = 0x9584_58f6;
    let sync = || Mapping::try_sync(file.as_fd()).is_ok(); // MAP-4
    match choice {
        BackendChoice::Pmem if !sync() => Err(Error::Unsupported {
            path: path.into(),
            detail: "no DAX file system here (MAP_SYNC is refused); mount one with -o dax, or use backend `file`"
                .into(),
        }),
        BackendChoice::Pmem => Ok(BackendKind::Pmem),
        BackendChoice::File => Ok(BackendKind::File),
        BackendChoice::Shm => Ok(BackendKind::Shm),
        BackendChoice::Auto if sync() => Ok(BackendKind::Pmem),
        BackendChoice::Auto => {
            let system = rustix::fs::fstatfs(file);
            let system =
                system.map_err(|errno| Error::Io { action: "examine", path: path.into(), source: errno.into() })?;
            Ok(if [TMPFS, HUGETLBFS].contains(&(system.f_type as u64)) { BackendKind::Shm } else { BackendKind::File })
        }
    }
}
