//! Numbers as Lua writes and reads them.

use mlua::{BorrowedBytes, Value};
use std::ops::Deref;

/// C's `%.{precision}g`.
pub(super) fn general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, value);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", short(digits), exponent.abs());
    }
    short(&format!("{:.*}", (precision as i32 - 1 - exponent).max(0) as usize, value))
}

/// A number as `tostring` writes it.
pub(super) fn short(value: f64) -> String {
    general(value, 14)
}

/// The number that a value is, or that its text is.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => {
            let bytes = text.as_bytes();
            let text = std::str::from_utf8(&bytes).ok()?.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
            match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
                Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as f64),
                None if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => text.parse().ok(),
                None => None,
            }
        }
        _ => None,
    }
}

/// The bytes of a value: a string's are not copied.
pub(super) enum Bytes {
    Text(BorrowedBytes),
    Number(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text,
            Bytes::Number(digits) => digits,
        }
    }
}

/// The bytes of a string, or of a number as `tostring` writes it.
pub(super) fn bytes(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(Bytes::Text(text.as_bytes())),
        Value::Integer(number) => Some(Bytes::Number(short(*number as f64).into_bytes())),
        Value::Number(number) => Some(Bytes::Number(short(*number).into_bytes())),
        _ => None,
    }
}

/// A double as the C language turns it into a signed number of 64 bits on x86-64.
pub(super) fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_c() {
        for (value, precision, text) in [
            (0.0, 14, "0"),
            (1.0, 14, "1"),
            (-2.5, 14, "-2.5"),
            (0.1, 17, "0.10000000000000001"),
            (1e20, 17, "1e+20"),
            (1e15, 14, "1e+15"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (3.5, 17, "3.5"),
            (f64::INFINITY, 14, "inf"),
            (1e300, 14, "1e+300"),
            (99_999_999_999_999.9, 14, "1e+14"),
        ] {
            assert_eq!(general(value, precision), text);
        }
        assert_eq!((truncated(-2.9), truncated(1e300), truncated(f64::NAN)), (-2, i64::MIN, i64::MIN));
    }
}
