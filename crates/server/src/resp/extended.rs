//! Numbers of 64 bits and an exponent of 15, in which Redis on x86-64 adds for INCRBYFLOAT: read as
//! `strtold` reads them, added, and written as `%.17Lf` without zeros at the end.
//!
//! Every step is exact and then rounded once, to the nearest number, ties to the even one; so the
//! texts are Redis's.

use super::double::{NumeralKind, highest_bits, numeral, rounded};
use super::natural::Natural;

/// Bits of a number.
const PRECISION: i64 = 64;
/// The exponent of the lowest bit of the smallest number.
const LOWEST: i64 = -16445;
/// The exponent of the highest bit of the largest number.
const HIGHEST: i64 = 16383;
/// The size of the largest text that is read.
pub(crate) const TEXT_SIZE_MAX: usize = 5 * 1024 - 1;
/// Digits behind the point.
const DIGITS: usize = 17;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// Above all others, or below them.
    Infinite,
    /// `bits` times 2 to the power of `exponent`. The highest bit is set, unless the number is zero
    /// or `exponent` the lowest.
    Finite { negative: bool, bits: u64, exponent: i64 },
}

/// Rounds a number whose lowest bit may stand for more below it.
fn finite(negative: bool, bits: u128, exponent: i64) -> Extended {
    let (bits, exponent) = rounded(bits, exponent, PRECISION, LOWEST);
    let magnitude = exponent + 63 - i64::from(bits.leading_zeros());
    if bits != 0 && magnitude > HIGHEST {
        return Extended::Infinite;
    }
    Extended::Finite { negative, bits, exponent }
}

impl Extended {
    /// Zero.
    pub(crate) const ZERO: Extended = Extended::Finite { negative: false, bits: 0, exponent: LOWEST };

    /// Reads a number; `None` for anything else, for NaN, and for what no number but infinity or
    /// zero is near to.
    pub(crate) fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() > TEXT_SIZE_MAX {
            return None;
        }
        let numeral = numeral(text)?;
        let (bits, exponent) = match &numeral.kind {
            NumeralKind::Infinite => return Some(Extended::Infinite),
            NumeralKind::Hexadecimal(digits) => highest_bits(digits),
            NumeralKind::Decimal(digits) => {
                decimal_bits(Natural::from_digits(digits.all()), digits.exponent - digits.part.len() as i64)?
            }
        };
        match finite(numeral.negative, bits, exponent) {
            Extended::Infinite => None,
            Extended::Finite { bits: 0, .. } if bits != 0 => None,
            number => Some(number),
        }
    }

    /// The sum; `None` if it is not finite.
    pub(crate) fn plus(self, other: Extended) -> Option<Extended> {
        let (Extended::Finite { .. }, Extended::Finite { .. }) = (self, other) else { return None };
        let (high, low) = if self.exponent() >= other.exponent() { (self, other) } else { (other, self) };
        if high.bits() == 0 {
            return Some(low);
        }
        // 62 bits below the higher number, of which the lowest stands for all that are lost: a
        // difference of so distant numbers has one leading zero more at most.
        const GUARD: i64 = 62;
        let (exponent, distance) = (high.exponent() - GUARD, high.exponent() - low.exponent());
        let (high_bits, low_bits) = (u128::from(high.bits()) << GUARD, u128::from(low.bits()) << GUARD);
        let low_bits = match distance {
            ..128 => low_bits >> distance | u128::from(low_bits & ((1 << distance) - 1) != 0),
            _ => u128::from(low_bits != 0),
        };
        let (negative, bits) = match (high.negative() == low.negative(), high_bits >= low_bits) {
            (true, _) => (high.negative(), high_bits + low_bits),
            (false, true) => (high.negative() && high_bits > low_bits, high_bits - low_bits),
            (false, false) => (low.negative(), low_bits - high_bits),
        };
        Some(finite(negative, bits, exponent)).filter(|sum| *sum != Extended::Infinite)
    }

    /// 1000 times the number, rounded up to a whole one; `None` if that is no `i64`.
    pub(crate) fn thousandfold(self) -> Option<i64> {
        let Extended::Finite { negative, bits, exponent } = self else { return None };
        let (_, bits, exponent) = match finite(negative, u128::from(bits) * 1000, exponent) {
            Extended::Infinite => return None,
            number => number.parts(),
        };
        // The highest bit is set, unless the number is tiny: exponents above 0 are beyond an `i64`.
        let (whole, has_part) = match exponent {
            0 => (bits, false),
            -63..0 => (bits >> -exponent, bits & ((1 << -exponent) - 1) != 0),
            ..-63 => (0, bits != 0),
            _ => return None,
        };
        let whole = i128::from(whole);
        i64::try_from(if negative { -whole } else { whole + i128::from(has_part) }).ok()
    }

    fn parts(self) -> (bool, u64, i64) {
        match self {
            Extended::Finite { negative, bits, exponent } => (negative, bits, exponent),
            Extended::Infinite => (false, 0, 0),
        }
    }

    fn negative(self) -> bool {
        self.parts().0
    }

    fn bits(self) -> u64 {
        self.parts().1
    }

    fn exponent(self) -> i64 {
        self.parts().2
    }

    /// With 17 digits behind the point, of which zeros at the end are left out.
    pub(crate) fn text(self) -> String {
        let (negative, bits, exponent) = self.parts();
        let text = match usize::try_from(exponent) {
            Ok(exponent) => Natural::shifted(bits, exponent).text(),
            Err(_) => {
                let scale = 10_u128.pow(DIGITS as u32);
                let scaled = halved(u128::from(bits) * scale, exponent.unsigned_abs());
                let text = format!("{}.{:0DIGITS$}", scaled / scale, scaled % scale);
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }
        };
        if negative && text != "0" { format!("-{text}") } else { text }
    }
}

