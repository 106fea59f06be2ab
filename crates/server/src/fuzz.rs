//! Entry for fuzzers: any bytes, as if a client had sent them.

use crate::exporter::check_request;
use crate::glob::{LetterCase, literal_prefix, matches};
use crate::hyperloglog::Estimate;
use crate::lua;
use crate::rdb::{Input, Part, read_value};
use crate::resp::double::{double_text, parse_double, parse_double_loosely};
use crate::resp::extended::{Extended, TEXT_SIZE_MAX};
use crate::resp::parse::{Malformed, Parser, Step};

/// Inputs are cut to this size, so that limits on lines without an end do not depend on where the
/// input is cut.
const SIZE_MAX: usize = 32 * 1024;

type Requests = (Vec<Vec<Vec<u8>>>, Option<Malformed>);

fn parse(bytes: &[u8], piece: usize) -> Requests {
    let mut parser = Parser::new(1 << 20);
    let (mut start, mut known, mut requests) = (0, 0, Vec::new());
    while known < bytes.len() {
        known = (known + piece).min(bytes.len());
        loop {
            let input = &bytes[start..known];
            match parser.parse(input) {
                Err(malformed) => {
                    assert!(malformed.text().starts_with(b"ERR "), "an error reply has a code");
                    return (requests, Some(malformed));
                }
                Ok(Step::Incomplete { missing }) => {
                    assert!(missing > 0, "RESP-1");
                    assert!(parser.memory() <= 64 * (known + 1024), "RESP-2");
                    break;
                }
                Ok(Step::Nothing { used }) => start += used,
                Ok(Step::Request { used }) => {
                    assert!(used > 0 && used <= input.len(), "RESP-1");
                    requests.push(parser.args(input).from(0).map(<[u8]>::to_vec).collect());
                    start += used;
                }
            }
        }
    }
    (requests, None)
}

/// Reads a text as a number, in each of the ways.
fn numbers(text: &[u8]) {
    parse_double_loosely(text);
    let extended = Extended::parse(text);
    if let Some(double) = parse_double(text) {
        assert_eq!(parse_double(double_text(double).as_bytes()), Some(double), "17 digits hold every double");
        assert!(extended.is_some() || text.len() > TEXT_SIZE_MAX, "more numbers are extended ones");
    }
    if let Some(sum) = extended.and_then(|number| number.plus(number)) {
        assert!(Extended::parse(sum.text().as_bytes()).is_some(), "a sum is a number");
    }
}

/// Parses `bytes` whole and in pieces and compares (RESP-3); tries the first two arguments as
/// pattern and text, and as numbers; reads all as a request of HTTP. Returns the class of what
/// happened, so that a fuzzer knows new from old. Panics only for a bug of ours.
#[doc(hidden)]
pub fn fuzz_protocol(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SIZE_MAX)];
    let whole = parse(bytes, bytes.len().max(1));
    for piece in [1, 3, 17, 4096] {
        assert_eq!(parse(bytes, piece), whole, "RESP-3, pieces of {piece}");
    }
    check_request(bytes);
    for request in whole.0.iter().filter(|request| request.len() > 1).take(64) {
        let (pattern, text) = (&request[0][..], &request[1][..]);
        let (prefix, _) = literal_prefix(pattern);
        if matches(pattern, text, LetterCase::Exact) {
            assert!(text.starts_with(&prefix), "a match begins with the pattern's literal start");
        }
        matches(pattern, text, LetterCase::Folded);
        request[..2].iter().for_each(|text| numbers(text));
    }
    let shape: Vec<String> = whole.0.iter().take(3).map(|request| request.len().min(4).to_string()).collect();
    let end = whole.1.map_or("open".into(), |malformed| match malformed {
        Malformed::NotBulk(_) => "NotBulk".into(),
        other => format!("{other:?}"),
    });
    format!("{} {end}", shape.join(","))
}

/// Reads `bytes` as a type and a value in the format of RDB files (RDB-1), and as an estimated
/// count. Returns the class of what happened. Panics only for a bug of ours.
#[doc(hidden)]
pub fn fuzz_rdb(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SIZE_MAX)];
    let mut kinds = String::new();
    let (mut parts, mut size, mut numbers) = (0_u64, 0, 0_u64);
    let mut each = |part: Part<'_>| {
        let (kind, text, number) = match part {
            Part::String(text) => ('s', text.len(), 0),
            Part::Element(text) => ('e', text.len(), 0),
            Part::Member(text) => ('m', text.len(), 0),
            Part::Scored(text, score) => ('z', text.len(), score.to_bits()),
            Part::Field(field, value) => ('f', field.len() + value.len(), 0),
            // Names that are shared count once.
            Part::Entry(id, fields) => ('x', 0, id.0 ^ id.1 ^ fields.len() as u64),
            Part::State { last, deleted, added } => ('t', 0, last.0 ^ deleted.1 ^ added),
            Part::Group(name, last, read) => ('g', name.len(), last.0 ^ read.unwrap_or(0)),
            Part::Pending(id, time, times) => ('p', 0, id.0 ^ time ^ times),
            Part::Consumer(name, seen) => ('c', name.len(), seen),
            Part::Owned(id) => ('o', 0, id.0),
        };
        if !kinds.ends_with(kind) && kinds.len() < 16 {
            kinds.push(kind);
        }
        (parts, size, numbers) = (parts + 1, size + text, numbers ^ number);
        Ok(())
    };
    let mut rest = bytes;
    let mut input = Input::new(&mut rest);
    let read = input.byte().and_then(|kind| read_value(kind, &mut input, &mut each).map(|()| kind));
    assert!(size <= 4096 * bytes.len() + 64, "RDB-1: {size} bytes of {}", bytes.len());
    let estimate = match Estimate::of(bytes.to_vec()) {
        Ok(estimate) => format!("{:?}", estimate.count().map(|count| count.checked_ilog10())),
        Err(odd) => format!("{odd:?}"),
    };
    let end = match read {
        Ok(kind) => format!("type {kind}, {} parts, {}", parts.min(3), u8::from(numbers != 0)),
        Err(malformed) => malformed.to_string(),
    };
    format!("{kinds} {end} {estimate}")
}

/// Runs `bytes` as a script, or hands them to a library of scripts: the first byte chooses. Returns
/// the class of what happened. Panics only for a bug of ours.
#[doc(hidden)]
pub fn fuzz_lua(bytes: &[u8]) -> String {
    let Some((choice, rest)) = bytes[..bytes.len().min(SIZE_MAX)].split_first() else { return String::new() };
    let code: &[u8] = match choice % 6 {
        0 => rest,
        1 => b"return cjson.encode(cjson.decode(ARGV[1]))",
        2 => b"return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))",
        3 => b"local format, data = string.match(ARGV[1], '^(.-)|(.*)$') return {struct.unpack(format, data)}",
        4 => b"local pattern, text = string.match(ARGV[1], '^(.-)|(.*)$') return {string.gsub(text, pattern, '%1')}",
        _ => b"local f = loadstring(ARGV[1]) return {pcall(f)}",
    };
    lua::fuzz(code, rest)
}
