//! The arguments of the command line. clap generates `everbyte --help`, the list of all commands,
//! from this file.

mod access;
mod bridge;
mod domain;
mod fs;
mod kv;
mod names;
mod object;
mod redis;
mod replication;
mod store;
mod top;

pub(crate) use access::AccessArgs;
pub(crate) use bridge::{BridgeArgs, BridgeCheckArgs, BridgeCommand, BridgeCommands, BridgeNewArgs};
pub(crate) use domain::{BrokerArgs, DomainCommand, DomainCommands};
pub(crate) use fs::{
    FsCommand, FsCommands, FsDumpArgs, FsGrowArgs, FsLsArgs, FsStatArgs, FsckArgs, GetArgs, MkfsArgs, MountArgs,
    PutArgs, QuotaArgs, QuotaCommand, QuotaOwner, QuotaSetArgs, SnapshotArgs, SnapshotCommand, UmountArgs,
};
pub(crate) use kv::{KvDumpArgs, KvLoadArgs, KvRepairArgs};
pub(crate) use names::{ChmodArgs, ChownArgs, InStore, Limit, LimitArgs, LsArgs, MvArgs, NamesArgs, Owner};
pub(crate) use object::{DumpArgs, LoadArgs, ObjectCommand, ObjectCommands};
pub(crate) use redis::{RedisExportArgs, RedisImportArgs};
pub(crate) use replication::ReplicationArgs;
pub(crate) use store::{BackupArgs, CloneArgs, MergeArgs, RestoreArgs, StoreCommand, StoreCommands};
pub(crate) use top::TopArgs;

use crate::config::{Backend, ClientMode, Durability, Policy, Size};
use clap::{Args as ClapArgs, Parser, Subcommand};
use everbyte_store::Token;
use std::path::PathBuf;

const AFTER: &str = "\
A store is one file. Commands use ./everbyte.store unless told otherwise (or EVERBYTE_STORE).
Exit codes: 0 done; 1 the answer is no: key absent, or check has findings; 2 invalid arguments;
3 not a store, from a newer version, or damaged; 4 in use by another process; 5 refused by the system.";

/// Persistent memory: a store that survives every crash, and an ordered key-value store in it.
#[derive(Parser)]
#[command(name = "everbyte", version, after_help = AFTER)]
pub(crate) struct Args {
    /// Prints JSON: one object, or one object per line
    #[arg(long, global = true)]
    pub json: bool,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// One variant per command.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Creates an empty store
    Create(CreateArgs),
    /// Prints the properties and the objects of a store
    Info(StoreArgs),
    /// Checks all of a store and reports damage, double use and leaks with offsets; changes nothing
    /// without --repair
    Check(CheckArgs),
    /// Raises a store's declared maximum
    Grow(GrowArgs),
    /// Lists the names of objects, in order
    Ls(LsArgs),
    /// Prints the properties of objects
    Stat(NamesArgs),
    /// Removes objects with their contents
    Rm(NamesArgs),
    /// Changes the rights of owner, group and others to objects
    Chmod(ChmodArgs),
    /// Changes the owner or group of objects
    Chown(ChownArgs),
    /// Limits the clusters of an object in memory, or in total
    Limit(LimitArgs),
    /// Renames an object
    Mv(MvArgs),
    /// Copies and merges stores, and gives a copy a new identity
    Store(StoreCommands),
    /// Copies all objects of a store to a file, as of one moment
    Backup(BackupArgs),
    /// Makes a store of a backup and its increments
    Restore(RestoreArgs),
    /// Writes typed pools as text and makes them of text
    Object(ObjectCommands),
    /// Makes C++ headers of a library of persistent Rust types
    Bridge(BridgeCommands),
    /// Reads and writes the ordered key-value store inside a store
    Kv(KvArgs),
    /// Makes file volumes, verifies them, and copies files in and out
    Fs(FsCommands),
    /// Serves a store to Redis clients
    Serve(Box<ServeArgs>),
    /// Shows what a running server does, once a second: operations, commands, clients, syncs
    Top(TopArgs),
    /// Imports keys from Redis: an RDB file, an AOF, or a running server, of which it is a replica
    Import(RedisImportArgs),
    /// Writes the keys of a store to an RDB file, which Redis loads
    Export(RedisExportArgs),
    /// Serves domains (stores whose rights the kernel enforces) to programs of several users
    Broker(BrokerArgs),
    /// Lists, creates and removes the domains of a broker, and changes their rights
    Domain(DomainCommands),
    /// Prints the properties of the memory or disk under a path
    Media(MediaArgs),
    /// Runs programs against every crash that the crash rule permits
    #[cfg(feature = "crash")]
    Crash(CrashArgs),
    /// Draws what the ordered store writes
    #[cfg(feature = "crash")]
    Inspect(InspectCommands),
    /// Prints a completion script for a shell
    Completion(CompletionArgs),
}

