//! The server's own state, apart from connections and keys.

use crate::access::{self, Users};
use crate::backups::Backups;
use crate::channels::Channels;
use crate::clients::Client;
use crate::command::{Command, Flags};
use crate::cursor::Cursors;
use crate::data_bound::DataBound;
use crate::disk_sync::DiskSync;
use crate::error::{Error, Result};
use crate::keyspace::{Remembered, Tables};
use crate::lua::Scripts;
use crate::metrics::Metrics;
use crate::notify::Events;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::pinned_cursors::PinnedCursors;
use crate::replication::{PrimaryAddress, Replication, Request, Target};
use crate::resp::parse::Args;
use crate::resp::reply::Replies;
use crate::saves::Saves;
use crate::slowlog::{Latency, SlowCommand, Slowlog, cut};
use crate::tls::{configure, configure_client};
use crate::tracking::Tracking;
use crate::waiting::Waiters;
use crate::watch::Watches;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Durability;
use rustls::ServerConfig;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

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

/// A client that sees all commands.
pub(crate) struct Monitor {
    /// Its number.
    pub client: u64,
    /// Its slot.
    pub slot: usize,
    /// The number of the last message before it.
    pub since: u64,
}

/// A name that SNAPSHOT gives to the newest version, or removes, for a client that waits.
pub(crate) struct Naming {
    /// The client.
    pub client: u64,
    /// The name.
    pub name: String,
    /// Whether it is removed.
    pub drops: bool,
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
    /// RDB files.
    pub saves: Saves,
    /// Places of SCAN.
    pub cursors: Cursors,
    /// Cursors over versions.
    pub pinned: PinnedCursors,
    /// Names of versions that are given or removed when the iteration has committed.
    pub naming: Vec<Naming>,
    /// Watched keys.
    pub watches: Watches,
    /// The bound of the data.
    pub data_bound: DataBound,
    /// The primary, and replicas.
    pub replication: Replication,
    /// Clients that wait for an element.
    pub waiters: Waiters,
    /// Syncs for WAITAOF, once there was one.
    pub disk_sync: Option<DiskSync>,
    /// Certificates and key for connections to come.
    pub tls: Option<Arc<ServerConfig>>,
    /// The address of TLS, once the server listens there.
    pub tls_address: Option<SocketAddr>,
    /// Keys that clients keep copies of.
    pub tracking: Tracking,
    /// Keys of which the client that is served keeps copies, and which it has changed itself;
    /// `None`: all keys.
    pub own_stale: Vec<Option<Vec<u8>>>,
    /// Messages that the script under way has published to its own client: they come before its
    /// reply.
    pub own_pushes: Replies,
    /// Set while clients are paused by CLIENT PAUSE. A FAILOVER pauses those that write by itself.
    pub pause: Option<Pause>,
    /// Clients whose requests wait for its end, or for that of a FAILOVER.
    pub postponed: usize,
    /// Set as CLIENT PAUSE or a FAILOVER ends: these requests are looked at again.
    pub pause_ended: bool,
    /// Users.
    pub users: Users,
    /// Connections to be ended once the command under way has ended: slots and clients.
    pub ends: Vec<(usize, u64)>,
    /// Subscriptions.
    pub channels: Channels,
    /// Output of this iteration for other clients.
    pub outbox: Outbox,
    /// Clients that see all commands.
    pub monitors: Vec<Monitor>,
    /// Slow commands.
    pub slowlog: Slowlog,
    /// Events that took long.
    pub latency: Latency,
    /// Keyspace events that are told.
    pub events: Events,
    /// Scripts and functions.
    pub scripts: Scripts,
    /// Parameters that clients have changed.
    pub reconfigured: BTreeSet<&'static str>,
    /// The end of the command before, or the beginning of the first one of a client.
    pub mark: Instant,
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
        ServerState::over(options, address, Arc::new(tables))
    }

    /// The same over tables that others use, too: the state of another loop, which only reads.
    pub(crate) fn over(options: Options, address: SocketAddr, tables: Arc<Tables>) -> ServerState {
        let now = Instant::now();
        let saves = Saves::new(options.backups.clone(), tables.kv.stats().version.get());
        ServerState {
            kv: tables.kv.clone(),
            remembered: Box::new(Remembered::opened(&tables)),
            replication: Replication::new(&tables),
            tables,
            sweep_next: 0,
            tls: None,
            tls_address: None,
            tracking: Tracking::default(),
            own_stale: Vec::new(),
            own_pushes: Replies::default(),
            pause: None,
            postponed: 0,
            pause_ended: false,
            users: Users::new(options.password.as_ref()),
            ends: Vec::new(),
            backups: Backups::new(options.backups.clone()),
            saves,
            address,
            metrics: Metrics::new(),
            cursors: Cursors::new(CURSORS_MAX, CURSORS_SIZE_MAX),
            pinned: PinnedCursors::default(),
            naming: Vec::new(),
            data_bound: DataBound::default(),
            watches: Watches::default(),
            waiters: Waiters::default(),
            disk_sync: None,
            channels: Channels::default(),
            outbox: Outbox::default(),
            monitors: Vec::new(),
            slowlog: Slowlog::default(),
            latency: Latency::default(),
            events: Events::parse(options.notify_keyspace_events.as_bytes()).unwrap_or_default(),
            scripts: Scripts::default(),
            reconfigured: BTreeSet::new(),
            mark: now,
            started: now,
            now,
            input_memory: 0,
            clients: 0,
            client_next: 1,
            stopping: false,
            options,
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
        let wrong = |text| Error::Tls { text };
        if let Some(tls) = &self.options.primary_tls {
            configure_client(tls).map_err(wrong)?;
        }
        if let Some(tls) = &self.options.tls {
            self.tls = Some(configure(tls).map_err(wrong)?);
        }
        Ok(())
    }

    /// Reads what is kept about replication; a replica looks for its primary from now on.
    pub(crate) fn load_replication(&mut self) -> Result<()> {
        self.replication.load()?;
        if let Some((host, port)) = self.options.replica_of.clone() {
            self.replication.primary = Some(PrimaryAddress { host, port });
        }
        if let Some(primary) = self.replication.primary.clone() {
            let hands_over = self.replication.handover.as_ref() == Some(&primary);
            self.replication.requests.push(Request::Follow(primary, hands_over));
        }
        Ok(())
    }

    /// The port by which other servers of the replication reach this one: that of TLS, if this
    /// server speaks TLS to its primary.
    fn own_port(&self) -> u16 {
        let secure = self.tls_address.filter(|_| self.options.primary_tls.is_some());
        secure.unwrap_or(self.address).port()
    }

    /// The way to a primary.
    pub(crate) fn target(&self, primary: &PrimaryAddress, takes_over: bool) -> Target {
        let options = &self.options;
        Target {
            host: primary.host.clone(),
            port: primary.port,
            user: options.primary_user.clone(),
            password: options.primary_password.as_ref().map(|password| password.shown().to_vec()),
            own_port: self.own_port(),
            tls: options.primary_tls.clone(),
            timeout: options.replication_timeout,
            takes_over,
        }
    }

    /// Whether the changes of each command have to be known.
    pub(crate) fn follows_changes(&self) -> bool {
        !self.watches.is_empty() || !self.waiters.is_empty() || self.tracking.is_on() || self.events.is_on()
    }

    /// Whether the client must give the password first.
    pub(crate) fn lacks_password(&self, client: &Client) -> bool {
        !client.authenticated && !self.users.is_open()
    }

    /// Whether the replies to a client wait for the disk.
    pub(crate) fn is_always(&self, client: &Client) -> bool {
        client.durability.unwrap_or(self.options.client_durability).is_always()
    }

    /// Whole milliseconds since 1970, by the clock of the options.
    pub(crate) fn clock(&self) -> u64 {
        u64::try_from(self.since_1970().as_millis()).unwrap_or(u64::MAX)
    }

    /// The same rounded up, for the end of a wait: a wait counted from here is never too short.
    pub(crate) fn clock_up(&self) -> u64 {
        u64::try_from(self.since_1970().as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    fn since_1970(&self) -> Duration {
        self.options.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// A command has ended: counts its time, which reaches back to the end of the one before it.
    pub(crate) fn timed(&mut self, row: usize, command: &Command, client: &Client, args: &Args<'_>) {
        let end = Instant::now();
        let elapsed = end.saturating_duration_since(std::mem::replace(&mut self.mark, end));
        self.metrics.by_command[row].timed(elapsed, self.options.latency_tracking);
        let duration = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let slow = u64::try_from(self.options.slowlog_threshold).is_ok_and(|threshold| duration >= threshold);
        if slow && self.options.slowlog_len > 0 && !command.flags.contains(Flags::SKIP_SLOWLOG) {
            let (time, peer, name) = (self.clock() / 1000, client.peer.to_string(), cut(&client.name));
            let entry = SlowCommand { id: 0, time, duration, args: Vec::new(), peer, name };
            self.slowlog.add(entry, args, self.options.slowlog_len);
        }
        let event = if command.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        self.watch_latency(event, elapsed);
    }

    /// Keeps the time of an event that took longer than the threshold.
    pub(crate) fn watch_latency(&mut self, event: &'static str, elapsed: Duration) {
        let time = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if self.options.latency_threshold > 0 && time >= self.options.latency_threshold {
            let now = self.clock() / 1000;
            self.latency.add(event, now, time);
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
