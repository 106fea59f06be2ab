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
/// the catalogue.
#[derive(Default)]
pub(crate) struct OpenObjects(RankedMutex<{ rank::OPEN_OBJECTS }, HashMap<u64, Weak<ObjectState>>>);

impl OpenObjects {
    /// The open object of the record at `at`.
    pub(crate) fn get(&self, at: u64) -> Option<Object> {
        self.0.lock().get(&at).and_then(Weak::upgrade).map(Object::of)
    }

    /// Adds the object of the record at `at`.
    pub(crate) fn insert(&self, at: u64, object: &Object) {
        self.0.lock().insert(at, Arc::downgrade(object.state()));
    }

    /// Removes the entry of a record that is free now.
    pub(crate) fn remove(&self, at: u64) {
        self.0.lock().remove(&at);
    }

    /// Refuses an object that this process has open.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub(crate) fn require_closed(&self, entry: &Entry) -> Result<()> {
        match self.0.lock().get(&entry.at).is_some_and(|object| object.strong_count() > 0) {
            true => Err(Error::Open { object: entry.name.clone() }),
            false => Ok(()),
        }
    }
}
