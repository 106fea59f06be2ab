//! [`Object`]: a named span of the store that grows, and the header on its prime page.
//!
//! One growth, a fence between the lines:
//!   1. room is asked of the file system for the clusters and the bitmaps' pages (may fail: nothing
//!      has changed)
//!   2. `reach` says how far bits may be set
//!   3. bits set, what was used before zeroed
//!   4. `backed` says that the clusters are there
//!
//! A crash before 4 leaves `reach` above `backed`; recovery clears the bits in between and lowers
//! `reach`.
//!
//! Invariants
//!   STORE-5  No bit of an object's span is set at or above its `reach`.
//!   STORE-6  A cluster below `backed` is backed by the file system, or was released since; it read
//!            as zeros when it was handed out, unless its owner did not mind.
//!
//! Threads: any. Growth, release and backing of one object take turns.

pub(crate) mod access;
pub(crate) mod limit;
mod quota;

use crate::background::Growth;
use crate::layout::{FLAG_SMALL, HEADER_MAGIC, Header, header};
use crate::sharing::SharedLock;
use crate::store::Inner as StoreInner;
use crate::{Engine, Error, Origin, Result, Store};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::sums_agree;
use everbyte_media::{Media, NamedRange};
use everbyte_space::{CLUSTER, Space, Span, ZeroedParts, clusters_up, seal, unseal};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use zerocopy::FromZeros;

use crate::catalogue::record::Entry;
use crate::object::limit::Paging;
use everbyte_cold::{Backing, ColdTable};

type Pager = everbyte_cold::Pager<Backing>;

/// Bytes of the prime page that belong to this room; what follows is the engine's.
pub const HEADER_LEN: u64 = 512;
/// Bytes of the prime page.
pub const PRIME_LEN: u64 = 4096;

/// An open object of a store. Cheap to clone; all clones are one object.
#[derive(Clone)]
pub struct Object {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    store: Store,
    entry: Entry,
    backed: AtomicU64,
    growth: Mutex<Growth>,
    claimed: AtomicBool,
    /// Opened for this process alone, and not shared since.
    pub alone: AtomicBool,
    /// Set where other processes may have it open.
    pub shared_lock: OnceLock<Arc<SharedLock>>,
    /// Of an object that may be larger than its memory.
    cold: Option<Paging>,
    /// How errors of the media name it.
    _name: NamedRange,
}

impl Inner {
    pub(crate) fn cold(&self) -> Option<&Paging> {
        self.cold.as_ref()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SHARE-3: the lock goes with the last handle, and not before
        self.store.detach_object(self.entry.id);
    }
}

/// An engine's hold of an object; see [`Object::claim`].
pub struct Claim(Object);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.inner.claimed.store(false, Ordering::Release);
    }
}

impl Object {
    pub(crate) fn new(store: Store, entry: Entry, backed: u64, alone: bool, cold: Option<Paging>) -> Object {
        let name = store.media().name_range(entry.span.range(), &entry.name);
        Object {
            inner: Arc::new(Inner {
                _name: name,
                store,
                entry,
                backed: AtomicU64::new(backed),
                growth: Mutex::default(),
                claimed: AtomicBool::new(false),
                alone: AtomicBool::new(alone),
                shared_lock: OnceLock::new(),
                cold,
            }),
        }
    }

