//! The server's own state, apart from connections and keys.

use crate::access::{self, Users};
use crate::backups::Backups;
use crate::channels::Channels;
use crate::clients::Client;
use crate::cursor::Cursors;
use crate::error::{Error, Result};
use crate::keyspace::{Remembered, Tables};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::tls::configure;
use crate::tracking::Tracking;
use crate::waiting::Waiters;
use crate::watch::Watches;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Durability;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

/// The Redis version whose replies the server gives. Clients select features by it.
pub const REDIS_VERSION: &str = "7.0.15";

/// Limits of the kept places of SCAN: their number, and their bytes.
const CURSORS_MAX: usize = 65_536;
const CURSORS_SIZE_MAX: usize = 16 << 20;

/// A pause of clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// Its end, in milliseconds since 1970.
    pub until: u64,
    /// Whether commands wait that do not write.
    pub all: bool,
}

/// See the head of this file.
pub(crate) struct ServerState {
    /// As given at the start.
    pub options: Options,
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The table served.
    pub kv: Kv,
    /// It and the tables beside it.
    pub tables: Arc<Tables>,
    /// Facts about them, kept by the last iteration.
    pub remembered: Box<Remembered>,
    /// Milliseconds since 1970 at which expired keys are looked for next.
    pub sweep_next: u64,
    /// Counters.
    pub metrics: Metrics,
    /// Backups.
    pub backups: Backups,
    /// Places of SCAN.
    pub cursors: Cursors,
    /// Watched keys.
    pub watches: Watches,
    /// Clients that wait for an element.
    pub waiters: Waiters,
    /// Certificates and key for connections to come.
    pub tls: Option<Arc<ServerConfig>>,
    /// Keys that clients keep copies of.
    pub tracking: Tracking,
    /// Changes of the command under way that `tracking` has been told of.
    pub changes_noted: usize,
    /// Keys of which the client that is served keeps copies, and which it has changed itself;
    /// `None`: all keys.
    pub own_stale: Vec<Option<Vec<u8>>>,
    /// Set while clients are paused.
    pub pause: Option<Pause>,
    /// Clients whose requests wait for its end.
    pub postponed: usize,
    /// Users.
    pub users: Users,
    /// Connections to be ended once the command under way has ended: slots and clients.
    pub ends: Vec<(usize, u64)>,
    /// Subscriptions.
    pub channels: Channels,
    /// Output of this iteration for other clients.
    pub outbox: Outbox,
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
    pub(crate) fn new(options: Options, address: SocketAddr, tables: Tables) -> ServerState {
        let now = Instant::now();
        ServerState {
            kv: tables.kv.clone(),
            tables: Arc::new(tables),
            remembered: Box::default(),
            sweep_next: 0,
            tls: None,
            tracking: Tracking::default(),
            changes_noted: 0,
            own_stale: Vec::new(),
            pause: None,
            postponed: 0,
            users: Users::new(options.password.as_ref()),
            ends: Vec::new(),
            backups: Backups::new(options.backups.clone()),
            options,
            address,
            metrics: Metrics::new(),
            cursors: Cursors::new(CURSORS_MAX, CURSORS_SIZE_MAX),
            watches: Watches::default(),
            waiters: Waiters::default(),
            channels: Channels::default(),
            outbox: Outbox::default(),
            started: now,
            now,
            input_memory: 0,
            clients: 0,
            client_next: 1,
            stopping: false,
        }
    }

    /// Reads the file of users, if there is one, and refuses an address that other machines can
    /// reach where it leaves the user `default` without a password.
    pub(crate) fn load_users(&mut self) -> Result<()> {
        let Some(path) = &self.options.acl_file else { return Ok(()) };
        self.users.replace(access::load(path).map_err(|text| Error::Users { text })?);
        if self.users.is_open() && !self.options.open && !self.address.ip().to_canonical().is_loopback() {
            return Err(Error::Exposed { address: self.address.to_string() });
        }
        Ok(())
    }

    /// Reads the certificates and the key again; if one of them is wrong, nothing changes.
    /// Connections that are open keep theirs.
    pub(crate) fn load_certificates(&mut self) -> Result<()> {
        if let Some(tls) = &self.options.tls {
            self.tls = Some(configure(tls).map_err(|text| Error::Tls { text })?);
        }
        Ok(())
    }

    /// Whether the changes of each command have to be known.
    pub(crate) fn follows_changes(&self) -> bool {
        !self.watches.is_empty() || !self.waiters.is_empty() || self.tracking.is_on()
    }

    /// Whether the client must give the password first.
    pub(crate) fn lacks_password(&self, client: &Client) -> bool {
        !client.authenticated && !self.users.is_open()
    }

    /// Milliseconds since 1970, by the clock of the options.
    pub(crate) fn clock(&self) -> u64 {
        let since = self.options.clock.now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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
