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

use super::command_input::{CommandInput, Next};
use super::commands::Commands;
use super::link::{HEARTBEAT, Link, POLL, RedisServer, SnapshotBytes, Sync};
use super::rdb_in::{self, Use};
use super::source::Source;
use super::target::Target;
use super::{ImportFault, ImportPhase};
use everbyte_media::seeded;
use std::io::{ErrorKind, Read};
use std::time::Instant;

/// Attempts to reconnect, a [`HEARTBEAT`] apart.
const ATTEMPTS: u32 = 10;
/// Bytes of the mark behind a snapshot of unknown size.
const MARK: usize = 40;

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
