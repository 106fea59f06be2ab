//! A store that several processes use at once.
//!
//! Who opens it first recovers it; who comes later joins, and finds it as its users have it.
//! Whatever is the store's own (names, records, bitmaps, the file's length) changes in turns of one
//! turnstile; whatever is an object's, in turns of the object's own ([`Object::exclusive`]). Whose turn
//! follows that of a dead process first finishes or undoes what that one left, by the steps of
//! joining.
//!
//! Order of turns: an object's, then the store's.
//!
//! Invariants
//!   SHARE-1  What a process remembers of the store is used only in a turn of its own, after it has
//!            caught up.
//!   SHARE-2  A store counts as cleanly closed only if everybody who came has left.
//!   SHARE-3  Of an object that is not shared there is one user.
//!
//! Design: docs/design/sharing.md

use crate::layout::{self, shared};
use crate::recover;
use crate::store::Inner;
use crate::superblock::identity;
use crate::{Engine, Error, Object, Result, Store, Want};
use everbyte_media::{Media, OpenOptions, Options};
use everbyte_members::{JoinLock, Membership, SLOTS, Since, SlotMode, TOKEN_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of an object's id that count creations; those above count openings.
const CREATED_BITS: u32 = 24;

/// What a process that shares a store has of it.
pub(crate) struct Shared {
    pub member: Arc<Membership>,
    shared_lock: Arc<SharedLock>,
    /// The count of changes of names that the table shows.
    names: AtomicU64,
    /// By id, how many handles and creations need the object attached. Locked while it is attached
    /// or detached: the last of one opening may go while the first of the next comes (SHARE-3).
    attached: Mutex<HashMap<u64, usize>>,
}

/// The lock on data that the members of a store share.
pub(crate) type SharedLock = everbyte_members::SharedLock<Media>;

/// The guard of the lock that a shared store, or a shared object, has in its file.
pub type Exclusive = everbyte_members::Exclusive<Media>;

impl Store {
    /// Opens a store that other processes may open in the same way, where the backend lets
    /// processes see each other's stores; elsewhere this is [`Store::open`]. Objects are this
    /// process's alone unless they are opened with [`Store::object_shared`].
    ///
    /// # Errors
    /// As [`Store::open`]; in use are stores that a process has alone, or looks at.
    pub fn open_shared(path: &Path, options: &Options) -> Result<Store> {
        identity::refuse_copy(path)?;
        identity::refuse_twice(path)?;
        Store::found(OpenOptions::new(path).open_shared(options)?)
    }

    /// [`Store::open_shared`] over descriptors that somebody has passed; see
    /// [`OpenOptions::over`].
    ///
    /// # Errors
    /// As [`Store::open_shared`].
    pub fn open_shared_files(bytes: File, locks: File, name: &Path, options: &Options) -> Result<Store> {
        Store::found(OpenOptions::new(name).over(bytes).locks(locks).open_shared(options)?)
    }

    fn found(opened: (Media, Option<JoinLock>)) -> Result<Store> {
        match opened {
            (media, Some(joining)) => Store::share(media, joining),
            (media, None) => Store::attach(media),
        }?
        .hold()
    }

    /// [`Store::attach`] for one of several users of media without a file: how sharing is tested
    /// within a process.
    ///
    /// # Errors
    /// As [`Store::attach`].
    pub fn attach_shared(media: Media) -> Result<Store> {
        if !media.capabilities().shared {
            return Store::attach(media);
        }
        let joining = media.lock_joining()?;
        Store::share(media, joining)
    }

    fn share(media: Media, joining: JoinLock) -> Result<Store> {
        let alone = joining.is_alone();
        let store = if alone { Store::attach(media)? } else { recover::join(media)? };
        let media = store.media().clone();
        if alone {
            media.zero(shared::AT, shared::LEN);
        }
        let token = media.load(shared::JOINED) + 1;
        if token >= u64::from(TOKEN_MAX) {
            let detail = "too many processes have joined this store; close it in all of them and open it again";
            return Err(Error::BadOption { detail: detail.into() });
        }
        media.store(shared::JOINED, token);
        let member = Arc::new(joining.join(token as u32)?);
        let shared_lock = SharedLock::new(media, shared::AT, store.generation(), Arc::clone(&member));
        if alone {
            shared_lock.set_recovered();
        }
        let shared = Shared { member, shared_lock, names: AtomicU64::new(u64::MAX), attached: Mutex::default() };
        assert!(store.inner.shared.set(shared).is_ok(), "a store is shared once");
        store.inner.background.keep(false);
        Ok(store)
    }

    /// Whether other processes may have it open.
    pub fn is_shared(&self) -> bool {
        self.inner.shared.get().is_some()
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

    /// The store's turn, caught up (SHARE-1); `None` in a store that is not shared.
    pub(crate) fn exclusive(&self) -> Result<Option<Exclusive>> {
        let Some(shared) = self.inner.shared.get() else { return Ok(None) };
        let exclusive = shared.shared_lock.acquire()?;
        if exclusive.since() != Since::Unchanged {
            self.media().refresh()?;
            self.space().clear_states(); // somebody may have backed them since
            if exclusive.since() == Since::OwnerDied {
                self.inner.inherit()?;
            }
            let names = self.media().load(shared::NAMES);
            if shared.names.swap(names, Ordering::Relaxed) != names || exclusive.since() == Since::OwnerDied {
                self.inner.refresh_table(false)?;
            }
            exclusive.caught_up();
        }
        Ok(Some(exclusive))
    }

    /// The store's turn, for a change that others are to hear of.
    pub(crate) fn changing(&self) -> Result<Option<Exclusive>> {
        self.media().require_opener()?;
        self.require_readable()?;
        let exclusive = self.exclusive()?;
        exclusive.iter().for_each(Exclusive::changed);
        Ok(exclusive)
    }

    /// Refuses a store of whose own pages one could not be read: a bitmap that reads as zeros would
    /// give clusters away that objects have, and a table of zeros has no objects. Asked before a
    /// change, and before an object is said to be absent.
    pub(crate) fn require_readable(&self) -> Result<()> {
        match Media::unreadable_count() {
            0 => Ok(()),
            _ => Ok(self.media().require_readable(0, self.inner.superblock().spans_at)?),
        }
    }

    /// The store's turn, for a change of names or of what lies behind them.
    pub(crate) fn renaming(&self) -> Result<Option<Exclusive>> {
        let exclusive = self.changing()?;
        if let Some(shared) = self.inner.shared.get() {
            let names = self.media().load(shared::NAMES) + 1;
            self.media().store(shared::NAMES, names);
            shared.names.store(names, Ordering::Relaxed);
        }
        Ok(exclusive)
    }

    /// Runs `change` in one turn of the store: what it does to names and objects, other processes
    /// see all at once. It must not wait for an object that is shared already.
    ///
    /// # Errors
    /// As [`Store::object`]; `change` has not run then.
    pub fn at_once<T>(&self, change: impl FnOnce() -> T) -> Result<T> {
        let _exclusive = self.exclusive()?;
        Ok(change())
    }

    /// Opens an object of this engine and fingerprint that other processes may have open, too. The
    /// engine has to use [`Object::exclusive`].
    ///
    /// # Errors
    /// As [`Store::object`], [`Object::require_engine`] and [`Object::require_fingerprint`];
    /// [`Error::Attached`] if another process has it alone.
    pub fn object_shared(&self, name: &str, engine: Engine, fingerprint: u64) -> Result<Object> {
        self.object_wanted(name, Want::Write, engine, fingerprint)
    }

    /// [`Store::object_shared`] for what is wanted, which the object's rights have to allow. Who
    /// wants to read is given the object as it is: that nothing of the program's is stored to it is
    /// for the caller to see to ([`Media::protect`]).
    ///
    /// # Errors
    /// As [`Store::object_shared`].
    pub fn object_wanted(&self, name: &str, want: Want, engine: Engine, fingerprint: u64) -> Result<Object> {
        let object = self.open_object(name, false, want)?;
        object.require_engine(engine)?;
        object.require_fingerprint(fingerprint)?;
        object.share()?;
        Ok(object)
    }

    /// Notes that this process has an object open.
    pub(crate) fn attach_object(&self, id: u64, name: &str, alone: bool) -> Result<()> {
        let Some(shared) = self.inner.shared.get() else { return Ok(()) };
        let mut attached = shared.attached.lock();
        match shared.member.lock_slot(id, if alone { SlotMode::Exclusive } else { SlotMode::Shared })? {
            true => *attached.entry(id).or_default() += 1,
            false => return Err(Error::Attached { object: name.into(), users: self.media().holders() }),
        }
        Ok(())
    }

    /// Takes one [`Store::attach_object`] back.
    pub(crate) fn detach_object(&self, id: u64) {
        let Some(shared) = self.inner.shared.get() else { return };
        let mut attached = shared.attached.lock();
        if let Some(count) = attached.get_mut(&id) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            attached.remove(&id);
        }
        shared.member.unlock_slot(id);
    }

    /// Leaves a shared store; the last to leave closes it (SHARE-2).
    pub(crate) fn leave(&self, shared: &Shared) -> Result<()> {
        shared.member.leave(|alone| {
            let left = self.media().load(shared::LEFT) + 1;
            self.media().store(shared::LEFT, left);
            if !alone || left != self.media().load(shared::JOINED) {
                return Ok(());
            }
            let _exclusive = self.exclusive()?;
            self.close_alone()
        })
    }
}

impl Inner {
    /// A number for an object: openings above; below, creations in this joining, by any process.
    /// The caller has the turn.
    ///
    /// # Errors
    /// [`Error::NoIds`].
    pub(crate) fn next_id(&self) -> Result<u64> {
        let room = |next: u64| next < 1 << CREATED_BITS && self.generation < SLOTS >> CREATED_BITS;
        let next = if self.shared.get().is_some() {
            let next = self.media.load(shared::CREATED);
            if room(next) {
                self.media.store(shared::CREATED, next + 1);
            }
            next
        } else {
            let more = |next| room(next).then_some(next + 1);
            self.created.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).unwrap_or_else(|next| next)
        };
        if !room(next) {
            return Err(Error::NoIds { path: self.media.path().into() });
        }
        Ok(self.generation << CREATED_BITS | next)
    }
}

