//! A store that several processes use at once.
//!
//! Who opens it first recovers it; who comes later joins, and finds it as its users have it. Whatever is the store's own
//! (names, records, bitmaps, the file's length) changes in turns of one turnstile; whatever is an object's, in turns of the
//! object's own ([`Object::turn`]). Whose turn follows that of a dead process first finishes or undoes what that one left,
//! by the steps of opening.
//!
//! Order of turns: an object's, then the store's.
//!
//! Invariants
//!   SHARE-1  What a process remembers of the store is used only in a turn of its own, after it has caught up.
//!   SHARE-2  A store counts as cleanly closed only if everybody who came has left.
//!   SHARE-3  Of an object that is not shared there is one user.

use crate::layout::{self, shared};
use crate::recover;
use crate::store::Inner;
use crate::turn::{News, Turn, Turnstile};
use crate::{Engine, Error, Object, Result, Store, Want, identity};
use everbyte_media::{Media, Opening, Options, TOKEN_MAX, User};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a process that shares a store has of it.
pub(crate) struct Shared {
    pub user: Arc<User>,
    turnstile: Arc<Turnstile>,
    /// The count of changes of names that the table shows.
    names: AtomicU64,
}

impl Store {
    /// Opens a store that other processes may open in the same way, where the backend lets processes see each other's
    /// stores; elsewhere this is [`Store::open`]. Objects are this process's alone unless they are opened with
    /// [`Store::object_shared`].
    ///
    /// # Errors
    /// As [`Store::open`]; in use are stores that a process has alone, or looks at.
    pub fn open_shared(path: &Path, options: &Options) -> Result<Store> {
        identity::refuse_copy(path)?;
        identity::refuse_twice(path)?;
        Store::found(Media::open_shared(path, options)?)
    }

    /// [`Store::open_shared`] over descriptors that somebody has passed; see [`Media::open_shared_files`].
    ///
    /// # Errors
    /// As [`Store::open_shared`].
    pub fn open_shared_files(bytes: File, locks: File, name: &Path, options: &Options) -> Result<Store> {
        Store::found(Media::open_shared_files(bytes, locks, name, options)?)
    }

    fn found(opened: (Media, Option<Opening>)) -> Result<Store> {
        match opened {
            (media, Some(opening)) => Store::share(media, opening),
            (media, None) => Store::attach(media),
        }?
        .hold()
    }

    /// [`Store::attach`] for one of several users of media without a file: how sharing is tested within a process.
    ///
    /// # Errors
    /// As [`Store::attach`].
    pub fn attach_shared(media: Media) -> Result<Store> {
        if !media.capabilities().shared {
            return Store::attach(media);
        }
        let opening = media.share()?;
        Store::share(media, opening)
    }

    fn share(media: Media, opening: Opening) -> Result<Store> {
        let alone = opening.is_alone();
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
        let user = Arc::new(opening.enter(token as u32)?);
        let turnstile = Turnstile::new(media, shared::AT, store.generation(), Arc::clone(&user));
        if alone {
            turnstile.in_order();
        }
        let shared = Shared { user, turnstile, names: AtomicU64::new(u64::MAX) };
        assert!(store.inner.shared.set(shared).is_ok(), "a store is shared once");
        store.inner.background.keep(false);
        Ok(store)
    }

    /// Whether other processes may have it open.
    pub fn is_shared(&self) -> bool {
        self.inner.shared.get().is_some()
    }

