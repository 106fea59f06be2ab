//! [`Tx`]: one thread's transaction, from begin to commit.
//!
//! | event | what happens |
//! |---|---|
//! | begin, outermost | the worker begins; registers are saved |
//! | begin, inside | part of the outermost; if it may be cancelled alone, a [`Point`] is kept |
//! | conflict, anywhere | memory put back, locks given back, control returns from the outermost begin: run again |
//! | cancel, inside | memory and stores go back to the point; control returns from that begin: do not run |
//! | cancel, outermost | everything put back; control returns from the outermost begin: do not run |
//! | commit, outermost | the worker commits; then what was to be freed is, and actions run |

use super::begin::{Jump, return_again};
use super::exceptions::Handlers;
use super::ground::Ground;
use super::undo::Undo;
use super::{die, place, slot};
use crate::mnemosyne;
use everbyte_tx::Error;
use everbyte_tx::redo::{Checkpoint, STRIPES_MAX, Stop, Worker};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A function of the program's or of the system's, and what it is given.
#[derive(Clone, Copy)]
pub struct Action {
    pub run: unsafe extern "C" fn(*mut c_void),
    pub with: *mut c_void,
}

impl Action {
    pub fn call(self) {
        // SAFETY: whoever gave the action said that it may be called once, at the end that it was given for.
        unsafe { (self.run)(self.with) }
    }
}

/// What runs at the end of a transaction, in order.
#[derive(Default)]
pub struct Actions {
    /// Gives memory back that was allocated; after an abort, the newest first.
    pub allocated: Vec<Action>,
    /// Frees memory; after a commit, when no other transaction can look at it.
    pub freed: Vec<Action>,
    /// After a commit.
    pub committed: Vec<Action>,
    /// After an abort, the newest first.
    pub aborted: Vec<Action>,
}

pub struct Tx {
    pub worker: Worker,
    pub ground: &'static Ground,
    /// Begins that have not ended; 0: no transaction.
    nesting: u32,
    /// Where the outermost began.
    jump: Jump,
    /// Begins inside it that may be cancelled alone.
    points: Vec<Point>,
    pub undo: Undo,
    pub actions: Actions,
    pub handlers: Handlers,
    /// The transaction's number in this thread.
    number: u64,
}

/// What a begin inside another goes back to.
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

struct Owned(#[expect(dead_code, reason = "kept to be dropped")] Box<Tx>);

impl Drop for Owned {
    fn drop(&mut self) {
        slot::set::<Tx>(null_mut());
    }
}

/// Of a begin: the instrumented code is there.
pub const HAS_INSTRUMENTED: u32 = 1;
/// Of a begin: it is not cancelled alone.
const HAS_NO_CANCEL: u32 = 8;
/// Answers of a begin.
const RUN: u32 = 1;
const SAVE_LIVE: u32 = 4;
const RESTORE_LIVE: u32 = 8;
pub const CANCELLED: u32 = 16;

/// The outermost transaction is cancelled, however deep the cancel is.
const OUTERMOST: u32 = 16;

/// This thread's transaction, if it has one, or has had one.
#[inline(always)]
pub fn current() -> Option<&'static mut Tx> {
    // SAFETY: it is null or what `OWNED` keeps for this thread alone; each function of the ABI takes this reference once and
    // gives it up before it calls into the program.
    unsafe { slot::get::<Tx>().as_mut() }
}

/// Does one step of the transaction that runs; if it cannot be done, control goes back to the begin.
#[inline(always)]
pub fn step<T>(step: impl FnOnce(&mut Tx) -> Result<T, Stop>) -> T {
    let Some(tx) = current() else { die("a transaction's code runs outside of a transaction") };
    match step(tx) {
        Ok(done) => done,
        Err(stop) => tx.stop(stop),
    }
}

