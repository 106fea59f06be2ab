//! [`Media`]: one mapped store and the operations that order and settle what is stored in it.
//!
//! Threads: all methods may be called from any thread. Loads and stores live in
//! `bytes/access.rs`, opening in `open/`.

use crate::backends::direct::Direct;
use crate::backends::file::FileBackend;
use crate::bytes::mapping::Mapping;
use crate::changed_pages::PageSet;
use crate::counters::{Counter, Counters};
use crate::gate::Gate;
use crate::museum::sites::{Call, left_out};
use crate::museum::unless;
use crate::open::opened::Opened;
use crate::pages::named_ranges::RangeNames;
use crate::section::{Mark, Section};
use crate::units::{Length, Offset};
use crate::{BackendKind, Counts, Disk, Durability, Error, FlushKind, Options, Recorder, Result, Words, seeded};
use everbyte_members::Members;
use parking_lot::Mutex;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The properties of a backend that crates above may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Several processes may map the store and see each other's stores.
    pub shared: bool,
    /// A fence settles, too; if this is false only a barrier does.
    pub fence_settles: bool,
    /// 2 MiB pages may back the mapping.
    pub huge_pages: bool,
}

/// Mapped bytes that survive crashes, and the operations that order and settle stores. Cheap to
/// clone; all clones are one media.
#[derive(Clone)]
pub struct Media {
    pub(crate) inner: Arc<MappedStore>,
}

pub(crate) struct MappedStore {
    pub mapping: Arc<Mapping>,
    /// The second mapping of the file; set when pages are hidden in the first.
    pub beneath: OnceLock<Arc<Mapping>>,
    pub backend: Backend,
    pub gate: Arc<Gate>,
    /// Set since the first image of the media was taken.
    pub changed: OnceLock<PageSet>,
    pub counters: Arc<Counters>,
    pub path: PathBuf,
    pub found_len: u64,
    pub binding: Option<u64>,
    pub opened: Opened,
    /// Set if the media is shared.
    pub members: OnceLock<Arc<Members>>,
    /// Names of ranges, for errors.
    pub names: Arc<RangeNames>,
}

pub(crate) enum Backend {
    /// `pmem` and `shm`: flush instructions on a shared mapping.
    Direct(Direct),
    /// A private mapping, a log and a checkpoint.
    File(FileBackend),
    /// Private memory; a recorder gets every store.
    Sim(Mutex<Box<dyn Recorder>>),
}

