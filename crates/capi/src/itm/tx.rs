//! [`Tx`]: one thread's transaction, from begin to commit.
//!
//! | event | effect |
//! |---|---|
//! | begin, outermost | the worker begins; registers are saved |
//! | begin, inside | part of the outermost; if it may be cancelled alone, a [`Point`] is kept |
//! | conflict, anywhere | memory restored, locks released, control returns from the outermost begin: run again |
//! | cancel, inside | memory and stores go back to the point; control returns from that begin: do not run |
//! | cancel, outermost | everything restored; control returns from the outermost begin: do not run |
//! | commit, outermost | the worker commits; then the freed blocks are freed, and actions run |
//! | the thread ends inside | everything restored except the thread's stack |
//! | fork inside | the child has no transaction: its next step ends the body, or the process |
//!
//! Invariants
//!   ITM-4  While the thread is in a step of a transaction, `is_inside` is set: a begin then comes
//!          from a signal handler, or after a handler has jumped away, within an unfinished step.
//!   ITM-5  The frames that began live until their transactions end. A frame that control has left
//!          by a jump is detected at the next begin, which is not below it on the stack or whose
//!          caller has replaced it, or at the next commit, which belongs to another frame.

use super::begin::{Jump, body_runs, return_again};
use super::exceptions::Handlers;
use super::ground::Ground;
use super::undo::Undo;
use super::{die, place, slot};
use crate::fault::{Fault, answer};
use crate::mnemosyne;
use everbyte_tx::Error;
use everbyte_tx::redo::{Checkpoint, STRIPES_MAX, Stop, Worker};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// A function of the program or of the system, and its argument.
#[derive(Clone, Copy)]
pub(super) struct Action {
    pub run: unsafe extern "C" fn(*mut c_void),
    pub with: *mut c_void,
}

impl Action {
    pub(super) fn call(self) {
        // SAFETY: the caller that registered the action promised that it may be called once, at the
        // end for which it was registered.
        unsafe { (self.run)(self.with) }
    }
}

/// The actions at the end of a transaction, in order.
#[derive(Default)]
pub(super) struct Actions {
    /// Frees allocated memory after an abort, the newest first.
    pub allocated: Vec<Action>,
    /// Frees memory after a commit, when no other transaction can read it.
    pub freed: Vec<Action>,
    /// After a commit.
    pub committed: Vec<Action>,
    /// After an abort, the newest first.
    pub aborted: Vec<Action>,
}

pub(super) struct Tx {
    pub worker: Worker,
    pub ground: &'static Ground,
    /// Begins that have not ended; 0: no transaction.
    nesting: u32,
    /// The begin of the outermost.
    jump: Jump,
    is_function: bool,
    /// The begins of the nested ones that have not ended; `nesting - 1` of them.
    inner: Vec<Begun>,
    /// ITM-4. Read by handlers of this thread.
    is_inside: AtomicBool,
    /// Begins inside it that may be cancelled alone.
    points: Vec<Point>,
    pub undo: Undo,
    pub actions: Actions,
    pub handlers: Handlers,
    /// The transaction's number in this thread.
    number: u64,
}

/// The begin of a transaction.
#[derive(Clone, Copy)]
struct Begun {
    stack: usize,
    address: usize,
    /// By `everbyte_atomically`.
    is_function: bool,
}

/// The state that a nested begin returns to.
struct Point {
    jump: Jump,
    nesting: u32,
    checkpoint: Checkpoint,
    undo: usize,
    /// Lengths of the lists of actions.
    actions: [usize; 4],
    caught: u32,
}

thread_local! {
    /// Keeps what `slot` points to until the thread ends.
    static OWNED: RefCell<Option<Owned>> = const { RefCell::new(None) };
}

struct Owned(Box<Tx>);

impl Drop for Owned {
    /// The thread ends, perhaps inside a transaction: by `pthread_exit`, because it is cancelled,
    /// or with the process.
    fn drop(&mut self) {
        slot::set::<Tx>(null_mut());
        let tx = &mut *self.0;
        if tx.is_inside.load(Ordering::Relaxed) {
            die("a thread ends inside a step of a transaction: it was cancelled at once, or a signal handler ends it");
        }
        if tx.nesting > 0 {
            tx.undo.put_back_but(0, place::stack()); // the stack has changed since
            tx.points.clear();
            tx.inner.clear();
            tx.worker.give_up();
            tx.nesting = 0;
            tx.abort_actions();
        }
    }
}

thread_local! {
    /// In a child of fork: the transaction that the thread was in, in the parent.
    static LEFT_BEHIND: Cell<*mut Tx> = const { Cell::new(null_mut()) };
}

