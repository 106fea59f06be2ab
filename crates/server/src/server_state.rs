//! The server's own state, apart from connections and keys.

use crate::backups::Backups;
use crate::cursor::Cursors;
use crate::metrics::Metrics;
use crate::options::Options;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Durability;
use std::net::SocketAddr;
use std::time::Instant;

/// The Redis version whose replies the server gives. Clients select features by it.
pub const REDIS_VERSION: &str = "7.0.15";

/// Limits of the kept places of SCAN: their number, and their bytes.
const CURSORS_MAX: usize = 65_536;
const CURSORS_SIZE_MAX: usize = 16 << 20;

/// See the head of this file.
pub(crate) struct ServerState {
    /// As given at the start.
    pub options: Options,
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The table served.
    pub kv: Kv,
    /// Counters.
    pub metrics: Metrics,
    /// Backups.
    pub backups: Backups,
    /// Places of SCAN.
    pub cursors: Cursors,
    /// When the server started.
    pub started: Instant,
    /// The time at the beginning of this iteration.
    pub now: Instant,
    /// Bytes of memory that requests hold, over all connections.
    pub input_memory: usize,
    /// Connections now.
    pub clients: usize,
    /// Number of the next client.
    pub client_next: u64,
    /// Set by SHUTDOWN: this iteration is the last.
    pub stopping: bool,
}

impl ServerState {
    /// At the start.
    pub(crate) fn new(options: Options, address: SocketAddr, kv: Kv) -> ServerState {
        let now = Instant::now();
        ServerState {
            backups: Backups::new(options.backups.clone()),
            options,
            address,
            kv,
            metrics: Metrics::new(),
            cursors: Cursors::new(CURSORS_MAX, CURSORS_SIZE_MAX),
            started: now,
            now,
            input_memory: 0,
            clients: 0,
            client_next: 1,
            stopping: false,
        }
    }

    /// The name that Redis would give this store's durability.
    pub(crate) fn append_fsync(&self) -> &'static str {
        match self.kv.store().media().durability() {
            Durability::Always => "always",
            Durability::Interval(_) => "everysec",
            Durability::Process => "no",
        }
    }
}
