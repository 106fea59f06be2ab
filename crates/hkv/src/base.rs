//! [`Base`]: what every store of this room stands on: an object, the engine that changes it, and
//! its root.

use crate::layout::{FORMAT, RootHead};
use crate::note::Past;
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_media::{Damage, Format, sums_agree};
use everbyte_media::{Mark, Media};
use everbyte_store::{Claim, Engine, Object, ObjectOptions, Store};
use everbyte_tx::{Tx, Undo};
use parking_lot::RwLockWriteGuard;
use std::cmp::Ordering;

pub(crate) struct Base {
    pub undo: Undo,
    /// Offset of the root.
    pub root: u64,
    /// Opened once at a time.
    _claim: Claim,
}

impl Base {
    /// Makes an object for a store that begins with `magic`; `format` makes an empty one and leads
    /// the root word to it.
    pub(crate) fn create(
        store: &Store,
        name: &str,
        magic: [u8; 8],
        span: Option<u64>,
        format: impl FnOnce(&Undo) -> Result<()>,
    ) -> Result<Object> {
        let options = ObjectOptions { engine: Engine::Hkv, fingerprint: fingerprint(magic), span };
        store.create_object(name, options, |object| {
            Undo::format(object)?;
            format(&Undo::open(object.clone())?)
        })
    }

    /// Opens an object that holds a store with `magic`, which is what its root begins with; undoes
    /// what a crash left half done. The root has `len` bytes.
    pub(crate) fn open(object: Object, magic: [u8; 8], len: usize) -> Result<(Base, RootHead, Past)> {
        object.require_engine(Engine::Hkv)?;
        object.require_fingerprint(fingerprint(magic))?;
        let (root, claim) = (object.root(), object.claim()?);
        let base = Base { undo: Undo::open(object)?, root, _claim: claim };
        // before notes are read: another format may have other ones
        let head = base.head(magic, len)?;
        let past = Past::new(base.recover()?);
        Ok((base, head, past))
    }

    /// The first bytes of the root, which never change.
    fn head(&self, magic: [u8; 8], len: usize) -> Result<RootHead> {
        let root = self.root;
        if !root.is_multiple_of(64) || !self.heap().may_hold_blocks(root, len as u64) {
            return Err(self.damaged(self.object().root_at(), "the root word leads to no store"));
        }
        let head: RootHead = self.media().get(root);
        if head.magic != magic || !sums_agree(head.checksum, head.sum()) {
            return Err(self.damaged(root, "the root of the store is not whole"));
        }
        let (found, known, name) = (head.format, FORMAT, || self.object().name().into());
        match found.cmp(&known) {
            Ordering::Less => Err(Error::OldFormat { object: name(), format: Format::new(found, known) }),
            Ordering::Greater => Err(Error::NewerFormat { object: name(), format: Format::new(found, known) }),
            Ordering::Equal => Ok(head),
        }
    }

    pub(crate) fn object(&self) -> &Object {
        self.heap().object()
    }

    #[inline]
    pub(crate) fn heap(&self) -> &Heap {
        self.undo.heap()
    }

    #[inline]
    pub(crate) fn media(&self) -> &Media {
        self.undo.media()
    }

    #[cold]
    pub(crate) fn damaged(&self, at: u64, detail: &'static str) -> Error {
        Error::from(Damage::at(at, detail).of_object(self.object().name()))
    }

    /// Bytes that were stored to lanes, and as notes.
    pub(crate) fn logged(&self, past: &Past) -> u64 {
        self.undo.logged() + past.logged
    }

    /// The result of a change, or of a change without effect, once all it saw, up to `seen`, is
    /// settled. No thread waits for the disk while it holds the lock of `guard`.
    pub(crate) fn answer<S, T>(&self, guard: RwLockWriteGuard<'_, S>, seen: Option<Mark>, value: T) -> Result<T> {
        drop(guard);
        self.settle(seen)?;
        Ok(value)
    }

    /// HKV-3.
    pub(crate) fn settle(&self, mark: Option<Mark>) -> Result<()> {
        // before anything is answered: a chain that ends early finds no key
        self.object().require_readable()?;
        Ok(self.media().settle_unless("hkv-answer-unsettled", mark)?)
    }
}

/// The fingerprint of objects that hold such a store: the layout in a number.
pub(crate) fn fingerprint(magic: [u8; 8]) -> u64 {
    u64::from_le_bytes(magic)
}

/// Notes words, which share a fence and lines of the lane, and stores to them.
pub(crate) fn set_all(tx: &Tx<'_>, words: &[(u64, u64)]) -> Result<()> {
    tx.name_ranges(&words.iter().map(|&(at, _)| (at, 8)).collect::<Vec<_>>())?;
    Ok(words.iter().try_for_each(|&(at, word)| tx.store(at, word))?)
}
