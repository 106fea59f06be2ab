//! Requests from bytes: arrays of bulk strings, and inline lines.
//!
//! Steps: a first byte `*` starts an array, any other byte a line. The parser keeps its position,
//! so a request that arrives in a thousand pieces is scanned once. It returns *spans* into the
//! caller's buffer: no argument is copied. A ready-made RESP parser builds a value tree per
//! request, with an allocation per argument; here a request is a few integers in a reused list, and
//! the errors must be those of Redis anyway.
//!
//! Invariants
//!   RESP-1  Every span lies inside the bytes that `parse` was given.
//!   RESP-2  The parser's memory grows with bytes received, never with lengths declared; before a
//!           request is complete it is bounded by [`SPANS_KEPT`] spans and one line.
//!   RESP-3  Where the input is cut does not change what is parsed.
//!
//! Threads: one parser per connection, used by the event loop alone.

use super::inline;
use super::number::parse_integer;

/// A line or a count without its end may be this long, as in Redis.
pub(crate) const LINE_SIZE_MAX: usize = 64 * 1024;

/// Arguments of a request, and bytes of each, from a client that lacks the password, as in Redis.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_SIZE_MAX: u32 = 16 * 1024;

/// Spans kept while a request is incomplete. Those behind them are found again when it is complete:
/// an empty argument has 6 bytes and its span 8, so they could outweigh the request many times
/// over.
const SPANS_KEPT: usize = 1024;

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentSpan {
    /// First byte.
    pub start: u32,
    /// Bytes.
    pub size: u32,
}

impl ArgumentSpan {
    /// The bytes at this place.
    pub(crate) fn of<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        &buffer[self.start as usize..self.start as usize + self.size as usize]
    }
}

/// The arguments of one request; argument 0 is the command's name.
#[derive(Clone, Copy)]
pub(crate) struct Args<'b> {
    bytes: &'b [u8],
    spans: &'b [ArgumentSpan],
}

impl<'b> Args<'b> {
    /// Arguments at `spans` of `bytes`; the spans lie inside.
    pub(crate) fn new(bytes: &'b [u8], spans: &'b [ArgumentSpan]) -> Args<'b> {
        Args { bytes, spans }
    }

    /// How many there are, the name included.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Argument `index`. Panics when there is none: handlers know their arity.
    pub(crate) fn get(&self, index: usize) -> &'b [u8] {
        self.spans[index].of(self.bytes)
    }

    /// The arguments from `first` on.
    pub(crate) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'b [u8]> + use<'b> {
        let bytes = self.bytes;
        self.spans[first.min(self.spans.len())..].iter().map(move |span| span.of(bytes))
    }
}

/// The protocol error that makes the rest of a connection's input unreadable. The client gets the
/// text, then the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// A line longer than [`LINE_SIZE_MAX`].
    InlineTooBig,
    /// Quotes that do not match.
    Unbalanced,
    /// An array count longer than [`LINE_SIZE_MAX`].
    CountTooBig,
    /// An array count that is no number, or above 2^31 - 1.
    Count,
    /// A bulk size line longer than [`LINE_SIZE_MAX`].
    SizeLineTooBig,
    /// Something else than `$` where an argument must start.
    NotBulk(u8),
    /// A bulk size that is no number, negative, or above the limit.
    Size,
    /// A request that does not fit the spans.
    RequestTooBig,
    /// An array above [`STRANGER_ARGUMENTS_MAX`] from a client that lacks the password.
    StrangerCount,
    /// An argument above [`STRANGER_SIZE_MAX`] from such a client.
    StrangerSize,
}

impl Malformed {
    /// The error reply, without its minus and line end.
    pub(crate) fn text(&self) -> Vec<u8> {
        let text: &[u8] = match self {
            Malformed::InlineTooBig => b"too big inline request",
            Malformed::Unbalanced => b"unbalanced quotes in request",
            Malformed::CountTooBig => b"too big mbulk count string",
            Malformed::Count => b"invalid multibulk length",
            Malformed::SizeLineTooBig => b"too big bulk count string",
            Malformed::NotBulk(byte) => {
                // An error is one line, so a byte that ends lines is shown as a blank.
                let shown = if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
                return [b"ERR Protocol error: expected '$', got '", &[shown][..], b"'"].concat();
            }
            Malformed::Size => b"invalid bulk length",
            Malformed::RequestTooBig => b"too big request",
            Malformed::StrangerCount => b"unauthenticated multibulk length",
            Malformed::StrangerSize => b"unauthenticated bulk length",
        };
        [b"ERR Protocol error: ", text].concat()
    }
}