/// Divided by 2 to the power of `count`, to the nearest whole number, ties to the even one.
fn halved(value: u128, count: u64) -> u128 {
    match count {
        0 => value,
        1..=127 => {
            let (quotient, rest, half) = (value >> count, value & ((1 << count) - 1), 1_u128 << (count - 1));
            quotient + u128::from(rest > half || rest == half && quotient & 1 == 1)
        }
        _ => 0, // values are below 2^121
    }
}

/// The highest bits of `digits` times 10 to the power of `exponent`, and the exponent of the lowest
/// one, which may stand for more below it; `None` if that is beyond any number.
fn decimal_bits(mut digits: Natural, exponent: i64) -> Option<(u128, i64)> {
    /// No number has an exponent of 10 beyond this.
    const EXPONENT_MAX: i64 = 5000;
    /// Bits of a quotient: more than those of a number, and one for ties.
    const QUOTIENT: i64 = 70;
    if digits.is_zero() {
        return Some((0, 0));
    }
    // A digit has a bit at least and four at most.
    let bits = digits.bits() as i64;
    if exponent > EXPONENT_MAX || exponent + bits < -EXPONENT_MAX {
        return None;
    }
    if exponent >= 0 {
        digits.multiply_by_ten(exponent as usize);
        return Some(digits.highest_bits());
    }
    let mut divisor = Natural::shifted(1, 0);
    divisor.multiply_by_ten(exponent.unsigned_abs() as usize);
    let shift = divisor.bits() as i64 + QUOTIENT - bits;
    if shift >= 0 {
        digits.shift(shift as usize)
    } else {
        divisor.shift(shift.unsigned_abs() as usize)
    }
    let quotient = digits.divide(divisor, QUOTIENT as usize + 1);
    Some((quotient << 1 | u128::from(!digits.is_zero()), -shift - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        Extended::parse(one.as_bytes())?.plus(Extended::parse(other.as_bytes())?).map(Extended::text)
    }

    #[test]
    fn sums_are_those_of_64_bits() {
        for (one, other, expect) in [
            ("0", "0", "0"),
            ("-0", "-0", "0"),
            ("10.5", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("3", "-3", "0"),
            ("5.0e3", "200", "5200"),
            ("1e-17", "0", "0.00000000000000001"),
            ("4e-18", "0", "0"),
            ("-4e-18", "0", "0"),
            ("-1.5", "1", "-0.5"),
            ("0x1p4", "0x.8", "16.5"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("18446744073709551616", "3", "18446744073709551620"),
            ("18446744073709551616", "-1", "18446744073709551615"),
            ("36893488147419103232", "-1", "36893488147419103232"),
            ("1e20", "1e-20", "100000000000000000000"),
            ("1e22", "-1e22", "0"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(expect), "{one} + {other}");
        }
        let large = sum("1e4932", "0").expect("a number");
        assert!(large.len() == 4933 && large.starts_with("1000000000000000000"), "{large}");
        assert_eq!(sum("1.1e4932", "1.1e4932"), None, "an overflow");
        assert_eq!(sum("inf", "1"), None);
    }

    #[test]
    fn thousandfolds_are_rounded_up() {
        for (text, value) in [
            ("0", Some(0)),
            ("1e-400", Some(1)),
            ("-0.0001", Some(0)),
            ("-0.0011", Some(-1)),
            ("0x1p-10", Some(1)),
            ("1.0001", Some(1001)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("-9223372036854775.808", Some(i64::MIN + 1)),
            ("18446744073709552", None),
            ("1e400", None),
        ] {
            assert_eq!(Extended::parse(text.as_bytes()).unwrap().thousandfold(), value, "{text}");
        }
        assert_eq!(Extended::Infinite.thousandfold(), None);
    }

    #[test]
    fn only_numbers_are_read() {
        for text in ["", " 1", "1 ", "x", "nan", "1e5000", "1e4933", "1e-5000", "1e99999999999", "0x1p-16447", "1e"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(b"-Inf"), Some(Extended::Infinite));
        assert_eq!(Extended::parse(b"0e-9999").map(Extended::text).as_deref(), Some("0"));
        assert!(Extended::parse(&[b'0'; TEXT_SIZE_MAX]).is_some());
        assert!(Extended::parse(&[b'0'; TEXT_SIZE_MAX + 1]).is_none());
        let smallest = Extended::Finite { negative: false, bits: 1, exponent: LOWEST };
        assert_eq!(Extended::parse(b"0x1p-16445"), Some(smallest));
        assert_eq!(Extended::parse(b"3.7e-4951"), Some(smallest));
        assert_eq!(Extended::parse(b"1.8e-4951"), None, "less than half of the smallest");
    }
}
