//! [`SharedKv`]: a store that several processes use, one at a time.
//!
//! A process that finds, with the object's lock, that another process has changed the store opens
//! it again, which finishes or undoes the change of a dead one; a process that finds it unchanged
//! uses its own state in memory.
//!
//! Threads: any. Of a shared store one thread holds the lock; of a store that this process has
//! alone, as [`Kv`].

use crate::base::fingerprint;
use crate::layout::{HASH_MAGIC, TREE_MAGIC};
use crate::raw::Raw as _;
use crate::{Error, Kv, KvKind, Result};
use everbyte_media::seeded;
use everbyte_store::raw::AsStore;
use everbyte_store::{Engine, Error as StoreError, Exclusive, Object, ObjectOpen, Since};
use parking_lot::RwLock;

/// A store of either kind that other processes may have open, too.
pub struct SharedKv {
    object: Object,
    /// `None` before it is opened, and after a failure to open it again.
    kv: RwLock<Option<Kv>>,
}

impl SharedKv {
    /// [`Kv::create`], shared from then on if the store is shared.
    ///
    /// # Errors
    /// As [`Kv::create`].
    pub fn create(store: &impl AsStore, name: &str, kind: KvKind, span: Option<u64>) -> Result<SharedKv> {
        let store = store.as_store();
        store.at_once(|| {
            let kv = Kv::create(store, name, kind, span)?;
            let object = kv.object().clone();
            object.share()?;
            Ok(SharedKv { object, kv: RwLock::new(Some(kv)) })
        })?
    }

    /// Opens the store of that name, which other processes may have opened in the same way.
    ///
    /// # Errors
    /// As [`Kv::open`]; [`everbyte_store::Error::Attached`] if another process has it alone.
    pub fn open(store: &impl AsStore, name: &str) -> Result<SharedKv> {
        let store = store.as_store();
        let shared = |magic| store.open_object(name, &ObjectOpen::shared(Engine::Hkv, fingerprint(magic)));
        let object = match shared(HASH_MAGIC) {
            Err(StoreError::WrongFingerprint { .. }) => shared(TREE_MAGIC),
            other => other,
        }?;
        let shared = SharedKv { object, kv: RwLock::new(None) };
        drop(shared.enter()?); // opens it with the lock, so that no other process is changing it
        Ok(shared)
    }

    /// Reads the store with the object's lock held.
    ///
    /// # Errors
    /// As [`Kv::open`]; the error that `look` returns.
    pub fn look<T, E: From<Error>>(&self, look: impl FnOnce(&Kv) -> Result<T, E>) -> Result<T, E> {
        let _exclusive = self.enter()?;
        look(self.kv.read().as_ref().expect("open, once entered"))
    }

    /// Changes the store with the object's lock held.
    ///
    /// # Errors
    /// As [`Kv::open`]; the error that `change` returns.
    pub fn change<T, E: From<Error>>(&self, change: impl FnOnce(&Kv) -> Result<T, E>) -> Result<T, E> {
        let exclusive = self.enter()?;
        exclusive.iter().for_each(Exclusive::changed);
        change(self.kv.read().as_ref().expect("open, once entered"))
    }

    fn enter(&self) -> Result<Option<Exclusive>> {
        let exclusive = self.object.exclusive().map_err(Error::from)?;
        let news = exclusive.as_ref().is_some_and(|exclusive| exclusive.since() != Since::Unchanged);
        let news = news && !seeded("hkv-news-ignored");
        if news || self.kv.read().is_none() {
            let mut kv = self.kv.write();
            *kv = None; // closed before it is opened again
            *kv = Some(Kv::open(self.object.clone())?);
        }
        Ok(exclusive)
    }
}

impl std::fmt::Debug for SharedKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedKv({})", self.object.name())
    }
}
