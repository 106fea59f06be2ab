//! Streams: entries in listpacks, then the state, then consumer groups.
//!
//! A listpack has the id of its first entry as its name, of which others are told as a distance. It
//! begins with the number of entries and of deleted ones, and with the fields of the first entry,
//! which later ones may share.

use super::input::Input;
use super::packed::{Element, listpack};
use super::read::{Part, Sink};
use super::{Malformed, Result, kind, malformed};

/// Flag of an entry that was deleted.
pub(super) const DELETED: i64 = 1;
/// Flag of an entry with the fields of the first one.
pub(super) const SAME_FIELDS: i64 = 2;

const ENDS: Malformed = Malformed { detail: "an entry of a stream ends early" };

type Id = (u64, u64);

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
    let (parts, mut count, mut last) = (input.length()?, 0, None);
    for _ in 0..parts {
        let first = id_of(&input.string()?)?;
        let bytes = input.string()?;
        count += entries(first, &listpack(&bytes)?, &mut last, each)?;
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
    if last.is_some_and(|last| last > newest) {
        return malformed("a stream has an entry behind its last id");
    }
    each(Part::State { last: newest, deleted, added })?;
    groups(kind, input, each)
}

/// The entries of a listpack; how many. `last` is the id before them.
fn entries(first: Id, elements: &[Element<'_>], last: &mut Option<Id>, each: &mut Sink<'_>) -> Result<u64> {
    let mut rest = elements.iter();
    let mut number = || rest.next().ok_or(ENDS)?.number();
    let (alive, gone, fields) = (number()?, number()?, number()?);
    let fields = usize::try_from(fields).ok().filter(|count| *count < elements.len()).ok_or(ENDS)?;
    let names: Vec<Vec<u8>> = rest.by_ref().take(fields).map(Element::bytes).collect();
    if names.len() != fields || rest.next() != Some(&Element::Number(0)) {
        return Err(ENDS);
    }
    let (mut found, mut deleted) = (0_i64, 0_i64);
    while rest.len() > 0 {
        let before = rest.len();
        let mut number = || rest.next().ok_or(ENDS)?.number();
        let (flags, ms, seq) = (number()?, number()?, number()?);
        let id = (first.0.wrapping_add(ms as u64), first.1.wrapping_add(seq as u64));
        // Names that are shared are not copied: there may be as many bytes of them for each entry.
        let own: Vec<Vec<u8>> = if flags & SAME_FIELDS != 0 {
            rest.by_ref().take(fields).map(Element::bytes).collect()
        } else {
            let count = usize::try_from(number()?).ok().filter(|count| *count <= rest.len() / 2).ok_or(ENDS)?;
            rest.by_ref().take(2 * count).map(Element::bytes).collect()
        };
        let pairs: Vec<&[u8]> = match flags & SAME_FIELDS {
            0 => own.iter().map(Vec::as_slice).collect(),
            _ if own.len() < fields => return Err(ENDS),
            _ => names.iter().zip(&own).flat_map(|(name, value)| [&name[..], value]).collect(),
        };
        let size = before - rest.len();
        if rest.next().ok_or(ENDS)?.number()? != size as i64 {
            return malformed("an entry of a stream has another size than it says");
        }
        if flags & DELETED != 0 {
            deleted += 1;
            continue;
        }
        if last.is_some_and(|last| id <= last) || id == (0, 0) {
            return malformed("the ids of a stream do not ascend");
        }
        *last = Some(id);
        found += 1;
        each(Part::Entry(id, &pairs))?;
    }
    if (alive, gone) == (found, deleted) {
        Ok(found.unsigned_abs())
    } else {
        malformed("a part of a stream has another number of entries than it says")
    }
}

fn groups(kind: u8, input: &mut Input<'_>, each: &mut Sink<'_>) -> Result<()> {
    /// The number of entries read is not known.
    const UNKNOWN: u64 = u64::MAX;
    for _ in 0..input.length()? {
        let name = input.string()?;
        let last = (input.length()?, input.length()?);
        let read = if kind == kind::STREAM { UNKNOWN } else { input.length()? };
        each(Part::Group(&name, last, (read != UNKNOWN).then_some(read)))?;
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
