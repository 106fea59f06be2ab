//! [`Object`]: the handle of a named span of the store that grows.
//!
//! Threads: any. Growth, release and backing of one object exclude each other.

use super::growth::{Contents, Pager};
use super::header;
use crate::background::GrowthHistory;
use crate::catalogue::record::{Entry, Origin};
use crate::layout::header as words;
use crate::object::backing::Paging;
use crate::sharing::SharedLock;
use crate::store::Store;
use crate::{Engine, Error, Result};
use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_media::{Length, Media, NamedRange, Offset};
use everbyte_members::SlotMode;
use everbyte_space::{CLUSTER, ObjectId};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An open object of a store. Cheap to clone; all clones are one object.
#[derive(Clone)]
pub struct Object {
    state: Arc<ObjectState>,
}

/// The state that all clones of a handle share.
pub(crate) struct ObjectState {
    store: Store,
    entry: Entry,
    backed: AtomicU64,
    growth: RankedMutex<{ rank::GROWTH }, GrowthHistory>,
    claimed: AtomicBool,
    /// Opened for this process alone, and not shared since.
    is_alone: AtomicBool,
    /// Its slot is locked. Not by a reader beside the process that changes the object.
    attached: bool,
    /// Set if other processes may have the object open.
    shared_lock: OnceLock<Arc<SharedLock>>,
    /// Set if the object may be larger than its memory.
    paging: Option<Paging>,
    /// The name in errors of the media.
    _name: NamedRange,
}

impl Drop for ObjectState {
    fn drop(&mut self) {
        // SHARE-3: the slot is unlocked with the last handle, and not before
        if self.attached {
            self.store.parts().sharing().detach(self.entry.id);
        }
    }
}

/// The claim of an engine on an object; see [`Object::claim`].
pub struct Claim(Object);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.state.claimed.store(false, Ordering::Release);
    }
}

impl Object {
    /// A handle; without a `mode`, one of an object that other processes may change.
    pub(crate) fn new(
        store: Store,
        entry: Entry,
        backed: u64,
        mode: Option<SlotMode>,
        paging: Option<Paging>,
    ) -> Object {
        let name = store.media().name_range(entry.span.range(), &entry.name);
        Object::of(Arc::new(ObjectState {
            _name: name,
            store,
            entry,
            backed: AtomicU64::new(backed),
            growth: RankedMutex::default(),
            claimed: AtomicBool::new(false),
            is_alone: AtomicBool::new(mode == Some(SlotMode::Exclusive)),
            attached: mode.is_some(),
            shared_lock: OnceLock::new(),
            paging,
        }))
    }

    pub(crate) fn of(state: Arc<ObjectState>) -> Object {
        Object { state }
    }

    pub(crate) fn state(&self) -> &Arc<ObjectState> {
        &self.state
    }

