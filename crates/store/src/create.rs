//! Making and removing objects, so that a crash leaves an object whole or absent and no cluster lost.
//!
//! Creation, a fence between the lines:
//!   1. record body; 2. record state `creating`
//!   3. first cluster: room, header with `reach`, bit
//!   4. `init` runs: the engine formats its part of the prime page, grows, and so on
//!   5. record state `live`, then a barrier: the name is there, with everything behind it
//!
//! Removal: record state `removing` and a barrier (the name is gone); bits cleared; record state `free`.
//! Recovery finishes what it finds in `creating` or `removing` by the second half of a removal.
//!
//! Invariants
//!   STORE-7  A name is published after everything its `init` flushed, and withdrawn before any of its clusters is.

use crate::catalogue::{self, Entry, Slot};
use crate::layout::{STATE_FREE, STATE_LIVE, STATE_REMOVING, Superblock};
use crate::store::{Inner, Table};
use crate::{Engine, Error, Object, Origin, Result, Store, names, object};
use everbyte_media::seeded;
use everbyte_space::{CLUSTER, Span, choose_largest, choose_span};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What an object is to be.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOptions {
    /// The one engine that may change it.
    pub engine: Engine,
    /// What its engine calls the type of its content; checked by [`Object::require_fingerprint`].
    pub fingerprint: u64,
    /// Addresses to reserve: a power of two of at least 64 KiB. They cost nothing until used. `None`: the largest
    /// free span, half of the store for its first object.
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
}

impl Store {
    /// Makes an object. `init` formats it before its name is published: a crash, an error or a panic leaves the
    /// object whole or absent. Settled on return.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Full`], [`Error::NoSpan`], [`Error::BadOption`] for a span that
    /// is none, [`Error::OutOfSpace`], [`Error::Damaged`] while a record is damaged; whatever `init` returns. The
    /// store is as before then.
    pub fn create_object<E: From<Error>>(
        &self,
        name: &str,
        options: ObjectOptions,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let ObjectOptions { engine, fingerprint, span } = options;
        self.make(name, Wish { engine, fingerprint, span: span.map(|span| span..=span), origin: None }, init)
    }

    pub(crate) fn make<E: From<Error>>(
        &self,
        name: &str,
        wish: Wish,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let _turn = self.renaming()?;
        let (index, entry) = self.claim(name, wish)?;
        let mut undo = Undo { store: &self.inner, index: Some(index) };
        object::make(&self.inner, &entry)?;
        self.attach_object(entry.id, name, true)?;
        let object = Object::new(self.clone(), entry.clone(), entry.span.at() + CLUSTER);
        if seeded("store-publish-early") {
            catalogue::set_state(self.media(), catalogue::record_at(&self.inner.superblock(), index), STATE_LIVE);
        }
        init(&object)?;
        let media = self.media();
        media.fence(); // STORE-7
        catalogue::set_state(media, catalogue::record_at(&self.inner.superblock(), index), STATE_LIVE);
        undo.index = None; // after a failed barrier the outcome is unknown: only opening again tells
        if seeded("store-fence-for-barrier") {
            media.fence();
        } else {
            media.barrier().map_err(Error::from)?;
        }
        let mut table = self.inner.table.lock();
        table.slots[index] = Slot::Live(entry);
        table.open.insert(index, Arc::downgrade(&object.inner));
        Ok(object)
    }

    /// Refuses what cannot be the name of a new object.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Damaged`] while a record is damaged.
    pub fn require_free(&self, name: &str) -> Result<()> {
        let _turn = self.turn()?;
        self.inner.require_free(&self.inner.table.lock(), name)
    }

    /// Chooses a record and a span, and writes the record as `creating`.
    fn claim(&self, name: &str, wish: Wish) -> Result<(usize, Entry)> {
        let inner = &*self.inner;
        let mut table = inner.table.lock();
        inner.require_free(&table, name)?;
        let index = table.slots.iter().position(|slot| *slot == Slot::Free);
        let index = index.ok_or(Error::Full { slots: inner.superblock().table_slots })?;
        let Wish { engine, fingerprint, span, origin } = wish;
        let span = inner.choose(&table, span)?;
        let id = self.generation() << 24 | self.next_created();
        let entry = Entry { id, name: name.into(), engine, fingerprint, span, origin };
        catalogue::claim(&inner.media, catalogue::record_at(&inner.superblock(), index), &entry);
        table.slots[index] = Slot::Creating(entry.clone());
        Ok((index, entry))
    }

