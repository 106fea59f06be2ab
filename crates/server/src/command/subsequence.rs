//! LCS: the longest common subsequence of two strings.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::KeyError;
use crate::resp::number::parse_integer;
use crate::resp::reply::Replies;

/// The lengths of the longest common subsequences of all prefixes of two strings.
struct Lengths {
    cells: Vec<u32>,
    /// Cells of a row: one for each prefix of the second string.
    width: usize,
}

impl Lengths {
    fn of(one: &[u8], other: &[u8]) -> Lengths {
        let width = other.len() + 1;
        let mut lengths = Lengths { cells: vec![0; (one.len() + 1) * width], width };
        for (row, byte) in one.iter().enumerate() {
            for (column, other) in other.iter().enumerate() {
                let length = match byte == other {
                    true => lengths.at(row, column) + 1,
                    false => lengths.at(row, column + 1).max(lengths.at(row + 1, column)),
                };
                lengths.cells[(row + 1) * width + column + 1] = length;
            }
        }
        lengths
    }

    /// Of the first `one` bytes and the first `other` bytes.
    fn at(&self, one: usize, other: usize) -> u32 {
        self.cells[one * self.width + other]
    }
}

/// Bytes that follow each other in both strings: the place of the first in each, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    one: usize,
    other: usize,
    size: usize,
}

/// The matches of the longest common subsequence, the last one first; and its bytes.
fn matches(one: &[u8], other: &[u8], lengths: &Lengths) -> (Vec<Match>, Vec<u8>) {
    let (mut found, mut text) = (Vec::<Match>::new(), Vec::new());
    let (mut row, mut column) = (one.len(), other.len());
    let mut open = false;
    while row > 0 && column > 0 {
        if one[row - 1] != other[column - 1] {
            if lengths.at(row - 1, column) > lengths.at(row, column - 1) {
                row -= 1
            } else {
                column -= 1
            }
            open = false;
            continue;
        }
        (row, column) = (row - 1, column - 1);
        text.push(one[row]);
        match found.last_mut() {
            Some(last) if open && (last.one, last.other) == (row + 1, column + 1) => {
                *last = Match { one: row, other: column, size: last.size + 1 };
            }
            _ => found.push(Match { one: row, other: column, size: 1 }),
        }
        open = true;
    }
    text.reverse();
    (found, text)
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN size] [WITHMATCHLEN]`
pub(super) fn lcs(call: &mut Call<'_, '_>) -> Outcome {
    let mut texts = [Vec::new(), Vec::new()];
    for (place, text) in texts.iter_mut().enumerate() {
        *text = match call.keys.get(call.args.get(place + 1)) {
            Err(KeyError::WrongType) => return Err(Fail::text("ERR The specified keys must contain string values")),
            found => found?.unwrap_or_default(),
        };
    }
    let (mut length, mut indexes, mut sizes, mut least) = (false, false, false, 0);
    let mut rest = call.args.from(3);
    while let Some(option) = rest.next() {
        match option {
            _ if is_word(option, "idx") => indexes = true,
            _ if is_word(option, "len") => length = true,
            _ if is_word(option, "withmatchlen") => sizes = true,
            _ if is_word(option, "minmatchlen") => {
                least = parse_integer(rest.next().ok_or(SYNTAX)?).ok_or(NOT_INTEGER)?.max(0).unsigned_abs();
            }
            _ => return Err(SYNTAX),
        }
    }
    if length && indexes {
        return Err(Fail::text("ERR If you want both the length and indexes, please just use IDX."));
    }
    let [one, other] = texts;
    let cells = (one.len() + 1).saturating_mul(other.len() + 1).saturating_mul(size_of::<u32>());
    if cells > call.shared.options.bulk_size_max {
        return Err(Fail::text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    let lengths = Lengths::of(&one, &other);
    let whole = i64::from(lengths.at(one.len(), other.len()));
    if length {
        call.out.integer(whole);
        return Ok(());
    }
    let (found, text) = matches(&one, &other, &lengths);
    if !indexes {
        call.out.bulk_owned(text);
        return call.room();
    }
    let found: Vec<Match> = found.into_iter().filter(|one| one.size as u64 >= least).collect();
    call.out.map(2);
    call.out.bulk(b"matches");
    call.out.array(found.len());
    for one in found {
        call.out.array(2 + usize::from(sizes));
        pair(call.out, one.one, one.size);
        pair(call.out, one.other, one.size);
        if sizes {
            call.out.integer(one.size as i64);
        }
    }
    call.out.bulk(b"len");
    call.out.integer(whole);
    call.room()
}

/// The first and the last place of a match.
fn pair(out: &mut Replies, first: usize, size: usize) {
    out.array(2);
    out.integer(first as i64);
    out.integer((first + size - 1) as i64);
}
