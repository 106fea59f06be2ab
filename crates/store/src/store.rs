//! [`Store`]: making, opening, closing, and asking what is in it.

use crate::background::Background;
use crate::catalogue::record::{self, Entry};
use crate::catalogue::table::Table;
use crate::layout::{FEATURE_ACCESS, FORMAT, SUPERBLOCKS, Superblock};
use crate::object::limit::Residency;
use crate::sharing::Shared;
use crate::superblock::identity::{self, Held};
use crate::superblock::plan::Plan;
use crate::superblock::{self, Copy, Words};
use crate::{Access, Engine, Error, Object, Origin, Recovery, Result, Want, object};
use everbyte_cold::Files;
use everbyte_media::{BackendKind, Media, OpenOptions, Options};
use everbyte_space::{CLUSTER, Space};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Options of [`Store::create`].
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// How the store is opened once it is made; the log's size is fixed here.
    pub media: Options,
    /// Declared maximum in bytes, 1 TiB by default: the store's file takes no more room on the
    /// disk, and one object may have nearly all of it. A store takes as much as it needs. Of it a
    /// sixteenth at most is set aside for the log.
    pub max: u64,
    /// Binds the store to one address for life, for programs that keep plain pointers in it. Bound
    /// stores share a process if they do not overlap: a smaller maximum makes that likelier. Such a
    /// store has no more addresses than its maximum, so its largest object has half of that.
    pub bound: bool,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions { media: Options::default(), max: 1 << 40, bound: false }
    }
}

/// Options of [`Store::format`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// Bytes set aside for the log of the `file` backend; 0 on media that will never be opened as a
    /// file.
    pub log_len: u64,
    /// The identity; `None`: random. Tests that compare bytes give one.
    pub identity: Option<[u8; 16]>,
}

/// One open store. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

// A caught panic leaves a store as a crash would: whole. So transactions of typed objects may
// capture one.
impl std::panic::UnwindSafe for Store {}
impl std::panic::RefUnwindSafe for Store {}

pub(crate) struct Inner {
    /// Ends before anything is let go.
    pub background: Background,
    /// Let go before the media is. `None` on media that were attached: whoever opened these tells
    /// them apart.
    pub held: Mutex<Option<Held>>,
    pub media: Media,
    /// The path of the store's file, absolute and without links, whatever the process does to its
    /// directory later; `None` if the media is no file of a name.
    pub home: Option<PathBuf>,
    /// Changes only in [`Store::grow`].
    pub current: RwLock<Superblock>,
    pub space: Arc<Space>,
    /// Read: clusters are being backed. Write: nobody is between asking for room and setting bits.
    pub gate: RwLock<()>,
    /// Who counts the clusters of a user and gives it more.
    pub counting: Mutex<()>,
    pub table: Mutex<Table>,
    /// How often the store was opened.
    pub generation: u64,
    /// Objects made in this session.
    pub created: AtomicU64,
    pub words: Mutex<Words>,
    pub recovery: Recovery,
    /// Set where other processes may have the store open.
    pub shared: OnceLock<Shared>,
    /// Set where backing files are not the system's.
    pub files: OnceLock<Arc<dyn Files>>,
}

/// What a store is; see [`Store::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Random 16 bytes, unlike any other store's.
    pub identity: [u8; 16],
    /// Format of the store.
    pub format: u32,
    /// The backend it is open on.
    pub backend: BackendKind,
    /// Declared maximum in bytes.
    pub max: u64,
    /// The largest maximum it can be grown to.
    pub max_max: u64,
    /// Bytes of the file, as `ls` shows them.
    pub len: u64,
    /// Bytes that the log of the `file` backend may grow to.
    pub log_len: u64,
    /// Bytes of it that are in use, and on the disk; 0 before that backend first opens the store.
    pub log_room: u64,
    /// Bytes of clusters that objects have.
    pub backed: u64,
    /// Bytes that nobody has and that the file system has not back: released, or prepared for who
    /// asks next.
    pub waiting: u64,
    /// Objects.
    pub objects: u64,
    /// Objects it can hold at most: each takes addresses for a cluster, or more.
    pub slots: u64,
    /// How often it was opened.
    pub opened: u64,
    /// The address it is bound to, if it is.
    pub binding: Option<u64>,
}

