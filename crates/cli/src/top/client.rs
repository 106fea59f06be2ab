//! A client of the Redis protocol that asks one question at a time. Replies are bounded, whatever
//! the other side is.

use super::wire::{self, Wire};
use crate::args::TopArgs;
use crate::failure::Failure;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// Bytes of a line or a byte string at most.
const SIZE_MAX: u64 = 16 << 20;
/// Elements of a list at most.
const COUNT_MAX: usize = 100_000;
/// Lists within lists at most.
const DEPTH_MAX: usize = 8;

/// A reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A line or a byte string.
    Text(Vec<u8>),
    /// An error.
    Refused(String),
    Number(i64),
    Null,
    List(Vec<Reply>),
}

impl Reply {
    pub(super) fn text(&self) -> String {
        match self {
            Reply::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Number(number) => number.to_string(),
            _ => String::new(),
        }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Reply::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            _ => &[],
        }
    }
}

/// See the head of this file.
pub(super) struct Client {
    address: String,
    wire: BufReader<Box<dyn Wire>>,
}

fn malformed(text: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

/// A line without its end.
fn line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.by_ref().take(SIZE_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    match line.strip_suffix(b"\r\n") {
        Some(rest) => Ok(rest.to_vec()),
        None => Err(malformed("this is no reply of the Redis protocol")),
    }
}

fn number(text: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| malformed("a number is malformed"))
}

/// Reads one reply.
fn reply(input: &mut impl BufRead, depth: usize) -> io::Result<Reply> {
    let line = line(input)?;
    let (kind, rest) = line.split_first().ok_or_else(|| malformed("a reply is empty"))?;
    Ok(match kind {
        b'+' => Reply::Text(rest.to_vec()),
        b'-' => Reply::Refused(String::from_utf8_lossy(rest).into_owned()),
        b':' => Reply::Number(number(rest)?),
        b'$' => {
            let size = number(rest)?;
            if size == -1 {
                return Ok(Reply::Null);
            }
            let size = u64::try_from(size).ok().filter(|size| *size <= SIZE_MAX);
            let size = size.ok_or_else(|| malformed("a byte string is too long"))?;
            let mut bytes = Vec::new();
            input.by_ref().take(size + 2).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != size + 2 || !bytes.ends_with(b"\r\n") {
                return Err(malformed("a byte string is cut off"));
            }
            bytes.truncate(size as usize);
            Reply::Text(bytes)
        }
        b'*' => {
            let count = number(rest)?;
            if count == -1 {
                return Ok(Reply::Null);
            }
            let count = usize::try_from(count).ok().filter(|count| *count <= COUNT_MAX && depth < DEPTH_MAX);
            let count = count.ok_or_else(|| malformed("a list is too long or too deep"))?;
            let list: io::Result<Vec<Reply>> = (0..count).map(|_| reply(input, depth + 1)).collect();
            Reply::List(list?)
        }
        _ => return Err(malformed("this is no reply of the Redis protocol")),
    })
}

impl Client {
    /// Connects and logs in.
    pub(super) fn connect(args: &TopArgs) -> Result<Client, Failure> {
        let wire = BufReader::new(wire::connect(args)?);
        let mut client = Client { address: args.address.clone(), wire };
        if let Some(password) = &args.password {
            let user = args.user.as_deref().unwrap_or("default");
            if let Reply::Refused(error) = client.ask(&["AUTH", user, password])? {
                return Err(Failure::System(format!("{}: the server refused the password: {error}", client.address)));
            }
        }
        Ok(client)
    }

    /// Asks a question. An error of the server is a reply.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Reply, Failure> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let result = (|| {
            let wire = self.wire.get_mut();
            wire.write_all(request.as_bytes())?;
            wire.flush()?;
            reply(&mut self.wire, 0)
        })();
        result.map_err(|error| {
            let text = match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "the server does not answer".to_string(),
                ErrorKind::UnexpectedEof => "the server has closed the connection".to_string(),
                _ => error.to_string(),
            };
            Failure::System(format!("{}: {text}", self.address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_hostile_ones_refused() {
        let read = |text: &str| reply(&mut text.as_bytes(), 0);
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(read("$5\r\na\r\nbc\r\n").unwrap(), text("a\r\nbc"));
        let list = Reply::List(vec![Reply::Number(-3), Reply::Null, text("x"), Reply::Refused("ERR".into())]);
        assert_eq!(read("*4\r\n:-3\r\n$-1\r\n+x\r\n-ERR\r\n").unwrap(), list);
        for odd in [
            "",
            "\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "$5\r\nabc",
            "$5\r\nabcdefg",
            "$99999999999\r\n",
            "$-2\r\n",
            ":x\r\n",
            "*100001\r\n",
            "*2\r\n:1\r\n",
            "+no end",
        ] {
            assert!(read(odd).is_err(), "{odd:?}");
        }
        assert!(read(&"*1\r\n".repeat(1000)).is_err());
    }
}
