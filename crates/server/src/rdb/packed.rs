//! Elements packed into one string: listpack, ziplist, intset, zipmap.
//!
//! | form | before | element | behind |
//! |---|---|---|---|
//! | listpack | size (4 bytes), count (2) | form, bytes, their size backwards | 255 |
//! | ziplist | size (4), place of the last (4), count (2) | size of the one before, form, bytes | 255 |
//! | intset | bytes of a number (4), count (4) | a number | |
//! | zipmap | count (1) | size and key, size, unused bytes, value | 255 |
//!
//! Elements are handed out as they are read: there may be one for every two bytes. Sizes, counts
//! and the links backwards are compared with what is there, the last of them behind the last
//! element.

use super::{Malformed, Result};
use std::borrow::Cow;

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Element<'p> {
    Bytes(&'p [u8]),
    Number(i64),
}

impl<'p> Element<'p> {
    /// As a string.
    pub(super) fn bytes(&self) -> Cow<'p, [u8]> {
        match self {
            Element::Bytes(bytes) => Cow::Borrowed(bytes),
            Element::Number(number) => Cow::Owned(number.to_string().into_bytes()),
        }
    }

    /// As a number, which a string may be, too.
    pub(super) fn number(&self) -> Result<i64> {
        match self {
            Element::Number(number) => Ok(*number),
            Element::Bytes(bytes) => {
                crate::resp::number::parse_integer(bytes).ok_or(Malformed { detail: "an element is no number" })
            }
        }
    }
}

const CUT: Malformed = Malformed { detail: "packed elements end early" };
const ODD_FORM: Malformed = Malformed { detail: "a packed element has an unknown form" };
const ODD_HEAD: Malformed = Malformed { detail: "packed elements have another size or count than they say" };
const ODD_LINK: Malformed = Malformed { detail: "packed elements are not linked backwards" };
/// A count of 16 bits that says nothing.
const MANY: usize = u16::MAX as usize;
const DESCENDS: Malformed = Malformed { detail: "the numbers of a set do not ascend" };
/// Behind the last element.
const END: u8 = 255;

fn part(bytes: &[u8], size: usize) -> Result<(&[u8], &[u8])> {
    bytes.split_at_checked(size).ok_or(CUT)
}

fn array<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8])> {
    let (array, rest) = bytes.split_first_chunk::<N>().ok_or(CUT)?;
    Ok((*array, rest))
}

fn integer_24(bytes: [u8; 3]) -> i64 {
    let [low, middle, high] = bytes;
    i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
}

/// Whether the count of a head agrees with the elements.
fn counted(said: u16, found: usize) -> Result<()> {
    if usize::from(said) == found || usize::from(said) == MANY { Ok(()) } else { Err(ODD_HEAD) }
}

/// The size of an element as a listpack has it behind the element.
pub(super) fn backwards_size(size: usize) -> Vec<u8> {
    let count = match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let septet = |at: usize| (size >> (7 * (count - 1 - at)) & 0x7f) as u8;
    (0..count).map(|at| if at == 0 { septet(at) } else { septet(at) | 0x80 }).collect()
}

/// One element of a listpack, and the bytes behind its form and content.
fn listpack_element(bytes: &[u8]) -> Result<(Element<'_>, &[u8])> {
    let (&form, rest) = bytes.split_first().ok_or(CUT)?;
    let text = |size: usize, rest| part(rest, size).map(|(text, rest)| (Element::Bytes(text), rest));
    match form {
        0..0x80 => Ok((Element::Number(i64::from(form)), rest)),
        0x80..0xc0 => text(usize::from(form & 0x3f), rest),
        0xc0..0xe0 => {
            let ([low], rest) = array(rest)?;
            let number = i64::from(form & 0x1f) << 8 | i64::from(low);
            Ok((Element::Number(if number >= 1 << 12 { number - (1 << 13) } else { number }), rest))
        }
        0xe0..0xf0 => {
            let ([low], rest) = array(rest)?;
            text(usize::from(form & 0x0f) << 8 | usize::from(low), rest)
        }
        0xf0 => {
            let (size, rest) = array(rest)?;
            text(u32::from_le_bytes(size) as usize, rest)
        }
        0xf1 => array(rest).map(|(bytes, rest)| (Element::Number(i16::from_le_bytes(bytes).into()), rest)),
        0xf2 => array(rest).map(|(bytes, rest)| (Element::Number(integer_24(bytes)), rest)),
        0xf3 => array(rest).map(|(bytes, rest)| (Element::Number(i32::from_le_bytes(bytes).into()), rest)),
        0xf4 => array(rest).map(|(bytes, rest)| (Element::Number(i64::from_le_bytes(bytes)), rest)),
        _ => Err(ODD_FORM),
    }
}

