//! Berkeley DB 5.3 through `c/bdb.c`: a B-tree or a hash table with durable transactions, one for
//! each change.

use crate::Failure;
use crate::work::Access;
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

    /// Copies the value of a key into `value`, which must have room, and cuts that to its length;
    /// `false` if it is not there.
    ///
    /// # Errors
    /// Berkeley DB's own words.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let room = value.len();
        let mut found = 0;
        // SAFETY: an open database; the key lives through the call, and so does the room, whose
        // length is told.
        let error =
            unsafe { bdb_get(self.0.as_ptr(), key.as_ptr(), len(key)?, value.as_mut_ptr(), len(value)?, &mut found) };
        // SAFETY: takes a number alone.
        let is_there = done(error, unsafe { bdb_is_absent(error) })?;
        value.truncate(if is_there { (found as usize).min(room) } else { 0 });
        Ok(is_there)
    }

    /// Bytes that were appended to the log since it was opened.
    pub fn log_bytes(&self) -> u64 {
        // SAFETY: an open database.
        unsafe { bdb_log_bytes(self.0.as_ptr()) }
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
