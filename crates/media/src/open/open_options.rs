//! Creating and opening media: choose the backend, replay the log, map.

use crate::backends::direct::{Backing, Direct};
use crate::backends::file::{self, Disk, FileBackend, FileDisk};
use crate::bytes::isa;
use crate::bytes::mapping::{Mapping, Mode};
use crate::counters::Counters;
use crate::media::{Backend, Inner, Media, Opened};
use crate::open::chunks::{ChunkDisk, Chunks, Guard, SEGMENT};
use crate::open::copy;
use crate::open::head::{COPIES, HEAD_END, Head};
use crate::pages::binding;
use crate::{BackendChoice, BackendKind, Error, FlushKind, Options, Profile, Recorder, Result, seeded};
use everbyte_members::Members;
use everbyte_members::{Birth, PrivateDescriptor};
use everbyte_members::{FileLockMode, lock_file, lock_file_apart};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The sizes of new media.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Declared maximum in bytes; a multiple of 4096, at most 64 TiB.
    pub max: u64,
    /// Bytes whose offsets in the file are the store's, heads included; they are there from the
    /// beginning. All others get a place in the file when something is backed there.
    pub len: u64,
    /// Where the `file` backend's log lies, at or above [`HEAD_END`]; multiples of 4096. Backed
    /// only when used.
    pub log_at: u64,
    /// What it may grow to; see [`Options::log_room`].
    pub log_len: u64,
}

/// The reads of the two copies of the head, for messages.
const READ_COPIES: [&str; 2] = ["read the media head at offset 0x2000", "read the media head at offset 0x3000"];

impl Media {
    /// Creates the file and maps it. The file must not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if it exists or cannot be made; [`Error::Unsupported`] if the backend asked
    /// for is not to be had there. Nothing is left behind.
    pub fn create(path: &Path, geometry: Geometry, options: &Options) -> Result<Media> {
        Media::create_bound(path, geometry, None, options)
    }

