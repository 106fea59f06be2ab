//! An RDB file of all keys, and libraries of functions, as of one version.
//!
//! The version is the newest settled one when the export begins; keys that have expired then are
//! left out. Elements are written as they are read. The file is one that Redis 7.0 loads.

mod value_out;

pub(crate) use value_out::{number_of, write_value};

use crate::keyspace::{DATABASES, KeyError, KeySpan, Keyspace, Tables};
use crate::rdb::{Output, VERSION, crc64, kind};
use crate::version::REDIS_VERSION;
use everbyte_kv::Kv;
use everbyte_media::{Damage, ErrorInfo, ErrorKind};
use std::io::{self, Write};
use std::ops::Bound;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are written together.
const TOGETHER: usize = 64 << 10;
/// Keys that are looked up together.
const KEYS: usize = 256;

/// The sums of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Keys of all databases.
    pub keys: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// An export that has failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error("cannot write the RDB file: {0}")]
    Write(#[source] io::Error),
    /// The server's tables cannot be opened.
    #[error("{0}")]
    Open(#[source] crate::Error),
    /// The store cannot be read.
    #[error("{0}")]
    Store(#[source] everbyte_kv::Error),
    /// The keys of a replica are a mixture of two versions of its primary.
    #[error(
        "the keys are a mixture of two versions of the replica's primary; let the replica catch up, or export those of the primary"
    )]
    Mixture,
}

impl From<everbyte_kv::Error> for ExportError {
    fn from(error: everbyte_kv::Error) -> ExportError {
        ExportError::Store(error)
    }
}

impl From<KeyError> for ExportError {
    fn from(error: KeyError) -> ExportError {
        match error {
            KeyError::Store(error) => ExportError::Store(error),
            KeyError::WrongType => ExportError::Store(crate::keyspace::damaged()),
        }
    }
}

impl ErrorInfo for ExportError {
    fn kind(&self) -> ErrorKind {
        match self {
            ExportError::Write(error) => ErrorKind::of_io(error),
            ExportError::Open(error) => error.kind(),
            ExportError::Store(error) => error.kind(),
            ExportError::Mixture => ErrorKind::Busy,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            ExportError::Write(_) | ExportError::Mixture => None,
            ExportError::Open(error) => error.damage(),
            ExportError::Store(error) => error.damage(),
        }
    }
}

/// Writes all keys and libraries of functions to an RDB file. `progress` is called with the sums so
/// far now and then.
///
/// # Errors
/// The file cannot be written, or the store cannot be read; the keys of a replica are a mixture of
/// two versions.
pub fn export(kv: &Kv, to: &mut dyn Write, progress: &mut dyn FnMut(&Exported)) -> Result<Exported, ExportError> {
    let tables = Tables::open(kv.clone()).map_err(ExportError::Open)?;
    write_keys(&tables, to, progress)
}

/// As [`export`], of tables that are open.
pub(crate) fn write_keys(
    tables: &Tables,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(&Exported),
) -> Result<Exported, ExportError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let mut file = RdbFile { to, sum: 0, out: Output::default(), done: Exported::default(), failed: None };
    // Reads see the settled version, the same one to the end.
    let mut keys = Keyspace::new(tables, Box::default(), now, false, true);
    keys.read_spaces()?;
    if keys.is_mixture()? {
        return Err(ExportError::Mixture);
    }
    file.out.raw(format!("REDIS{VERSION:04}").as_bytes());
    for (name, value) in [
        ("redis-ver", REDIS_VERSION.to_string()),
        ("redis-bits", "64".into()),
        ("ctime", since.as_secs().to_string()),
        ("used-mem", "0".into()),
        ("aof-base", "0".into()),
    ] {
        file.out.byte(code::ABOUT);
        file.out.string(name.as_bytes());
        file.out.string(value.as_bytes());
    }
    for (_, code) in keys.libraries()? {
        file.out.byte(kind::LIBRARY);
        file.out.string(&code);
        file.flush()?;
    }
    for database in 0..DATABASES as u8 {
        keys.select(database);
        file.database(&mut keys, database, progress)?;
    }
    file.out.byte(code::END);
    file.flush()?;
    let sum = file.sum;
    file.out.word(sum);
    file.flush()?;
    file.to.flush().map_err(ExportError::Write)?;
    progress(&file.done);
    Ok(file.done)
}

/// Codes in place of a type.
mod code {
    pub(super) const ABOUT: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const DEADLINE: u8 = 252;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// A file that is written.
struct RdbFile<'w> {
    to: &'w mut dyn Write,
    sum: u64,
    out: Output,
    done: Exported,
    failed: Option<io::Error>,
}

impl RdbFile<'_> {
    /// Writes what waits.
    fn flush(&mut self) -> Result<(), ExportError> {
        let RdbFile { to, sum, out, done, .. } = self;
        write(&mut **to, sum, out, done).map_err(ExportError::Write)
    }

    fn database(
        &mut self,
        keys: &mut Keyspace<'_>,
        database: u8,
        progress: &mut dyn FnMut(&Exported),
    ) -> Result<(), ExportError> {
        let count = keys.len()?;
        if count == 0 {
            return Ok(());
        }
        self.out.byte(code::DATABASE);
        self.out.length(u64::from(database));
        self.out.byte(code::SIZES);
        self.out.length(count);
        self.out.length(keys.deadlines()?);
        let mut last: Option<Vec<u8>> = None;
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let (span, mut part) = (KeySpan { from, to: Bound::Unbounded, backwards: false }, Vec::new());
            keys.visit(span, false, &mut |met| {
                part.push((met.key.to_vec(), met.kind));
                part.len() < KEYS
            })?;
            for (key, kind) in &part {
                let deadline = keys.deadline(key)?.unwrap_or(0);
                if deadline != 0 {
                    self.out.byte(code::DEADLINE);
                    self.out.word(deadline);
                }
                self.out.byte(number_of(*kind));
                self.out.string(key);
                let RdbFile { to, sum, out, done, failed } = self;
                let whole = write_value(keys, key, *kind, out, &mut |out| {
                    if out.len() >= TOGETHER {
                        *failed = write(&mut **to, sum, out, done).err();
                    }
                    failed.is_none()
                })?;
                if let Some(error) = self.failed.take() {
                    return Err(ExportError::Write(error));
                }
                if !whole {
                    return Err(ExportError::Store(crate::keyspace::damaged()));
                }
                self.done.keys += 1;
            }
            progress(&self.done);
            match part.pop() {
                Some((key, _)) if part.len() + 1 == KEYS => last = Some(key),
                _ => return Ok(()),
            }
        }
    }
}

/// Writes what waits to the file.
fn write(to: &mut dyn Write, sum: &mut u64, out: &mut Output, done: &mut Exported) -> io::Result<()> {
    to.write_all(out.bytes())?;
    *sum = crc64::after(*sum, out.bytes());
    done.bytes += out.len() as u64;
    out.clear();
    Ok(())
}
