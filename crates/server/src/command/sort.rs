//! SORT and SORT_RO: the elements of a list, set or sorted set in an order of their own or of other
//! keys.
//!
//! All elements of the collection are in memory while a command sorts them, so one that has more
//! bytes than a reply may have is refused. So are more bytes of values that texts are sorted by, or
//! that STORE stores.

use super::fail::{NOT_INTEGER, SYNTAX, WRONG_TYPE};
use super::{Call, CommandTable, Fail, Outcome, is_word};
use crate::keyspace::{Collection, End, HashedMember, KeyError, ScoreSpan, ValueType, hashed};
use crate::resp::double::parse_double;
use crate::resp::number::parse_integer;
use std::cmp::Ordering;

/// Bytes of memory that an element costs beside its own.
const EACH: usize = 48;

/// Bytes of memory that a command may still use.
struct Room(usize);

impl Room {
    /// That of a list of elements or values; a reply may have as much.
    fn new(call: &Call<'_, '_>) -> Room {
        Room(call.shared.options.output_size_max)
    }

    /// Whether a part of it was enough for so many bytes more.
    fn take(&mut self, size: usize) -> Outcome {
        self.0 = self.0.checked_sub(size + EACH).ok_or(Fail::OutputLimit)?;
        Ok(())
    }
}

/// The words of a command.
#[derive(Default)]
struct Words<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    /// Elements that are left out, and the number of those that are not.
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    target: Option<&'a [u8]>,
}

/// Whether the client may read keys whose names the elements give.
fn reads_all_keys(call: &Call<'_, '_>) -> bool {
    let row = CommandTable::get().find(call.args.get(0));
    let user = call.shared.users.get(call.client.user);
    row.zip(user).is_some_and(|(row, user)| user.reads_all_keys(row, &call.args))
}

impl<'a> Words<'a> {
    fn of(call: &Call<'a, '_>, stores: bool) -> Result<Words<'a>, Fail> {
        let mut words = Words::default();
        let mut rest = call.args.from(2);
        while let Some(option) = rest.next() {
            match option {
                _ if is_word(option, "asc") => words.descending = false,
                _ if is_word(option, "desc") => words.descending = true,
                _ if is_word(option, "alpha") => words.alpha = true,
                _ if is_word(option, "limit") => {
                    let (Some(start), Some(count)) = (rest.next(), rest.next()) else { return Err(SYNTAX) };
                    let number = |arg| parse_integer(arg).ok_or(NOT_INTEGER);
                    words.limit = Some((number(start)?, number(count)?));
                }
                _ if stores && is_word(option, "store") => words.target = Some(rest.next().ok_or(SYNTAX)?),
                _ if is_word(option, "by") => {
                    let pattern = rest.next().ok_or(SYNTAX)?;
                    if pattern.contains(&b'*') && !reads_all_keys(call) {
                        return Err(Fail::text("ERR BY option of SORT denied due to insufficient ACL permissions."));
                    }
                    words.by = Some(pattern);
                }
                _ if is_word(option, "get") => {
                    let pattern = rest.next().ok_or(SYNTAX)?;
                    if !reads_all_keys(call) {
                        return Err(Fail::text("ERR GET option of SORT denied due to insufficient ACL permissions."));
                    }
                    words.get.push(pattern);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(words)
    }
}

/// The text that a C string of these bytes shows.
fn c_text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The key that a pattern names with an element in place of its star, and the field behind `->`;
/// `None` without a star.
fn named(pattern: &[u8], element: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let star = c_text(pattern).iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = c_text(behind).windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|at| !c_text(&behind[at + 2..]).is_empty());
    let (rest, field) = match arrow {
        Some(at) => (&behind[..at], Some(behind[at + 2..].to_vec())),
        None => (behind, None),
    };
    Some(([before, element, rest].concat(), field))
}

/// The value that a pattern names for an element; `None` where there is none, or of another type.
fn looked_up(call: &mut Call<'_, '_>, pattern: &[u8], element: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some((key, field)) = named(pattern, element) else { return Ok(None) };
    let found = match field {
        None => call.keys.get(&key),
        Some(field) => match call.keys.collection(&key, ValueType::Hash) {
            Ok(Some(hash)) => Ok(call.keys.element(&hash, &hashed(&field))?),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        },
    };
    match found {
        Err(KeyError::WrongType) => Ok(None),
        other => Ok(other?),
    }
}

/// An element and the value that it is sorted by.
struct Sorted {
    element: Vec<u8>,
    number: f64,
    text: Option<Vec<u8>>,
}

/// A number as C reads it, behind blanks; nothing is zero.
fn number(text: &[u8]) -> Option<f64> {
    let text = c_text(text);
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    if text.is_empty() { Some(0.0) } else { parse_double(&text[blanks..]) }
}

/// The elements of a collection: of a sorted set by score, from its end if `backwards`.
fn elements(call: &mut Call<'_, '_>, of: &Collection, backwards: bool) -> Result<Vec<Sorted>, Fail> {
    let (mut all, mut room, mut fits) = (Vec::new(), Room::new(call), Ok(()));
    let mut add = |element: &[u8]| {
        fits = room.take(element.len());
        all.push(Sorted { element: element.to_vec(), number: 0.0, text: None });
        fits.is_ok()
    };
    match of.kind {
        ValueType::List => call.keys.visit_list(of, 0..of.count, backwards, &mut add)?,
        ValueType::SortedSet => {
            call.keys.walk_scores(of, &ScoreSpan::all(), backwards, 0, &mut |_, member| add(member))?;
        }
        _ => call.keys.walk_members(of, 0, false, &mut |HashedMember { member, .. }| add(member))?,
    }
    fits.map(|()| all)
}

/// Sorts elements by themselves, or by the values that `by` names.
fn sort(call: &mut Call<'_, '_>, words: &Words<'_>, by: Option<&[u8]>, all: &mut [Sorted]) -> Outcome {
    let mut room = Room::new(call);
    for one in all.iter_mut() {
        let value = match by {
            Some(pattern) => looked_up(call, pattern, &one.element)?,
            None => Some(one.element.clone()),
        };
        if words.alpha {
            value.as_ref().map_or(Ok(()), |value| room.take(value.len()))?;
            one.text = value;
        } else if let Some(value) = value {
            one.number = number(&value).ok_or(Fail::text("ERR One or more scores can't be converted into double"))?;
        }
    }
    // Without STORE, texts are compared as C strings are.
    let stores = words.target.is_some();
    let texts = |one: &Sorted, other: &Sorted| match (&one.text, &other.text) {
        (Some(one), Some(other)) if !stores => c_text(one).cmp(c_text(other)),
        (one, other) => one.cmp(other),
    };
    all.sort_by(|one, other| {
        let order = match words.alpha {
            true => texts(one, other),
            false => {
                let numbers = one.number.partial_cmp(&other.number).unwrap_or(Ordering::Equal);
                numbers.then_with(|| one.element.cmp(&other.element))
            }
        };
        if words.descending { order.reverse() } else { order }
    });
    Ok(())
}

/// The elements of the key, in order and within the limit.
fn chosen(call: &mut Call<'_, '_>, words: &Words<'_>) -> Result<Vec<Sorted>, Fail> {
    let key = call.args.get(1);
    let kind = match call.keys.kind(key)? {
        None => return Ok(Vec::new()),
        Some(kind @ (ValueType::List | ValueType::Set | ValueType::SortedSet)) => kind,
        Some(_) => return Err(WRONG_TYPE),
    };
    let Some(of) = call.keys.collection(key, kind)? else { return Ok(Vec::new()) };
    // A pattern without a star asks for the order there is. A set has none, so that what is stored
    // of it, or what a script gets of it, is sorted all the same.
    let unsorted = words.by.is_some_and(|by| !c_text(by).contains(&b'*'));
    let set = unsorted && kind == ValueType::Set && (words.target.is_some() || call.client.scripting);
    let mut all = elements(call, &of, unsorted && words.descending)?;
    match (unsorted, set) {
        (true, true) => sort(call, &Words { alpha: true, ..words.order() }, None, &mut all)?,
        (true, false) => {}
        (false, _) => sort(call, words, words.by, &mut all)?,
    }
    if let Some((start, count)) = words.limit {
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(all.len());
        all.drain(..start);
        if let Ok(count) = usize::try_from(count) {
            all.truncate(count);
        }
    }
    Ok(all)
}

impl<'a> Words<'a> {
    /// The same order, without the values that are asked for.
    fn order(&self) -> Words<'a> {
        Words { by: self.by, descending: self.descending, alpha: self.alpha, target: self.target, ..Words::default() }
    }
}

