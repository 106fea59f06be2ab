//! [`Store`]: the handle of an open store, and the parts behind it.
//!
//! Each part owns its locks; docs/design/locks.md says in which order threads take them.

use crate::catalogue::ids::Ids;
use crate::catalogue::part::Catalogue;
use crate::catalogue::record::{self, Entry, Origin};
use crate::catalogue::table::CatalogueTable;
use crate::layout::{FORMAT, Superblock};
use crate::object::access::Access;
use crate::object::backing::{BackingFiles, Residency};
use crate::object::growth::Growth;
use crate::object::header;
use crate::object::opened::OpenObjects;
use crate::object::quota::Quotas;
use crate::recover::Recovery;
use crate::sharing::{Exclusive, Sharing};
use crate::superblock::head::Head;
use crate::superblock::identity::IdentityHold;
use crate::superblock::words::Words;
use crate::{Engine, Error, Result};
use everbyte_media::{BackendKind, Geometry, Length, Media, Offset};
use everbyte_members::{JoinLock, Since};
use everbyte_names::LastClose;
use everbyte_space::{CLUSTER, ObjectId, Space, SpaceLayout};
use std::ops::Range;
use std::sync::Arc;

/// One open store. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    parts: Arc<Parts>,
}

// A caught panic leaves a store whole, as a crash does. So transactions of typed objects may
// capture one.
impl std::panic::UnwindSafe for Store {}
impl std::panic::RefUnwindSafe for Store {}

/// The parts of one open store.
pub(crate) struct Parts {
    identity: IdentityHold, // goes before the media
    media: Media,
    head: Arc<Head>,
    growth: Arc<Growth>,
    catalogue: Arc<Catalogue>,
    opened: OpenObjects,
    quotas: Quotas,
    backing: BackingFiles,
    sharing: Sharing,
    recovery: Recovery,
    /// An earlier process may have died with stores that are unflushed still.
    after_death: bool,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.growth.background().stop(); // before any part goes
    }
}

impl Parts {
    /// The parts of a store whose superblock, words and table were read. `last` is the
    /// end of the last process that had the store open.
    pub(crate) fn new(
        media: Media,
        superblock: Superblock,
        words: Words,
        table: CatalogueTable,
        last: LastClose,
    ) -> Parts {
        let Superblock { bitmap_at, used_at, bitmap_len, .. } = superblock;
        let space = Space::new(
            media.clone(),
            SpaceLayout { bitmap_at: bitmap_at.get(), used_at: used_at.get(), bitmap_len: bitmap_len.get() },
        );
        space.suspect(words.suspect.clone());
        let growth = Arc::new(Growth::new(media.clone(), Arc::new(space)));
        let ids = Ids::new(words.opened);
        let head = Arc::new(Head::new(media.clone(), superblock, words));
        let shared = || (Arc::clone(&head), Arc::clone(&growth));
        let catalogue = Arc::new(Catalogue::new(media.clone(), shared(), ids, last, table));
        Parts {
            identity: IdentityHold::default(),
            opened: OpenObjects::default(),
            quotas: Quotas::new(media.clone(), shared(), Arc::clone(&catalogue)),
            backing: BackingFiles::new(media.clone(), shared()),
            sharing: Sharing::default(),
            recovery: Recovery::default(),
            after_death: false,
            media,
            head,
            growth,
            catalogue,
        }
    }

    pub(crate) fn set_recovery(&mut self, recovery: Recovery) {
        self.recovery = recovery;
    }

    pub(crate) fn set_after_death(&mut self, after_death: bool) {
        self.after_death = after_death;
    }

    pub(crate) fn media(&self) -> &Media {
        &self.media
    }