impl Media {
    /// Media that reports its stores, flushes, fences and barriers to `recorder`; `image` is its
    /// first content.
    ///
    /// # Errors
    /// The system is out of memory.
    pub fn recorded(max: u64, image: &[u8], recorder: Box<dyn Recorder>) -> Result<Media> {
        let mapping = Mapping::anonymous(max, image.len() as u64).map_err(|source| Error::Io {
            action: "map memory",
            path: "sim".into(),
            source,
        })?;
        for (page, bytes) in image.chunks(4096).enumerate().filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)) {
            mapping.write(page as u64 * 4096, bytes); // other pages are zeros and take no memory
        }
        let (backend, len) = (Backend::Sim(Mutex::new(recorder)), image.len() as u64);
        Ok(Media::assemble(mapping.into(), backend, "sim".into(), (len, None), Opened::default()))
    }

    /// Takes back what [`Media::extend`] did to recorded media: only `len` bytes are backed again.
    /// No other thread uses it, and the bytes above are zeros, as the caller has seen to.
    ///
    /// # Panics
    /// Other media keep what they have backed.
    pub fn take_back(&self, len: u64) {
        assert!(matches!(self.inner.backend, Backend::Sim(_)), "only recorded media take back what they have backed");
        self.inner.mapping.lower_limit(len);
    }

    /// Memory of this process alone, under the rules of `shm`; it ends with the process. For tests
    /// and benches.
    ///
    /// # Errors
    /// The system is out of memory, or the options ask for an instruction that this CPU lacks.
    pub fn anonymous(len: impl Into<Length>, options: &Options) -> Result<Media> {
        let len = len.into().get();
        let path = PathBuf::from("anonymous");
        let mapping = Mapping::anonymous(len, len);
        let mapping = mapping.map_err(|source| Error::Io { action: "map memory", path: path.clone(), source })?;
        let direct = Direct::new(BackendKind::Shm, None, &path, options)?;
        Ok(Media::assemble(mapping.into(), Backend::Direct(direct), path, (len, None), Opened::default()))
    }

    pub(crate) fn assemble(
        mapping: Arc<Mapping>,
        backend: Backend,
        path: PathBuf,
        (found_len, binding): (u64, Option<u64>),
        opened: Opened,
    ) -> Media {
        let counters = Arc::new(Counters::new());
        let beneath = OnceLock::new();
        Media::new(MappedStore {
            mapping,
            beneath,
            backend,
            gate: Arc::new(Gate::new()),
            changed: OnceLock::new(),
            counters,
            path,
            found_len,
            binding,
            opened,
            members: OnceLock::new(),
            names: Arc::default(),
        })
    }

    pub(crate) fn new(inner: MappedStore) -> Media {
        Media { inner: Arc::new(inner) }
    }

    /// The address that the store is bound to. The store is mapped there, unless it was opened for
    /// reading.
    pub fn binding(&self) -> Option<u64> {
        self.inner.binding
    }

    /// The findings of opening, and whether the file is only read.
    pub fn opened(&self) -> &Opened {
        &self.inner.opened
    }

    /// The backend of this media, for messages and benches; other code asks for
    /// [`Media::capabilities`].
    pub fn kind(&self) -> BackendKind {
        match &self.inner.backend {
            Backend::Direct(direct) => direct.kind,
            Backend::File(_) => BackendKind::File,
            Backend::Sim(_) => BackendKind::Sim,
        }
    }

    /// The event that a barrier waits for. On backends whose fences settle, a barrier waits for
    /// nothing in every mode.
    pub fn durability(&self) -> Durability {
        match &self.inner.backend {
            Backend::File(file) => file.durability(),
            Backend::Direct(_) | Backend::Sim(_) => Durability::Always,
        }
    }

    /// The properties that crates above may rely on.
    pub fn capabilities(&self) -> Capabilities {
        match &self.inner.backend {
            Backend::Direct(_) => Capabilities { shared: true, fence_settles: true, huge_pages: true },
            Backend::File(_) => Capabilities { shared: false, fence_settles: false, huge_pages: false },
            Backend::Sim(recorder) => recorder.lock().capabilities(),
        }
    }

    /// The flush instruction in use; `None` on backends that issue none.
    pub fn flush_kind(&self) -> FlushKind {
        match &self.inner.backend {
            Backend::Direct(direct) => direct.flush,
            _ => FlushKind::None,
        }
    }

    /// The file behind the media, for messages.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes that the file system of the file has free, for users other than root; `None`: it
    /// cannot tell, or has no limit.
    pub fn disk_room(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(self.path()).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Bytes backed now; grows with [`Media::extend`].
    #[inline(always)]
    pub fn len(&self) -> u64 {
        self.inner.mapping.limit()
    }

    /// Bytes of the file, by the system. Store offsets are sparse and the file is compact, so the
    /// file may be shorter than [`Media::len`].
    pub fn file_len(&self) -> u64 {
        let len = match &self.inner.backend {
            Backend::Direct(direct) => direct.file.as_deref().map(|backing| Disk::len(&*backing.file)),
            Backend::File(file) => Some(file.file_len()),
            Backend::Sim(_) => None,
        };
        len.and_then(std::io::Result::ok).unwrap_or_else(|| self.len())
    }

    /// Bytes of the file when it was opened. They exceeded [`Media::len`] if the file did not end
    /// on a page: another program has changed it, and the bytes behind the last whole page are not
    /// ours.
    pub fn found_len(&self) -> u64 {
        self.inner.found_len
    }

    /// Whether no byte is backed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the last address of the store.
    pub fn max(&self) -> u64 {
        self.inner.mapping.reserve()
    }

    /// Bytes of the ring of backend `file`: the part of its log that is backed so far.
    pub fn log_room(&self) -> u64 {
        match &self.inner.backend {
            Backend::File(file) => file.log_room(),
            Backend::Direct(_) | Backend::Sim(_) => self.inner.opened.log_room,
        }
    }

    /// The cost of persistence since the media was opened.
    pub fn counts(&self) -> Counts {
        self.inner.counters.sum()
    }

    /// Starts the write-back of the lines that hold `at..at+len`. The next [`Media::fence`] orders
    /// it.
    ///
    /// # Panics
    /// If the range lies outside [`Media::len`].
    #[track_caller]
    #[inline]
    pub fn flush(&self, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        if self.leaves_out(Call::Flush) {
            return;
        }
        let len = if seeded("media-flush-short") { len.min(64) } else { len };
        if self.loses(at, len) {
            return;
        }
        let inner = &*self.inner;
        self.note_change(at, len);
        let lines = match &inner.backend {
            Backend::Direct(direct) => direct.flush(&inner.mapping, at, len),
            Backend::File(_) | Backend::Sim(_) => self.flush_logged(at, len),
        };
        inner.counters.add(Counter::Lines, lines);
    }

    /// A flush that takes more than an instruction: one copy for all callers.
    #[inline(never)]
    fn flush_logged(&self, at: u64, len: u64) -> u64 {
        match &self.inner.backend {
            Backend::Direct(_) => unreachable!("its flushes are instructions"),
            Backend::File(file) => file.flush(at, len),
            Backend::Sim(recorder) => {
                let (first, end) = crate::bytes::mapping::line_range(at, len);
                let mut recorder = recorder.lock();
                recorder.scan(self);
                recorder.flush(first, end - first);
                (end - first) / crate::LINE
            }
        }
    }

    /// [`Media::flush`] for single words; the other words of their lines may stay unflushed. On
    /// `file` this logs a fraction of the bytes of whole lines.
    ///
    /// # Panics
    /// If a line lies outside [`Media::len`].
    #[track_caller]
    pub fn flush_words(&self, list: &[Words]) {
        if self.leaves_out(Call::Flush) {
            return;
        }
        let inner = &*self.inner;
        // `count` and not `any`: each call records its lost flush.
        if list.iter().filter(|words| self.loses(words.line(), crate::LINE)).count() > 0 {
            return;
        }
        list.iter().for_each(|words| self.note_change(words.line(), crate::LINE));
        match &inner.backend {
            Backend::Direct(direct) => {
                for words in list {
                    direct.flush(&inner.mapping, words.line(), crate::LINE);
                }
            }
            Backend::File(file) => file.flush_words(list),
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                recorder.scan(self);
                for (line, mask) in list.iter().map(|words| (words.line(), words.mask())) {
                    for first in (0..8).filter(|bit| mask & 1 << bit != 0 && (*bit == 0 || mask & 1 << (bit - 1) == 0))
                    {
                        recorder.flush(line + first * 8, (mask >> first).trailing_ones() as u64 * 8);
                    }
                }
            }
        }
        inner.counters.add(Counter::Lines, list.len() as u64);
    }

    /// Flushes bytes of `at..at+len` that recovery has read and is about to act on. If only the
    /// process died, and not the machine, the bytes may lie in the caches unflushed; the stores of
    /// recovery must not survive without them. The caller fences. Costs nothing on backends where a
    /// process's stores die with it.
    ///
    /// # Panics
    /// If the range lies outside [`Media::len`].
    #[track_caller]
    #[inline]
    pub fn reflush(&self, at: impl Into<Offset>, len: impl Into<Length>) {
        self.reflush_range(at.into().get(), len.into().get());
    }

    #[track_caller]
    fn reflush_range(&self, at: u64, len: u64) {
        if self.fences_settle() && !seeded("media-adopt-nothing") {
            let _section = self.section();
            self.flush(at, len);
        }
    }

    /// Orders: no later store of this thread survives a crash without everything that the thread
    /// flushed before.
    ///
    /// On `pmem` and `shm` a fence settles, too. Code must be right without that.
    #[track_caller]
    #[inline]
    pub fn fence(&self) {
        if !self.leaves_out(Call::Fence) {
            self.order();
        }
    }

    #[inline]
    fn order(&self) {
        let inner = &*self.inner;
        inner.counters.add(Counter::Fences, 1);
        match &inner.backend {
            Backend::Direct(direct) => direct.fence(),
            Backend::File(_) | Backend::Sim(_) => self.order_logged(),
        }
    }

    /// A fence that takes more than an instruction: one copy for all callers.
    #[inline(never)]
    fn order_logged(&self) {
        match &self.inner.backend {
            Backend::Direct(_) => unreachable!("its fences are instructions"),
            Backend::File(file) => file.fence(),
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                recorder.scan(self);
                recorder.fence();
            }
        }
    }

    /// Refuses a forked child on `file` and on shared media: the child has no part in them. In
    /// memory that the parent has alone, the child keeps the parent's bytes.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        match (self.inner.members.get(), &self.inner.backend) {
            (Some(members), _) => Ok(members.require_here()?),
            (None, Backend::File(file)) => file.require_here(),
            _ => Ok(()),
        }
    }

    /// Completes: everything that this thread flushed before survives any crash that the durability
    /// mode covers.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a write or sync failed: the outcome is unknown until the store is
    /// opened again. [`Error::Forked`] in a child process of the one that opened the media.
    #[track_caller]
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        if self.leaves_out(Call::Barrier) {
            return Ok(());
        }
        self.order();
        unless("media-barrier-is-a-fence", || self.complete(self.mark()))
    }

    /// The position of the newest fence. [`Media::settle`] waits for it, possibly after the caller
    /// has released its locks.
    #[inline]
    pub fn mark(&self) -> Mark {
        match &self.inner.backend {
            Backend::File(file) => file.mark(),
            Backend::Direct(_) => Mark(0),
            Backend::Sim(recorder) => Mark(recorder.lock().mark()),
        }
    }

    /// Waits until everything before `mark` is settled. Callers that wait at the same time share
    /// one sync (group commit).
    ///
    /// # Errors
    /// As [`Media::barrier`].
    #[track_caller]
    #[inline]
    pub fn settle(&self, mark: Mark) -> Result<()> {
        if self.leaves_out(Call::Settle) { Ok(()) } else { self.complete(mark) }
    }

    /// As [`Media::settle`], in every durability mode: everything before `mark` survives a power
    /// cut on return.
    ///
    /// # Errors
    /// As [`Media::barrier`].
    #[track_caller]
    pub fn sync(&self, mark: Mark) -> Result<()> {
        self.settle(mark)?;
        match &self.inner.backend {
            Backend::File(file) => file.sync(mark),
            Backend::Direct(_) | Backend::Sim(_) => Ok(()),
        }
    }

    /// Whether a run of mutants leaves out this call: never on media without a recorder, and a
    /// constant without the feature `museum`.
    #[track_caller]
    #[inline(always)]
    fn leaves_out(&self, call: Call) -> bool {
        cfg!(feature = "museum") && self.is_recorded() && left_out(call, Location::caller())
    }

    #[inline]
    fn complete(&self, mark: Mark) -> Result<()> {
        let inner = &*self.inner;
        inner.counters.add(Counter::Barriers, 1);
        self.require_nothing_lost()?;
        match &inner.backend {
            Backend::Direct(_) => Ok(()),
            Backend::File(file) => file.settle(mark),
            Backend::Sim(recorder) => recorder
                .lock()
                .barrier(mark.0)
                .map_err(|source| Error::Poisoned { path: inner.path.clone(), cause: source.to_string() }),
        }
    }

    /// Whether a checkpoint has passed `mark`: bytes settled before it are in their place, and
    /// holes may be punched.
    pub fn checkpointed(&self, mark: Mark) -> bool {
        match &self.inner.backend {
            Backend::File(file) => file.checkpointed(mark),
            Backend::Direct(_) => true,
            Backend::Sim(recorder) => recorder.lock().settled(mark.0),
        }
    }

    /// The address of offset 0, for crates that may hold unsafe code (typed objects). It is valid
    /// while any clone of this media lives, and [`Media::len`] bytes from it are backed. A caller
    /// stores through it inside a [`Section`], and calls [`Media::report_store`].
    #[inline(always)]
    pub fn address(&self) -> std::ptr::NonNull<u8> {
        self.inner.mapping.address()
    }

    /// Whether a recorder is attached: stores through [`Media::address`] must then be reported.
    #[inline(always)]
    pub fn is_recorded(&self) -> bool {
        matches!(self.inner.backend, Backend::Sim(_))
    }

    /// Reports to the recorder the present content of `at..at+len`, after stores through
    /// [`Media::address`]. No effect on other media.
    ///
    /// # Panics
    /// If the range lies outside [`Media::len`].
    #[inline]
    pub fn report_store(&self, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        if let Backend::Sim(recorder) = &self.inner.backend {
            let mut recorder = recorder.lock();
            // Whole words, as they are stored. The bytes beside the range in its first and last
            // word have not changed.
            let (first, end) = (at & !7, (at + len).next_multiple_of(8).min(self.len()));
            let mut bytes = vec![0; (end - first) as usize];
            self.inner.mapping.read(first, &mut bytes);
            recorder.store(first, &bytes);
        }
    }

    /// Opens a write section; see [`Section`].
    #[inline]
    pub fn section(&self) -> Section<'_> {
        self.inner.gate.enter().with_window(self.open_window())
    }

    /// Backs the pages of `at..at+len` and grows the file if needed. The range reads as zeros or
    /// keeps its bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] beyond [`Media::max`]; [`Error::Io`] when the disk or the limit of
    /// [`Media::limit_room`] is full. Nothing has changed then.
    pub fn extend(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        let end = at.checked_add(len).filter(|&end| end <= self.max());
        let end = end.ok_or(Error::OutOfRange { at, len, limit: self.max() })?;
        // Whole pages: the units of mapping, copying and writing.
        let (at, end) = (at & !4095, end.next_multiple_of(4096).min(self.max()));
        let len = end - at;
        let io = |source| Error::Io { action: "allocate space", path: self.inner.path.clone(), source };
        match &self.inner.backend {
            Backend::Direct(direct) => direct.allocate(&self.inner.mapping, at, len)?,
            Backend::File(file) => file.allocate(at, len)?,
            Backend::Sim(recorder) => recorder.lock().allocate(at, len).map_err(io)?,
        }
        self.inner.mapping.raise_limit(end);
        if let Backend::Direct(Direct { kind: BackendKind::Shm, .. }) = &self.inner.backend {
            self.inner.mapping.collapse(at, len);
        }
        Ok(())
    }

    /// Frees the chunks of the file for which `is_free` says that no byte is backed, and shortens
    /// the file at its end. During the call no thread may back, store or flush bytes of such a
    /// chunk, and its earlier flushes must be settled. The range reads as zeros afterwards. Returns
    /// the bytes freed: 0 while other processes may have the store.
    ///
    /// # Errors
    /// As [`Media::barrier`]; [`Error::Io`]. Chunks freed before the error stay free.
    pub fn free_chunks(&self, is_free: &dyn Fn(std::ops::Range<u64>) -> bool) -> Result<u64> {
        let freed = Mutex::new(Vec::new());
        let is_free = &|range: std::ops::Range<u64>| {
            let free = is_free(range.clone());
            if free {
                freed.lock().push(range);
            }
            free
        };
        let done = self.free_chunks_below(is_free);
        freed.into_inner().into_iter().for_each(|range| self.note_change(range.start, range.end - range.start));
        done
    }

    fn free_chunks_below(&self, is_free: &dyn Fn(std::ops::Range<u64>) -> bool) -> Result<u64> {
        match &self.inner.backend {
            Backend::Direct(direct) => {
                let Some(backing) = &direct.file else { return Ok(0) };
                let io =
                    |source| Error::Io { action: "write the map of chunks of", path: self.inner.path.clone(), source };
                backing.disk.free_chunks(is_free).map_err(io)
            }
            Backend::File(file) => file.free_chunks(is_free),
            Backend::Sim(_) => Ok(0),
        }
    }

    /// Makes [`Media::extend`] refuse ranges with which the file would take more than `max` bytes
    /// on the disk. The part of the log that is not backed yet is reserved within them. No effect
    /// on media without a map of chunks.
    pub fn limit_room(&self, max: u64) {
        match &self.inner.backend {
            Backend::Direct(direct) => {
                if let Some(backing) = &direct.file {
                    backing.disk.limit_room(max);
                }
            }
            Backend::File(file) => file.limit_room(max),
            Backend::Sim(_) => {}
        }
    }

    /// Returns the pages of `at..at+len` to the file system. The caller has settled the change that
    /// released them, and [`Media::checkpointed`] holds for that mark. The range then reads as
    /// zeros or as before.
    pub fn punch(&self, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        match &self.inner.backend {
            Backend::Direct(direct) => direct.punch(at, len),
            Backend::File(file) => file.punch(at, len),
            Backend::Sim(recorder) => recorder.lock().punch(at, len),
        }
        self.note_change(at, len); // from now on it may count as zeros
    }

    /// The parts of `at..at+len` that hold data in the file, in order; `None` if the system cannot
    /// tell. The other parts read as zeros and may take space on the disk. On backend `file` the
    /// newest stores may not be in the file yet.
    pub fn data(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Option<Vec<std::ops::Range<u64>>> {
        let (at, len) = (at.into().get(), len.into().get());
        match &self.inner.backend {
            Backend::Direct(direct) => direct.data(at, len),
            Backend::File(file) => file.data(at, len),
            Backend::Sim(_) => None,
        }
    }

    /// Whether `at..at+len` is known to be a hole, so that it need not be loaded. On `shm` a load
    /// of a hole allocates memory, and if none is left the system kills the process by SIGBUS.
    /// `false` on backends whose loads allocate nothing.
    pub fn is_hole(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        match &self.inner.backend {
            // A read-only opening puts the log's bytes into private memory and not into the file.
            Backend::Direct(direct) if direct.kind == BackendKind::Shm && self.inner.opened.log_records == 0 => {
                direct.data(at, len).is_some_and(|data| data.is_empty())
            }
            _ => false,
        }
    }

    /// Refuses a child of the process that opened a file alone: it sees and can change the same
    /// bytes, but its knowledge of the bytes in use is that of the fork.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn require_opener(&self) -> Result<()> {
        match &self.inner.backend {
            Backend::Direct(direct) if direct.file.is_some() && direct.birth.is_child() => {
                Err(Error::Forked { owner: direct.birth.owner() })
            }
            _ => self.require_here(),
        }
    }

    /// Checkpoints everything that was flushed and leaves an empty log. Dropping the last clone
    /// does the same but cannot report an error.
    ///
    /// # Errors
    /// As [`Media::barrier`].
    pub fn close(&self) -> Result<()> {
        match &self.inner.backend {
            Backend::File(file) => file.close(),
            Backend::Direct(direct) => direct.close(),
            Backend::Sim(_) => Ok(()),
        }
    }

    /// For tests: ends a `file` store as if its process had died, without a checkpoint or a write.
    #[doc(hidden)]
    pub fn abandon(self) {
        if let Backend::File(file) = &self.inner.backend {
            file.abandon();
        }
    }

    /// For tests: the step of the thread of a `file` store that writes a batch that is half full.
    #[doc(hidden)]
    pub fn write_early(&self) -> Result<()> {
        match &self.inner.backend {
            Backend::File(file) => file.write_early(),
            Backend::Direct(_) | Backend::Sim(_) => Ok(()),
        }
    }

    /// Runs a checkpoint now; the background thread does so when the log fills.
    ///
    /// # Errors
    /// As [`Media::barrier`].
    pub fn checkpoint(&self) -> Result<()> {
        match &self.inner.backend {
            Backend::File(file) => file.checkpoint(),
            Backend::Direct(_) | Backend::Sim(_) => Ok(()),
        }
    }
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Media({}, {}, {} bytes)", self.inner.path.display(), self.kind().name(), self.len())
    }
}