impl Object {
    /// Lets other processes have this object open, too: those that open it with
    /// [`Store::object_shared`]. Nothing in a store that is not shared.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn share(&self) -> Result<()> {
        let store = self.store();
        let Some(shared) = store.inner.shared.get() else { return Ok(()) };
        let _exclusive = store.exclusive()?;
        if !shared.member.lock_slot(self.id(), SlotMode::Shared)? {
            return Err(Error::Attached { object: self.name().into(), users: self.media().holders() });
        }
        self.inner.alone.store(false, Ordering::Relaxed);
        let at = self.prime() + layout::header::SHARED;
        let shared_lock = || SharedLock::new(self.media().clone(), at, store.generation(), Arc::clone(&shared.member));
        self.inner.shared_lock.get_or_init(shared_lock);
        Ok(())
    }

    /// Notes in this thread's turn that the object is about to change; nothing for an object that
    /// is not shared.
    ///
    /// # Errors
    /// [`Error::NotExclusive`].
    #[inline]
    pub fn changing_exclusively(&self) -> Result<()> {
        match self.inner.shared_lock.get() {
            Some(shared_lock) if !shared_lock.changed_by_this_thread() => {
                Err(Error::NotExclusive { object: self.name().into() })
            }
            _ => Ok(()),
        }
    }

    /// The turn on a shared object: until it is dropped nobody else has it, in this process or
    /// another. `None`: the object is this process's alone. What the engine remembers of the object
    /// it brings up to date by [`Exclusive::since`].
    ///
    /// # Errors
    /// [`Error::Media`]; [`Error::Damaged`] if what a dead process left does not let itself be put
    /// right.
    #[inline]
    pub fn exclusive(&self) -> Result<Option<Exclusive>> {
        let Some(shared_lock) = self.inner.shared_lock.get() else {
            self.store().require_here()?;
            return Ok(None);
        };
        let exclusive = shared_lock.acquire()?;
        if exclusive.since() != Since::Unchanged {
            drop(self.store().exclusive()?); // a dead process may have left the store half done, too
            self.refresh()?;
        }
        Ok(Some(exclusive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLUSTER, FormatOptions, ObjectOptions};

    /// Sixteen million creations take a minute and a half: the count is set instead.
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
        store.inner.created.store((1 << CREATED_BITS) - 1, Ordering::Relaxed);
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