/// What an object is; see [`Store::objects`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name.
    pub name: String,
    /// A number that no other object of this store ever had.
    pub id: u64,
    /// The one engine that may change it.
    pub engine: Engine,
    /// The type fingerprint its engine gave it.
    pub fingerprint: u64,
    /// The addresses it may ever use.
    pub span: Range<u64>,
    /// One past its last cluster; `None` if its header is damaged.
    pub backed: Option<u64>,
    /// What it is a copy of, if it is one.
    pub origin: Option<Origin>,
    /// Who may do what with it.
    pub access: Access,
    /// Clusters that it may have, if that is limited.
    pub quota: Option<u64>,
    /// What of it is in memory, if that is limited.
    pub residency: Option<Residency>,
}

/// How many more addresses are tried for a new bound store when something in this process lies at
/// the first.
const TRIES: usize = 32;

impl Store {
    /// Creates the store file, formats and opens it. Settled on return, directory entry included.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Media`] if the file exists or cannot be made, or a bound
    /// store finds no free address. No file is left behind.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Store> {
        let plan = match options.bound {
            true => Plan::new(options.max, options.media.log_bytes)?,
            false => Plan::spacious(options.max, options.media.log_bytes)?,
        };
        let mut others = 0..TRIES;
        let media = loop {
            let address = if options.bound { Some(identity::random_address(plan.addresses)?) } else { None };
            match OpenOptions::new(path).bound_to(address).create(plan.geometry(), &options.media) {
                // another one is as good
                Err(everbyte_media::Error::AddressTaken { .. }) if others.next().is_some() => {}
                made => break made?,
            }
        };
        Store::format_as(media, &plan, identity::random).and_then(Store::hold).inspect_err(|_| {
            let _ = std::fs::remove_file(path); // this call created it
        })
    }

    /// Opens a store: takes its lock, brings its log in, recovers its metadata. Costs nothing
    /// proportional to the data. Objects recover when they are opened.
    ///
    /// # Errors
    /// [`Error::Media`]: in use, not there, not a store, poisoned. [`Error::SameIdentity`] for a
    /// copy beside its open original. Otherwise as [`Store::attach`].
    pub fn open(path: &Path, options: &Options) -> Result<Store> {
        identity::refuse_copy(path)?;
        let store = Store::attach(OpenOptions::new(path).open(options)?)?;
        store.require_readable()?;
        store.hold()
    }

    /// Opens a store to look at it: the file is not changed, whatever recovery does stays in this
    /// process. What an ordinary opening would put right is among the findings of [`Store::check`].
    ///
    /// # Errors
    /// As [`Store::open`]; several may read at once.
    pub fn open_read_only(path: &Path, options: &Options) -> Result<Store> {
        Store::attach(OpenOptions::new(path).read_only().open(options)?)
    }

    /// [`Store::open_read_only`] over a descriptor that somebody has passed; `name` is for
    /// messages.
    ///
    /// # Errors
    /// As [`Store::open_read_only`].
    pub fn open_read_only_file(file: File, name: &Path, options: &Options) -> Result<Store> {
        Store::attach(OpenOptions::new(name).read_only().over(file).open(options)?)
    }

    /// Formats empty media, all zeros, and opens the store on it.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::BadOption`], [`Error::Media`].
    pub fn format(media: Media, options: &FormatOptions) -> Result<Store> {
        let plan = Plan::new(media.max(), options.log_len)?;
        let identity = options.identity;
        Store::format_as(media, &plan, || identity.map_or_else(identity::random, Ok))
    }

    fn format_as(media: Media, plan: &Plan, identity: impl FnOnce() -> Result<[u8; 16]>) -> Result<Store> {
        if superblock::copies(&media) != [Copy::Blank; 2] {
            return Err(Error::NotEmpty { path: media.path().into() });
        }
        let out_of_space = |bytes| {
            move |source| match source {
                source @ everbyte_media::Error::Io { .. } => Error::OutOfSpace { at: 0, bytes, source },
                source => Error::Media(source),
            }
        };
        media.extend(0, plan.space.bitmap_at).map_err(out_of_space(plan.space.bitmap_at))?;
        // Empty media is zeros as far as it reaches.
        let accounted = media.len().next_multiple_of(CLUSTER);
        Words { accounted, ..Words::default() }.write(&media);
        media.barrier()?; // the words are there before a superblock says that this is a store
        let plain = plan.superblock(identity()?);
        let (binding, features) = (media.binding().unwrap_or(0), plain.features | FEATURE_ACCESS);
        let superblock = Superblock { binding, features, ..plain };
        superblock::write(&media, superblock, &SUPERBLOCKS)?;
        Store::attach(media)
    }

    /// The media it lies on.
    pub fn media(&self) -> &Media {
        &self.inner.media
    }

    /// Whether it was opened to be looked at: what is stored stays in this process.
    pub fn is_read_only(&self) -> bool {
        self.media().opened().read_only
    }

    /// Declared maximum in bytes.
    pub fn max(&self) -> u64 {
        self.inner.superblock().max
    }

    /// Random 16 bytes, unlike any other store's.
    pub fn identity(&self) -> [u8; 16] {
        self.inner.superblock().identity
    }

    /// How often the store was opened: volatile areas stamped with another number are of an earlier
    /// life.
    pub fn generation(&self) -> u64 {
        self.inner.generation
    }

    /// What opening found and put right.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// Sizes and counts. Costs one look at each object.
    pub fn info(&self) -> Info {
        let inner = &*self.inner;
        let _exclusive = self.exclusive(); // without it this is what was known last
        let live = inner.list(&mut inner.table.lock(), "").unwrap_or_default();
        let backed = live.iter().map(|entry| {
            let end = object::read_header(&inner.media, entry).map_or(entry.span.at(), |extent| extent.backed);
            let runs = inner.space.bitmap().runs(&inner.media, entry.span.at()..end, true);
            runs.iter().map(|run| run.end - run.start).sum::<u64>()
        });
        Info {
            identity: inner.superblock().identity,
            format: FORMAT,
            backend: inner.media.kind(),
            max: inner.superblock().max,
            max_max: inner.space.bitmap().capacity(),
            len: inner.media.file_len(),
            log_len: inner.superblock().log_len,
            log_room: inner.media.log_room(),
            backed: backed.sum(),
            waiting: inner.space.waiting(),
            objects: live.len() as u64,
            slots: (inner.superblock().end() - inner.superblock().spans_at) / CLUSTER,
            opened: inner.generation,
            binding: inner.media.binding(),
        }
    }

    /// Opens an object; opening it twice gives the same one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Truncated`]; [`Error::Attached`] while
    /// another process has it open.
    pub fn object(&self, name: &str) -> Result<Object> {
        self.open_object(name, true, Want::Write)
    }

    /// Opens an object, `alone` or with other processes that share it. Of a store that is only
    /// looked at nobody gets more than reading.
    pub(crate) fn open_object(&self, name: &str, alone: bool, want: Want) -> Result<Object> {
        let inner = &*self.inner;
        let _exclusive = self.exclusive()?;
        let mut table = inner.table.lock();
        let entry = inner.live(&mut table, name).map_err(|error| self.require_readable().err().unwrap_or(error))?;
        self.require_access(&entry, if self.is_read_only() { Want::Read } else { want })?;
        if let Some(open) = table.open.get(&entry.at).and_then(Weak::upgrade) {
            let may_be_cold = open.cold().is_some();
            if may_be_cold && (!alone && self.is_shared() || want == Want::Read) {
                return Err(Error::Unshared { object: name.into() });
            }
            if self.is_shared() && open.alone.load(Ordering::Relaxed) != alone {
                // as another process would be refused
                return Err(Error::Open { object: name.into() });
            }
            return Ok(Object { inner: open });
        }
        let extent = inner.extent(&entry)?;
        if extent.resident > 0 && (!alone && self.is_shared() || want == Want::Read) {
            return Err(Error::Unshared { object: name.into() });
        }
        self.attach_object(entry.id, name, alone)?;
        if !inner.recovery.clean {
            // Its engine builds on which clusters are backed (STORE-8).
            inner.space.reflush(&(entry.span.at()..extent.backed));
            inner.media.fence();
        }
        let at = entry.at;
        let cold = self.pager(&entry, &extent).inspect_err(|_| self.detach_object(entry.id))?;
        let object = Object::new(self.clone(), entry, extent.backed, alone, cold);
        table.open.insert(at, Arc::downgrade(&object.inner));
        Ok(object)
    }

    /// All objects, ordered by name.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a record is damaged: the list would not be whole.
    pub fn objects(&self) -> Result<Vec<ObjectInfo>> {
        self.objects_below("")
    }

    /// The objects whose names begin with `prefix`, ordered by name.
    ///
    /// # Errors
    /// As [`Store::objects`].
    pub fn objects_below(&self, prefix: &str) -> Result<Vec<ObjectInfo>> {
        let inner = &*self.inner;
        let _exclusive = self.exclusive()?;
        let live = inner.list(&mut inner.table.lock(), prefix)?;
        self.require_readable()?;
        Ok(live.into_iter().map(|entry| inner.describe(entry)).collect())
    }

    /// The id of the object of this name, if there is one: a name that was looked up before is
    /// found without the trie.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn find(&self, name: &str) -> Result<Option<u64>> {
        let _exclusive = self.exclusive()?;
        let found = self.inner.find_id(&mut self.inner.table.lock(), name)?;
        if found.is_none() {
            self.require_readable()?;
        }
        Ok(found)
    }

    /// [`Store::find`] by the trie alone, as if nothing was remembered: for measurements. In a
    /// store without one it is that.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn find_on_media(&self, name: &str) -> Result<Option<u64>> {
        let _exclusive = self.exclusive()?;
        let mut table = self.inner.table.lock();
        if table.trie.is_none() {
            return self.inner.find_id(&mut table, name);
        }
        let found = self.inner.find_on_media(&mut table, name)?;
        Ok(found.and_then(|at| record::live_id(self.media(), at)))
    }

    /// What the object of this name is. Opens nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`].
    pub fn stat(&self, name: &str) -> Result<ObjectInfo> {
        let _exclusive = self.exclusive()?;
        let entry = self.inner.live(&mut self.inner.table.lock(), name)?;
        Ok(self.inner.describe(entry))
    }

    /// The names that begin with `prefix`, in order. Looks at no object.
    ///
    /// # Errors
    /// As [`Store::objects`].
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let _exclusive = self.exclusive()?;
        let live = self.inner.list(&mut self.inner.table.lock(), prefix)?;
        Ok(live.into_iter().map(|entry| entry.name).collect())
    }

    /// Begins the trie of names now, rather than when the table of 256 records is full. Settled on
    /// return.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::NoSpan`], [`Error::OutOfSpace`], [`Error::Media`]: the table goes
    /// on as before.
    pub fn index_names(&self) -> Result<()> {
        let _exclusive = self.renaming()?;
        let mut table = self.inner.table.lock();
        match table.trie {
            Some(_) => Ok(()),
            None => self.inner.promote(&mut table),
        }
    }

    /// Raises the declared maximum, within what the media was mapped for and the bitmaps speak for.
    /// Objects keep their spans, which were chosen for the old one; new objects may have larger
    /// ones. Settled on return; a crash leaves the old maximum or the new one.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `max` is smaller than now, or more than [`Info::max_max`] or the
    /// media's maximum (use [`Store::open_grown`]); [`Error::Media`].
    pub fn grow(&self, max: u64) -> Result<()> {
        let inner = &*self.inner;
        inner.media.require_opener()?;
        let max = max / CLUSTER * CLUSTER;
        let mut current = inner.current.write();
        let (capacity, mapped) = (inner.space.bitmap().capacity(), inner.media.max());
        let detail = if self.is_shared() {
            "other processes may have this store open; close it there and use `everbyte grow`".into()
        } else if max < current.max {
            format!("a store does not shrink: its maximum is {} bytes", current.max)
        } else if max > capacity {
            format!("the bitmaps of this store speak for {capacity} bytes; make a larger store and copy")
        } else if max > mapped {
            format!("this process has mapped {mapped} bytes of the store; close it and use `everbyte grow`")
        } else {
            let addresses = if current.addresses == 0 { 0 } else { current.addresses.max(max) };
            let grown = Superblock { max, addresses, sequence: current.sequence + 1, ..*current };
            superblock::write(&inner.media, grown, &SUPERBLOCKS)?;
            *current = grown.sealed();
            inner.limit_media(&grown);
            return Ok(());
        };
        Err(Error::BadOption { detail })
    }

    /// Raises the maximum of a store that is closed, and opens it. A crash leaves the old maximum
    /// or the new one.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::grow`].
    pub fn open_grown(path: &Path, options: &Options, max: u64) -> Result<Store> {
        let max = max / CLUSTER * CLUSTER;
        {
            // Everything that could refuse is asked before anything changes.
            let store = Store::open(path, options)?;
            let Info { max: now, max_max, .. } = store.info();
            if max < now || max > max_max {
                store.grow(max)?;
            }
            store.close()?;
        }
        identity::refuse_copy(path)?;
        let store = Store::attach(OpenOptions::new(path).grown(max).open(options)?)?;
        store.require_readable()?;
        let store = store.hold()?;
        store.grow(max)?;
        Ok(store)
    }

    /// Gives all released clusters back to the file system, those included that a crash made
    /// nobody's. Settles and checkpoints. Returns the bytes given back.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn trim(&self) -> Result<u64> {
        let inner = &*self.inner;
        let _exclusive = self.changing()?;
        let (swept, given_back);
        {
            let _nobody_backs = inner.gate.write();
            let spans_at = inner.superblock().spans_at;
            let end = inner.media.len().min(inner.superblock().end()) / CLUSTER * CLUSTER;
            for used in inner.space.used().runs(&inner.media, spans_at..end, true) {
                for hole in inner.space.bitmap().runs(&inner.media, used, false) {
                    inner.space.reflush(&hole); // settled below, before it becomes a hole in the file
                    inner.space.list_released(hole);
                }
            }
            swept = inner.space.sweep(&(spans_at.min(end)..end));
            given_back = inner.space.trim()?;
            inner.space.free_chunks(&(spans_at..inner.superblock().end()))?;
        }
        Ok(given_back + swept)
    }

    /// Clears now what was released and is kept for whoever asks next, and prepares what is, rather
    /// than in the background. Nobody needs to call it; what waits until it is done is
    /// measurements.
    pub fn clear_released(&self) {
        self.inner.background.finish();
    }

    /// For tests: keeps released clusters, and prepares others, on recorded media, too, where
    /// [`Store::clear_released`] alone does it, and from the first object and the first growth on.
    #[doc(hidden)]
    pub fn keep_released(&self) {
        self.inner.background.keep(true);
        self.inner.background.by_hand();
    }

    /// Gives released clusters back, notes that the store was closed, and brings everything flushed
    /// to its place. Nothing that was never flushed is rescued. Other clones must not be used
    /// afterwards. A shared store is left, and closed by the last who leaves.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn close(&self) -> Result<()> {
        self.inner.shared.get().map_or_else(|| self.close_alone(), |shared| self.leave(shared))
    }

    pub(crate) fn close_alone(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.media.require_opener()?;
        inner.background.stop();
        inner.space.trim()?;
        {
            let _nobody_backs = inner.gate.write();
            inner.space.free_chunks(&(inner.superblock().spans_at..inner.superblock().end()))?;
        }
        inner.media.barrier()?; // nothing counts as closed before everything else is settled
        {
            let mut words = inner.words.lock();
            words.closed = words.opened;
            // with what was prepared
            words.accounted = words.accounted.max(inner.media.len().next_multiple_of(CLUSTER));
            words.write(&inner.media);
        }
        inner.media.barrier()?;
        Ok(inner.media.close()?)
    }

    pub(crate) fn space(&self) -> &Space {
        &self.inner.space
    }

    /// Notes on media that an object grows, so that opening finds it; until the guard is dropped.
    pub(crate) fn depart(&self, record: u64) -> Option<Flight<'_>> {
        let superblock = self.inner.superblock();
        loop {
            let noted = self.inner.table.lock().depart(&superblock, record);
            match noted {
                Ok(noted) => return noted.then_some(Flight { store: &self.inner, record }),
                Err(_) => std::thread::yield_now(), // those that grow are done soon
            }
        }
    }

    /// Held from asking for room until the bits are set, against [`Store::trim`].
    pub(crate) fn backing_gate(&self) -> RwLockReadGuard<'_, ()> {
        self.inner.gate.read()
    }
}

/// A record in flight; see [`Store::depart`].
pub(crate) struct Flight<'s> {
    store: &'s Inner,
    record: u64,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.store.table.lock().arrive(self.record);
    }
}

impl Inner {
    fn describe(&self, entry: Entry) -> ObjectInfo {
        let extent = object::read_header(&self.media, &entry).ok();
        ObjectInfo {
            id: entry.id,
            engine: entry.engine,
            fingerprint: entry.fingerprint,
            span: entry.span.range(),
            backed: extent.map(|extent| extent.backed),
            quota: extent.map(|extent| extent.quota / CLUSTER).filter(|&quota| quota > 0),
            residency: extent.and_then(|extent| self.residency(&entry, &extent)),
            origin: entry.origin,
            access: entry.access,
            name: entry.name,
        }
    }

    /// Has the media refuse room beyond the store's maximum, where addresses do not end there.
    pub(crate) fn limit_media(&self, superblock: &Superblock) {
        if superblock.addresses != 0 {
            self.media.limit_room(superblock.max);
        }
    }

    /// The superblock in use.
    pub(crate) fn superblock(&self) -> Superblock {
        *self.current.read()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({:?})", self.inner.media)
    }
}
