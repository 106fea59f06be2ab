//! A running Redis, read as its replica reads it.
//!
//! Steps
//!   1. handshake: AUTH, PING, REPLCONF, then PSYNC
//!   2. the snapshot: an RDB file of a known size, or up to a mark of 40 bytes; meanwhile the
//!      server is told every second that this side lives
//!   3. all of it is settled, and stays
//!   4. the commands since, batch by batch; what is settled is acknowledged every second
//!
//! A connection that ends in step 4 is made again, and the server continues behind the last
//! command, or sends a new snapshot, which replaces all keys under a new mark.

use super::command_input::{CommandInput, Next};
use super::commands::Commands;
use super::rdb_in::{self, Use};
use super::source::Source;
use super::target::Target;
use super::{ImportFault, ImportPhase};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// The wait for bytes before the caller is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// How often the server hears of this side.
const BEAT: Duration = Duration::from_secs(1);
/// A server that says nothing for so long is gone, as for a replica of Redis.
const SILENCE: Duration = Duration::from_secs(60);
/// Attempts to connect again, a [`BEAT`] apart.
const ATTEMPTS: u32 = 10;
/// Bytes of an answer's line at most.
const LINE_MAX: u64 = 64 << 10;
/// Bytes of the mark behind a snapshot of unknown size.
const MARK: usize = 40;

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

/// A connection whose reads wait no longer than [`LOOK`].
struct Wire {
    stream: TcpStream,
    heard: Instant,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(count) => {
                self.heard = Instant::now();
                Ok(count)
            }
            Err(error) if is_wait(&error) && self.heard.elapsed() > SILENCE => Err(ErrorKind::TimedOut.into()),
            Err(error) if is_wait(&error) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The connection to the server.
struct Link<'s> {
    server: &'s RedisServer,
    input: BufReader<Wire>,
    told: Instant,
}

/// The answer to PSYNC.
enum Sync {
    /// A snapshot follows, as of this offset of the stream with this name.
    Full(String, u64),
    /// The stream goes on, maybe under another name.
    Partial(Option<String>),
}

impl<'s> Link<'s> {
    fn fault(&self, action: &'static str) -> impl FnOnce(io::Error) -> ImportFault + use<> {
        let address = self.server.address.clone();
        move |source| ImportFault::Connection { address, action, source }
    }

