//! A running Redis, read as its replica reads it.
//!
//! Steps
//!   1. handshake: AUTH, PING, REPLCONF, then PSYNC
//!   2. the snapshot: an RDB file of a known size, or up to a mark of 40 bytes; meanwhile the
//!      the server gets a heartbeat every second
//!   3. all of it is settled, and stays
//!   4. the commands since, batch by batch; what is settled is acknowledged every second
//!
//! A connection that ends in step 4 is made again, and the server continues behind the last
//! committed command, or sends a new snapshot, which replaces all keys under a new mark. One that
//! ends within the first snapshot ends the import; within a later one the keys of before come back,
//! and it is made again.
//!
//! Every wait for the server asks the caller ten times a second whether the import goes on.

use super::command_input::{CommandInput, Next};
use super::commands::Commands;
use super::rdb_in::{self, Use};
use super::source::Source;
use super::target::{Target, Watch};
use super::{ImportFault, ImportPhase};
use everbyte_media::seeded;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// The longest wait for bytes between two questions to the caller whether the import goes on.
const POLL: Duration = Duration::from_millis(100);
/// The interval of heartbeats and acknowledgements.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The connection of a server that sends nothing for so long is closed, as by a replica of Redis.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts to reconnect, a [`HEARTBEAT`] apart.
const ATTEMPTS: u32 = 10;
/// The longest wait for a connection to one address.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer's line at most.
const LINE_MAX: u64 = 64 << 10;
/// Bytes of the answer to INFO at most.
const INFO_MAX: u64 = 1 << 20;
/// The highest offset: Redis counts in signed numbers.
const OFFSET_MAX: u64 = i64::MAX as u64 / 2;
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

/// A connection whose reads wait no longer than [`POLL`].
struct Wire {
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
struct Link<'s, 'p> {
    server: &'s RedisServer,
    watch: Rc<Watch<'p>>,
    input: BufReader<Wire>,
    sent: Instant,
}

/// The answer to PSYNC.
enum Sync {
    /// A snapshot follows, as of this offset of the stream with this name.
    Full(String, u64),
    /// The stream goes on, maybe under another name.
    Partial(Option<String>),
}

impl<'s, 'p> Link<'s, 'p> {
    fn fault(&self, action: &'static str) -> impl FnOnce(io::Error) -> ImportFault + use<> {
        let address = self.server.address.clone();
        move |source| ImportFault::Connection { address, action, source }
    }

