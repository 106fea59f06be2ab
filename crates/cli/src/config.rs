//! The settings of `everbyte serve`, one typed value: file < environment < flag. Printed when the
//! server starts.
//!
//! The properties of the format (the declared maximum, the log) are recorded in the store and read
//! from the settings only when a store is created.

use crate::args::{AccessArgs, ReplicationArgs, ServeArgs};
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The backend of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// `pmem` if MAP_SYNC works, `shm` on tmpfs, else `file`
    #[default]
    Auto,
    /// A DAX file: persistent memory
    Pmem,
    /// Any disk, through a log
    File,
    /// Shared memory: survives the process, not power loss
    Shm,
}

impl From<Backend> for everbyte_media::BackendChoice {
    fn from(backend: Backend) -> everbyte_media::BackendChoice {
        match backend {
            Backend::Auto => everbyte_media::BackendChoice::Auto,
            Backend::Pmem => everbyte_media::BackendChoice::Pmem,
            Backend::File => everbyte_media::BackendChoice::File,
            Backend::Shm => everbyte_media::BackendChoice::Shm,
        }
    }
}

/// The durability of a barrier, as users write it: `always`, `interval:MS`, `process`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Durability(pub everbyte_media::Durability);

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        text.parse().map(Durability)
    }
}

impl TryFrom<String> for Durability {
    type Error = String;

    fn try_from(text: String) -> Result<Durability, String> {
        text.parse()
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Durability> for String {
    fn from(durability: Durability) -> String {
        durability.to_string()
    }
}

/// Bytes as redis.conf writes them: a number, or text such as `100mb`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SizeWords", into = "u64")]
pub(crate) struct Size(pub u64);

/// The two forms of a size.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeWords {
    Bytes(u64),
    Text(String),
}

impl TryFrom<SizeWords> for Size {
    type Error = String;

    fn try_from(words: SizeWords) -> Result<Size, String> {
        match words {
            SizeWords::Bytes(bytes) => Ok(Size(bytes)),
            SizeWords::Text(text) => text.parse(),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let size = everbyte_server::parse_size(text.as_bytes());
        size.map(Size).ok_or_else(|| format!("`{text}` is no size: a number, then k, kb, m, mb, g, gb or nothing"))
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> u64 {
        size.0
    }
}

/// The durability of connections, as users write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ClientMode(pub everbyte_server::ClientDurability);

impl FromStr for ClientMode {
    type Err = String;

    fn from_str(text: &str) -> Result<ClientMode, String> {
        let mode = everbyte_server::ClientDurability::named(text.as_bytes());
        mode.map(ClientMode).ok_or_else(|| format!("`{text}` is neither store nor always"))
    }
}

impl TryFrom<String> for ClientMode {
    type Error = String;

    fn try_from(text: String) -> Result<ClientMode, String> {
        text.parse()
    }
}

impl From<ClientMode> for String {
    fn from(mode: ClientMode) -> String {
        mode.0.name().into()
    }
}

/// A policy of eviction under Redis's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Policy(pub everbyte_server::EvictionPolicy);

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        text.parse().map(Policy)
    }
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(text: String) -> Result<Policy, String> {
        text.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.0.name().into()
    }
}

/// A password as users write it: 1 to 512 bytes. It is read and never printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Secret(pub everbyte_server::Password);

impl FromStr for Secret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Secret, &'static str> {
        everbyte_server::Password::new(text).map(Secret).ok_or("a password has 1 to 512 bytes")
    }
}

impl TryFrom<String> for Secret {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Secret, &'static str> {
        text.parse()
    }
}