    pub(crate) fn identity(&self) -> &IdentityHold {
        &self.identity
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn growth(&self) -> &Growth {
        &self.growth
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub(crate) fn opened(&self) -> &OpenObjects {
        &self.opened
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(crate) fn backing(&self) -> &BackingFiles {
        &self.backing
    }

    #[inline]
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    fn describe(&self, entry: Entry) -> ObjectInfo {
        let extent = header::read(&self.media, &entry).ok();
        ObjectInfo {
            id: entry.id,
            engine: entry.engine,
            fingerprint: entry.fingerprint,
            span: entry.span.range(),
            backed: extent.map(|extent| extent.backed),
            quota: extent.map(|extent| extent.quota / CLUSTER).filter(|&quota| quota > 0),
            residency: extent.and_then(|extent| self.backing.residency(&entry, &extent)),
            origin: entry.origin,
            access: entry.access,
            name: entry.name,
        }
    }
}

/// Sizes and counts of a store; see [`Store::info`].
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
    /// Bytes of the log that are in use, and on the disk; 0 before that backend first opens the
    /// store.
    pub log_room: u64,
    /// Bytes of clusters that objects have.
    pub backed: u64,
    /// Bytes of free clusters that still have space on the disk: released, or prepared for the next
    /// growth.
    pub waiting: u64,
    /// Objects.
    pub objects: u64,
    /// Objects it can hold at most: each takes addresses for a cluster, or more.
    pub slots: u64,
    /// The number of openings.
    pub opened: u64,
    /// The address it is bound to, if it is.
    pub binding: Option<u64>,
}

/// Properties of an object; see [`Store::objects`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name.
    pub name: String,
    /// A number that no other object of this store ever had.
    pub id: ObjectId,
    /// The one engine that may change it.
    pub engine: Engine,
    /// The engine's fingerprint of the content's type.
    pub fingerprint: u64,
    /// The addresses it may ever use.
    pub span: Range<u64>,
    /// One past its last cluster; `None` if its header is damaged.
    pub backed: Option<u64>,
    /// The object that it was copied from, if it is a copy.
    pub origin: Option<Origin>,
    /// Its rights.
    pub access: Access,
    /// Clusters that it may have, if that is limited.
    pub quota: Option<u64>,
    /// Its clusters in memory, if that is limited.
    pub residency: Option<Residency>,
}

impl Store {
    pub(crate) fn of(parts: Parts) -> Store {
        Store { parts: Arc::new(parts) }
    }

    #[inline]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(crate) fn space(&self) -> &Space {
        self.parts.growth.space()
    }

    /// The media it lies on.
    pub fn media(&self) -> &Media {
        &self.parts.media
    }

    /// Whether it was opened read-only: stores to it stay in this process.
    pub fn is_read_only(&self) -> bool {
        self.media().opened().read_only
    }

    /// Whether other processes may have it open.
    pub fn is_shared(&self) -> bool {
        self.parts.sharing.store().is_some()
    }

    /// The number of this process among those that share the store; no other process has it as long
    /// as the store is open anywhere. `None` in a store that is not shared.
    pub fn member(&self) -> Option<u32> {
        Some(self.parts.sharing.store()?.token())
    }

    /// Whether the process with that number ([`Store::member`]) still shares the store.
    ///
    /// # Errors
    /// [`Error::Media`] if the system does not tell.
    pub fn is_member(&self, number: u32) -> Result<bool> {
        match self.parts.sharing.store() {
            None => Ok(false),
            Some(shared) => Ok(number == shared.token() || shared.is_alive(number)?), // no lock conflicts with one's own
        }
    }

    /// Waits for the changes that other processes make to the store now, and learns of all that
    /// they have made: bytes that they have added can be read. Nothing in a store that is not
    /// shared.
    ///
    /// # Errors
    /// [`Error::Media`]; [`Error::Damaged`] if the change of a dead process cannot be repaired.
    pub fn catch_up(&self) -> Result<()> {
        self.exclusive().map(drop)
    }

    /// Declared maximum in bytes.
    pub fn max(&self) -> Length {
        self.parts.head.superblock().max
    }

    /// Random 16 bytes, unlike any other store's.
    pub fn identity(&self) -> [u8; 16] {
        self.parts.head.superblock().identity
    }

