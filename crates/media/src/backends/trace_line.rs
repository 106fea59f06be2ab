//! [`TraceLine`]: one operation on media as a line of text. A program in another process reports to
//! the explorer in such lines.

use std::fmt::{self, Write};
use std::str::FromStr;

/// One operation of a program on its media, or one of its steps. Offsets and lengths in bytes.
///
/// As text: a word, then numbers in hexadecimal, or bytes, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceLine {
    /// Bytes were stored: the offset and the bytes.
    Store(u64, Vec<u8>),
    /// Bytes were flushed: the offset and the length.
    Flush(u64, u64),
    /// A fence.
    Fence,
    /// Everything ordered by this number of fences, counted from the first, is settled.
    Barrier(u64),
    /// Bytes are about to be backed: the offset and the length.
    Allocate(u64, u64),
    /// Pages were released: the offset and the length.
    Punch(u64, u64),
    /// The program begins an operation.
    Begin(String),
    /// The operation begun last has been acknowledged.
    Acked,
    /// Recovery is done; the program uses the recovered data from here on.
    Recovered,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceLine::Store(at, bytes) => {
                write!(f, "store {at:x} ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            TraceLine::Flush(at, len) => write!(f, "flush {at:x} {len:x}"),
            TraceLine::Fence => f.write_str("fence"),
            TraceLine::Barrier(mark) => write!(f, "barrier {mark:x}"),
            TraceLine::Allocate(at, len) => write!(f, "allocate {at:x} {len:x}"),
            TraceLine::Punch(at, len) => write!(f, "punch {at:x} {len:x}"),
            TraceLine::Begin(name) => {
                f.write_str("begin ")?;
                name.chars().try_for_each(|letter| f.write_char(if letter == '\n' { ' ' } else { letter }))
            }
            TraceLine::Acked => f.write_str("acked"),
            TraceLine::Recovered => f.write_str("recovered"),
        }
    }
}

impl FromStr for TraceLine {
    type Err = String;

    fn from_str(line: &str) -> Result<TraceLine, String> {
        parse(line).ok_or_else(|| format!("`{line}` is not a line of a tape"))
    }
}

fn parse(line: &str) -> Option<TraceLine> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let pair = || {
        let (at, len) = rest.split_once(' ')?;
        Some((number(at)?, number(len)?))
    };
    Some(match word {
        "store" => {
            let (at, hex) = rest.split_once(' ')?;
            let digits = hex.as_bytes().chunks(2);
            let bytes = digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
            TraceLine::Store(number(at)?, bytes.collect::<Option<_>>()?)
        }
        "flush" => pair().map(|(at, len)| TraceLine::Flush(at, len))?,
        "allocate" => pair().map(|(at, len)| TraceLine::Allocate(at, len))?,
        "punch" => pair().map(|(at, len)| TraceLine::Punch(at, len))?,
        "barrier" => TraceLine::Barrier(number(rest)?),
        "begin" => TraceLine::Begin(rest.into()),
        "fence" if rest.is_empty() => TraceLine::Fence,
        "acked" if rest.is_empty() => TraceLine::Acked,
        "recovered" if rest.is_empty() => TraceLine::Recovered,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_lines_are_read_and_others_refused() {
        for line in [
            TraceLine::Store(64, vec![0, 255, 16]),
            TraceLine::Flush(0, u64::MAX),
            TraceLine::Fence,
            TraceLine::Barrier(17),
            TraceLine::Allocate(4096, 65536),
            TraceLine::Punch(1, 2),
            TraceLine::Begin("insert a b".into()),
            TraceLine::Acked,
            TraceLine::Recovered,
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert_eq!(TraceLine::Begin("two\nlines".into()).to_string(), "begin two lines");
        for bad in ["", "store", "store 10", "store x 00", "store 0 0g", "flush 1", "fence 1", "barrier", "jump 1 2"] {
            assert!(bad.parse::<TraceLine>().is_err(), "{bad}");
        }
    }
}
