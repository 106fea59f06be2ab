//! Replies as bytes, waiting for the store to settle and for the socket to take them.
//!
//! Small replies are appended to one buffer; a large value moves in as a piece of its own and is
//! never copied. An iteration takes the position where its replies begin, so that a store that
//! could not settle them can remove them.
//!
//! Invariants
//!   OUT-1  Bytes leave in the order they were written.
//!   OUT-2  `cut` removes everything written since the position; nothing is sent between taking a
//!          position and its cut.
//!
//! Threads: one writer, the event loop.

use super::double::double_text;
use super::number::{write_integer, write_unsigned};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// Values of this size and above are moved, not copied, into the queue.
const MOVED_SIZE_MIN: usize = 64 * 1024;
/// Pieces handed to the kernel in one call.
const PIECES_MAX: usize = 64;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// The protocol that every client speaks after connecting.
    #[default]
    Resp2,
    /// After `HELLO 3`: maps, sets, nulls and texts have types of their own.
    Resp3,
}

/// A place in a reply queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pieces: usize,
    tail: usize,
    pending: usize,
}

/// The replies of one connection that have not left yet.
#[derive(Default)]
pub(crate) struct Replies {
    pieces: VecDeque<Vec<u8>>,
    /// The last piece, still growing.
    tail: Vec<u8>,
    /// Bytes of the first piece (or of the tail) that have left.
    sent: usize,
    /// Bytes that have not left.
    pending: usize,
    /// The protocol that the client speaks.
    pub protocol: Protocol,
}