    /// The number of openings: volatile areas with another number are of an earlier opening.
    pub fn generation(&self) -> u64 {
        self.parts.catalogue.ids().generation()
    }

    /// The findings of opening, and its repairs.
    pub fn recovery(&self) -> &Recovery {
        &self.parts.recovery
    }

    /// Whether a process may have died with stores that it never flushed: the store was not closed,
    /// now or at an earlier opening, or other processes may have it open, of which any may have
    /// died since. An engine then flushes and fences the bytes that it decides by (STORE-8).
    pub fn may_follow_a_death(&self) -> bool {
        !self.recovery().clean || self.parts.after_death || self.is_shared()
    }

    /// Sizes and counts. Costs one look at each object.
    pub fn info(&self) -> Info {
        let _exclusive = self.exclusive(); // on an error the last known state is shown
        let (media, space) = (self.media(), self.space());
        let live = self.parts.catalogue.lock().list("").unwrap_or_default();
        let backed = live.iter().map(|entry| {
            let end = header::read(media, entry).map_or(entry.span.at(), |extent| extent.backed);
            let runs = space.bitmap().set_runs(media, entry.span.at()..end);
            runs.iter().map(|run| run.end - run.start).sum::<u64>()
        });
        let superblock = self.parts.head.superblock();
        Info {
            identity: superblock.identity,
            format: FORMAT,
            backend: media.kind(),
            max: superblock.max.get(),
            max_max: space.bitmap().capacity(),
            len: media.file_len(),
            log_len: superblock.log_len.get(),
            log_room: media.log_room(),
            backed: backed.sum(),
            waiting: space.waiting(),
            objects: live.len() as u64,
            slots: (superblock.end() - superblock.spans_at.get()) / CLUSTER,
            opened: self.generation(),
            binding: media.binding(),
        }
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
        let _exclusive = self.exclusive()?;
        let live = self.parts.catalogue.lock().list(prefix)?;
        self.require_readable()?;
        Ok(live.into_iter().map(|entry| self.parts.describe(entry)).collect())
    }

