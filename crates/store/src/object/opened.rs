//! [`OpenObjects`]: the part of an open store that gives one state to all handles of an object.
//!
//! Invariants
//!   STORE-13  An object has one state in a process: it is here before another thread can find the
//!             object's name.

use super::handle::{Object, ObjectState};
use crate::catalogue::record::Entry;
use crate::{Error, Result};
use everbyte_media::lock_order::{RankedMutex, rank};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The open objects, by the offsets of their records. A thread that locks them holds the lock of
/// the catalogue, or has the object held.
#[derive(Default)]
pub(crate) struct OpenObjects(RankedMutex<{ rank::OPEN_OBJECTS }, HashMap<u64, OpenObject>>);

enum OpenObject {
    /// Its handles have this state.
    Handles(Weak<ObjectState>),
    /// One thread changes it as a whole, and no other gets a handle.
    Held,
}

/// An object that no thread opens until the value is dropped.
#[must_use = "the object can be opened again when this is dropped"]
pub(crate) struct HeldObject<'o> {
    opened: &'o OpenObjects,
    at: u64,
}

impl Drop for HeldObject<'_> {
    fn drop(&mut self) {
        self.opened.remove(self.at);
    }
}

impl OpenObjects {
    /// The object of `entry`, if it is open.
    ///
    /// # Errors
    /// [`Error::Open`] while a thread holds it.
    pub(crate) fn get(&self, entry: &Entry) -> Result<Option<Object>> {
        match self.0.lock().get(&entry.at) {
            Some(OpenObject::Handles(state)) => Ok(state.upgrade().map(Object::of)),
            Some(OpenObject::Held) => Err(Error::Open { object: entry.name.clone() }),
            None => Ok(None),
        }
    }

    /// Adds the object of the record at `at`.
    pub(crate) fn insert(&self, at: u64, object: &Object) {
        self.0.lock().insert(at, OpenObject::Handles(Arc::downgrade(object.state())));
    }

    /// Removes the entry of a record that is free now, or of an object that is held no more.
    pub(crate) fn remove(&self, at: u64) {
        self.0.lock().remove(&at);
    }

    /// Refuses an object that this process has open.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub(crate) fn require_closed(&self, entry: &Entry) -> Result<()> {
        let open = match self.0.lock().get(&entry.at) {
            Some(OpenObject::Handles(state)) => state.strong_count() > 0,
            Some(OpenObject::Held) => true,
            None => false,
        };
        if open { Err(Error::Open { object: entry.name.clone() }) } else { Ok(()) }
    }

    /// Keeps other threads from opening, removing and renaming a closed object, for a change of it
    /// that cannot be made under the lock of the catalogue. The caller has that lock now.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub(crate) fn hold(&self, entry: &Entry) -> Result<HeldObject<'_>> {
        self.require_closed(entry)?;
        self.0.lock().insert(entry.at, OpenObject::Held);
        Ok(HeldObject { opened: self, at: entry.at })
    }
}
