//! [`Mapped`]: an object that this process has mapped, to change it or to read it.
//!
//! A program may not store to the pages of an object that is mapped to be read: the system kills a
//! process that does. The prime page stays writable, since the library keeps its locks there, and
//! no chunk lies in it. Recovery finishes the work of a dead process before the object is mapped,
//! and when the object is entered after a death; the pages are writable meanwhile.
//!
//! Invariants
//!   CAPI-1  An object is opened once and stays open while it is mapped: pointers into it stay
//!           valid.
//!   CAPI-2  An object is neither unmapped nor deleted while a transaction on it runs.
//!   CAPI-3  Nothing of this process allocates, frees or begins a transaction in an object that is
//!           mapped to be read.
//!
//! Threads: any.

use crate::fault::{Fault, Result};
use everbyte_store::{Claim, Exclusive, Object, PRIME_LEN, Since, Want};
use everbyte_tx::Undo;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A mapped object.
pub(crate) struct Mapped {
    pub undo: Undo,
    base: u64,
    want: Want,
    /// Running transactions, and locks by `heapo_lock` (CAPI-2).
    pub running: AtomicUsize,
    _claim: Claim,
}

impl Mapped {
    /// Maps an object of the store that lies at `base`; recovers it.
    pub(crate) fn new(object: Object, base: u64, want: Want) -> Result<Arc<Mapped>> {
        let claim = object.claim()?; // CAPI-1
        let mapped = Mapped { undo: Undo::open(object)?, base, want, running: AtomicUsize::new(0), _claim: claim };
        if want == Want::Read {
            mapped.guard(true)?;
        }
        Ok(Arc::new(mapped))
    }

    fn object(&self) -> &Object {
        self.undo.heap().object()
    }

    fn name(&self) -> &str {
        self.object().name()
    }

    /// Forbids stores of the program to the object, or allows them.
    fn guard(&self, guarded: bool) -> Result<()> {
        let span = self.object().span();
        let at = span.start + PRIME_LEN;
        Ok(self.undo.media().protect(at, span.end - at, (true, !guarded))?)
    }

    /// The access that the object was mapped for.
    pub(crate) fn want(&self) -> Want {
        self.want
    }

    /// Refuses an object that was mapped to be read (CAPI-3).
    pub(crate) fn require_writable(&self) -> Result<()> {
        match self.want {
            Want::Write => Ok(()),
            Want::Read => {
                let name = self.name();
                Err(Fault::new(libc::EACCES, format!("object `{name}` is mapped to be read; unmap it and map it anew")))
            }
        }
    }

    /// The lock of the object, with the engine brought up to date; `None`: the object is this
    /// process's alone.
    pub(crate) fn enter(&self) -> Result<Option<Exclusive>> {
        if self.want == Want::Write {
            return Ok(self.undo.enter()?);
        }
        let exclusive = self.object().exclusive()?;
        if exclusive.as_ref().is_some_and(|exclusive| exclusive.since() != Since::Unchanged) {
            self.guard(false)?;
            let caught_up = self.undo.enter().map(drop);
            self.guard(true)?;
            caught_up?;
        }
        Ok(exclusive)
    }

    /// The address of an offset.
    pub(crate) fn address(&self, at: u64) -> usize {
        (self.base + at) as usize
    }

    /// The offset of an address, which may be any number; callers verify that a chunk lies there.
    pub(crate) fn offset(&self, address: usize) -> Result<u64> {
        let span = self.object().span();
        let at = (address as u64).checked_sub(self.base).filter(|at| span.contains(at));
        at.ok_or_else(|| {
            let name = self.name();
            Fault::invalid(format!("{address:#x} is no pointer into object `{name}`"))
        })
    }

    /// Whether this process is a child of fork, and its parent has mapped the object.
    pub(crate) fn is_inherited(&self) -> bool {
        self.object().store().require_here().is_err()
    }

    /// Refuses an object with running transactions (CAPI-2).
    pub(crate) fn require_idle(&self) -> Result<()> {
        match self.running.load(Ordering::Acquire) {
            0 => Ok(()),
            count => {
                let name = self.name();
                Err(Fault::new(libc::EBUSY, format!("object `{name}` has {count} transaction(s) under way; end them")))
            }
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.want == Want::Read && !self.is_inherited() {
            let _ = self.guard(false); // the next mapping at these addresses may be writable
        }
    }
}