    /// The id of the object of this name, if there is one: a name that was looked up before is
    /// found without the trie.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn find(&self, name: &str) -> Result<Option<ObjectId>> {
        let _exclusive = self.exclusive()?;
        let found = self.parts.catalogue.lock().find_id(name)?;
        if found.is_none() {
            self.require_readable()?;
        }
        Ok(found)
    }

    /// [`Store::find`] by the trie alone, without the cache: for measurements. In a store without a
    /// trie it is [`Store::find`].
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn find_on_media(&self, name: &str) -> Result<Option<ObjectId>> {
        let _exclusive = self.exclusive()?;
        let mut names = self.parts.catalogue.lock();
        if names.table().trie().is_none() {
            return names.find_id(name);
        }
        let found = names.find_on_media(name)?;
        Ok(found.and_then(|at| record::live_id(self.media(), at)))
    }

    /// Properties of the object of this name. Opens nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`].
    pub fn stat(&self, name: &str) -> Result<ObjectInfo> {
        let _exclusive = self.exclusive()?;
        let entry = self.parts.catalogue.lock().live(name)?;
        Ok(self.parts.describe(entry))
    }

    /// The names that begin with `prefix`, in order. Looks at no object.
    ///
    /// # Errors
    /// As [`Store::objects`].
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let _exclusive = self.exclusive()?;
        let live = self.parts.catalogue.lock().list(prefix)?;
        Ok(live.into_iter().map(|entry| entry.name).collect())
    }

    /// Builds the trie of names now, rather than when the table of 256 records is full. Settled on
    /// return.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::NoSpan`], [`Error::OutOfSpace`], [`Error::ReadOnly`],
    /// [`Error::Media`]: the table goes on as before.
    pub fn index_names(&self) -> Result<()> {
        let _exclusive = self.renaming()?;
        let mut names = self.parts.catalogue.lock();
        match names.table().trie() {
            Some(_) => Ok(()),
            None => names.promote(),
        }
    }

    /// Raises the declared maximum, within the mapping of the media and the capacity of the
    /// bitmaps. Objects keep their spans, which were chosen for the old maximum; new objects may
    /// have larger ones. Settled on return; a crash leaves the old maximum or the new one.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `max` is smaller than now, or more than [`Info::max_max`] or the
    /// media's maximum (use [`crate::OpenOptions::grown`]); [`Error::Media`].
    pub fn grow(&self, max: u64) -> Result<()> {
        self.media().require_opener()?;
        let max = max / CLUSTER * CLUSTER;
        let (capacity, mapped) = (self.space().bitmap().capacity(), self.media().max());
        let grown = self.parts.head.change(|current| {
            let detail = if self.is_shared() {
                "other processes may have this store open; close it there and use `everbyte grow`".into()
            } else if max < current.max.get() {
                format!("a store does not shrink: its maximum is {} bytes", current.max)
            } else if max > capacity {
                format!("the bitmaps of this store speak for {capacity} bytes; make a larger store and copy")
            } else if max > mapped {
                format!("this process has mapped {mapped} bytes of the store; close it and use `everbyte grow`")
            } else {
                let addresses = if current.addresses == 0 { 0 } else { current.addresses.max(max) };
                return Ok(Some(Superblock { max: Length::new(max), addresses, ..*current }));
            };
            Err(Error::BadOption { detail })
        })?;
        self.parts.growth.limit(&grown);
        Ok(())
    }

    /// Gives all released clusters back to the file system, with those that a crash left without an
    /// owner. Settles and checkpoints. Returns the bytes given back.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn trim(&self) -> Result<u64> {
        let _exclusive = self.changing()?;
        let (media, space) = (self.media(), self.space());
        let _closed = self.parts.growth.close_gate();
        let superblock = self.parts.head.superblock();
        let spans_at = superblock.spans_at;
        let end = media.len().min(superblock.end()) / CLUSTER * CLUSTER;
        for used in space.used().set_runs(media, spans_at.get()..end) {
            for hole in space.bitmap().clear_runs(media, used) {
                space.reflush(&hole); // settled below, before it becomes a hole in the file
                space.list_released(hole);
            }
        }
        let swept = space.sweep(&(spans_at.min(Offset::new(end)).get()..end));
        let given_back = space.trim()?;
        space.free_chunks(&(spans_at.get()..superblock.end()))?;
        Ok(given_back + swept)
    }

    /// Zeroes released clusters that are kept and prepares requested ones now, rather than in the
    /// background: measurements call this to wait for the background thread.
    pub fn clear_released(&self) {
        self.parts.growth.background().finish();
    }

    /// For tests: keeps released clusters, and prepares others, on recorded media too. Only
    /// [`Store::clear_released`] does that work, from the first object and the first growth on.
    #[doc(hidden)]
    pub fn keep_released(&self) {
        self.parts.growth.background().keep(true);
        self.parts.growth.background().by_hand();
    }

    /// Gives released clusters back, records that the store was closed, and brings all flushed
    /// bytes to their place. Bytes that were never flushed are lost. No other clone may be used
    /// afterwards. A process leaves a shared store; the last process to leave closes it.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn close(&self) -> Result<()> {
        let Some(shared) = self.parts.sharing.store() else { return self.close_alone() };
        shared.leave(|| {
            let _exclusive = self.exclusive()?;
            self.close_alone()
        })
    }

    fn close_alone(&self) -> Result<()> {
        let (media, growth) = (self.media(), self.parts.growth());
        media.require_opener()?;
        growth.background().stop();
        self.space().trim()?;
        {
            let _closed = growth.close_gate();
            let superblock = self.parts.head.superblock();
            self.space().free_chunks(&(superblock.spans_at.get()..superblock.end()))?;
        }
        media.barrier()?; // the store counts as closed after all other bytes are settled
        self.parts.head.write_closed();
        media.barrier()?;
        Ok(media.close()?)
    }

    /// Refuses a child of fork that has nothing of the store; see
    /// [`everbyte_media::Media::require_here`].
    ///
    /// # Errors
    /// [`Error::Media`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        Ok(self.media().require_here()?)
    }

    /// The store's lock, caught up (SHARE-1); `None` in a store that is not shared.
    pub(crate) fn exclusive(&self) -> Result<Option<Exclusive>> {
        let Some(shared) = self.parts.sharing.store() else { return Ok(None) };
        let exclusive = shared.acquire()?;
        if exclusive.since() != Since::Unchanged {
            self.media().refresh()?;
            self.space().clear_states(); // another process may have backed them
            if exclusive.since() == Since::OwnerDied {
                self.parts.catalogue.inherit(&self.parts.backing)?;
            }
            if shared.names_changed() || exclusive.since() == Since::OwnerDied {
                self.parts.catalogue.refresh(LastClose::Clean)?;
            }
            exclusive.caught_up();
        }
        Ok(Some(exclusive))
    }

    /// The store's lock, for a change that other processes have to catch up with.
    pub(crate) fn changing(&self) -> Result<Option<Exclusive>> {
        self.media().require_opener()?;
        self.require_readable()?;
        let exclusive = self.exclusive()?;
        exclusive.iter().for_each(|exclusive| exclusive.changed());
        Ok(exclusive)
    }

    /// The store's lock, for a change of names or of records.
    ///
    /// # Errors
    /// As [`Store::require_writable`] and [`Store::changing`].
    pub(crate) fn renaming(&self) -> Result<Option<Exclusive>> {
        self.require_writable()?;
        let exclusive = self.changing()?;
        if let Some(shared) = self.parts.sharing.store() {
            shared.count_change_of_names();
        }
        Ok(exclusive)
    }

    /// Refuses a read-only store: its stores stay in this process, but the files beside it are
    /// real. Recovery, which runs in such a store too, does not ask.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub(crate) fn require_writable(&self) -> Result<()> {
        match self.is_read_only() {
            true => Err(Error::ReadOnly { path: self.media().path().into() }),
            false => Ok(()),
        }
    }

    /// Refuses a store with an unreadable page among its own: a bitmap of zeros would give away
    /// clusters that objects have, and a table of zeros has no objects. Asked before a change, and
    /// before an object is reported as absent.
    pub(crate) fn require_readable(&self) -> Result<()> {
        match Media::unreadable_count() {
            0 => Ok(()),
            _ => Ok(self.media().require_readable(0, self.parts.head.superblock().spans_at.get())?),
        }
    }

    /// Keeps other processes from joining the store until the value is dropped: this process alone
    /// stores to it meanwhile. `None`: processes do not share the store.
    ///
    /// # Errors
    /// [`Error::Media`]: another process has it open.
    pub fn keep_alone(&self) -> Result<Option<JoinLock>> {
        self.media().require_opener()?;
        let Some(shared) = self.parts.sharing.store() else { return Ok(None) };
        let alone = shared.lock_alone()?;
        let in_use =
            || everbyte_media::Error::InUse { path: self.media().path().into(), holder: self.media().holders() };
        alone.map(Some).ok_or_else(|| Error::Media(in_use()))
    }

    /// The sizes with which media hold this store.
    pub fn geometry(&self) -> Geometry {
        let Superblock { bitmap_at, log_at, log_len, .. } = self.parts.head.superblock();
        let (len, log_at, log_len) = (bitmap_at.get(), log_at.get(), log_len.get());
        Geometry { max: self.media().max(), len, log_at, log_len }
    }

    /// Runs `change` while this thread holds the store's lock: other processes see its changes of
    /// names and objects all at once. It must not wait for an object that is shared already.
    ///
    /// # Errors
    /// As [`Store::object`]; `change` has not run then.
    pub fn at_once<T>(&self, change: impl FnOnce() -> T) -> Result<T> {
        let _exclusive = self.exclusive()?;
        Ok(change())
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({:?})", self.media())
    }
}
