//! libpmemobj 1.12: undo transactions over a pool on tmpfs, as its manual does them.
//!
//! The process must run with `PMEM_IS_PMEM_FORCE=1` from its start (the library reads it while it
//! is loaded): without it a pool on tmpfs is flushed with msync, which would not be a fair fight.

use crate::Failure;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool: u64,
    offset: u64,
}

unsafe extern "C" {
    fn pmemobj_create(path: *const c_char, layout: *const c_char, size: usize, mode: u32) -> *mut c_void;
    fn pmemobj_close(pool: *mut c_void);
    fn pmemobj_root(pool: *mut c_void, size: usize) -> Oid;
    fn pmemobj_errormsg() -> *const c_char;
    fn pmemobj_tx_begin(pool: *mut c_void, env: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range_direct(at: *const c_void, size: usize) -> c_int;
    fn pmemobj_tx_alloc(size: usize, kind: u64) -> Oid;
    fn pmemobj_tx_free(oid: Oid) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
}

/// Bytes of the root object.
const ROOT: usize = 1 << 20;

/// A pool and its root object. Threads may run transactions at once, on different lines.
pub struct Pmemobj {
    pub(crate) pool: *mut c_void,
    root: *mut u64,
}

// SAFETY: libpmemobj allows transactions of many threads on one pool; the root is written through
// it by line.
unsafe impl Send for Pmemobj {}
// SAFETY: as above; the methods say which lines they write.
unsafe impl Sync for Pmemobj {}

impl Pmemobj {
    /// Creates a pool of `size` bytes at `path`, which does not exist.
    ///
    /// # Errors
    /// The library's own words.
    pub fn create(path: &Path, size: usize) -> Result<Option<Pmemobj>, Failure> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| Failure(error.to_string()))?;
        // SAFETY: two strings ended by zero.
        let pool = unsafe { pmemobj_create(name.as_ptr(), c"bench".as_ptr(), size, 0o600) };
        if pool.is_null() {
            return Err(said());
        }
        // SAFETY: an open pool.
        let oid = unsafe { pmemobj_root(pool, ROOT) };
        if oid.offset == 0 {
            return Err(said());
        }
        // A pool handle is the pool's first byte, as the library's own inline `pmemobj_direct` has
        // it.
        let root = pool.wrapping_byte_add(oid.offset as usize).cast();
        Ok(Some(Pmemobj { pool, root }))
    }

    fn transaction(&self, body: impl FnOnce()) {
        // SAFETY: an open pool; without a jump buffer failures are returned. 0 is TX_PARAM_NONE and
        // ends the list.
        let begun = unsafe { pmemobj_tx_begin(self.pool, null_mut(), 0 as c_int) };
        assert_eq!(begun, 0, "libpmemobj refused a transaction");
        body();
        // SAFETY: inside a transaction of this thread.
        unsafe { pmemobj_tx_commit() };
        // SAFETY: as above.
        let ended = unsafe { pmemobj_tx_end() };
        assert_eq!(ended, 0, "libpmemobj failed a transaction");
    }

    /// Word `index` of the root object.
    fn word(&self, index: usize) -> *mut u64 {
        assert!(index < ROOT / 8, "the root object has {} words", ROOT / 8);
        self.root.wrapping_add(index)
    }

    /// Runs `count` empty transactions.
    pub fn empty(&self, count: u64) {
        (0..count).for_each(|_| self.transaction(|| ()));
    }

    /// Runs `count` transactions; each logs `ranges` ranges of `len` bytes on as many lines, from
    /// line `line` on, and stores the first word of each. Other threads stay off these lines.
    pub fn update(&self, count: u64, line: usize, ranges: usize, len: usize) {
        assert!(len <= 64 && (line + ranges) * 64 <= ROOT, "ranges lie inside lines of the root");
        for value in 0..count {
            self.transaction(|| {
                for range in 0..ranges {
                    let at = self.word((line + range) * 8);
                    // SAFETY: inside the root object, inside a transaction.
                    let added = unsafe { pmemobj_tx_add_range_direct(at.cast(), len) };
                    assert_eq!(added, 0, "libpmemobj refused a range");
                    // SAFETY: in bounds by the assert above, alive while the pool is open, this
                    // thread's line.
                    unsafe { at.write_volatile(value) };
                }
            });
        }
    }

    /// Runs `count` transactions; each allocates an object of `size` bytes and frees the one
    /// before.
    pub fn alloc_free(&self, count: u64, size: usize) {
        let mut last = None;
        let free = |oid| {
            // SAFETY: inside a transaction; the object was allocated by the one before and is freed
            // once.
            let freed = unsafe { pmemobj_tx_free(oid) };
            assert_eq!(freed, 0, "libpmemobj refused to free");
        };
        for _ in 0..count {
            self.transaction(|| {
                // SAFETY: inside a transaction.
                let oid = unsafe { pmemobj_tx_alloc(size, 1) };
                assert_ne!(oid.offset, 0, "libpmemobj is out of memory");
                if let Some(old) = last.replace(oid) {
                    free(old);
                }
            });
        }
        self.transaction(|| last.into_iter().for_each(free));
    }
}

impl Drop for Pmemobj {
    fn drop(&mut self) {
        // SAFETY: opened in `create`, closed once, no transaction runs.
        unsafe { pmemobj_close(self.pool) };
    }
}

fn said() -> Failure {
    // SAFETY: takes nothing; the library always has a string.
    let text = unsafe { pmemobj_errormsg() };
    // SAFETY: ended by zero, and this thread alone changes it.
    let text = unsafe { CStr::from_ptr(text) };
    Failure(format!("libpmemobj: {}", text.to_string_lossy()))
}