/// The elements of a listpack that are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listpack<'p> {
    rest: &'p [u8],
    said: u16,
    read: usize,
}

/// The elements of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Result<Listpack<'_>> {
    let (size, rest) = array(bytes)?;
    let (count, rest) = array(rest)?;
    if u32::from_le_bytes(size) as usize != bytes.len() {
        return Err(ODD_HEAD);
    }
    Ok(Listpack { rest, said: u16::from_le_bytes(count), read: 0 })
}

impl<'p> Listpack<'p> {
    /// Elements read.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Whether none is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.first() == Some(&END)
    }

    fn element(&mut self) -> Result<Element<'p>> {
        let (element, behind) = listpack_element(self.rest)?;
        let link = backwards_size(self.rest.len() - behind.len());
        self.rest = behind.strip_prefix(&link[..]).ok_or(ODD_LINK)?;
        self.read += 1;
        Ok(element)
    }
}

impl<'p> Iterator for Listpack<'p> {
    type Item = Result<Element<'p>>;

    fn next(&mut self) -> Option<Result<Element<'p>>> {
        if !self.is_at_end() {
            return Some(self.element());
        }
        let counted = counted(self.said, self.read);
        let ends = if self.rest.len() == 1 { counted } else { counted.and(Err(ODD_HEAD)) };
        ends.err().map(Err)
    }
}

/// One element of a ziplist behind the size of the one before, and the bytes behind it.
fn ziplist_element(bytes: &[u8]) -> Result<(Element<'_>, &[u8])> {
    let (&form, rest) = bytes.split_first().ok_or(CUT)?;
    let text = |size: usize, rest| part(rest, size).map(|(text, rest)| (Element::Bytes(text), rest));
    match form {
        0..0x40 => text(usize::from(form), rest),
        0x40..0x80 => {
            let ([low], rest) = array(rest)?;
            text(usize::from(form & 0x3f) << 8 | usize::from(low), rest)
        }
        0x80 => {
            let (size, rest) = array(rest)?;
            text(u32::from_be_bytes(size) as usize, rest)
        }
        0xc0 => array(rest).map(|(bytes, rest)| (Element::Number(i16::from_le_bytes(bytes).into()), rest)),
        0xd0 => array(rest).map(|(bytes, rest)| (Element::Number(i32::from_le_bytes(bytes).into()), rest)),
        0xe0 => array(rest).map(|(bytes, rest)| (Element::Number(i64::from_le_bytes(bytes)), rest)),
        0xf0 => array(rest).map(|(bytes, rest)| (Element::Number(integer_24(bytes)), rest)),
        0xfe => array(rest).map(|(bytes, rest)| (Element::Number(i8::from_le_bytes(bytes).into()), rest)),
        0xf1..0xfe => Ok((Element::Number(i64::from(form & 0x0f) - 1), rest)),
        _ => Err(ODD_FORM),
    }
}

/// The elements of a ziplist that are left.
pub(super) struct Ziplist<'p> {
    rest: &'p [u8],
    /// Bytes of all of it.
    size: usize,
    /// The place of the last element, by the head and by what was read.
    tail: usize,
    last: usize,
    /// Bytes of the element before.
    before: usize,
    said: u16,
    read: usize,
}

/// The elements of a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Result<Ziplist<'_>> {
    const HEAD: usize = 10;
    let (size, rest) = array(bytes)?;
    let (tail, rest) = array(rest)?;
    let (count, rest) = array(rest)?;
    if u32::from_le_bytes(size) as usize != bytes.len() {
        return Err(ODD_HEAD);
    }
    let (tail, said) = (u32::from_le_bytes(tail) as usize, u16::from_le_bytes(count));
    Ok(Ziplist { rest, size: bytes.len(), tail, last: HEAD, before: 0, said, read: 0 })
}

impl<'p> Ziplist<'p> {
    fn element(&mut self) -> Result<Element<'p>> {
        let start = self.rest.len();
        self.last = self.size - start;
        let ([link], behind) = array(self.rest)?;
        let (link, behind) = match link {
            254 => {
                let (link, behind) = array(behind)?;
                (u32::from_le_bytes(link) as usize, behind)
            }
            link => (usize::from(link), behind),
        };
        if link != self.before {
            return Err(ODD_LINK);
        }
        let (element, behind) = ziplist_element(behind)?;
        (self.before, self.rest) = (start - behind.len(), behind);
        self.read += 1;
        Ok(element)
    }
}

impl<'p> Iterator for Ziplist<'p> {
    type Item = Result<Element<'p>>;

