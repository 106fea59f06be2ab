//! Times of `jiff`, which promises no layout of them.
//!
//! `Span` is not here: it has neither an order nor equality, and its ten units are seldom all
//! wanted. Keep the units that a program uses in a struct of its own, or a `SignedDuration`.

use super::{Storable, taken_out};
use crate::description::forms::Form;
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Seconds, and nanoseconds that are added to them.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawSeconds {
    seconds: i64,
    nanoseconds: i64,
}

const SECOND: i128 = 1_000_000_000;

impl Storable for Timestamp {
    type Raw = RawSeconds;
    const FORM: Form = Form::Timestamp;

    fn to_raw(self) -> RawSeconds {
        let all = self.as_nanosecond();
        RawSeconds { seconds: all.div_euclid(SECOND) as i64, nanoseconds: all.rem_euclid(SECOND) as i64 }
    }

    fn of_raw(raw: &RawSeconds) -> Option<Timestamp> {
        Timestamp::from_nanosecond(i128::from(raw.seconds) * SECOND + i128::from(raw.nanoseconds)).ok()
    }
}

impl Storable for SignedDuration {
    type Raw = RawSeconds;
    const FORM: Form = Form::SignedDuration;

    fn to_raw(self) -> RawSeconds {
        RawSeconds { seconds: self.as_secs(), nanoseconds: self.subsec_nanos().into() }
    }

    fn of_raw(raw: &RawSeconds) -> Option<SignedDuration> {
        Some(SignedDuration::new(raw.seconds, raw.nanoseconds.try_into().ok()?))
    }
}

/// A day.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawDate {
    year: i16,
    month: u8,
    day: u8,
}

/// A time of a day.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawTime {
    hour: u8,
    minute: u8,
    second: u8,
    zero: u8,
    nanosecond: u32,
}

/// A day and a time.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawDateTime {
    date: RawDate,
    time: RawTime,
}

impl Storable for Date {
    type Raw = RawDate;
    const FORM: Form = Form::Date;

    fn to_raw(self) -> RawDate {
        RawDate { year: self.year(), month: self.month().cast_unsigned(), day: self.day().cast_unsigned() }
    }

    fn of_raw(raw: &RawDate) -> Option<Date> {
        Date::new(raw.year, raw.month.cast_signed(), raw.day.cast_signed()).ok()
    }
}

impl Storable for Time {
    type Raw = RawTime;
    const FORM: Form = Form::Time;

    fn to_raw(self) -> RawTime {
        RawTime {
            hour: self.hour().cast_unsigned(),
            minute: self.minute().cast_unsigned(),
            second: self.second().cast_unsigned(),
            zero: 0,
            nanosecond: self.subsec_nanosecond().cast_unsigned(),
        }
    }

    fn of_raw(raw: &RawTime) -> Option<Time> {
        let [hour, minute, second] = [raw.hour, raw.minute, raw.second].map(u8::cast_signed);
        Time::new(hour, minute, second, raw.nanosecond.cast_signed()).ok()
    }
}

impl Storable for DateTime {
    type Raw = RawDateTime;
    const FORM: Form = Form::DateTime;

    fn to_raw(self) -> RawDateTime {
        RawDateTime { date: self.date().to_raw(), time: self.time().to_raw() }
    }

    fn of_raw(raw: &RawDateTime) -> Option<DateTime> {
        Some(DateTime::from_parts(Date::of_raw(&raw.date)?, Time::of_raw(&raw.time)?))
    }
}

taken_out!(Timestamp, SignedDuration, Date, Time, DateTime);