/// Runs in a child of fork. The child must not end the parent's transaction; its memory stays.
extern "C" fn forked() {
    if Ground::known().is_none_or(|ground| ground.require_here().is_ok()) {
        return; // an engine in memory: the child has a copy of its own
    }
    let _ = OWNED.try_with(|owned| owned.try_borrow_mut().map(|mut owned| std::mem::forget(owned.take())));
    LEFT_BEHIND.set(slot::get::<Tx>());
    slot::set::<Tx>(null_mut());
}

/// The error in a child of fork.
const FORKED: &str = "this process is a child of fork and has nothing of its parent's store: it runs no transactions, nor the rest of one";

/// A step was called without a transaction. In a child of a fork inside the body of a function,
/// that function returns as if cancelled, with an error.
#[cold]
fn outside(what: &str) -> ! {
    // SAFETY: null, or what `OWNED` kept for this thread in the parent, and nothing frees it.
    let Some(tx) = (unsafe { LEFT_BEHIND.replace(null_mut()).as_mut() }).filter(|tx| tx.nesting > 0) else { die(what) };
    if !tx.is_function {
        die(FORKED);
    }
    tx.put_back();
    answer(Err::<(), _>(Fault::new(libc::EPERM, FORKED)), (), |()| ());
    go_back(CANCELLED | RESTORE_LIVE, &tx.jump)
}

/// Flag of a begin: the instrumented code exists.
pub(super) const HAS_INSTRUMENTED: u32 = 1;
/// Flag of a begin by `everbyte_atomically`: its body is a function, and the caller tests whether
/// it was cancelled.
pub(super) const IS_FUNCTION: u32 = 1 << 31;
/// Flag of a begin: it is not cancelled alone.
const HAS_NO_CANCEL: u32 = 8;
/// Return values of a begin.
const RUN: u32 = 1;
const SAVE_LIVE: u32 = 4;
const RESTORE_LIVE: u32 = 8;
pub(super) const CANCELLED: u32 = 16;

/// The outermost transaction is cancelled, however deep the cancel is.
const OUTERMOST: u32 = 16;

/// This thread's transaction, if it has begun one before.
#[inline(always)]
pub(super) fn current() -> Option<&'static mut Tx> {
    // SAFETY: it is null or what `OWNED` keeps for this thread alone; each function of the ABI
    // takes this reference once and gives it up before it calls into the program.
    unsafe { slot::get::<Tx>().as_mut() }
}

/// Runs one step of the transaction in progress; on failure control goes back to the begin.
#[inline(always)]
pub(super) fn step<T>(step: impl FnOnce(&mut Tx) -> Result<T, Stop>) -> T {
    let Some(tx) = current() else { outside("a transaction's code runs outside of a transaction") };
    match tx.inside(step) {
        Ok(done) => done,
        Err(stop) => tx.stop(stop),
    }
}

/// Whether the caller is a signal handler that interrupted a function of this module (ITM-4).
fn interrupts() -> bool {
    // SAFETY: it is null or leads to this thread's transaction, of which only an atomic is read.
    unsafe { slot::get::<Tx>().as_ref() }.is_some_and(|tx| tx.is_inside.load(Ordering::Relaxed))
}

thread_local! {
    /// The thread is in [`first`] (ITM-4): a begin of a signal handler would wait for itself there.
    static IS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// The thread's first transaction; an error in a child of fork.
#[cold]
fn first() -> Result<&'static mut Tx, Fault> {
    if IS_FIRST.replace(true) {
        die(INTERRUPTS);
    }
    compiler_fence(Ordering::SeqCst);
    let made = make_first();
    compiler_fence(Ordering::SeqCst);
    IS_FIRST.set(false);
    made
}

fn make_first() -> Result<&'static mut Tx, Fault> {
    static WATCHED: Once = Once::new();
    let ground = Ground::get();
    ground.require_here().map_err(|_| Fault::new(libc::EPERM, FORKED))?;
    // SAFETY: the function may run in any child, at once after the fork: it takes no lock.
    WATCHED.call_once(|| assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(forked)) }, 0, "no room"));
    let mut tx = Box::new(Tx {
        worker: ground.redo.worker(),
        ground,
        nesting: 0,
        jump: Jump::default(),
        is_function: false,
        inner: Vec::new(),
        is_inside: AtomicBool::new(true), // until it is owned
        points: Vec::new(),
        undo: Undo::default(),
        actions: Actions::default(),
        handlers: Handlers::of_this_thread(),
        number: 0,
    });
    slot::set(&raw mut *tx);
    // A thread that is ending keeps no thread-local values: this one leaks.
    let mut tx = Some(tx);
    let _ = OWNED.try_with(|owned| owned.replace(tx.take().map(Owned)));
    tx.map(Box::leak);
    let tx = current().expect("set just now");
    tx.is_inside.store(false, Ordering::Relaxed);
    Ok(tx)
}

