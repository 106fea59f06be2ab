//! Streams: entries in listpacks, then the state, then consumer groups.
//!
//! A listpack has the id of its first entry as its name, of which others are told as a distance. It
//! begins with the number of entries and of deleted ones, and with the fields of the first entry,
//! which later ones may share.

use super::input::Input;
use super::packed::{Element, Listpack, listpack};
use super::read::{Part, Sink};
use super::{Malformed, Result, kind, malformed};

/// Flag of an entry that was deleted.
pub(super) const DELETED: i64 = 1;
/// Flag of an entry with the fields of the first one.
pub(super) const SAME_FIELDS: i64 = 2;

const ENDS: Malformed = Malformed { detail: "an entry of a stream ends early" };

type Id = (u64, u64);

/// The fields and values of an entry, read from its listpack as they are asked for: an entry of a
/// few bytes may have many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'p> {
    /// Names that the entry shares with the first one, if it does.
    names: Option<Listpack<'p>>,
    /// Values, and names that are its own.
    own: Listpack<'p>,
    /// The number of pairs.
    count: usize,
}

impl Fields<'_> {
    /// The number of fields and values.
    pub(crate) fn len(&self) -> usize {
        2 * self.count
    }

    /// Gives `each` names and values in turn.
    pub(crate) fn visit(&self, each: &mut dyn FnMut(&[u8])) {
        let (mut names, mut own) = (self.names, self.own);
        for place in 0..self.len() {
            let part = match &mut names {
                Some(names) if place % 2 == 0 => names.next(),
                _ => own.next(),
            };
            // `entries` has read all of them before.
            if let Some(Ok(element)) = part {
                each(&element.bytes());
            }
        }
    }
}

/// The next number.
fn number(rest: &mut Listpack<'_>) -> Result<i64> {
    rest.next().ok_or(ENDS)??.number()
}

/// Passes over elements.
fn skip(rest: &mut Listpack<'_>, count: usize) -> Result<()> {
    for _ in 0..count {
        rest.next().ok_or(ENDS)??;
    }
    Ok(())
}

/// An id of 16 bytes, big-endian.
fn id_of(bytes: &[u8]) -> Result<Id> {
    let word = |part: [u8; 8]| u64::from_be_bytes(part);
    match bytes.as_chunks::<8>() {
        ([ms, seq], []) => Ok((word(*ms), word(*seq))),
        _ => malformed("an id of a stream has another size"),
    }
}

/// Reads a stream of a type, whose number is given.
pub(super) fn read(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>) -> Result<()> {
    let (parts, mut count, mut ends) = (input.length()?, 0, None);
    for _ in 0..parts {
        let name = id_of(&input.string()?)?;
        let bytes = input.string()?;
        count += entries(name, listpack(&bytes)?, &mut ends, each)?;
    }
    let length = input.length()?;
    let mut id = || Ok((input.length()?, input.length()?));
    let newest = id()?;
    let (deleted, added) = match kind {
        kind::STREAM => ((0, 0), length),
        _ => {
            let _first: Id = id()?;
            let deleted = id()?;
            (deleted, input.length()?)
        }
    };
    if length != count {
        return malformed("a stream has another number of entries than it says");
    }
    if ends.is_some_and(|(_, last)| last > newest) {
        return malformed("a stream has an entry behind its last id");
    }
    // Redis counts in 63 bits wherever it tells the number.
    if added > i64::MAX as u64 {
        return malformed("a stream has had too many entries");
    }
    each(Part::State { last: newest, deleted, added })?;
    groups(kind, input, each, &|id| read_up_to(id, ends.map(|(first, _)| first), newest, length))
}

/// The number of entries up to an id, in a stream of this length that counts none before them, as
/// Redis estimates it for a group of a form that does not tell; `None` if it is not known.
fn read_up_to(id: Id, first: Option<Id>, newest: Id, length: u64) -> Option<u64> {
    match first {
        None => Some(0),
        Some(_) if id == newest => Some(length),
        Some(first) if id < first => Some(0),
        Some(first) if id == first => Some(1),
        Some(_) => None,
    }
}

/// The entries of a listpack; how many. `ends`: the first and the last id of the stream so far.
fn entries(name: Id, mut rest: Listpack<'_>, ends: &mut Option<(Id, Id)>, each: &mut Sink<'_>) -> Result<u64> {
    let count = |number: i64| usize::try_from(number).map_err(|_| ENDS);
    let (alive, gone) = (number(&mut rest)?, number(&mut rest)?);
    let shared = count(number(&mut rest)?)?;
    let names = rest;
    skip(&mut rest, shared)?;
    if rest.next().ok_or(ENDS)?? != Element::Number(0) {
        return Err(ENDS);
    }
    let (mut found, mut deleted) = (0_i64, 0_i64);
    while !rest.is_at_end() {
        let before = rest.read();
        let (flags, ms, seq) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        let id = (name.0.wrapping_add(ms as u64), name.1.wrapping_add(seq as u64));
        let shares = flags & SAME_FIELDS != 0;
        let pairs = if shares { shared } else { count(number(&mut rest)?)? };
        let fields = Fields { names: shares.then_some(names), own: rest, count: pairs };
        skip(&mut rest, if shares { pairs } else { pairs.checked_mul(2).ok_or(ENDS)? })?;
        let size = rest.read() - before;
        if number(&mut rest)? != size as i64 {
            return malformed("an entry of a stream has another size than it says");
        }
        if flags & DELETED != 0 {
            deleted += 1;
            continue;
        }
        if ends.is_some_and(|(_, last)| id <= last) || id == (0, 0) {
            return malformed("the ids of a stream do not ascend");
        }
        *ends = Some((ends.map_or(id, |(first, _)| first), id));
        found += 1;
        each(Part::Entry(id, fields))?;
    }
    rest.next().transpose()?;
    if (alive, gone) == (found, deleted) {
        Ok(found.unsigned_abs())
    } else {
        malformed("a part of a stream has another number of entries than it says")
    }
}

/// The consumer groups. `estimate` has the number of entries read up to an id.
fn groups(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>, estimate: &dyn Fn(Id) -> Option<u64>) -> Result<()> {
    /// The number of entries read is not known.
    const UNKNOWN: u64 = u64::MAX;
    for _ in 0..input.length()? {
        let name = input.string()?;
        let last = (input.length()?, input.length()?);
        let read = match kind {
            kind::STREAM => estimate(last),
            _ => Some(input.length()?).filter(|read| *read != UNKNOWN),
        };
        each(Part::Group(&name, last, read))?;
        for _ in 0..input.length()? {
            let id = id_of(&input.take(16)?)?;
            let (time, times) = (input.word()?, input.length()?);
            each(Part::Pending(id, time, times))?;
        }
        for _ in 0..input.length()? {
            let name = input.string()?;
            let seen = input.word()?;
            if kind == kind::STREAM_3 {
                input.word()?; // when it was active
            }
            each(Part::Consumer(&name, seen))?;
            for _ in 0..input.length()? {
                let id = id_of(&input.take(16)?)?;
                each(Part::Owned(id))?;
            }
        }
    }
    Ok(())
}
