//! [`Typed`]: types whose encoding is in the order of their values.
//!
//! Format: docs/formats/typed.md. Invariants
//!   TYPED-1  Encodings of two values of a type compare as the values do.
//!   TYPED-2  A value has one encoding: bytes that decode encode to the same bytes.
//!   TYPED-3  An encoding that is not the last of its key ends by itself: none is the beginning of
//!            another.

use super::Encoding;

/// A type that a typed table can have as key or value. Derive it for structs and enums whose fields
/// are `Typed`:
///
/// ```
/// use everbyte_kv::Typed;
///
/// #[derive(Typed, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Reading {
///     station: String,
///     second: u64,
/// }
/// let early = Reading { station: "a".into(), second: 7 };
/// let late = Reading { station: "a".into(), second: 300 };
/// assert!(everbyte_kv::encode(&early) < everbyte_kv::encode(&late));
/// assert_eq!(everbyte_kv::decode::<Reading>(&everbyte_kv::encode(&late))?, late);
/// # Ok::<(), everbyte_kv::DecodeError>(())
/// ```
///
/// The order of a derived type is that of `#[derive(Ord)]`: fields and variants in the order in
/// which they are written. `usize` and `isize` are not `Typed`: their size is not the same on every
/// machine.
///
/// An implementation by hand must give values and encodings the same order, and decode only bytes
/// that `encode` writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a typed table",
    note = "derive `Typed` for your own types; in place of `usize` and `isize` write `u64` and `i64`"
)]
pub trait Typed: Sized {
    /// How deep types are nested in it.
    #[doc(hidden)]
    const DEPTH: u32;

    /// The stored description of this type.
    fn encoding() -> Encoding;

    /// Appends the encoding. `last`: no field of the same key follows, so that a string need not
    /// mark its end.
    fn encode(&self, out: &mut Vec<u8>, last: bool);

    /// Reads what [`Typed::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are no encoding of this type.
    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError>;

    /// Of a vector of this type.
    #[doc(hidden)]
    fn list_encoding() -> Encoding {
        Encoding::List(Box::new(Self::encoding()))
    }

    /// Appends a vector of this type.
    #[doc(hidden)]
    fn encode_list(list: &[Self], out: &mut Vec<u8>, _last: bool) {
        for element in list {
            out.push(1);
            element.encode(out, false);
        }
        out.push(0);
    }

    /// Reads a vector of this type.
    #[doc(hidden)]
    fn decode_list(bytes: &mut Decoder<'_>, _last: bool) -> Result<Vec<Self>, DecodeError> {
        let mut list = Vec::new();
        while bytes.flag("a mark of a list that is neither 0 nor 1")? {
            list.push(Self::decode(bytes, false)?);
        }
        Ok(list)
    }
}

/// Bytes that are no encoding of the type they are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {detail}")]
pub struct DecodeError {
    /// The byte at which reading stopped.
    pub at: usize,
    /// The reason.
    pub detail: &'static str,
}

/// Bytes that are being decoded.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    /// 0xff inside a `Reverse`.
    mask: u8,
}

impl<'a> Decoder<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0, mask: 0 }
    }

    /// An error at this place.
    pub fn error(&self, detail: &'static str) -> DecodeError {
        DecodeError { at: self.at, detail }
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(self.error("the bytes end too early"))?;
        self.at += 1;
        Ok(byte ^ self.mask)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let mut array = *rest.ok_or(self.error("the bytes end too early"))?;
        self.at += N;
        array.iter_mut().for_each(|byte| *byte ^= self.mask);
        Ok(array)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// It is another, which `detail` describes; there is none.
    pub fn flag(&mut self, detail: &'static str) -> Result<bool, DecodeError> {
        let wrong = self.error(detail);
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong),
        }
    }

    /// A byte string: all that is left if it is `last`, else up to its end mark.
    ///
    /// # Errors
    /// No end mark; a zero byte that is neither escaped nor an end mark.
    pub fn string(&mut self, last: bool) -> Result<Vec<u8>, DecodeError> {
        let mut string = Vec::new();
        if last {
            string.extend(self.bytes[self.at..].iter().map(|byte| byte ^ self.mask));
            self.at = self.bytes.len();
            return Ok(string);
        }
        loop {
            match self.byte()? {
                0 => {
                    let wrong = self.error("a zero byte that is neither escaped nor an end mark");
                    match self.byte()? {
                        0 => return Ok(string),
                        0xff => string.push(0),
                        _ => return Err(wrong),
                    }
                }
                byte => string.push(byte),
            }
        }
    }

    /// Reads with every bit inverted, as in a `Reverse`.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn inverted<T>(
        &mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.mask ^= 0xff;
        let value = read(self);
        self.mask ^= 0xff;
        value
    }

    /// Requires that nothing is left.
    ///
    /// # Errors
    /// Bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.error("bytes follow the end of the value")) }
    }
}

/// Appends a byte string; one that is not `last` escapes its zero bytes and marks its end.
pub(super) fn put_string(string: &[u8], out: &mut Vec<u8>, last: bool) {
    if last {
        return out.extend_from_slice(string);
    }
    for &byte in string {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The encoding of a whole key or value.
pub fn encode<T: Typed>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out, true);
    out
}

/// The value of a whole encoding.
///
/// # Errors
/// The bytes are no encoding of this type.
pub fn decode<T: Typed>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode(&mut decoder, true)?;
    decoder.finish()?;
    Ok(value)
}