/// Options for opening a store.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct OpenArgs {
    /// Backend: auto selects `pmem` if MAP_SYNC works, `shm` on tmpfs, else `file`
    #[arg(long, value_enum, env = "EVERBYTE_BACKEND")]
    pub backend: Option<Backend>,
    /// Durability of an acknowledged write: with `always` it survives power loss; with
    /// `interval:MS` and `process` it survives the death of the process
    #[arg(long, env = "EVERBYTE_DURABILITY")]
    pub durability: Option<Durability>,
}

/// A store named by position.
#[derive(ClapArgs)]
pub(crate) struct StoreArgs {
    /// The store file
    #[arg(env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte create`.
#[derive(ClapArgs)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub shape: Shape,
}

/// Properties chosen at creation and recorded in the store.
#[derive(ClapArgs, Default)]
pub(crate) struct Shape {
    /// Maximum size on the disk, such as 4TiB; unused space costs nothing
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: Option<u64>,
    /// Maximum size of the log of backend `file`, such as 64MiB
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub log: Option<u64>,
    /// Binds the store to one address in every process, for C and C++ programs that keep plain
    /// pointers in it
    #[arg(long)]
    pub bound: bool,
}

/// `everbyte check`.
#[derive(ClapArgs)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Also follows every pointer of typed pools from their roots: finds leaked blocks, blocks with
    /// two owners, and wrong counts
    #[arg(long)]
    pub deep: bool,
    /// Then opens the store, which recovers it, repairs damage that has a second copy, frees leaks,
    /// and reports each repair. With --deep: only lists the counts it would correct and the leaks
    /// it would free, and prints a token for this plan
    #[arg(long)]
    pub repair: bool,
    /// With --repair: only lists the repairs
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// With --deep --repair: executes the plan of this token, if the store has not changed since
    #[arg(long, requires_all = ["deep", "repair"], conflicts_with = "dry_run")]
    pub token: Option<Token>,
}

/// `everbyte grow`.
#[derive(ClapArgs)]
pub(crate) struct GrowArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The new maximum, such as 8TiB; at most four times the maximum at creation
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: u64,
}

/// `everbyte kv ..`.
#[derive(ClapArgs)]
pub(crate) struct KvArgs {
    /// The store file
    #[arg(long, global = true, env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    /// The name of the key-value store inside it
    #[arg(long, global = true, default_value = "kv")]
    pub table: String,
    /// A table with a name inside that, instead of the main one
    #[arg(long = "in", global = true, value_name = "NAME")]
    pub within: Option<String>,
    /// Backend
    #[arg(long, global = true, value_enum, env = "EVERBYTE_BACKEND")]
    pub backend: Option<Backend>,
    /// Durability of an acknowledged write
    #[arg(long, global = true, env = "EVERBYTE_DURABILITY")]
    pub durability: Option<Durability>,
    /// Opens the store for reading: no byte of it changes, and others may read it meanwhile
    #[arg(long, global = true)]
    pub read_only: bool,
    /// Reads beside the process that writes, in a store that it shares: `get`, `scan`, `tables`
    #[arg(long, global = true, conflicts_with = "read_only")]
    pub beside: bool,
    /// The command
    #[command(subcommand)]
    pub command: KvCommand,
}

