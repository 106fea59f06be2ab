//! One connection: bytes in, requests, replies, bytes out.
//!
//! Input grows with what has arrived, never with what was announced, and is given back to a common
//! pool whenever it is empty, so an idle client costs no buffer. Reading stops while replies above
//! the soft limit wait: that is the back-pressure on a client that sends more than it reads.
//!
//! Invariants
//!   CONN-1  Nothing is read or executed for a client whose waiting replies exceed the soft limit.
//!   CONN-2  Requests of one connection are executed in the order sent, and answered in that order.

use crate::clients::Client;
use crate::resp::parse::{Malformed, Parser, Step};
use crate::resp::prefetch;
use crate::resp::reply::Replies;
use crate::stream::Stream;
use std::io::{self, Read};
use std::time::Instant;

/// Bytes asked of a socket at a time.
const READ_SIZE: usize = 64 * 1024;
/// Bytes asked at a time while a large argument arrives.
const READ_SIZE_LARGE: usize = 1 << 20;
/// Buffers above this size are not pooled.
const POOLED_SIZE_MAX: usize = 256 * 1024;
/// Buffers kept.
const POOLED_MAX: usize = 64;

/// Spare buffers, shared by all connections.
#[derive(Default)]
pub(crate) struct Pool {
    inputs: Vec<Vec<u8>>,
    replies: Vec<Vec<u8>>,
}

fn keep(list: &mut Vec<Vec<u8>>, buffer: Vec<u8>) {
    if buffer.capacity() > 0 && buffer.capacity() <= POOLED_SIZE_MAX && list.len() < POOLED_MAX {
        list.push(buffer);
    }
}

impl Pool {
    /// Lends `out` a buffer when it has none.
    pub(crate) fn lend(&mut self, out: &mut Replies) {
        if out.needs_buffer() {
            out.lend(self.replies.pop().unwrap_or_default());
        }
    }

    /// Takes the buffer back once all replies have left.
    pub(crate) fn reclaim(&mut self, out: &mut Replies) {
        if let Some(buffer) = out.reclaim() {
            keep(&mut self.replies, buffer);
        }
    }
}

/// How reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Some bytes came; there may be more.
    More(usize),
    /// Some bytes came, and the socket is empty.
    Drained(usize),
    /// The other side closed, or the connection broke.
    Gone,
}

/// See the head of this file.
pub(crate) struct Connection {
    /// The socket.
    pub stream: Stream,
    /// The part of the connection that commands see.
    pub client: Client,
    /// Replies that have not left.
    pub out: Replies,
    /// Whether the socket may have something to read.
    pub readable: bool,
    /// Whether the other side has closed; what it sent before is still executed.
    pub ended: bool,
    /// Whether this connection waits for an iteration.
    pub queued: bool,
    /// Whether its replies wait for a settlement: nothing more is read from it or executed for it
    /// before.
    pub parked: bool,
    /// Pushes that came while it was parked: they leave behind its replies (PUSH-2).
    pub held: Vec<u8>,
    /// Replies to commands that had to wait among what was written since it was last sent to: they
    /// are due, so that each of them is an error if they are taken back.
    pub owed: usize,
    /// The same among the pushes above.
    pub held_owed: usize,
    /// Whether a sync covers what is to be sent to it now, but for the pushes above.
    pub covered: bool,
    /// Whether it is in the list of connections to send to.
    pub listed: bool,
    /// Whether unexecuted whole requests may be in the input.
    pub unread: bool,
    /// When the socket last took bytes, while some wait.
    pub progress: Instant,
    /// Bytes beyond `end` are leftovers: kept, so that a buffer is zeroed once and not at each
    /// read.
    input: Vec<u8>,
    start: usize,
    end: usize,
    parser: Parser,
    /// Bytes of the request under way that are known to be missing.
    missing: usize,
    /// [`Connection::input_memory`] as it was last added to the sum over all connections.
    pub counted: usize,
}

impl Connection {
    /// A connection that has just been accepted.
    pub(crate) fn new(stream: impl Into<Stream>, client: Client, bulk_size_max: usize) -> Connection {
        let progress = client.connected;
        Connection {
            stream: stream.into(),
            client,
            out: Replies::default(),
            readable: true,
            ended: false,
            queued: false,
            parked: false,
            held: Vec::new(),
            owed: 0,
            held_owed: 0,
            covered: false,
            listed: false,
            unread: false,
            progress,
            input: Vec::new(),
            start: 0,
            end: 0,
            parser: Parser::new(bulk_size_max),
            missing: 0,
            counted: 0,
        }
    }

    /// Bytes received and not yet executed.
    pub(crate) fn input_size(&self) -> usize {
        self.end - self.start
    }

    /// Bytes of memory that its requests hold.
    pub(crate) fn input_memory(&self) -> usize {
        self.input.len() + self.parser.memory() + self.queued_memory()
    }

    /// Bytes of memory that the commands queued since MULTI hold, a command that waits, its
    /// subscriptions, the keys that it watches, the prefixes that it tracks, and its names.
    pub(crate) fn queued_memory(&self) -> usize {
        let queued = self.client.transaction.as_ref().map_or(0, |transaction| transaction.memory());
        let waiting = if self.client.waiting { self.client.waiting_memory } else { 0 };
        let client = &self.client;
        let tracked = client.tracking.as_ref().map_or(0, |mode| mode.prefixes_memory);
        let names = client.name.capacity() + client.library_name.capacity() + client.library_version.capacity();
        queued + waiting + client.subscriptions_memory + client.watches_memory + tracked + names
    }