    /// [`Media::create`], bound to an address if one is given: the store is mapped there for life.
    /// See [`binding::address`].
    ///
    /// # Errors
    /// As [`Media::create`]; [`Error::AddressTaken`].
    ///
    /// # Panics
    /// If the address does not lie in [`binding::WINDOW`], at a multiple of 2 MiB, with room for
    /// the maximum.
    pub fn create_bound(path: &Path, geometry: Geometry, address: Option<u64>, options: &Options) -> Result<Media> {
        // For its owner alone: a process that may read the file may also lock it, and so keep its
        // owner out.
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| Error::Io { action: "create", path: path.into(), source })?;
        let media = Media::create_in(file, path, geometry, address, options).and_then(|media| {
            sync_directory(path)?;
            Ok(media)
        });
        media.inspect_err(|_| {
            let _ = std::fs::remove_file(path); // ours: `create_new` made it
        })
    }

    fn create_in(
        file: File,
        path: &Path,
        geometry: Geometry,
        address: Option<u64>,
        options: &Options,
    ) -> Result<Media> {
        let lock = lock_alone(&file, None, path, options)?;
        let Geometry { max, len, log_at, log_len } = geometry;
        assert!(
            log_at >= HEAD_END && log_at + log_len <= max && len >= HEAD_END && len <= max,
            "geometry contradicts itself"
        );
        assert!([max, len, log_at, log_len].iter().all(|size| size % 4096 == 0), "geometry is in pages");
        assert!(address.is_none_or(|address| binding::is_possible(address, max)), "no address for a bound store");
        // The map of chunks lies behind what needs none.
        let file_len = len + 2 * SEGMENT;
        let sized = file::require_length(file_len).and_then(|()| file.set_len(file_len));
        sized.map_err(|source| Error::Io { action: "size", path: path.into(), source })?;
        let mut head = Head::new(max, len, log_at, log_len);
        (head.binding, head.map_at) = (address.unwrap_or(0), len);
        for _ in COPIES {
            let (at, bytes) = head.next();
            Disk::write_at(&file, at, bytes).map_err(|source| Error::Io {
                action: "write",
                path: path.into(),
                source,
            })?;
        }
        Disk::sync(&file).map_err(|source| Error::Io { action: "sync", path: path.into(), source })?;
        if choose(&file, path, options.backend)? == BackendKind::File {
            return Media::resume(
                Arc::new(FileDisk::new(file, lock)),
                path,
                (head, Copies { torn: Vec::new(), agree: true }),
                options,
            );
        }
        let chunks = Arc::new(Chunks::open(&file, path, &head)?);
        Media::map((file.into(), lock), path, (head, chunks, Opened::default()), options, None)
    }

    /// Opens what [`Media::create`] made: locks it, replays the log whatever the backend, and maps
    /// it.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotAStore`], [`Error::NewerFormat`], [`Error::Damaged`],
    /// [`Error::Io`]. The file is not changed before it has been recognised as a store.
    pub fn open(path: &Path, options: &Options) -> Result<Media> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        Media::open_file(file, None, path, options)
    }

    /// `locks`: a description of its own for the lock, of a file that this process could not open
    /// again.
    pub(crate) fn open_file(file: File, locks: Option<File>, path: &Path, options: &Options) -> Result<Media> {
        let lock = lock_alone(&file, locks, path, options)?;
        let (head, copies) = examine(&file, path)?;
        if choose(&file, path, options.backend)? == BackendKind::File {
            // Pages anywhere in the file will be written.
            let len = Disk::len(&file).map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
            let may = file::require_length(len);
            may.map_err(|source| Error::Io { action: "write all of", path: path.into(), source })?;
            return Media::resume(Arc::new(FileDisk::new(file, lock)), path, (head, copies), options);
        }
        let file = Arc::new(file);
        let (mut head, chunks, opened) = bring_in(&file, path, head)?;
        repair_copies(&*file, path, &mut head, &copies)?;
        let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
        Media::map((file, lock), path, (head, chunks, opened), options, None)
    }

    /// Opens a store to look at it: the file is opened for reading alone and mapped privately, and
    /// what its log holds is brought into the private pages. Whatever is stored, recovery included,
    /// stays in this process and ends with it; flush, fence and barrier have nothing to do. Others
    /// may read meanwhile, nobody may write. A bound store does not take its address: others may
    /// need it.
    ///
    /// # Errors
    /// As [`Media::open`]. The file is never changed.
    pub fn open_read_only(path: &Path, options: &Options) -> Result<Media> {
        Media::look(open_to_read(path)?, path, options, false)
    }

    /// [`Media::open_read_only`] over a descriptor that somebody has passed; `path` is for
    /// messages. A bound store lies at its address if that is free.
    ///
    /// # Errors
    /// As [`Media::open`].
    pub fn open_read_only_file(file: File, path: &Path, options: &Options) -> Result<Media> {
        Media::look(file, path, options, true)
    }

    fn look(file: File, path: &Path, options: &Options, at_home: bool) -> Result<Media> {
        lock_file(&file, path, FileLockMode::Readers)?;
        let (head, copies) = examine(&file, path)?;
        let kind = choose(&file, path, options.backend)?;
        let file = Arc::new(file);
        let disk = chunked(&file, path, &head)?;
        let (mapping, len, opened) = private_copy(&file, &disk, path, &head, at_home)?;
        let opened = Opened { read_only: true, torn_heads: copies.torn, log_room: head.log_room, ..opened };
        // No file: there is nothing that room could be asked of, or that could be synced.
        let direct = Direct {
            kind,
            flush: FlushKind::None,
            profile: Profile::DRAM,
            slow: false,
            file: None,
            looked_at: Some(disk),
            birth: Birth::new(),
            path: path.into(),
            busy_until: 0.into(),
            punched: false.into(),
        };
        Ok(Media::assemble(mapping.into(), Backend::Direct(direct), path.into(), (len, head.bound_to()), opened))
    }

    /// Opens a copy of a store in memory of this process alone, at the address that it is bound to,
    /// and tells `recorder` of every store, flush, fence and barrier: how the crash explorer
    /// watches a program that it did not start with. Nobody may change the file meanwhile. The copy
    /// is shared memory, so that [`Media::map_over`] works.
    ///
    /// # Errors
    /// As [`Media::open`]. The file is never changed.
    pub fn open_recorded(path: &Path, recorder: Box<dyn Recorder>) -> Result<Media> {
        let file = open_to_read(path)?;
        lock_file(&file, path, FileLockMode::Readers)?;
        let (head, Copies { torn: torn_heads, .. }) = examine(&file, path)?;
        let file = Arc::new(file);
        let disk = chunked(&file, path, &head)?;
        let pending = file::pending(&disk, path, head)?;
        let io = |action| move |source| Error::Io { action, path: path.into(), source };
        let len = disk.len().map_err(io("measure"))?;
        let copy = copy::in_memory(&file, &disk.chunks, head.max).map_err(io("copy"))?;
        let mapping = map_linear(copy.as_fd(), path, Mode::Shared, &head, len)?;
        pending.put(&mapping);
        let opened = Opened { torn_heads, log_room: head.log_room, ..pending.opened() };
        Ok(Media::assemble(mapping.into(), Backend::Sim(recorder.into()), path.into(), (len, head.bound_to()), opened))
    }

    /// Raises the declared maximum of a store that nobody has open; a smaller one changes nothing.
    /// Durable on return.
    ///
    /// # Errors
    /// As [`Media::open`]; [`Error::Unsupported`] beyond 64 TiB.
    pub fn raise_max(path: &Path, max: u64) -> Result<()> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        lock_file(&file, path, FileLockMode::Exclusive)?;
        let (head, _) = examine(&file, path)?;
        let file = Arc::new(file);
        let (mut head, ..) = bring_in(&file, path, head)?;
        if max > 1 << 46 || !max.is_multiple_of(4096) {
            let detail = format!("a maximum of {max} bytes is beyond 64 TiB, or not whole pages");
            return Err(Error::Unsupported { path: path.into(), detail });
        }
        if head.bound_to().is_some_and(|address| !binding::is_possible(address, max)) {
            let detail = format!("bound to {:#x}, where {max} bytes have no room", head.binding);
            return Err(Error::Unsupported { path: path.into(), detail });
        }
        if max > head.max {
            head.max = max;
            head.write_both(&*file).map_err(|source| Error::Io { action: "write", path: path.into(), source })?;
        }
        Ok(())
    }

    /// Maps a file that stores reach, and that was locked by the other one, or by its own
    /// description. With `users`, several processes have it.
    pub(crate) fn map(
        (file, lock): (Arc<File>, Option<PrivateDescriptor>),
        path: &Path,
        (head, chunks, opened): (Head, Arc<Chunks>, Opened),
        options: &Options,
        members: Option<&Arc<Members>>,
    ) -> Result<Media> {
        debug_assert!(lock.is_none(), "a lock of its own is for private mappings");
        let kind = choose(&file, path, options.backend)?;
        let disk = ChunkDisk::new(Arc::clone(&file) as _, Arc::clone(&chunks), head.file_len);
        let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
        let mode = if kind == BackendKind::Pmem { Mode::SharedSync } else { Mode::Shared };
        // Whatever lies up to the log is looked at with the store's lock held, which brings news of
        // chunks.
        let guarded = members.filter(|_| !chunks.is_linear()).map(|_| (head.log_at + head.log_len) & !4095);
        let mapping = Arc::new(map_file(file.as_fd(), path, mode, (&head, &chunks, len), guarded)?);
        chunks.show_in(&mapping);
        let guard = members.map(|members| {
            chunks.share(members);
            Guard::new(&mapping, &chunks, &file)
        });
        let backing = Backing { file, disk, head: head.into(), _guard: guard };
        let direct = Direct::new(kind, Some(backing.into()), path, options)?;
        Ok(Media::assemble(mapping, Backend::Direct(direct), path.into(), (len, head.bound_to()), opened))
    }

    /// The `file` backend over any [`Disk`]: how the crash explorer cuts its power and fails its
    /// writes.
    ///
    /// # Errors
    /// As [`Media::open`].
    pub fn open_disk(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Media> {
        let found = examine(&*disk, path)?;
        Media::resume(disk, path, found, options)
    }

    /// The `file` backend goes on with its log where it was left: what the log holds is brought to
    /// the private pages and counts as flushed, and a checkpoint will write it. Without room to go
    /// on it is brought to its place now.
    fn resume(
        disk: Arc<dyn Disk>,
        path: &Path,
        (mut head, copies): (Head, Copies),
        options: &Options,
    ) -> Result<Media> {
        let chunks = Arc::new(Chunks::open(&*disk, path, &head)?);
        chunks.repair(&*disk)?;
        let disk: Arc<dyn Disk> = match chunks.is_linear() {
            true => disk,
            false => Arc::new(ChunkDisk::new(disk, Arc::clone(&chunks), head.file_len)),
        };
        let mut pending = file::resume(&*disk, path, head)?;
        repair_copies(&*disk, path, &mut head, &copies)?;
        let opened = pending.as_ref().map(file::Pending::opened).unwrap_or_default();
        if let Some(found) = &mut pending {
            if found.may_go_on(&head) {
                file::raise_format(&*disk, path, &mut head)?;
                file::go_on(&*disk, path, head, found)?;
            } else {
                head = file::settle(&*disk, path, head, found)?;
                pending = None;
            }
        }
        let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
        let mapping = Arc::new(map_file(disk.mappable(), path, Mode::Private, (&head, &chunks, len), None)?);
        chunks.show_in(&mapping);
        if let Some(found) = &pending {
            found.put(&mapping);
        }
        let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
        Media::on_disk_mapped(disk, mapping, path, (head, len, opened), pending.as_ref(), options)
    }

    fn on_disk_mapped(
        disk: Arc<dyn Disk>,
        mapping: Arc<Mapping>,
        path: &Path,
        (head, found_len, opened): (Head, u64, Opened),
        resumed: Option<&file::Pending>,
        options: &Options,
    ) -> Result<Media> {
        let counters = Arc::new(Counters::new());
        let binding = head.bound_to();
        // Programs with plain pointers store where they like, outside of any section.
        let options = &Options { give_back: options.give_back && binding.is_none(), ..options.clone() };
        let backend =
            FileBackend::start(disk, Arc::clone(&mapping), Arc::clone(&counters), path, head, resumed, options)?;
        let (backend, path, members) = (Backend::File(backend), path.into(), OnceLock::new());
        let beneath = OnceLock::new();
        let names = Arc::default();
        Ok(Media::new(Inner { mapping, beneath, backend, counters, path, found_len, binding, opened, members, names }))
    }

    /// Memory of this process alone, under the rules of `shm`; gone with the process. For tests and
    /// benches.
    ///
    /// # Errors
    /// The system is out of memory or the options ask for an instruction this CPU lacks.
    pub fn anonymous(len: u64, options: &Options) -> Result<Media> {
        let path = PathBuf::from("anonymous");
        let mapping = Mapping::anonymous(len, len);
        let mapping = mapping.map_err(|source| Error::Io { action: "map memory", path: path.clone(), source })?;
        let direct = Direct::new(BackendKind::Shm, None, &path, options)?;
        Ok(Media::assemble(mapping.into(), Backend::Direct(direct), path, (len, None), Opened::default()))
    }
}

