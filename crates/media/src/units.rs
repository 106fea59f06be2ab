//! [`Offset`], a position in a store, and [`Length`], a number of bytes: two units that a `u64`
//! confuses.
//!
//! A plain number becomes either where a call asks for it; a number with a unit never becomes the
//! other one:
//!
//! ```
//! # use everbyte_media::{Length, Media, Offset, Options};
//! # let media = Media::anonymous(1 << 16, &Options::default())?;
//! let (at, len) = (Offset::new(4096), Length::new(64));
//! media.write(at, &[7; 64]);
//! media.flush(at, len);
//! media.flush(4096, 64);
//! assert_eq!(at + len - at, len);
//! # Ok::<(), everbyte_media::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! # use everbyte_media::{Length, Media, Offset, Options};
//! # let media = Media::anonymous(1 << 16, &Options::default()).unwrap();
//! let (at, len) = (Offset::new(4096), Length::new(64));
//! media.flush(len, at);
//! ```
//!
//! Design: docs/design/units.md
//!
//! Arithmetic is that of `u64`: it panics on overflow in debug builds. Numbers read from media go
//! through [`Offset::checked_add`] and [`Media::holds`](crate::Media::holds) first.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Range, Rem, Sub, SubAssign};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A position in a store: bytes from its beginning.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Offset(u64);

/// A number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Length(u64);

impl Offset {
    /// The beginning of the store.
    pub const ZERO: Offset = Offset(0);
    /// The largest offset, for ranges without an end.
    pub const MAX: Offset = Offset(u64::MAX);

    /// `bytes` from the beginning of the store.
    #[inline(always)]
    pub const fn new(bytes: u64) -> Offset {
        Offset(bytes)
    }

    /// The bytes from the beginning of the store.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether it is 0, which layouts use for "none".
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether it is a multiple of `align`, a power of two.
    #[inline(always)]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }

    /// Whether it is a multiple of `unit`.
    #[inline(always)]
    pub const fn is_multiple_of(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }

    /// `len` bytes on, or the largest offset: for numbers from media that are checked afterwards.
    #[inline(always)]
    pub fn saturating_add(self, len: impl Into<Length>) -> Offset {
        Offset(self.0.saturating_add(len.into().0))
    }

    /// The largest multiple of `align`, a power of two, up to here.
    #[inline(always)]
    pub const fn align_down(self, align: u64) -> Offset {
        Offset(self.0 & !(align - 1))
    }

    /// The smallest multiple of `align`, a power of two, from here.
    #[inline(always)]
    pub const fn align_up(self, align: u64) -> Offset {
        Offset(self.0.next_multiple_of(align))
    }

    /// `len` bytes on; `None` past the end of `u64`.
    #[inline(always)]
    pub fn checked_add(self, len: impl Into<Length>) -> Option<Offset> {
        self.0.checked_add(len.into().0).map(Offset)
    }

    /// `len` bytes back; `None` before the beginning of the store.
    #[inline(always)]
    pub fn checked_sub(self, len: impl Into<Length>) -> Option<Offset> {
        self.0.checked_sub(len.into().0).map(Offset)
    }

    /// `len` bytes on, modulo 2⁶⁴: for numbers from media that are checked afterwards.
    #[inline(always)]
    pub fn wrapping_add(self, len: impl Into<Length>) -> Offset {
        Offset(self.0.wrapping_add(len.into().0))
    }

    /// The bytes from `start` to here, modulo 2⁶⁴.
    #[inline(always)]
    pub const fn wrapping_sub(self, start: Offset) -> Length {
        Length(self.0.wrapping_sub(start.0))
    }

    /// The range of `len` bytes from here.
    #[inline(always)]
    pub fn range(self, len: impl Into<Length>) -> Range<Offset> {
        self..self + len.into()
    }
}

impl Length {
    /// No bytes.
    pub const ZERO: Length = Length(0);

    /// `bytes` bytes.
    #[inline(always)]
    pub const fn new(bytes: u64) -> Length {
        Length(bytes)
    }

    /// The size of a `T`.
    #[inline(always)]
    pub const fn of<T>() -> Length {
        Length(size_of::<T>() as u64)
    }

