//! [`Form`]: plain types of this crate that stand for types of other crates: their bytes, their
//! line in a description, and which bits are a value.
//!
//! Tools without those crates read the same description, so everything about the bytes is here, and
//! needs none of them.
//!
//! Invariants
//!   FORM-1  A form has no padding, and any bits can be read as it: [`Form::is_valid`] finds those
//!           that are no value.

use crate::description::described::Line;
use crate::description::schema::{Schema, Shape, TypeName};
use crate::{MemPool, PSafe};

/// A plain type, some of whose bits may be no value.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Uuid,
    Timestamp,
    Date,
    Time,
    DateTime,
    SignedDuration,
    Decimal,
    SocketAddr,
    SocketAddrV6,
    /// Of so many bytes.
    ShortString(usize),
}

/// The format whose descriptions have these lines.
const FORMAT: u32 = 3;
const SECOND: i64 = 1_000_000_000;
/// The seconds that a timestamp may have, from 1970: the years from -9999 to 9999, in every zone.
const SECONDS: std::ops::RangeInclusive<i64> = -377_705_023_201..=253_402_207_200;
const DATE: [(&str, &str); 3] = [("year", "i16"), ("month", "u8"), ("day", "u8")];
const TIME: [(&str, &str); 5] =
    [("hour", "u8"), ("minute", "u8"), ("second", "u8"), ("zero", "u8"), ("nanosecond", "u32")];

impl Form {
    const NAMED: [Form; 9] = [
        Form::Uuid,
        Form::Timestamp,
        Form::Date,
        Form::Time,
        Form::DateTime,
        Form::SignedDuration,
        Form::Decimal,
        Form::SocketAddr,
        Form::SocketAddrV6,
    ];

    /// The form that a line of a description describes.
    pub(crate) fn of(line: &Line) -> Option<Form> {
        let short = || {
            let len = line.name.strip_prefix("ShortString<")?.strip_suffix('>')?.parse().ok()?;
            (len <= usize::from(u8::MAX)).then_some(Form::ShortString(len))
        };
        let form = Form::NAMED.into_iter().find(|form| form.name() == line.name).or_else(short)?;
        (form.shape().line(&line.name, FORMAT) == line.text).then_some(form)
    }

    /// Its name in descriptions.
    pub(crate) fn name(self) -> String {
        match self {
            Form::Uuid => "Uuid".into(),
            Form::ShortString(len) => format!("ShortString<{len}>"),
            _ => format!("Stored<{self:?}>"),
        }
    }

    /// Alignment, and the fields, one behind the other.
    fn fields(self) -> (usize, Vec<(&'static str, String)>) {
        let plain =
            |align, all: &[(&'static str, &str)]| (align, all.iter().map(|&(name, of)| (name, of.into())).collect());
        match self {
            Form::Uuid => plain(1, &[("bytes", "[u8; 16]")]),
            Form::Timestamp | Form::SignedDuration => plain(8, &[("seconds", "i64"), ("nanoseconds", "i64")]),
            Form::Date => plain(2, &DATE),
            Form::Time => plain(4, &TIME),
            Form::DateTime => plain(4, &[&DATE[..], &TIME].concat()),
            Form::Decimal => plain(4, &[("flags", "u32"), ("low", "u32"), ("middle", "u32"), ("high", "u32")]),
            Form::SocketAddr | Form::SocketAddrV6 => plain(
                4,
                &[("ip", "[u8; 16]"), ("flowinfo", "u32"), ("scope", "u32"), ("port", "u16"), ("version", "u16")],
            ),
            Form::ShortString(len) => (1, vec![("len", "u8".into()), ("bytes", format!("[u8; {len}]"))]),
        }
    }

    /// Bytes of a value.
    #[cfg(all(test, feature = "serde"))]
    pub(crate) fn size(self) -> usize {
        self.shape().size()
    }

    fn shape(self) -> Shape {
        let size = |of: &str| match of {
            "u8" => 1,
            "i16" | "u16" => 2,
            "u32" => 4,
            "i64" => 8,
            bytes => bytes.trim_start_matches("[u8; ").trim_end_matches(']').parse().unwrap_or(0),
        };
        let (align, fields) = self.fields();
        let all = fields.iter().map(|(_, of)| size(of)).sum();
        let mut at = 0;
        fields.iter().fold(Shape::plain(all, align), |shape, (name, of)| {
            let here = at;
            at += size(of);
            shape.field(name, &of.as_str().into(), here)
        })
    }

    /// Adds the type `T`, which has this form, to a description.
    pub(crate) fn describe<T: PSafe<P>, P: MemPool>(self, schema: &mut Schema) -> TypeName {
        let shape = self.shape();
        assert!(shape.is_of::<T>(), "FORM-1");
        schema.define::<T, P>(self.name().into(), |_| shape)
    }

    /// Whether these bytes, as many as the form has, are a value.
    pub fn is_valid(self, bytes: &[u8]) -> bool {
        match self {
            Form::Uuid => true,
            Form::Timestamp => SECONDS.contains(&word(bytes, 0)) && (0..SECOND).contains(&word(bytes, 8)),
            Form::Date => is_date(bytes),
            Form::Time => is_time(bytes),
            Form::DateTime => is_date(&bytes[..4]) && is_time(&bytes[4..]),
            Form::SignedDuration => {
                let (seconds, nanoseconds) = (word(bytes, 0), word(bytes, 8));
                nanoseconds.abs_diff(0) < SECOND as u64 && (seconds.signum() * nanoseconds.signum() >= 0)
            }
            Form::Decimal => {
                let flags = half(bytes, 0);
                flags & 0x7f00_ffff == 0 && flags >> 16 & 0xff <= 28
            }
            Form::SocketAddr => {
                let is_four = bytes[26..] == [4, 0] && bytes[4..24].iter().all(|byte| *byte == 0);
                is_four || Form::SocketAddrV6.is_valid(bytes)
            }
            Form::SocketAddrV6 => bytes[26..] == [6, 0],
            Form::ShortString(len) => {
                let (used, rest) = bytes[1..].split_at(usize::from(bytes[0]).min(len));
                used.len() == usize::from(bytes[0])
                    && rest.iter().all(|byte| *byte == 0)
                    && std::str::from_utf8(used).is_ok()
            }
        }
    }
}

/// The number of 8 bytes at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// The number of 4 bytes at an offset.
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// A year, a month and a day of the proleptic Gregorian calendar.
fn is_date(bytes: &[u8]) -> bool {
    let year = i16::from_le_bytes([bytes[0], bytes[1]]);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match bytes[2] {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (-9999..=9999).contains(&year) && (1..=days).contains(&bytes[3])
}

fn is_time(bytes: &[u8]) -> bool {
    bytes[0] < 24 && bytes[1] < 60 && bytes[2] < 60 && bytes[3] == 0 && i64::from(half(bytes, 4)) < SECOND
}
