//! Calls of `kv.h` on stores, tables, views, cursors and versions, and compaction.
//!
//! Safety, for all of them: as said in `kv/mod.rs`.

use super::handles::{self, Held, Open, bad};
use super::{absent, batches, border, bytes, done, fault, give, handle, name, null, store};
use crate::fault::{Fault, Result, answer};
use crate::process::Process;
use everbyte_kv::{Compacted, Kv, Range};
use parking_lot::Mutex;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ops::Bound;
use std::sync::Arc;

const CREATE: c_uint = 1;
const EXCL: c_uint = 2;

type Each = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;

fn require_flags(flags: c_uint) -> Result<()> {
    match flags {
        0 | CREATE | 3 => Ok(()),
        EXCL => Err(Fault::invalid("EB_KV_EXCL needs EB_KV_CREATE")),
        _ => Err(Fault::invalid("flags that do not exist")),
    }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_open(object: *const c_char, flags: c_uint) -> u64 {
    handle(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { name(object) }?;
        require_flags(flags)?;
        let process = Process::look_unbound()?;
        let store = process.store();
        let opened = match flags {
            0 => Kv::open(store, name),
            CREATE => Kv::open_or_create(store, name),
            _ => Kv::create(store, name),
        };
        handles::add(Open::Kv(opened.map_err(fault)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_close(handle: u64) -> c_int {
    done(|| if batches::close(handle)? { Ok(()) } else { handles::close(handle) })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_table_open(kv: u64, table: *const c_char, flags: c_uint) -> u64 {
    handle(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { name(table) }?;
        require_flags(flags)?;
        let kv = handles::kv(kv)?;
        let opened = match flags {
            0 => kv.open_table(name),
            CREATE => kv.open_or_create_table(name),
            _ => kv.create_table(name),
        };
        handles::add(Open::Table(kv.clone(), opened.map_err(fault)?))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_table_drop(kv: u64, table: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(|| handles::kv(kv)?.drop_table(unsafe { name(table) }?).map_err(fault))
}

/// # Safety
/// As said at the top of the file.
unsafe fn each_name(names: Vec<String>, each: Option<Each>, context: *mut c_void) -> Result<()> {
    let each = each.ok_or_else(|| null("a function"))?;
    for name in names {
        let name =
            CString::new(name).map_err(|_| Fault::invalid("a name with a zero byte, made by another program"))?;
        // SAFETY: the caller's promise; the name lives during the call.
        if unsafe { each(name.as_ptr(), context) } == 0 {
            break;
        }
    }
    Ok(())
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_tables(kv: u64, each: Option<Each>, context: *mut c_void) -> c_int {
    done(|| {
        let names = handles::kv(kv)?.tables().map_err(fault)?;
        // SAFETY: the caller's promise.
        unsafe { each_name(names, each, context) }
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_put(
    to: u64,
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
        match handles::get(to)? {
            Open::Kv(kv) => kv.put(key, value).map_err(fault),
            Open::Table(_, table) => table.put(key, value).map_err(fault),
            _ => Err(bad(to)),
        }
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_delete(from: u64, key: *const c_void, key_len: usize) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        let found = match handles::get(from)? {
            Open::Kv(kv) => kv.delete(key),
            Open::Table(_, table) => table.delete(key),
            _ => return Err(bad(from)),
        };
        if found.map_err(fault)? { Ok(()) } else { Err(absent()) }
    })
}

/// # Safety
/// As said at the top of the file; `value` has room for `room` bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_get(
    from: u64,
    key: *const c_void,
    key_len: usize,
    value: *mut c_void,
    room: usize,
    value_len: *mut usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len) }?;
        let found = match handles::get(from)? {
            Open::Kv(kv) => kv.get(key),
            Open::Table(_, table) => table.get(key),
            Open::View(_, view) => view.get(key),
            Open::TableView(_, view) => view.get(key),
            Open::Cursor(..) => return Err(bad(from)),
        };
        // SAFETY: the caller's promise.
        unsafe { give(found.map_err(fault)?, value, room, value_len) }
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_count(of: u64, count: *mut u64) -> c_int {
    done(|| {
        if count.is_null() {
            return Err(null("a count"));
        }
        let keys = match handles::get(of)? {
            Open::Kv(kv) => kv.len(),
            Open::Table(_, table) => table.len().map_err(fault)?,
            Open::View(_, view) => view.len(),
            Open::TableView(_, view) => view.len().map_err(fault)?,
            Open::Cursor(..) => return Err(bad(of)),
        };
        // SAFETY: the caller's promise.
        unsafe { store(count, keys) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_snapshot(kv: u64) -> u64 {
    handle(|| {
        let kv = handles::kv(kv)?;
        let view = kv.snapshot();
        handles::add(Open::View(kv, view))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_kv_view_table(view: u64, table: u64) -> u64 {
    handle(|| {
        let Open::View(kv, snapshot) = handles::get(view)? else { return Err(bad(view)) };
        let seen = snapshot.table(&handles::table(table)?).map_err(fault)?;
        handles::add(Open::TableView(kv, seen))
    })
}

/// A cursor over what `choose` makes of a view.
fn cursor(from: u64, bounds: (Bound<&[u8]>, Bound<&[u8]>), prefix: Option<&[u8]>) -> Result<u64> {
    macro_rules! of {
        ($view:expr) => {{
            let view = $view;
            match prefix {
                Some(prefix) => view.prefix(prefix),
                None => view.range::<[u8]>(bounds),
            }
        }};
    }
    let (kv, range): (Kv, Range<'static>) = match handles::get(from)? {
        Open::Kv(kv) => (kv.clone(), of!(kv.snapshot())),
        Open::Table(kv, table) => (kv, of!(table.snapshot().map_err(fault)?)),
        Open::View(kv, view) => (kv, of!(view)),
        Open::TableView(kv, view) => (kv, of!(view)),
        Open::Cursor(..) => return Err(bad(from)),
    };
    let held = Held { range, key: Vec::new(), value: Vec::new() };
    handles::add(Open::Cursor(kv, Arc::new(Mutex::new(held))))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_range(
    from: u64,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
) -> u64 {
    handle(|| {
        // SAFETY: the caller's promise.
        let low = unsafe { border(low, low_len) }?.map_or(Bound::Unbounded, Bound::Included);
        // SAFETY: as above.
        let high = unsafe { border(high, high_len) }?.map_or(Bound::Unbounded, Bound::Excluded);
        cursor(from, (low, high), None)
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_prefix(from: u64, prefix: *const c_void, prefix_len: usize) -> u64 {
    // SAFETY: the caller's promise.
    handle(|| cursor(from, (Bound::Unbounded, Bound::Unbounded), Some(unsafe { bytes(prefix, prefix_len) }?)))
}

/// Places of the caller for key and value.
struct Wanted {
    key: *mut *const c_void,
    key_len: *mut usize,
    value: *mut *const c_void,
    value_len: *mut usize,
}

/// # Safety
/// As said at the top of the file.
unsafe fn step(cursor: u64, from_end: bool, wanted: &Wanted) -> c_int {
    let moved = super::caught(|| {
        let Open::Cursor(_, held) = handles::get(cursor)? else { return Err(bad(cursor)) };
        let mut held = held.lock();
        let Held { range, key, value } = &mut *held;
        let entry = if from_end { range.next_back_ref() } else { range.next_ref() };
        let Some((its_key, its_value)) = entry.map_err(fault)? else { return Ok(false) };
        key.clear();
        key.extend_from_slice(its_key);
        value.clear();
        value.extend_from_slice(its_value);
        // SAFETY: the caller's promise, here and below. The bytes stay until the cursor moves.
        unsafe { store(wanted.key, key.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { store(wanted.key_len, key.len()) };
        // SAFETY: as above.
        unsafe { store(wanted.value, value.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { store(wanted.value_len, value.len()) };
        Ok(true)
    });
    let ended = Fault::new(0, "behind the last entry");
    answer(moved.and_then(|moved| if moved { Ok(()) } else { Err(ended) }), 0, |()| 1)
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_next(
    cursor: u64,
    key: *mut *const c_void,
    key_len: *mut usize,
    value: *mut *const c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { step(cursor, false, &Wanted { key, key_len, value, value_len }) }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_prev(
    cursor: u64,
    key: *mut *const c_void,
    key_len: *mut usize,
    value: *mut *const c_void,
    value_len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { step(cursor, true, &Wanted { key, key_len, value, value_len }) }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_version_name(kv: u64, version: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(|| handles::kv(kv)?.name_version(unsafe { name(version) }?).map(drop).map_err(fault))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_version_open(kv: u64, version: *const c_char) -> u64 {
    handle(|| {
        let kv = handles::kv(kv)?;
        // SAFETY: the caller's promise.
        let view = kv.open_version(unsafe { name(version) }?).map_err(fault)?;
        handles::add(Open::View(kv, view))
    })
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_version_remove(kv: u64, version: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(|| handles::kv(kv)?.remove_version(unsafe { name(version) }?).map_err(fault))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_version_restore(kv: u64, version: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(|| handles::kv(kv)?.restore_version(unsafe { name(version) }?).map_err(fault))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_versions(kv: u64, each: Option<Each>, context: *mut c_void) -> c_int {
    done(|| {
        let versions = handles::kv(kv)?.versions().map_err(fault)?;
        // SAFETY: the caller's promise.
        unsafe { each_name(versions.into_iter().map(|version| version.name).collect(), each, context) }
    })
}

/// `eb_kv_compacted` of `kv.h`.
#[repr(C)]
pub(crate) struct KvCompacted {
    entries: u64,
    replaced: u64,
    written: u64,
    before: u64,
    after: u64,
    trimmed: u64,
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_kv_compact(kv: u64, figures: *mut KvCompacted) -> c_int {
    done(|| {
        let Compacted { entries, replaced, written, before, after, trimmed } =
            handles::kv(kv)?.compact(&mut |_| {}).map_err(fault)?;
        // SAFETY: the caller's promise.
        unsafe { store(figures, KvCompacted { entries, replaced, written, before, after, trimmed }) };
        Ok(())
    })
}
