//! Types that only C++ knows: values of its classes in Rust structures, as bytes.
//!
//! An exported type takes such a class as a parameter, `K: CppClass`, and keeps its values in
//! [`ByteArray`]s. `library!` exports it as a template: `template<K, V> KvStore<K, V>`. C++
//! compiles the classes, hashes and compares them; Rust moves bytes. `std::string` is such a class,
//! too: its bytes are those of the text.
//!
//! Invariants
//!   CLASS-1  The classes of a root are recorded with it, and a caller with others is refused. So
//!            the bytes behind a parameter are always those of one class.
//!   CLASS-2  A value keeps its place and its bytes until it is replaced or removed: `Lent` is an
//!            address that C++ reads until then, as references into containers of std are.

use crate::Fault;
use crate::fault::{DONE, throw};
use crate::passed::{Argument, RawString, RawText, Returned};
use everbyte_object::{Journal, MemPool, PSafe, PVec};
use std::cmp::Ordering;
use std::ffi::c_void;
use std::marker::PhantomData;

/// A class of C++, as a parameter of an exported type; [`Cpp`] alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no class of C++",
    note = "bound the parameter by `CppClass`, and export the type as `template<K> Name<K>` in `library!`",
    note = "or keep a Rust type, and name each instance: `Name<u64> as name`"
)]
pub trait CppClass: 'static {
    /// Its place among the parameters of the template.
    #[doc(hidden)]
    const INDEX: usize;
    /// Names in descriptions.
    #[doc(hidden)]
    const NAMES: ClassNames;
}

/// The names of the types over one class, in descriptions.
#[doc(hidden)]
pub struct ClassNames {
    generic: &'static str,
    copied: &'static str,
    option: &'static str,
    hash: &'static str,
    equal: &'static str,
    order: &'static str,
    lent: &'static str,
}

/// The parameter number `N` of a template.
#[derive(Debug)]
pub struct Cpp<const N: usize>;

macro_rules! classes {
    ($($index:literal $generic:literal $copied:literal $option:literal $hash:literal $equal:literal $order:literal $lent:literal;)*) => { $(
        impl CppClass for Cpp<$index> {
            const INDEX: usize = $index;
            const NAMES: ClassNames = ClassNames {
                generic: $generic,
                copied: $copied,
                option: $option,
                hash: $hash,
                equal: $equal,
                order: $order,
                lent: $lent,
            };
        }
    )* };
}

classes!(
    0 "Gen<0>" "Copied<0>" "Option<Copied<0>>" "Hash<0>" "Equal<0>" "Order<0>" "Lent<0>";
    1 "Gen<1>" "Copied<1>" "Option<Copied<1>>" "Hash<1>" "Equal<1>" "Order<1>" "Lent<1>";
    2 "Gen<2>" "Copied<2>" "Option<Copied<2>>" "Hash<2>" "Equal<2>" "Order<2>" "Lent<2>";
    3 "Gen<3>" "Copied<3>" "Option<Copied<3>>" "Hash<3>" "Equal<3>" "Order<3>" "Lent<3>";
);

/// A value of C++, for the length of a call.
pub struct Gen<'a, T: CppClass> {
    pub(crate) bytes: &'a [u8],
    marker: PhantomData<T>,
}

impl<T: CppClass> Clone for Gen<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: CppClass> Copy for Gen<'_, T> {}

// SAFETY: a pointer and a length, as C++ passes them.
unsafe impl<'c, T: CppClass> Argument<'c> for Gen<'c, T> {
    type Raw = RawText;
    const NAME: &'static str = T::NAMES.generic;

    unsafe fn from_raw(raw: RawText) -> Result<Self, Fault> {
        // SAFETY: the caller's.
        let bytes = unsafe { raw.bytes() }?;
        Ok(Gen { bytes, marker: PhantomData })
    }
}

/// A value of a class of C++ in the pool: its bytes, behind a pointer. Only values of the same
/// class are compared with it, and get into it.
#[derive(PSafe)]
#[repr(C)]
pub struct ByteArray<T: CppClass, P: MemPool> {
    bytes: PVec<u8, P>,
    marker: PhantomData<T>,
}

