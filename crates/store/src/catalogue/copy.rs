//! Copies of objects, in this store or another.
//!
//! The store copies bytes: each lies as far behind the prime page as in the original. The engine
//! alone knows which of them are addresses of the store; it translates those in `init`, before the
//! copy has its name.
//!
//! Invariants
//!   STORE-11  A copy's record names the original, so that a merge that was interrupted recognises
//!             its own copies.

use super::create::NewObject;
use super::record::Origin;
use crate::{Error, HEADER_LEN, Object, Result, Store};

impl Origin {
    /// The origin of copies of `object`.
    pub fn of(object: &Object) -> Origin {
        Origin { store: object.store().identity(), object: object.id() }
    }
}

impl Store {
    /// Creates an object like `of`: with its engine and fingerprint, and with the largest free span
    /// of at least `least` bytes and at most its own. `init` fills it: see [`Object::take_over`].
    /// Otherwise as [`Store::create_object`].
    ///
    /// # Errors
    /// As [`Store::create_object`].
    pub fn create_copy<E: From<Error>>(
        &self,
        name: &str,
        of: &Object,
        least: u64,
        init: impl FnOnce(&Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let (engine, fingerprint, span) = (of.engine(), of.fingerprint(), of.span());
        let most = span.end - span.start;
        let (span, origin) = (Some(least.min(most)..=most), Some(Origin::of(of)));
        let new = NewObject { engine, fingerprint, span, origin, small: false };
        self.make(name, new, init)
    }
}

impl Object {
    /// Takes over every byte that `from` has behind its header, and its holes. For `init` of
    /// [`Store::create_copy`]: the former content of this object is lost, and a crash before its
    /// name is published leaves nothing. `progress` receives the bytes of each part. No thread may
    /// change `from` meanwhile.
    ///
    /// # Errors
    /// [`Error::SpanFull`], [`Error::OutOfSpace`], [`Error::Damaged`].
    pub fn take_over(&self, from: &Object, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let moved = |at: u64| at - from.prime().get() + self.prime().get();
        self.grow(moved(from.backed().get()).saturating_sub(self.backed().get()))?;
        for hole in from.holes() {
            self.release(moved(hole.start)..moved(hole.end))?;
        }
        let (source, media) = (from.media(), self.media());
        let mut buffer = [0; PAGE as usize];
        for run in from.store().space().bitmap().set_runs(source, from.prime().get()..from.backed().get()) {
            // Of a small object the file may hold less than its cluster.
            for page in run.step_by(PAGE as usize).take_while(|&page| source.holds(page, PAGE)) {
                let at = if page == from.prime().get() { page + HEADER_LEN } else { page };
                let bytes = &mut buffer[..(page + PAGE - at) as usize];
                source.read(at, bytes);
                // A new page reads as zeros.
                if bytes.iter().any(|&byte| byte != 0) {
                    let _section = media.section();
                    media.copy_nt_unless("store-copy-unflushed", moved(at), bytes);
                }
                progress(PAGE);
            }
        }
        Ok(())
    }
}

const PAGE: u64 = 4096;
