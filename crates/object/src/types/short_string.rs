//! [`ShortString`]: text of bounded length that lies in its owner, without a block of its own.
//!
//! Invariants
//!   SHORT-1  `len <= N`, the first `len` bytes are UTF-8, the others are zeros. Damage may change
//!            that, so text is checked whenever it is read.

use crate::description::forms::Form;
use crate::{MemPool, Niche, PSafe, Schema, Tracer, TypeName};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::{FromStr, Utf8Error};

/// Text of at most `N` bytes, `N` up to 255: a plain `Copy` value of `N + 1` bytes, for codes,
/// names and keys that are short. It needs no journal: a new one replaces the old one.
///
/// ```
/// use everbyte_object::ShortString;
///
/// let code: ShortString<15> = "EUR".try_into()?;
/// assert_eq!((&*code, code.len()), ("EUR", 3));
/// assert_eq!(ShortString::<2>::new("EUR").unwrap_err().to_string(), "a text of 3 bytes in a `ShortString<2>`");
/// # Ok::<(), everbyte_object::TooLong>(())
/// ```
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ShortString<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

/// A text that does not fit into a [`ShortString`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {len} bytes in a `ShortString<{most}>`")]
pub struct TooLong {
    /// Bytes of the text.
    pub len: usize,
    /// Bytes that there is room for.
    pub most: usize,
}

impl<const N: usize> ShortString<N> {
    /// Empty text.
    pub const EMPTY: ShortString<N> = {
        assert!(N <= 255, "a `ShortString` has at most 255 bytes: use a `PString`");
        ShortString { len: 0, bytes: [0; N] }
    };

    /// A copy of `text`.
    ///
    /// # Errors
    /// [`TooLong`] if it has more than `N` bytes.
    pub const fn new(text: &str) -> Result<ShortString<N>, TooLong> {
        let mut short = Self::EMPTY;
        if text.len() > N {
            return Err(TooLong { len: text.len(), most: N });
        }
        short.len = text.len() as u8;
        short.bytes.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
        Ok(short)
    }

    /// The text. Of a value that the medium has damaged it is the part before the damage;
    /// [`ShortString::try_as_str`] tells, and so does `everbyte check --deep`.
    pub fn as_str(&self) -> &str {
        match self.try_as_str() {
            Ok(text) => text,
            Err(damaged) => std::str::from_utf8(&self.used()[..damaged.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The text, if it is text.
    ///
    /// # Errors
    /// If the bytes are not UTF-8: the value is damaged.
    pub fn try_as_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(self.used())
    }

    fn used(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(N)]
    }
}

// SAFETY: bytes without padding, of any value (FORM-1), and no more is believed of them (SHORT-1).
unsafe impl<const N: usize, P: MemPool> PSafe<P> for ShortString<N> {
    type At<'x> = ShortString<N>;
    type Outside = ShortString<N>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        Form::ShortString(N).describe::<Self, P>(schema)
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's; any bits are bytes.
        let this_ref = unsafe { &*this };
        let form = Form::ShortString(N);
        let mut all = vec![this_ref.len];
        all.extend(this_ref.bytes);
        if !form.is_valid(&all) {
            tracer.invalid(this.cast(), &format!("not a `{}`", form.name()));
        }
    }
}

impl<const N: usize> Default for ShortString<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> Deref for ShortString<N> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> AsRef<str> for ShortString<N> {
    fn as_ref(&self) -> &str {
        self
    }
}

/// So that maps find a key by a `&str`.
impl<const N: usize> Borrow<str> for ShortString<N> {
    fn borrow(&self) -> &str {
        self
    }
}

impl<const N: usize> TryFrom<&str> for ShortString<N> {
    type Error = TooLong;

    fn try_from(text: &str) -> Result<Self, TooLong> {
        ShortString::new(text)
    }
}

impl<const N: usize> FromStr for ShortString<N> {
    type Err = TooLong;

    fn from_str(text: &str) -> Result<Self, TooLong> {
        ShortString::new(text)
    }
}

impl<const N: usize> PartialEq for ShortString<N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<str> for ShortString<N> {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&str> for ShortString<N> {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl<const N: usize> Eq for ShortString<N> {}

impl<const N: usize> PartialOrd for ShortString<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for ShortString<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<const N: usize> Hash for ShortString<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<const N: usize> fmt::Display for ShortString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl<const N: usize> fmt::Debug for ShortString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(feature = "serde")]
impl<const N: usize> serde::Serialize for ShortString<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.try_as_str() {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Err(serde::ser::Error::custom("text that is not UTF-8")),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de, const N: usize> serde::Deserialize<'de> for ShortString<N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<const N: usize>;
        impl<const N: usize> serde::de::Visitor<'_> for Text<N> {
            type Value = ShortString<N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a text of at most {N} bytes")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ShortString<N>, E> {
                ShortString::new(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
