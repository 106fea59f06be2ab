//! [`Plain`]: numbers, `bool`, `char` and addresses, to and from JSON.

use crate::description::forms::Form;
use crate::verify::deep::types::{Type, TypeKind};
use serde::ser::Serializer;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// No bytes.
    Nothing,
    Unsigned(usize),
    Signed(usize),
    F32,
    F64,
    Bool,
    Char,
    /// An address of IPv4.
    V4,
    /// An address of IPv6.
    V6,
    /// An address of either.
    Ip,
    /// A value of another crate's type.
    Form(Form),
}

impl Plain {
    /// `None`: values of that type have parts.
    pub(super) fn of(of: &Type<'_>) -> Option<Plain> {
        let bytes = of.size? as usize;
        if bytes == 0 {
            return Some(Plain::Nothing);
        }
        let is = |name: &str, plain: Plain| {
            of.name.strip_prefix("std::num::NonZero").is_some_and(|rest| rest.starts_with(name)).then_some(plain)
        };
        match &of.kind {
            TypeKind::Bool => Some(Plain::Bool),
            TypeKind::Char => Some(Plain::Char),
            TypeKind::Nanoseconds => Some(Plain::Unsigned(bytes)),
            TypeKind::Form(form) => Some(Plain::Form(*form)),
            TypeKind::NonZero(_) => is("U", Plain::Unsigned(bytes)).or(is("I", Plain::Signed(bytes))),
            TypeKind::Any => match of.name {
                "f32" => Some(Plain::F32),
                "f64" => Some(Plain::F64),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => Some(Plain::Unsigned(bytes)),
                "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => Some(Plain::Signed(bytes)),
                _ => None,
            },
            TypeKind::Fields(_) => match (of.name, bytes) {
                ("Ipv4Addr", 4) => Some(Plain::V4),
                ("Ipv6Addr", 16) => Some(Plain::V6),
                _ => None,
            },
            TypeKind::Variants(..) => (of.name == "IpAddr" && bytes == 17).then_some(Plain::Ip),
            _ => None,
        }
    }

    /// Writes the value whose bytes these are.
    pub(super) fn write<S: Serializer>(self, bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut wide = [0; 16];
        wide[..bytes.len().min(16)].copy_from_slice(&bytes[..bytes.len().min(16)]);
        let number = u128::from_le_bytes(wide);
        match self {
            Plain::Nothing => serializer.serialize_unit(),
            Plain::Unsigned(16) => serializer.collect_str(&number),
            Plain::Unsigned(_) => serializer.serialize_u64(number as u64),
            Plain::Signed(16) => serializer.collect_str(&number.cast_signed()),
            Plain::Signed(bytes) => {
                let unused = 128 - 8 * bytes as u32;
                serializer.serialize_i64(((number << unused).cast_signed() >> unused) as i64)
            }
            Plain::F32 => match f32::from_bits(number as u32) {
                finite if finite.is_finite() => serializer.serialize_f32(finite),
                _ => serializer.collect_str(&format_args!("{:#010x}", number as u32)),
            },
            Plain::F64 => match f64::from_bits(number as u64) {
                finite if finite.is_finite() => serializer.serialize_f64(finite),
                _ => serializer.collect_str(&format_args!("{:#018x}", number as u64)),
            },
            Plain::Bool => serializer.serialize_bool(number != 0),
            Plain::Char => match char::from_u32(number as u32) {
                Some(character) => serializer.serialize_char(character),
                None => Err(serde::ser::Error::custom("not a character")),
            },
            Plain::Form(form) => match form.text(bytes) {
                Some(text) => serializer.serialize_str(&text),
                None => Err(serde::ser::Error::custom(format_args!("not a `{}`", form.name()))),
            },
            Plain::V4 => serializer.collect_str(&Ipv4Addr::from_octets([bytes[0], bytes[1], bytes[2], bytes[3]])),
            Plain::V6 => serializer.collect_str(&Ipv6Addr::from_octets(wide)),
            Plain::Ip if bytes[0] == 0 => {
                serializer.collect_str(&Ipv4Addr::from_octets([bytes[1], bytes[2], bytes[3], bytes[4]]))
            }
            Plain::Ip => {
                wide.copy_from_slice(&bytes[1..17]);
                serializer.collect_str(&Ipv6Addr::from_octets(wide))
            }
        }
    }
}

