//! Functions that a program registers to run once, in order, before its first transaction.
//!
//! Threads: any; one runs the functions, and others wait for it.

use crate::fault::answer;
use parking_lot::ReentrantMutex;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// A function of the program, and its argument.
struct Hook {
    run: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
}

// SAFETY: the program promised that the function may be called with this pointer, which is used for
// nothing else.
unsafe impl Send for Hook {}

/// The functions that have not run. Locked while one runs, so that no other thread begins before
/// all have returned.
static HOOKS: ReentrantMutex<Hooks> =
    ReentrantMutex::new(Hooks { waiting: RefCell::new(VecDeque::new()), running: Cell::new(false) });
/// Whether the list may be non-empty.
static WAITING: AtomicBool = AtomicBool::new(false);

struct Hooks {
    waiting: RefCell<VecDeque<Hook>>,
    /// Set by the thread that holds the lock: its functions may begin transactions.
    running: Cell<bool>,
}

/// # Safety
/// `run` may be called once with `context`, at any time before the program's first transaction.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn mnemosyne_at_restart(
    run: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
) -> c_int {
    let run = run.ok_or_else(|| crate::fault::Fault::invalid("no function to call at a restart"));
    answer(run, 0, |run| {
        HOOKS.lock().waiting.borrow_mut().push_back(Hook { run, context });
        WAITING.store(true, Ordering::Release);
        1
    })
}

/// Runs the functions that have not run, in the order of registration. Called before transactions;
/// costs one load if the list is empty.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mnemosyne_restart() {
    if !WAITING.load(Ordering::Acquire) {
        return;
    }
    let hooks = HOOKS.lock();
    if hooks.running.replace(true) {
        return;
    }
    loop {
        let next = hooks.waiting.borrow_mut().pop_front();
        let Some(Hook { run, context }) = next else { break };
        // SAFETY: the promise of the caller that registered it.
        unsafe { run(context) };
    }
    hooks.running.set(false);
    WAITING.store(false, Ordering::Release);
}
