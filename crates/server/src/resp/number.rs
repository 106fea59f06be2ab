//! Integers as the protocol writes them.
//!
//! Reading is strict, as Redis is: an optional minus, no leading zero, no plus, no blanks, nothing
//! behind. Everything that is a number in one way only can be compared byte by byte, which is what
//! `INCR` promises about stored values.

/// Reads a signed decimal; `None` when it is not the one canonical way to write an `i64`.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits == b"0" && !negative {
        return Some(0);
    }
    // 19 digits hold every i64; the first may not be zero, so "-0" and "007" are refused.
    if digits.is_empty() || digits.len() > 19 || !(b'1'..=b'9').contains(&digits[0]) {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0'); // 19 digits stay below 2^64
    }
    match negative {
        true if value <= 1 << 63 => Some((value as i64).wrapping_neg()),
        false if value < 1 << 63 => Some(value as i64),
        _ => None,
    }
}

/// Reads a `u64` as C's `strtoull` does, all of the text: blanks and a sign may be before the
/// digits, and a number below zero counts from 2^64 down.
pub(crate) fn parse_unsigned_loosely(text: &[u8]) -> Option<u64> {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Appends `value` in decimal.
pub(crate) fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

/// Appends `value` in decimal.
pub(crate) fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_number() {
        for (text, value) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn unsigned_numbers_are_read_as_c_reads_them() {
        for (text, value) in [
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            (" \t\r+5", Some(5)),
            (" -1", Some(u64::MAX)),
            ("-18446744073709551615", Some(1)),
            ("18446744073709551616", None),
            ("-18446744073709551616", None),
            ("", None),
            (" ", None),
            ("+", None),
            ("+-1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_unsigned_loosely(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for value in [0, 1, -1, 9, 10, 99, 100, i64::MAX, i64::MIN, 1234567890123] {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            assert_eq!(parse_integer(&out), Some(value));
        }
    }
}
