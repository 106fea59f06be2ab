//! A tree in memory and Boost.Serialization, through `c/boost.cc`.

use crate::Failure;
use crate::work::Payload;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

type Handle = *mut c_void;

unsafe extern "C" {
    fn boost_tree_new() -> Handle;
    fn boost_tree_free(tree: Handle);
    fn boost_tree_insert(tree: Handle, key: u64, value: *const Payload);
    fn boost_tree_len(tree: Handle) -> u64;
    fn boost_tree_get(tree: Handle, key: u64) -> *const Payload;
    fn boost_tree_save(tree: Handle, path: *const c_char) -> c_int;
    fn boost_tree_load(tree: Handle, path: *const c_char) -> c_int;
}

/// A red-black tree of 128-byte nodes in memory, saved as a whole.
pub struct BoostTree(NonNull<c_void>);

impl BoostTree {
    /// An empty tree.
    pub fn new() -> Option<BoostTree> {
        // SAFETY: takes nothing.
        NonNull::new(unsafe { boost_tree_new() }).map(BoostTree)
    }

    /// Reads a saved tree.
    ///
    /// # Errors
    /// The file cannot be read, or holds no tree.
    pub fn load(path: &Path) -> Result<Option<BoostTree>, Failure> {
        let (Some(tree), text) = (BoostTree::new(), text(path)?) else { return Ok(None) };
        // SAFETY: a tree, and a string ended by zero.
        done(unsafe { boost_tree_load(tree.0.as_ptr(), text.as_ptr()) }, path)?;
        Ok(Some(tree))
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, key: u64, payload: &Payload) {
        // SAFETY: a tree that no other thread has; the payload is copied.
        unsafe { boost_tree_insert(self.0.as_ptr(), key, payload) };
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        // SAFETY: a tree.
        unsafe { boost_tree_len(self.0.as_ptr()) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload of a key.
    pub fn get(&self, key: u64) -> Option<Payload> {
        // SAFETY: a tree.
        let found = unsafe { boost_tree_get(self.0.as_ptr(), key) };
        // SAFETY: none, or a payload of the tree, which is not changed before it is copied.
        unsafe { found.as_ref() }.copied()
    }

    /// Writes all of it to a file, in place of what that held, and syncs it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = text(path)?;
        // SAFETY: a tree, and a string ended by zero.
        done(unsafe { boost_tree_save(self.0.as_ptr(), text.as_ptr()) }, path)
    }
}

impl Drop for BoostTree {
    fn drop(&mut self) {
        // SAFETY: made in `new`, given up once.
        unsafe { boost_tree_free(self.0.as_ptr()) };
    }
}

fn text(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| Failure(error.to_string()))
}

fn done(error: c_int, path: &Path) -> Result<(), Failure> {
    match error {
        0 => Ok(()),
        error => Err(Failure(format!("Boost, {}: {}", path.display(), std::io::Error::from_raw_os_error(error)))),
    }
}