impl Direct {
    fn new(kind: BackendKind, file: Option<Box<Backing>>, path: &Path, options: &Options) -> Result<Direct> {
        let flush = if options.flush_on_fail { FlushKind::None } else { options.flush.unwrap_or_else(isa::detect) };
        if !isa::supported(flush) {
            let detail = format!("this CPU has no {}; leave the flush instruction to be chosen", flush.name());
            return Err(Error::Unsupported { path: path.into(), detail });
        }
        let profile = options.profile;
        let slow = !profile.is_free();
        if slow {
            crate::backends::profile::ticks_per_ns(); // calibrate now, not inside the first fence
        }
        Ok(Direct {
            kind,
            flush,
            profile,
            slow,
            busy_until: 0.into(),
            punched: false.into(),
            file,
            looked_at: None,
            birth: Birth::new(),
            path: path.into(),
        })
    }
}

/// Locks a file for this process alone. A shared mapping belongs to the lock: a child of fork that
/// keeps it could store there.
fn lock_alone(file: &File, locks: Option<File>, path: &Path, options: &Options) -> Result<Option<PrivateDescriptor>> {
    match choose(file, path, options.backend)? {
        BackendKind::File => Ok(Some(lock_file_apart(file, locks, path)?)),
        _ => lock_file(file, path, FileLockMode::Exclusive).map(|()| None).map_err(Error::from),
    }
}