    fn next(&mut self) -> Option<Result<Element<'p>>> {
        if self.rest.first() != Some(&END) {
            return Some(self.element());
        }
        let counted = counted(self.said, self.read);
        let ends = if self.rest.len() == 1 && self.tail == self.last { counted } else { counted.and(Err(ODD_HEAD)) };
        ends.err().map(Err)
    }
}

/// The numbers of an intset, which ascend.
pub(super) fn intset(bytes: &[u8]) -> Result<impl Iterator<Item = Result<Element<'_>>>> {
    let (width, rest) = array(bytes)?;
    let (count, rest) = array(rest)?;
    let (width, count) = (u32::from_le_bytes(width) as usize, u32::from_le_bytes(count) as usize);
    if ![2, 4, 8].contains(&width) || count.checked_mul(width) != Some(rest.len()) {
        return Err(ODD_HEAD);
    }
    let mut before = None;
    Ok(rest.chunks_exact(width).map(move |bytes| {
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut word = [if negative { 0xff } else { 0 }; 8];
        word[..width].copy_from_slice(bytes);
        let number = i64::from_le_bytes(word);
        let ascends = before.replace(number).is_none_or(|before| before < number);
        if ascends { Ok(Element::Number(number)) } else { Err(DESCENDS) }
    }))
}

/// The keys and values of a zipmap that are left, in turn.
pub(super) struct Zipmap<'p> {
    rest: &'p [u8],
    /// Behind a key.
    value: Option<&'p [u8]>,
    said: u8,
    read: usize,
}

/// The keys and values of a zipmap, in turn.
pub(super) fn zipmap(bytes: &[u8]) -> Result<Zipmap<'_>> {
    let ([said], rest) = array(bytes)?;
    Ok(Zipmap { rest, value: None, said, read: 0 })
}

impl<'p> Zipmap<'p> {
    fn size(bytes: &'p [u8]) -> Result<(usize, &'p [u8])> {
        let ([first], rest) = array(bytes)?;
        match first {
            254 => {
                let (size, rest) = array(rest)?;
                Ok((u32::from_le_bytes(size) as usize, rest))
            }
            first => Ok((usize::from(first), rest)),
        }
    }

    /// The next key, whose value is then due.
    fn key(&mut self) -> Result<&'p [u8]> {
        let (key_size, behind) = Zipmap::size(self.rest)?;
        let (key, behind) = part(behind, key_size)?;
        if behind.first() == Some(&END) {
            return Err(CUT);
        }
        let (value_size, behind) = Zipmap::size(behind)?;
        let ([unused], behind) = array(behind)?;
        let (value, behind) = part(behind, value_size)?;
        self.rest = part(behind, usize::from(unused))?.1;
        (self.value, self.read) = (Some(value), self.read + 1);
        Ok(key)
    }
}

impl<'p> Iterator for Zipmap<'p> {
    type Item = Result<Element<'p>>;

    fn next(&mut self) -> Option<Result<Element<'p>>> {
        if let Some(value) = self.value.take() {
            return Some(Ok(Element::Bytes(value)));
        }
        if self.rest.first() != Some(&END) {
            return Some(self.key().map(Element::Bytes));
        }
        let fits = usize::from(self.said) == self.read || self.said >= 254;
        (!fits || self.rest.len() != 1).then_some(Err(ODD_HEAD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_backwards_in_septets() {
        for (size, bytes) in [
            (1, &[1][..]),
            (127, &[127]),
            (128, &[1, 0x80]),
            (16_382, &[0x7f, 0xfe]),
            (16_383, &[0, 0xff, 0xff]),
            (1 << 20, &[0x40, 0x80, 0x80]),
        ] {
            assert_eq!(backwards_size(size), bytes, "{size}");
        }
    }

    #[test]
    fn integers_of_three_bytes_have_a_sign() {
        assert_eq!(integer_24([0xff, 0xff, 0xff]), -1);
        assert_eq!(integer_24([0, 0, 0x80]), -(1 << 23));
        assert_eq!(integer_24([1, 0, 0]), 1);
    }

    #[test]
    fn zipmaps_and_intsets_are_read() {
        let map = b"\x02\x03foo\x03\x00bar\x05hello\x05\x01world!\xff";
        let read = |map| zipmap(map)?.collect::<Result<Vec<Element<'_>>>>();
        assert_eq!(read(map).unwrap(), [&b"foo"[..], b"bar", b"hello", b"world"].map(Element::Bytes));
        assert!(read(&map[..map.len() - 1]).is_err());
        let read = |set| intset(set)?.collect::<Result<Vec<Element<'_>>>>();
        assert_eq!(read(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 5, 0]).unwrap(), [-1, 5].map(Element::Number));
        assert!(read(&[2, 0, 0, 0, 2, 0, 0, 0, 5, 0, 5, 0]).is_err());
        assert!(read(&[3, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
