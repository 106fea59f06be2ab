//! Calls of `kv.h` on batches. A batch belongs to its thread; a thread that ends gives its batches
//! up, and begins none from then on.
//!
//! Safety, for all of them: as said in `kv/mod.rs`.

use super::handles::{self, bad};
use super::{absent, border, bytes, caught, done, fault, give, handle, null, own_batch, store};
use crate::fault::{Fault, Result};
use everbyte_kv::raw::Raw;
use everbyte_kv::{Batch, BulkLoad, Kv, Savepoint};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::ptr::NonNull;

/// A batch, and the store that it borrows.
struct HeldBatch {
    /// The handle of the store.
    of: u64,
    /// Dropped, or taken, before `kv`.
    batch: ManuallyDrop<Batch<'static>>,
    /// From a box, which nothing else leads to.
    kv: NonNull<Kv>,
    savepoints: Vec<Savepoint>,
}

impl HeldBatch {
    fn begin(of: u64, kv: Kv) -> HeldBatch {
        let kv = NonNull::from(Box::leak(Box::new(kv)));
        // SAFETY: alive until `Drop`, which ends the batch first; no mutable reference exists.
        let lent: &'static Kv = unsafe { kv.as_ref() };
        HeldBatch { of, batch: ManuallyDrop::new(lent.batch()), kv, savepoints: Vec::new() }
    }

    /// Commits and settles; the batch is over in any case.
    fn commit(self) -> Result<()> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: taken once: `held` is not dropped.
        let batch = unsafe { ManuallyDrop::take(&mut held.batch) };
        let commit = batch.commit();
        // SAFETY: made by `Box::leak`, and the batch that borrowed it is gone.
        let kv = unsafe { Box::from_raw(held.kv.as_ptr()) };
        drop(std::mem::take(&mut held.savepoints));
        kv.settle(commit.map_err(fault)?).map_err(fault)
    }
}

impl Drop for HeldBatch {
    fn drop(&mut self) {
        // SAFETY: alive: see `begin`.
        let kv = unsafe { self.kv.as_ref() };
        if kv.store().require_here().is_err() {
            // The batch of the parent of this process, over bytes that are not mapped here.
            // SAFETY: taken once: `drop` ends here.
            let batch = Box::new(ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.batch) }));
            LEFT.lock().extend([self.kv.as_ptr() as usize, Box::into_raw(batch) as usize]);
            return;
        }
        // SAFETY: dropped once, here; `commit` takes it and forgets the rest.
        unsafe { ManuallyDrop::drop(&mut self.batch) };
        // SAFETY: made by `Box::leak`, and the batch that borrowed it is gone.
        drop(unsafe { Box::from_raw(self.kv.as_ptr()) });
    }
}

/// Addresses of stores and batches that a child of fork has left alone: leak checkers find them.
static LEFT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