    /// Removes an object and releases its clusters. Settled on return.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Open`] while this process has the object open, [`Error::Attached`] while another has;
    /// [`Error::Damaged`].
    pub fn remove_object(&self, name: &str) -> Result<()> {
        let inner = &*self.inner;
        let _turn = self.renaming()?;
        let mut table = inner.table.lock();
        let index = table.find(name).ok_or_else(|| Error::NotFound { name: name.into() })?;
        if table.open.get(&index).is_some_and(|object| object.strong_count() > 0) {
            return Err(Error::Open { object: name.into() });
        }
        let Slot::Live(entry) = table.slots[index].clone() else { unreachable!("`find` finds live records") };
        // A header that cannot be read does not say which clusters to release: refuse rather than lose them.
        inner.extent(&entry)?;
        self.attach_object(entry.id, name, true)?;
        self.detach_object(entry.id); // nobody attaches it in this turn
        catalogue::set_state(&inner.media, catalogue::record_at(&inner.superblock(), index), STATE_REMOVING);
        table.slots[index] = Slot::Removing(entry);
        inner.media.barrier()?; // STORE-7
        inner.release_slot(&mut table, index);
        inner.media.barrier()?;
        inner.space.punch();
        Ok(())
    }
}

impl Inner {
    fn require_free(&self, table: &Table, name: &str) -> Result<()> {
        names::validate(name)?;
        self.refuse_if_damaged(table)?;
        match table.slots.iter().filter_map(Slot::entry).any(|entry| entry.name == name) {
            true => Err(Error::Exists { name: name.into() }),
            false => Ok(()),
        }
    }

    /// The largest free span of the sizes asked for, or of any.
    fn choose(&self, table: &Table, sizes: Option<RangeInclusive<u64>>) -> Result<Span> {
        let taken: Vec<Span> = table.slots.iter().filter_map(Slot::entry).map(|entry| entry.span).collect();
        let Superblock { spans_at, max, .. } = self.superblock();
        let within = spans_at..max;
        let Some(sizes) = sizes else {
            return choose_largest(within, &taken).ok_or(Error::NoSpan { size: 0, max });
        };
        let (least, most) = (*sizes.start(), *sizes.end());
        if let Some(size) = [least, most].into_iter().find(|size| !size.is_power_of_two() || *size < CLUSTER) {
            let detail = format!("a span of {size} bytes is not a power of two of at least {CLUSTER}");
            return Err(Error::BadOption { detail });
        }
        let mut sizes = (least.ilog2()..=most.ilog2()).rev();
        let span = sizes.find_map(|bits| choose_span(within.clone(), &taken, 1 << bits));
        span.ok_or(Error::NoSpan { size: least, max })
    }

    /// The second half of a removal, for a record in `creating` or `removing`: clears the bits of its span and frees
    /// the record. Idempotent; fenced on return. Recovery and failed creations use it too.
    pub(crate) fn release_slot(&self, table: &mut Table, index: usize) {
        let Some(entry) = table.slots[index].entry().cloned() else { return };
        match object::read_header(&self.media, &entry) {
            Ok(extent) => self.space.release(&(entry.span.at()..extent.reach)),
            // A header is fenced before the first bit is set (STORE-5), so this one was damaged later: look everywhere.
            Err(_) if self.space.is_backed(entry.span.at()) => self.space.release(&entry.span.range()),
            Err(_) => {}
        }
        catalogue::set_state(&self.media, catalogue::record_at(&self.superblock(), index), STATE_FREE);
        self.media.fence();
        table.slots[index] = Slot::Free;
        table.open.remove(&index);
    }
}

/// Takes a creation back that did not come to its end, on an error and on a panic.
struct Undo<'s> {
    store: &'s Inner,
    index: Option<usize>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            let mut table = self.store.table.lock();
            self.store.release_slot(&mut table, index);
        }
    }
}
