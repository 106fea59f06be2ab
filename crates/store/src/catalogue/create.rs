//! Making and removing objects, so that a crash leaves an object whole or absent and no cluster
//! lost.
//!
//! Creation, a fence between the lines:
//!   1. record body; 2. record state `creating`
//!   3. first cluster: room, header with `reach`, bit
//!   4. `init` runs: the engine formats its part of the prime page, grows, and so on
//!   5. record state `live`, then a barrier: the name is there, with everything behind it
//!
//! Removal: record state `removing` and a barrier (the name is gone); bits cleared; record state
//! `free`. Recovery finishes what it finds in `creating` or `removing` by the second half of a
//! removal.
//!
//! Invariants
//!   STORE-7  A name is published after everything its `init` flushed, and withdrawn before any of
//!            its clusters is.

use crate::catalogue::cache::Known;
use crate::catalogue::name_space::{self, NameClusters};
use crate::catalogue::record::{self, Entry};
use crate::catalogue::table::Table;
use crate::layout::{FEATURE_ACCESS, FEATURE_SMALL, STATE_FREE, STATE_LIVE, STATE_REMOVING};
use crate::store::Inner;
use crate::{Access, Caller, Engine, Error, Object, Origin, Result, Store, object};
use everbyte_media::museum::misplaced;
use everbyte_space::{CLUSTER, Span};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What an object is to be.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOptions {
    /// The one engine that may change it.
    pub engine: Engine,
    /// What its engine calls the type of its content; checked by [`Object::require_fingerprint`].
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

/// What a record is to say.
pub(crate) struct Wish {
    pub engine: Engine,
    pub fingerprint: u64,
    /// Sizes that will do; the largest for which there is room is taken. `None`: any.
    pub span: Option<RangeInclusive<u64>>,
    pub origin: Option<Origin>,
    pub small: bool,
}

impl Wish {
    fn of(options: ObjectOptions) -> Wish {
        let ObjectOptions { engine, fingerprint, span } = options;
        Wish { engine, fingerprint, span: span.map(|span| span..=span), origin: None, small: false }
    }
}

impl Store {
    /// Makes an object. `init` formats it before its name is published: a crash, an error or a
    /// panic leaves the object whole or absent. Settled on return.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Full`], [`Error::NoSpan`],
    /// [`Error::BadOption`] for a span that is none, [`Error::OutOfSpace`],
    /// [`Error::UserQuotaExceeded`], [`Error::Damaged`] while a record is damaged; whatever `init`
    /// returns. The store is as before then.
    pub fn create_object<E: From<Error>>(
        &self,
        name: &str,
        options: ObjectOptions,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        self.make(name, Wish::of(options), init)
    }

    /// [`Store::create_object`] for one of many: of its first cluster only the prime page, 4 KiB,
    /// gets room on the disk, and may be used. [`Object::grow`] gives it the rest, and what else it
    /// asks for.
    ///
    /// # Errors
    /// As [`Store::create_object`].
    pub fn create_small_object<E: From<Error>>(
        &self,
        name: &str,
        options: ObjectOptions,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        self.make(name, Wish { small: true, ..Wish::of(options) }, init)
    }

    pub(crate) fn make<E: From<Error>>(
        &self,
        name: &str,
        wish: Wish,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let _exclusive = self.renaming()?;
        self.inner.require_feature(if wish.small { FEATURE_ACCESS | FEATURE_SMALL } else { FEATURE_ACCESS })?;
        let entry = self.claim(name, wish)?;
        let mut undo = Undo { store: &self.inner, entry: Some(&entry) };
        object::make(&self.inner, &entry)?;
        self.attach_object(entry.id, name, true)?;
        let object = Object::new(self.clone(), entry.clone(), entry.span.at() + CLUSTER, true, None);
        let media = self.media();
        misplaced("store-publish-early", || record::set_state(media, entry.at, STATE_LIVE));
        init(&object)?;
        media.fence(); // STORE-7
        record::set_state(media, entry.at, STATE_LIVE);
        // after a failed barrier the outcome is unknown: only opening again tells
        undo.entry = None;
        media.barrier_or_fence("store-fence-for-barrier").map_err(Error::from)?;
        let mut table = self.inner.table.lock();
        table.arrive(entry.at);
        table.open.insert(entry.at, Arc::downgrade(&object.inner));
        Ok(object)
    }

    /// Refuses what cannot be the name of a new object.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Damaged`] while a record is damaged.
    pub fn require_free(&self, name: &str) -> Result<()> {
        let _exclusive = self.exclusive()?;
        self.inner.require_free(&mut self.inner.table.lock(), name)
    }

    /// Chooses a record and a span, and writes the record as `creating`.
    fn claim(&self, name: &str, wish: Wish) -> Result<Entry> {
        let inner = &*self.inner;
        let mut table = inner.table.lock();
        inner.require_free(&mut table, name)?;
        let Wish { engine, fingerprint, span, origin, small } = wish;
        let at = inner.free_record(&mut table)?;
        let chosen = inner.choose(&mut table, span);
        let span = chosen.inspect_err(|_| table.give_record(&inner.superblock(), at))?;
        let (id, access) = (
            inner.next_id().inspect_err(|_| table.give_record(&inner.superblock(), at))?,
            Access::of_new(&Caller::current()),
        );
        let name = name.into();
        let entry = Entry { at, id, name, engine, fingerprint, span, origin, small, access, replaces: 0 };
        let claimed = inner.claim_record(&mut table, &entry);
        claimed.inspect_err(|_| drop(inner.release_record(&mut table, &entry)))?;
        if !small && inner.background.expects(inner.created.load(Ordering::Relaxed) * CLUSTER) {
            inner.prepare_next(&mut table, span);
        }
        Ok(entry)
    }

    /// Removes an object and releases its clusters. Settled on return.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Open`] while this process has the object open,
    /// [`Error::Attached`] while another has; [`Error::Damaged`].
    pub fn remove_object(&self, name: &str) -> Result<()> {
        let inner = &*self.inner;
        let _exclusive = self.renaming()?;
        let mut table = inner.table.lock();
        let entry = inner.removable(&mut table, name)?;
        if let Some(trie) = &mut table.trie {
            let clusters = NameClusters::of(inner, trie);
            trie.burst_due(&clusters)?;
        }
        // A header that cannot be read does not say which clusters to release: refuse rather than
        // lose them.
        let backing = inner.backing_of(&entry, &inner.extent(&entry)?);
        self.attach_object(entry.id, name, true)?;
        self.detach_object(entry.id); // nobody attaches it in this turn
        if table.depart(&inner.superblock(), entry.at)? {
            inner.media.fence(); // NAMES-5
        }
        table.remember(name, Known { at: entry.at, id: 0 }); // CACHE-1
        record::set_state(&inner.media, entry.at, STATE_REMOVING);
        inner.media.barrier()?; // STORE-7
        inner.release_record(&mut table, &entry)?;
        inner.media.barrier()?;
        inner.space.punch();
        inner.remove_backing(backing);
        Ok(())
    }
}

impl Inner {
    fn require_free(&self, table: &mut Table, name: &str) -> Result<()> {
        name_space::validate(name)?;
        if self.find(table, name)?.is_some() {
            return Err(Error::Exists { name: name.into() });
        }
        self.index(table).map(drop)
    }

    /// The largest free span of the sizes asked for, or of any.
    fn choose(&self, table: &mut Table, sizes: Option<RangeInclusive<u64>>) -> Result<Span> {
        let (spans_at, max) = (self.superblock().spans_at, self.superblock().end());
        let (within, spans) = (spans_at..max, &mut self.index(table)?.spans);
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

    /// Has the first cluster prepared that the next object after one with this span is likely to
    /// get.
    fn prepare_next(&self, table: &mut Table, span: Span) {
        let (spans_at, end) = (self.superblock().spans_at, self.superblock().end());
        let next = self.index(table).ok().and_then(|index| index.spans.choose(spans_at..end, span.len()));
        if let Some(next) = next {
            // the table is locked (SPACE-6)
            self.background.prepare(&(next.at()..next.at() + CLUSTER));
        }
    }

    /// The second half of a removal, for a record in `creating` or `removing`: takes its name away,
    /// clears the bits of its span and frees the record. Idempotent; fenced on return. Recovery and
    /// failed creations use it too.
    ///
    /// # Errors
    /// [`Error::Damaged`] if its name cannot be taken away; the record stays.
    pub(crate) fn release_record(&self, table: &mut Table, entry: &Entry) -> Result<()> {
        if let Some(trie) = &mut table.trie {
            trie.remove(entry.at, entry.name.as_bytes())?;
        }
        match object::find_header(&self.media, entry) {
            Ok(extent) => {
                let whole = extent.tail_reach == 0 && extent.needed(entry) == extent.backed;
                self.background.release(&(entry.span.at()..extent.reach), whole);
                if extent.tail_reach > 0 {
                    self.space.release(&(entry.span.end() - extent.tail_reach..entry.span.end()));
                }
            }
            // A header is fenced before the first bit is set (STORE-5), so this one was damaged
            // later: look everywhere.
            Err(_) if self.space.is_backed(entry.span.at()) => self.space.release(&entry.span.range()),
            Err(_) => {}
        }
        record::set_state(&self.media, entry.at, STATE_FREE);
        self.media.fence();
        table.arrive(entry.at);
        table.forget(&self.superblock(), entry);
        Ok(())
    }
}

/// Takes a creation back that did not come to its end, on an error and on a panic.
struct Undo<'s> {
    store: &'s Inner,
    entry: Option<&'s Entry>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            // A damaged name space keeps the record in flight; opening tries again.
            let _ = self.store.release_record(&mut self.store.table.lock(), entry);
        }
    }
}