    /// Connects and logs in.
    fn open(server: &'s RedisServer, watch: &Rc<Watch<'p>>) -> Result<Link<'s, 'p>, ImportFault> {
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
    fn poll(&self) -> Result<(), ImportFault> {
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

    fn say(&mut self, words: &[&str]) -> Result<(), ImportFault> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.sent = Instant::now();
        let fault = self.fault("write");
        self.input.get_mut().stream.write_all(&bytes).map_err(fault)
    }

    /// A line without its end; empty ones are passed over.
    fn line(&mut self) -> Result<String, ImportFault> {
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
    fn offset(&mut self) -> Result<u64, ImportFault> {
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
struct SnapshotBytes<'l, 's, 'p> {
    link: &'l mut Link<'s, 'p>,
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

/// The place in the server's stream.
struct Place {
    name: String,
    /// Up to here commands were executed.
    executed: u64,
    /// Up to here they are committed: the stream continues here on another connection.
    committed: u64,
    /// The database that the stream has selected there.
    database: u8,
    /// Up to here they are settled.
    settled: u64,
    /// `--once` ends here.
    goal: Option<u64>,
}

/// Reads the server's keys, and follows its commands.
pub(super) fn follow(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    server: &RedisServer,
) -> Result<(), ImportFault> {
    let mut link = Link::open(server, &target.watch)?;
    let mut place = match link.sync(None)? {
        Sync::Full(name, offset) => {
            snapshot(target, commands, &mut link)?;
            begun(target, commands, (name, offset))
        }
        Sync::Partial(_) => return Err(link.refused("PSYNC", "a stream without a snapshot")),
    };
    match find_goal(target, server, &mut place) {
        Err(ImportFault::Stopped) => return Ok(()),
        found => found?,
    }
    loop {
        match commands_of(target, commands, &mut link, &mut place) {
            Err(ImportFault::Connection { .. }) => {}
            other => return other,
        }
        // Commands since the last commit come again.
        target.abandon();
        place.executed = place.committed;
        drop(link);
        link = match reconnect(target, commands, server, &mut place) {
            Err(ImportFault::Stopped) => {
                target.undo()?;
                return Ok(());
            }
            made => made?,
        };
    }
}

/// A snapshot is here and stays: its place in the stream.
fn begun(target: &mut Target<'_, '_>, commands: &Commands, (name, offset): (String, u64)) -> Place {
    target.done.offset = Some(offset);
    target.phase = ImportPhase::Following;
    let database = commands.database();
    Place { name, executed: offset, committed: offset, database, settled: offset, goal: None }
}

/// Asks for the end of an import `--once`, if that is not known yet.
fn find_goal(target: &Target<'_, '_>, server: &RedisServer, place: &mut Place) -> Result<(), ImportFault> {
    if target.options.once && place.goal.is_none() {
        place.goal = Some(Link::open(server, &target.watch)?.offset()?);
    }
    Ok(())
}

/// Reads a snapshot, which then stays.
fn snapshot(target: &mut Target<'_, '_>, commands: &mut Commands, link: &mut Link<'_, '_>) -> Result<(), ImportFault> {
    target.phase = ImportPhase::Keys;
    match snapshot_of(target, commands, link) {
        Err(_) if target.watch.is_stopped() => Err(ImportFault::Stopped),
        Err(ImportFault::Read { source, .. }) => Err(link.fault("read the snapshot")(source)),
        other => other,
    }
}

fn snapshot_of(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    link: &mut Link<'_, '_>,
) -> Result<(), ImportFault> {
    let head = link.line()?;
    let Some(size) = head.strip_prefix('$') else { return Err(link.refused("PSYNC", &head)) };
    let mark = size.strip_prefix("EOF:").map(str::to_string);
    let size = match &mark {
        Some(mark) if mark.len() == MARK => None,
        Some(_) => return Err(link.refused("PSYNC", &head)),
        None => Some(size.parse::<u64>().map_err(|_| link.refused("PSYNC", &head))?),
    };
    target.read.set(0);
    target.total = size;
    target.begin(true)?;
    let name = link.server.address.clone();
    let mut bytes = SnapshotBytes { link };
    let mut source = Source::new(name, &mut bytes, target.read.clone());
    let facts = rdb_in::read(target, &mut source, Use::Base)?;
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
    commands.select(facts.database.unwrap_or(0));
    target.keep()
}

/// Connects again, and goes on behind the last commit.
fn reconnect<'s, 'p>(
    target: &mut Target<'_, 'p>,
    commands: &mut Commands,
    server: &'s RedisServer,
    place: &mut Place,
) -> Result<Link<'s, 'p>, ImportFault> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let fault = match attempt_once(target, commands, server, place) {
            Ok(link) => return Ok(link),
            Err(fault @ (ImportFault::Connection { .. } | ImportFault::Answer { .. })) => fault,
            Err(fault) => return Err(fault),
        };
        // After the beginning of a snapshot the keys of before come back.
        target.undo()?;
        target.phase = ImportPhase::Following;
        if attempt >= ATTEMPTS {
            return Err(fault);
        }
        let pause = Instant::now();
        while pause.elapsed() < HEARTBEAT {
            if !target.watch.goes_on() {
                return Err(ImportFault::Stopped);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// One attempt of it.
fn attempt_once<'s, 'p>(
    target: &mut Target<'_, 'p>,
    commands: &mut Commands,
    server: &'s RedisServer,
    place: &mut Place,
) -> Result<Link<'s, 'p>, ImportFault> {
    let mut link = Link::open(server, &target.watch)?;
    match link.sync(Some((&place.name, place.committed)))? {
        Sync::Partial(name) => {
            place.name = name.unwrap_or(std::mem::take(&mut place.name));
            commands.reset();
            commands.select(place.database);
        }
        Sync::Full(name, offset) => {
            target.options.clear = true;
            snapshot(target, commands, &mut link)?;
            *place = begun(target, commands, (name, offset));
        }
    }
    find_goal(target, server, place)?;
    Ok(link)
}

/// Executes commands as they come; returns when the caller stops or the goal is reached.
fn commands_of(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    link: &mut Link<'_, '_>,
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
                let (before, commits) = (place.executed, target.commits);
                commands.execute(target, args, &name, before)?;
                input.advance(used);
                place.executed += used as u64;
                if target.commits != commits {
                    // MULTI commits the commands before it.
                    let open = commands.transaction.is_some();
                    place.committed = if open { before } else { place.executed };
                    place.database = commands.database();
                    target.done.offset = Some(place.committed);
                }
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
            if target.has_written() || place.settled < place.committed {
                match seeded("server-import-ack-early") {
                    true => target.commit()?,
                    false => target.settle()?, // XFER-3
                }
            }
            (place.committed, place.settled, place.database) = (place.executed, place.executed, commands.database());
            target.done.offset = Some(place.settled);
        }
        if asked || link.sent.elapsed() > HEARTBEAT {
            asked = false;
            link.say(&["REPLCONF", "ACK", &place.settled.to_string()])?;
        }
        if place.goal.is_some_and(|goal| place.settled >= goal) {
            return Ok(());
        }
        target.tell()?;
        if target.watch.is_stopped() {
            target.abandon(); // of a transaction whose EXEC is not here
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
