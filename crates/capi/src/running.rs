//! The transactions that a thread has under way: at most one for each object, with others inside
//! it.
//!
//! A transaction belongs to the thread that began it. A thread that ends leaves none: what it had
//! begun is rolled back.

use crate::fault::{Fault, Result};
use crate::mapped::Mapped;
use everbyte_store::Exclusive;
use everbyte_tx::{Started, Tx};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An outermost transaction.
struct Running {
    /// Refers to the engine of `object`, and is dropped before it.
    started: Option<Started<'static>>,
    /// Others wait that share the object, until the transaction has ended.
    exclusive: Option<Exclusive>,
    object: Arc<Mapped>,
    /// How many have begun and not ended, the outermost included.
    depth: u32,
    /// One inside was aborted, so the outermost will not commit.
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

/// Begins a transaction on an object, or one inside it.
pub fn begin(object: Arc<Mapped>) -> Result<()> {
    RUNNING.with_borrow_mut(|running| {
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
    })
}

/// Runs `body` in the transaction that this thread has under way on `object`; `None` if it has
/// none.
pub fn within<T>(object: &Arc<Mapped>, body: impl FnOnce(&Tx<'_>) -> Result<T>) -> Option<Result<T>> {
    RUNNING.with_borrow(|running| {
        let running = running.iter().find(|running| Arc::ptr_eq(&running.object, object))?;
        let started = running.started.as_ref().expect("taken when it ends");
        Some(body(&started.tx()))
    })
}

/// How a transaction is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    Abort,
}

/// Ends the innermost transaction on `object`. The outermost is settled, or rolled back, on return.
pub fn end(object: &Arc<Mapped>, how: End) -> Result<()> {
    let ended = RUNNING.with_borrow_mut(|running| {
        let index = running.iter().position(|running| Arc::ptr_eq(&running.object, object))?;
        let transaction = &mut running[index];
        transaction.depth -= 1;
        transaction.doomed |= how == End::Abort;
        Some((transaction.depth == 0).then(|| running.swap_remove(index)))
    });
    let Some(outermost) = ended else {
        let name = object.undo.heap().object().name();
        return Err(Fault::invalid(format!("this thread has no transaction under way on object `{name}`")));
    };
    let Some(mut outermost) = outermost else { return Ok(()) };
    let started = outermost.started.take().expect("taken once");
    match (how, outermost.doomed) {
        (End::Commit, false) => {
            if let Some(mark) = started.commit(|| ())?.mark {
                object.undo.media().settle(mark)?;
            }
            Ok(())
        }
        (End::Commit, true) => {
            started.rollback()?;
            Err(Fault::new(libc::ECANCELED, "rolled back: a transaction inside this one was aborted"))
        }
        (End::Abort, _) => Ok(started.rollback()?),
    }
}
