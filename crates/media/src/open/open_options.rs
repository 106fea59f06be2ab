//! [`OpenOptions`]: one builder for every way to create or open a store. Each way ends in the same
//! steps: lock the file, recognise the store, replay its log, map it.
//!
//! Threads: any.

use crate::backends::direct::{Backing, Direct};
use crate::backends::file::disk::{Disk, FileDisk};
use crate::backends::file::replay::{self, LogContent};
use crate::backends::file::{FileBackend, require_length};
use crate::bytes::mapping::Mode;
use crate::counters::Counters;
use crate::media::{Backend, MappedStore, Media};
use crate::open::chunks::{ChunkDisk, Chunks, Guard, SEGMENT};
use crate::open::examine::{
    Copies, choose, chunk_disk, examine, open_for_reading, open_for_writing, repair_copies, replay_log, sync_directory,
};
use crate::open::head::{COPIES, HEAD_END, Head};
use crate::open::map_file::{map_file, map_linear, private_copy};
use crate::open::opened::Opened;
use crate::open::{copy, filled};
use crate::pages::binding;
use crate::{BackendKind, Error, Options, Recorder, Result};
use everbyte_members::{FileLockMode, JoinLock, Members, PrivateDescriptor, lock_file, lock_file_apart};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The sizes of a new store.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Declared maximum in bytes; a multiple of 4096, at most 64 TiB.
    pub max: u64,
    /// Bytes that lie at the same offset in the file and in the store, heads included; the file has
    /// them from the beginning. All other offsets get a chunk of the file when they are backed.
    pub len: u64,
    /// Offset of the `file` backend's log, at or above [`HEAD_END`]; a multiple of 4096. Backed
    /// only when used.
    pub log_at: u64,
    /// Largest length of the log; see [`Options::log_room`].
    pub log_len: u64,
}

/// The way in which a store is created or opened.
///
/// ```
/// use everbyte_media::{Geometry, OpenOptions, Options};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("store");
/// let geometry = Geometry { max: 1 << 20, len: 256 << 10, log_at: 32 << 10, log_len: 64 << 10 };
/// let media = OpenOptions::new(&path).create(geometry, &Options::default())?;
/// media.store(128 << 10, 7);
/// media.flush(128 << 10, 8);
/// media.barrier()?;
/// drop(media);
/// let media = OpenOptions::new(&path).read_only().open(&Options::default())?;
/// assert_eq!(media.load(128 << 10), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing happens before `open`, `open_shared`, `create`, `create_copy` or `record`"]
pub struct OpenOptions {
    path: PathBuf,
    read_only: bool,
    bytes: Option<File>,
    locks: Option<File>,
    disk: Option<Arc<dyn Disk>>,
    address: Option<u64>,
    max: Option<u64>,
}

impl OpenOptions {
    /// Options for the store file at `path`: read and write, for this process alone.
    pub fn new(path: impl AsRef<Path>) -> OpenOptions {
        OpenOptions {
            path: path.as_ref().into(),
            read_only: false,
            bytes: None,
            locks: None,
            disk: None,
            address: None,
            max: None,
        }
    }

    /// Opens the file for reading and maps it privately; the content of its log goes to the private
    /// pages. Stores, those of recovery included, stay in this process and end with it; flush,
    /// fence and barrier do nothing. Other processes may read meanwhile, and none may write. A
    /// bound store is not mapped at its address, which other stores may need.
    pub fn read_only(self) -> OpenOptions {
        OpenOptions { read_only: true, ..self }
    }

    /// Uses `bytes` in place of opening the path, which then only appears in messages. A bound
    /// store that is read is mapped at its address if that is free.
    pub fn over(self, bytes: File) -> OpenOptions {
        OpenOptions { bytes: Some(bytes), ..self }
    }

    /// Uses the description of `locks`, which serves no other purpose, for the locks on the file.
    /// For a process that was passed the descriptors and may not open the file itself.
    pub fn locks(self, locks: File) -> OpenOptions {
        OpenOptions { locks: Some(locks), ..self }
    }

    /// Runs the `file` backend on `disk`: the crash explorer cuts its power and fails its writes.
    pub fn on_disk(self, disk: Arc<dyn Disk>) -> OpenOptions {
        OpenOptions { disk: Some(disk), ..self }
    }

    /// Binds a new store to an address, at which it is mapped from then on; `None` binds it to
    /// none. See [`binding::address`].
    pub fn bound_to(self, address: Option<u64>) -> OpenOptions {
        OpenOptions { address, ..self }
    }

    /// Raises the declared maximum to `max` bytes before the store is mapped; a smaller one changes
    /// nothing. Durable when the store is open.
    pub fn grown(self, max: u64) -> OpenOptions {
        OpenOptions { max: Some(max), ..self }
    }

