//! RocksDB through its C interface, declared here. Default options; a put is a synced write.

use crate::{Failure, KvRival, Opened, Values};
use std::ffi::{CStr, CString, c_char, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

type Handle = *mut c_void;

unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(options: Handle);
    fn rocksdb_options_set_create_if_missing(options: Handle, yes: c_uchar);
    fn rocksdb_open(options: Handle, name: *const c_char, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(options: Handle);
    fn rocksdb_writeoptions_set_sync(options: Handle, yes: c_uchar);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_put(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_pinnableslice_value(slice: Handle, len: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(slice: Handle);
    fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_iter_seek(iterator: Handle, key: *const u8, len: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> *const u8;
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_writebatch_clear(batch: Handle);
    fn rocksdb_writebatch_put(batch: Handle, key: *const u8, key_len: usize, value: *const u8, value_len: usize);
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_free(memory: *mut c_void);
}

struct Rocks {
    db: Handle,
    synced: Handle,
    read: Handle,
}

// SAFETY: the manual allows any number of threads on one open database and on unchanging option
// objects.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

/// Turns RocksDB's error string into ours and frees it.
fn checked(error: *mut c_char) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB hands out a string of its own, ended by zero.
    let text = format!("rocksdb: {}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    // SAFETY: it is ours to free, once, with RocksDB's own function; the text above is a copy.
    unsafe { rocksdb_free(error.cast()) };
    Err(Failure(text))
}

pub(crate) fn open(folder: &Path) -> Opened {
    let name = CString::new(folder.join("rocks").as_os_str().as_bytes()).map_err(|error| Failure(error.to_string()))?;
    let mut error = null_mut();
    // SAFETY: creates an object without arguments.
    let options = unsafe { rocksdb_options_create() };
    // SAFETY: a live options object.
    unsafe { rocksdb_options_set_create_if_missing(options, 1) };
    // SAFETY: live options, a string ended by zero, a place for an error.
    let db = unsafe { rocksdb_open(options, name.as_ptr(), &mut error) };
    // SAFETY: the database keeps a copy of its options.
    unsafe { rocksdb_options_destroy(options) };
    checked(error)?;
    // SAFETY: creates an object without arguments.
    let synced = unsafe { rocksdb_writeoptions_create() };
    // SAFETY: a live options object.
    unsafe { rocksdb_writeoptions_set_sync(synced, 1) };
    // SAFETY: creates an object without arguments.
    let read = unsafe { rocksdb_readoptions_create() };
    Ok(Box::new(Rocks { db, synced, read }))
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: created in `open`, destroyed once.
        unsafe { rocksdb_readoptions_destroy(self.read) };
        // SAFETY: as above.
        unsafe { rocksdb_writeoptions_destroy(self.synced) };
        // SAFETY: as above; no iterator outlives a call of ours.
        unsafe { rocksdb_close(self.db) };
    }
}

impl KvRival for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut error = null_mut();
        let (key_at, value_at) = (key.as_ptr(), value.as_ptr());
        // SAFETY: live handles; the slices live through the call, which copies them.
        unsafe { rocksdb_put(self.db, self.synced, key_at, key.len(), value_at, value.len(), &mut error) };
        checked(error)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut error = null_mut();
        value.clear();
        // SAFETY: live handles; the key lives through the call.
        let slice = unsafe { rocksdb_get_pinned(self.db, self.read, key.as_ptr(), key.len(), &mut error) };
        checked(error)?;
        if slice.is_null() {
            return Ok(false);
        }
        let mut len = 0;
        // SAFETY: a live slice and a place for its length.
        let bytes = unsafe { rocksdb_pinnableslice_value(slice, &mut len) };
        // SAFETY: RocksDB keeps `len` bytes there until the slice is destroyed, and nothing writes
        // to them.
        value.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, len) });
        // SAFETY: destroyed once; the bytes have been copied.
        unsafe { rocksdb_pinnableslice_destroy(slice) };
        Ok(true)
    }

    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        // SAFETY: live handles.
        let iterator = unsafe { rocksdb_create_iterator(self.db, self.read) };
        // SAFETY: a live iterator; the key lives through the call.
        unsafe { rocksdb_iter_seek(iterator, key.as_ptr(), key.len()) };
        let mut sum = (0, 0);
        // SAFETY: a live iterator.
        while sum.0 < count && unsafe { rocksdb_iter_valid(iterator) } != 0 {
            let mut len = 0;
            // SAFETY: a live iterator that stands on a pair.
            let value = unsafe { rocksdb_iter_value(iterator, &mut len) };
            sum = (sum.0 + 1, sum.1 + len);
            if let Some(values) = &mut values {
                // SAFETY: the iterator lends `len` bytes until it moves.
                values.extend_from_slice(unsafe { std::slice::from_raw_parts(value.cast(), len) });
            }
            // SAFETY: as above.
            unsafe { rocksdb_iter_next(iterator) };
        }
        // SAFETY: destroyed once.
        unsafe { rocksdb_iter_destroy(iterator) };
        Ok(sum)
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        // SAFETY: creates an object without arguments.
        let batch = unsafe { rocksdb_writebatch_create() };
        let mut error: *mut c_char = null_mut();
        let mut pending = 0;
        let mut more = true;
        while more && error.is_null() {
            let pair = pairs.next();
            more = pair.is_some();
            if let Some((key, value)) = pair {
                // SAFETY: a live batch; the slices live through the call, which copies them.
                unsafe { rocksdb_writebatch_put(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
                pending += 1;
            }
            if pending == 10_000 || !more {
                // SAFETY: live handles.
                unsafe { rocksdb_write(self.db, self.synced, batch, &mut error) };
                // SAFETY: a live batch.
                unsafe { rocksdb_writebatch_clear(batch) };
                pending = 0;
            }
        }
        // SAFETY: destroyed once.
        unsafe { rocksdb_writebatch_destroy(batch) };
        checked(error)
    }
}
