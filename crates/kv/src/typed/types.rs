//! [`Typed`] for the types of the language and of `std`.

use super::codec::put_string;
use super::{DecodeError, Decoder, Encoding, Typed};
use std::cmp::Reverse;

/// The greater of two depths.
const fn deeper(one: u32, other: u32) -> u32 {
    if one > other { one } else { other }
}

macro_rules! integers {
    ($($name:ident $is:ident: $flip:expr;)*) => {$(
        impl Typed for $name {
            const DEPTH: u32 = 0;

            fn encoding() -> Encoding {
                Encoding::$is
            }

            fn encode(&self, out: &mut Vec<u8>, _last: bool) {
                out.extend_from_slice(&(self ^ $flip).to_be_bytes());
            }

            fn decode(bytes: &mut Decoder<'_>, _last: bool) -> Result<Self, DecodeError> {
                Ok($name::from_be_bytes(bytes.array()?) ^ $flip)
            }
        }
    )*};
}

// Negative numbers come first: the sign bit is flipped.
integers! {
    u16 U16: 0; u32 U32: 0; u64 U64: 0; u128 U128: 0;
    i8 I8: i8::MIN; i16 I16: i16::MIN; i32 I32: i32::MIN; i64 I64: i64::MIN; i128 I128: i128::MIN;
}

/// A vector of them is a byte string.
impl Typed for u8 {
    const DEPTH: u32 = 0;

    fn encoding() -> Encoding {
        Encoding::U8
    }

    fn encode(&self, out: &mut Vec<u8>, _last: bool) {
        out.push(*self);
    }

    fn decode(bytes: &mut Decoder<'_>, _last: bool) -> Result<Self, DecodeError> {
        bytes.byte()
    }

    fn list_encoding() -> Encoding {
        Encoding::Bytes
    }

    fn encode_list(list: &[u8], out: &mut Vec<u8>, last: bool) {
        put_string(list, out, last);
    }

    fn decode_list(bytes: &mut Decoder<'_>, last: bool) -> Result<Vec<u8>, DecodeError> {
        bytes.string(last)
    }
}

macro_rules! floats {
    ($($name:ident $is:ident $bits:ident;)*) => {$(
        /// In the order of `total_cmp`: each pattern of bits is a key of its own, -0.0 before 0.0.
        impl Typed for $name {
            const DEPTH: u32 = 0;

            fn encoding() -> Encoding {
                Encoding::$is
            }

            fn encode(&self, out: &mut Vec<u8>, last: bool) {
                let (bits, sign) = (self.to_bits(), 1 << ($bits::BITS - 1));
                (if bits & sign == 0 { bits | sign } else { !bits }).encode(out, last);
            }

            fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
                let (bits, sign) = ($bits::decode(bytes, last)?, 1 << ($bits::BITS - 1));
                Ok($name::from_bits(if bits & sign == 0 { !bits } else { bits ^ sign }))
            }
        }
    )*};
}

floats! { f32 F32 u32; f64 F64 u64; }

impl Typed for bool {
    const DEPTH: u32 = 0;

    fn encoding() -> Encoding {
        Encoding::Bool
    }

    fn encode(&self, out: &mut Vec<u8>, _last: bool) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &mut Decoder<'_>, _last: bool) -> Result<Self, DecodeError> {
        bytes.flag("a `bool` that is neither 0 nor 1")
    }
}

impl Typed for char {
    const DEPTH: u32 = 0;

    fn encoding() -> Encoding {
        Encoding::Char
    }

    fn encode(&self, out: &mut Vec<u8>, last: bool) {
        u32::from(*self).encode(out, last);
    }

    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
        let wrong = bytes.error("a number that is no `char`");
        char::from_u32(u32::decode(bytes, last)?).ok_or(wrong)
    }
}

impl Typed for String {
    const DEPTH: u32 = 0;

    fn encoding() -> Encoding {
        Encoding::String
    }

    fn encode(&self, out: &mut Vec<u8>, last: bool) {
        put_string(self.as_bytes(), out, last);
    }

    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
        let wrong = bytes.error("a string that is not UTF-8");
        String::from_utf8(bytes.string(last)?).map_err(|_| wrong)
    }
}

impl<T: Typed> Typed for Vec<T> {
    const DEPTH: u32 = 1 + T::DEPTH;

    fn encoding() -> Encoding {
        T::list_encoding()
    }

    fn encode(&self, out: &mut Vec<u8>, last: bool) {
        T::encode_list(self, out, last);
    }

    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
        T::decode_list(bytes, last)
    }
}

impl<T: Typed, const N: usize> Typed for [T; N] {
    const DEPTH: u32 = {
        assert!(N <= u16::MAX as usize, "an array in a typed table has at most 65,535 elements");
        1 + T::DEPTH
    };

