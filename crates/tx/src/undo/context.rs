//! The running transaction of a thread in an engine: one context for each engine, kept by the
//! thread.
//! Transactions that are started by hand bring their own.
//!
//! A context outlives its transactions so that its vectors need not be allocated again; it holds no
//! lane between them.

use crate::lock::Guard;
use crate::owned::Owned;
use crate::undo::engine::Lane;
use crate::undo::ranges::Ranges;
use everbyte_heap::{Block, Op};
use everbyte_media::Unsettled;
use parking_lot::{ArcMutexGuard, RawMutex};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Default)]
pub(crate) struct Context {
    /// Transactions inside each other; the outermost counts.
    pub depth: Cell<u32>,
    /// One of them has failed: the outermost will not commit.
    pub doomed: Cell<bool>,
    pub state: RefCell<TxState>,
}

impl Context {
    /// Whether the outermost body has ended well and has left nothing to do: whatever is done takes
    /// a lane first.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.lane.is_none() && state.hooks.is_empty() && !self.doomed.get()
    }
}

#[derive(Default)]
pub(crate) struct TxState {
    pub lane: Option<ArcMutexGuard<RawMutex, Lane>>,
    /// The newest commit seen at a lock.
    pub seen: Unsettled<()>,
    /// After a rollback: what is settled before the caller is told of it (TX-5).
    pub owed: Unsettled<()>,
    pub work: Work,
    pub locks: Vec<Guard>,
    pub hooks: Vec<Box<dyn FnOnce()>>,
}

/// The changes of the transaction so far.
#[derive(Default)]
pub(crate) struct Work {
    pub ranges: Ranges,
    /// Some range was not logged, so an empty lane does not say that nothing was changed.
    pub unlogged: bool,
    /// Blocks allocated and not freed again.
    pub allocated: Owned,
    /// Blocks allocated and freed in this transaction: reserved until its end, never on media.
    pub discarded: Vec<Block>,
    /// Operations of frees, in order.
    pub frees: Vec<Op>,
}

impl Work {
    /// Whether the range lies in a block of this transaction's own.
    #[inline]
    pub(crate) fn owns(&self, at: u64, end: u64) -> bool {
        self.allocated.holds(at, end)
    }
}

thread_local! {
    static CONTEXTS: RefCell<Vec<(u64, Rc<Context>)>> = const { RefCell::new(Vec::new()) };
}

/// This thread's context in the engine of this number.
#[inline]
pub(crate) fn mine(engine: u64) -> Rc<Context> {
    CONTEXTS.with_borrow_mut(|contexts| {
        if let Some((_, context)) = contexts.iter().find(|(number, _)| *number == engine) {
            return Rc::clone(context);
        }
        first(contexts, engine)
    })
}

#[cold]
fn first(contexts: &mut Vec<(u64, Rc<Context>)>, engine: u64) -> Rc<Context> {
    if contexts.len() >= 64 {
        contexts.retain(|(_, context)| context.depth.get() > 0); // engines long closed, most likely
    }
    let context = Rc::new(Context::default());
    contexts.push((engine, Rc::clone(&context)));
    context
}
