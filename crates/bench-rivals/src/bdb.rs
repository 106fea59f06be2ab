//! Berkeley DB 5.3 through `c/bdb.c`: a B-tree or a hash table with durable transactions, one for
//! each change. A load has one for each 500 pairs, and syncs the log at its end.

use crate::work::Access;
use crate::{Failure, KvRival, Opened, Values};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

type Handle = *mut c_void;

unsafe extern "C" {
    fn bdb_open(opened: *mut Handle, folder: *const c_char, hash: c_int) -> c_int;
    fn bdb_close(db: Handle);
    fn bdb_said(error: c_int) -> *const c_char;
    fn bdb_is_there(error: c_int) -> c_int;
    fn bdb_is_absent(error: c_int) -> c_int;
    fn bdb_is_short(error: c_int) -> c_int;
    fn bdb_is_deadlock(error: c_int) -> c_int;
    fn bdb_begin(db: Handle, txn: *mut Handle) -> c_int;
    fn bdb_put_in(db: Handle, txn: Handle, key: *const u8, key_len: u32, value: *const u8, value_len: u32) -> c_int;
    fn bdb_commit(db: Handle, txn: Handle) -> c_int;
    fn bdb_abort(txn: Handle);
    fn bdb_sync(db: Handle) -> c_int;
    fn bdb_scan(
        db: Handle,
        key: *const u8,
        key_len: u32,
        count: usize,
        take: extern "C" fn(*mut c_void, *const u8, usize),
        context: *mut c_void,
    ) -> c_int;
    fn bdb_put(db: Handle, key: *const u8, key_len: u32, value: *const u8, value_len: u32, new: c_int) -> c_int;
    fn bdb_delete(db: Handle, key: *const u8, key_len: u32) -> c_int;
    fn bdb_get(db: Handle, key: *const u8, key_len: u32, value: *mut u8, room: u32, value_len: *mut u32) -> c_int;
    fn bdb_log_bytes(db: Handle) -> u64;
}

/// An open database.
pub struct Bdb(NonNull<c_void>);

// SAFETY: environment and database are opened with DB_THREAD, for any number of threads.
unsafe impl Send for Bdb {}
// SAFETY: as above.
unsafe impl Sync for Bdb {}

impl Bdb {
    /// Opens or makes a database in an existing folder.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn open(folder: &Path, access: Access) -> Result<Option<Bdb>, Failure> {
        let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|error| Failure(error.to_string()))?;
        let mut opened = null_mut();
        // SAFETY: a place for a handle, and a string ended by zero.
        let error = unsafe { bdb_open(&mut opened, folder.as_ptr(), (access == Access::Hash).into()) };
        NonNull::new(opened).map(|db| Some(Bdb(db))).ok_or_else(|| said(error))
    }

    /// Adds a pair; `false`, and nothing happens, if the key is there.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        self.store(key, value, true)
    }

    /// Stores a value under a key that may be there.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.store(key, value, false).map(drop)
    }

    fn store(&self, key: &[u8], value: &[u8], new: bool) -> Result<bool, Failure> {
        let (key_at, value_at) = (key.as_ptr(), value.as_ptr());
        // SAFETY: an open database; the slices live through the call, which copies them.
        let error = unsafe { bdb_put(self.0.as_ptr(), key_at, len(key)?, value_at, len(value)?, new.into()) };
        // SAFETY: takes a number alone.
        done(error, unsafe { bdb_is_there(error) })
    }

    /// Takes a key away; `false` if it is not there.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Failure> {
        // SAFETY: an open database; the key lives through the call.
        let error = unsafe { bdb_delete(self.0.as_ptr(), key.as_ptr(), len(key)?) };
        // SAFETY: takes a number alone.
        done(error, unsafe { bdb_is_absent(error) })
    }

    /// Replaces the contents of `value` by the value of a key; `false`, and nothing in it, if it is
    /// not there.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        value.clear();
        loop {
            let (room, at) = (u32::try_from(value.capacity()).unwrap_or(u32::MAX), value.as_mut_ptr());
            let mut found = 0;
            // SAFETY: an open database; the key lives through the call, and so does the room, whose
            // length is told.
            let error = unsafe { bdb_get(self.0.as_ptr(), key.as_ptr(), len(key)?, at, room, &mut found) };
            // SAFETY: takes a number alone.
            if unsafe { bdb_is_short(error) } != 0 && found > room {
                value.reserve(found as usize);
                continue;
            }
            // SAFETY: takes a number alone.
            let is_there = done(error, unsafe { bdb_is_absent(error) })?;
            if is_there {
                // SAFETY: the call wrote so many bytes, at most the capacity.
                unsafe { value.set_len(found as usize) };
            }
            return Ok(is_there);
        }
    }

    /// Bytes that were appended to the log since it was opened.
    pub fn log_bytes(&self) -> u64 {
        // SAFETY: an open database.
        unsafe { bdb_log_bytes(self.0.as_ptr()) }
    }
}