    /// Connects and logs in.
    fn open(server: &'s RedisServer) -> Result<Link<'s>, ImportFault> {
        let fault = |source| ImportFault::Connection { address: server.address.clone(), action: "connect", source };
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in server.address.to_socket_addrs().map_err(fault)? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LOOK)).map_err(fault)?;
                    stream.set_write_timeout(Some(SILENCE)).map_err(fault)?;
                    let _ = stream.set_nodelay(true); // optional
                    let wire = Wire { stream, heard: Instant::now() };
                    let mut link = Link { server, input: BufReader::with_capacity(PIECE, wire), told: Instant::now() };
                    link.log_in()?;
                    return Ok(link);
                }
                Err(error) => last = error,
            }
        }
        Err(fault(last))
    }

    fn log_in(&mut self) -> Result<(), ImportFault> {
        if let Some(password) = &self.server.password {
            let words = ["AUTH".into(), self.server.user.clone().unwrap_or_default(), password.clone()];
            let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            self.ask("AUTH", &words)?;
        }
        self.ask("PING", &["PING"]).map(drop)
    }

    fn say(&mut self, words: &[&str]) -> Result<(), ImportFault> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.told = Instant::now();
        let fault = self.fault("write");
        self.input.get_mut().stream.write_all(&bytes).map_err(fault)
    }

    /// A line without its end; empty ones are passed over.
    fn line(&mut self) -> Result<String, ImportFault> {
        let mut line = Vec::new();
        loop {
            match (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    let text = String::from_utf8_lossy(&line).trim_end().to_string();
                    if !text.is_empty() {
                        return Ok(text);
                    }
                    line.clear();
                }
                Ok(_) => return Err(self.fault("read")(ErrorKind::UnexpectedEof.into())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
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

    fn refused(&self, request: &'static str, line: &str) -> ImportFault {
        let reply = line.strip_prefix('-').unwrap_or(line).as_bytes().to_vec();
        ImportFault::Answer { address: self.server.address.clone(), request, reply }
    }

    /// Asks for the stream behind an offset, or for all.
    fn sync(&mut self, from: Option<(&str, u64)>) -> Result<Sync, ImportFault> {
        self.ask("REPLCONF", &["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        let (name, offset) = match from {
            Some((name, offset)) => (name, (offset + 1).to_string()),
            None => ("?", "-1".into()),
        };
        let answer = self.ask("PSYNC", &["PSYNC", name, &offset])?;
        let words: Vec<&str> = answer.split_ascii_whitespace().collect();
        match *words {
            ["FULLRESYNC", name, offset] if offset.parse::<u64>().is_ok() => {
                Ok(Sync::Full(name.to_string(), offset.parse().unwrap_or(0)))
            }
            ["CONTINUE"] => Ok(Sync::Partial(None)),
            ["CONTINUE", name] => Ok(Sync::Partial(Some(name.to_string()))),
            _ => Err(self.refused("PSYNC", &answer)),
        }
    }

    /// The offset of the server's stream now.
    fn offset(&mut self) -> Result<u64, ImportFault> {
        let size = self.ask("INFO", &["INFO", "replication"])?;
        let mut left = size.parse::<u64>().map_err(|_| self.refused("INFO", &size))?;
        let mut found = None;
        while left > 0 {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") && (line.len() as u64) < left {
                let rest = left - line.len() as u64;
                match (&mut self.input).take(rest).read_until(b'\n', &mut line) {
                    Ok(0) => return Err(self.fault("read")(ErrorKind::UnexpectedEof.into())),
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(self.fault("read")(error)),
                    _ => {}
                }
            }
            left -= line.len() as u64;
            let text = String::from_utf8_lossy(&line);
            if let Some(number) = text.strip_prefix("master_repl_offset:") {
                found = number.trim().parse().ok();
            }
        }
        found.ok_or_else(|| self.refused("INFO", "no offset of its replication"))
    }
}

/// The bytes of a snapshot: meanwhile the server hears of this side.
struct SnapshotBytes<'l, 's> {
    link: &'l mut Link<'s>,
}

impl Read for SnapshotBytes<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.link.told.elapsed() > BEAT {
                self.link.told = Instant::now();
                self.link.input.get_mut().stream.write_all(b"\n")?;
            }
            match self.link.input.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

/// The place in the server's stream.
struct Place {
    name: String,
    /// Up to here commands were executed.
    executed: u64,
    /// Up to here they are settled.
    settled: u64,
    /// The database that the stream has selected there.
    database: u8,
    /// `--once` ends here.
    goal: Option<u64>,
}

/// Reads the server's keys, and follows its commands.
pub(super) fn follow(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    server: &RedisServer,
) -> Result<(), ImportFault> {
    let mut link = Link::open(server)?;
    let mut place = match link.sync(None)? {
        Sync::Full(name, offset) => {
            snapshot(target, commands, &mut link)?;
            Place { name, executed: offset, settled: offset, database: commands.database(), goal: None }
        }
        Sync::Partial(_) => return Err(link.refused("PSYNC", "a stream without a snapshot")),
    };
    target.done.offset = Some(place.executed);
    if target.options.once {
        place.goal = Some(Link::open(server)?.offset()?);
    }
    target.phase = ImportPhase::Following;
    loop {
        match commands_of(target, commands, &mut link, &mut place) {
            Err(ImportFault::Connection { .. }) => {}
            other => return other,
        }
        // Commands since the last batch come again.
        target.abandon();
        place.executed = place.settled;
        link = again(target, commands, server, &mut place)?;
    }
}

/// Reads a snapshot, which then stays.
fn snapshot(target: &mut Target<'_, '_>, commands: &mut Commands, link: &mut Link<'_>) -> Result<(), ImportFault> {
    let head = link.line()?;
    let Some(size) = head.strip_prefix('$') else { return Err(link.refused("PSYNC", &head)) };
    let mark = size.strip_prefix("EOF:").map(str::to_string);
    let size = match &mark {
        Some(mark) if mark.len() == MARK => None,
        Some(_) => return Err(link.refused("PSYNC", &head)),
        None => Some(size.parse::<u64>().map_err(|_| link.refused("PSYNC", &head))?),
    };
    target.phase = ImportPhase::Keys;
    target.read.set(0);
    target.total = size;
    target.begin(true)?;
    let name = link.server.address.clone();
    let mut bytes = SnapshotBytes { link };
    let mut source = Source::new(name, &mut bytes, target.read.clone());
    let told = rdb_in::read(target, &mut source, Use::Base)?;
    match (mark, size) {
        (Some(mark), _) => {
            let mut found = [0; MARK];
            if source.read_exact(&mut found).is_err() || found[..] != *mark.as_bytes() {
                return Err(source.damaged("the mark behind the snapshot is another one"));
            }
        }
        (None, Some(size)) if source.offset() != size => {
            return Err(source.damaged(format!("the snapshot has another size than {size}")));
        }
        _ => {}
    }
    commands.reset();
    commands.select(told.database.unwrap_or(0));
    target.keep()
}

/// Connects again, and goes on where the last batch ended.
fn again<'s>(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    server: &'s RedisServer,
    place: &mut Place,
) -> Result<Link<'s>, ImportFault> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let opened = Link::open(server).and_then(|mut link| {
            let sync = link.sync(Some((&place.name, place.settled)))?;
            Ok((link, sync))
        });
        match opened {
            Ok((link, Sync::Partial(name))) => {
                place.name = name.unwrap_or(std::mem::take(&mut place.name));
                commands.reset();
                commands.select(place.database);
                return Ok(link);
            }
            Ok((mut link, Sync::Full(name, offset))) => {
                target.options.clear = true;
                snapshot(target, commands, &mut link)?;
                (place.name, place.executed, place.settled) = (name, offset, offset);
                place.database = commands.database();
                target.phase = ImportPhase::Following;
                return Ok(link);
            }
            Err(fault) if attempt >= ATTEMPTS => return Err(fault),
            Err(_) => std::thread::sleep(BEAT),
        }
        target.tell()?;
        if target.stopped {
            return Err(ImportFault::Stopped);
        }
    }
}

