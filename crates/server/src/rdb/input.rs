//! Bytes in order: lengths, numbers and strings of the format.

use super::{Result, lzf, malformed};
use std::io::Read;

/// Bytes that are asked for at a time, so that a length without bytes behind it costs no memory.
const PIECE: u64 = 64 << 10;

/// The rest of a source of bytes: a payload in memory, or a file.
pub(crate) struct Input<'s> {
    source: &'s mut dyn Read,
    /// Bytes of a string at most.
    string_max: u64,
}

/// A length, or the form of a string that has none.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'s> Input<'s> {
    /// From its beginning.
    pub(crate) fn new(source: &'s mut dyn Read) -> Input<'s> {
        Input { source, string_max: u64::MAX }
    }

    /// The same, which refuses strings of more bytes, compressed ones too.
    pub(crate) fn with_strings_up_to(self, size: usize) -> Input<'s> {
        Input { string_max: size as u64, ..self }
    }

    /// The size of a string, if it may have one.
    fn string_size(&self, size: u64) -> Result<u64> {
        if size > self.string_max { malformed("a string is too long") } else { Ok(size) }
    }

    /// The next `size` bytes.
    pub(super) fn take(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut left = size;
        while left > 0 {
            let piece = left.min(PIECE);
            match (&mut *self.source).take(piece).read_to_end(&mut bytes) {
                Ok(count) if count as u64 == piece => left -= piece,
                _ => return malformed("the bytes end early"),
            }
        }
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(_) => malformed("the bytes end early"),
        }
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The next 8 bytes as a number.
    pub(crate) fn word(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn length_or_form(&mut self) -> Result<Length> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(u64::from(first)),
            (1, _) => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Encoded(first & 0x3f),
            _ => return malformed("a length has an unknown form"),
        })
    }

    /// A length.
    pub(crate) fn length(&mut self) -> Result<u64> {
        match self.length_or_form()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => malformed("a string is where a length should be"),
        }
    }

    /// A string.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>> {
        let number = match self.length_or_form()? {
            Length::Plain(size) => {
                let size = self.string_size(size)?;
                return self.take(size);
            }
            Length::Encoded(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Encoded(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Encoded(3) => {
                let (packed, size) = (self.length()?, self.length()?);
                let (packed, size) = (self.string_size(packed)?, self.string_size(size)?);
                let bytes = self.take(packed)?;
                return match usize::try_from(size) {
                    Ok(size) => lzf::decompress(&bytes, size),
                    Err(_) => malformed("a string has an unknown size"),
                };
            }
            Length::Encoded(_) => return malformed("a string has an unknown form"),
        };
        Ok(number.to_string().into_bytes())
    }

    /// A score as text, of an older form.
    pub(super) fn text_score(&mut self) -> Result<f64> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => malformed("a score is no number"),
            size => {
                let text = self.take(u64::from(size))?;
                score(&text)
            }
        }
    }

    /// A score in binary.
    pub(super) fn score(&mut self) -> Result<f64> {
        let score = f64::from_bits(self.word()?);
        if score.is_nan() { malformed("a score is no number") } else { Ok(score) }
    }
}

/// The score that a text says.
pub(super) fn score(text: &[u8]) -> Result<f64> {
    match crate::resp::double::parse_double(text) {
        Some(score) => Ok(score),
        None => malformed("a score is no number"),
    }
}