    /// Refuses a child of fork that has nothing of the store; see [`everbyte_media::Media::require_here`].
    ///
    /// # Errors
    /// [`Error::Media`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        Ok(self.media().require_here()?)
    }

    /// The store's turn, caught up (SHARE-1); `None` in a store that is not shared.
    pub(crate) fn turn(&self) -> Result<Option<Turn>> {
        let Some(shared) = self.inner.shared.get() else { return Ok(None) };
        let turn = shared.turnstile.enter()?;
        if turn.news() != News::Nothing {
            self.media().refresh()?;
            self.space().forget_holes(); // somebody may have backed them since
            if turn.news() == News::HalfDone {
                self.inner.inherit()?;
            }
            let names = self.media().load(shared::NAMES);
            if shared.names.swap(names, Ordering::Relaxed) != names || turn.news() == News::HalfDone {
                self.inner.refresh_table(false)?;
            }
            turn.caught_up();
        }
        Ok(Some(turn))
    }

    /// The store's turn, for a change that others are to hear of.
    pub(crate) fn changing(&self) -> Result<Option<Turn>> {
        let turn = self.turn()?;
        turn.iter().for_each(Turn::changed);
        Ok(turn)
    }

    /// The store's turn, for a change of names or of what lies behind them.
    pub(crate) fn renaming(&self) -> Result<Option<Turn>> {
        let turn = self.changing()?;
        if let Some(shared) = self.inner.shared.get() {
            let names = self.media().load(shared::NAMES) + 1;
            self.media().store(shared::NAMES, names);
            shared.names.store(names, Ordering::Relaxed);
        }
        Ok(turn)
    }

    /// Runs `change` in one turn of the store: what it does to names and objects, other processes see all at once. It must
    /// not wait for an object that is shared already.
    ///
    /// # Errors
    /// As [`Store::object`]; `change` has not run then.
    pub fn at_once<T>(&self, change: impl FnOnce() -> T) -> Result<T> {
        let _turn = self.turn()?;
        Ok(change())
    }

    /// Opens an object of this engine and fingerprint that other processes may have open, too. The engine has to use
    /// [`Object::turn`].
    ///
    /// # Errors
    /// As [`Store::object`], [`Object::require_engine`] and [`Object::require_fingerprint`]; [`Error::Attached`] if another
    /// process has it alone.
    pub fn object_shared(&self, name: &str, engine: Engine, fingerprint: u64) -> Result<Object> {
        self.object_wanted(name, Want::Write, engine, fingerprint)
    }

    /// [`Store::object_shared`] for what is wanted, which the object's rights have to allow. Who wants to read is given the
    /// object as it is: that nothing of the program's is stored to it is for the caller to see to ([`Media::protect`]).
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
        match shared.user.attach(id, alone)? {
            true => Ok(()),
            false => Err(Error::Attached { object: name.into(), users: self.media().users() }),
        }
    }

    pub(crate) fn detach_object(&self, id: u64) {
        if let Some(shared) = self.inner.shared.get() {
            shared.user.detach(id);
        }
    }

    /// Leaves a shared store; the last to leave closes it (SHARE-2).
    pub(crate) fn leave(&self, shared: &Shared) -> Result<()> {
        shared.user.leave(|alone| {
            let left = self.media().load(shared::LEFT) + 1;
            self.media().store(shared::LEFT, left);
            if !alone || left != self.media().load(shared::JOINED) {
                return Ok(());
            }
            let _turn = self.turn()?;
            self.close_alone()
        })
    }
}

impl Inner {
    /// A number for an object: openings above; below, creations in this opening, by any process. The caller has the turn.
    pub(crate) fn next_id(&self) -> u64 {
        let next = if self.shared.get().is_some() {
            let next = self.media.load(shared::CREATED);
            self.media.store(shared::CREATED, next + 1);
            next
        } else {
            self.created.fetch_add(1, Ordering::Relaxed)
        };
        self.generation << 24 | next
    }
}

impl Object {
    /// Lets other processes have this object open, too: those that open it with [`Store::object_shared`]. Nothing in a store
    /// that is not shared.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn share(&self) -> Result<()> {
        let store = self.store();
        let Some(shared) = store.inner.shared.get() else { return Ok(()) };
        let _turn = store.turn()?;
        store.attach_object(self.id(), self.name(), false)?;
        let at = self.prime() + layout::header::SHARED;
        let turnstile = || Turnstile::new(self.media().clone(), at, store.generation(), Arc::clone(&shared.user));
        self.inner.turnstile.get_or_init(turnstile);
        Ok(())
    }

    /// Notes in this thread's turn that the object is about to change; nothing for an object that is not shared.
    ///
    /// # Errors
    /// [`Error::OutOfTurn`].
    #[inline]
    pub fn changing_in_turn(&self) -> Result<()> {
        match self.inner.turnstile.get() {
            Some(turnstile) if !turnstile.changing() => Err(Error::OutOfTurn { object: self.name().into() }),
            _ => Ok(()),
        }
    }

    /// The turn on a shared object: until it is dropped nobody else has it, in this process or another. `None`: the object is
    /// this process's alone. What the engine remembers of the object it brings up to date by [`Turn::news`].
    ///
    /// # Errors
    /// [`Error::Media`]; [`Error::Damaged`] if what a dead process left does not let itself be put right.
    #[inline]
    pub fn turn(&self) -> Result<Option<Turn>> {
        let Some(turnstile) = self.inner.turnstile.get() else {
            self.store().require_here()?;
            return Ok(None);
        };
        let turn = turnstile.enter()?;
        if turn.news() != News::Nothing {
            drop(self.store().turn()?); // a dead process may have left the store half done, too
            self.refresh()?;
        }
        Ok(Some(turn))
    }
}
