//! A value, part by part, whatever its form.

use super::input::{Input, score};
use super::packed::{Element, intset, listpack, ziplist, zipmap};
use super::{Malformed, Result, kind, malformed, stream};

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
    /// An entry of a stream, in order: its id, and fields and values in turn.
    Entry((u64, u64), &'p [&'p [u8]]),
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
        let elements = match (kind, form) {
            (kind::LIST_QUICKLIST, _) => ziplist(&bytes)?,
            (_, LONG) => vec![Element::Bytes(&bytes)],
            (_, PACKED) => listpack(&bytes)?,
            _ => return malformed("a part of a list has an unknown form"),
        };
        for element in elements {
            found = true;
            each(Part::Element(&element.bytes()))?;
        }
    }
    if found { Ok(()) } else { malformed("a value without elements") }
}

/// All elements in one string.
fn packed(kind: u8, bytes: &[u8], each: &mut Sink<'_>) -> Result<()> {
    let elements = match kind {
        kind::SET_INTSET => intset(bytes)?.into_iter().map(Element::Number).collect(),
        kind::HASH_ZIPMAP => zipmap(bytes)?,
        kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK | kind::SET_LISTPACK => listpack(bytes)?,
        _ => ziplist(bytes)?,
    };
    if elements.is_empty() {
        return malformed("a value without elements");
    }
    match kind {
        kind::SET_INTSET | kind::SET_LISTPACK => elements.iter().try_for_each(|one| each(Part::Member(&one.bytes()))),
        kind::LIST_ZIPLIST => elements.iter().try_for_each(|one| each(Part::Element(&one.bytes()))),
        _ => {
            let (pairs, rest) = elements.as_chunks::<2>();
            if !rest.is_empty() {
                return Err(Malformed { detail: "a packed field has no value" });
            }
            let scored = matches!(kind, kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK);
            pairs.iter().try_for_each(|[one, other]| match scored {
                true => {
                    let score = match other {
                        Element::Number(number) => *number as f64,
                        Element::Bytes(text) => score(text)?,
                    };
                    each(Part::Scored(&one.bytes(), score))
                }
                false => each(Part::Field(&one.bytes(), &other.bytes())),
            })
        }
    }
}