/// A scalar of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'t str),
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("null"),
            Scalar::Bool(is) => is.fmt(f),
            Scalar::Unsigned(number) => number.fmt(f),
            Scalar::Signed(number) => number.fmt(f),
            Scalar::Float(number) => number.fmt(f),
            Scalar::Text(text) => text.fmt(f),
        }
    }
}

impl Plain {
    /// Reads a value of type `of` into its bytes; `false`: it is none.
    pub(super) fn read(self, of: &Type<'_>, met: Scalar<'_>, to: &mut [u8]) -> bool {
        let read = match (self, met) {
            (Plain::Nothing, Scalar::Null) => Some([0; 16]),
            (Plain::Bool, Scalar::Bool(is)) => Some(u128::from(is).to_le_bytes()),
            (Plain::Char, Scalar::Text(text)) => character(text),
            (Plain::Unsigned(_) | Plain::Signed(_), _) => self.integer(met),
            (Plain::F32 | Plain::F64, _) => self.float(met),
            (Plain::V4, Scalar::Text(text)) => text
                .parse()
                .ok()
                .map(|address: Ipv4Addr| u128::from(u32::from_le_bytes(address.octets())).to_le_bytes()),
            (Plain::V6, Scalar::Text(text)) => text.parse().ok().map(|address: Ipv6Addr| address.octets()),
            (Plain::Form(form), Scalar::Text(text)) => return form.read(text, to).is_some(),
            (Plain::Ip, Scalar::Text(text)) => {
                let Ok(address) = text.parse::<IpAddr>() else { return false };
                match address {
                    IpAddr::V4(address) => to[1..5].copy_from_slice(&address.octets()),
                    IpAddr::V6(address) => {
                        to[0] = 1;
                        to[1..17].copy_from_slice(&address.octets());
                    }
                }
                return true;
            }
            _ => None,
        };
        let Some(bytes) = read.filter(|bytes| may_be(of, bytes)) else { return false };
        let len = to.len().min(16);
        to[..len].copy_from_slice(&bytes[..len]);
        true
    }

    fn integer(self, met: Scalar<'_>) -> Option<[u8; 16]> {
        let number = match met {
            Scalar::Unsigned(number) => i128::from(number),
            Scalar::Signed(number) => number.into(),
            Scalar::Text(text) if self == Plain::Unsigned(16) => return Some(text.parse::<u128>().ok()?.to_le_bytes()),
            Scalar::Text(text) => text.parse().ok()?,
            _ => return None,
        };
        let fits = match self {
            Plain::Unsigned(16) => number >= 0,
            Plain::Unsigned(bytes) => number >= 0 && number >> (8 * bytes) == 0,
            Plain::Signed(bytes) => matches!(number >> (8 * bytes - 1), 0 | -1),
            _ => false,
        };
        fits.then(|| number.to_le_bytes())
    }

    /// A number, or the bits of one that JSON does not have.
    fn float(self, met: Scalar<'_>) -> Option<[u8; 16]> {
        let digits = if self == Plain::F32 { 8 } else { 16 };
        let number = match met {
            Scalar::Unsigned(number) => number as f64,
            Scalar::Signed(number) => number as f64,
            Scalar::Float(number) => number,
            Scalar::Text(text) => {
                let bits = text.strip_prefix("0x").filter(|bits| bits.len() == digits)?;
                return Some(u128::from(u64::from_str_radix(bits, 16).ok()?).to_le_bytes());
            }
            _ => return None,
        };
        let bits = if self == Plain::F32 { (number as f32).to_bits().into() } else { number.to_bits() };
        Some(u128::from(bits).to_le_bytes())
    }
}

fn character(text: &str) -> Option<[u8; 16]> {
    let mut all = text.chars();
    let one = all.next().filter(|_| all.next().is_none())?;
    Some(u128::from(u32::from(one)).to_le_bytes())
}

/// Whether a value of that type may have these bytes.
fn may_be(of: &Type<'_>, bytes: &[u8; 16]) -> bool {
    let number = u128::from_le_bytes(*bytes);
    match of.kind {
        TypeKind::NonZero(16) => number != 0,
        TypeKind::NonZero(bytes) => number << (128 - 8 * bytes) != 0,
        TypeKind::Nanoseconds => number < 1_000_000_000,
        _ => true,
    }
}
