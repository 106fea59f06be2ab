//! An RDB file, or the snapshot of an AOF or of a running server.
//!
//! | bytes | content |
//! |---|---|
//! | 9 | `REDIS` and the version in four digits |
//! | 1 and its own | a code below, or the type of a value, its key and the value |
//! | 8 | behind the code of the end: the checksum of all before it, or zeros |
//!
//! Deadlines come before the key that has them.

use super::source::Source;
use super::target::Target;
use super::{ImportFault, Refusal, ValueIn};
use crate::keyspace::Keyspace;
use crate::rdb::{Input, Malformed, Part, kind, read_value};

/// The versions that are read: Redis up to 7.2.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=11;
/// The first version with a checksum.
const SUMMED: u64 = 5;
/// Databases of a server.
const DATABASES: u64 = crate::keyspace::DATABASES as u64;

/// Expired keys between two reports of progress.
const REPORTED: u64 = 1000;

/// Codes in place of a type.
mod code {
    pub(super) const SLOT: u8 = 244;
    pub(super) const FUNCTIONS: u8 = 245;
    pub(super) const EARLY_FUNCTIONS: u8 = 246;
    pub(super) const MODULE: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const ABOUT: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const DEADLINE: u8 = 252;
    pub(super) const DEADLINE_SECONDS: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// The use of an RDB file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Its keys are added to those of the store, those that have expired are left out. A file that
    /// says that commands follow is used as a `Base`.
    Keys,
    /// Commands follow, which expect all keys and no other ones.
    Base,
}

/// Facts in the head of a file, for the bytes behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Whether commands follow.
    pub base: bool,
    /// The database of the commands that follow, if the file names one.
    pub database: Option<u8>,
}

/// Reads one whole file from its first byte.
pub(super) fn read(target: &mut Target<'_, '_>, source: &mut Source<'_>, usage: Use) -> Result<Facts, ImportFault> {
    let version = head(source)?;
    let mut facts = Facts { base: usage == Use::Base, database: None };
    let (mut begun, mut deadline) = (false, 0);
    loop {
        let byte = step(source, |input| input.byte())?;
        match byte {
            code::ABOUT => {
                let (name, value) = step(source, |input| Ok((input.string()?, input.string()?)))?;
                match &*name {
                    b"aof-base" | b"aof-preamble" => facts.base |= value == b"1",
                    b"repl-stream-db" => {
                        let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse::<i64>().ok());
                        facts.database = match number {
                            None | Some(..0) => None, // -1: no command selects one before
                            Some(number) if (number as u64) < DATABASES => Some(number as u8),
                            Some(number) => return Err(source.unsupported(beyond(number as u64))),
                        };
                    }
                    _ => {}
                }
            }
            code::SIZES => step(source, |input| Ok((input.length()?, input.length()?))).map(drop)?,
            code::SLOT => step(source, |input| Ok((input.length()?, input.length()?, input.length()?))).map(drop)?,
            code::IDLE => step(source, |input| input.length()).map(drop)?,
            code::FREQUENCY => step(source, |input| input.byte()).map(drop)?,
            code::DEADLINE => deadline = step(source, |input| input.word())?,
            code::DEADLINE_SECONDS => {
                deadline = u64::from(step(source, |input| Ok(u32::from_le_bytes(input.array()?)))?) * 1000;
            }
            code::DATABASE => {
                let number = step(source, |input| input.length())?;
                if number >= DATABASES {
                    return Err(source.unsupported(beyond(number)));
                }
                target.keys.select(number as u8);
            }
            code::FUNCTIONS => {
                let code = step(source, |input| input.string())?;
                if !std::mem::replace(&mut begun, true) {
                    target.begin(facts.base)?;
                }
                target.put_library(&code, facts.base, &source.name, source.offset())?;
            }
            code::MODULE | code::EARLY_FUNCTIONS | kind::MODULE | kind::MODULE_2 => {
                let detail = match byte {
                    code::EARLY_FUNCTIONS => "functions of a Redis 7 before its release",
                    _ => "data of a module of Redis, which only that module can read; delete those keys there first",
                };
                return Err(source.unsupported(detail));
            }
            code::END => break,
            _ => {
                if !std::mem::replace(&mut begun, true) {
                    target.begin(facts.base)?;
                }
                key(target, source, byte, std::mem::take(&mut deadline), facts.base)?;
            }
        }
    }
    target.begin(facts.base)?;
    if version >= SUMMED {
        let found = source.sum();
        let expected = step(source, |input| input.word())?;
        if expected != 0 && expected != found {
            return Err(source.damaged("the checksum of the whole file is wrong"));
        }
    }
    Ok(facts)
}

