//! Commands as bytes: of an AOF, or of a running server's stream.

use crate::resp::parse::{Args, LINE_SIZE_MAX, Parser, Step};
use std::io::{self, Read};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// Bytes of an argument at most, as in Redis.
const ARGUMENT_MAX: usize = 512 << 20;
/// Bytes of a command at most: Redis accepts no more from a client.
const COMMAND_MAX: usize = 1 << 30;

/// Commands, one after the other.
pub(super) struct CommandInput {
    parser: Parser,
    buffer: Vec<u8>,
    /// The first byte that is not consumed.
    start: usize,
    command_max: usize,
}

/// The next item of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A command of so many bytes: see `args`.
    Command(usize),
    /// A comment or an empty line, of so many bytes.
    Nothing(usize),
    /// More bytes have to be read.
    Incomplete,
}

impl CommandInput {
    /// With bytes that were read before.
    pub(super) fn new(buffer: Vec<u8>) -> CommandInput {
        CommandInput { parser: Parser::new(ARGUMENT_MAX), buffer, start: 0, command_max: COMMAND_MAX }
    }

    /// Bytes that were read and not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Reads more; how many bytes.
    pub(super) fn fill(&mut self, from: &mut dyn Read) -> io::Result<usize> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        let before = self.buffer.len();
        self.buffer.resize(before + PIECE, 0);
        let result = loop {
            match from.read(self.buffer.get_mut(before..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(before + result.as_ref().copied().unwrap_or(0));
        result
    }

    /// The next command, which is not consumed yet.
    pub(super) fn next(&mut self) -> Result<Next, String> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        match rest.first() {
            None => return Ok(Next::Incomplete),
            Some(b'*') => {}
            // A comment, such as a time.
            Some(b'#') => {
                return match rest.iter().position(|byte| *byte == b'\n') {
                    Some(end) => Ok(Next::Nothing(end + 1)),
                    None if rest.len() > LINE_SIZE_MAX => Err("a line has no end".into()),
                    None => Ok(Next::Incomplete),
                };
            }
            // The heartbeat of a running server.
            Some(b'\n') => return Ok(Next::Nothing(1)),
            Some(_) => return Err("no command begins with this byte".into()),
        }
        match self.parser.parse(rest) {
            Ok(Step::Incomplete { missing }) if rest.len().saturating_add(missing) > self.command_max => {
                Err(format!("a command has more than {} bytes", self.command_max))
            }
            Ok(Step::Incomplete { .. }) => Ok(Next::Incomplete),
            Ok(Step::Nothing { used }) => Ok(Next::Nothing(used)),
            Ok(Step::Request { used }) if self.parser.ends_lines(rest) => Ok(Next::Command(used)),
            Ok(Step::Request { .. }) => Err("an argument has another size than it says".into()),
            Err(malformed) => Err(String::from_utf8_lossy(&malformed.text()).into_owned()),
        }
    }

    /// The arguments of the command that `next` has found.
    pub(super) fn args(&self) -> Args<'_> {
        self.parser.args(self.rest())
    }

    /// Consumes bytes.
    pub(super) fn advance(&mut self, used: usize) {
        self.start += used;
        self.parser.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_comments_and_damage_are_distinguished() {
        let bytes = b"#TS:1\r\n*1\r\n$4\r\nPING\r\n\n*2\r\n$3\r\nGET\r\n$1\r\n";
        let mut input = CommandInput::new(bytes.to_vec());
        for (next, name) in [(Next::Nothing(7), None), (Next::Command(14), Some(b"PING")), (Next::Nothing(1), None)] {
            assert_eq!(input.next().unwrap(), next);
            if let Some(name) = name {
                assert_eq!(input.args().get(0), name);
            }
            match next {
                Next::Command(used) | Next::Nothing(used) => input.advance(used),
                Next::Incomplete => unreachable!(),
            }
        }
        assert_eq!(input.next().unwrap(), Next::Incomplete);
        assert_eq!(input.fill(&mut &b"a\r\n"[..]).unwrap(), 3);
        assert!(matches!(input.next().unwrap(), Next::Command(_)));
        for odd in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPINGxx", b"*1\r\n:4\r\n", b"*x\r\n", b"*1\r\n$-1\r\n"] {
            assert!(CommandInput::new(odd.to_vec()).next().is_err(), "{odd:?}");
        }
    }

    /// A command is refused once its bytes and those that it declares are too many, and a line
    /// without an end once it is too long.
    #[test]
    fn declared_lengths_and_endless_lines_are_bounded() {
        let mut input = CommandInput::new(b"*3\r\n$3\r\nSET\r\n$500\r\n".to_vec());
        input.command_max = 400;
        assert!(input.next().unwrap_err().contains("more than 400 bytes"));
        let mut line = b"#".to_vec();
        line.resize(LINE_SIZE_MAX + 2, b'x');
        assert!(CommandInput::new(line).next().is_err());
    }
}
