//! `rust_decimal::Decimal`, by its documented serialisation of 16 bytes.

use super::{Storable, taken_out};
use crate::description::forms::Form;
use rust_decimal::Decimal;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Sign and scale, and a whole number of 96 bits.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawDecimal {
    flags: u32,
    low: u32,
    middle: u32,
    high: u32,
}

impl Storable for Decimal {
    type Raw = RawDecimal;
    const FORM: Form = Form::Decimal;

    fn to_raw(self) -> RawDecimal {
        zerocopy::transmute!(self.serialize())
    }

    fn of_raw(raw: &RawDecimal) -> Option<Decimal> {
        Some(Decimal::deserialize(zerocopy::transmute!(*raw)))
    }

    /// 1.0 is 1.00, and 0 is -0.
    fn hashed(raw: &RawDecimal) -> RawDecimal {
        let mut number = u128::from(raw.low) | u128::from(raw.middle) << 32 | u128::from(raw.high) << 64;
        let (mut scale, sign) = (raw.flags >> 16 & 0xff, raw.flags >> 31);
        while scale > 0 && number.is_multiple_of(10) {
            (number, scale) = (number / 10, scale - 1);
        }
        let flags = if number == 0 { 0 } else { sign << 31 | scale << 16 };
        RawDecimal { flags, low: number as u32, middle: (number >> 32) as u32, high: (number >> 64) as u32 }
    }
}

taken_out!(Decimal);