    /// Forgets its requests, for a connection that is about to end.
    pub(crate) fn drop_input(&mut self, bulk_size_max: usize) {
        (self.input, self.start, self.end, self.unread) = (Vec::new(), 0, 0, false);
        self.parser = Parser::new(bulk_size_max);
        self.client.transaction = None;
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Connection>()
            + self.input.capacity()
            + self.parser.memory()
            + self.queued_memory()
            + self.out.memory()
            + self.held.capacity()
            + self.stream.memory()
    }

    /// Reads once.
    pub(crate) fn read(&mut self, pool: &mut Pool) -> io::Result<ReadEnd> {
        if self.input.capacity() == 0 {
            self.input = pool.inputs.pop().unwrap_or_default();
        }
        let want = self.want();
        // `resize` grows by doubling, so memory stays within twice what has arrived and one read.
        if self.input.len() < self.end + want {
            self.input.resize(self.end + want, 0);
        }
        let space = &mut self.input[self.end..self.end + want];
        let result = loop {
            match self.stream.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let count = *result.as_ref().unwrap_or(&0);
        self.end += count;
        self.missing = self.missing.saturating_sub(count);
        match result {
            Ok(0) => Ok(ReadEnd::Gone),
            Ok(count) if count < want && self.stream.drains() => Ok(ReadEnd::Drained(count)),
            Ok(count) => Ok(ReadEnd::More(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadEnd::Drained(0)),
            Err(error) => Err(error),
        }
    }

    /// Finds the next whole request; how many bytes it takes is for `advance`. Requests of a
    /// `stranger`, a client that lacks the password, are short.
    pub(crate) fn next(&mut self, stranger: bool) -> Result<Option<usize>, Malformed> {
        self.parser.stranger = stranger;
        loop {
            match self.parser.parse(&self.input[self.start..self.end])? {
                Step::Request { used } => return Ok(Some(used)),
                Step::Nothing { used } => self.start += used,
                Step::Incomplete { missing } => {
                    self.missing = missing;
                    return Ok(None);
                }
            }
        }
    }

    /// The request found by `next`, beside the parts of the connection that a command may change.
    pub(crate) fn request(&mut self) -> (crate::resp::parse::Args<'_>, &mut Client, &mut Replies) {
        (self.parser.args(&self.input[self.start..self.end]), &mut self.client, &mut self.out)
    }

    /// The keys of the next requests if these are plain SET commands.
    pub(crate) fn puts_to_prefetch(&self) -> impl Iterator<Item = &[u8]> {
        prefetch::puts(&self.input[self.start..self.end])
    }

    /// Keeps a request that is executed later.
    pub(crate) fn postpone(&mut self) {
        self.parser.done();
    }

    /// Drops a request that has been executed.
    pub(crate) fn advance(&mut self, used: usize) {
        self.parser.done();
        self.start += used;
    }

    /// After an iteration: closes the gap in front of an incomplete request, or gives an empty
    /// buffer back. A buffer that a large request has left behind, more than four times what the
    /// rest and the next read need, is given back too.
    pub(crate) fn settle_input(&mut self, pool: &mut Pool) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            keep(&mut pool.inputs, std::mem::take(&mut self.input));
        } else if self.start > 0 && (self.start >= self.end / 2 || self.start > READ_SIZE_LARGE) {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.input.capacity() > 4 * (self.end + self.want()) {
                self.input.truncate(self.end);
                self.input.shrink_to_fit();
            }
        }
    }

    /// Bytes to ask of the socket.
    fn want(&self) -> usize {
        self.missing.clamp(READ_SIZE, READ_SIZE_LARGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream as Socket};

    /// A large request leaves a large buffer, and the client has begun the next one in it, so it
    /// never becomes empty.
    #[test]
    fn the_buffer_of_a_large_request_is_given_back_though_the_next_one_has_begun() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let client = Client::new(1, address, address, 0, Instant::now());
        let mut connection = Connection::new(mio::net::TcpStream::from_std(stream), client, 1 << 29);
        let (mut pool, mut requests) = (Pool::default(), 0);
        let value = vec![b'v'; 8 << 20];
        let sender = std::thread::spawn(move || {
            peer.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n").unwrap();
            peer.write_all(&value).unwrap();
            peer.write_all(b"\r\n*2\r\n$3\r\nGET\r\n$1\r\n").unwrap();
            peer
        });
        while requests < 1 || connection.input_size() < 17 {
            connection.read(&mut pool).unwrap();
            while let Some(used) = connection.next(false).unwrap() {
                connection.advance(used);
                requests += 1;
            }
            connection.settle_input(&mut pool);
        }
        assert!(connection.memory() < 1 << 20, "{} bytes for {}", connection.memory(), connection.input_size());
        let mut peer = sender.join().unwrap();
        peer.write_all(b"k\r\n").unwrap();
        let used = loop {
            connection.read(&mut pool).unwrap();
            if let Some(used) = connection.next(false).unwrap() {
                break used;
            }
        };
        let words: Vec<_> = connection.request().0.from(0).map(<[u8]>::to_vec).collect();
        assert_eq!((words, used), (vec![b"GET".to_vec(), b"k".to_vec()], 20));
    }
}