/// The result of parsing the bytes seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Not a whole request yet; at least so many bytes are missing.
    Incomplete {
        /// Bytes that must still come.
        missing: usize,
    },
    /// An empty request (an empty line, `*0`): drop so many bytes and go on.
    Nothing {
        /// Bytes used up.
        used: usize,
    },
    /// A request: read [`Parser::args`], then drop so many bytes.
    Request {
        /// Bytes used up.
        used: usize,
    },
}

/// The parser's position within one request.
pub(crate) struct Parser {
    spans: Vec<ArgumentSpan>,
    /// Words of an inline line, unescaped; spans of such a request point here.
    words: Vec<u8>,
    inline: bool,
    /// Arguments still to come; 0 between requests.
    arguments: u32,
    /// Size of the current argument, after its size line has been read.
    bulk: Option<u32>,
    /// Bytes of this request already parsed.
    at: usize,
    /// Start of the argument behind the last kept span, and how many have come from there on.
    kept_end: usize,
    left_out: usize,
    bulk_size_max: usize,
    /// Whether the client lacks the password: its requests are short then.
    pub stranger: bool,
}

impl Parser {
    /// A parser that refuses arguments above `bulk_size_max` bytes.
    pub(crate) fn new(bulk_size_max: usize) -> Parser {
        Parser {
            spans: Vec::new(),
            words: Vec::new(),
            inline: false,
            arguments: 0,
            bulk: None,
            at: 0,
            kept_end: 0,
            left_out: 0,
            bulk_size_max: bulk_size_max.min(u32::MAX as usize / 2),
            stranger: false,
        }
    }

    /// Parses `input`, which starts at the end of the last request and holds all bytes since. A
    /// call with more bytes behind the same start continues the work. An error ends the connection.
    pub(crate) fn parse(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        if self.arguments == 0 {
            match input.first() {
                None => return Ok(Step::Incomplete { missing: 1 }),
                Some(b'*') => {
                    let Some((count, end)) = number_line(input, Malformed::CountTooBig)? else {
                        return Ok(Step::Incomplete { missing: 1 });
                    };
                    let count = count.filter(|count| *count <= i64::from(i32::MAX)).ok_or(Malformed::Count)?;
                    if count <= 0 {
                        return Ok(Step::Nothing { used: end });
                    }
                    if self.stranger && count > STRANGER_ARGUMENTS_MAX {
                        return Err(Malformed::StrangerCount);
                    }
                    self.begin(false);
                    self.arguments = count as u32;
                    self.at = end;
                }
                Some(_) => return self.line(input),
            }
        }
        while self.arguments > 0 {
            let size = match self.bulk {
                Some(size) => size,
                None => match self.size_line(&input[self.at.min(input.len())..])? {
                    Some(size) => size,
                    None => return Ok(Step::Incomplete { missing: 1 }),
                },
            };
            // The two bytes behind an argument are not checked, as in Redis.
            let end = self.at + size as usize + 2;
            if end > u32::MAX as usize {
                return Err(Malformed::RequestTooBig); // spans end below (RESP-1)
            }
            if input.len() < end {
                return Ok(Step::Incomplete { missing: end - input.len() });
            }
            if self.spans.len() < SPANS_KEPT {
                self.spans.push(ArgumentSpan { start: self.at as u32, size });
                self.kept_end = end;
            } else {
                self.left_out += 1;
            }
            self.at = end;
            self.bulk = None;
            self.arguments -= 1;
        }
        self.find_left_out(input)?;
        Ok(Step::Request { used: self.at })
    }

    /// Finds the arguments of a complete request again that were not kept.
    fn find_left_out(&mut self, input: &[u8]) -> Result<(), Malformed> {
        self.spans.reserve_exact(self.left_out);
        for _ in 0..std::mem::take(&mut self.left_out) {
            let line = number_line(&input[self.kept_end..], Malformed::SizeLineTooBig)?;
            let (Some(size), end) = line.ok_or(Malformed::Size)? else { return Err(Malformed::Size) };
            let start = self.kept_end + end;
            self.spans.push(ArgumentSpan { start: start as u32, size: size as u32 });
            self.kept_end = start + size as usize + 2;
        }
        Ok(())
    }

    /// Called after the completed request has been executed: frees its memory beyond the usual.
    pub(crate) fn done(&mut self) {
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
        if self.words.capacity() > LINE_SIZE_MAX {
            self.words = Vec::new();
        }
    }

