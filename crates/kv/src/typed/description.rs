//! [`Encoding`]: a stored description of a type, and [`TableTypes`], that of a table.
//!
//! Format: docs/formats/typed.md, section 3.

use super::codec::put_string;
use super::{DecodeError, Decoder, Typed};
use std::fmt;

/// The version of the encodings and of their description.
const VERSION: u8 = 1;
/// The deepest nesting of a description.
pub(super) const DEPTH_MAX: u32 = 32;
/// Longest stored description, in bytes.
const LEN_MAX: usize = 64 << 10;

/// How a type is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Encoding {
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    Bool,
    Char,
    /// UTF-8.
    String,
    /// A vector of `u8`.
    Bytes,
    Option(Box<Encoding>),
    Reverse(Box<Encoding>),
    /// A vector.
    List(Box<Encoding>),
    /// Of so many elements.
    Array(u16, Box<Encoding>),
    Tuple(Vec<Encoding>),
    /// Its name and its fields.
    Struct(String, Vec<(String, Encoding)>),
    /// Its name, and its variants with their fields.
    Enum(String, Vec<(String, Vec<(String, Encoding)>)>),
}

/// The encodings without parts, by their tags from 0.
const PLAIN: [(&str, Encoding); 16] = [
    ("u8", Encoding::U8),
    ("u16", Encoding::U16),
    ("u32", Encoding::U32),
    ("u64", Encoding::U64),
    ("u128", Encoding::U128),
    ("i8", Encoding::I8),
    ("i16", Encoding::I16),
    ("i32", Encoding::I32),
    ("i64", Encoding::I64),
    ("i128", Encoding::I128),
    ("f32", Encoding::F32),
    ("f64", Encoding::F64),
    ("bool", Encoding::Bool),
    ("char", Encoding::Char),
    ("String", Encoding::String),
    ("Vec<u8>", Encoding::Bytes),
];

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Option(of) => write!(f, "Option<{of}>"),
            Encoding::Reverse(of) => write!(f, "Reverse<{of}>"),
            Encoding::List(of) => write!(f, "Vec<{of}>"),
            Encoding::Array(len, of) => write!(f, "[{of}; {len}]"),
            Encoding::Tuple(parts) => {
                f.write_str("(")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(if parts.len() == 1 { ",)" } else { ")" })
            }
            Encoding::Struct(name, _) | Encoding::Enum(name, _) => f.write_str(name),
            plain => {
                let found = PLAIN.iter().find(|(_, one)| one == plain);
                f.write_str(found.map_or("?", |(name, _)| name))
            }
        }
    }
}

fn put_fields(fields: &[(String, Encoding)], out: &mut Vec<u8>) {
    out.extend_from_slice(&(fields.len() as u16).to_be_bytes());
    for (name, encoding) in fields {
        put_string(name.as_bytes(), out, false);
        encoding.put(out);
    }
}

fn read_fields(bytes: &mut Decoder<'_>, depth: u32) -> Result<Vec<(String, Encoding)>, DecodeError> {
    let count = u16::decode(bytes, false)?;
    (0..count).map(|_| Ok((String::decode(bytes, false)?, Encoding::read(bytes, depth)?))).collect()
}