/// All settings of `serve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The store file.
    pub store: PathBuf,
    /// Address and port.
    pub listen: String,
    /// Address and port of the figures for Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Allow an address that other machines can reach.
    pub open: bool,
    /// The password of clients.
    #[serde(skip_serializing)]
    pub requirepass: Option<Secret>,
    /// The key-value store inside it.
    pub table: String,
    /// Create the store if it is absent.
    pub create: bool,
    /// The backend.
    pub backend: Backend,
    /// The durability of an acknowledged write.
    pub durability: Durability,
    /// Declared maximum of a store that is created, in bytes.
    pub max: u64,
    /// Connections at a time.
    #[serde(rename = "maxclients")]
    pub clients_max: usize,
    /// Keyspace events that clients may hear of, in Redis's letters.
    #[serde(rename = "notify-keyspace-events")]
    pub events: String,
    /// Microseconds from which on a command is slow; below 0: none is.
    #[serde(rename = "slowlog-log-slower-than")]
    pub slowlog_threshold: i64,
    /// Slow commands that are kept.
    #[serde(rename = "slowlog-max-len")]
    pub slowlog_len: usize,
    /// Milliseconds from which on an event is kept for LATENCY; 0: none is.
    #[serde(rename = "latency-monitor-threshold")]
    pub latency_threshold: u64,
    /// Milliseconds after which a script is ended; 0: never.
    #[serde(rename = "busy-reply-threshold")]
    pub script_time_max: u64,
    /// The durability of connections that ask for none of their own: `store` or `always`.
    #[serde(rename = "client-durability")]
    pub client_durability: ClientMode,
    /// Bytes that the data may take; 0: the store's size is the bound.
    #[serde(rename = "maxmemory")]
    pub data_max: Size,
    /// The keys that are evicted for more.
    #[serde(rename = "maxmemory-policy")]
    pub eviction_policy: Policy,
    /// Keys that are compared for each that is evicted.
    #[serde(rename = "maxmemory-samples")]
    pub eviction_samples: usize,
    /// The directory of backups that clients may ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backups: Option<PathBuf>,
    /// Volumes that are mounted, each as VOLUME=DIR or VOLUME=DIR,OPTIONS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Users, sockets, TLS, limits of clients: a section.
    #[serde(skip_serializing_if = "AccessArgs::is_default")]
    pub access: AccessArgs,
    /// The primary, and replicas: a section.
    #[serde(skip_serializing_if = "ReplicationArgs::is_default")]
    pub replication: ReplicationArgs,
}

impl Default for Config {
    fn default() -> Config {
        let server = everbyte_server::Options::default();
        Config {
            store: "./everbyte.store".into(),
            listen: "127.0.0.1:6380".into(),
            metrics: None,
            open: false,
            requirepass: None,
            table: "kv".into(),
            create: false,
            backend: Backend::Auto,
            durability: Durability::default(),
            max: crate::open::MAX_DEFAULT,
            clients_max: server.clients_max,
            events: server.notify_keyspace_events,
            slowlog_threshold: server.slowlog_threshold,
            slowlog_len: server.slowlog_len,
            latency_threshold: server.latency_threshold,
            script_time_max: server.script_time_max.as_millis() as u64,
            client_durability: ClientMode(server.client_durability),
            data_max: Size(server.data_max),
            eviction_policy: Policy(server.eviction_policy),
            eviction_samples: server.eviction_samples,
            backups: None,
            mounts: Vec::new(),
            access: AccessArgs::default(),
            replication: ReplicationArgs::default(),
        }
    }
}

