//! Options chosen when a server starts.

use crate::error::{Error, Result};
use crate::eviction_policy::EvictionPolicy;
use crate::password::Password;
use crate::tls::{PrimaryTls, TlsOptions};
use everbyte_kv::{Clock, SystemClock};
use std::ffi::OsString;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// So many bytes may wait for a client for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// Bytes; 0: no limit.
    pub size: usize,
    /// The time for which more may wait.
    pub time: Duration,
}

/// The durability of the replies to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClientDurability {
    /// That of the store's mode.
    #[default]
    Store,
    /// As if the store's mode were `always`: a sync covers what a reply tells of.
    Always,
}

impl ClientDurability {
    /// The name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            ClientDurability::Store => "store",
            ClientDurability::Always => "always",
        }
    }

    /// The mode of this name, in any case.
    pub fn named(name: &[u8]) -> Option<ClientDurability> {
        let all = [ClientDurability::Store, ClientDurability::Always];
        all.into_iter().find(|mode| mode.name().as_bytes().eq_ignore_ascii_case(name))
    }

    pub(crate) fn is_always(self) -> bool {
        self == ClientDurability::Always
    }
}

/// How a [`Server`](crate::Server) listens and what it bounds. The defaults are meant for use.
#[derive(Clone)]
pub struct Options {
    /// Address and port to listen on; port 0 takes a free one.
    pub address: String,
    /// Whether to listen on an address that other machines can reach although there is no password:
    /// every client that reaches the port may read, change and delete every key, and stop the
    /// server.
    pub open: bool,
    /// The password that clients have to give by AUTH or HELLO before anything else; `None`: they
    /// need none.
    pub password: Option<Password>,
    /// A file of users (ACL LOAD, ACL SAVE), which must be there when the server starts. The server
    /// then refuses addresses that other machines can reach only if its user `default` needs no
    /// password.
    pub acl_file: Option<PathBuf>,
    /// Address and port on which figures are told to Prometheus, over HTTP without a password;
    /// `None`: they are not.
    pub metrics: Option<String>,
    /// TLS beside plain TCP.
    pub tls: Option<TlsOptions>,
    /// A Unix socket beside TCP.
    pub unix_socket: Option<PathBuf>,
    /// Permissions of the Unix socket; by default the server's user alone may use it.
    pub unix_mode: u32,
    /// Seconds after which an idle TCP connection is probed; 0: never.
    pub keepalive: u32,
    /// A client that sends nothing for so long is disconnected, unless it subscribes or waits;
    /// zero: never.
    pub idle_max: Duration,
    /// Connections at a time; one more gets an error and is closed.
    pub clients_max: usize,
    /// Bytes of one argument or value, as Redis's `proto-max-bulk-len`.
    pub bulk_size_max: usize,
    /// Bytes of one request that is not complete yet; a client that sends more is disconnected.
    pub input_size_max: usize,
    /// Bytes of memory that requests of all clients may hold; above it the client that holds most
    /// is disconnected.
    pub input_total_max: usize,
    /// Bytes of replies waiting for a client above which nothing more is read from it or executed
    /// for it.
    pub output_size_soft: usize,
    /// Bytes of replies waiting for a client at most; a command whose reply would not fit is
    /// answered with an error.
    pub output_size_max: usize,
    /// Bytes waiting for a subscriber at most: above it the subscriber is disconnected, and others
    /// get their messages all the same. So it is with a client that tracks keys.
    pub push_size_max: usize,
    /// A subscriber for which more bytes wait for longer than the time is disconnected; 0: none is.
    pub push_soft: SoftLimit,
    /// Bytes of replies waiting for any other client at which it is disconnected; 0: never, as the
    /// limits above hold.
    pub reply_size_max: usize,
    /// The same as of subscribers.
    pub reply_soft: SoftLimit,
    /// Keys that clients keep copies of (CLIENT TRACKING): above so many, the readers of some key
    /// are told to forget it.
    pub tracking_keys_max: usize,
    /// A client above the soft limit that takes no byte for so long is disconnected.
    pub output_stall: Duration,
    /// Bytes that the data may take, as Redis's `maxmemory`: each entry of the tables counts as its
    /// key, its value and 16; 0: the store's size is the bound.
    pub data_max: u64,
    /// The keys that are evicted for more, as Redis's `maxmemory-policy`.
    pub eviction_policy: EvictionPolicy,
    /// Keys that are compared for each that is evicted, as Redis's `maxmemory-samples`.
    pub eviction_samples: usize,
    /// The durability of connections that ask for none of their own (CLIENT DURABILITY).
    pub client_durability: ClientDurability,
    /// Commands executed under one settlement of the store.
    pub iteration_commands_max: usize,
    /// Bytes of arguments executed under one settlement of the store; one larger command is an
    /// iteration of its own.
    pub iteration_size_max: usize,
    /// Commands that take so many microseconds or more are kept for SLOWLOG, as Redis's
    /// `slowlog-log-slower-than`; below 0: none.
    pub slowlog_threshold: i64,
    /// Slow commands that are kept at most, as Redis's `slowlog-max-len`.
    pub slowlog_len: usize,
    /// Events of so many milliseconds or more are kept for LATENCY, as Redis's
    /// `latency-monitor-threshold`; 0: none.
    pub latency_threshold: u64,
    /// Whether the times of commands are kept in histograms, as Redis's `latency-tracking`.
    pub latency_tracking: bool,
    /// The percentiles of these that INFO shows, as Redis's `latency-tracking-info-percentiles`.
    pub latency_percentiles: Vec<f64>,
    /// A script that runs for longer is ended, and what it did taken back, as Redis's
    /// `busy-reply-threshold`; zero: none is.
    pub script_time_max: Duration,
    /// Bytes of memory of the interpreter of scripts, and of that of functions.
    pub script_memory_max: usize,
    /// The keyspace events that are told, in Redis's letters (`notify-keyspace-events`).
    pub notify_keyspace_events: String,
    /// The file of settings that CONFIG REWRITE changes; `None`: there is none.
    pub settings: Option<PathBuf>,
    /// The directory of backups that clients may ask for; `None`: they may not.
    pub backups: Option<PathBuf>,
    /// Host and port of the primary of which this server is a replica; `None`: the one that it was
    /// told of last, if any (REPLICAOF).
    pub replica_of: Option<(String, u16)>,
    /// The user whose password is given to the primary; `None`: `default`.
    pub primary_user: Option<String>,
    /// The password that is given to the primary.
    pub primary_password: Option<Password>,
    /// TLS of the connection to the primary, whose port of TLS is then that of `replica_of`;
    /// `None`: plain TCP. The files are read at each connection.
    pub primary_tls: Option<PrimaryTls>,
    /// A link over which nothing came for so long is cut.
    pub replication_timeout: Duration,
    /// How long a version is kept for a replica that is away, so that it may go on by a difference.
    pub replica_keep: Duration,
    /// Writes are refused while fewer replicas than these are connected and heard of.
    pub replicas_min: usize,
    /// A replica that was not heard of for longer does not count among them.
    pub replica_lag_max: Duration,
    /// Event loops, as Redis's `io-threads`: those behind the first one answer plain reads.
    pub loops: usize,
    /// Plain reads in a row behind which a connection may be lent to another loop; 0: at once,
    /// whatever the load of the loops is.
    pub lend_after: u32,
    /// Whether SIGTERM and SIGINT end [`Server::run`](crate::Server::run) in good order.
    pub signals: bool,
    /// Whether SIGHUP does, too, where no TLS is served: there it renews the certificates.
    pub ends_at_hangup: bool,
    /// The socket of the service manager that is told when the server serves and when it ends; an
    /// abstract name begins with `@`. With [`Options::signals`] it is by default that of the
    /// environment (`NOTIFY_SOCKET`).
    pub supervisor: Option<OsString>,
    /// The clock by which keys expire.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("address", &self.address).field("open", &self.open).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: "127.0.0.1:6380".into(),
            open: false,
            password: None,
            acl_file: None,
            metrics: None,
            tls: None,
            unix_socket: None,
            unix_mode: 0o700,
            keepalive: 300,
            idle_max: Duration::ZERO,
            clients_max: 10_000,
            bulk_size_max: 512 << 20,
            input_size_max: 1 << 30,
            input_total_max: 2 << 30,
            output_size_soft: 1 << 20,
            output_size_max: 1 << 30,
            push_size_max: 32 << 20,
            push_soft: SoftLimit { size: 8 << 20, time: Duration::from_secs(60) },
            reply_size_max: 0,
            reply_soft: SoftLimit { size: 0, time: Duration::ZERO },
            tracking_keys_max: 1_000_000,
            output_stall: Duration::from_secs(60),
            data_max: 0,
            eviction_policy: EvictionPolicy::NoEviction,
            eviction_samples: 5,
            client_durability: ClientDurability::Store,
            iteration_commands_max: 8192,
            iteration_size_max: 4 << 20,
            slowlog_threshold: 10_000,
            slowlog_len: 128,
            latency_threshold: 0,
            latency_tracking: true,
            latency_percentiles: vec![50.0, 99.0, 99.9],
            script_time_max: Duration::from_secs(5),
            script_memory_max: 256 << 20,
            notify_keyspace_events: String::new(),
            settings: None,
            backups: None,
            replica_of: None,
            primary_user: None,
            primary_password: None,
            primary_tls: None,
            replication_timeout: Duration::from_secs(60),
            replica_keep: Duration::from_secs(3600),
            replicas_min: 0,
            replica_lag_max: Duration::from_secs(10),
            loops: 1,
            lend_after: 16,
            signals: false,
            ends_at_hangup: false,
            supervisor: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl Options {
    /// Resolves the addresses, and returns that of plain TCP. Unless `open` or a password is set,
    /// only loopback addresses pass.
    ///
    /// # Errors
    /// [`Error::Listen`] when the address does not resolve, [`Error::Exposed`] when other machines
    /// could reach it.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        if let Some(tls) = &self.tls {
            self.resolve(&tls.address)?;
        }
        if let Some(address) = &self.metrics {
            self.resolve(address)?;
        }
        self.resolve(&self.address)
    }

    /// The same for one address.
    pub(crate) fn resolve(&self, given: &str) -> Result<Vec<SocketAddr>> {
        let listen = |source| Error::Listen { address: given.into(), source };
        let addresses: Vec<SocketAddr> = given.to_socket_addrs().map_err(listen)?.collect();
        match addresses.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
            Some(_) if !self.open && self.password.is_none() && self.acl_file.is_none() => {
                Err(Error::Exposed { address: given.into() })
            }
            _ => Ok(addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_pass_unless_the_server_is_open_or_has_a_password() {
        for (address, reachable) in [
            ("127.0.0.1:0", false),
            ("127.9.8.7:1", false),
            ("[::1]:0", false),
            ("[::ffff:127.0.0.1]:0", false),
            ("localhost:0", false),
            ("0.0.0.0:0", true),
            ("[::]:0", true),
            ("192.0.2.1:6380", true),
            ("[::ffff:192.0.2.1]:0", true),
            ("[2001:db8::1]:0", true),
        ] {
            let options = |open| Options { address: address.into(), open, ..Options::default() };
            let refused = matches!(options(false).addresses(), Err(Error::Exposed { .. }));
            assert_eq!(refused, reachable, "{address}");
            assert!(options(true).addresses().is_ok(), "{address}");
            let options = Options { password: Password::new("p"), ..options(false) };
            assert!(options.addresses().is_ok(), "{address}");
        }
        let nonsense = Options { address: "127.0.0.1".into(), open: true, ..Options::default() };
        assert!(matches!(nonsense.addresses(), Err(Error::Listen { .. })));
    }
}
