//! The connection to a running server: log in, requests and their answers, the bytes of a snapshot.
//!
//! Every wait for the server asks the caller ten times a second whether the import goes on.

use super::ImportFault;
use super::target::Watch;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// The longest wait for bytes between two questions to the caller whether the import goes on.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// The interval of heartbeats and acknowledgements.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// The connection of a server that sends nothing for so long is closed, as by a replica of Redis.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for a connection to one address.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer's line at most.
const LINE_MAX: u64 = 64 << 10;
/// Bytes of the answer to INFO at most.
const INFO_MAX: u64 = 1 << 20;
/// The highest offset: Redis counts in signed numbers.
const OFFSET_MAX: u64 = i64::MAX as u64 / 2;

/// A running server, and how to log in.
#[derive(Clone)]
pub struct RedisServer {
    /// Its host and port.
    pub address: String,
    /// The user; `None`: the user `default`.
    pub user: Option<String>,
    /// The password, if it wants one.
    pub password: Option<String>,
}

impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisServer").field("address", &self.address).field("user", &self.user).finish_non_exhaustive()
    }
}

/// A connection whose reads wait no longer than [`POLL`].
pub(super) struct Wire {
    stream: TcpStream,
    received: Instant,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(count) => {
                self.received = Instant::now();
                Ok(count)
            }
            Err(error) if is_wait(&error) && self.received.elapsed() > TIMEOUT => Err(ErrorKind::TimedOut.into()),
            Err(error) if is_wait(&error) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Connects to the first address that answers.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The connection to the server.
pub(super) struct Link<'s, 'p> {
    pub(super) server: &'s RedisServer,
    watch: Rc<Watch<'p>>,
    pub(super) input: BufReader<Wire>,
    pub(super) sent: Instant,
}

/// The answer to PSYNC.
pub(super) enum Sync {
    /// A snapshot follows, as of this offset of the stream with this name.
    Full(String, u64),
    /// The stream goes on, maybe under another name.
    Partial(Option<String>),
}

impl<'s, 'p> Link<'s, 'p> {
    pub(super) fn fault(&self, action: &'static str) -> impl FnOnce(io::Error) -> ImportFault + use<> {
        let address = self.server.address.clone();
        move |source| ImportFault::Connection { address, action, source }
    }

    /// Connects and logs in.
    pub(super) fn open(server: &'s RedisServer, watch: &Rc<Watch<'p>>) -> Result<Link<'s, 'p>, ImportFault> {
        let fault = |source| ImportFault::Connection { address: server.address.clone(), action: "connect", source };
        // Looking a name up and connecting can take long, and cannot be ended: a thread does it.
        let (sender, made) = channel();
        let address = server.address.clone();
        let connecting = std::thread::Builder::new().name("everbyte-connect".into());
        connecting.spawn(move || drop(sender.send(connect(&address)))).map_err(fault)?;
        let stream = loop {
            match made.recv_timeout(POLL) {
                Ok(stream) => break stream.map_err(fault)?,
                Err(RecvTimeoutError::Timeout) if watch.goes_on() => {}
                Err(RecvTimeoutError::Timeout) => return Err(ImportFault::Stopped),
                Err(RecvTimeoutError::Disconnected) => return Err(fault(ErrorKind::Other.into())),
            }
        };
        stream.set_read_timeout(Some(POLL)).map_err(fault)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(fault)?;
        let _ = stream.set_nodelay(true); // optional
        let wire = Wire { stream, received: Instant::now() };
        let (input, watch) = (BufReader::with_capacity(PIECE, wire), Rc::clone(watch));
        let mut link = Link { server, watch, input, sent: Instant::now() };
        link.log_in()?;
        Ok(link)
    }

    /// During a wait: whether the import goes on.
    pub(super) fn poll(&self) -> Result<(), ImportFault> {
        if self.watch.goes_on() { Ok(()) } else { Err(ImportFault::Stopped) }
    }

    fn log_in(&mut self) -> Result<(), ImportFault> {
        if let Some(password) = &self.server.password {
            let words = ["AUTH".into(), self.server.user.clone().unwrap_or_default(), password.clone()];
            let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            self.ask("AUTH", &words)?;
        }
        self.ask("PING", &["PING"]).map(drop)
    }

    pub(super) fn say(&mut self, words: &[&str]) -> Result<(), ImportFault> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.sent = Instant::now();
        let fault = self.fault("write");
        self.input.get_mut().stream.write_all(&bytes).map_err(fault)
    }