    /// Creates the file and maps it. The file must not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if it exists or cannot be made; [`Error::Unsupported`] if the path cannot give
    /// the backend; [`Error::AddressTaken`]. No file is left behind.
    ///
    /// # Panics
    /// If the address is not a multiple of 2 MiB inside [`binding::WINDOW`] with space for the
    /// maximum behind it.
    pub fn create(self, geometry: Geometry, options: &Options) -> Result<Media> {
        self.allow("create", &["bound_to"])?;
        let path = &*self.path;
        // Readable for its owner only: a process that may read the file may also lock it, and so
        // keep its owner out.
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| Error::Io { action: "create", path: path.into(), source })?;
        let media = create_in(file, path, geometry, self.address, options).and_then(|media| {
            sync_directory(path)?;
            Ok(media)
        });
        media.inspect_err(|_| {
            let _ = std::fs::remove_file(path); // this call created it
        })
    }

    /// Creates the file of a store of `len` bytes that is not open, of the pages that `next`
    /// returns: an offset and whole pages, until `None`. All other bytes are zeros. Durable on
    /// return, apart from its name. `len` includes the linear part.
    ///
    /// # Errors
    /// As [`OpenOptions::create`], and those of `next`. No file is left behind.
    ///
    /// # Panics
    /// As [`OpenOptions::create`].
    pub fn create_filled(
        self,
        geometry: Geometry,
        len: u64,
        next: &mut dyn FnMut() -> std::io::Result<Option<(u64, Vec<u8>)>>,
    ) -> Result<()> {
        self.allow("create_filled", &["bound_to"])?;
        let path = &*self.path;
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| Error::Io { action: "create", path: path.into(), source })?;
        let filled = lock_file(&file, path, FileLockMode::Exclusive).map_err(Error::from).and_then(|()| {
            let head = make_heads(&file, path, geometry, self.address)?;
            filled::fill(file, path, head, len, next)
        });
        filled.inspect_err(|_| {
            let _ = std::fs::remove_file(path); // this call created it
        })
    }

    /// Creates the file as a copy of the store `source` and opens it. `progress` is called with the
    /// bytes copied so far and the bytes to copy. The source is only read: it may be a store that
    /// crashed.
    ///
    /// # Errors
    /// As [`OpenOptions::open`] for both files, as [`OpenOptions::create`] for the copy. No file is
    /// left behind.
    pub fn create_copy(self, source: &Path, options: &Options, progress: &mut dyn FnMut(u64, u64)) -> Result<Media> {
        self.allow("create_copy", &[])?;
        let path = &*self.path;
        let file = copy::create(source, path, options, progress)?;
        open_alone(file, None, path, options, None).inspect_err(|_| {
            let _ = std::fs::remove_file(path); // this call created it
        })
    }

    /// Opens the store: locks it, replays its log on any backend, and maps it.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotAStore`], [`Error::NewerFormat`], [`Error::Damaged`],
    /// [`Error::Io`]. [`Error::Unsupported`] if the path cannot give the backend, or for a maximum
    /// beyond 64 TiB. The file is not changed before it has been recognised as a store, and never
    /// when it is opened for reading.
    pub fn open(mut self, options: &Options) -> Result<Media> {
        if let Some(disk) = self.disk.take() {
            self.allow("on_disk", &[])?;
            let found = examine(&*disk, &self.path)?;
            return resume_log(disk, &self.path, found, options);
        }
        if self.read_only {
            self.allow("read_only", &["read_only", "over"])?;
            let at_home = self.bytes.is_some();
            let file = self.bytes.take().map_or_else(|| open_for_reading(&self.path), Ok)?;
            return open_read_only(file, &self.path, options, at_home);
        }
        self.allow("open", &["over", "locks", "grown"])?;
        let file = self.bytes.take().map_or_else(|| open_for_writing(&self.path), Ok)?;
        open_alone(file, self.locks, &self.path, options, self.max)
    }

    /// Opens a store that other processes may have open, too. The caller then recovers the store if
    /// it is alone ([`JoinLock::is_alone`]), and joins. `None`: processes do not share the backend,
    /// and this process has the store alone.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]; [`Error::InUse`] while a process has the store alone or reads it.
    pub fn open_shared(mut self, options: &Options) -> Result<(Media, Option<JoinLock>)> {
        self.allow("open_shared", &["over", "locks"])?;
        let file = self.bytes.take().map_or_else(|| open_for_writing(&self.path), Ok)?;
        match choose(&file, &self.path, options.backend)? {
            BackendKind::File => Ok((open_alone(file, self.locks, &self.path, options, None)?, None)),
            _ => super::join::open_shared(file, self.locks, &self.path, options)
                .map(|(media, joining)| (media, Some(joining))),
        }
    }

    /// Opens a copy of the store in memory of this process, at the address that the store is bound
    /// to, and reports every store, flush, fence and barrier to `recorder`: the crash explorer
    /// records a program that it did not start. No process may change the file meanwhile. The copy
    /// is shared memory, so that [`Media::map_over`] works.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]. The file is never changed.
    pub fn record(self, recorder: Box<dyn Recorder>) -> Result<Media> {
        self.allow("record", &[])?;
        let path = &*self.path;
        let file = open_for_reading(path)?;
        lock_file(&file, path, FileLockMode::Readers)?;
        let (head, Copies { torn: torn_heads, .. }) = examine(&file, path)?;
        let file = Arc::new(file);
        let disk = chunk_disk(&file, path, &head)?;
        let content = replay::peek(&disk, path, head)?;
        let io = |action| move |source| Error::Io { action, path: path.into(), source };
        let len = disk.len().map_err(io("measure"))?;
        let copy = copy::in_memory(&file, &disk.chunks, head.max).map_err(io("copy"))?;
        let mapping = map_linear(copy.as_fd(), path, Mode::Shared, &head, len)?;
        content.put(&mapping);
        let opened = Opened { torn_heads, log_room: head.log_room, ..content.opened() };
        Ok(Media::assemble(mapping.into(), Backend::Sim(recorder.into()), path.into(), (len, head.bound_to()), opened))
    }

    /// Refuses options that `call` has no meaning for.
    fn allow(&self, call: &str, allowed: &[&str]) -> Result<()> {
        let set = [
            ("read_only", self.read_only),
            ("over", self.bytes.is_some()),
            ("locks", self.locks.is_some()),
            ("on_disk", self.disk.is_some()),
            ("bound_to", self.address.is_some()),
            ("grown", self.max.is_some()),
        ];
        match set.into_iter().find(|(name, set)| *set && !allowed.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let detail = format!("`{call}` does not combine with the option `{name}`");
                Err(Error::Unsupported { path: self.path.clone(), detail })
            }
        }
    }
}