impl Replies {
    /// Bytes that have not left.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Whether any bytes wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum::<usize>() + self.tail.capacity()
    }

    /// The present position.
    pub(crate) fn position(&self) -> Position {
        Position { pieces: self.pieces.len(), tail: self.tail.len(), pending: self.pending }
    }

    /// Removes everything written since `position`.
    pub(crate) fn cut(&mut self, position: Position) {
        if self.pieces.len() > position.pieces {
            self.tail = std::mem::take(&mut self.pieces[position.pieces]);
            self.pieces.truncate(position.pieces);
        }
        assert!(self.tail.len() >= position.tail, "OUT-2");
        self.tail.truncate(position.tail);
        self.pending = position.pending;
    }

    /// The bytes written between two positions; none of them has left.
    pub(crate) fn between(&self, from: Position, to: Position) -> Vec<u8> {
        let mut bytes = Vec::new();
        for index in from.pieces..=to.pieces {
            let piece = self.pieces.get(index).unwrap_or(&self.tail);
            let start = if index == from.pieces { from.tail } else { 0 };
            let end = if index == to.pieces { to.tail } else { piece.len() };
            bytes.extend_from_slice(&piece[start..end]);
        }
        bytes
    }

    /// Whether a buffer would save an allocation.
    pub(crate) fn needs_buffer(&self) -> bool {
        self.tail.capacity() == 0
    }

    /// Uses `buffer`, which must be empty, for the next replies.
    pub(crate) fn lend(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty() && self.needs_buffer());
        self.tail = buffer;
    }

    /// Returns the buffer after all bytes have left.
    pub(crate) fn reclaim(&mut self) -> Option<Vec<u8>> {
        if self.pending > 0 || self.tail.capacity() == 0 {
            return None;
        }
        self.sent = 0;
        let mut buffer = std::mem::take(&mut self.tail);
        buffer.clear();
        Some(buffer)
    }

    /// Writes as much as the socket takes; `true` when no byte is left.
    pub(crate) fn send(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.pending > 0 {
            let result = match self.pieces.is_empty() {
                true => socket.write(&self.tail[self.sent..]),
                false => {
                    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
                    let mut count = 0;
                    for piece in self.pieces.iter().chain([&self.tail]).take(PIECES_MAX) {
                        let from = if count == 0 { self.sent } else { 0 };
                        slices[count] = IoSlice::new(&piece[from..]);
                        count += 1;
                    }
                    socket.write_vectored(&slices[..count])
                }
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.drop_sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.tail.clear();
        self.sent = 0;
        Ok(true)
    }

    fn drop_sent(&mut self, count: usize) {
        self.pending -= count;
        self.sent += count;
        while let Some(first) = self.pieces.front() {
            if self.sent < first.len() {
                return;
            }
            self.sent -= first.len();
            self.pieces.pop_front();
        }
    }

    /// Appends bytes that already are protocol.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.pending += bytes.len();
    }

    fn write(&mut self, parts: impl FnOnce(&mut Vec<u8>)) {
        let before = self.tail.len();
        parts(&mut self.tail);
        self.pending += self.tail.len() - before;
    }

    fn header(&mut self, mark: u8, value: i64) {
        self.write(|out| {
            out.push(mark);
            write_integer(out, value);
            out.extend_from_slice(b"\r\n");
        });
    }

    /// `+text`.
    pub(crate) fn simple(&mut self, text: &str) {
        self.write(|out| {
            out.push(b'+');
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        });
    }

    /// `+OK`.
    pub(crate) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// `-text`; line ends inside become blanks, so an error is always one line.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.write(|out| {
            out.push(b'-');
            out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
            out.extend_from_slice(b"\r\n");
        });
    }

    /// `:value`.
    pub(crate) fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A double: a byte string in RESP2.
    pub(crate) fn double(&mut self, value: f64) {
        let text = double_text(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.write(|out| {
                out.push(b',');
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }),
        }
    }

    /// A byte string, copied.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.write(|out| {
            out.push(b'$');
            write_unsigned(out, bytes.len() as u64);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        });
    }

    /// A byte string that is given away: moved when large.
    pub(crate) fn bulk_owned(&mut self, bytes: Vec<u8>) {
        if bytes.len() < MOVED_SIZE_MIN {
            return self.bulk(&bytes);
        }
        self.header(b'$', bytes.len() as i64);
        self.pending += bytes.len();
        self.pieces.push_back(std::mem::take(&mut self.tail));
        self.pieces.push_back(bytes);
        self.raw(b"\r\n");
    }

    /// Appends the replies collected in `other`.
    pub(crate) fn append(&mut self, other: Replies) {
        assert_eq!(other.sent, 0, "OUT-1");
        for piece in other.pieces.into_iter().chain([other.tail]) {
            match piece.len() < MOVED_SIZE_MIN {
                true => self.raw(&piece),
                false => {
                    self.pending += piece.len();
                    self.pieces.push_back(std::mem::take(&mut self.tail));
                    self.pieces.push_back(piece);
                }
            }
        }
    }

    /// "No such value".
    pub(crate) fn null(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// "No such list".
    pub(crate) fn null_array(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Begins a list of `count` replies.
    pub(crate) fn array(&mut self, count: usize) {
        self.header(b'*', count as i64);
    }

    /// Begins a push of `count` parts; a list in RESP2.
    pub(crate) fn push(&mut self, count: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, count as i64);
    }

    /// All bytes, none of which has left.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        assert_eq!(self.sent, 0, "OUT-1");
        let mut bytes = Vec::with_capacity(self.pending);
        self.pieces.into_iter().chain([self.tail]).for_each(|piece| bytes.extend(piece));
        bytes
    }

    /// Begins a map of `count` pairs; a flat list in RESP2.
    pub(crate) fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * count as i64),
            Protocol::Resp3 => self.header(b'%', count as i64),
        }
    }

    /// Begins a set; a list in RESP2.
    pub(crate) fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', count as i64),
            Protocol::Resp3 => self.header(b'~', count as i64),
        }
    }

    /// A truth value; a number in RESP2.
    pub(crate) fn boolean(&mut self, value: bool) {
        self.raw(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// A whole number of any size, as text; a byte string in RESP2.
    pub(crate) fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => [&b"("[..], digits, b"\r\n"].into_iter().for_each(|part| self.raw(part)),
        }
    }

    /// Text of a format, which is three letters.
    pub(crate) fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                let format: Vec<u8> = format.iter().copied().chain([b' '; 3]).take(3).collect();
                [&format[..], b":", text, b"\r\n"].into_iter().for_each(|part| self.raw(part));
            }
        }
    }

    /// Plain text meant for people.
    pub(crate) fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.raw(b"txt:");
                self.raw(text.as_bytes());
                self.raw(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(replies: &mut Replies) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(replies.send(&mut out).unwrap());
        out
    }

    #[test]
    fn each_protocol_has_its_own_types() {
        let mut replies = Replies::default();
        let write = |replies: &mut Replies| {
            replies.null();
            replies.map(2);
            replies.set(1);
            replies.text("a");
            replies.double(0.5);
            sent(replies)
        };
        assert_eq!(write(&mut replies), b"$-1\r\n*4\r\n*1\r\n$1\r\na\r\n$3\r\n0.5\r\n");
        replies.protocol = Protocol::Resp3;
        assert_eq!(write(&mut replies), b"_\r\n%2\r\n~1\r\n=5\r\ntxt:a\r\n,0.5\r\n");
    }

    /// OUT-2, across moved values.
    #[test]
    fn what_is_cut_is_never_sent() {
        let mut replies = Replies::default();
        replies.integer(1);
        let position = replies.position();
        replies.bulk_owned(vec![b'x'; MOVED_SIZE_MIN]);
        replies.bulk(b"y");
        replies.bulk_owned(vec![b'z'; MOVED_SIZE_MIN]);
        replies.cut(position);
        replies.error(b"ERR a\r\nb");
        assert_eq!(replies.pending(), 15);
        assert_eq!(sent(&mut replies), b":1\r\n-ERR a  b\r\n");
    }

    /// A socket that takes a few bytes at a time, then none.
    struct Narrow(Vec<u8>, usize);
    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.1 == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(self.1).min(1000);
            self.1 -= count;
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// OUT-1
    #[test]
    fn a_narrow_socket_gets_everything_in_order() {
        let (mut replies, mut expect) = (Replies::default(), Vec::new());
        for size in [3, 100_000, 0, 70_000, 5] {
            replies.bulk_owned(vec![b'a' + (size % 26) as u8; size]);
            expect.extend_from_slice(format!("${size}\r\n").as_bytes());
            expect.extend(vec![b'a' + (size % 26) as u8; size]);
            expect.extend_from_slice(b"\r\n");
        }
        let mut socket = Narrow(Vec::new(), 0);
        while !replies.send(&mut socket).unwrap() {
            socket.1 = 777;
        }
        assert_eq!(socket.0, expect);
        assert!(replies.is_empty() && replies.reclaim().is_some());
    }
}