/// Maps a file whose store reaches to `len`, at the address that its store is bound to, or
/// anywhere.
fn map_file(
    file: BorrowedFd<'_>,
    path: &Path,
    mode: Mode,
    (head, chunks, len): (&Head, &Chunks, u64),
    guarded: Option<u64>,
) -> Result<Mapping> {
    if chunks.is_linear() {
        return map_linear(file, path, mode, head, len);
    }
    let limit = len.min(head.max) & !4095;
    let place = head.bound_to().map(|address| binding::reserve(path, address, head.max)).transpose()?;
    let mapping = Mapping::of_pieces(place, file, mode, (head.max, limit), &chunks.extents(), guarded);
    mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })
}

/// Maps a file whose offsets are the store's.
fn map_linear(file: BorrowedFd<'_>, path: &Path, mode: Mode, head: &Head, len: u64) -> Result<Mapping> {
    let limit = len.min(head.max) & !4095;
    let mapping = match head.bound_to() {
        None => Mapping::of_file(file, mode, head.max, limit),
        Some(address) => Mapping::over(binding::reserve(path, address, head.max)?, file, mode, head.max, limit),
    };
    mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })
}

/// The file by store offsets, for reading.
pub(crate) fn chunked(file: &Arc<File>, path: &Path, head: &Head) -> Result<ChunkDisk> {
    let chunks = Chunks::open(&**file, path, head)?;
    Ok(ChunkDisk::new(Arc::clone(file) as _, chunks.into(), head.file_len))
}

