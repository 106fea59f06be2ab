//! Copies of pools, in the same store or another.
//!
//! Pointers are offsets of the pool, so its bytes mean the same at any address; what holds offsets
//! of the store is translated: the lanes' place (`tx`) and the root word. The copy has its name
//! only when it can be opened.

use crate::transaction::open::read_header;
use crate::{Error, Result};
use everbyte_media::Damage;
use everbyte_store::{Engine, Finding, Object, Store};
use everbyte_tx::Undo;

/// Copies a typed pool of any root type, with all it holds, to the new object `name` of `store`.
/// The pool must not be open in this process. `progress` is called with the number of bytes from
/// time to time. Settled on return; a crash leaves the copy whole or absent.
///
/// # Errors
/// [`Error::NotTyped`] if `pool` is an object without a description, whose bytes only its program
/// understands; [`Error::Damaged`]; otherwise as `Store::create_object`.
pub fn copy_pool(pool: &Object, store: &Store, name: &str, progress: &mut dyn FnMut(u64)) -> Result<()> {
    pool.require_engine(Engine::Undo)?;
    let _claim = pool.claim()?;
    let undo = Undo::open(pool.clone())?; // which rolls back interrupted transactions
    let header = read_header(pool)?;
    if let Some(Finding { at, detail, .. }) = undo.check(None).into_iter().find(Finding::is_damage) {
        return Err(Error::from(Damage::at(at, detail).of_object(pool.name())));
    }
    let least = undo.heap().least_span();
    let copy = |copy: &Object| {
        undo.copy_into(copy, progress)?;
        copy.set_root((copy.prime() + header.root).get());
        copy.media().fence();
        read_header(copy)?;
        Undo::open(copy.clone())?;
        Ok::<(), Error>(())
    };
    store.create_copy(name, pool, least, copy).map(drop)
}

/// Whether an object is a typed pool, which [`copy_pool`] requires.
///
/// # Errors
/// As [`copy_pool`].
pub fn require_pool(object: &Object) -> Result<()> {
    object.require_engine(Engine::Undo)?;
    read_header(object).map(drop)
}
