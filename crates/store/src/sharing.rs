//! A store that several processes use at once.
//!
//! The first process to open it recovers it; later ones join. Names, records, bitmaps and the
//! file's length change under the store's [`SharedLock`]; the state of an object under the object's
//! own ([`crate::Object::exclusive`]). A process that acquires a lock after a holder died first
//! finishes or undoes the dead process's change, by the steps of opening.
//!
//! Order of locks: an object's, then the store's.
//!
//! Invariants
//!   SHARE-1  A process uses its volatile state of the store only while it holds the store's lock,
//!            and after it has caught up.
//!   SHARE-2  A store counts as cleanly closed only if every process that joined has left.
//!   SHARE-3  An object that is not shared has one member.
//!
//! Design: docs/design/sharing.md

use crate::layout::shared;
use crate::{Error, Result};
use everbyte_media::Media;
use everbyte_media::lock_order::{HeldRank, RankedMutex, rank};
use everbyte_members::{JoinLock, Membership, SlotMode, TOKEN_MAX};
use everbyte_space::ObjectId;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The lock on data that the members of a store share.
pub(crate) type SharedLock = everbyte_members::SharedLock<Media>;

/// The guard of the lock that a shared store, or a shared object, has in its file.
#[must_use = "the lock is released when this is dropped"]
pub struct Exclusive {
    guard: everbyte_members::Exclusive<Media>,
    _rank: HeldRank,
}

impl Exclusive {
    /// Waits for a lock of this rank; a thread that holds it takes it again.
    pub(crate) fn acquire(lock: &Arc<SharedLock>, rank: u8) -> Result<Exclusive> {
        let rank = HeldRank::again(rank);
        Ok(Exclusive { guard: lock.acquire()?, _rank: rank })
    }

    /// [`everbyte_members::Exclusive::changed`].
    #[inline]
    pub fn changed(&self) {
        self.guard.changed();
    }

    /// [`everbyte_members::Exclusive::caught_up`].
    pub fn caught_up(&self) {
        self.guard.caught_up();
    }
}

impl Deref for Exclusive {
    type Target = everbyte_members::Exclusive<Media>;

    #[inline]
    fn deref(&self) -> &everbyte_members::Exclusive<Media> {
        &self.guard
    }
}

/// The part of an open store that other processes see. Empty in a store of one process.
#[derive(Default)]
pub(crate) struct Sharing(OnceLock<SharedStore>);

/// The membership of this process in a shared store.
pub(crate) struct SharedStore {
    media: Media,
    member: Arc<Membership>,
    lock: Arc<SharedLock>,
    /// The count of changes of names that the catalogue shows.
    names: AtomicU64,
    /// By id, the number of handles and creations that need the object attached. Locked while an
    /// object is attached or detached: the last handle of one opening may go while the first of the
    /// next comes (SHARE-3).
    attached: RankedMutex<{ rank::ATTACHED }, HashMap<ObjectId, usize>>,
}

impl Sharing {
    /// The membership, if the store is shared.
    #[inline]
    pub(crate) fn store(&self) -> Option<&SharedStore> {
        self.0.get()
    }

    /// Shares the store.
    ///
    /// # Panics
    /// If it is shared.
    pub(crate) fn begin(&self, shared: SharedStore) {
        assert!(self.0.set(shared).is_ok(), "a store is shared once");
    }

    /// Records that this process has an object open.
    ///
    /// # Errors
    /// [`Error::Attached`] if another process has it open in a mode that excludes this one.
    pub(crate) fn attach(&self, id: ObjectId, name: &str, mode: SlotMode) -> Result<()> {
        self.store().map_or(Ok(()), |shared| shared.attach(id, name, mode))
    }

    /// Reverses one [`Sharing::attach`].
    pub(crate) fn detach(&self, id: ObjectId) {
        if let Some(shared) = self.store() {
            shared.detach(id);
        }
    }
}