impl<T: CppClass, P: MemPool> ByteArray<T, P> {
    /// A copy of the value in the pool.
    pub fn from(value: Gen<'_, T>, j: &Journal<P>) -> Self {
        let mut bytes = PVec::new();
        bytes.extend_from_slice(value.bytes, j);
        ByteArray { bytes, marker: PhantomData }
    }

    /// Puts another value in its place; it may be a part of this one.
    pub fn update(&mut self, value: Gen<'_, T>, j: &Journal<P>) {
        let is_same_place = self.bytes.as_ptr() == value.bytes.as_ptr();
        match self.bytes.len() == value.bytes.len() {
            true if is_same_place => {}
            true => self.bytes.as_mut_slice(j).copy_from_slice(value.bytes),
            false => *self = ByteArray::from(value, j), // a text of another length
        }
    }

    /// A copy of the value for C++.
    pub fn copied(&self) -> Copied<T> {
        Copied { bytes: self.bytes.to_vec(), marker: PhantomData }
    }
}

/// A value of a class of C++, wherever it lies.
pub trait ClassValue<T: CppClass> {
    /// The bytes of the value.
    #[doc(hidden)]
    fn bytes(&self) -> &[u8];
}

impl<T: CppClass> ClassValue<T> for Gen<'_, T> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

impl<T: CppClass, P: MemPool> ClassValue<T> for ByteArray<T, P> {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A copy of a value, on its way to C++.
pub struct Copied<T: CppClass> {
    bytes: Vec<u8>,
    marker: PhantomData<T>,
}

// SAFETY: bytes that C++ compares with the size of its class, copies and gives back.
unsafe impl<T: CppClass> Returned for Copied<T> {
    type Raw = RawString;
    const NAME: &'static str = T::NAMES.copied;

    fn into_raw(self) -> Result<RawString, Fault> {
        Ok(RawString::of(self.bytes))
    }
}

// SAFETY: as above; null for none.
unsafe impl<T: CppClass> Returned for Option<Copied<T>> {
    type Raw = RawString;
    const NAME: &'static str = T::NAMES.option;

    fn into_raw(self) -> Result<RawString, Fault> {
        Ok(self.map_or(RawString::null(), |copied| RawString::of(copied.bytes)))
    }
}

/// The place of a value in the pool, for C++ to read (CLASS-2); null for none.
pub struct Lent<T: CppClass> {
    raw: RawText,
    marker: PhantomData<T>,
}

impl<T: CppClass> Lent<T> {
    /// The place of a value.
    pub fn of(value: Option<&impl ClassValue<T>>) -> Lent<T> {
        Lent::of_bytes(value.map_or(RawText::null(), |value| RawText::lent(value.bytes())))
    }

    /// The place of values that lie behind each other.
    pub(crate) fn of_bytes(raw: RawText) -> Lent<T> {
        Lent { raw, marker: PhantomData }
    }
}

// SAFETY: a pointer and a length, as C++ reads them.
unsafe impl<T: CppClass> Returned for Lent<T> {
    type Raw = RawText;
    const NAME: &'static str = T::NAMES.lent;

    fn into_raw(self) -> Result<RawText, Fault> {
        Ok(self.raw)
    }
}

/// The places of two values, as [`Lent`].
pub struct LentPair<K: CppClass, V: CppClass>(Lent<K>, Lent<V>);

impl<K: CppClass, V: CppClass> LentPair<K, V> {
    /// The places of a key and its value.
    pub fn of(pair: Option<(&impl ClassValue<K>, &impl ClassValue<V>)>) -> LentPair<K, V> {
        let (key, value) = pair.unzip();
        LentPair(Lent::of(key), Lent::of(value))
    }
}

/// As C++ reads it.
#[doc(hidden)]
#[repr(C)]
pub struct RawPair {
    key: RawText,
    value: RawText,
}

// SAFETY: two pointers with lengths, as C++ reads them.
unsafe impl<K: CppClass, V: CppClass> Returned for LentPair<K, V> {
    type Raw = RawPair;
    const NAME: &'static str = match (K::INDEX, V::INDEX) {
        (0, 1) => "LentPair<0, 1>",
        (1, 0) => "LentPair<1, 0>",
        _ => panic!("only the first two classes of a template are lent together"),
    };

