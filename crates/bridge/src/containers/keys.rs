//! Keys of containers: bytes, which functions of C++ compare and hash.
//!
//! `Ord` and `Hash` of Rust take no functions, so those of the running call stand in a variable of
//! its thread.
//!
//! Invariants
//!   COMPARED-1  A map is searched and changed inside of [`with`] alone, with functions of its
//!               class.

use crate::classes::{ByteArray, ClassValue, CppClass, RawEqual, RawHash, RawOrder};
use crate::{Equal, Gen, Hash, Order};
use everbyte_object::{Journal, MemPool, PSafe};
use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::Hasher;

/// A key in the pool.
#[derive(PSafe)]
#[persist(marker = K)]
#[repr(C)]
pub(super) struct Key<K: CppClass, P: MemPool> {
    value: ByteArray<K, P>,
}

impl<K: CppClass, P: MemPool> Key<K, P> {
    pub(super) fn from(value: Gen<'_, K>, j: &Journal<P>) -> Self {
        Key { value: ByteArray::from(value, j) }
    }
}

impl<K: CppClass, P: MemPool> ClassValue<K> for Key<K, P> {
    fn bytes(&self) -> &[u8] {
        self.value.bytes()
    }
}

/// The bytes of a key, wherever they lie.
#[repr(transparent)]
pub(super) struct KeyBytes([u8]);

impl KeyBytes {
    pub(super) fn of(bytes: &[u8]) -> &KeyBytes {
        let bytes: *const [u8] = bytes;
        // SAFETY: the same bytes, borrowed for as long.
        unsafe { &*(bytes as *const KeyBytes) }
    }
}

impl<K: CppClass, P: MemPool> Borrow<KeyBytes> for Key<K, P> {
    fn borrow(&self) -> &KeyBytes {
        KeyBytes::of(self.bytes())
    }
}

/// The functions of a call.
#[derive(Clone, Copy)]
pub(super) enum Functions {
    Order(RawOrder),
    Hash(RawHash, RawEqual),
}

impl Functions {
    pub(super) fn order<K: CppClass>(order: Order<'_, K>) -> Functions {
        Functions::Order(order.raw())
    }

    pub(super) fn hash<K: CppClass>(hash: Hash<'_, K>, equal: Equal<'_, K>) -> Functions {
        Functions::Hash(hash.raw(), equal.raw())
    }
}

thread_local! {
    static CURRENT: Cell<Option<Functions>> = const { Cell::new(None) };
}

/// Runs `body` with these functions; those of a call that runs around it come back afterwards.
pub(super) fn with<R>(functions: Functions, body: impl FnOnce() -> R) -> R {
    struct Before(Option<Functions>);
    impl Drop for Before {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _before = Before(CURRENT.replace(Some(functions)));
    body()
}

#[cold]
fn no_functions() -> ! {
    panic!("COMPARED-1: keys of C++ are compared by the containers of the bridge alone")
}

impl Ord for KeyBytes {
    fn cmp(&self, other: &KeyBytes) -> Ordering {
        match CURRENT.get() {
            // SAFETY: C++ passed the function with the running call (COMPARED-1).
            Some(Functions::Order(order)) => unsafe { order.of(&self.0, &other.0) },
            _ => no_functions(),
        }
    }
}

impl PartialOrd for KeyBytes {
    fn partial_cmp(&self, other: &KeyBytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyBytes {
    fn eq(&self, other: &KeyBytes) -> bool {
        match CURRENT.get() {
            // SAFETY: as above.
            Some(Functions::Order(order)) => unsafe { order.of(&self.0, &other.0) }.is_eq(),
            // SAFETY: as above.
            Some(Functions::Hash(_, equal)) => unsafe { equal.of(&self.0, &other.0) },
            None => no_functions(),
        }
    }
}

impl Eq for KeyBytes {}

impl std::hash::Hash for KeyBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match CURRENT.get() {
            // SAFETY: as above.
            Some(Functions::Hash(hash, _)) => state.write_u64(unsafe { hash.of(&self.0) }),
            _ => no_functions(),
        }
    }
}

impl<K: CppClass, P: MemPool> Ord for Key<K, P> {
    fn cmp(&self, other: &Self) -> Ordering {
        KeyBytes::of(self.bytes()).cmp(KeyBytes::of(other.bytes()))
    }
}

impl<K: CppClass, P: MemPool> PartialOrd for Key<K, P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: CppClass, P: MemPool> PartialEq for Key<K, P> {
    fn eq(&self, other: &Self) -> bool {
        KeyBytes::of(self.bytes()) == KeyBytes::of(other.bytes())
    }
}

impl<K: CppClass, P: MemPool> Eq for Key<K, P> {}

impl<K: CppClass, P: MemPool> std::hash::Hash for Key<K, P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyBytes::of(self.bytes()).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::DONE;
    use crate::passed::RawText;
    use std::ffi::c_void;

    unsafe extern "C" fn always<const ORDER: i8>(_: *const c_void, _: RawText, _: RawText, out: *mut i8) -> u32 {
        // SAFETY: a place that lives during the call.
        unsafe { out.write(ORDER) };
        DONE
    }

    /// COMPARED-1 where a comparison of C++ reads another map.
    #[test]
    fn functions_of_a_call_come_back_after_one_inside_of_it() {
        let functions = |call| Functions::Order(RawOrder { context: std::ptr::null(), call: Some(call) });
        let order = || KeyBytes::of(b"one").cmp(KeyBytes::of(b"other"));
        with(functions(always::<1>), || {
            assert_eq!(order(), Ordering::Greater);
            with(functions(always::<-1>), || assert_eq!(order(), Ordering::Less));
            let panicked = std::panic::catch_unwind(|| with(functions(always::<0>), || panic!("in a comparison")));
            assert!(panicked.is_err());
            assert_eq!(order(), Ordering::Greater);
        });
        assert!(CURRENT.get().is_none());
    }
}
