//! [`Base`]: the common part of every store of this crate: an object, the engine that changes it,
//! and its root.

use crate::layout::{FORMAT, RootHead};
use crate::log_record::LogState;
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_media::lock_order::RankedWriteGuard;
use everbyte_media::{Checked, Damage, ErrorInfo, ErrorKind, Format, Media, Unsettled};
use everbyte_store::{Claim, Engine, Object, ObjectOptions, Store};
use everbyte_tx::{Tx, Undo};
use std::cmp::Ordering;

pub(crate) struct Base {
    pub undo: Undo,
    /// Offset of the root.
    pub root: u64,
    /// Makes a second opening an error.
    _claim: Claim,
}

impl Base {
    /// Creates an object for a store whose root begins with `magic`; `format` makes an empty store
    /// and sets the root word.
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

    /// Opens an object with a store whose root begins with `magic`; undoes or finishes the change
    /// that a crash cut off. The root has `len` bytes.
    pub(crate) fn open(object: Object, magic: [u8; 8], len: usize) -> Result<(Base, RootHead, LogState)> {
        object.require_engine(Engine::Hkv)?;
        object.require_fingerprint(fingerprint(magic))?;
        let (root, claim) = (object.root(), object.claim()?);
        let base = Base { undo: Undo::open(object)?, root, _claim: claim };
        // before log records are read: another format may have other ones
        let head = base.head(magic, len)?;
        let log = LogState::new(base.recover()?);
        Ok((base, head, log))
    }

    /// The head of the root, which never changes.
    fn head(&self, magic: [u8; 8], len: usize) -> Result<RootHead> {
        let root = self.root;
        if !root.is_multiple_of(64) || !self.heap().may_hold_blocks(root, len as u64) {
            return Err(self.damaged(self.object().root_at().get(), "the root word leads to no store"));
        }
        let head: RootHead = self.media().get(root);
        if head.magic != magic || !head.checksum_agrees() {
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

    /// Bytes that were stored to lanes, and as log records.
    pub(crate) fn logged(&self, log: &LogState) -> u64 {
        self.undo.logged() + log.logged
    }

    /// The result of a change, or of a change that had nothing to do, once every commit up to
    /// `seen` is settled. The lock that `guard` holds is released before the wait for the disk.
    pub(crate) fn answer<S, T>(&self, guard: RankedWriteGuard<'_, S>, seen: Unsettled<()>, value: T) -> Result<T> {
        drop(guard);
        self.settle(seen)?;
        Ok(value)
    }

    /// Settles commits before their answer (HKV-3).
    pub(crate) fn settle(&self, commits: Unsettled<()>) -> Result<()> {
        self.require_readable()?;
        Ok(commits.settle_unless(self.media(), "hkv-answer-unsettled")?)
    }

    /// Refuses an answer over a page that could not be read: damage that ends a chain early would
    /// hide a key.
    pub(crate) fn require_readable(&self) -> Result<()> {
        Ok(self.object().require_readable()?)
    }
}

/// The fingerprint of objects with such a store: the layout as a number.
pub(crate) fn fingerprint(magic: [u8; 8]) -> u64 {
    u64::from_le_bytes(magic)
}

/// The result of a change that was made, after its structure was tidied: a failure of that is not
/// the change's, unless it says that the outcome of the change is unknown.
pub(crate) fn after_change(tidied: Result<()>) -> Result<()> {
    match tidied {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned) => Err(error),
        _ => Ok(()),
    }
}

/// Logs words, which share a fence and lines of the lane, and stores to them.
pub(crate) fn set_all(tx: &Tx<'_>, words: &[(u64, u64)]) -> Result<()> {
    tx.name_ranges(&words.iter().map(|&(at, _)| (at, 8)).collect::<Vec<_>>())?;
    Ok(words.iter().try_for_each(|&(at, word)| tx.store(at, word))?)
}
