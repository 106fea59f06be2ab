//! Destructors of C++ classes: found by the class, and run before the transaction commits.
//!
//! A program registers the destructors of its classes when it is loaded, each with the description
//! of its class; nothing about them is on media but that the class has one. `destroy` notes the
//! object, and the outermost transaction runs the destructors when its lambda has returned.
//!
//! Invariants
//!   DROP-1  An object whose class has a destructor leaves the pool in the transaction in which
//!           that destructor ran, once: a crash or an exception takes both back.
//!   DROP-2  A program without the destructor destroys no object of the class.
//!   DROP-3  Destructors run one after another, not inside of each other, however long the chain
//!           of objects is that destroy each other.

use crate::calls::guarded;
use crate::passed::RawText;
use crate::{Fault, fault::DONE};
use everbyte_media::{ErrorKind, seeded};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;

/// Runs the destructor of the object at an address; does not unwind.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void) -> u32;

/// By the name of the class, then by its description.
static REGISTERED: Mutex<BTreeMap<(String, String), Destructor>> = Mutex::new(BTreeMap::new());

/// Registers the destructor of a class, or takes it back: `is_there` is 1 or 0.
///
/// # Safety
/// The texts can be read. `function` can be called for objects of the class until it is taken back.
pub(crate) unsafe extern "C" fn register(
    name: RawText,
    description: RawText,
    function: Option<Destructor>,
    is_there: u32,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's.
        let name = unsafe { name.read() }?;
        // SAFETY: the caller's.
        let description = unsafe { description.read() }?;
        let function = function.ok_or_else(|| Fault::invalid("a destructor is a function, not a null pointer"))?;
        let key = (name.to_string(), description.to_string());
        let mut registered = REGISTERED.lock();
        match is_there {
            0 => drop(registered.remove(&key)),
            _ => drop(registered.insert(key, function)),
        }
        Ok(())
    })
}

/// The destructor of a class.
///
/// # Errors
/// If this program has none (DROP-2).
pub(crate) fn find(name: &str, description: &str) -> Result<Destructor, Fault> {
    let found = REGISTERED.lock().get(&(name.to_string(), description.to_string())).copied();
    found.ok_or_else(|| {
        let say = "its objects have a destructor, which this program does not: destroy them in a program that has it";
        Fault::of_kind(ErrorKind::Foreign, format!("class `{name}`: {say}"))
    })
}

/// An object that leaves its pool.
#[derive(Clone, Copy)]
pub(crate) struct Leaving {
    pub handle: *const c_void,
    pub offset: u64,
    pub destructor: Destructor,
    /// Runs the destructor and takes the object out of its pool.
    pub finish: unsafe fn(Leaving) -> Result<(), Fault>,
}

/// The objects that leave in one transaction, in order.
struct Queue {
    number: u64,
    leaving: Vec<Leaving>,
    /// How many have left.
    gone: usize,
    offsets: BTreeSet<u64>,
}

thread_local! {
    /// Of the outermost transactions of this thread, one of each pool type at most.
    static QUEUES: RefCell<Vec<Queue>> = const { RefCell::new(Vec::new()) };
}

/// Notes an object for the end of the transaction `number`; false if it is noted already.
///
/// # Errors
/// If C++ has not begun that transaction.
pub(crate) fn note(number: u64, leaving: Leaving) -> Result<bool, Fault> {
    QUEUES.with_borrow_mut(|queues| {
        let queue = queues.iter_mut().find(|queue| queue.number == number);
        let queue = queue.ok_or_else(|| Fault::invalid("an object with a destructor is destroyed inside of `txn`"))?;
        let is_first = queue.offsets.insert(leaving.offset) || seeded("bridge-destroyed-twice");
        if is_first {
            queue.leaving.push(leaving);
        }
        Ok(is_first)
    })
}

/// The queue of an outermost transaction, while its lambda runs.
pub(crate) struct Outermost {
    number: u64,
}

impl Outermost {
    pub(crate) fn begin(number: u64) -> Outermost {
        let queue = Queue { number, leaving: Vec::new(), gone: 0, offsets: BTreeSet::new() };
        QUEUES.with_borrow_mut(|queues| queues.push(queue));
        Outermost { number }
    }

    /// Runs the destructors of all objects that leave (DROP-3).
    ///
    /// # Errors
    /// The first one's, which rolls the transaction back.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        while let Some(leaving) = self.next() {
            // SAFETY: a transaction of the pool runs, which was open when the object was noted.
            unsafe { (leaving.finish)(leaving) }?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Leaving> {
        QUEUES.with_borrow_mut(|queues| {
            let queue = queues.iter_mut().find(|queue| queue.number == self.number)?;
            let next = queue.leaving.get(queue.gone).copied()?;
            queue.gone += 1;
            Some(next)
        })
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        QUEUES.with_borrow_mut(|queues| queues.retain(|queue| queue.number != self.number));
    }
}

/// Calls a destructor.
///
/// # Errors
/// If it throws.
///
/// # Safety
/// `at` is an object of its class, whose bytes are logged.
pub(crate) unsafe fn call(destructor: Destructor, at: *mut c_void) -> Result<(), Fault> {
    if seeded("bridge-destructor-skipped") {
        return Ok(());
    }
    // SAFETY: the caller's; C++ has registered it for its class.
    match unsafe { destructor(at) } {
        DONE => Ok(()),
        _ => Err(Fault::thrown()),
    }
}
