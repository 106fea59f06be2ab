//! Creating and removing objects: a crash leaves an object whole or absent and no cluster lost.
//!
//! Creation, a fence between the steps but for the third and the fourth:
//!   1. record body; 2. record state `creating`
//!   3. first cluster: space on the disk, header with `reach`, bit; a crash may keep the bit
//!      without the header
//!   4. `init` runs: the engine formats its part of the prime page, grows, and so on
//!   5. record state `live`, then a barrier: the name exists, with all bytes behind it
//!
//! Removal: record state `removing` and a barrier (the name is gone); the backing file removed;
//! bits cleared; record state `free`. Recovery treats records in `creating` or `removing` by the
//! second half of a removal.
//!
//! Invariants
//!   STORE-7  A name is published after all bytes that its `init` flushed, and withdrawn before any
//!            of its clusters is.
//!   STORE-14  A backing file is removed while the record of its object is `removing`: a crash
//!             before leaves a record from which recovery finds the file.

use super::cache::Known;
use super::name_space;
use super::part::{Catalogue, LockedCatalogue};
use super::record::{self, Entry, Origin};
use crate::layout::{FEATURE_ACCESS, FEATURE_SMALL, STATE_FREE, STATE_LIVE, STATE_REMOVING};
use crate::object::header;
use crate::{Access, Caller, Engine, Error, Object, Result, Store};
use everbyte_media::museum::{misplaced, once, unless};
use everbyte_members::SlotMode;
use everbyte_space::{CLUSTER, ObjectId, Span};
use std::ops::RangeInclusive;

/// Options of a new object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOptions {
    /// The one engine that may change it.
    pub engine: Engine,
    /// The engine's fingerprint of the content's type; checked by [`Object::require_fingerprint`].
    pub fingerprint: u64,
    /// Addresses to reserve: a power of two of at least 64 KiB. They cost nothing until used.
    /// `None`: the largest free span, half of the store's addresses for its first object.
    pub span: Option<u64>,
}

impl Default for ObjectOptions {
    fn default() -> ObjectOptions {
        ObjectOptions { engine: Engine::None, fingerprint: 0, span: None }
    }
}

/// The content of a new record.
pub(crate) struct NewObject {
    pub(crate) engine: Engine,
    pub(crate) fingerprint: u64,
    /// Sizes of spans that suffice; the largest free one is taken. `None`: any.
    pub(crate) span: Option<RangeInclusive<u64>>,
    pub(crate) origin: Option<Origin>,
    pub(crate) small: bool,
}

impl NewObject {
    fn of(options: ObjectOptions) -> NewObject {
        let ObjectOptions { engine, fingerprint, span } = options;
        NewObject { engine, fingerprint, span: span.map(|span| span..=span), origin: None, small: false }
    }
}

impl Store {
    /// Creates an object. `init` formats it before its name is published: a crash, an error or a
    /// panic leaves the object whole or absent. Settled on return.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Full`], [`Error::NoSpan`],
    /// [`Error::BadOption`] for a span of another size, [`Error::OutOfSpace`],
    /// [`Error::UserQuotaExceeded`], [`Error::Damaged`] while a record is damaged;
    /// [`Error::ReadOnly`]; every error of `init`. The store is as before then.
    pub fn create_object<E: From<Error>>(
        &self,
        name: &str,
        options: ObjectOptions,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        self.make(name, NewObject::of(options), init)
    }

    /// [`Store::create_object`] for one of many: of its first cluster only the prime page, 4 KiB,
    /// gets space on the disk, and may be used. The first [`Object::grow`] gives it the rest of
    /// that cluster, and the clusters that it asks for.
    ///
    /// # Errors
    /// As [`Store::create_object`].
    pub fn create_small_object<E: From<Error>>(
        &self,
        name: &str,
        options: ObjectOptions,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        self.make(name, NewObject { small: true, ..NewObject::of(options) }, init)
    }