#[cold]
fn first() -> &'static mut Tx {
    let ground = Ground::get();
    let mut tx = Box::new(Tx {
        worker: ground.redo.worker(),
        ground,
        nesting: 0,
        jump: Jump::default(),
        points: Vec::new(),
        undo: Undo::default(),
        actions: Actions::default(),
        handlers: Handlers::of_this_thread(),
        number: 0,
    });
    slot::set(&raw mut *tx);
    // A thread that is ending can keep nothing: this one stays for good.
    let mut tx = Some(tx);
    let _ = OWNED.try_with(|owned| owned.replace(tx.take().map(Owned)));
    tx.map(Box::leak);
    current().expect("set just now")
}

pub fn begin(properties: u32, jump: Jump) -> u32 {
    let tx = match current() {
        Some(tx) => tx,
        None => first(),
    };
    if properties & HAS_INSTRUMENTED == 0 {
        die(
            "this block calls what cannot be taken back (a relaxed transaction); make it `patomic`, and what it calls transaction_safe",
        );
    }
    if tx.nesting == 0 {
        mnemosyne::restart();
        tx.nesting = 1;
        tx.jump = jump;
        tx.number += 1;
        tx.handlers.begin();
        tx.begin_worker();
        return RUN | SAVE_LIVE;
    }
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

pub fn commit() {
    let Some(tx) = current().filter(|tx| tx.nesting > 0) else { die("a commit without a transaction") };
    if tx.nesting > 1 {
        tx.nesting -= 1;
        if tx.points.pop_if(|point| point.nesting == tx.nesting).is_some() {
            tx.worker.release();
        }
        return;
    }
    let ground = tx.ground;
    let committed = tx.worker.commit_by(|key, mask, value| {
        if let Some(address) = ground.copy_of(key) {
            place::store(address, mask, value);
        }
    });
    match committed {
        Ok(()) => {}
        Err(Error::Conflict) => tx.stop(Stop::Conflict),
        Err(error) => die(error),
    }
    tx.nesting = 0;
    tx.undo.clear();
    tx.handlers.end();
    let Actions { freed, committed, .. } = std::mem::take(&mut tx.actions);
    freed.into_iter().chain(committed).for_each(Action::call);
}

/// `__transaction_cancel`.
pub fn cancel(reason: u32) -> ! {
    let Some(tx) = current().filter(|tx| tx.nesting > 0) else { die("a cancel without a transaction") };
    if reason & OUTERMOST == 0
        && let Some(point) = tx.points.pop()
    {
        tx.undo.put_back(point.undo, point.jump.stack);
        tx.worker.roll_back_to(point.checkpoint);
        tx.actions.abort_to(point.actions);
        tx.handlers.forget_to(point.caught);
        tx.nesting = point.nesting;
        go_back(CANCELLED | RESTORE_LIVE, &point.jump);
    }
    tx.put_back();
    tx.worker.give_up();
    tx.abort_actions();
    tx.nesting = 0;
    go_back(CANCELLED | RESTORE_LIVE, &tx.jump)
}

fn go_back(action: u32, jump: &Jump) -> ! {
    // SAFETY: the function that began has not returned, for its block has not ended; the frames up to it are the program's
    // and this module's, whose have nothing to drop (ITM-2).
    unsafe { return_again(action, jump) }
}

impl Tx {
    pub fn is_running(&self) -> bool {
        self.nesting > 0
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether an address lies in a frame made since the transaction began: dead after a retry, and nobody else's.
    #[inline(always)]
    pub fn is_own_stack(&self, address: usize) -> bool {
        let stack = place::stack_pointer();
        address.wrapping_sub(stack) < self.jump.stack.wrapping_sub(stack)
    }

    /// Whether what an address of its own stack holds is to be put back when an inner transaction is cancelled.
    #[inline]
    pub fn outlives_a_point(&self, address: usize) -> bool {
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
        self.put_back();
        self.worker.abort_to_retry();
        self.abort_actions();
        self.nesting = 1;
        self.handlers.begin();
        self.begin_worker();
        go_back(RUN | SAVE_LIVE | RESTORE_LIVE, &self.jump)
    }
}

impl Actions {
    fn lens(&self) -> [usize; 4] {
        [self.allocated.len(), self.freed.len(), self.committed.len(), self.aborted.len()]
    }

    /// Takes back what came after the lists were that long.
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