impl Encoding {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Encoding::Option(of) => {
                out.push(16);
                of.put(out);
            }
            Encoding::Reverse(of) => {
                out.push(17);
                of.put(out);
            }
            Encoding::List(of) => {
                out.push(18);
                of.put(out);
            }
            Encoding::Array(len, of) => {
                out.push(19);
                out.extend_from_slice(&len.to_be_bytes());
                of.put(out);
            }
            Encoding::Tuple(parts) => {
                out.extend_from_slice(&[20, parts.len() as u8]);
                parts.iter().for_each(|part| part.put(out));
            }
            Encoding::Struct(name, fields) => {
                out.push(21);
                put_string(name.as_bytes(), out, false);
                put_fields(fields, out);
            }
            Encoding::Enum(name, variants) => {
                out.push(22);
                put_string(name.as_bytes(), out, false);
                out.extend_from_slice(&(variants.len() as u16).to_be_bytes());
                for (name, fields) in variants {
                    put_string(name.as_bytes(), out, false);
                    put_fields(fields, out);
                }
            }
            plain => {
                let tag = PLAIN.iter().position(|(_, one)| one == plain);
                out.push(tag.expect("the list has every encoding without parts") as u8);
            }
        }
    }

    fn read(bytes: &mut Decoder<'_>, depth: u32) -> Result<Encoding, DecodeError> {
        let depth = depth.checked_sub(1).ok_or(bytes.error("a description that is nested too deep"))?;
        let wrong = bytes.error("a type that this program does not know");
        let part = |bytes: &mut Decoder<'_>| Encoding::read(bytes, depth).map(Box::new);
        Ok(match bytes.byte()? {
            16 => Encoding::Option(part(bytes)?),
            17 => Encoding::Reverse(part(bytes)?),
            18 => Encoding::List(part(bytes)?),
            19 => {
                let (len, of) = (u16::decode(bytes, false)?, part(bytes)?);
                if of.least() == 0 && len > 0 {
                    return Err(bytes.error("an array of elements without bytes"));
                }
                Encoding::Array(len, of)
            }
            20 => {
                let count = bytes.byte()?;
                Encoding::Tuple((0..count).map(|_| Encoding::read(bytes, depth)).collect::<Result<_, _>>()?)
            }
            21 => Encoding::Struct(String::decode(bytes, false)?, read_fields(bytes, depth)?),
            22 => {
                let (name, count) = (String::decode(bytes, false)?, u16::decode(bytes, false)?);
                if count > 256 {
                    return Err(bytes.error("an enum of more than 256 variants"));
                }
                let variant = |_| Ok((String::decode(bytes, false)?, read_fields(bytes, depth)?));
                Encoding::Enum(name, (0..count).map(variant).collect::<Result<_, _>>()?)
            }
            tag => PLAIN.get(usize::from(tag)).ok_or(wrong)?.1.clone(),
        })
    }

    /// The fewest bytes of a value that is not the last of its key, or 1 if there are more.
    fn least(&self) -> usize {
        match self {
            Encoding::Array(0, _) => 0,
            Encoding::Array(_, of) | Encoding::Reverse(of) => of.least(),
            Encoding::Tuple(parts) => parts.iter().map(Encoding::least).max().unwrap_or(0),
            Encoding::Struct(_, fields) => fields.iter().map(|(_, part)| part.least()).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// The first part in which `found` differs: its place behind `at`, what is expected and what is
    /// found.
    fn difference(&self, found: &Encoding, at: &str) -> Option<(String, String, String)> {
        let differ = |at: &str, one: String, other: String| Some((at.to_string(), one, other));
        match (self, found) {
            (Encoding::Option(one), Encoding::Option(other))
            | (Encoding::Reverse(one), Encoding::Reverse(other))
            | (Encoding::List(one), Encoding::List(other)) => one.difference(other, at),
            (Encoding::Array(len, one), Encoding::Array(other_len, other)) if len == other_len => {
                one.difference(other, at)
            }
            (Encoding::Tuple(one), Encoding::Tuple(other)) if one.len() == other.len() => {
                let mut parts = one.iter().zip(other).enumerate();
                parts.find_map(|(index, (one, other))| one.difference(other, &format!("{at}.{index}")))
            }
            (Encoding::Struct(name, one), Encoding::Struct(other_name, other)) if name == other_name => {
                fields_differ(one, other, at)
            }
            (Encoding::Enum(name, one), Encoding::Enum(other_name, other)) if name == other_name => {
                for index in 0..one.len().max(other.len()) {
                    let named = |list: &[(String, Vec<(String, Encoding)>)]| {
                        list.get(index).map_or("no variant".into(), |(name, _)| format!("the variant `{name}`"))
                    };
                    if named(one) != named(other) {
                        return differ(at, named(one), named(other));
                    }
                    let at = format!("{at}::{}", one[index].0);
                    if let Some(found) = fields_differ(&one[index].1, &other[index].1, &at) {
                        return Some(found);
                    }
                }
                None
            }
            (one, other) if one == other => None,
            (one, other) => differ(at, format!("`{one}`"), format!("`{other}`")),
        }
    }

    /// Appends the value that `bytes` encode, as Rust's `Debug` would write it.
    fn show_part(&self, bytes: &mut Decoder<'_>, last: bool, out: &mut String) -> Result<(), DecodeError> {
        macro_rules! shown {
            ($type:ty) => {
                out.push_str(&format!("{:?}", <$type>::decode(bytes, last)?))
            };
        }
        match self {
            Encoding::U8 => shown!(u8),
            Encoding::U16 => shown!(u16),
            Encoding::U32 => shown!(u32),
            Encoding::U64 => shown!(u64),
            Encoding::U128 => shown!(u128),
            Encoding::I8 => shown!(i8),
            Encoding::I16 => shown!(i16),
            Encoding::I32 => shown!(i32),
            Encoding::I64 => shown!(i64),
            Encoding::I128 => shown!(i128),
            Encoding::F32 => shown!(f32),
            Encoding::F64 => shown!(f64),
            Encoding::Bool => shown!(bool),
            Encoding::Char => shown!(char),
            Encoding::String => shown!(String),
            Encoding::Bytes => out.push_str(&format!("b\"{}\"", bytes.string(last)?.escape_ascii())),
            Encoding::Option(of) => match bytes.flag("a mark of an option that is neither 0 nor 1")? {
                false => out.push_str("None"),
                true => {
                    out.push_str("Some(");
                    of.show_part(bytes, last, out)?;
                    out.push(')');
                }
            },
            Encoding::Reverse(of) => {
                out.push_str("Reverse(");
                bytes.inverted(|bytes| of.show_part(bytes, false, out))?;
                out.push(')');
            }
            Encoding::List(of) => {
                out.push('[');
                let mut first = true;
                while bytes.flag("a mark of a list that is neither 0 nor 1")? {
                    out.push_str(if std::mem::take(&mut first) { "" } else { ", " });
                    of.show_part(bytes, false, out)?;
                }
                out.push(']');
            }
            Encoding::Array(len, of) => {
                out.push('[');
                for index in 0..*len {
                    out.push_str(if index > 0 { ", " } else { "" });
                    of.show_part(bytes, last && index + 1 == *len, out)?;
                }
                out.push(']');
            }
            Encoding::Tuple(parts) => {
                out.push('(');
                for (index, part) in parts.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    part.show_part(bytes, last && index + 1 == parts.len(), out)?;
                }
                out.push_str(if parts.len() == 1 { ",)" } else { ")" });
            }
            Encoding::Struct(name, fields) => {
                out.push_str(name);
                show_fields(fields, bytes, last, out)?;
            }
            Encoding::Enum(_, variants) => {
                let wrong = bytes.error("a variant that the enum does not have");
                let (name, fields) = variants.get(usize::from(bytes.byte()?)).ok_or(wrong)?;
                out.push_str(name);
                show_fields(fields, bytes, last, out)?;
            }
        }
        Ok(())
    }

    /// The value that `bytes` encode, as Rust's `Debug` would write it.
    ///
    /// # Errors
    /// The bytes are no encoding of this type.
    pub fn show(&self, bytes: &[u8]) -> Result<String, DecodeError> {
        let (mut decoder, mut out) = (Decoder::new(bytes), String::new());
        self.show_part(&mut decoder, true, &mut out)?;
        decoder.finish()?;
        Ok(out)
    }
}