/// Executes commands as they come; returns when the caller stops or the goal is reached.
fn commands_of(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    link: &mut Link<'_>,
    place: &mut Place,
) -> Result<(), ImportFault> {
    let mut input = CommandInput::new(Vec::new());
    let (name, mut asked) = (link.server.address.clone(), false);
    target.total = None;
    loop {
        match input.next() {
            Ok(Next::Command(used)) => {
                let args = input.args();
                asked |= args.get(0).eq_ignore_ascii_case(b"replconf");
                commands.execute(target, args, &name, place.executed)?;
                input.advance(used);
                place.executed += used as u64;
                continue;
            }
            Ok(Next::Nothing(used)) => {
                input.advance(used);
                place.executed += used as u64;
                continue;
            }
            Ok(Next::Incomplete) => {}
            Err(detail) => {
                return Err(ImportFault::Damaged { name, offset: place.executed, detail });
            }
        }
        target.read.set(place.executed);
        if commands.transaction.is_none() {
            if target.has_written() {
                target.settle()?;
            }
            (place.settled, place.database) = (place.executed, commands.database());
            target.done.offset = Some(place.settled);
        }
        if asked || link.told.elapsed() > BEAT {
            asked = false;
            link.say(&["REPLCONF", "ACK", &place.settled.to_string()])?; // XFER-3
        }
        if place.goal.is_some_and(|goal| place.settled >= goal) {
            return Ok(());
        }
        target.tell()?;
        if target.stopped && commands.transaction.is_none() {
            return Ok(());
        }
        match input.fill(&mut link.input) {
            Ok(0) => return Err(link.fault("read")(ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(link.fault("read")(error)),
        }
    }
}
