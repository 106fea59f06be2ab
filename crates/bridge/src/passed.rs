//! [`Passed`], [`Argument`] and [`Returned`]: the types that cross between the languages.
//!
//! Invariants
//!   PASS-1  Everything that a method gets by reference lives as long as its [`Call`]: its object,
//!           and the arguments that C++ lends. A method that would keep it does not compile.
//!   PASS-2  A pointer that is null or not aligned is refused before anything is read or written
//!           through it, and an object that does not lie in the open pool of its type. (A handle,
//!           too, that is none of an open pool: HANDLE-5.)
//!   PASS-3  An exception of a callback ends the call that it was passed to, whatever the method
//!           does with the panic that it has become.

use crate::Fault;
use crate::fault::was_thrown;
use everbyte_media::seeded;
use everbyte_object::MemPool;
use everbyte_object::raw::may_lie;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A type whose values an exported method may take as arguments: copies, which the method may keep.
///
/// # Safety
/// `Raw` has the same layout as the C++ type that `bridge.hpp` has for `NAME`, and any bits that
/// C++ passes are valid for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed from C++",
    label = "not a value that both languages have",
    note = "numbers, `bool`, `usize`, `&str` and structs with `#[derive(Passed)]` can be passed; methods take `&self`, these, and `&Journal<P>`",
    note = "what lies in a pool stays there: export its type, or pass the number or the text that finds it"
)]
pub unsafe trait Passed: Copy + 'static {
    /// The value as it crosses.
    type Raw: Copy;
    /// The name of the type in descriptions.
    const NAME: &'static str;

    /// The value.
    ///
    /// # Errors
    /// If C++ has passed what no value of the type is.
    fn from_raw(raw: Self::Raw) -> Result<Self, Fault>;
}

/// A type whose values an exported method may take as arguments of a call that lasts for `'c`: a
/// [`Passed`] value, or one that C++ lends, as `&'c str`.
///
/// # Safety
/// As for [`Passed`].
pub unsafe trait Argument<'c>: Sized {
    /// The value as it crosses.
    type Raw: Copy;
    /// The name of the type in descriptions.
    const NAME: &'static str;
    /// Whether it is a function of C++, which may throw (PASS-3).
    #[doc(hidden)]
    const CALLS_BACK: bool = false;

    /// The value.
    ///
    /// # Errors
    /// If C++ has passed what no value of the type is.
    ///
    /// # Safety
    /// Everything that `raw` points to can be read and called for `'c`.
    unsafe fn from_raw(raw: Self::Raw) -> Result<Self, Fault>;
}

// SAFETY: as the value.
unsafe impl<T: Passed> Argument<'_> for T {
    type Raw = T::Raw;
    const NAME: &'static str = T::NAME;

    unsafe fn from_raw(raw: T::Raw) -> Result<T, Fault> {
        Passed::from_raw(raw)
    }
}

/// A call of C++. It is borrowed by what the caller keeps alive for the call alone (PASS-1).
#[derive(Debug)]
pub struct Call(());

impl Call {
    /// A call that lasts as long as the result.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Call {
        Call(())
    }

    /// The object of the call.
    ///
    /// # Errors
    /// If no object can lie there (PASS-2).
    ///
    /// # Safety
    /// `this` lies outside of the pool that is open as `P`, or is not aligned, or is a `T` that
    /// nothing but transactions changes while the call lasts.
    #[inline]
    pub unsafe fn object<T, P: MemPool>(&self, this: *const c_void) -> Result<&T, Fault> {
        let may_lie = may_lie::<P>(this.cast(), size_of::<T>()) && this.cast::<T>().is_aligned();
        if !may_lie {
            return Err(no_object(this.addr()));
        }
        // SAFETY: the caller's.
        Ok(unsafe { &*this.cast() })
    }

    /// Ends the call of a method, of which an argument `calls_back` or none (PASS-3).
    ///
    /// # Errors
    /// If a callback has thrown.
    #[inline]
    pub fn finish(&self, calls_back: bool) -> Result<(), Fault> {
        match calls_back && !seeded("bridge-exception-swallowed") && was_thrown() {
            true => Err(Fault::thrown()),
            false => Ok(()),
        }
    }

    /// An argument of the call.
    ///
    /// # Errors
    /// If C++ has passed what no value of the type is.
    ///
    /// # Safety
    /// Everything that `raw` points to can be read and called while the call lasts.
    pub unsafe fn argument<'c, T: Argument<'c>>(&'c self, raw: T::Raw) -> Result<T, Fault> {
        // SAFETY: the caller's.
        unsafe { T::from_raw(raw) }
    }
}

