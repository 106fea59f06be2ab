//! Entry for fuzzers: any bytes, as if a client had sent them.

use crate::glob::{LetterCase, literal_prefix, matches};
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
/// pattern and text, and as numbers. Returns the class of what happened, so that a fuzzer knows new
/// from old. Panics only for a bug of ours.
#[doc(hidden)]
pub fn fuzz_protocol(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SIZE_MAX)];
    let whole = parse(bytes, bytes.len().max(1));
    for piece in [1, 3, 17, 4096] {
        assert_eq!(parse(bytes, piece), whole, "RESP-3, pieces of {piece}");
    }
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