impl SharedStore {
    /// Joins the store on `media`. The first process makes the volatile words.
    ///
    /// # Errors
    /// [`Error::BadOption`] if no token is left, [`Error::Media`].
    pub(crate) fn join(media: Media, joining: JoinLock, is_first: bool, generation: u64) -> Result<SharedStore> {
        if is_first {
            media.zero(shared::AT, shared::LEN);
        }
        let token = media.load(shared::JOINED) + 1;
        if token >= u64::from(TOKEN_MAX) {
            let detail = "too many processes have joined this store; close it in all of them and open it again";
            return Err(Error::BadOption { detail: detail.into() });
        }
        media.store(shared::JOINED, token);
        let member = Arc::new(joining.join(token as u32)?);
        let lock = SharedLock::new(media.clone(), shared::AT, generation, Arc::clone(&member));
        if is_first {
            lock.set_recovered();
        }
        Ok(SharedStore { media, member, lock, names: AtomicU64::new(u64::MAX), attached: RankedMutex::default() })
    }

    /// Keeps other processes from joining and leaving, until the value is dropped; `None` if one
    /// has the store.
    pub(crate) fn lock_alone(&self) -> Result<Option<JoinLock>> {
        let joining = self.media.lock_joining()?;
        let tokens = 1..=self.media.load(shared::JOINED).min(u64::from(TOKEN_MAX)) as u32;
        for token in tokens.filter(|&token| token != self.member.token()) {
            if self.member.is_alive(token)? {
                return Ok(None);
            }
        }
        Ok(Some(joining))
    }

    /// The number of this process among the members.
    pub(crate) fn token(&self) -> u32 {
        self.member.token()
    }

    /// Whether the member with that number is still there.
    pub(crate) fn is_alive(&self, token: u32) -> Result<bool> {
        Ok(self.member.is_alive(token)?)
    }

    /// Waits for the store's lock.
    pub(crate) fn acquire(&self) -> Result<Exclusive> {
        Exclusive::acquire(&self.lock, rank::STORE)
    }

    /// The lock of a shared object, whose words lie at `at`.
    pub(crate) fn object_lock(&self, at: u64, generation: u64) -> Arc<SharedLock> {
        SharedLock::new(self.media.clone(), at, generation, Arc::clone(&self.member))
    }

    /// Whether names have changed since the last call. The caller holds the store's lock.
    pub(crate) fn names_changed(&self) -> bool {
        let names = self.media.load(shared::NAMES);
        self.names.swap(names, Ordering::Relaxed) != names
    }

    /// Counts a change of names by this process. The caller holds the store's lock.
    pub(crate) fn count_change_of_names(&self) {
        let names = self.media.load(shared::NAMES) + 1;
        self.media.store(shared::NAMES, names);
        self.names.store(names, Ordering::Relaxed);
    }

    fn attach(&self, id: ObjectId, name: &str, mode: SlotMode) -> Result<()> {
        let mut attached = self.attached.lock();
        self.lock_slot(id, name, mode)?;
        *attached.entry(id).or_default() += 1;
        Ok(())
    }

    /// Locks the slot of an object in this mode, in place of the mode that this process has.
    ///
    /// # Errors
    /// [`Error::Attached`].
    pub(crate) fn lock_slot(&self, id: ObjectId, name: &str, mode: SlotMode) -> Result<()> {
        match self.member.lock_slot(id.get(), mode)? {
            true => Ok(()),
            false => Err(Error::Attached { object: name.into(), users: self.media.holders() }),
        }
    }

    fn detach(&self, id: ObjectId) {
        let mut attached = self.attached.lock();
        if let Some(count) = attached.get_mut(&id) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            attached.remove(&id);
        }
        self.member.unlock_slot(id.get());
    }

    /// Leaves the store; `close` runs in the last process that leaves (SHARE-2).
    pub(crate) fn leave(&self, close: impl FnOnce() -> Result<()>) -> Result<()> {
        self.member.leave(|alone| {
            let left = self.media.load(shared::LEFT) + 1;
            self.media.store(shared::LEFT, left);
            if alone && left == self.media.load(shared::JOINED) { close() } else { Ok(()) }
        })
    }
}