/// A type whose values an exported method may return.
///
/// # Safety
/// As for [`Passed`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned to C++",
    label = "not a value that both languages have",
    note = "numbers, `bool`, `usize`, `String`, `()`, an `Option` of a number and a `Result` of these can be returned",
    note = "no reference and no pointer leaves a method: return the value, or a copy of the text as a `String`"
)]
pub unsafe trait Returned: Sized {
    /// The value as it crosses.
    type Raw;
    /// The name of the type in descriptions.
    const NAME: &'static str;

    /// The value as it crosses.
    ///
    /// # Errors
    /// The error that the method has returned.
    fn into_raw(self) -> Result<Self::Raw, Fault>;
}

/// Refuses a place where no `T` can lie (PASS-2).
///
/// # Errors
/// If it is null, or is not aligned.
#[inline]
pub fn require_place<T>(at: *const T, what: &str) -> Result<(), Fault> {
    match !at.is_null() && at.is_aligned() {
        true => Ok(()),
        false => Err(no_place(at.addr(), what)),
    }
}

#[cold]
fn no_object(at: usize) -> Fault {
    Fault::invalid(format!(
        "an object does not lie at {at:#x}, which is null, not aligned, or not in the open pool of its type"
    ))
}

#[cold]
fn no_place(at: usize, what: &str) -> Fault {
    Fault::invalid(format!("{what} does not lie at {at:#x}, which is null or not aligned"))
}

macro_rules! numbers {
    ($($number:ident $option:literal),*) => { $(
        // SAFETY: C++ has the same number.
        unsafe impl Passed for $number {
            type Raw = $number;
            const NAME: &'static str = stringify!($number);

            fn from_raw(raw: $number) -> Result<$number, Fault> {
                Ok(raw)
            }
        }

        // SAFETY: as above.
        unsafe impl Returned for $number {
            type Raw = $number;
            const NAME: &'static str = stringify!($number);

            fn into_raw(self) -> Result<$number, Fault> {
                Ok(self)
            }
        }

        // SAFETY: as `RawOption` says.
        unsafe impl Returned for Option<$number> {
            type Raw = RawOption<$number>;
            const NAME: &'static str = $option;

            fn into_raw(self) -> Result<RawOption<$number>, Fault> {
                Ok(RawOption::new(self))
            }
        }
    )* };
}

/// A struct that both languages declare; `#[derive(Passed)]`.
///
/// # Safety
/// It is a number or a struct of numbers, and `OPTION` the name of an option of it.
pub unsafe trait Declared: Passed<Raw = Self> {
    /// The name of an option of it in descriptions.
    const OPTION: &'static str;
}

// SAFETY: as `RawOption` says.
unsafe impl<T: Declared> Returned for Option<T> {
    type Raw = RawOption<T>;
    const NAME: &'static str = T::OPTION;

    fn into_raw(self) -> Result<RawOption<T>, Fault> {
        Ok(RawOption::new(self))
    }
}

numbers!(
    u8 "Option<u8>", u16 "Option<u16>", u32 "Option<u32>", u64 "Option<u64>", usize "Option<usize>",
    i8 "Option<i8>", i16 "Option<i16>", i32 "Option<i32>", i64 "Option<i64>", isize "Option<isize>",
    f32 "Option<f32>", f64 "Option<f64>"
);

// SAFETY: a byte, of which 0 is false; C++ passes a byte as well.
unsafe impl Passed for bool {
    type Raw = u8;
    const NAME: &'static str = "bool";

    fn from_raw(raw: u8) -> Result<bool, Fault> {
        Ok(raw != 0)
    }
}

// SAFETY: as above.
unsafe impl Returned for bool {
    type Raw = u8;
    const NAME: &'static str = "bool";

    fn into_raw(self) -> Result<u8, Fault> {
        Ok(self.into())
    }
}

// SAFETY: C++ reads no bytes of it.
unsafe impl Returned for () {
    type Raw = u8;
    const NAME: &'static str = "()";

    fn into_raw(self) -> Result<u8, Fault> {
        Ok(0)
    }
}

// SAFETY: as the value; the error goes another way.
unsafe impl<T: Returned, E: std::fmt::Display> Returned for Result<T, E> {
    type Raw = T::Raw;
    const NAME: &'static str = T::NAME;

    fn into_raw(self) -> Result<T::Raw, Fault> {
        self.map_err(Fault::refused)?.into_raw()
    }
}