impl Config {
    /// Defaults, overridden by the file, then by the environment and the arguments.
    pub(crate) fn of(args: &ServeArgs) -> Result<Config, Failure> {
        let base = match &args.config {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| Failure::system("read", path, error))?;
                parse(&text).map_err(|error| Failure::Words(format!("{}: {error}", path.display())))?
            }
        };
        let config = Config {
            store: args.store.clone().unwrap_or(base.store),
            listen: args.listen.clone().unwrap_or(base.listen),
            metrics: args.metrics.clone().or(base.metrics),
            open: args.open || base.open,
            requirepass: match &args.requirepass {
                Some(text) => Some(text.parse().map_err(|text: &str| Failure::Words(format!("requirepass: {text}")))?),
                None => base.requirepass,
            },
            table: args.table.clone().unwrap_or(base.table),
            create: args.create || base.create,
            backend: args.opening.backend.unwrap_or(base.backend),
            durability: args.opening.durability.unwrap_or(base.durability),
            max: args.max.unwrap_or(base.max),
            clients_max: args.redis.clients_max.unwrap_or(base.clients_max),
            events: args.redis.events.clone().unwrap_or(base.events),
            slowlog_threshold: args.redis.slowlog_threshold.unwrap_or(base.slowlog_threshold),
            slowlog_len: args.redis.slowlog_len.unwrap_or(base.slowlog_len),
            latency_threshold: args.redis.latency_threshold.unwrap_or(base.latency_threshold),
            script_time_max: args.redis.script_time_max.unwrap_or(base.script_time_max),
            client_durability: args.redis.client_durability.unwrap_or(base.client_durability),
            data_max: args.redis.data_max.unwrap_or(base.data_max),
            eviction_policy: args.redis.eviction_policy.unwrap_or(base.eviction_policy),
            eviction_samples: args.redis.eviction_samples.unwrap_or(base.eviction_samples),
            backups: args.backups.clone().or(base.backups),
            access: args.access.clone().or(base.access),
            replication: args.replication.clone().or(base.replication),
            mounts: if args.mounts.is_empty() { base.mounts } else { args.mounts.clone() },
        };
        if config.clients_max == 0 {
            return Err(Failure::Words("maxclients: at least 1".into()));
        }
        if config.eviction_samples == 0 {
            return Err(Failure::Words("maxmemory-samples: at least 1".into()));
        }
        const LETTERS: &str = "Ag$lshzxeKEtmdn";
        match config.events.chars().find(|letter| !LETTERS.contains(*letter)) {
            None => Ok(config),
            Some(letter) => {
                Err(Failure::Words(format!("notify-keyspace-events: `{letter}` is none of the letters {LETTERS}")))
            }
        }
    }
}

/// The settings in a file. An error shows the line, unless the line may hold the password.
fn parse(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let number = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let start = text.lines().take(number + 1).collect::<Vec<_>>();
        // A string in triple quotes may have begun on an earlier line.
        let secret = ["requirepass", "masterauth"];
        match start.iter().any(|line| secret.iter().any(|name| line.contains(name))) {
            true => {
                format!("line {}: wrong, and not shown for the sake of a password (`requirepass`, `masterauth`), a string in quotes", number + 1)
            }
            false => error.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_is_written_as_it_is_read() {
        for text in ["always", "interval:250", "process"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        assert!("interval".parse::<Durability>().unwrap_err().contains("interval:MILLISECONDS"));
    }

    #[test]
    fn a_password_is_read_and_never_shown() {
        let config = parse("requirepass = 'sesame'").unwrap();
        assert!(config.requirepass.as_ref().unwrap().0 == everbyte_server::Password::new("sesame").unwrap());
        let shown =
            format!("{config:?} {} {}", toml::to_string(&config).unwrap(), serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("sesame"), "{shown}");
        for wrong in [
            "requirepass = sesame",
            "requirepass = \"sesame",
            "requirepass = '''\nsesame\n",
            "requirepass = ['sesame']",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("requirepass") && !error.contains("sesame"), "{error}");
        }
        assert!(parse("requirepass = ''").is_err());
        assert!(parse("lsten = 'x'").unwrap_err().contains("lsten"));
    }

    #[test]
    fn a_printed_config_is_a_config_file() {
        let config = Config { durability: "interval:20".parse().unwrap(), ..Config::default() };
        assert_eq!(toml::from_str::<Config>(&toml::to_string(&config).unwrap()).unwrap(), config);
        let read = parse("maxmemory = \"2mb\"\nmaxmemory-policy = \"allkeys-lru\"").unwrap();
        assert_eq!((read.data_max, read.eviction_policy), (Size(2 << 20), "allkeys-lru".parse().unwrap()));
        assert_eq!(parse("maxmemory = 4096").unwrap().data_max, Size(4096));
        assert!(
            parse("maxmemory = \"2 mb\"").unwrap_err().contains("`2 mb` is no size")
                && parse("maxmemory-policy = \"lru\"").unwrap_err().contains("allkeys-lru")
        );
        assert!(toml::from_str::<Config>("listne = 'x'").unwrap_err().to_string().contains("listne"));
    }
}