/// Sizes a new file and writes its heads, both of them.
fn make_heads(file: &File, path: &Path, geometry: Geometry, address: Option<u64>) -> Result<Head> {
    let Geometry { max, len, log_at, log_len } = geometry;
    assert!(
        log_at >= HEAD_END && log_at + log_len <= max && len >= HEAD_END && len <= max,
        "geometry contradicts itself"
    );
    assert!([max, len, log_at, log_len].iter().all(|size| size % 4096 == 0), "geometry is in pages");
    assert!(address.is_none_or(|address| binding::is_possible(address, max)), "no address for a bound store");
    // The map of chunks lies behind the linear part.
    let file_len = len + 2 * SEGMENT;
    let sized = require_length(file_len).and_then(|()| file.set_len(file_len));
    sized.map_err(|source| Error::Io { action: "size", path: path.into(), source })?;
    let mut head = Head::new(max, len, log_at, log_len);
    (head.binding, head.map_at) = (address.unwrap_or(0), len);
    for _ in COPIES {
        let (at, bytes) = head.next();
        let written = Disk::write_at(file, at, bytes);
        written.map_err(|source| Error::Io { action: "write", path: path.into(), source })?;
    }
    Disk::sync(file).map_err(|source| Error::Io { action: "sync", path: path.into(), source })?;
    Ok(head)
}

fn create_in(file: File, path: &Path, geometry: Geometry, address: Option<u64>, options: &Options) -> Result<Media> {
    let lock = lock_alone(&file, None, path, options)?;
    let head = make_heads(&file, path, geometry, address)?;
    if choose(&file, path, options.backend)? == BackendKind::File {
        let copies = Copies { torn: Vec::new(), agree: true };
        return resume_log(Arc::new(FileDisk::new(file, lock)), path, (head, copies), options);
    }
    let chunks = Arc::new(Chunks::open(&file, path, &head)?);
    map_shared((file.into(), lock), path, (head, chunks, Opened::default()), options, None)
}

/// Opens a store for this process alone. `locks` is a description for the lock only, of a file that
/// this process could not open again; `max` raises the declared maximum first.
fn open_alone(file: File, locks: Option<File>, path: &Path, options: &Options, max: Option<u64>) -> Result<Media> {
    let lock = lock_alone(&file, locks, path, options)?;
    let file = Arc::new(file);
    if let Some(max) = max {
        raise_max(&file, path, max)?;
    }
    let (head, copies) = examine(&*file, path)?;
    if choose(&file, path, options.backend)? == BackendKind::File {
        // Checkpoints write pages anywhere in the file.
        let len = Disk::len(&*file).map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
        let may = require_length(len);
        may.map_err(|source| Error::Io { action: "write all of", path: path.into(), source })?;
        let file = Arc::into_inner(file).expect("no mapping holds the file yet");
        return resume_log(Arc::new(FileDisk::new(file, lock)), path, (head, copies), options);
    }
    let (mut head, chunks, opened) = replay_log(&file, path, head)?;
    repair_copies(&*file, path, &mut head, &copies)?;
    let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
    map_shared((file, lock), path, (head, chunks, opened), options, None)
}

