//! Objects that a thread holds by `heapo_lock`, for programs that read and store under a discipline
//! of their own.

use crate::fault::{Fault, Result};
use crate::mapped::Mapped;
use everbyte_store::Exclusive;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

struct Held {
    exclusive: Option<Exclusive>,
    object: Arc<Mapped>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.object.is_inherited() {
            std::mem::forget(self.exclusive.take()); // the parent's
            return;
        }
        self.object.running.fetch_sub(1, Ordering::Release);
    }
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Waits until this thread has the object.
pub fn lock(object: Arc<Mapped>) -> Result<()> {
    let exclusive = object.enter()?;
    object.running.fetch_add(1, Ordering::AcqRel); // CAPI-2
    HELD.with_borrow_mut(|held| held.push(Held { exclusive, object }));
    Ok(())
}

/// Gives it to the next, unless it was locked more often.
pub fn unlock(object: &Arc<Mapped>) -> Result<()> {
    let held = HELD.with_borrow_mut(|held| {
        let index = held.iter().rposition(|held| Arc::ptr_eq(&held.object, object))?;
        Some(held.remove(index))
    });
    let name = object.undo.heap().object().name();
    held.map(drop).ok_or_else(|| Fault::new(libc::EPERM, format!("this thread has not locked object `{name}`")))
}