    fn size_line(&mut self, rest: &[u8]) -> Result<Option<u32>, Malformed> {
        let Some(first) = rest.first() else { return Ok(None) };
        let Some((size, end)) = number_line(rest, Malformed::SizeLineTooBig)? else {
            return Ok(None);
        };
        if *first != b'$' {
            return Err(Malformed::NotBulk(*first));
        }
        let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= self.bulk_size_max);
        let size = size.ok_or(Malformed::Size)? as u32;
        if self.stranger && size > STRANGER_SIZE_MAX {
            return Err(Malformed::StrangerSize);
        }
        self.bulk = Some(size);
        self.at += end;
        Ok(Some(size))
    }

    fn line(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        let end = input.iter().position(|byte| matches!(byte, b'\n' | 0)).filter(|end| input[*end] == b'\n');
        let Some(end) = end else {
            return match input.len() > LINE_SIZE_MAX {
                true => Err(Malformed::InlineTooBig),
                false => Ok(Step::Incomplete { missing: 1 }),
            };
        };
        self.begin(true);
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        inline::split(line, &mut self.words, &mut self.spans).map_err(|_| Malformed::Unbalanced)?;
        Ok(match self.spans.is_empty() {
            true => Step::Nothing { used: end + 1 },
            false => Step::Request { used: end + 1 },
        })
    }

    fn begin(&mut self, inline: bool) {
        self.done();
        self.left_out = 0;
        self.spans.clear();
        self.words.clear();
        self.inline = inline;
        self.at = 0;
    }

    /// The arguments of the completed request; `input` is the input of `parse`.
    pub(crate) fn args<'b>(&'b self, input: &'b [u8]) -> Args<'b> {
        Args { bytes: if self.inline { &self.words } else { input }, spans: &self.spans }
    }

    /// Whether a line end is behind each argument of the completed array; `parse` passes over any
    /// two bytes.
    pub(crate) fn ends_lines(&self, input: &[u8]) -> bool {
        let end = |span: &ArgumentSpan| span.start as usize + span.size as usize;
        self.spans.iter().all(|span| input.get(end(span)..end(span) + 2) == Some(b"\r\n"))
    }

    /// Bytes this parser holds apart from the input, or will hold for the spans left out once the
    /// request is complete: all of them are taken at once then, and no lookup happens in between.
    pub(crate) fn memory(&self) -> usize {
        (self.spans.capacity() + self.left_out) * size_of::<ArgumentSpan>() + self.words.capacity()
    }
}

