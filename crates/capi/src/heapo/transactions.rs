//! Calls of `heapo.h` for transactions. A thread runs at most one outermost transaction for each
//! object, with others inside it.
//!
//! A transaction belongs to the thread that began it. The end of a thread rolls its transactions
//! back; from then on the thread has none and begins none.
//!
//! Safety, for all of them: a name is a string that ends with a zero byte or reaches beyond 128
//! bytes, or null; other pointers are only compared with the addresses of objects, unless the
//! header says that they are read or written.

use super::mapped::Mapped;
use super::writable;
use crate::fault::{Fault, Result, done};
use everbyte_store::Exclusive;
use everbyte_tx::{Started, Tx};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An outermost transaction.
struct Running {
    /// Refers to the engine of `object`, and is dropped before it.
    started: Option<Started<'static>>,
    /// Other processes that share the object wait until the transaction has ended.
    exclusive: Option<Exclusive>,
    object: Arc<Mapped>,
    /// The number of nested transactions, the outermost included.
    depth: u32,
    /// A nested transaction was aborted, so the outermost will not commit.
    doomed: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.object.is_inherited() {
            std::mem::forget((self.started.take(), self.exclusive.take())); // the parent's
            return;
        }
        self.started = None; // rolled back, unless it was taken to be committed
        self.object.running.fetch_sub(1, Ordering::Release);
    }
}

thread_local! {
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

/// Begins a transaction on an object, or a nested one.
pub(crate) fn begin(object: Arc<Mapped>) -> Result<()> {
    let begun = RUNNING.try_with(|running| {
        let mut running = running.borrow_mut();
        if let Some(running) = running.iter_mut().find(|running| Arc::ptr_eq(&running.object, &object)) {
            running.depth += 1;
            return Ok(());
        }
        let exclusive = object.enter()?;
        object.running.fetch_add(1, Ordering::AcqRel);
        // SAFETY: `started` borrows the engine that `object` owns. The engine lies behind the
        // `Arc`, which `Running` keeps, so it neither moves nor ends while `started` lives; and
        // `Running` drops `started` first.
        let started = unsafe { std::mem::transmute::<Started<'_>, Started<'static>>(object.undo.start()) };
        running.push(Running { started: Some(started), exclusive, object, depth: 1, doomed: false });
        Ok(())
    });
    begun.unwrap_or_else(|_| Err(Fault::ending()))
}

/// Runs `body` in this thread's transaction on `object`; `None` without one.
pub(crate) fn within<T>(object: &Arc<Mapped>, body: impl FnOnce(&Tx<'_>) -> Result<T>) -> Option<Result<T>> {
    let ran = RUNNING.try_with(|running| {
        let running = running.borrow();
        let running = running.iter().find(|running| Arc::ptr_eq(&running.object, object))?;
        let started = running.started.as_ref().expect("taken when it ends");
        Some(body(&started.tx()))
    });
    ran.ok().flatten()
}

/// The end of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

/// Ends the innermost transaction on `object`. The outermost is settled, or rolled back, on return.
pub(crate) fn end(object: &Arc<Mapped>, how: End) -> Result<()> {
    let ended = RUNNING.try_with(|running| {
        let mut running = running.borrow_mut();
        let index = running.iter().position(|running| Arc::ptr_eq(&running.object, object))?;
        let transaction = &mut running[index];
        transaction.depth -= 1;
        transaction.doomed |= how == End::Abort;
        Some((transaction.depth == 0).then(|| running.swap_remove(index)))
    });
    let Some(outermost) = ended.ok().flatten() else {
        let name = object.undo.heap().object().name();
        return Err(Fault::invalid(format!("this thread has no transaction under way on object `{name}`")));
    };
    let Some(mut outermost) = outermost else { return Ok(()) };
    let started = outermost.started.take().expect("taken once");
    match (how, outermost.doomed) {
        (End::Commit, false) => {
            let committed = started.commit(|| ())?;
            Ok(committed.result.settle(object.undo.media())?)
        }
        (End::Commit, true) => {
            started.rollback()?;
            Err(Fault::new(libc::ECANCELED, "rolled back: a transaction inside this one was aborted"))
        }
        (End::Abort, _) => Ok(started.rollback()?),
    }
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_tx_begin(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(begin))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_tx_append(object: *const c_char, start: *const c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| {
        let at = object.offset(start.addr())?;
        let (len, heap) = (size as u64, object.undo.heap());
        let logged = within(&object, |tx| {
            let is_prime_node = at == heap.object().root_at().get() && len == 8;
            let is_own = || at.checked_add(len).is_some() && tx.owns(at, len);
            if !(is_prime_node || heap.is_allocated(at, len) || is_own()) {
                let (address, name) = (start.addr(), heap.object().name());
                return Err(Fault::invalid(format!(
                    "{address:#x} + {size} does not lie in a chunk of object `{name}`"
                )));
            }
            Ok(tx.log_range(at, len)?)
        });
        logged.unwrap_or_else(|| Err(Fault::invalid("no transaction under way: call heapo_tx_begin first")))
    }))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_tx_end(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| end(&object, End::Commit)))
}

/// # Safety
/// As said at the top of the file.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn heapo_tx_abort(object: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { writable(object) }.and_then(|object| end(&object, End::Abort)))
}
