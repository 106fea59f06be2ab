//! The ids of objects: the opening in the upper bits, creations in this opening in the lower ones.

use crate::layout::shared;
use crate::{Error, Result};
use everbyte_media::Media;
use everbyte_members::SLOTS;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bits of an object's id that count creations; those above count openings.
const CREATED_BITS: u32 = 24;

/// The counts from which new objects get their ids.
pub(crate) struct Ids {
    /// The number of openings of the store.
    generation: u64,
    /// Objects that this process has created.
    created: AtomicU64,
    /// Whether the count lies in the store's file, for all processes that share it.
    is_shared: AtomicBool,
}

impl Ids {
    pub(crate) fn new(generation: u64) -> Ids {
        Ids { generation, created: AtomicU64::new(0), is_shared: AtomicBool::new(false) }
    }

    /// The number of openings of the store.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Objects that this process has created in a store of its own.
    pub(crate) fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// Counts in the store's file from now on.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// The id of a new object. The caller holds the shared lock of a shared store.
    ///
    /// # Errors
    /// [`Error::NoIds`].
    pub(crate) fn next(&self, media: &Media) -> Result<u64> {
        let is_left = |next: u64| next < 1 << CREATED_BITS && self.generation < SLOTS >> CREATED_BITS;
        let next = if self.is_shared.load(Ordering::Relaxed) {
            let next = media.load(shared::CREATED);
            if is_left(next) {
                media.store(shared::CREATED, next + 1);
            }
            next
        } else {
            let more = |next| is_left(next).then_some(next + 1);
            self.created.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).unwrap_or_else(|next| next)
        };
        if !is_left(next) {
            return Err(Error::NoIds { path: media.path().into() });
        }
        Ok(self.generation << CREATED_BITS | next)
    }

    /// For tests: as if all creations but one had happened.
    #[cfg(test)]
    pub(crate) fn use_up(&self) {
        self.created.store((1 << CREATED_BITS) - 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLUSTER, FormatOptions, ObjectOptions, Store};
    use everbyte_media::Options;

    /// Sixteen million creations take a minute and a half: the test sets the count instead.
    #[test]
    fn no_id_is_given_twice_in_one_opening() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
        let make = |store: &Store, name: &str| {
            let made = store.create_object(name, options, |_| Ok::<(), Error>(()));
            made.map(|object| object.id())
        };
        let first = make(&store, "first").unwrap();
        store.parts().catalogue().ids().use_up();
        let last = make(&store, "last").unwrap();
        for _ in 0..2 {
            assert!(matches!(make(&store, "more"), Err(Error::NoIds { .. })));
        }
        assert_eq!((store.names("").unwrap(), store.check()), (vec!["first".to_string(), "last".into()], vec![]));
        store.close().unwrap();
        drop(store);
        let shared = Store::attach_shared(media.clone()).unwrap();
        let more = make(&shared, "more").unwrap();
        assert!(first < last && last < more);
        media.store(shared::CREATED, 1 << CREATED_BITS);
        assert!(matches!(make(&shared, "another"), Err(Error::NoIds { .. })));
        assert_eq!(shared.check(), []);
    }
}