    fn into_raw(self) -> Result<RawPair, Fault> {
        Ok(RawPair { key: self.0.raw, value: self.1.raw })
    }
}

macro_rules! callback {
    ($(#[$about:meta])* $Name:ident, $Raw:ident, $call:ty) => {
        $(#[$about])*
        pub struct $Name<'a, T: CppClass> {
            raw: $Raw,
            marker: PhantomData<(&'a (), T)>,
        }

        impl<T: CppClass> Clone for $Name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T: CppClass> Copy for $Name<'_, T> {}

        /// As C++ passes it.
        #[doc(hidden)]
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $Raw {
            pub(crate) context: *const c_void,
            pub(crate) call: Option<$call>,
        }

        impl $Raw {
            /// Itself, unless its function is null (PASS-2).
            fn checked(self) -> Result<$Raw, Fault> {
                self.call.map(|_| self).ok_or_else(null_function)
            }
        }
    };
}

const CHECKED: &str = "PASS-2: null functions are refused as arguments";

fn null_function() -> Fault {
    Fault::invalid("a function that C++ passes is null: pass one that can be called")
}

callback!(
    /// The hash of a class: `std::hash`. Its exception goes on in C++, and rolls the transaction
    /// back.
    Hash, RawHash, unsafe extern "C" fn(*const c_void, RawText, *mut u64) -> u32
);
callback!(
    /// The comparison of a class: `std::equal_to`. Its exception goes on in C++, and rolls the
    /// transaction back.
    Equal, RawEqual, unsafe extern "C" fn(*const c_void, RawText, RawText, *mut u8) -> u32
);
callback!(
    /// The order of a class: `std::less`. Its exception goes on in C++, and rolls the transaction
    /// back.
    Order, RawOrder, unsafe extern "C" fn(*const c_void, RawText, RawText, *mut i8) -> u32
);

// SAFETY: two words, as C++ passes them.
unsafe impl<'c, T: CppClass> Argument<'c> for Hash<'c, T> {
    type Raw = RawHash;
    const NAME: &'static str = T::NAMES.hash;
    const CALLS_BACK: bool = true;

    unsafe fn from_raw(raw: RawHash) -> Result<Self, Fault> {
        Ok(Hash { raw: raw.checked()?, marker: PhantomData })
    }
}

// SAFETY: as above.
unsafe impl<'c, T: CppClass> Argument<'c> for Equal<'c, T> {
    type Raw = RawEqual;
    const NAME: &'static str = T::NAMES.equal;
    const CALLS_BACK: bool = true;

    unsafe fn from_raw(raw: RawEqual) -> Result<Self, Fault> {
        Ok(Equal { raw: raw.checked()?, marker: PhantomData })
    }
}

// SAFETY: as above.
unsafe impl<'c, T: CppClass> Argument<'c> for Order<'c, T> {
    type Raw = RawOrder;
    const NAME: &'static str = T::NAMES.order;
    const CALLS_BACK: bool = true;

    unsafe fn from_raw(raw: RawOrder) -> Result<Self, Fault> {
        Ok(Order { raw: raw.checked()?, marker: PhantomData })
    }
}

impl<T: CppClass> Hash<'_, T> {
    /// The hash of a value.
    pub fn of(self, value: &impl ClassValue<T>) -> u64 {
        // SAFETY: `value` is of the class of the function (CLASS-1), which lives for the call.
        unsafe { self.raw.of(value.bytes()) }
    }

    pub(crate) fn raw(self) -> RawHash {
        self.raw
    }
}

impl RawHash {
    /// # Safety
    /// C++ has passed the function for a call that lasts, and `value` is of its class; it does not
    /// unwind.
    pub(crate) unsafe fn of(self, value: &[u8]) -> u64 {
        let mut hash = 0;
        // SAFETY: the caller's.
        let status = unsafe { self.call.expect(CHECKED)(self.context, RawText::lent(value), &mut hash) };
        require_returned(status);
        hash
    }
}

