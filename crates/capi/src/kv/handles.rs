//! The numbers that stand for open stores, tables, views and cursors.
//!
//! Invariant CKV-2: a number is given once in a process. So one that was closed never stands for
//! what was opened later.
//!
//! Threads: any; the lock of the list is held for a look, never during a call of the store.

use crate::fault::{Fault, Result};
use crate::process;
use everbyte_kv::raw::Raw;
use everbyte_kv::{Kv, KvTable, Range, Snapshot, TableSnapshot};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An open thing.
#[derive(Clone)]
pub(super) enum Open {
    Kv(Kv),
    Table(Kv, KvTable),
    View(Kv, Snapshot),
    TableView(Kv, TableSnapshot),
    Cursor(Kv, Arc<Mutex<Held>>),
}

/// A cursor, and the entry that its caller looks at.
pub(super) struct Held {
    pub range: Range<'static>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);
static OPEN: Mutex<BTreeMap<u64, Open>> = Mutex::new(BTreeMap::new());

pub(super) fn bad(handle: u64) -> Fault {
    Fault::new(libc::EBADF, format!("{handle} is no open handle of this kind"))
}

/// A number that was not given before.
pub(super) fn number() -> u64 {
    NEXT.fetch_add(1, Relaxed)
}

pub(super) fn add(open: Open) -> Result<u64> {
    process::at_close(close_all);
    let number = number();
    OPEN.lock().insert(number, open);
    Ok(number)
}

/// The open thing of a number; refused in a child of fork.
pub(super) fn get(handle: u64) -> Result<Open> {
    let open = OPEN.lock().get(&handle).cloned().ok_or_else(|| bad(handle))?;
    let (Open::Kv(kv) | Open::Table(kv, _) | Open::View(kv, _) | Open::TableView(kv, _) | Open::Cursor(kv, _)) = &open;
    kv.store().require_here()?;
    Ok(open)
}

pub(super) fn kv(handle: u64) -> Result<Kv> {
    if let Open::Kv(kv) = get(handle)? { Ok(kv) } else { Err(bad(handle)) }
}

pub(super) fn table(handle: u64) -> Result<KvTable> {
    if let Open::Table(_, table) = get(handle)? { Ok(table) } else { Err(bad(handle)) }
}

pub(super) fn close(handle: u64) -> Result<()> {
    get(handle)?;
    let open = OPEN.lock().remove(&handle).ok_or_else(|| bad(handle))?;
    drop(open); // behind the lock: the last one closes the store
    Ok(())
}

/// The process ends, and its store is closed.
fn close_all() {
    let open = std::mem::take(&mut *OPEN.lock());
    drop(open);
}