    /// Takes the object for an engine that may be opened once at a time; free again when the claim
    /// is dropped.
    ///
    /// # Errors
    /// [`Error::Claimed`] while another claim lives in this process.
    pub fn claim(&self) -> Result<Claim> {
        if self.state.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::Claimed { object: self.name().into() });
        }
        Ok(Claim(self.clone()))
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.state.entry
    }

    pub(crate) fn paging(&self) -> Option<&Paging> {
        self.state.paging.as_ref()
    }

    /// The pager, if clusters may be cold while the object is open.
    fn pager(&self) -> Option<&Pager> {
        self.paging().map(Paging::pager).filter(|pager| pager.is_lazy())
    }

    /// Whether the object is open for this process alone, and was not shared since.
    pub(crate) fn is_alone(&self) -> bool {
        self.state.is_alone.load(Ordering::Relaxed)
    }

    /// Shares the object under this lock from now on.
    pub(crate) fn set_shared(&self, lock: impl FnOnce() -> Arc<SharedLock>) {
        self.state.is_alone.store(false, Ordering::Relaxed);
        self.state.shared_lock.get_or_init(lock);
    }

    /// The lock of a shared object.
    #[inline]
    pub(crate) fn shared_lock(&self) -> Option<&Arc<SharedLock>> {
        self.state.shared_lock.get()
    }

    /// The media it lies on.
    pub fn media(&self) -> &Media {
        self.state.store.media()
    }

    /// The store it belongs to.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.entry.name
    }

    /// A number that no other object of this store ever had.
    pub fn id(&self) -> ObjectId {
        self.state.entry.id
    }

    /// The one engine that may change it.
    pub fn engine(&self) -> Engine {
        self.state.entry.engine
    }

    /// The engine's fingerprint of the content's type.
    pub fn fingerprint(&self) -> u64 {
        self.state.entry.fingerprint
    }

    /// The addresses it may ever use.
    pub fn span(&self) -> Range<u64> {
        self.state.entry.span.range()
    }

    /// The offset of its prime page: the first 4 KiB of its span, of which the first [`HEADER_LEN`]
    /// belong to the store.
    pub fn prime(&self) -> Offset {
        Offset::new(self.state.entry.span.at())
    }

    /// One past its last cluster. Clusters from the start of the span up to here are backed, except
    /// released ones.
    pub fn backed(&self) -> Offset {
        Offset::new(self.state.backed.load(Ordering::Acquire))
    }

    /// The object that it was copied from, if it is a copy.
    pub fn origin(&self) -> Option<Origin> {
        self.state.entry.origin
    }

    /// Refuses any engine but the object's own.
    ///
    /// # Errors
    /// [`Error::WrongEngine`].
    pub fn require_engine(&self, wanted: Engine) -> Result<()> {
        let found = self.engine();
        if found == wanted {
            return Ok(());
        }
        Err(Error::WrongEngine { object: self.name().into(), found, wanted })
    }

    /// Refuses any fingerprint but the object's own.
    ///
    /// # Errors
    /// [`Error::WrongFingerprint`].
    pub fn require_fingerprint(&self, wanted: u64) -> Result<()> {
        let found = self.fingerprint();
        if found == wanted {
            return Ok(());
        }
        Err(Error::WrongFingerprint { object: self.name().into(), found, wanted })
    }

    /// Refuses an object with a page that this process found unreadable: loads may have returned
    /// zeros in its place. An engine calls this before it publishes a change; a reader calls it for
    /// the bytes that it has read.
    ///
    /// # Errors
    /// [`Error::Media`] with the name of the object and the offset.
    #[inline(always)]
    pub fn require_readable(&self) -> Result<()> {
        if Media::unreadable_count() == 0 { Ok(()) } else { self.search_unreadable() }
    }

    #[cold]
    #[inline(never)]
    fn search_unreadable(&self) -> Result<()> {
        let Range { start, end } = self.span();
        Ok(self.media().require_readable(start, end - start)?)
    }

    /// The engine's root word; 0 in a new object. The engine gives it a meaning and verifies it.
    pub fn root(&self) -> u64 {
        self.media().load(self.root_at())
    }

    /// The offset of the root word, for engines that change it as part of a larger change.
    pub fn root_at(&self) -> Offset {
        self.prime() + words::ROOT
    }

    /// Stores the root word and flushes it; the caller fences and settles.
    pub fn set_root(&self, root: u64) {
        let _section = self.media().section();
        self.media().store(self.root_at(), root);
        self.media().flush(self.root_at(), 8);
    }

    /// Whether the cluster that holds `at` is backed: inside the span, below [`Object::backed`] and
    /// not released.
    pub fn is_backed(&self, at: impl Into<Offset>) -> bool {
        let at = at.into();
        (self.prime()..self.backed()).contains(&at) && self.store().space().is_backed(at.get())
    }

    /// Punches released clusters out of the file, as far as a checkpoint has passed them;
    /// [`Object::release`] and [`Object::grow`] do so too. Returns the bytes given back.
    pub fn punch(&self) -> Length {
        let Ok(_exclusive) = self.store().changing() else { return Length::ZERO };
        Length::new(self.store().space().punch())
    }

    /// Records that the released clusters of `range` should become holes in the file, as if they
    /// had been released now: after a crash no process remembers them.
    pub fn forget(&self, range: Range<impl Into<Offset>>) {
        let range = range.start.into().get()..range.end.into().get();
        let Ok(_exclusive) = self.store().changing() else { return };
        let _growth = self.state.growth.lock();
        for hole in self.store().space().bitmap().clear_runs(self.media(), range) {
            self.store().space().list_released(hole);
        }
    }

    /// The released clusters below [`Object::backed`], as ranges in order.
    pub fn holes(&self) -> Vec<Range<u64>> {
        self.store().space().bitmap().clear_runs(self.media(), self.prime().get()..self.backed().get())
    }

    /// Whether only the prime page has space on the disk: the object was created small and has not
    /// grown.
    pub fn is_small(&self) -> bool {
        self.entry().small && self.backed() == self.prime() + CLUSTER
    }

    /// Backs at least `bytes` more at the end, in whole clusters of 64 KiB, and returns their
    /// range. A small object gets the rest of its first cluster, too. They read as zeros. The
    /// growth is fenced on return: a crash leaves it whole or absent, and no later store survives
    /// without it.
    ///
    /// # Errors
    /// [`Error::SpanFull`], [`Error::OutOfSpace`] (a full disk), [`Error::QuotaExceeded`],
    /// [`Error::UserQuotaExceeded`]: nothing has changed.
    pub fn grow(&self, bytes: u64) -> Result<Range<u64>> {
        let (state, parts) = (&*self.state, self.store().parts());
        let _exclusive = self.store().changing()?;
        let mut history = state.growth.lock();
        let _pending = parts.catalogue().begin_change(state.entry.at);
        let range = parts.growth().fitting(&state.entry, self.backed().get(), bytes)?;
        if !range.is_empty() {
            let _counted = parts.quotas().require(&state.entry, range.start, range.end - range.start)?;
            parts.growth().extend(&state.entry, &range, self.pager())?;
        }
        state.backed.store(range.end, Ordering::Release);
        if self.paging().is_none() {
            let end = header::growth_end(self.media(), &state.entry);
            parts.growth().background().prepare_more(&mut history, &range, end); // SPACE-6
        }
        // of earlier releases, if a checkpoint has passed them meanwhile
        self.store().space().punch();
        Ok(range)
    }

    /// Releases whole clusters. The caller has settled that no crash leaves a use of them. They may
    /// be backed again with [`Object::back`]. The file system gets them after the next checkpoint.
    ///
    /// # Errors
    /// [`Error::BadRange`] for the first cluster, any range beyond [`Object::backed`], or parts of
    /// clusters; [`Error::Damaged`] if the bitmap there is.
    pub fn release(&self, range: Range<impl Into<Offset>>) -> Result<()> {
        let range = range.start.into().get()..range.end.into().get();
        let _exclusive = self.store().changing()?;
        let _growth = self.state.growth.lock();
        self.check_range(&range)?;
        self.store().space().require_good(&range)?;
        self.store().parts().growth().background().release(&range, self.paging().is_none());
        if let Some(paging) = self.paging() {
            paging.pager().forget(&range)?;
        }
        self.store().space().punch();
        Ok(())
    }

    /// Backs the released clusters of `range` again; those read as zeros, the others stay as they
    /// are. Fenced on return. A crash meanwhile may leave some of them backed: [`Object::holes`]
    /// lists the others.
    ///
    /// # Errors
    /// [`Error::BadRange`], otherwise as [`Object::grow`]: nothing has changed.
    pub fn back(&self, range: Range<impl Into<Offset>>) -> Result<()> {
        let range = range.start.into().get()..range.end.into().get();
        self.back_with(range, Contents::Zeros)
    }

    /// [`Object::back`] for owners that overwrite the clusters: each page has its former contents,
    /// or zeros. It costs no zeroing.
    ///
    /// # Errors
    /// As [`Object::back`].
    pub fn back_as_is(&self, range: Range<impl Into<Offset>>) -> Result<()> {
        let range = range.start.into().get()..range.end.into().get();
        self.back_with(range, Contents::AsIs)
    }

    fn back_with(&self, range: Range<u64>, contents: Contents) -> Result<()> {
        let parts = self.store().parts();
        let _exclusive = self.store().changing()?;
        let _growth = self.state.growth.lock();
        self.check_range(&range)?;
        let holes = self.store().space().bitmap().clear_runs(self.media(), range);
        let asked = holes.iter().map(|hole| hole.end - hole.start).sum();
        let _counted = parts.quotas().require(self.entry(), self.backed().get(), asked)?;
        parts.growth().back(&holes, contents, self.pager())
    }

    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        let whole =
            range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER) && range.start <= range.end;
        if whole && range.start >= (self.prime() + CLUSTER).get() && range.end <= self.backed().get() {
            return Ok(());
        }
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        Err(Error::BadRange { object: self.name().into(), at, len })
    }

    /// Reads the end of the object again, which another process may have moved.
    pub(crate) fn refresh(&self) -> Result<()> {
        let extent = header::extent(self.media(), self.entry())?;
        self.state.backed.store(extent.backed, Ordering::Release);
        Ok(())
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Range { start, end } = self.span();
        write!(f, "Object({}, {}, {start:#x}..{end:#x}, backed to {:#x})", self.name(), self.engine(), self.backed())
    }
}