/// One variant per `kv` command.
#[derive(Subcommand)]
pub(crate) enum KvCommand {
    /// Prints the value of a key; exit code 1 if there is none
    Get {
        /// Escapes: \n \t \\ \xNN
        key: String,
    },
    /// Stores a value under a key; durable when the command returns
    Put {
        /// Escapes: \n \t \\ \xNN
        key: String,
        /// The value, with the same escapes; read from standard input if absent
        value: Option<String>,
        /// The entry expires after so long (`500ms`, `30s`, `10m`, `2h`, `7d`), in a table with
        /// deadlines, which the first such put makes
        #[arg(long, value_name = "TIME", requires = "within", value_parser = crate::text::parse_duration)]
        ttl: Option<std::time::Duration>,
    },
    /// Removes the entries of a table with deadlines that have expired
    Expire,
    /// Deletes keys; exit code 1 if one was absent
    Del {
        /// Escapes: \n \t \\ \xNN
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Sets or deletes a key if it has the expected value; exit code 1 if it has not
    Cas {
        /// Escapes: \n \t \\ \xNN
        key: String,
        /// The expected value, with the same escapes; absent: the key must not exist
        #[arg(long)]
        expected: Option<String>,
        /// The new value, with the same escapes; absent: the key is deleted
        #[arg(long)]
        new: Option<String>,
    },
    /// Adds to the number of a key, which begins at 0, and prints the sum
    Incr {
        /// Escapes: \n \t \\ \xNN
        key: String,
        /// May be negative
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        by: i64,
    },
    /// Prints entries in key order
    Scan(ScanArgs),
    /// Loads entries from a file in batches; after a crash each batch is whole or absent
    Import(ImportArgs),
    /// Writes entries to a file
    Export(ExportArgs),
    /// Writes all tables, as of one version, to a checksummed file
    Dump(KvDumpArgs),
    /// Makes the key-value store of a dump; after a crash it is whole or absent
    Load(KvLoadArgs),
    /// Saves all entries of a damaged key-value store that are readable to a new one, and lists the
    /// losses; exit code 1 if there are any
    Repair(KvRepairArgs),
    /// Gives back all space that the tables do not need, and tells how much
    Compact,
    /// Prints figures: keys, tables, levels, versions that are held, bytes of blocks
    Stat {
        /// Reads the lengths of all entries too: their bytes, and how much space one takes
        #[arg(long)]
        entries: bool,
    },
    /// Lists the tables that have names
    Tables,
    /// Removes a table with all its keys
    DropTable {
        /// Its name
        name: String,
    },
    /// Lists the versions that have names
    Versions,
    /// Gives the present version a name: it stays readable until `forget`
    Name {
        /// The name
        name: String,
    },
    /// Removes the name of a version, and gives its space back
    Forget {
        /// The name
        name: String,
    },
    /// Brings all tables back to a version that has a name
    Restore {
        /// The name
        name: String,
    },
    /// Prints what has changed since a version that has a name: `-` the old entry, `+` the new one
    Changes {
        /// The name
        name: String,
    },
}

/// Selects entries.
#[derive(ClapArgs)]
pub(crate) struct ScanArgs {
    /// First key
    #[arg(long)]
    pub start: Option<String>,
    /// End of the keys, excluded
    #[arg(long)]
    pub end: Option<String>,
    /// Only keys with this prefix
    #[arg(long, conflicts_with_all = ["start", "end"])]
    pub prefix: Option<String>,
    /// Maximum number of entries
    #[arg(long)]
    pub limit: Option<usize>,
    /// Prints from the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// Prints keys without values
    #[arg(long)]
    pub keys: bool,
}

/// The format of entries in a file. docs/formats/exchange.md describes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// JSON lines: {"key":"..","value":".."}, or key_b64/value_b64 for bytes that are not UTF-8
    Jsonl,
    /// Key, tab, value; escapes \n \t \r \\ \xNN
    Tsv,
}

/// `everbyte kv import`.
#[derive(ClapArgs)]
pub(crate) struct ImportArgs {
    /// The file; `-` is standard input
    pub file: PathBuf,
    /// Format of the file; by default from the extension of its name, else jsonl
    #[arg(long, value_enum)]
    pub format: Option<Form>,
    /// Number of entries in one batch
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
}