    /// Takes the object for an engine that may be opened once at a time; free again when the claim
    /// is dropped.
    ///
    /// # Errors
    /// [`Error::Claimed`] while another claim lives in this process.
    pub fn claim(&self) -> Result<Claim> {
        if self.inner.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::Claimed { object: self.name().into() });
        }
        Ok(Claim(self.clone()))
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.inner.entry
    }

    pub(crate) fn cold(&self) -> Option<&Paging> {
        self.inner.cold()
    }

    /// Who knows which of its clusters are cold, if any may be.
    fn pager(&self) -> Option<&Pager> {
        self.cold().map(|cold| cold.pager()).filter(|pager| pager.is_lazy())
    }

    /// The media it lies on.
    pub fn media(&self) -> &Media {
        self.inner.store.media()
    }

    /// The store it belongs to.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.entry.name
    }

    /// A number that no other object of this store ever had.
    pub fn id(&self) -> u64 {
        self.inner.entry.id
    }

    /// The one engine that may change it.
    pub fn engine(&self) -> Engine {
        self.inner.entry.engine
    }

    /// The type fingerprint its engine gave it.
    pub fn fingerprint(&self) -> u64 {
        self.inner.entry.fingerprint
    }

    /// The addresses it may ever use.
    pub fn span(&self) -> Range<u64> {
        self.inner.entry.span.range()
    }

    /// Where its prime page lies: the first 4 KiB of its span, of which the first [`HEADER_LEN`]
    /// belong to this room.
    pub fn prime(&self) -> u64 {
        self.inner.entry.span.at()
    }

    /// One past its last cluster. Clusters from the start of the span up to here are backed, except
    /// released ones.
    pub fn backed(&self) -> u64 {
        self.inner.backed.load(Ordering::Acquire)
    }

    /// What it is a copy of, if it is one.
    pub fn origin(&self) -> Option<Origin> {
        self.inner.entry.origin
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

    /// Refuses an object of which this process has met a page that cannot be read: zeros may have
    /// been read in its place. An engine asks before it makes a change count; readers ask for what
    /// they have read.
    ///
    /// # Errors
    /// [`Error::Media`] with the name of the object and the offset.
    #[inline]
    pub fn require_readable(&self) -> Result<()> {
        let Range { start, end } = self.span();
        Ok(self.media().require_readable(start, end - start)?)
    }

    /// The engine's root word; 0 in a new object. What it means, and whether it is sound, is the
    /// engine's business.
    pub fn root(&self) -> u64 {
        self.media().load(self.root_at())
    }

    /// Where the root word lies, for engines that change it as part of something larger.
    pub fn root_at(&self) -> u64 {
        self.prime() + header::ROOT
    }

    /// Stores the root word and flushes it; the caller fences and settles.
    pub fn set_root(&self, root: u64) {
        let _section = self.media().section();
        self.media().store(self.root_at(), root);
        self.media().flush(self.root_at(), 8);
    }

    /// Whether the cluster that holds `at` is backed: inside the span, below [`Object::backed`] and
    /// not released.
    pub fn is_backed(&self, at: u64) -> bool {
        (self.prime()..self.backed()).contains(&at) && self.store().space().is_backed(at)
    }

    /// Makes holes in the file of what was released, as far as a checkpoint has passed it;
    /// [`Object::release`] and [`Object::grow`] do so, too. Returns the bytes given back.
    pub fn punch(&self) -> u64 {
        let Ok(_exclusive) = self.store().changing() else { return 0 };
        self.store().space().punch()
    }

    /// Notes that the released clusters of `range` should be holes in the file: after a crash
    /// nobody remembers which are. They become holes as if they had been released now.
    pub fn forget(&self, range: Range<u64>) {
        let Ok(_exclusive) = self.store().changing() else { return };
        let _growth = self.inner.growth.lock();
        for hole in self.store().space().bitmap().runs(self.media(), range, false) {
            self.store().space().list_released(hole);
        }
    }

    /// The released clusters below [`Object::backed`], as ranges in order.
    pub fn holes(&self) -> Vec<Range<u64>> {
        self.store().space().bitmap().runs(self.media(), self.prime()..self.backed(), false)
    }

    /// Whether only the prime page has room: the object was made small and has not grown.
    pub fn is_small(&self) -> bool {
        self.inner.entry.small && self.backed() == self.prime() + CLUSTER
    }

    /// Backs at least `bytes` more at the end, in whole clusters of 64 KiB, and returns their
    /// range. A small object gets the rest of its first cluster, too. They read as zeros. The
    /// growth is fenced on return: a crash leaves it whole or absent, and nothing stored later
    /// survives without it.
    ///
    /// # Errors
    /// [`Error::SpanFull`], [`Error::OutOfSpace`] (a full disk), [`Error::QuotaExceeded`],
    /// [`Error::UserQuotaExceeded`]: nothing has changed.
    pub fn grow(&self, bytes: u64) -> Result<Range<u64>> {
        let inner = &*self.inner;
        let _exclusive = self.store().changing()?;
        let mut growth = inner.growth.lock();
        let _flight = self.store().depart(inner.entry.at);
        let range = grow_by(&self.store().inner, &inner.entry, self.backed(), bytes, self.pager())?;
        inner.backed.store(range.end, Ordering::Release);
        if self.cold().is_none() {
            let end = end_of_room(self.media(), &inner.entry);
            self.store().inner.background.prepare_more(&mut growth, &range, end); // SPACE-6
        }
        // of earlier releases, if a checkpoint has passed them meanwhile
        self.store().space().punch();
        Ok(range)
    }

    /// Gives whole clusters back that nobody needs any more, in any crash: the caller has settled
    /// that. They may be backed again with [`Object::back`]. The file system gets them after the
    /// next checkpoint.
    ///
    /// # Errors
    /// [`Error::BadRange`] for the first cluster, anything beyond [`Object::backed`], or parts of
    /// clusters; [`Error::Damaged`] if the bitmap there is.
    pub fn release(&self, range: Range<u64>) -> Result<()> {
        let _exclusive = self.store().changing()?;
        let _growth = self.inner.growth.lock();
        self.check_range(&range)?;
        self.store().space().require_good(&range)?;
        self.store().inner.background.release(&range, self.cold().is_none());
        if let Some(cold) = self.cold() {
            cold.pager().forget(&range)?;
        }
        self.store().space().punch();
        Ok(())
    }

    /// Backs again what was released of `range`; those clusters read as zeros, the others stay as
    /// they are. Fenced on return. A crash meanwhile may leave some of them backed:
    /// [`Object::holes`] tells.
    ///
    /// # Errors
    /// [`Error::BadRange`], otherwise as [`Object::grow`]: nothing has changed.
    pub fn back(&self, range: Range<u64>) -> Result<()> {
        self.back_with(range, true)
    }

    /// [`Object::back`] for owners who do not mind what the clusters hold: each page of them what
    /// it held, or zeros. It costs no zeroing.
    ///
    /// # Errors
    /// As [`Object::back`].
    pub fn back_as_is(&self, range: Range<u64>) -> Result<()> {
        self.back_with(range, false)
    }

    fn back_with(&self, range: Range<u64>, zeroed: bool) -> Result<()> {
        let _exclusive = self.store().changing()?;
        let _growth = self.inner.growth.lock();
        self.check_range(&range)?;
        let space = self.store().space();
        let holes = space.bitmap().runs(self.media(), range, false);
        let asked = holes.iter().map(|hole| hole.end - hole.start).sum();
        let _counted = self.store().inner.require_quota(self.entry(), self.backed(), asked)?;
        let _gate = self.store().backing_gate();
        if let Some(pager) = self.pager() {
            return holes.iter().try_for_each(|hole| back_cold(space, pager, hole));
        }
        let mut cleared = Vec::new();
        for (reserved, hole) in holes.iter().enumerate() {
            cleared.push(space.reserve(hole).inspect_err(|_| {
                // their room stays unused
                holes[..reserved].iter().for_each(|hole| space.give_up(hole));
                space.punch();
            })?);
        }
        if zeroed {
            holes.iter().zip(&cleared).for_each(|(hole, cleared)| space.prepare(hole, cleared));
            self.media().fence(); // zeros before the bits that hand them out (STORE-6)
        }
        holes.iter().for_each(|hole| space.set_backed(hole));
        self.media().fence();
        Ok(())
    }

    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        let whole =
            range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER) && range.start <= range.end;
        if whole && range.start >= self.prime() + CLUSTER && range.end <= self.backed() {
            return Ok(());
        }
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        Err(Error::BadRange { object: self.name().into(), at, len })
    }

    /// Looks how far it reaches by now: others may have let it grow.
    pub(crate) fn refresh(&self) -> Result<()> {
        let extent = self.store().inner.extent(&self.inner.entry)?;
        self.inner.backed.store(extent.backed, Ordering::Release);
        Ok(())
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Range { start, end } = self.span();
        write!(f, "Object({}, {}, {start:#x}..{end:#x}, backed to {:#x})", self.name(), self.engine(), self.backed())
    }
}