fn run(call: &mut Call<'_, '_>, stores: bool) -> Outcome {
    let words = Words::of(call, stores)?;
    let all = chosen(call, &words)?;
    if let Some(target) = words.target {
        return store(call, target, &words.get, all);
    }
    call.out.array(all.len() * words.get.len().max(1));
    for one in all {
        if words.get.is_empty() {
            call.out.bulk_owned(one.element);
            call.room()?;
            continue;
        }
        for pattern in &words.get {
            match looked_up(call, pattern, &one.element)? {
                Some(value) => call.out.bulk_owned(value),
                None => call.out.null(),
            }
            call.room()?;
        }
    }
    Ok(())
}

/// Stores the result as a list. All of it is looked up before the first change.
fn store(call: &mut Call<'_, '_>, target: &[u8], get: &[&[u8]], all: Vec<Sorted>) -> Outcome {
    call.keys.check_key(target)?;
    let (mut values, mut room) = (Vec::new(), Room::new(call));
    for one in all {
        if get.is_empty() {
            values.push(one.element);
            continue;
        }
        for pattern in get {
            let value = looked_up(call, pattern, &one.element)?.unwrap_or_default();
            room.take(value.len())?;
            values.push(value);
        }
    }
    let mut made = None;
    if !values.is_empty() {
        let mut list = call.keys.collection_without_key(ValueType::List)?;
        for value in &values {
            call.keys.push_list(&mut list, End::Tail, value)?;
        }
        made = Some(list);
    }
    call.keys.store_in_place(target, made.as_ref())?;
    call.out.integer(values.len() as i64);
    Ok(())
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key]`
pub(super) fn sort_command(call: &mut Call<'_, '_>) -> Outcome {
    run(call, true)
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]`
pub(super) fn sort_ro(call: &mut Call<'_, '_>) -> Outcome {
    run(call, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        let name = |pattern: &[u8]| named(pattern, b"e");
        assert_eq!(name(b"w_*_x"), Some((b"w_e_x".to_vec(), None)));
        assert_eq!(name(b"w_*->f"), Some((b"w_e".to_vec(), Some(b"f".to_vec()))));
        assert_eq!(name(b"*->"), Some((b"e->".to_vec(), None)));
        assert_eq!(name(b"a->b*"), Some((b"a->be".to_vec(), None)));
        assert_eq!((name(b"none"), name(b"\0*")), (None, None));
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [
            (&b""[..], Some(0.0)),
            (b" 2", Some(2.0)),
            (b"1\0x", Some(1.0)),
            (b" ", None),
            (b"1x", None),
            (b"1e999", None),
        ] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }
}