/// `everbyte kv export`.
#[derive(ClapArgs)]
pub(crate) struct ExportArgs {
    /// The file, which must not exist; `-` is standard output
    pub file: PathBuf,
    /// Format of the file; by default from the extension of its name, else jsonl
    #[arg(long, value_enum)]
    pub format: Option<Form>,
}

/// `everbyte serve`. An absent option is read from the environment, then from the file, then from
/// the defaults.
#[derive(ClapArgs)]
pub(crate) struct ServeArgs {
    /// The store file [default: ./everbyte.store]
    #[arg(env = "EVERBYTE_STORE")]
    pub store: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:6380]
    #[arg(long, env = "EVERBYTE_LISTEN")]
    pub listen: Option<String>,
    /// Address and port on which figures are told to Prometheus: GET /metrics, without a password
    /// [default: none]
    #[arg(long, env = "EVERBYTE_METRICS", value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Allows an address that other machines can reach although no password is set
    #[arg(long)]
    pub open: bool,
    /// The password that clients must give. Other users of the machine can read the arguments of a
    /// process: better set the environment or the file
    #[arg(long, env = "EVERBYTE_REQUIREPASS", hide_env_values = true, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
    /// The name of the key-value store to serve [default: kv]
    #[arg(long, env = "EVERBYTE_TABLE")]
    pub table: Option<String>,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
    /// Declared maximum of a store that is created
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: Option<u64>,
    /// The directory of backups that clients may ask for with BACKUP START
    #[arg(long, value_name = "DIRECTORY")]
    pub backups: Option<PathBuf>,
    /// Mounts a file volume of the store on an empty directory while the server runs; may be given
    /// several times. With --create a volume that is absent is made. OPTIONS are those of
    /// `fs mount -o`, as in `home=/mnt,ro,noexec`
    #[arg(long = "mount", value_name = "VOLUME=DIR[,OPTIONS]")]
    pub mounts: Vec<String>,
    /// A TOML file with the same settings
    #[arg(long, env = "EVERBYTE_CONFIG")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub replication: ReplicationArgs,
    #[command(flatten)]
    pub redis: RedisArgs,
    #[command(flatten)]
    pub opening: OpenArgs,
}

/// Settings of `serve` that have the names of redis.conf; clients may change them by CONFIG SET.
#[derive(ClapArgs)]
pub(crate) struct RedisArgs {
    /// Connections at a time [default: 10000]
    #[arg(long = "maxclients", env = "EVERBYTE_MAXCLIENTS", value_name = "COUNT")]
    pub clients_max: Option<usize>,
    /// Keyspace events that clients may hear of, in Redis's letters, as in KEA [default: none]
    #[arg(long = "notify-keyspace-events", env = "EVERBYTE_NOTIFY_KEYSPACE_EVENTS", value_name = "LETTERS")]
    pub events: Option<String>,
    /// Microseconds from which on SLOWLOG keeps a command; below 0: none [default: 10000]
    #[arg(
        long = "slowlog-log-slower-than",
        env = "EVERBYTE_SLOWLOG_LOG_SLOWER_THAN",
        value_name = "MICROSECONDS",
        allow_negative_numbers = true
    )]
    pub slowlog_threshold: Option<i64>,
    /// Slow commands that are kept [default: 128]
    #[arg(long = "slowlog-max-len", env = "EVERBYTE_SLOWLOG_MAX_LEN", value_name = "COUNT")]
    pub slowlog_len: Option<usize>,
    /// Milliseconds from which on LATENCY keeps an event; 0: none [default: 0]
    #[arg(long = "latency-monitor-threshold", env = "EVERBYTE_LATENCY_MONITOR_THRESHOLD", value_name = "MILLISECONDS")]
    pub latency_threshold: Option<u64>,
    /// Milliseconds after which a script is ended and taken back; 0: never [default: 5000]
    #[arg(long = "busy-reply-threshold", env = "EVERBYTE_BUSY_REPLY_THRESHOLD", value_name = "MILLISECONDS")]
    pub script_time_max: Option<u64>,
    /// The durability of connections that ask for none of their own: store, always [default: store]
    #[arg(long = "client-durability", env = "EVERBYTE_CLIENT_DURABILITY", value_name = "MODE")]
    pub client_durability: Option<ClientMode>,
    /// Bytes that the data may take, as 100mb; 0: the store's size is the bound [default: 0]
    #[arg(long = "maxmemory", env = "EVERBYTE_MAXMEMORY", value_name = "BYTES")]
    pub data_max: Option<Size>,
    /// Keys that are evicted for more: noeviction, allkeys-lru, -lfu, -random, volatile-lru, -lfu,
    /// -random, -ttl [default: noeviction]
    #[arg(long = "maxmemory-policy", env = "EVERBYTE_MAXMEMORY_POLICY", value_name = "POLICY")]
    pub eviction_policy: Option<Policy>,
    /// Keys that are compared for each that is evicted [default: 5]
    #[arg(long = "maxmemory-samples", env = "EVERBYTE_MAXMEMORY_SAMPLES", value_name = "COUNT")]
    pub eviction_samples: Option<usize>,
}