/// One past the last address that an object may grow to.
fn end_of_room(media: &Media, entry: &Entry) -> u64 {
    entry.span.end() - unseal(media.load(entry.span.at() + header::TAIL)).unwrap_or(0)
}

/// [`Object::grow`] of an object whose last cluster ends at `from`.
pub(crate) fn grow_by(
    store: &StoreInner,
    entry: &Entry,
    from: u64,
    bytes: u64,
    pager: Option<&Pager>,
) -> Result<Range<u64>> {
    let left = end_of_room(&store.media, entry).saturating_sub(from);
    let Some(grown) = clusters_up(bytes).filter(|&bytes| bytes <= left) else {
        return Err(Error::SpanFull { object: entry.name.clone(), span: entry.span.len(), asked: bytes, left });
    };
    let range = from..from + grown;
    if grown == 0 {
        return Ok(range);
    }
    let _counted = store.require_quota(entry, from, grown)?;
    let (media, space, prime) = (&store.media, &store.space, entry.span.at());
    let _gate = store.gate.read();
    let cleared = match pager {
        None => space.reserve(&range)?, // 1
        Some(pager) => {
            pager.reserve(&range)?;
            // how far the file reaches
            space.reserve_part(&range, &(range.end - PRIME_LEN..range.end))?;
            ZeroedParts::default()
        }
    };
    if entry.small && from == prime + CLUSTER {
        let rest = prime + PRIME_LEN..prime + CLUSTER;
        space.complete(&rest).inspect_err(|_| space.give_up(&range))?;
    }
    set_word(media, prime + header::REACH, range.end); // 2
    media.fence_unless("store-reach-unordered");
    match pager {
        None => space.prepare(&range, &cleared), // 3
        Some(pager) => {
            pager.expect(&range);
            space.set_used(&range);
        }
    }
    unless("store-bit-late", || space.set_backed(&range));
    media.fence();
    set_word(media, prime + header::BACKED, range.end); // 4
    media.fence();
    misplaced("store-bit-late", || {
        space.set_backed(&range);
        media.fence();
    });
    pager.map_or(Ok(()), |pager| pager.admit(&range))?;
    Ok(range)
}