    /// A line without its end; empty ones are passed over.
    pub(super) fn line(&mut self) -> Result<String, ImportFault> {
        let mut line = Vec::new();
        loop {
            let room = LINE_MAX - (line.len() as u64).min(LINE_MAX);
            match (&mut self.input).take(room).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    let text = String::from_utf8_lossy(&line).trim_end().to_string();
                    if !text.is_empty() {
                        return Ok(text);
                    }
                    line.clear();
                    self.poll()?;
                }
                Ok(_) if line.len() as u64 >= LINE_MAX => {
                    let start = String::from_utf8_lossy(&line).into_owned();
                    return Err(self.refused("a request", &start));
                }
                Ok(_) => return Err(self.fault("read")(ErrorKind::UnexpectedEof.into())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.poll()?,
                Err(error) => return Err(self.fault("read")(error)),
            }
        }
    }

    /// The answer to a request, without its first byte.
    fn ask(&mut self, request: &'static str, words: &[&str]) -> Result<String, ImportFault> {
        self.say(words)?;
        let line = self.line()?;
        match line.strip_prefix(['+', ':', '$']) {
            Some(rest) => Ok(rest.to_string()),
            None => Err(self.refused(request, &line)),
        }
    }

    pub(super) fn refused(&self, request: &'static str, line: &str) -> ImportFault {
        let reply = line.strip_prefix('-').unwrap_or(line).as_bytes().to_vec();
        ImportFault::Answer { address: self.server.address.clone(), request, reply }
    }

    /// Asks for the stream behind an offset, or for all.
    pub(super) fn sync(&mut self, from: Option<(&str, u64)>) -> Result<Sync, ImportFault> {
        self.ask("REPLCONF", &["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        let (name, offset) = match from {
            Some((name, offset)) => (name, (offset + 1).to_string()),
            None => ("?", "-1".into()),
        };
        let answer = self.ask("PSYNC", &["PSYNC", name, &offset])?;
        let words: Vec<&str> = answer.split_ascii_whitespace().collect();
        match *words {
            ["FULLRESYNC", name, offset] => match offset.parse::<u64>() {
                Ok(offset) if offset <= OFFSET_MAX => Ok(Sync::Full(name.to_string(), offset)),
                _ => Err(self.refused("PSYNC", &answer)),
            },
            ["CONTINUE"] => Ok(Sync::Partial(None)),
            ["CONTINUE", name] => Ok(Sync::Partial(Some(name.to_string()))),
            _ => Err(self.refused("PSYNC", &answer)),
        }
    }

    /// The offset of the server's stream now.
    pub(super) fn offset(&mut self) -> Result<u64, ImportFault> {
        let size = self.ask("INFO", &["INFO", "replication"])?;
        let mut left = match size.parse::<u64>() {
            Ok(size) if size <= INFO_MAX => size,
            _ => return Err(self.refused("INFO", &size)),
        };
        let mut found = None;
        while left > 0 {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") && (line.len() as u64) < left {
                let rest = left - line.len() as u64;
                match (&mut self.input).take(rest).read_until(b'\n', &mut line) {
                    Ok(0) => return Err(self.fault("read")(ErrorKind::UnexpectedEof.into())),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => self.poll()?,
                    Err(error) => return Err(self.fault("read")(error)),
                    Ok(_) => {}
                }
            }
            left -= line.len() as u64;
            let text = String::from_utf8_lossy(&line);
            if let Some(number) = text.strip_prefix("master_repl_offset:") {
                found = number.trim().parse().ok().filter(|offset| *offset <= OFFSET_MAX);
            }
        }
        found.ok_or_else(|| self.refused("INFO", "no offset of its replication"))
    }
}

/// The bytes of a snapshot, with heartbeats to the server. A snapshot has its own end, so an end of
/// the bytes is a lost connection.
pub(super) struct SnapshotBytes<'l, 's, 'p> {
    pub(super) link: &'l mut Link<'s, 'p>,
}

impl Read for SnapshotBytes<'_, '_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.link.sent.elapsed() > HEARTBEAT {
                self.link.sent = Instant::now();
                self.link.input.get_mut().stream.write_all(b"\n")?;
            }
            match self.link.input.read(buffer) {
                Ok(0) if !buffer.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.link.poll().map_err(|_| io::Error::from(ErrorKind::ConnectionAborted))?;
                }
                other => return other,
            }
        }
    }
}