/// Opens the B-tree as a rival of the ordered stores.
pub(crate) fn open(folder: &Path) -> Opened {
    match Bdb::open(folder, Access::Btree)? {
        Some(db) => Ok(Box::new(db)),
        None => Err(Failure("Berkeley DB is not in this build".into())),
    }
}

/// Puts of one transaction of `load`: each locks a page until it ends.
const BATCH: usize = 500;

/// The values of a scan as they come.
struct Taken<'s, 'v> {
    pairs: usize,
    bytes: usize,
    values: &'s mut Values<'v>,
}

extern "C" fn take(context: *mut c_void, value: *const u8, len: usize) {
    // SAFETY: `scan` lends its own `Taken` for the length of the call, to one thread.
    let taken = unsafe { &mut *context.cast::<Taken<'_, '_>>() };
    taken.pairs += 1;
    taken.bytes += len;
    if let Some(values) = taken.values
        && len > 0
    {
        // SAFETY: the cursor lends `len` bytes until it moves.
        values.extend_from_slice(unsafe { std::slice::from_raw_parts(value, len) });
    }
}

impl KvRival for Bdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Bdb::put(self, key, value)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        Bdb::get(self, key, value)
    }

    /// A scan that lost its lock to a writer starts again.
    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        let before = values.as_ref().map_or(0, |values| values.len());
        loop {
            let mut taken = Taken { pairs: 0, bytes: 0, values: &mut values };
            let context = (&raw mut taken).cast();
            // SAFETY: an open database; key and context live through the call, and `take` knows the
            // context's type.
            let error = unsafe { bdb_scan(self.0.as_ptr(), key.as_ptr(), len(key)?, count, take, context) };
            let sum = (taken.pairs, taken.bytes);
            // SAFETY: takes a number alone.
            if unsafe { bdb_is_deadlock(error) } == 0 {
                return done(error, 0).map(|_| sum);
            }
            if let Some(values) = &mut values {
                values.truncate(before);
            }
        }
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        let db = self.0.as_ptr();
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            let mut txn = null_mut();
            // SAFETY: an open database, and a place for a handle.
            done(unsafe { bdb_begin(db, &mut txn) }, 0)?;
            for (key, value) in pairs.by_ref().take(BATCH) {
                let (key_at, value_at) = (key.as_ptr(), value.as_ptr());
                let lens = len(key).and_then(|key| Ok((key, len(value)?)));
                let put = lens.and_then(|(key_len, value_len)| {
                    // SAFETY: a live transaction of this database; the slices live through the
                    // call, which copies them.
                    done(unsafe { bdb_put_in(db, txn, key_at, key_len, value_at, value_len) }, 0)
                });
                if let Err(failure) = put {
                    // SAFETY: a live transaction, which this ends.
                    unsafe { bdb_abort(txn) };
                    return Err(failure);
                }
            }
            // SAFETY: a live transaction of this database, which this ends.
            done(unsafe { bdb_commit(db, txn) }, 0)?;
        }
        // SAFETY: an open database.
        done(unsafe { bdb_sync(db) }, 0).map(drop)
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed once.
        unsafe { bdb_close(self.0.as_ptr()) };
    }
}

fn len(bytes: &[u8]) -> Result<u32, Failure> {
    u32::try_from(bytes.len()).map_err(|error| Failure(error.to_string()))
}

/// `false` for the error that `otherwise` says is none.
fn done(error: c_int, otherwise: c_int) -> Result<bool, Failure> {
    match (error, otherwise) {
        (0, _) => Ok(true),
        (_, 0) => Err(said(error)),
        _ => Ok(false),
    }
}

fn said(error: c_int) -> Failure {
    // SAFETY: takes a number alone; the library always has a string.
    let text = unsafe { bdb_said(error) };
    // SAFETY: ended by zero, and not changed before it is copied.
    let text = unsafe { CStr::from_ptr(text) };
    Failure(format!("Berkeley DB: {}", text.to_string_lossy()))
}
