//! # everbyte-server: the Redis protocol over an Everbyte store
//!
//! Any Redis client reads and writes the keys of a [`Kv`](everbyte_kv::Kv). One thread repeats
//! this: it reads what all clients have sent, executes it under one batch, settles the store once,
//! and only then replies. So **an acknowledged write is settled**, and so is everything a reply
//! tells of; a hundred clients share the cost of one settlement.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let kv: everbyte_kv::Kv = panic!();
//! use everbyte_server::{Options, Server};
//! let server = Server::bind(kv, Options { address: "127.0.0.1:6380".into(), ..Options::default() })?;
//! println!("redis-cli -p {}", server.address().port());
//! server.run()?; // until SHUTDOWN, a signal, or Handle::stop
//! # Ok(())
//! # }
//! ```
//!
//! Modules: bytes to requests and replies to bytes `resp`, commands as data `command`, one
//! connection `connection`, one iteration `iteration`, the loop `server`, further loops `loops`.
//! Promises: `docs/semantics/server.md`.

#![forbid(unsafe_code)]

mod access;
mod backups;
mod channels;
mod clients;
mod command;
mod connection;
mod cursor;
mod data_bound;
mod disk_sync;
mod error;
mod eviction_policy;
mod export;
mod exporter;
mod fuzz;
mod gather;
mod geohash;
mod glob;
mod hyperloglog;
mod iteration;
mod keyspace;
mod loops;
mod lua;
mod metrics;
mod notify;
mod options;
mod outbox;
mod password;
mod pinned_cursors;
mod rdb;
mod replication;
mod resp;
mod ring;
mod saves;
mod script;
mod script_replica;
mod server;
mod server_state;
mod settler;
mod sha1;
mod slowlog;
mod sockets;
mod stream;
mod supervisor;
mod times;
mod tls;
mod tracking;
mod transaction;
mod transfer;
mod version;
mod waiting;
mod watch;

pub use error::{Error, Result};
pub use eviction_policy::{EvictionPolicy, parse_size};
pub use export::{ExportError, Exported, export};
pub use fuzz::{fuzz_lua, fuzz_protocol, fuzz_rdb};
pub use keyspace::{KeyspaceFinding, KeyspaceSums, check};
pub use options::{ClientDurability, Options, SoftLimit};
pub use password::Password;
pub use ring::Ring;
pub use script::ServerScript;
pub use script_replica::{ReplicaPatch, replica_patches};
pub use server::{Handle, Server};
pub use tls::{ClientCertificates, PrimaryTls, TlsOptions};
pub use transfer::{
    ImportError, ImportFault, ImportOptions, ImportPhase, ImportProgress, ImportSource, Imported, Kept, RedisServer,
    import,
};
pub use version::REDIS_VERSION;