/// ITM-4.
const INTERRUPTS: &str = "a block begins while this thread is inside a step of another: \
    a signal handler runs it, or a handler has jumped out of that step";

pub(super) fn begin(properties: u32, jump: Jump) -> u32 {
    let is_function = properties & IS_FUNCTION != 0;
    if interrupts() {
        die(INTERRUPTS);
    }
    let tx = match current().map_or_else(first, Ok) {
        Ok(tx) => tx,
        Err(fault) if is_function => return answer(Err::<(), _>(fault), CANCELLED, |()| CANCELLED),
        Err(fault) => die(fault.message()),
    };
    if properties & HAS_INSTRUMENTED == 0 {
        die(
            "this block calls what cannot be taken back (a relaxed transaction); make it `patomic`, and what it calls transaction_safe",
        );
    }
    if tx.nesting == 0 {
        mnemosyne::restart();
        return tx.inside(|tx| {
            tx.jump = jump;
            tx.is_function = is_function;
            tx.number += 1;
            tx.handlers.begin();
            tx.begin_worker();
            tx.nesting = 1;
            RUN | SAVE_LIVE
        });
    }
    tx.inside(|tx| tx.begin_inner(properties, jump, is_function))
}

impl Tx {
    /// Part of the outermost.
    fn begin_inner(&mut self, properties: u32, jump: Jump, is_function: bool) -> u32 {
        let tx = self;
        let innermost = tx.innermost();
        // Blocks inside each other in one function begin at the same place of the stack, each by
        // another call (ITM-5).
        let same = jump.stack == innermost.stack && (innermost.is_function || jump.address == innermost.address);
        if jump.stack > innermost.stack || same || innermost.is_function && !body_runs(innermost.stack) {
            die(LEFT);
        }
        tx.inner.push(Begun { stack: jump.stack, address: jump.address, is_function });
        let may_be_cancelled = properties & HAS_NO_CANCEL == 0;
        if may_be_cancelled {
            let point = Point {
                jump,
                nesting: tx.nesting,
                checkpoint: tx.worker.checkpoint(),
                undo: tx.undo.len(),
                actions: tx.actions.lens(),
                caught: tx.handlers.caught,
            };
            tx.points.push(point);
        }
        tx.nesting += 1;
        if may_be_cancelled { RUN | SAVE_LIVE } else { RUN }
    }

    /// Runs a step (ITM-4).
    #[inline(always)]
    pub(super) fn inside<T>(&mut self, step: impl FnOnce(&mut Tx) -> T) -> T {
        self.is_inside.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let done = step(self);
        compiler_fence(Ordering::SeqCst);
        self.is_inside.store(false, Ordering::Relaxed);
        done
    }

    fn innermost(&self) -> Begun {
        let Jump { stack, address, .. } = self.jump;
        self.inner.last().copied().unwrap_or(Begun { stack, address, is_function: self.is_function })
    }
}

/// ITM-5.
const LEFT: &str = "the function that began a transaction has been left without ending it, by longjmp; or a signal handler on a stack of its own runs a block: nothing of the transaction has happened";

/// `function`: the stack pointer of the `everbyte_atomically` that commits. Compiled code may have
/// left its frame by then, to return from here to its caller.
pub(super) fn commit(function: Option<usize>) {
    let Some(tx) = current().filter(|tx| tx.nesting > 0) else { outside("a commit without a transaction") };
    let innermost = tx.innermost();
    if function != innermost.is_function.then_some(innermost.stack) {
        die(LEFT);
    }
    if tx.nesting > 1 {
        tx.inside(Tx::end_inner);
        return;
    }
    let ground = tx.ground;
    let committed = tx.inside(|tx| {
        tx.worker.commit_by(|key, mask, value| {
            if let Some(address) = ground.copy_of(key) {
                place::store(address, mask, value);
            }
        })?;
        tx.nesting = 0;
        tx.undo.clear();
        tx.handlers.end();
        Ok(std::mem::take(&mut tx.actions))
    });
    let Actions { freed, committed, .. } = match committed {
        Ok(actions) => actions,
        Err(Error::Conflict) => tx.stop(Stop::Conflict),
        Err(error) => die(error),
    };
    freed.into_iter().chain(committed).for_each(Action::call);
}