    pub(crate) fn make<E: From<Error>>(
        &self,
        name: &str,
        new: NewObject,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let _exclusive = self.renaming()?;
        let parts = self.parts();
        parts.head().require_feature(if new.small { FEATURE_ACCESS | FEATURE_SMALL } else { FEATURE_ACCESS })?;
        let entry = parts.catalogue().lock().claim(name, new)?;
        let mut undo = Undo { catalogue: parts.catalogue(), entry: Some(&entry) };
        {
            let _counted = parts.quotas().require_of_user(&entry, entry.span.at(), CLUSTER)?;
            parts.growth().make(&entry)?;
        }
        parts.sharing().attach(entry.id, name, SlotMode::Exclusive)?;
        let object =
            Object::new(self.clone(), entry.clone(), entry.span.at() + CLUSTER, Some(SlotMode::Exclusive), None);
        let media = self.media();
        misplaced("store-publish-early", || record::set_state(media, entry.at, STATE_LIVE));
        init(&object)?;
        let ordered = media.fence_after(entry.at); // STORE-7
        {
            // A thread that finds the name gets this state (STORE-13).
            let _names = parts.catalogue().lock();
            parts.opened().insert(entry.at, &object);
        }
        record::publish_state(media, entry.at, STATE_LIVE, &ordered);
        // after a failed barrier the outcome is unknown until the next opening
        undo.entry = None;
        media.barrier_or_fence("store-fence-for-barrier").map_err(Error::from)?;
        parts.catalogue().lock().table().end_change(entry.at);
        Ok(object)
    }

    /// Refuses a name that no new object can have.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Damaged`] while a record is damaged.
    pub fn require_free(&self, name: &str) -> Result<()> {
        let _exclusive = self.exclusive()?;
        self.parts().catalogue().lock().require_free(name)
    }

    /// Removes an object and releases its clusters. Settled on return. The rights of an object are
    /// those to what it holds: they are not asked for here.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Open`] while this process has the object open,
    /// [`Error::Attached`] while another has; [`Error::Damaged`], [`Error::ReadOnly`].
    pub fn remove_object(&self, name: &str) -> Result<()> {
        let _exclusive = self.renaming()?;
        let (media, parts) = (self.media(), self.parts());
        let mut names = parts.catalogue().lock();
        let entry = names.live(name)?;
        parts.opened().require_closed(&entry)?;
        if let Some((trie, clusters)) = names.trie() {
            trie.burst_due(&clusters)?;
        }
        // A damaged header does not say which clusters to release: the removal is refused, so that
        // none is lost.
        let backing = parts.backing().owner_of(&entry, &header::extent(media, &entry)?);
        parts.sharing().attach(entry.id, name, SlotMode::Exclusive)?;
        // the store's lock keeps other processes from attaching it
        parts.sharing().detach(entry.id);
        if names.begin_change(entry.at)? {
            media.fence(); // NAMES-5
        }
        names.table().remember(name, Known { at: entry.at, id: ObjectId::new(0) }); // CACHE-1
        record::set_state(media, entry.at, STATE_REMOVING);
        media.barrier()?; // STORE-7
        let mut remove_file = once(|| parts.backing().remove_file(backing));
        unless("store-backing-late", &mut remove_file); // STORE-14
        names.release_record(&entry)?;
        parts.opened().remove(entry.at);
        media.barrier()?;
        self.space().punch();
        misplaced("store-backing-late", &mut remove_file);
        Ok(())
    }
}