fn fields_differ(
    one: &[(String, Encoding)],
    other: &[(String, Encoding)],
    at: &str,
) -> Option<(String, String, String)> {
    for index in 0..one.len().max(other.len()) {
        let named = |list: &[(String, Encoding)]| {
            list.get(index).map_or("no field".into(), |(name, _)| format!("the field `{name}`"))
        };
        if named(one) != named(other) {
            return Some((at.to_string(), named(one), named(other)));
        }
        let found = one[index].1.difference(&other[index].1, &format!("{at}.{}", one[index].0));
        if found.is_some() {
            return found;
        }
    }
    None
}

fn show_fields(
    fields: &[(String, Encoding)],
    bytes: &mut Decoder<'_>,
    last: bool,
    out: &mut String,
) -> Result<(), DecodeError> {
    if fields.is_empty() {
        return Ok(());
    }
    let tuple = fields.iter().enumerate().all(|(index, (name, _))| *name == index.to_string());
    out.push_str(if tuple { "(" } else { " { " });
    for (index, (name, part)) in fields.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        if !tuple {
            out.push_str(name);
            out.push_str(": ");
        }
        part.show_part(bytes, last && index + 1 == fields.len(), out)?;
    }
    out.push_str(if tuple { ")" } else { " }" });
    Ok(())
}

/// The types of a table's keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTypes {
    /// Of its keys.
    pub key: Encoding,
    /// Of its values.
    pub value: Encoding,
}

impl TableTypes {
    /// Those of `K` and `V`.
    pub fn of<K: Typed, V: Typed>() -> TableTypes {
        const {
            assert!(K::DEPTH < DEPTH_MAX && V::DEPTH < DEPTH_MAX, "a type of a table is nested at most 31 deep");
        }
        TableTypes { key: K::encoding(), value: V::encoding() }
    }

    /// As the catalogue stores them.
    ///
    /// # Errors
    /// They cannot be stored: the description is too long, or has an array of elements without
    /// bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![VERSION];
        self.key.put(&mut out);
        self.value.put(&mut out);
        TableTypes::from_bytes(&out).map(|_| out)
    }

    /// Reads a stored description.
    ///
    /// # Errors
    /// The bytes are none, or of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<TableTypes, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        if bytes.len() > LEN_MAX {
            return Err(decoder.error("a description of more than 64 KiB"));
        }
        let newer = decoder.error("a description of a version that this program does not know");
        if decoder.byte()? != VERSION {
            return Err(newer);
        }
        let key = Encoding::read(&mut decoder, DEPTH_MAX)?;
        let value = Encoding::read(&mut decoder, DEPTH_MAX)?;
        decoder.finish()?;
        Ok(TableTypes { key, value })
    }

    /// The first field in which `found` differs: where it is, what is expected, what is found.
    pub(crate) fn difference(&self, found: &TableTypes) -> Option<(String, String, String)> {
        self.key.difference(&found.key, "key").or_else(|| self.value.difference(&found.value, "value"))
    }
}

impl fmt::Display for TableTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.key, self.value)
    }
}

/// The first field in which two types differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTypeDetail {
    /// Its place: `key`, or `value.address.street`.
    pub at: String,
    /// In the store.
    pub expected: String,
    /// In the program.
    pub found: String,
}
