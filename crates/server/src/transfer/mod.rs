//! Keys from Redis: RDB files, AOF, a running server.
//!
//! [`import`] reads a source into the tables of a store that no server serves meanwhile. It commits
//! batch after batch under a mark (`keyspace/imports.rs`), so however large the source is memory is
//! bounded, and an import that fails, is stopped or crashes is taken back whole. A running server
//! is read as its replica reads it: a snapshot under the mark, then its commands, each batch of
//! which stays.
//!
//! Modules: values `value_in`; RDB files `rdb_in`; commands as bytes `command_input` and their
//! execution `commands`; AOF `aof`; a running server `replica`, the connection to it `link`;
//! batches `target`; bytes that are counted `source`.
//!
//! Invariants
//!   XFER-1  A source that is refused or damaged leaves the store as it was before.
//!   XFER-2  Commands between MULTI and EXEC are committed together.
//!   XFER-3  A replication offset is acknowledged only when all commands before it are settled.
//!   XFER-4  A lost connection is continued behind the last commit: each command is executed once.
//!
//! Threads: the caller's alone.

mod aof;
mod command_input;
mod commands;
mod error;
mod link;
mod rdb_in;
mod replica;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod value_in;

pub use error::{ImportError, ImportFault, Kept};
pub use link::RedisServer;

pub(crate) use value_in::{Refusal, ValueIn};

use crate::keyspace::Tables;
use crate::options::Options;
use crate::server_state::ServerState;
use commands::Commands;
use everbyte_kv::Kv;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use target::Target;

/// Bytes of keys and values in one batch.
const BATCH: usize = 4 << 20;

/// The source of an import.
#[derive(Clone, Debug)]
pub enum ImportSource {
    /// An RDB file; an AOF, with or without a snapshot at its beginning; the manifest of an AOF of
    /// several files, or the directory in which it is.
    File(PathBuf),
    /// The bytes of a file.
    #[doc(hidden)]
    Bytes(Arc<[u8]>),
    /// A running server.
    Server(RedisServer),
}

/// The choices of [`import`].
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Keys of an RDB file replace those of the store; without it one that is there is an error.
    pub replace: bool,
    /// All keys and functions of the store are deleted first.
    pub clear: bool,
    /// A running server is followed until what it had acknowledged by the end of its snapshot is
    /// here, and not until the caller stops.
    pub once: bool,
    /// Bytes in one batch.
    #[doc(hidden)]
    pub batch_size: usize,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions { replace: false, clear: false, once: false, batch_size: BATCH }
    }
}

/// The phase of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportPhase {
    /// The keys of an RDB file or of a snapshot are read.
    #[default]
    Keys,
    /// The commands of an AOF are executed.
    Commands,
    /// The commands of a running server are executed as they arrive.
    Following,
}

/// The state of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportProgress {
    /// The work at hand.
    pub phase: ImportPhase,
    /// Bytes of the source that were read; of a running server's stream, the offset.
    pub bytes: u64,
    /// All bytes of the source, if known.
    pub total: Option<u64>,
    /// Keys that were read.
    pub keys: u64,
    /// Commands that were executed.
    pub commands: u64,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Keys of the RDB file or of the snapshot.
    pub keys: u64,
    /// Keys of the store that were replaced.
    pub replaced: u64,
    /// Keys that were left out, or removed at the end, because they had expired.
    pub expired: u64,
    /// Commands that were executed.
    pub commands: u64,
    /// Libraries of functions of the RDB file or of the snapshot.
    pub functions: u64,
    /// Bytes of the source.
    pub bytes: u64,
    /// The end of an AOF was cut: the offset of the first command or transaction that is not whole,
    /// and the bytes from there on, which were left out.
    pub cut: Option<(u64, u64)>,
    /// The offset in a running server's stream up to which its commands were executed.
    pub offset: Option<u64>,
}

/// Reads keys of all databases, and functions, into a table that no server serves. `progress`
/// is called now and then, and ten times a second while a running server sends nothing; `false`
/// from it stops the import: it is taken back then, but for the commands of a running server that
/// is followed, which ends the import well. Settled on return.
///
/// The import needs the store alone: a server, an export or another import of this process is an
/// error, and so is a write of another thread meanwhile. Its writes to the main table go
/// with the import when that is taken back.
///
/// # Errors
/// [`ImportError`] names the fault and its offset, and says whether anything was imported.
#[expect(clippy::result_large_err, reason = "an import ends once")]
pub fn import(
    kv: &Kv,
    source: &ImportSource,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress) -> bool,
) -> std::result::Result<Imported, ImportError> {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    // Replies are dropped as they come.
    let limits = Options { output_size_max: usize::MAX, ..Options::default() };
    let tables = Tables::open_to_import(kv.clone(), options.clear);
    let tables = tables.map_err(|error| ImportError::before(ImportFault::Open { source: error }))?;
    let mut shared = ServerState::new(limits, address, tables);
    let tables = Arc::clone(&shared.tables);
    let remembered = std::mem::take(&mut shared.remembered);
    let mut target = Target::new(&tables, remembered, shared.clock(), options.clone(), progress);
    let mut commands = Commands::new(shared, address);
    let done = match source {
        ImportSource::File(path) => aof::read(&mut target, &mut commands, path),
        ImportSource::Bytes(bytes) => aof::read_bytes(&mut target, &mut commands, bytes),
        ImportSource::Server(server) => replica::follow(&mut target, &mut commands, server),
    };
    match done.and_then(|()| target.finish(&mut commands)) {
        Ok(()) => Ok(target.into_imported()),
        Err(fault) => Err(target.take_back(fault)),
    }
}
