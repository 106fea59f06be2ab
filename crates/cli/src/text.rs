//! Text forms of bytes, sizes and numbers.
//!
//! Bytes in text: UTF-8 stands for itself, except `\` and control characters; `\n \t \r \\ \xNN`
//! stand for bytes. So every byte string has a text, and reading that text returns the same bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::fmt::Write;
use std::time::Duration;

/// The text form of bytes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if c.is_ascii_control() => push_hex(&mut text, c as u8),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hex(&mut text, *byte));
    }
    text
}

fn push_hex(text: &mut String, byte: u8) {
    let _ = write!(text, "\\x{byte:02x}"); // writing to a String does not fail
}

/// The bytes of a text form.
///
/// # Errors
/// An escape that does not exist; the message shows it.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        let (byte, used) = match after.as_bytes().first() {
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'r') => (b'\r', 1),
            Some(b'\\') => (b'\\', 1),
            Some(b'x') => match after.get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(byte) => (byte, 3),
                None => {
                    return Err(format!(
                        "`\\{}`: two hexadecimal digits must follow \\x",
                        after.chars().take(3).collect::<String>()
                    ));
                }
            },
            _ => {
                return Err(format!(
                    "`\\{}` is no escape; there are \\n \\t \\r \\\\ \\xNN",
                    after.chars().take(1).collect::<String>()
                ));
            }
        };
        bytes.push(byte);
        rest = &after[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Sets `name` (UTF-8) or `name_b64` (anything else).
pub(crate) fn set_json(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_b64"), STANDARD.encode(bytes).into()),
    };
}

/// Reads what [`set_json`] wrote.
///
/// # Errors
/// Neither field is there, or it holds something else.
pub(crate) fn get_json(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    if let Some(text) = object.get(name) {
        return text.as_str().map(|text| text.as_bytes().to_vec()).ok_or_else(|| format!("`{name}` is not a string"));
    }
    let text = object.get(&format!("{name}_b64")).and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("lacks `{name}` or `{name}_b64`"))?;
    STANDARD.decode(text).map_err(|error| format!("`{name}_b64`: {error}"))
}

/// A size such as 4096, 64KiB, 1GiB, 4TiB.
///
/// # Errors
/// The text has another form.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("`{text}`: a size is a number and KiB, MiB, GiB or TiB")),
    };
    let number: u64 = text[..digits].parse().map_err(|_| format!("`{text}`: a size starts with a number"))?;
    number.checked_mul(1 << unit).ok_or_else(|| format!("`{text}`: larger than any store"))
}

/// A number, decimal or 0x.
///
/// # Errors
/// The text has another form.
#[cfg(feature = "crash")]
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("`{text}`: {error}"))
}

/// Two names with a `=` between them.
///
/// # Errors
/// The text has another form.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (one, other) = text.split_once('=').ok_or_else(|| format!("`{text}`: a name, `=`, and the new name"))?;
    Ok((one.into(), other.into()))
}

/// A number of bytes with its unit.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..4).rev().find(|power| n >= 1 << (10 * (power + 1))).map_or(0, |power| power + 1);
    if n == 0 || power == 0 {
        return format!("{n} bytes");
    }
    let scaled = n as f64 / (1u64 << (10 * power)) as f64;
    let text = if scaled.fract() == 0.0 { format!("{scaled}") } else { format!("{scaled:.1}") };
    format!("{text} {}", units[power as usize])
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time with its unit: `500ms`, `30s`, `10m`, `2h`, `7d`; a number alone is seconds.
///
/// # Errors
/// Names what may be written.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = if unit.is_empty() { "s" } else { unit };
    let millis = units
        .iter()
        .find(|(name, _)| *name == unit)
        .and_then(|(_, millis)| number.parse::<u64>().ok()?.checked_mul(*millis));
    millis.map(Duration::from_millis).ok_or_else(|| "not a time: write 500ms, 30s, 10m, 2h or 7d".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [("500ms", 500), ("30", 30_000), ("30s", 30_000), ("2h", 7_200_000), ("1d", 86_400_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for wrong in ["", "s", "-1s", "1.5s", "10 s", "1w", "99999999999999999999s", "999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_byte_string_has_a_text_that_reads_back() {
        let all: Vec<u8> = (0..=255).chain("grüße\t\\n".bytes()).collect();
        for bytes in [&b""[..], b"plain", b"\xff\\\n\r\t\x00", &all] {
            assert_eq!(unescape(&escape(bytes)).unwrap(), bytes);
            assert!(!escape(bytes).contains(['\n', '\t', '\r']), "one line, one column");
            let mut object = Map::new();
            set_json(&mut object, "key", bytes);
            assert_eq!(get_json(&object, "key").unwrap(), bytes);
        }
    }

    #[test]
    fn wrong_escapes_are_shown() {
        for (text, shown) in [("a\\q", "\\q"), ("\\x1", "\\x1"), ("\\", "`\\`"), ("\\xü0", "two hexadecimal")] {
            assert!(unescape(text).unwrap_err().contains(shown), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_said() {
        assert_eq!(size("64KiB"), Ok(64 << 10));
        assert_eq!(size("4TiB").map(bytes), Ok("4 TiB".into()));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(bytes(1536), "1.5 KiB");
        assert!(size("lots").is_err() && size("99999999999TiB").is_err() && size("3 apples").is_err());
    }
}