/// Backs what was released of an object whose clusters may be cold: it comes back cold, and as
/// zeros.
fn back_cold(space: &Space, pager: &Pager, hole: &Range<u64>) -> Result<()> {
    pager.reserve(hole)?;
    space.reserve_part(hole, &(hole.start..hole.start))?;
    pager.expect(hole);
    space.media().fence(); // the words before the bits that make them count
    space.set_used(hole);
    space.set_backed(hole);
    space.media().fence();
    Ok(pager.admit(hole)?)
}

/// Stores a sealed word and flushes it; no fence.
pub(crate) fn set_word(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, seal(value));
    media.flush(at, 8);
}

/// Backs the first cluster of a new object and writes its header; fenced on return. Nothing of it
/// counts before the record does.
///
/// # Errors
/// [`Error::OutOfSpace`], [`Error::UserQuotaExceeded`].
pub(crate) fn make(store: &StoreInner, entry: &Entry) -> Result<()> {
    let at = entry.span.at();
    let first = at..at + CLUSTER;
    let media = &store.media;
    let _counted = store.require_user_quota(entry, at, CLUSTER)?;
    let _gate = store.gate.read();
    if entry.small {
        store.space.reserve_part(&first, &(at..at + PRIME_LEN))?;
        store.space.prepare_part(&first, PRIME_LEN);
    } else {
        let cleared = store.space.reserve(&first)?;
        store.space.prepare(&first, &cleared);
    }
    media.fence();
    {
        let _section = media.section();
        media.put(at, &header_of(entry, first.end));
        media.flush(at, HEADER_LEN);
    }
    media.fence(); // `reach` before the bit (STORE-5)
    store.space.set_backed(&first);
    media.fence();
    Ok(())
}