    /// The number of bytes.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes, for slices.
    #[inline(always)]
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }

    /// Whether it is 0.
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether it is a multiple of `unit`.
    #[inline(always)]
    pub const fn is_multiple_of(self, unit: u64) -> bool {
        self.0.is_multiple_of(unit)
    }

    /// The smallest multiple of `align`, a power of two, from here.
    #[inline(always)]
    pub const fn align_up(self, align: u64) -> Length {
        Length(self.0.next_multiple_of(align))
    }

    /// `more` bytes more; `None` past the end of `u64`.
    #[inline(always)]
    pub fn checked_add(self, more: impl Into<Length>) -> Option<Length> {
        self.0.checked_add(more.into().0).map(Length)
    }
}

impl From<u64> for Offset {
    #[inline(always)]
    fn from(bytes: u64) -> Offset {
        Offset(bytes)
    }
}

impl From<u64> for Length {
    #[inline(always)]
    fn from(bytes: u64) -> Length {
        Length(bytes)
    }
}

impl<L: Into<Length>> Add<L> for Offset {
    type Output = Offset;

    #[inline(always)]
    fn add(self, len: L) -> Offset {
        Offset(self.0 + len.into().0)
    }
}

impl<L: Into<Length>> AddAssign<L> for Offset {
    #[inline(always)]
    fn add_assign(&mut self, len: L) {
        self.0 += len.into().0;
    }
}

impl<L: Into<Length>> SubAssign<L> for Offset {
    #[inline(always)]
    fn sub_assign(&mut self, len: L) {
        self.0 -= len.into().0;
    }
}

impl Sub for Offset {
    type Output = Length;

    #[inline(always)]
    fn sub(self, start: Offset) -> Length {
        Length(self.0 - start.0)
    }
}

impl Sub<Length> for Offset {
    type Output = Offset;

    #[inline(always)]
    fn sub(self, len: Length) -> Offset {
        Offset(self.0 - len.0)
    }
}

impl Sub<u64> for Offset {
    type Output = Offset;

    #[inline(always)]
    fn sub(self, len: u64) -> Offset {
        Offset(self.0 - len)
    }
}

impl Rem<u64> for Offset {
    type Output = u64;

    #[inline(always)]
    fn rem(self, align: u64) -> u64 {
        self.0 % align
    }
}

impl<L: Into<Length>> Add<L> for Length {
    type Output = Length;

    #[inline(always)]
    fn add(self, more: L) -> Length {
        Length(self.0 + more.into().0)
    }
}

impl<L: Into<Length>> AddAssign<L> for Length {
    #[inline(always)]
    fn add_assign(&mut self, more: L) {
        self.0 += more.into().0;
    }
}

impl<L: Into<Length>> Sub<L> for Length {
    type Output = Length;

    #[inline(always)]
    fn sub(self, less: L) -> Length {
        Length(self.0 - less.into().0)
    }
}

impl Mul<u64> for Length {
    type Output = Length;

    #[inline(always)]
    fn mul(self, times: u64) -> Length {
        Length(self.0 * times)
    }
}

impl Div<u64> for Length {
    type Output = u64;

    #[inline(always)]
    fn div(self, unit: u64) -> u64 {
        self.0 / unit
    }
}

impl Rem<u64> for Length {
    type Output = u64;

    #[inline(always)]
    fn rem(self, unit: u64) -> u64 {
        self.0 % unit
    }
}

/// `u64` compares with both, so that tests and bounds stay plain numbers.
macro_rules! compares_with_numbers {
    ($($unit:ident)*) => {$(
        impl PartialEq<u64> for $unit {
            #[inline(always)]
            fn eq(&self, other: &u64) -> bool {
                self.0 == *other
            }
        }

        impl PartialOrd<u64> for $unit {
            #[inline(always)]
            fn partial_cmp(&self, other: &u64) -> Option<std::cmp::Ordering> {
                self.0.partial_cmp(other)
            }
        }

        impl fmt::Debug for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::LowerHex for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    )*};
}

compares_with_numbers!(Offset Length);
