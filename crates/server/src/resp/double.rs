//! Doubles as the protocol writes them.
//!
//! Reading is as in C (`strtod`): decimal, hexadecimal with `p`, `inf` and `infinity` in any case,
//! rounded to the nearest double, ties to the even one. Writing is C's `%.17g`: 17 digits hold
//! every double.

/// A number as text, read but not rounded yet.
pub(super) struct Numeral<'t> {
    pub negative: bool,
    pub kind: NumeralKind<'t>,
}

/// The forms of a number.
pub(super) enum NumeralKind<'t> {
    /// Above all numbers.
    Infinite,
    /// Decimal digits.
    Decimal(Digits<'t>),
    /// Hexadecimal digits.
    Hexadecimal(Digits<'t>),
}

/// Digits around a point, and the exponent behind them: of 10, or of 2 if the digits are
/// hexadecimal.
pub(super) struct Digits<'t> {
    pub whole: &'t [u8],
    pub part: &'t [u8],
    pub exponent: i64,
}

/// An exponent beyond any use; texts of 512 MiB cannot bring it back.
const EXPONENT_MAX: i64 = 1 << 40;

impl<'t> Digits<'t> {
    fn read(text: &'t [u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<Digits<'t>> {
        let leading = |text: &'t [u8]| text.split_at(text.iter().take_while(|byte| is_digit(byte)).count());
        let (whole, rest) = leading(text);
        let (part, rest) = match rest {
            [b'.', rest @ ..] => leading(rest),
            _ => (&[][..], rest),
        };
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [first, exponent @ ..] if first.eq_ignore_ascii_case(&mark) => {
                let (negative, digits) = signed(exponent);
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return None;
                }
                let add = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
                let exponent = digits.iter().fold(0, add);
                if negative { -exponent } else { exponent }
            }
            _ => return None,
        };
        Some(Digits { whole, part, exponent })
    }

    /// All digits.
    pub(super) fn all(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.iter().chain(self.part).map(|byte| match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        })
    }
}

fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// Reads a text that is a number from its first byte to its last; `None` for others, and NaN.
pub(super) fn numeral(text: &[u8]) -> Option<Numeral<'_>> {
    let (negative, rest) = signed(text);
    let kind = match rest {
        [b'0', b'x' | b'X', digits @ ..] => {
            NumeralKind::Hexadecimal(Digits::read(digits, u8::is_ascii_hexdigit, b'p')?)
        }
        _ if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") => NumeralKind::Infinite,
        _ => NumeralKind::Decimal(Digits::read(rest, u8::is_ascii_digit, b'e')?),
    };
    Some(Numeral { negative, kind })
}

/// The highest bits of hexadecimal digits and the exponent of their lowest, which also stands for
/// all below it.
pub(super) fn highest_bits(digits: &Digits<'_>) -> (u128, i64) {
    let mut exponent = digits.exponent - 4 * digits.part.len() as i64;
    let mut bits = 0_u128;
    for digit in digits.all() {
        if bits >> 124 == 0 {
            bits = bits << 4 | u128::from(digit);
        } else {
            bits |= u128::from(digit != 0);
            exponent += 4;
        }
    }
    (bits, exponent)
}

/// Rounds `bits` times 2 to the power of `exponent` to `precision` bits, at most 64, of which none
/// has an exponent below `lowest`; to the nearest, ties to the even one. The lowest bit may stand
/// for more below it. The highest bit of the result is at the precision, unless the exponent is the
/// lowest.
pub(super) fn rounded(bits: u128, exponent: i64, precision: i64, lowest: i64) -> (u64, i64) {
    if bits == 0 {
        return (0, lowest);
    }
    let magnitude = exponent + 127 - i64::from(bits.leading_zeros());
    let least = (magnitude - precision + 1).max(lowest);
    let (high, up) = match least - exponent {
        shift @ ..=0 => (bits << -shift, false),
        shift @ 1..=128 => {
            let high = bits.checked_shr(shift as u32).unwrap_or(0);
            let (low, half) = (bits << (128 - shift), 1 << 127);
            (high, low > half || low == half && high & 1 == 1)
        }
        _ => (0, false),
    };
    let high = high + u128::from(up);
    if high >> precision == 1 { ((high >> 1) as u64, least + 1) } else { (high as u64, least) }
}

