//! The running transaction of a thread in an engine: one context for each engine, kept by the
//! thread.
//! Transactions that are started by hand bring their own.
//!
//! A context outlives its transactions so that its vectors need not be allocated again; it holds no
//! lane between them. A thread that is ending has lost its contexts: each outermost transaction
//! brings one then, which those inside it find.

use crate::lock::Guard;
use crate::owned::Owned;
use crate::undo::engine::Lane;
use crate::undo::ranges::Ranges;
use everbyte_heap::{Block, Op};
use everbyte_media::Unsettled;
use parking_lot::{ArcMutexGuard, RawMutex};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};

#[derive(Default)]
pub(crate) struct Context {
    /// Transactions inside each other; the outermost counts.
    pub depth: Cell<u32>,
    /// One of them has failed: the outermost will not commit.
    pub doomed: Cell<bool>,
    pub state: RefCell<TxState>,
    /// Of a thread that is ending.
    _ending: Option<Ending>,
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

/// Contexts, by their engines.
type InUse = Vec<(u64, Weak<Context>)>;

thread_local! {
    static CONTEXTS: RefCell<Vec<(u64, Rc<Context>)>> = const { RefCell::new(Vec::new()) };
    /// The contexts in use after the end of [`CONTEXTS`]. It has no destructor, so it has no end;
    /// it holds no memory while it is empty.
    static ENDING: ManuallyDrop<RefCell<InUse>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// This thread's context in the engine of this number.
#[inline]
pub(crate) fn mine(engine: u64) -> Rc<Context> {
    let kept = CONTEXTS.try_with(|contexts| {
        let mut contexts = contexts.borrow_mut();
        if let Some((_, context)) = contexts.iter().find(|(number, _)| *number == engine) {
            return Rc::clone(context);
        }
        first(&mut contexts, engine)
    });
    kept.unwrap_or_else(|_| of_ending_thread(engine))
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

/// The context of the transaction that runs, or one that ends with the transaction.
#[cold]
fn of_ending_thread(engine: u64) -> Rc<Context> {
    ENDING.with(|ending| {
        let mut ending = ending.borrow_mut();
        if let Some(context) = ending.iter().find(|(number, _)| *number == engine).and_then(|(_, it)| it.upgrade()) {
            return context;
        }
        let context = Rc::new(Context { _ending: Some(Ending), ..Context::default() });
        ending.push((engine, Rc::downgrade(&context)));
        context
    })
}

/// Removes its context from [`ENDING`].
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.with(|ending| {
            let mut ending = ending.borrow_mut();
            ending.retain(|(_, context)| context.strong_count() > 0);
            if ending.is_empty() {
                *ending = Vec::new();
            }
        });
    }
}