/// Brings the log of a file that this process has alone to its place, on any backend, before
/// anything is mapped.
pub(crate) fn bring_in(file: &Arc<File>, path: &Path, head: Head) -> Result<(Head, Arc<Chunks>, Opened)> {
    let disk = chunked(file, path, &head)?;
    disk.chunks.repair(&**file)?;
    let (head, opened) = file::replay(&disk, path, head)?;
    Ok((head, disk.chunks, opened))
}

/// Private memory with what a store's file and its log hold; also how far the store reaches and
/// what was found.
fn private_copy(
    file: &File,
    disk: &ChunkDisk,
    path: &Path,
    head: &Head,
    at_home: bool,
) -> Result<(Mapping, u64, Opened)> {
    let pending = file::pending(disk, path, *head)?;
    let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
    let home = head.bound_to().filter(|_| at_home);
    let place = home.and_then(|address| binding::reserve(path, address, head.max).ok());
    let limit = len.min(head.max) & !4095;
    let mut extents = disk.chunks.extents();
    if disk.chunks.is_linear() {
        extents.iter_mut().for_each(|extent| extent.len = limit);
        extents.retain(|extent| extent.len > 0);
    }
    let mapping = Mapping::copy_of_file(file.as_fd(), place, (head.max, limit), &extents);
    let mapping = mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })?;
    pending.put(&mapping);
    Ok((mapping, len, pending.opened()))
}