/// The double that hexadecimal digits mean.
fn double_of(digits: &Digits<'_>) -> f64 {
    let (bits, exponent) = highest_bits(digits);
    let (bits, exponent) = rounded(bits, exponent, 53, -1074);
    // Exact, in two steps that are normal doubles or the result itself.
    let exponent = exponent.min(1024) as i32;
    let half = exponent / 2;
    bits as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

fn nearest(numeral: &Numeral<'_>, text: &[u8]) -> Option<f64> {
    let value = match &numeral.kind {
        NumeralKind::Infinite => f64::INFINITY,
        NumeralKind::Hexadecimal(digits) => double_of(digits),
        NumeralKind::Decimal(_) => str::from_utf8(signed(text).1).ok()?.parse().ok()?,
    };
    Some(if numeral.negative { -value } else { value })
}

/// Reads a double; `None` for anything else, for NaN, and for what no double but infinity or zero
/// is near to.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let numeral = numeral(text)?;
    let value = nearest(&numeral, text)?;
    let lost = match &numeral.kind {
        NumeralKind::Infinite => false,
        NumeralKind::Decimal(digits) | NumeralKind::Hexadecimal(digits) => {
            value.is_infinite() || value == 0.0 && digits.all().any(|digit| digit != 0)
        }
    };
    (!lost).then_some(value)
}

/// Reads a double as bounds of ranges are read: blanks before it are passed over, nothing is zero,
/// and a zero byte is the end.
pub(crate) fn parse_double_loosely(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    nearest(&numeral(text)?, text)
}

/// A double as `double_text` writes it, whole numbers up to 2^62 with all their digits.
pub(crate) fn whole_text(value: f64) -> String {
    let whole = value.trunc() == value && value.abs() <= (1_u64 << 62) as f64 && value.to_bits() != 1 << 63;
    if whole { (value as i64).to_string() } else { double_text(value) }
}

/// A double with 17 digits, as `%.17g` writes it.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits.to_string(),
    };
    if (-4..17).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (16 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, value) in [
            ("0", Some(0.0)),
            ("1.5", Some(1.5)),
            ("+1.", Some(1.0)),
            ("-.5e1", Some(-5.0)),
            ("1E-3", Some(0.001)),
            ("007", Some(7.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("0X.8p1", Some(1.0)),
            ("-0x1p-1074", Some(-5e-324)),
            ("0x1.fffffffffffff7p0", Some(1.999_999_999_999_999_8)),
            ("0x1.fffffffffffff8p0", Some(2.0)),
            ("0x1.00000000000008p0", Some(1.0)),
            ("0x1.000000000000080000000001p0", Some(1.000_000_000_000_000_2)),
            ("0x1p1023", Some(f64::MAX / 2.0 + 2_f64.powi(969))),
            ("0x3p-1075", Some(1e-323)),
            ("0x1p1024", None),
            ("0x1p-1076", None),
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("1e-320", Some(1e-320)),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("1e99999999999999999999", None),
            ("", None),
            (".", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            ("0x", None),
            ("0x1p", None),
            ("0x1e", Some(30.0)),
            ("nan", None),
            ("-nan(1)", None),
            (" 1", None),
            ("1 ", None),
            ("--1", None),
            ("1\0", None),
            ("infinit", None),
        ] {
            assert_eq!(parse_double(text.as_bytes()), value, "{text:?}");
        }
        assert!(parse_double(b"-0").is_some_and(|zero| zero.is_sign_negative()));
    }

    #[test]
    fn bounds_are_read_loosely() {
        for (text, value) in [
            ("", Some(0.0)),
            ("\0rest", Some(0.0)),
            (" \t5", Some(5.0)),
            (" ", None),
            ("5 ", None),
            ("5\0x", Some(5.0)),
            ("1e400", Some(f64::INFINITY)),
            ("-0x1p2000", Some(f64::NEG_INFINITY)),
            ("1e-400", Some(0.0)),
            ("nan", None),
        ] {
            assert_eq!(parse_double_loosely(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn whole_numbers_are_written_with_all_digits() {
        for (value, text) in [
            (1e17, "100000000000000000"),
            (-(2_f64.powi(62)), "-4611686018427387904"),
            (2_f64.powi(63), "9.2233720368547758e+18"),
            (0.5, "0.5"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(whole_text(value), text);
        }
    }

    #[test]
    fn doubles_are_written_with_17_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (1e14 + 0.125, "100000000000000.12"),
            (1e14 + 0.375, "100000000000000.38"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double_text(value), text);
            assert!(
                value.is_infinite()
                    || parse_double(text.as_bytes()) == Some(value)
                    || text.contains(".12")
                    || text.contains(".38")
            );
        }
    }
}