/// `everbyte media ..`.
#[derive(ClapArgs)]
pub(crate) struct MediaArgs {
    /// The command
    #[command(subcommand)]
    pub command: MediaCommand,
}

/// One variant per `media` command.
#[derive(Subcommand)]
pub(crate) enum MediaCommand {
    /// Prints the backend for a path, its durability, the flush instructions, and their cost
    Probe {
        /// A directory, or a file in the directory to probe
        path: PathBuf,
    },
}

/// `everbyte inspect`.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub(crate) struct InspectCommands {
    #[command(subcommand)]
    pub command: InspectCommand,
}

#[cfg(feature = "crash")]
#[derive(Subcommand)]
pub(crate) enum InspectCommand {
    /// Profiles of writes by address and over time, of a workload on recorded memory
    Heat(HeatArgs),
}

/// `everbyte inspect heat`.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub(crate) struct HeatArgs {
    /// The order of keys
    #[arg(long, value_enum, default_value = "random")]
    pub workload: HeatOrder,
    /// Number of puts
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub operations: u64,
    /// Columns: runs of operations
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub columns: u64,
    /// The seed of the keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Draws the profiles into this file, as SVG
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// The order of keys of a workload.
#[cfg(feature = "crash")]
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum HeatOrder {
    /// New keys in random order
    Random,
    /// New keys in ascending order
    Ascending,
    /// Random keys of a store that has them all
    Overwrite,
}

/// `everbyte crash`.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub(crate) struct CrashArgs {
    /// The case; all cases if absent
    pub case: Option<String>,
    /// The seed of the samples, as a failure prints it
    #[arg(long, value_parser = crate::text::number)]
    pub seed: Option<u64>,
    /// Only this crash image, as a failure prints it
    #[arg(long)]
    pub image: Option<String>,
    /// Number of images at a crash point that is sampled
    #[arg(long)]
    pub images: Option<usize>,
    /// Approximate number of images per profile
    #[arg(long)]
    pub total: Option<u64>,
    /// Only this profile (pmem, file, pmem-lines, file-lines, eadr); may be repeated
    #[arg(long = "profile", value_name = "PROFILE")]
    pub profiles: Vec<String>,
    /// Lists the cases
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// A program of the user instead of a case.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub(crate) struct ProgramArgs {
    /// Explores a program that is linked with libeverbyte: the command that runs it (see
    /// everbyte/crash.h)
    #[arg(long, value_name = "COMMAND", requires_all = ["check", "store"], conflicts_with_all = ["case", "list"])]
    pub run: Option<String>,
    /// The command that checks the store after a crash; it exits with 0 if the promises are kept
    #[arg(long, value_name = "COMMAND", requires = "run")]
    pub check: Option<String>,
    /// The bound store with which both commands start; it is not changed
    #[arg(long, requires = "run")]
    pub store: Option<PathBuf>,
    /// Observes each store by single-stepping, instead of comparing pages at each flush and fence
    /// (x86-64)
    #[arg(long, requires = "run")]
    pub precise: bool,
}

/// `everbyte completion`.
#[derive(ClapArgs)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::Args::command().debug_assert();
    }
}