/// An option of a number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawOption<R: Copy> {
    is_some: u8,
    value: MaybeUninit<R>,
}

impl<R: Copy> RawOption<R> {
    fn new(value: Option<R>) -> RawOption<R> {
        RawOption { is_some: value.is_some().into(), value: value.map_or(MaybeUninit::uninit(), MaybeUninit::new) }
    }
}

/// Text of C++, for the length of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawText {
    bytes: *const u8,
    size: usize,
}

impl RawText {
    /// Text that is never freed.
    pub(crate) fn of(text: &'static str) -> RawText {
        RawText { bytes: text.as_ptr(), size: text.len() }
    }

    /// Bytes that C++ reads while they stay where they are.
    pub(crate) fn lent(bytes: &[u8]) -> RawText {
        RawText { bytes: bytes.as_ptr(), size: bytes.len() }
    }

    /// None.
    pub(crate) fn null() -> RawText {
        RawText { bytes: std::ptr::null(), size: 0 }
    }

    /// The bytes.
    ///
    /// # Errors
    /// If they lie at null.
    ///
    /// # Safety
    /// The bytes can be read for as long as the result is used.
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Fault> {
        if self.size == 0 {
            return Ok(&[]); // an empty `std::string_view` may point nowhere
        }
        if self.bytes.is_null() {
            return Err(Fault::invalid("a null pointer with a length"));
        }
        // SAFETY: the caller's.
        Ok(unsafe { std::slice::from_raw_parts(self.bytes, self.size) })
    }

    /// The text.
    ///
    /// # Errors
    /// If it is no UTF-8.
    ///
    /// # Safety
    /// The bytes can be read for as long as the result is used.
    pub unsafe fn read<'a>(self) -> Result<&'a str, Fault> {
        // SAFETY: the caller's.
        let bytes = unsafe { self.bytes() }?;
        std::str::from_utf8(bytes).map_err(|error| Fault::invalid(format!("a text is no UTF-8: {error}")))
    }
}

// SAFETY: a pointer and a length, as C++ passes them.
unsafe impl<'c> Argument<'c> for &'c str {
    type Raw = RawText;
    const NAME: &'static str = "str";

    unsafe fn from_raw(raw: RawText) -> Result<Self, Fault> {
        // SAFETY: the caller's.
        unsafe { raw.read() }
    }
}

/// Text or bytes that C++ copies and then gives back to [`free_string`].
#[repr(C)]
pub struct RawString {
    bytes: *mut u8,
    size: usize,
    capacity: usize,
}

impl RawString {
    pub(crate) fn of(bytes: Vec<u8>) -> RawString {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        RawString { bytes: bytes.as_mut_ptr(), size: bytes.len(), capacity: bytes.capacity() }
    }

    /// None; C++ does not give it back.
    pub(crate) fn null() -> RawString {
        RawString { bytes: std::ptr::null_mut(), size: 0, capacity: 0 }
    }
}

// SAFETY: three words, as C++ reads them.
unsafe impl Returned for String {
    type Raw = RawString;
    const NAME: &'static str = "String";

    fn into_raw(self) -> Result<RawString, Fault> {
        Ok(RawString::of(self.into_bytes()))
    }
}

/// Frees a text that a method has returned.
///
/// # Safety
/// It is null, or was returned once and is not used again.
pub(crate) unsafe extern "C" fn free_string(text: RawString) {
    if text.bytes.is_null() {
        return; // PASS-2
    }
    // SAFETY: the caller's: these are the parts of a vector.
    drop(unsafe { Vec::from_raw_parts(text.bytes, text.size, text.capacity) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text is given back as it was made: with its capacity, by which it was allocated.
    #[test]
    fn a_text_keeps_its_capacity() {
        let mut bytes = Vec::with_capacity(1000);
        bytes.extend_from_slice(b"text");
        let capacity = bytes.capacity();
        let raw = RawString::of(bytes);
        assert_eq!((raw.size, raw.capacity), (4, capacity));
        // SAFETY: given back once.
        unsafe { free_string(raw) };
    }

    /// Blocks of which none was freed lie at places of their own.
    #[test]
    fn texts_that_are_given_back_are_freed() {
        let places = (0..64).map(|_| {
            let raw = RawString::of(vec![1; 1 << 20]);
            let place = raw.bytes.addr();
            // SAFETY: given back once.
            unsafe { free_string(raw) };
            place
        });
        assert!(places.collect::<std::collections::BTreeSet<_>>().len() < 64);
    }
}