/// Reads a type byte, a number, CR and one byte more: `None` when the end is not here yet, else the
/// number, when it is one, and the size of it all. A NUL hides what follows it, as in Redis.
fn number_line(bytes: &[u8], too_big: Malformed) -> Result<Option<(Option<i64>, usize)>, Malformed> {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | 0)).filter(|end| bytes[*end] == b'\r');
    match end {
        None if bytes.len() > LINE_SIZE_MAX => Err(too_big),
        None => Ok(None),
        Some(end) if end + 1 >= bytes.len() => Ok(None),
        Some(end) => Ok(Some((parse_integer(bytes.get(1..end).unwrap_or_default()), end + 2))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything `bytes` holds, fed in pieces of `piece` bytes: requests, then how it ended.
    fn feed(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<Malformed>) {
        let mut parser = Parser::new(1 << 29);
        let (mut start, mut requests) = (0, Vec::new());
        let mut known = 0;
        while known < bytes.len() {
            known = (known + piece).min(bytes.len());
            loop {
                let input = &bytes[start..known];
                match parser.parse(input) {
                    Err(error) => return (requests, Some(error)),
                    Ok(Step::Incomplete { .. }) => break,
                    Ok(Step::Nothing { used }) => start += used,
                    Ok(Step::Request { used }) => {
                        requests.push(parser.args(input).from(0).map(<[u8]>::to_vec).collect());
                        start += used;
                    }
                }
            }
        }
        (requests, None)
    }

    fn check(bytes: &[u8], expect: &[&[&str]], error: Option<Malformed>) {
        for piece in [1, 2, 3, 7, bytes.len().max(1)] {
            let (requests, found) = feed(bytes, piece);
            let requests: Vec<Vec<String>> = requests
                .iter()
                .map(|request| request.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect())
                .collect();
            assert_eq!(requests, expect, "{:?} in pieces of {piece}", String::from_utf8_lossy(bytes));
            assert_eq!(found, error, "{:?} in pieces of {piece}", String::from_utf8_lossy(bytes));
        }
    }

    /// RESP-3, and what is a request.
    #[test]
    fn requests_come_out_whole_wherever_the_input_is_cut() {
        check(b"*1\r\n$4\r\nPING\r\n", &[&["PING"]], None);
        check(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING\r\n", &[&["GET", ""], &["PING"]], None);
        check(b"\r\n*0\r\n*-1\r\n\nPING\n", &[&["PING"]], None);
        check(b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPONG\r\n", &[&["PING"], &["PONG"]], None);
        check(b"*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n", &[&["a", "\r\n"]], None);
        check(b"*3\r\n$3\r\nSET\r\n", &[], None);
    }

    #[test]
    fn malformed_input_is_named() {
        check(b"*x\r\n", &[], Some(Malformed::Count));
        check(b"*2147483648\r\n", &[], Some(Malformed::Count));
        check(b"*1\r\n$-1\r\n", &[], Some(Malformed::Size));
        check(b"*1\r\n$536870913\r\n", &[], Some(Malformed::Size));
        check(b"PING\r\n*1\r\nXabc\r\n", &[&["PING"]], Some(Malformed::NotBulk(b'X')));
        check(b"*1\r\n\r\n", &[], Some(Malformed::NotBulk(b'\r')));
        check(b"*1\r\n\0abc\r\n", &[], None); // a NUL hides the line's end: nothing to say yet
        check(b"GET \"a\r\n", &[], Some(Malformed::Unbalanced));
    }

    #[test]
    fn lines_without_an_end_are_bounded() {
        let long = vec![b'1'; LINE_SIZE_MAX + 1];
        assert_eq!(feed(&long, 4096).1, Some(Malformed::InlineTooBig));
        assert_eq!(feed(&[b"*", &long[..]].concat(), 4096).1, Some(Malformed::CountTooBig));
        assert_eq!(feed(&[b"*1\r\n$", &long[..]].concat(), 4096).1, Some(Malformed::SizeLineTooBig));
    }

    /// RESP-2: a million empty arguments cost no spans until the last has come; then all are there,
    /// wherever the input was cut.
    #[test]
    fn unfinished_requests_of_many_arguments_cost_no_more_than_their_bytes() {
        const COUNT: usize = 100_000;
        let mut bytes = format!("*{COUNT}\r\n").into_bytes();
        let argument = |index: usize| vec![b'x'; index % 3];
        for index in 0..COUNT {
            bytes.extend_from_slice(format!("${}\r\n", index % 3).as_bytes());
            bytes.extend_from_slice(&argument(index));
            bytes.extend_from_slice(b"\r\n");
        }
        let mut parser = Parser::new(1 << 29);
        for end in (0..bytes.len()).step_by(9973) {
            assert!(matches!(parser.parse(&bytes[..end]), Ok(Step::Incomplete { .. })));
            assert!(parser.spans.capacity() <= 2 * SPANS_KEPT, "{} spans", parser.spans.capacity());
        }
        // The effect of the last byte has been counted before it comes.
        assert!(matches!(parser.parse(&bytes[..bytes.len() - 1]), Ok(Step::Incomplete { .. })));
        let before = parser.memory() + size_of::<ArgumentSpan>();
        assert_eq!(parser.parse(&bytes), Ok(Step::Request { used: bytes.len() }));
        assert!(parser.memory() <= before, "{} bytes, {before} were counted", parser.memory());
        let args = parser.args(&bytes);
        assert!(args.len() == COUNT && (0..COUNT).all(|index| args.get(index) == argument(index)));
        parser.done();
        assert!(parser.memory() <= 2 * SPANS_KEPT * size_of::<ArgumentSpan>());
    }

    /// RESP-1: an argument that would end behind 4 GiB is refused before its bytes come.
    #[test]
    fn a_request_larger_than_its_spans_is_refused() {
        let mut parser = Parser::new(1 << 29);
        assert!(matches!(parser.parse(b"*2\r\n"), Ok(Step::Incomplete { .. })));
        (parser.at, parser.bulk) = (u32::MAX as usize - 50, Some(100));
        assert_eq!(parser.parse(b"*2\r\n"), Err(Malformed::RequestTooBig));
    }

    /// RESP-2: two billion declared arguments and half a gigabyte declared bytes cost nothing until
    /// they arrive.
    #[test]
    fn declared_lengths_cost_no_memory() {
        let mut parser = Parser::new(1 << 29);
        let input = b"*2147483647\r\n$536870912\r\nabc";
        assert!(matches!(parser.parse(input), Ok(Step::Incomplete { missing }) if missing > 536_870_000));
        assert!(parser.memory() < 1024);
    }
}