/// Where in the file `path` the byte at the store's offset `at` lies; `None`: nothing was ever
/// backed there. For tools, and for tests that damage a store. No process may change the store
/// meanwhile.
///
/// # Errors
/// As [`Media::open_read_only`].
pub fn file_offset(path: &Path, at: u64) -> Result<Option<u64>> {
    let file = open_to_read(path)?;
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

/// Opens a file for reading alone.
pub(crate) fn open_to_read(path: &Path) -> Result<File> {
    let io = |source| Error::Io { action: "open", path: path.into(), source };
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(io(std::io::ErrorKind::IsADirectory.into())); // which can be opened for reading
    }
    Ok(file)
}

/// Makes a new file's name survive, as its bytes do.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let io = |source| Error::Io { action: "sync the directory of", path: path.into(), source };
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io)
}

/// Recognises a store: the head that counts, and the copies that are torn. Changes nothing.
pub(crate) fn examine(disk: &dyn Disk, path: &Path) -> Result<(Head, Copies)> {
    let mut copies = [[0; 512]; 2];
    for (copy, (at, action)) in copies.iter_mut().zip(COPIES.into_iter().zip(READ_COPIES)) {
        match disk.read_at(at, copy) {
            // A file too short for a head is simply not a store.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => *copy = [0; 512],
            Err(_) if seeded("media-unread-head") => *copy = [0; 512],
            // Any other failure says nothing about the copy, and the other one may be older.
            read => read.map_err(|source| Error::Io { action, path: path.into(), source })?,
        }
    }
    let mut head = Head::choose(path, [&copies[0], &copies[1]])?;
    let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
    if head.map_at == 0 && len < head.file_len {
        let detail =
            format!("the file has {len} bytes and should have {}: it was truncated from outside", head.file_len);
        return Err(Error::Damaged { path: path.into(), at: len, detail });
    }
    let torn = COPIES.into_iter().zip(&copies).filter(|(_, copy)| !Head::is_whole(*copy)).map(|(at, _)| at);
    let torn: Vec<u64> = torn.collect();
    if !torn.is_empty() && !seeded("media-clean-by-one-copy") {
        head.log_clean = 0; // HEAD-5
        if head.map_at != 0 {
            // The copy that is torn may have been the newer one, and may have said that the store
            // reaches further. Nothing is backed outside of chunks.
            let reach = Chunks::open(disk, path, &head)?.reach();
            head.file_len = head.file_len.max(reach.min(head.max));
        }
    }
    let agree = copies.iter().all(|copy| head.agrees_with(copy)) || seeded("media-copies-disagree");
    Ok((head, Copies { torn, agree }))
}

/// What [`examine`] finds of the two copies of the head.
pub(crate) struct Copies {
    /// Where a copy is no whole head.
    pub torn: Vec<u64>,
    /// Either copy leads to all records that the log may come to hold.
    agree: bool,
}

/// Writes both copies of the head if one of them is torn, or if a crash has come between two that
/// belong together (HEAD-4). The log has been judged by then.
pub(crate) fn repair_copies(disk: &dyn Disk, path: &Path, head: &mut Head, copies: &Copies) -> Result<()> {
    if copies.torn.is_empty() && copies.agree {
        return Ok(());
    }
    head.write_both(disk).map_err(|source| Error::Io { action: "repair the media head", path: path.into(), source })
}

/// What a path can give: `MAP_SYNC` is tried, tmpfs is recognised, everything else is a disk.
pub(crate) fn choose(file: &File, path: &Path, choice: BackendChoice) -> Result<BackendKind> {
    const TMPFS: u64 = 0x0102_1994;
    const HUGETLBFS: u64 = 0x9584_58f6;
    let sync = || Mapping::of_file(file.as_fd(), Mode::SharedSync, 4096, 0).is_ok();
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