/// A thread that ends leaves a block by unwinding its stack. The changes of the outermost are
/// undone; its frame still exists.
pub(super) fn leave() {
    let Some(tx) = current().filter(|tx| tx.nesting > 0) else { outside("the end of a thread without a transaction") };
    tx.inside(|tx| match tx.nesting {
        1 => {
            tx.put_back();
            tx.worker.give_up();
            tx.nesting = 0;
            tx.abort_actions();
        }
        _ => tx.end_inner(),
    });
}

/// `__transaction_cancel`.
pub(super) fn cancel(reason: u32) -> ! {
    let Some(tx) = current().filter(|tx| tx.nesting > 0) else { outside("a cancel without a transaction") };
    let jump = tx.inside(|tx| {
        if reason & OUTERMOST == 0
            && let Some(point) = tx.points.pop()
        {
            tx.undo.put_back(point.undo, point.jump.stack);
            tx.worker.roll_back_to(point.checkpoint);
            tx.actions.abort_to(point.actions);
            tx.handlers.forget_to(point.caught);
            tx.nesting = point.nesting;
            tx.inner.truncate(point.nesting as usize - 1);
            return point.jump;
        }
        tx.put_back();
        tx.worker.give_up();
        tx.abort_actions();
        tx.nesting = 0;
        tx.jump
    });
    go_back(CANCELLED | RESTORE_LIVE, &jump)
}

fn go_back(action: u32, jump: &Jump) -> ! {
    // SAFETY: the function that began has not returned, for its block has not ended; the frames up
    // to it belong to the program, and to this module, whose frames have nothing to drop (ITM-2).
    unsafe { return_again(action, jump) }
}

impl Tx {
    pub(super) fn is_running(&self) -> bool {
        self.nesting > 0
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether an address lies in a frame created since the transaction began: dead after a retry,
    /// and private to this thread.
    #[inline(always)]
    pub(super) fn is_own_stack(&self, address: usize) -> bool {
        let stack = place::stack_pointer();
        address.wrapping_sub(stack) < self.jump.stack.wrapping_sub(stack)
    }

    /// Whether the cancel of an inner transaction restores an address of the thread's own stack.
    #[inline]
    pub(super) fn outlives_a_point(&self, address: usize) -> bool {
        self.points.last().is_some_and(|point| address >= point.jump.stack)
    }

    fn begin_worker(&mut self) {
        if let Err(error) = self.worker.begin() {
            die(error);
        }
    }

    /// ITM-3.
    fn put_back(&mut self) {
        self.undo.put_back(0, self.jump.stack);
        self.points.clear();
        self.inner.clear();
    }

    fn end_inner(&mut self) {
        self.nesting -= 1;
        self.inner.pop();
        if self.points.pop_if(|point| point.nesting == self.nesting).is_some() {
            self.worker.release();
        }
    }

    fn abort_actions(&mut self) {
        self.actions.abort_to([0; 4]);
        self.handlers.forget_to(0);
        self.handlers.end();
    }

    #[cold]
    fn stop(&mut self, stop: Stop) -> ! {
        match stop {
            Stop::Outside => die(
                "a transaction stores to persistent memory that is not its program's: another object, a region, a variable of a library (or PDATA, in a program with pstatic), or the library's own words; nothing of it has happened",
            ),
            Stop::TooLong => die(format_args!(
                "a transaction stores to more than {STRIPES_MAX} lines of 64 bytes; nothing of it has happened: divide it"
            )),
            Stop::Conflict => {}
        }
        self.inside(|tx| {
            tx.put_back();
            tx.worker.abort_to_retry();
            tx.abort_actions();
            tx.nesting = 1;
            tx.handlers.begin();
            tx.begin_worker();
        });
        go_back(RUN | SAVE_LIVE | RESTORE_LIVE, &self.jump)
    }
}

impl Actions {
    fn lens(&self) -> [usize; 4] {
        [self.allocated.len(), self.freed.len(), self.committed.len(), self.aborted.len()]
    }

    /// Undoes the actions added since the lists had these lengths.
    fn abort_to(&mut self, [allocated, freed, committed, aborted]: [usize; 4]) {
        self.freed.truncate(freed);
        self.committed.truncate(committed);
        while self.aborted.len() > aborted {
            self.aborted.pop().into_iter().for_each(Action::call);
        }
        while self.allocated.len() > allocated {
            self.allocated.pop().into_iter().for_each(Action::call);
        }
    }
}
