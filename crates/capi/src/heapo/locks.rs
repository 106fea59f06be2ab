//! Calls of `heapo.h` for locks: objects that a thread holds by `heapo_lock`, for programs that
//! order their own reads and stores. The end of a thread releases its locks; from then on it has
//! none and takes none.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with the addresses of objects, unless the
//! header says that they are read or written.

use super::mapped::Mapped;
use crate::fault::{Fault, Result, done};
use everbyte_store::Exclusive;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering;

struct HeldObject {
    exclusive: Option<Exclusive>,
    object: Arc<Mapped>,
}

impl Drop for HeldObject {
    fn drop(&mut self) {
        if self.object.is_inherited() {
            std::mem::forget(self.exclusive.take()); // the parent's
            return;
        }
        self.object.running.fetch_sub(1, Ordering::Release);
    }
}

thread_local! {
    static HELD: RefCell<Vec<HeldObject>> = const { RefCell::new(Vec::new()) };
}

/// Waits until this thread holds the lock of the object.
pub(crate) fn lock(object: Arc<Mapped>) -> Result<()> {
    let locked = HELD.try_with(|held| {
        let exclusive = object.enter()?;
        object.running.fetch_add(1, Ordering::AcqRel); // CAPI-2
        held.borrow_mut().push(HeldObject { exclusive, object });
        Ok(())
    });
    locked.unwrap_or_else(|_| Err(Fault::ending()))
}

/// Releases the lock, unless this thread has locked the object more often.
pub(crate) fn unlock(object: &Arc<Mapped>) -> Result<()> {
    let held = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        let index = held.iter().rposition(|held| Arc::ptr_eq(&held.object, object))?;
        Some(held.remove(index))
    });
    let name = object.undo.heap().object().name();
    let released = held.ok().flatten().map(drop);
    released.ok_or_else(|| Fault::new(libc::EPERM, format!("this thread has not locked object `{name}`")))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_lock(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { super::object(object) }.and_then(lock))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_unlock(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { super::object(object) }.and_then(|object| unlock(&object)))
}
