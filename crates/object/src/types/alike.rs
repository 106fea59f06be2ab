//! [`PResult`], [`PBound`], [`PRangeInclusive`]: types of the standard library whose layout no
//! compiler promises, with a layout that is fixed.

use crate::PSafe;
use std::ops::{Bound, RangeBounds, RangeInclusive};

/// As `Result`, in a pool: converted by `From` both ways, or looked at by [`PResult::as_result`].
///
/// ```
/// use everbyte_object::PResult;
///
/// let stored: PResult<u32, u8> = Ok(7).into();
/// assert_eq!(stored.as_result(), Ok(&7));
/// assert_eq!(Result::from(stored), Ok(7));
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize, crate::PDeserialize))]
#[derive(PSafe, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PResult<T, E> {
    /// It went well.
    Ok(T),
    /// It failed.
    Err(E),
}

impl<T, E> PResult<T, E> {
    /// References to its parts.
    pub fn as_result(&self) -> Result<&T, &E> {
        match self {
            PResult::Ok(value) => Ok(value),
            PResult::Err(error) => Err(error),
        }
    }
}

impl<T, E> From<Result<T, E>> for PResult<T, E> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => PResult::Ok(value),
            Err(error) => PResult::Err(error),
        }
    }
}

impl<T, E> From<PResult<T, E>> for Result<T, E> {
    fn from(result: PResult<T, E>) -> Self {
        match result {
            PResult::Ok(value) => Ok(value),
            PResult::Err(error) => Err(error),
        }
    }
}

/// As `Bound`, in a pool: converted by `From` both ways.
#[cfg_attr(feature = "serde", derive(serde::Serialize, crate::PDeserialize))]
#[derive(PSafe, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PBound<T> {
    /// The value is inside.
    Included(T),
    /// The value is outside.
    Excluded(T),
    /// No end.
    Unbounded,
}

impl<T> PBound<T> {
    /// A reference to its value, as a bound.
    pub fn as_bound(&self) -> Bound<&T> {
        match self {
            PBound::Included(value) => Bound::Included(value),
            PBound::Excluded(value) => Bound::Excluded(value),
            PBound::Unbounded => Bound::Unbounded,
        }
    }
}

impl<T> From<Bound<T>> for PBound<T> {
    fn from(bound: Bound<T>) -> Self {
        match bound {
            Bound::Included(value) => PBound::Included(value),
            Bound::Excluded(value) => PBound::Excluded(value),
            Bound::Unbounded => PBound::Unbounded,
        }
    }
}

impl<T> From<PBound<T>> for Bound<T> {
    fn from(bound: PBound<T>) -> Self {
        match bound {
            PBound::Included(value) => Bound::Included(value),
            PBound::Excluded(value) => Bound::Excluded(value),
            PBound::Unbounded => Bound::Unbounded,
        }
    }
}

/// As `RangeInclusive`, in a pool: converted by `From` both ways. It is no iterator; one that was
/// converted from a range that had been iterated begins where that one stood.
#[cfg_attr(feature = "serde", derive(serde::Serialize, crate::PDeserialize))]
#[derive(PSafe, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct PRangeInclusive<T> {
    /// The first value.
    pub start: T,
    /// The last value.
    pub end: T,
}

impl<T> From<RangeInclusive<T>> for PRangeInclusive<T> {
    fn from(range: RangeInclusive<T>) -> Self {
        let (start, end) = range.into_inner();
        PRangeInclusive { start, end }
    }
}

impl<T> From<PRangeInclusive<T>> for RangeInclusive<T> {
    fn from(range: PRangeInclusive<T>) -> Self {
        RangeInclusive::new(range.start, range.end)
    }
}

impl<T> RangeBounds<T> for PRangeInclusive<T> {
    fn start_bound(&self) -> Bound<&T> {
        Bound::Included(&self.start)
    }

    fn end_bound(&self) -> Bound<&T> {
        Bound::Included(&self.end)
    }
}