fn open_read_only(file: File, path: &Path, options: &Options, at_home: bool) -> Result<Media> {
    lock_file(&file, path, FileLockMode::Readers)?;
    let (head, copies) = examine(&file, path)?;
    let kind = choose(&file, path, options.backend)?;
    let file = Arc::new(file);
    let disk = chunk_disk(&file, path, &head)?;
    let (mapping, len, opened) = private_copy(&file, &disk, path, &head, at_home)?;
    let opened = Opened { read_only: true, torn_heads: copies.torn, log_room: head.log_room, ..opened };
    let direct = Direct::for_reading(kind, disk, path);
    Ok(Media::assemble(mapping.into(), Backend::Direct(direct), path.into(), (len, head.bound_to()), opened))
}

/// Raises the declared maximum in the head of a locked store.
fn raise_max(file: &Arc<File>, path: &Path, max: u64) -> Result<()> {
    let (head, _) = examine(&**file, path)?;
    let (mut head, ..) = replay_log(file, path, head)?;
    if max > 1 << 46 || !max.is_multiple_of(4096) {
        let detail = format!("a maximum of {max} bytes is beyond 64 TiB, or not whole pages");
        return Err(Error::Unsupported { path: path.into(), detail });
    }
    if head.bound_to().is_some_and(|address| !binding::is_possible(address, max)) {
        let detail = format!("bound to {:#x}, where {max} bytes do not fit", head.binding);
        return Err(Error::Unsupported { path: path.into(), detail });
    }
    if max > head.max {
        head.max = max;
        head.write_both(&**file).map_err(|source| Error::Io { action: "write", path: path.into(), source })?;
    }
    Ok(())
}

/// Maps a file that stores reach, and that was locked by this description or by one of its own.
/// With `members`, several processes have it.
pub(crate) fn map_shared(
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
    // Bytes up to the end of the log are read with the store's lock held; taking it shows new
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

/// Opens the `file` backend, which continues its log: the records go to the private pages and count
/// as flushed, and a checkpoint will write them. A log without space to continue is replayed to its
/// place now.
fn resume_log(
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
    let mut content = replay::read(&*disk, path, head)?;
    repair_copies(&*disk, path, &mut head, &copies)?;
    let opened = content.as_ref().map(LogContent::opened).unwrap_or_default();
    if let Some(found) = &mut content {
        if found.may_continue(&head) {
            replay::raise_format(&*disk, path, &mut head)?;
            replay::continue_log(&*disk, path, head, found)?;
        } else {
            head = replay::apply(&*disk, path, head, found)?;
            content = None;
        }
    }
    let found_len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
    let mapping = Arc::new(map_file(disk.mappable(), path, Mode::Private, (&head, &chunks, found_len), None)?);
    chunks.show_in(&mapping);
    if let Some(found) = &content {
        found.put(&mapping);
    }
    let opened = Opened { torn_heads: copies.torn, log_room: head.log_room, ..opened };
    let (counters, binding) = (Arc::new(Counters::new()), head.bound_to());
    // A program with plain pointers stores outside of any section.
    let options = &Options { give_back: options.give_back && binding.is_none(), ..options.clone() };
    let (to, by) = (Arc::clone(&mapping), Arc::clone(&counters));
    let backend = FileBackend::start(disk, to, by, path, head, content.as_ref(), options)?;
    let gate = backend.gate();
    Ok(Media::new(MappedStore {
        gate,
        changed: OnceLock::new(),
        mapping,
        beneath: OnceLock::new(),
        backend: Backend::File(backend),
        counters,
        path: path.into(),
        found_len,
        binding,
        opened,
        members: OnceLock::new(),
        names: Arc::default(),
    }))
}

/// Locks a file for this process alone. The lock of a shared mapping ends with the last mapping: a
/// forked child that keeps one could store to the file.
fn lock_alone(file: &File, locks: Option<File>, path: &Path, options: &Options) -> Result<Option<PrivateDescriptor>> {
    match choose(file, path, options.backend)? {
        BackendKind::File => Ok(Some(lock_file_apart(file, locks, path)?)),
        _ => {
            lock_file(file, path, FileLockMode::Exclusive)?;
            Ok(None)
        }
    }
}