thread_local! {
    static BATCHES: RefCell<BTreeMap<u64, HeldBatch>> = const { RefCell::new(BTreeMap::new()) };
    /// The stores whose batches loads have taken out of that list, the innermost load last.
    static LOADING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The batches of this thread; `None` while it ends.
fn batches<T>(look: impl FnOnce(&mut BTreeMap<u64, HeldBatch>) -> T) -> Option<T> {
    BATCHES.try_with(|batches| look(&mut batches.borrow_mut())).ok()
}

/// Takes a batch out of the list.
fn take(batch: u64) -> Result<HeldBatch> {
    batches(|batches| batches.remove(&batch)).flatten().ok_or_else(|| bad(batch))
}

fn with<T>(batch: u64, call: impl FnOnce(&mut HeldBatch) -> Result<T>) -> Result<T> {
    let called = batches(|batches| {
        let held = batches.get_mut(&batch).ok_or_else(|| bad(batch))?;
        // SAFETY: alive: see `begin`.
        unsafe { held.kv.as_ref() }.store().require_here()?;
        call(held)
    });
    called.unwrap_or_else(|| Err(bad(batch)))
}

/// Gives a batch up; `false` if this thread has none of this number.
pub(super) fn close(batch: u64) -> Result<bool> {
    let known = batches(|batches| batches.contains_key(&batch)).unwrap_or(false);
    if known {
        with(batch, |_| Ok(()))?;
        drop(take(batch)?);
    }
    Ok(known)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_begin(kv: u64) -> u64 {
    handle(|| {
        let open = handles::kv(kv)?;
        let has_batch = batches(|batches| batches.values().any(|held| held.of == kv)).ok_or_else(Fault::ending)?;
        if has_batch || LOADING.with_borrow(|loading| loading.contains(&kv)) {
            return Err(own_batch());
        }
        let number = handles::number();
        let held = HeldBatch::begin(kv, open);
        batches(|batches| batches.insert(number, held));
        Ok(number)
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_batch_put(
    batch: u64,
    table: u64,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        let value = unsafe { bytes(value, value_len) }?;
        with(batch, |held| match table {
            0 => held.batch.put(key, value).map(drop).map_err(fault),
            table => {
                let table = handles::table(table)?;
                let mut table = held.batch.table(&table).map_err(fault)?;
                table.put(key, value).map(drop).map_err(fault)
            }
        })
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_batch_delete(
    batch: u64,
    table: u64,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        let found = with(batch, |held| match table {
            0 => held.batch.delete(key).map_err(fault),
            table => held.batch.table(&handles::table(table)?).map_err(fault)?.delete(key).map_err(fault),
        })?;
        if found { Ok(()) } else { Err(absent()) }
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_batch_delete_range(
    batch: u64,
    table: u64,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    count: *mut u64,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let low = unsafe { border(low, low_len) }?.map_or(Bound::Unbounded, Bound::Included);
        // SAFETY: as above.
        let high = unsafe { border(high, high_len) }?.map_or(Bound::Unbounded, Bound::Excluded);
        let deleted = with(batch, |held| match table {
            0 => held.batch.delete_range::<[u8]>((low, high)).map_err(fault),
            table => {
                let table = handles::table(table)?;
                held.batch.table(&table).map_err(fault)?.delete_range::<[u8]>((low, high)).map_err(fault)
            }
        })?;
        // SAFETY: the caller's promise.
        unsafe { store(count, deleted) };
        Ok(())
    })
}

/// The next entry of a load.
type Source =
    unsafe extern "C" fn(*mut c_void, *mut *const c_void, *mut usize, *mut *const c_void, *mut usize) -> c_int;

/// # Safety
/// As said at the top of the file; the pointers that `next` hands out are good for their lengths
/// until it is called again.
unsafe fn fill(mut load: BulkLoad<'_, '_>, next: Source, context: *mut c_void) -> Result<u64> {
    loop {
        let (mut key, mut value) = (std::ptr::null(), std::ptr::null());
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the caller's promise; the results are alive during the call.
        if unsafe { next(context, &raw mut key, &raw mut key_len, &raw mut value, &raw mut value_len) } == 0 {
            return load.finish().map_err(fault);
        }
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        let value = unsafe { bytes(value, value_len) }?;
        load.push(key, value).map_err(fault)?;
    }
}

/// # Safety
/// As said at the top of the file, and at [`fill`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_batch_load(
    batch: u64,
    table: u64,
    next: Option<Source>,
    context: *mut c_void,
    count: *mut u64,
) -> c_int {
    done(|| {
        let next = next.ok_or_else(|| null("a function"))?;
        with(batch, |_| Ok(()))?;
        let table = if table == 0 { None } else { Some(handles::table(table)?) };
        // Out of the list meanwhile: `next` may call this library.
        let mut held = take(batch)?;
        LOADING.with_borrow_mut(|loading| loading.push(held.of));
        let loaded = caught(|| match &table {
            // SAFETY: the caller's promise.
            None => unsafe { fill(held.batch.begin_load().map_err(fault)?, next, context) },
            Some(table) => {
                let mut table = held.batch.table(table).map_err(fault)?;
                // SAFETY: as above.
                unsafe { fill(table.begin_load().map_err(fault)?, next, context) }
            }
        });
        LOADING.with_borrow_mut(Vec::pop);
        batches(|batches| batches.insert(batch, held));
        // SAFETY: the caller's promise.
        unsafe { store(count, loaded?) };
        Ok(())
    })
}

/// # Safety
/// As said at the top of the file; `value` has room for `room` bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_batch_get(
    batch: u64,
    table: u64,
    key: *const c_void,
    key_len: usize,
    value: *mut c_void,
    room: usize,
    value_len: *mut usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        let found = with(batch, |held| match table {
            0 => held.batch.get(key).map_err(fault),
            table => held.batch.table(&handles::table(table)?).map_err(fault)?.get(key).map_err(fault),
        })?;
        // SAFETY: the caller's promise.
        unsafe { give(found, value, room, value_len) }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_savepoint(batch: u64) -> u64 {
    handle(|| {
        with(batch, |held| {
            held.savepoints.push(held.batch.savepoint().map_err(fault)?);
            Ok(held.savepoints.len() as u64)
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_roll_back(batch: u64, savepoint: u64) -> c_int {
    done(|| {
        with(batch, |held| {
            let index = savepoint.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            let found = index.and_then(|index| held.savepoints.get(index)).copied();
            let found = found.ok_or_else(|| Fault::invalid("no savepoint of this batch"))?;
            held.batch.roll_back(found).map_err(fault)?;
            held.savepoints.truncate(savepoint as usize);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_commit(batch: u64) -> c_int {
    done(|| {
        with(batch, |_| Ok(()))?;
        take(batch)?.commit()
    })
}
