//! [`Stored`]: a value of a type whose crate promises no layout, in a form of this crate's own.
//!
//! Invariants
//!   STORED-1  The form is made from a value alone, so other bits are damage: they are met as
//!             `None` or a panic, never as a value of the type.

#[cfg(feature = "rust_decimal")]
mod decimal;
#[cfg(feature = "jiff")]
mod jiff;
mod socket;
#[cfg(feature = "uuid")]
mod uuid;

use crate::description::forms::Form;
use crate::{MemPool, Niche, PSafe, Schema, Tracer, TypeName};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type whose values [`Stored`] keeps: `SocketAddr`, `SocketAddrV6`; with the feature `jiff` its
/// `Timestamp`, `SignedDuration`, `civil::Date`, `civil::Time`, `civil::DateTime`; with the feature
/// `rust_decimal` its `Decimal`.
#[diagnostic::on_unimplemented(
    message = "`Stored` has no form for `{Self}`",
    label = "not a type that `Stored` keeps",
    note = "keep its parts in a struct or an enum of your own with `#[derive(PSafe)]`; times need the feature `jiff`, decimals the feature `rust_decimal`"
)]
pub trait Storable: Copy + Ord + 'static {
    /// Its form in a pool.
    #[doc(hidden)]
    type Raw: Raw;

    #[doc(hidden)]
    const FORM: Form;

    #[doc(hidden)]
    fn to_raw(self) -> Self::Raw;

    /// The value of a valid form.
    #[doc(hidden)]
    fn of_raw(raw: &Self::Raw) -> Option<Self>;

    /// The form that is hashed: equal for equal values.
    #[doc(hidden)]
    fn hashed(raw: &Self::Raw) -> Self::Raw {
        *raw
    }
}

/// Integers without padding.
#[doc(hidden)]
pub trait Raw: Copy + Hash + FromBytes + IntoBytes + Immutable + 'static {}
impl<T: Copy + Hash + FromBytes + IntoBytes + Immutable + 'static> Raw for T {}

/// A value of a foreign type in a pool: plain integers on media, the foreign type in the program.
///
/// Compares as the foreign type. Its hash is this crate's, so versions of the foreign crate find
/// each other's keys.
///
/// ```
/// use everbyte_object::Stored;
/// use std::net::SocketAddr;
///
/// let address: SocketAddr = "[::1]:80".parse()?;
/// let stored = Stored::new(address);              // or `address.into()`
/// assert_eq!((stored.get(), stored), (address, address.into()));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[repr(transparent)]
pub struct Stored<T: Storable>(T::Raw);

impl<T: Storable> Stored<T> {
    /// The form of `value`.
    pub fn new(value: T) -> Stored<T> {
        Stored(value.to_raw())
    }

    /// The value.
    ///
    /// # Panics
    /// If the bytes are no value, which damage alone makes of them: `everbyte check --deep` names
    /// the place.
    #[track_caller]
    pub fn get(self) -> T {
        let Some(value) = self.try_get() else {
            panic!("damaged: the bytes of a `{}` are no value: run `everbyte check --deep`", T::FORM.name());
        };
        value
    }

    /// The value; `None` if the bytes are damaged.
    pub fn try_get(self) -> Option<T> {
        if T::FORM.is_valid(self.0.as_bytes()) { T::of_raw(&self.0) } else { None }
    }
}

// SAFETY: integers without padding (FORM-1), described field by field.
unsafe impl<T: Storable, P: MemPool> PSafe<P> for Stored<T> {
    type At<'x> = Stored<T>;
    type Outside = Stored<T>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        T::FORM.describe::<Self, P>(schema)
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; any bits are integers.
        let raw = unsafe { this.cast::<T::Raw>().read() };
        if !T::FORM.is_valid(raw.as_bytes()) {
            tracer.invalid(this.cast(), &format!("not a `{}`", T::FORM.name()));
        }
    }
}

impl<T: Storable> Clone for Stored<T> {
    fn clone(&self) -> Stored<T> {
        *self
    }
}

impl<T: Storable> Copy for Stored<T> {}

impl<T: Storable> From<T> for Stored<T> {
    fn from(value: T) -> Stored<T> {
        Stored::new(value)
    }
}

impl<T: Storable> PartialEq for Stored<T> {
    fn eq(&self, other: &Stored<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Storable> Eq for Stored<T> {}

impl<T: Storable> PartialOrd for Stored<T> {
    fn partial_cmp(&self, other: &Stored<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Storable> Ord for Stored<T> {
    fn cmp(&self, other: &Stored<T>) -> Ordering {
        self.try_get().cmp(&other.try_get())
    }
}

impl<T: Storable> Hash for Stored<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if T::FORM.is_valid(self.0.as_bytes()) {
            T::hashed(&self.0).hash(state);
        }
    }
}

impl<T: Storable + fmt::Debug> fmt::Debug for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_get() {
            Some(value) => value.fmt(f),
            None => f.write_str("(damaged)"),
        }
    }
}

impl<T: Storable + fmt::Display> fmt::Display for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_get() {
            Some(value) => value.fmt(f),
            None => f.write_str("(damaged)"),
        }
    }
}

#[cfg(feature = "serde")]
impl<T: Storable + serde::Serialize> serde::Serialize for Stored<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.try_get() {
            Some(value) => value.serialize(serializer),
            None => Err(serde::ser::Error::custom(format_args!("the bytes of a `{}` are no value", T::FORM.name()))),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de, T: Storable + serde::Deserialize<'de>> serde::Deserialize<'de> for Stored<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Stored<T>, D::Error> {
        T::deserialize(deserializer).map(Stored::new)
    }
}

/// `From` a form to its foreign type.
macro_rules! taken_out {
    ($($Foreign:ty),*) => { $(
        impl From<crate::Stored<$Foreign>> for $Foreign {
            /// As [`Stored::get`](crate::Stored::get).
            fn from(stored: crate::Stored<$Foreign>) -> $Foreign {
                stored.get()
            }
        }
    )* };
}
use taken_out;