fn beyond(database: u64) -> String {
    format!("the keys of database {database}: a server has {DATABASES} of them, 0 to {}", DATABASES - 1)
}

/// Reads the first bytes; the version.
fn head(source: &mut Source<'_>) -> Result<u64, ImportFault> {
    let magic = step(source, |input| input.array::<9>())?;
    let version = magic.strip_prefix(b"REDIS").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let Some(version) = version else { return Err(source.damaged("no RDB file begins so")) };
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    Err(source.unsupported(format!(
        "an RDB file of version {version}; versions up to {}, of Redis 7.2, are known",
        VERSIONS.end()
    )))
}

/// Reads a part that is no value.
fn step<T>(
    source: &mut Source<'_>,
    read: impl FnOnce(&mut Input<'_>) -> Result<T, Malformed>,
) -> Result<T, ImportFault> {
    let result = read(&mut Input::new(source));
    result.map_err(|malformed| source.damaged(malformed.detail))
}

/// Reads a key and its value.
fn key(
    target: &mut Target<'_, '_>,
    source: &mut Source<'_>,
    kind: u8,
    deadline: u64,
    base: bool,
) -> Result<(), ImportFault> {
    let key = step(source, |input| input.string())?;
    let deadline = deadline.min(i64::MAX as u64);
    if !base && deadline != 0 && target.keys.has_passed(deadline) {
        target.done.expired += 1;
        if target.done.expired.is_multiple_of(REPORTED) {
            target.tell()?;
        }
        return step(source, |input| read_value(kind, input, &mut |_| Ok(())));
    }
    target.done.keys += 1;
    target.keys.begin_command(true);
    target.keys.check_key(&key)?;
    if target.keys.contains(&key)? {
        if !target.options.replace || base {
            return Err(ImportFault::Exists { database: target.keys.database(), key });
        }
        target.keys.delete(&key)?;
        target.done.replaced += 1;
    }
    let (mut value, mut failed) = (ValueIn::new(&key, deadline, false), None);
    let read = read_value(kind, &mut Input::new(source), &mut |part| {
        let size = size_of(&part);
        let done = value.put(&mut target.keys, part).map_err(|refusal| match refusal {
            Refusal::Malformed(malformed) => Stop::Malformed(malformed),
            Refusal::Store(error) => Stop::Fault(error.into()),
        });
        done.and_then(|()| target.note(size, false).map_err(Stop::Fault)).map_err(|stop| match stop {
            Stop::Malformed(malformed) => malformed,
            Stop::Fault(fault) => {
                failed = Some(fault);
                Malformed { detail: "the value is refused" }
            }
        })
    });
    if let Some(fault) = failed {
        return Err(fault);
    }
    read.map_err(|malformed| source.damaged(malformed.detail))?;
    finish(value, &mut target.keys, source)?;
    target.note(key.len(), false)
}

/// The reason why a value is not read to its end.
enum Stop {
    Malformed(Malformed),
    Fault(ImportFault),
}

fn finish(value: ValueIn<'_>, keys: &mut Keyspace<'_>, source: &mut Source<'_>) -> Result<(), ImportFault> {
    value.finish(keys).map_err(|refusal| match refusal {
        Refusal::Malformed(malformed) => source.damaged(malformed.detail),
        Refusal::Store(error) => error.into(),
    })
}

/// The bytes of a part.
fn size_of(part: &Part<'_>) -> usize {
    match part {
        Part::String(text) | Part::Element(text) | Part::Member(text) | Part::Scored(text, _) => text.len(),
        Part::Field(field, value) => field.len() + value.len(),
        Part::Entry(_, fields) => {
            let mut size = 0;
            fields.visit(&mut |text| size += text.len());
            size
        }
        Part::Group(name, ..) | Part::Consumer(name, _) => name.len(),
        Part::State { .. } | Part::Pending(..) | Part::Owned(_) => 0,
    }
}
