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
use everbyte_object::raw::{mark, place_of};
use everbyte_object::{Journal, MemPool};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr;

/// Runs the destructor of the object at an address; does not unwind.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void) -> u32;

/// By the name of the class, then by its description. A program and its shared objects may each
/// have one of the same class; the one that came last is called, while it is there.
static REGISTERED: Mutex<BTreeMap<(String, String), Vec<Destructor>>> = Mutex::new(BTreeMap::new());

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
        let mut registered = REGISTERED.lock();
        let all = registered.entry((name.to_string(), description.to_string())).or_default();
        match is_there {
            0 => drop(all.iter().rposition(|one| ptr::fn_addr_eq(*one, function)).map(|at| all.remove(at))),
            _ => all.push(function),
        }
        Ok(())
    })
}

/// The destructor of a class.
///
/// # Errors
/// If this program has none (DROP-2).
pub(crate) fn find(name: &str, description: &str) -> Result<Destructor, Fault> {
    let registered = REGISTERED.lock();
    let found = registered.get(&(name.to_string(), description.to_string())).and_then(|all| all.last().copied());
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
    of: usize,
    leaving: Vec<Leaving>,
    /// How many have left.
    gone: usize,
    offsets: BTreeSet<u64>,
}

/// The mark of an outermost transaction that C++ has begun, and of one that has a queue. Most
/// transactions destroy nothing, and cost a store.
const BEGUN: u8 = 1;
const QUEUED: u8 = 2;

thread_local! {
    /// Of the outermost transactions of this thread that have one, one of each pool type at most.
    static QUEUES: RefCell<Vec<Queue>> = const { RefCell::new(Vec::new()) };
}

/// Notes an object for the end of the running transaction; false if it is noted already.
///
/// # Errors
/// If C++ has not begun that transaction.
pub(crate) fn note<P: MemPool>(j: &Journal<P>, leaving: Leaving) -> Result<bool, Fault> {
    let of = place_of(j);
    QUEUES.with_borrow_mut(|queues| {
        match mark(j).get() {
            QUEUED => {}
            BEGUN => {
                queues.push(Queue { of, leaving: Vec::new(), gone: 0, offsets: BTreeSet::new() });
                mark(j).set(QUEUED);
            }
            _ => return Err(Fault::invalid("an object with a destructor is destroyed inside of `txn`")),
        }
        let queue = queues.iter_mut().find(|queue| queue.of == of).expect("it is marked so");
        let is_first = queue.offsets.insert(leaving.offset) || seeded("bridge-destroyed-twice");
        if is_first {
            queue.leaving.push(leaving);
        }
        Ok(is_first)
    })
}

/// An outermost transaction of C++, while its lambda and the destructors run.
pub(crate) struct Outermost<'j> {
    /// Its place on the stack.
    of: usize,
    mark: &'j Cell<u8>,
    place: &'j Cell<usize>,
}

impl<'j> Outermost<'j> {
    /// Begins; `place` is the thread's word, which gets the transaction's place on the stack:
    /// `here`, or the engine's part of it, if that lies below.
    #[inline]
    pub(crate) fn begin<P: MemPool>(j: &'j Journal<P>, place: &'j Cell<usize>, here: usize) -> Outermost<'j> {
        mark(j).set(BEGUN);
        let of = place_of(j);
        place.set(here.min(of));
        Outermost { of, mark: mark(j), place }
    }

    /// Runs the destructors of all objects that leave (DROP-3).
    ///
    /// # Errors
    /// The first one's, which rolls the transaction back.
    #[inline]
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        if self.mark.get() == QUEUED { self.destroy() } else { Ok(()) }
    }

    #[cold]
    fn destroy(&self) -> Result<(), Fault> {
        while let Some(leaving) = self.next() {
            // SAFETY: a transaction of the pool runs, which was open when the object was noted.
            unsafe { (leaving.finish)(leaving) }?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Leaving> {
        QUEUES.with_borrow_mut(|queues| {
            let queue = queues.iter_mut().find(|queue| queue.of == self.of)?;
            let next = queue.leaving.get(queue.gone).copied()?;
            queue.gone += 1;
            Some(next)
        })
    }
}

impl Drop for Outermost<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.set(0);
        if self.mark.get() == QUEUED {
            QUEUES.with_borrow_mut(|queues| queues.retain(|queue| queue.of != self.of));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::assert_done;

    unsafe extern "C" fn nothing(_: *mut c_void) -> u32 {
        DONE
    }

    unsafe extern "C" fn something(_: *mut c_void) -> u32 {
        DONE + 1
    }

    /// Registers the destructor of a class of these tests, or takes it back.
    fn tell(description: &'static str, is_there: u32) {
        tell_of(description, nothing, is_there);
    }

    fn tell_of(description: &'static str, function: Destructor, is_there: u32) {
        // SAFETY: texts and a function of this program.
        assert_done(unsafe { register(RawText::of("told"), RawText::of(description), Some(function), is_there) });
    }

    /// A program and a shared object that have the same class, in either order of their ends.
    #[test]
    fn a_destructor_stays_while_one_of_its_programs_does() {
        let orders: [([Destructor; 2], Destructor); 3] =
            [([nothing, something], something), ([something, nothing], something), ([nothing, nothing], nothing)];
        for ([leaves, stays], second) in orders {
            tell_of("shared", nothing, 1);
            tell_of("shared", second, 1);
            tell_of("shared", leaves, 0);
            assert!(find("told", "shared").is_ok_and(|found| ptr::fn_addr_eq(found, stays)));
            tell_of("shared", stays, 0);
            assert!(find("told", "shared").is_err());
        }
    }

    /// DROP-2: that of a class of the same name with other fields is not that of the class.
    #[test]
    fn a_destructor_is_found_by_the_description_of_its_class() {
        tell("one", 1);
        tell("two", 1);
        assert!(find("told", "one").is_ok() && find("told", "two").is_ok());
        assert!(find("told", "three").is_err() && find("tol", "one").is_err());
        tell("one", 0);
        assert!(find("told", "one").is_err() && find("told", "two").is_ok());
        tell("two", 0);
    }
}