impl LockedCatalogue<'_> {
    /// Chooses a record and a span, and writes the record as `creating`.
    fn claim(&mut self, name: &str, new: NewObject) -> Result<Entry> {
        self.require_free(name)?;
        let NewObject { engine, fingerprint, span, origin, small } = new;
        let at = self.free_record()?;
        let chosen = self.choose(span).and_then(|span| Ok((span, self.ids().next(self.media())?)));
        let (span, id) = chosen.inspect_err(|_| self.give_record(at))?;
        let access = Access::of_new(&Caller::current());
        let name = name.into();
        let entry =
            Entry { at, id: ObjectId::new(id), name, engine, fingerprint, span, origin, small, access, replaces: 0 };
        self.claim_record(&entry).inspect_err(|_| drop(self.release_record(&entry)))?;
        if !small && self.growth().background().expects(self.ids().created() * CLUSTER) {
            self.prepare_next(span);
        }
        Ok(entry)
    }

    fn require_free(&mut self, name: &str) -> Result<()> {
        name_space::validate(name)?;
        if self.find(name)?.is_some() {
            return Err(Error::Exists { name: name.into() });
        }
        self.index().map(drop)
    }

    /// The largest free span of these sizes, or of any size.
    fn choose(&mut self, sizes: Option<RangeInclusive<u64>>) -> Result<Span> {
        let (spans_at, max) = (self.superblock().spans_at, self.superblock().end());
        let (within, spans) = (spans_at.get()..max, self.index()?.spans());
        let Some(sizes) = sizes else {
            return spans.choose_largest(within).ok_or(Error::NoSpan { size: 0, max });
        };
        let (least, most) = (*sizes.start(), *sizes.end());
        if let Some(size) = [least, most].into_iter().find(|size| !size.is_power_of_two() || *size < CLUSTER) {
            let detail = format!("a span of {size} bytes is not a power of two of at least {CLUSTER}");
            return Err(Error::BadOption { detail });
        }
        let mut sizes = (least.ilog2()..=most.ilog2()).rev();
        let span = sizes.find_map(|bits| spans.choose(within.clone(), 1 << bits));
        span.ok_or(Error::NoSpan { size: least, max })
    }

    /// Prepares the first cluster that the next object with a span like this one is likely to get.
    fn prepare_next(&mut self, span: Span) {
        let (spans_at, end) = (self.superblock().spans_at, self.superblock().end());
        let next = self.index().ok().and_then(|index| index.spans().choose(spans_at.get()..end, span.len()));
        if let Some(next) = next {
            // the catalogue is locked (SPACE-6)
            self.growth().background().prepare(&(next.at()..next.at() + CLUSTER));
        }
    }

    /// The second half of a removal, for a record in `creating` or `removing`: takes its name away,
    /// clears the bits of its span and frees the record. Idempotent; fenced on return. Recovery and
    /// failed creations use it too.
    ///
    /// # Errors
    /// [`Error::Damaged`] if its name cannot be taken away; the record stays.
    pub(crate) fn release_record(&mut self, entry: &Entry) -> Result<()> {
        if let Some((trie, _)) = self.trie() {
            trie.remove(entry.at, entry.name.as_bytes())?;
        }
        let (growth, superblock) = (self.growth(), self.superblock());
        match header::find(self.media(), entry) {
            Ok(extent) => {
                let whole = extent.tail_reach == 0 && extent.needed(entry) == extent.backed;
                growth.background().release(&(entry.span.at()..extent.reach), whole);
                if extent.tail_reach > 0 {
                    growth.space().release(&(entry.span.end() - extent.tail_reach..entry.span.end()));
                }
            }
            // A crash has torn the header of a new object, or it was damaged later: any cluster of
            // the span may be the object's.
            Err(_) if growth.space().is_backed(entry.span.at()) => growth.space().release(&entry.span.range()),
            Err(_) => {}
        }
        record::set_state(self.media(), entry.at, STATE_FREE);
        self.media().fence();
        self.table().end_change(entry.at);
        self.table().forget(&superblock, entry);
        Ok(())
    }
}

/// Takes an unfinished creation back, on an error and on a panic.
struct Undo<'s> {
    catalogue: &'s Catalogue,
    entry: Option<&'s Entry>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            // With a damaged name space the record stays pending; the next opening tries again.
            let _ = self.catalogue.lock().release_record(entry);
        }
    }
}