fn header_of(entry: &Entry, backed: u64) -> Header {
    Header {
        magic: HEADER_MAGIC,
        engine: entry.engine.code(),
        id: entry.id,
        span_at: entry.span.at(),
        span_len: entry.span.len(),
        fingerprint: entry.fingerprint,
        flags: if entry.small { FLAG_SMALL } else { 0 },
        backed: seal(backed),
        reach: seal(backed),
        shared_at: seal(0),
        shared_len: seal(0),
        ..Header::new_zeroed()
    }
    .sealed()
}

/// The header's words as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub backed: u64,
    pub reach: u64,
    /// 0 in objects that have none, as the three below.
    pub quota: u64,
    pub resident: u64,
    pub tail: u64,
    pub tail_reach: u64,
}

impl Extent {
    /// One past what the file must hold of the object.
    pub(crate) fn needed(&self, entry: &Entry) -> u64 {
        let first = entry.span.at() + CLUSTER;
        if entry.small && self.backed == first { entry.span.at() + PRIME_LEN } else { self.backed }
    }
}

/// Reads the header of `entry` and checks it against the record. Never panics, changes nothing.
///
/// # Errors
/// What is wrong, and at which offset.
pub(crate) fn read_header(media: &Media, entry: &Entry) -> Result<Extent, (u64, String)> {
    let at = entry.span.at();
    let wrong = |offset: u64, detail: String| Err((at + offset, detail));
    if !media.holds(at, HEADER_LEN) {
        return wrong(0, format!("it lies beyond the file's {} bytes", media.len()));
    }
    let found: Header = media.get(at);
    if found.magic != HEADER_MAGIC {
        return wrong(0, "it has no header".into());
    }
    if !sums_agree(found.checksum, found.sum()) {
        return wrong(8, "its header's checksum is wrong".into());
    }
    let expected = header_of(entry, 0);
    if found.checksum != expected.checksum {
        return wrong(16, "its header and its record differ".into());
    }
    let word = |offset: u64, value: u64| {
        unseal(value).filter(|&end| holds_end(entry.span, end)).ok_or((at + offset, format!("the word {value:#018x}")))
    };
    let backed = word(header::BACKED, found.backed)?;
    let reach = word(header::REACH, found.reach)?;
    if reach < backed {
        return wrong(header::REACH, format!("reach {reach:#x} lies below backed {backed:#x}"));
    }
    let shared = (unseal(found.shared_at), unseal(found.shared_len));
    match shared {
        (Some(0), Some(0)) => {}
        (Some(shared_at), Some(len)) if entry.span.holds(shared_at, len) => {}
        _ => return wrong(header::SHARED_AT, "its shared area lies outside its span".into()),
    }
    let limit = |offset: u64, value: u64| match value {
        0 => Ok(0),
        _ => unseal(value).ok_or((at + offset, format!("the word {value:#018x}"))),
    };
    let (quota, resident) = (limit(header::QUOTA, found.quota)?, limit(header::RESIDENT, found.resident)?);
    let tails = (limit(header::TAIL, found.tail)?, limit(header::TAIL_REACH, found.tail_reach)?);
    let room = ColdTable::range(entry.span).map_or(0, |range| range.end - range.start);
    let (tail, tail_reach) = match tails {
        (0, reach) if reach == 0 || reach == room => (0, reach),
        (tail, reach) if tail == room && reach == room && backed <= entry.span.end() - room => tails,
        _ => return wrong(header::TAIL, "its cold table is not where it should be".into()),
    };
    if resident > 0 && tail == 0 {
        return wrong(header::RESIDENT, "it has a limit and no cold table".into());
    }
    Ok(Extent { backed, reach, quota, resident, tail, tail_reach })
}

/// [`read_header`] of an object that may never have got its first cluster: a hole is not loaded,
/// for that could take room.
///
/// # Errors
/// As [`read_header`].
pub(crate) fn find_header(media: &Media, entry: &Entry) -> Result<Extent, (u64, String)> {
    match media.is_hole(entry.span.at(), PRIME_LEN) {
        true => Err((entry.span.at(), "it has no header".into())),
        false => read_header(media, entry),
    }
}

fn holds_end(span: Span, end: u64) -> bool {
    end > span.at() && end <= span.end() && end.is_multiple_of(CLUSTER)
}
