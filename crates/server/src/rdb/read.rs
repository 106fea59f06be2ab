//! A value, part by part, whatever its form.

use super::input::{Input, score};
use super::packed::{Element, intset, listpack, ziplist, zipmap};
use super::stream::{self, Fields};
use super::{Malformed, Result, kind, malformed};

/// A part of a value. The parts of one value are all of the same type.
#[derive(Debug)]
pub(crate) enum Part<'p> {
    /// All of a string.
    String(&'p [u8]),
    /// An element of a list, in order.
    Element(&'p [u8]),
    /// A member of a set.
    Member(&'p [u8]),
    /// A member of a sorted set, and its score.
    Scored(&'p [u8], f64),
    /// A field of a hash, and its value.
    Field(&'p [u8], &'p [u8]),
    /// An entry of a stream, in order: its id, and its fields.
    Entry((u64, u64), Fields<'p>),
    /// The state of a stream, behind its entries: last id, highest id that was deleted, and the
    /// number of entries ever added.
    State {
        /// Last id.
        last: (u64, u64),
        /// Highest id that was deleted.
        deleted: (u64, u64),
        /// Entries ever added.
        added: u64,
    },
    /// A consumer group of the stream: name, last id, entries read.
    Group(&'p [u8], (u64, u64), Option<u64>),
    /// An entry that the last group has delivered and that was not acknowledged: its id, the time
    /// in milliseconds since 1970, and how often.
    Pending((u64, u64), u64, u64),
    /// A consumer of the last group: its name, and when it was seen.
    Consumer(&'p [u8], u64),
    /// A pending entry of the last consumer.
    Owned((u64, u64)),
}

/// Takes the parts.
pub(crate) type Sink<'s> = dyn FnMut(Part<'_>) -> Result<()> + 's;

/// Reads a value of a type, whose number is given.
pub(crate) fn read_value(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>) -> Result<()> {
    match kind {
        kind::STRING => {
            let bytes = input.string()?;
            each(Part::String(&bytes))
        }
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => stream::read(kind, input, each),
        kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => quicklist(kind, input, each),
        kind::LIST | kind::SET | kind::SORTED_SET_TEXT | kind::HASH | kind::SORTED_SET => plain(kind, input, each),
        kind::HASH_ZIPMAP..=kind::HASH_ZIPLIST
        | kind::HASH_LISTPACK
        | kind::SORTED_SET_LISTPACK
        | kind::SET_LISTPACK => {
            let bytes = input.string()?;
            packed(kind, &bytes, each)
        }
        _ => malformed("a value has an unknown type"),
    }
}

/// Elements one after the other.
fn plain(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>) -> Result<()> {
    let count = input.length()?;
    if count == 0 {
        return malformed("a value without elements");
    }
    for _ in 0..count {
        let one = input.string()?;
        match kind {
            kind::LIST => each(Part::Element(&one))?,
            kind::SET => each(Part::Member(&one))?,
            kind::HASH => {
                let value = input.string()?;
                each(Part::Field(&one, &value))?;
            }
            kind::SORTED_SET_TEXT => {
                let score = input.text_score()?;
                each(Part::Scored(&one, score))?;
            }
            _ => {
                let score = input.score()?;
                each(Part::Scored(&one, score))?;
            }
        }
    }
    Ok(())
}

/// A list of packed lists, or of long elements.
fn quicklist(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>) -> Result<()> {
    const LONG: u64 = 1;
    const PACKED: u64 = 2;
    let (count, mut found) = (input.length()?, false);
    for _ in 0..count {
        let form = if kind == kind::LIST_QUICKLIST_2 { input.length()? } else { 0 };
        let bytes = input.string()?;
        let mut add = |element: &[u8]| {
            found = true;
            each(Part::Element(element))
        };
        match (kind, form) {
            (kind::LIST_QUICKLIST, _) => ziplist(&bytes)?.try_for_each(|one| add(&one?.bytes()))?,
            (_, LONG) => add(&bytes)?,
            (_, PACKED) => listpack(&bytes)?.try_for_each(|one| add(&one?.bytes()))?,
            _ => return malformed("a part of a list has an unknown form"),
        }
    }
    if found { Ok(()) } else { malformed("a value without elements") }
}

/// All elements in one string.
fn packed(kind: u8, bytes: &[u8], each: &mut Sink<'_>) -> Result<()> {
    let mut elements: Box<dyn Iterator<Item = Result<Element<'_>>> + '_> = match kind {
        kind::SET_INTSET => Box::new(intset(bytes)?),
        kind::HASH_ZIPMAP => Box::new(zipmap(bytes)?),
        kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK | kind::SET_LISTPACK => Box::new(listpack(bytes)?),
        _ => Box::new(ziplist(bytes)?),
    };
    let mut found = false;
    while let Some(one) = elements.next() {
        let one = one?.bytes();
        found = true;
        match kind {
            kind::SET_INTSET | kind::SET_LISTPACK => each(Part::Member(&one))?,
            kind::LIST_ZIPLIST => each(Part::Element(&one))?,
            _ => {
                let other = elements.next().ok_or(Malformed { detail: "a packed field has no value" })??;
                match (kind, &other) {
                    (kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK, Element::Number(number)) => {
                        each(Part::Scored(&one, *number as f64))?;
                    }
                    (kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK, Element::Bytes(text)) => {
                        each(Part::Scored(&one, score(text)?))?;
                    }
                    _ => each(Part::Field(&one, &other.bytes()))?,
                }
            }
        }
    }
    if found { Ok(()) } else { malformed("a value without elements") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::Input;

    /// Elements are told before the bytes behind them are read: a list of them would have many
    /// times the bytes of the payload.
    #[test]
    fn packed_elements_are_told_as_they_are_read() {
        // Of each form two elements or one pair, and an end that is no end.
        let listpack = b"\x0d\0\0\0\x02\0\x81a\x02\x81b\x02\xfe";
        let ziplist = b"\x11\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\x01b\xfe";
        let intset = b"\x02\0\0\0\x03\0\0\0\x05\0\x06\0\x06\0";
        let zipmap = b"\x01\x01a\x01\0b\xfe";
        for (kind, bytes) in [
            (kind::HASH_LISTPACK, &listpack[..]),
            (kind::LIST_ZIPLIST, ziplist),
            (kind::SET_INTSET, intset),
            (kind::HASH_ZIPMAP, zipmap),
        ] {
            let payload = [&[bytes.len() as u8][..], bytes].concat();
            let (mut rest, mut told) = (&payload[..], 0);
            let read = read_value(kind, &mut Input::new(&mut rest), &mut |_| {
                told += 1;
                Ok(())
            });
            assert!(read.is_err() && told > 0, "type {kind}: {read:?}, {told} parts");
        }
    }
}