    fn encoding() -> Encoding {
        Encoding::Array(N as u16, Box::new(T::encoding()))
    }

    fn encode(&self, out: &mut Vec<u8>, last: bool) {
        for (index, element) in self.iter().enumerate() {
            element.encode(out, last && index + 1 == N);
        }
    }

    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
        let elements = (0..N).map(|index| T::decode(bytes, last && index + 1 == N));
        let elements = elements.collect::<Result<Vec<T>, _>>()?;
        elements.try_into().map_err(|_| bytes.error("an array of another length"))
    }
}

impl<T: Typed> Typed for Option<T> {
    const DEPTH: u32 = 1 + T::DEPTH;

    fn encoding() -> Encoding {
        Encoding::Option(Box::new(T::encoding()))
    }

    fn encode(&self, out: &mut Vec<u8>, last: bool) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(out, last);
        }
    }

    fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
        match bytes.flag("a mark of an option that is neither 0 nor 1")? {
            true => T::decode(bytes, last).map(Some),
            false => Ok(None),
        }
    }
}

/// Every bit is inverted. A string in it marks its end even where it is last.
impl<T: Typed> Typed for Reverse<T> {
    const DEPTH: u32 = 1 + T::DEPTH;

    fn encoding() -> Encoding {
        Encoding::Reverse(Box::new(T::encoding()))
    }

    fn encode(&self, out: &mut Vec<u8>, _last: bool) {
        let start = out.len();
        self.0.encode(out, false);
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }

    fn decode(bytes: &mut Decoder<'_>, _last: bool) -> Result<Self, DecodeError> {
        bytes.inverted(|bytes| T::decode(bytes, false)).map(Reverse)
    }
}

impl Typed for () {
    const DEPTH: u32 = 0;

    fn encoding() -> Encoding {
        Encoding::Tuple(Vec::new())
    }

    fn encode(&self, _: &mut Vec<u8>, _last: bool) {}

    fn decode(_: &mut Decoder<'_>, _last: bool) -> Result<(), DecodeError> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt)* / $end:ident $last:tt;)*) => {$(
        impl<$($name: Typed,)* $end: Typed> Typed for ($($name,)* $end,) {
            const DEPTH: u32 = {
                let depth = $end::DEPTH;
                $(let depth = deeper(depth, $name::DEPTH);)*
                1 + depth
            };

            fn encoding() -> Encoding {
                Encoding::Tuple(vec![$($name::encoding(),)* $end::encoding()])
            }

            fn encode(&self, out: &mut Vec<u8>, last: bool) {
                $(self.$index.encode(out, false);)*
                self.$last.encode(out, last);
            }

            fn decode(bytes: &mut Decoder<'_>, last: bool) -> Result<Self, DecodeError> {
                Ok(($($name::decode(bytes, false)?,)* $end::decode(bytes, last)?,))
            }
        }
    )*};
}

tuples! {
    / A 0;
    A 0 / B 1;
    A 0 B 1 / C 2;
    A 0 B 1 C 2 / D 3;
    A 0 B 1 C 2 D 3 / E 4;
    A 0 B 1 C 2 D 3 E 4 / F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 / G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 / H 7;
}

/// What keys of the type `K` can begin with: its first fields as a tuple, or the first bytes of a
/// string.
#[diagnostic::on_unimplemented(
    message = "keys of the type `{K}` cannot begin with `{Self}`",
    note = "a prefix is the tuple of the first fields: `&(a,)`, `&(a, b)`; of strings, a `str`"
)]
pub trait KeyPrefix<K> {
    /// Appends the bytes that such keys begin with.
    fn encode_prefix(&self, out: &mut Vec<u8>);
}

impl KeyPrefix<String> for str {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl KeyPrefix<Vec<u8>> for [u8] {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! prefixes {
    ($($($name:ident)+ / $($rest:ident)+;)*) => {$(
        impl<$($name: Typed,)+ $($rest,)+> KeyPrefix<($($name,)+ $($rest,)+)> for ($($name,)+) {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                self.encode(out, false);
            }
        }
    )*};
}

prefixes! {
    A / B; A / B C; A / B C D; A / B C D E; A / B C D E F; A / B C D E F G; A / B C D E F G H;
    A B / C; A B / C D; A B / C D E; A B / C D E F; A B / C D E F G; A B / C D E F G H;
    A B C / D; A B C / D E; A B C / D E F; A B C / D E F G; A B C / D E F G H;
    A B C D / E; A B C D / E F; A B C D / E F G; A B C D / E F G H;
    A B C D E / F; A B C D E / F G; A B C D E / F G H;
    A B C D E F / G; A B C D E F / G H; A B C D E F G / H;
}