impl RawEqual {
    /// # Safety
    /// As for [`RawHash::of`].
    pub(crate) unsafe fn of(self, one: &[u8], other: &[u8]) -> bool {
        let mut is_equal = 0;
        // SAFETY: the caller's.
        let status =
            unsafe { self.call.expect(CHECKED)(self.context, RawText::lent(one), RawText::lent(other), &mut is_equal) };
        require_returned(status);
        is_equal != 0
    }
}

impl RawOrder {
    /// # Safety
    /// As for [`RawHash::of`].
    pub(crate) unsafe fn of(self, one: &[u8], other: &[u8]) -> Ordering {
        let mut order = 0;
        // SAFETY: the caller's.
        let status =
            unsafe { self.call.expect(CHECKED)(self.context, RawText::lent(one), RawText::lent(other), &mut order) };
        require_returned(status);
        order.cmp(&0)
    }
}

impl<T: CppClass> Order<'_, T> {
    pub(crate) fn raw(self) -> RawOrder {
        self.raw
    }
}

impl<T: CppClass> Equal<'_, T> {
    /// Whether two values are equal.
    pub fn of(self, one: &impl ClassValue<T>, other: &impl ClassValue<T>) -> bool {
        // SAFETY: as in `Hash::of`.
        unsafe { self.raw.of(one.bytes(), other.bytes()) }
    }

    pub(crate) fn raw(self) -> RawEqual {
        self.raw
    }
}

/// A function of C++ that is called for pairs of values.
pub struct Visit<'a, K: CppClass, V: CppClass> {
    raw: RawVisit,
    marker: PhantomData<(&'a (), K, V)>,
}

/// As C++ passes it.
#[doc(hidden)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawVisit {
    context: *const c_void,
    call: Option<unsafe extern "C" fn(*const c_void, RawText, RawText) -> u32>,
}

// SAFETY: two words, as C++ passes them.
unsafe impl<'c, K: CppClass, V: CppClass> Argument<'c> for Visit<'c, K, V> {
    type Raw = RawVisit;
    const NAME: &'static str = match (K::INDEX, V::INDEX) {
        (0, 0) => "Visit<0, 0>",
        (0, 1) => "Visit<0, 1>",
        (1, 0) => "Visit<1, 0>",
        (1, 1) => "Visit<1, 1>",
        _ => panic!("only the first two classes of a template are visited together"),
    };
    const CALLS_BACK: bool = true;

    unsafe fn from_raw(raw: RawVisit) -> Result<Self, Fault> {
        raw.call.ok_or_else(null_function)?;
        Ok(Visit { raw, marker: PhantomData })
    }
}

impl<K: CppClass, V: CppClass> Visit<'_, K, V> {
    /// Calls it.
    pub fn call(&self, key: &impl ClassValue<K>, value: &impl ClassValue<V>) {
        let (key, value) = (RawText::lent(key.bytes()), RawText::lent(value.bytes()));
        // SAFETY: as in `Hash::of`.
        let status = unsafe { self.raw.call.expect(CHECKED)(self.raw.context, key, value) };
        require_returned(status);
    }
}

fn require_returned(status: u32) {
    if status != DONE {
        throw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::guarded;
    use crate::fault::assert_failed;
    use std::ptr::null;

    /// The argument of a method, refused.
    #[track_caller]
    fn refused<'c, T: Argument<'c>>(raw: T::Raw) {
        // SAFETY: nothing is called.
        let argument = unsafe { T::from_raw(raw) };
        assert_failed(guarded(|| argument.map(drop)), "a function that C++ passes is null");
    }

    /// PASS-2, for each kind of function.
    #[test]
    fn null_functions_are_refused_as_arguments() {
        refused::<Hash<'_, Cpp<0>>>(RawHash { context: null(), call: None });
        refused::<Equal<'_, Cpp<0>>>(RawEqual { context: null(), call: None });
        refused::<Order<'_, Cpp<0>>>(RawOrder { context: null(), call: None });
        refused::<Visit<'_, Cpp<0>, Cpp<1>>>(RawVisit { context: null(), call: None });
    }
}
