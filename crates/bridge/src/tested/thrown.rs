//! Exceptions of callbacks, which are panics on their way through a method of Rust.

#![expect(unreachable_pub, dead_code, reason = "an exported type is public, and has a constructor")]

use super::*;
use crate::classes::{Cpp, CppClass, Gen, Hash, RawHash};
use crate::fault::was_thrown;
use crate::{Exports, Extern, export};
use everbyte_media::museum;
use everbyte_object::{Journal, PCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A number, with methods that catch every panic. A list's root begins with such a one.
#[derive(PSafe, Extern)]
#[persist(marker = K)]
#[repr(C)]
pub struct Catcher<K: CppClass, P: MemPool> {
    number: PCell<u64, P>,
    marker: PhantomData<K>,
}

#[export]
impl<K: CppClass, P: MemPool> Catcher<K, P> {
    pub fn new(_: &Journal<P>) -> Self {
        Catcher { number: PCell::new(0), marker: PhantomData }
    }

    pub fn look(&self, key: Gen<'_, K>, hash: Hash<'_, K>) -> u64 {
        catch_unwind(AssertUnwindSafe(|| hash.of(&key))).unwrap_or(0)
    }

    pub fn change(&self, j: &Journal<P>, key: Gen<'_, K>, hash: Hash<'_, K>) -> u64 {
        self.number.set(7, j);
        catch_unwind(AssertUnwindSafe(|| hash.of(&key))).unwrap_or(0)
    }
}

type Look = unsafe extern "C" fn(*const c_void, RawText, RawHash, *mut u64) -> u32;
type Change = unsafe extern "C" fn(*const c_void, u64, RawText, RawHash, *mut u64) -> u32;

/// A hash that throws, unless its context is null.
unsafe extern "C" fn throws(context: *const c_void, _: RawText, _: *mut u64) -> u32 {
    if context.is_null() { DONE } else { THROWN }
}

/// PASS-3: the exception reaches the caller and rolls back, and the next failure is its own.
#[test]
fn an_exception_that_a_method_catches_goes_on() {
    let _alone = alone();
    let (_store, handle) = made();
    let list = list(&handle, "list");
    let methods = <Catcher<Cpp<0>, Explored> as Exports<ExploredTag>>::methods();
    let functions = methods.iter().map(|one| one.function).collect::<Vec<_>>();
    // SAFETY: the first method, with its arguments.
    let look = unsafe { std::mem::transmute::<*const c_void, Look>(functions[0]) };
    // SAFETY: as above, the second.
    let change = unsafe { std::mem::transmute::<*const c_void, Change>(functions[1]) };
    let hash = |at: *const c_void| RawHash { context: at, call: Some(throws) };
    let (this, angry, calm) = (list.at.cast_const().cast(), hash(list.handle), hash(std::ptr::null()));
    let (key, mut out) = (RawText::of("key"), 0);
    // SAFETY: a word of the pool, arguments that live during the call.
    assert_eq!(unsafe { look(this, key, angry, &mut out) }, THROWN);
    // SAFETY: as above, without an object.
    assert_failed(unsafe { look(std::ptr::null(), key, calm, &mut out) }, "an object does not lie");
    let ended = txn(|number| {
        // SAFETY: as above.
        assert_eq!(unsafe { change(this, number, key, angry, &mut out) }, THROWN);
        true
    });
    assert_ne!(ended, DONE, "the transaction is doomed");
    assert_eq!(read(list.at), [0, 0]);
    // SAFETY: as above.
    assert_done(unsafe { look(this, key, calm, &mut out) });
    let ended = txn(|number| {
        // SAFETY: as above.
        assert_done(unsafe { change(this, number, key, calm, &mut out) });
        true
    });
    assert_eq!((ended, read(list.at)), (DONE, [7, 0]));

    let swallowed = museum::with("bridge-exception-swallowed", || {
        // SAFETY: as above.
        unsafe { look(this, key, angry, &mut out) }
    });
    assert_eq!((swallowed, was_thrown()), (DONE, true), "the seeded bug is found");
}
