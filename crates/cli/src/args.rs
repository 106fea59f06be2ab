//! The words of the command line. `everbyte --help` is the map of what users can do; it is made
//! from this file.

mod domain;
mod names;
mod store;

pub use domain::{BrokerArgs, DomainCommand, DomainCommands};
pub use names::{ChmodArgs, ChownArgs, InStore, Limit, LimitArgs, LsArgs, MvArgs, NamesArgs, Owner};
pub use store::{CloneArgs, MergeArgs, StoreCommand, StoreCommands};

use crate::config::{Backend, Durability};
use clap::{Args as ClapArgs, Parser, Subcommand};
use everbyte_store::Token;
use std::path::PathBuf;

const AFTER: &str = "\
A store is one file. Commands use ./everbyte.store unless told otherwise (or EVERBYTE_STORE).
Exit codes: 0 done; 1 the answer is no: key absent, or check found something; 2 the words make no sense;
3 not a store, from a newer version, or damaged; 4 in use by another process; 5 the system refused.";

/// Memory that survives: a store that outlives any crash, and an ordered key-value store in it.
#[derive(Parser)]
#[command(name = "everbyte", version, after_help = AFTER)]
pub struct Args {
    /// Prints JSON: one object, or one object a line where there are many
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// One variant a command.
#[derive(Subcommand)]
pub enum Command {
    /// Creates an empty store
    Create(CreateArgs),
    /// Tells what a store is and holds
    Info(StoreArgs),
    /// Walks everything in a store, reports damage, double use and leaks with offsets; changes
    /// nothing unless asked
    Check(CheckArgs),
    /// Raises a store's declared maximum
    Grow(GrowArgs),
    /// Lists the names of objects, in order
    Ls(LsArgs),
    /// Tells what objects are
    Stat(NamesArgs),
    /// Removes objects with all they hold
    Rm(NamesArgs),
    /// Changes what owner, group and others may do with objects
    Chmod(ChmodArgs),
    /// Gives objects another owner or group
    Chown(ChownArgs),
    /// Says how many clusters of an object may be in memory at once, and how many it may have
    Limit(LimitArgs),
    /// Gives an object another name
    Mv(MvArgs),
    /// Copies whole stores, and tells copies apart
    Store(StoreCommands),
    /// Reads and writes the ordered key-value store inside a store
    Kv(KvArgs),
    /// Serves a store to Redis clients
    Serve(ServeArgs),
    /// Serves domains, stores whose rights the kernel enforces, to programs of several users
    Broker(BrokerArgs),
    /// Lists, makes and removes the domains of a broker, and says who may use them
    Domain(DomainCommands),
    /// Tells what memory or disk a path gives
    Media(MediaArgs),
    /// Runs programs against every crash that the rule permits
    #[cfg(feature = "crash")]
    Crash(CrashArgs),
    /// Prints a completion script for a shell
    Completion(CompletionArgs),
}

/// How to open a store.
#[derive(ClapArgs, Clone, Default)]
pub struct OpenArgs {
    /// Mapping: auto takes `pmem` where MAP_SYNC works, `shm` on tmpfs, else `file`
    #[arg(long, value_enum, env = "EVERBYTE_BACKEND")]
    pub backend: Option<Backend>,
    /// What an acknowledged write survives: `always` power loss; `interval:MS` and `process` the
    /// process's death
    #[arg(long, env = "EVERBYTE_DURABILITY")]
    pub durability: Option<Durability>,
}

/// A store named by position.
#[derive(ClapArgs)]
pub struct StoreArgs {
    /// The store file
    #[arg(env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte create`.
#[derive(ClapArgs)]
pub struct CreateArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub shape: Shape,
}

/// What is decided when a store is made, and kept in it.
#[derive(ClapArgs, Default)]
pub struct Shape {
    /// The most room it may take on the disk, such as 4TiB; costs nothing until used
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: Option<u64>,
    /// What the log of backend `file` may grow to, such as 64MiB
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub log: Option<u64>,
    /// Binds the store to one address in every process, for C and C++ programs that keep plain
    /// pointers in it
    #[arg(long)]
    pub bound: bool,
}

/// `everbyte check`.
#[derive(ClapArgs)]
pub struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Also follows every pointer of typed pools from their roots: finds what has leaked, has two
    /// owners or is counted wrong
    #[arg(long)]
    pub deep: bool,
    /// Then opens the store, which recovers it, and repairs what has a second copy or no owner;
    /// says what it did. With --deep: only says which counts it would mend and which leaks it would
    /// free, and gives a token for that
    #[arg(long)]
    pub repair: bool,
    /// With --repair: only says what that would do
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// With --deep --repair: does what was said under this token, if nothing has changed since
    #[arg(long, requires_all = ["deep", "repair"], conflicts_with = "dry_run")]
    pub token: Option<Token>,
}

/// `everbyte grow`.
#[derive(ClapArgs)]
pub struct GrowArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The new maximum, such as 8TiB; a store can grow to four times what it was created for
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: u64,
}

/// `everbyte kv ..`.
#[derive(ClapArgs)]
pub struct KvArgs {
    /// The store file
    #[arg(long, global = true, env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    /// The name of the key-value store inside it
    #[arg(long, global = true, default_value = "kv")]
    pub table: String,
    /// Mapping to use
    #[arg(long, global = true, value_enum, env = "EVERBYTE_BACKEND")]
    pub backend: Option<Backend>,
    /// What an acknowledged write survives
    #[arg(long, global = true, env = "EVERBYTE_DURABILITY")]
    pub durability: Option<Durability>,
    /// What to do
    #[command(subcommand)]
    pub command: KvCommand,
}

/// One variant a `kv` command.
#[derive(Subcommand)]
pub enum KvCommand {
    /// Prints the value of a key; exit code 1 if there is none
    Get {
        /// Escapes: \n \t \\ \xNN
        key: String,
    },
    /// Stores a value under a key; durable when the command returns
    Put {
        /// Escapes: \n \t \\ \xNN
        key: String,
        /// The same escapes; absent: standard input is the value
        value: Option<String>,
    },
    /// Deletes keys; exit code 1 if one was absent
    Del {
        /// Escapes: \n \t \\ \xNN
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Prints entries in the order of their keys
    Scan(ScanArgs),
    /// Loads entries from a file, in batches, each of which is whole or absent after a crash
    Import(ImportArgs),
    /// Writes entries to a file
    Export(ExportArgs),
}

/// Which entries.
#[derive(ClapArgs)]
pub struct ScanArgs {
    /// First key
    #[arg(long)]
    pub start: Option<String>,
    /// The key to stop before
    #[arg(long)]
    pub end: Option<String>,
    /// Only keys that start with this
    #[arg(long, conflicts_with_all = ["start", "end"])]
    pub prefix: Option<String>,
    /// At most this many
    #[arg(long)]
    pub limit: Option<usize>,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// Keys without values
    #[arg(long)]
    pub keys: bool,
}

/// How entries stand in a file. docs/formats/exchange.md describes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// JSON lines: {"key":"..","value":".."}, or key_b64/value_b64 for what is not UTF-8
    Jsonl,
    /// Key, tab, value; escapes \n \t \r \\ \xNN
    Tsv,
}

/// `everbyte kv import`.
#[derive(ClapArgs)]
pub struct ImportArgs {
    /// The file; `-` is standard input
    pub file: PathBuf,
    /// How entries stand in it; by default what the file's name says, else jsonl
    #[arg(long, value_enum)]
    pub format: Option<Form>,
    /// Entries in one batch
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
}

/// `everbyte kv export`.
#[derive(ClapArgs)]
pub struct ExportArgs {
    /// The file, which must not exist; `-` is standard output
    pub file: PathBuf,
    /// How entries stand in it; by default what the file's name says, else jsonl
    #[arg(long, value_enum)]
    pub format: Option<Form>,
}

/// `everbyte serve`. What is absent here comes from the environment, then from the file, then from
/// the defaults.
#[derive(ClapArgs)]
pub struct ServeArgs {
    /// The store file [default: ./everbyte.store]
    #[arg(env = "EVERBYTE_STORE")]
    pub store: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:6380]
    #[arg(long, env = "EVERBYTE_LISTEN")]
    pub listen: Option<String>,
    /// Listens although other machines can reach the address: there are no passwords
    #[arg(long)]
    pub open: bool,
    /// The name of the key-value store to serve [default: kv]
    #[arg(long, env = "EVERBYTE_TABLE")]
    pub table: Option<String>,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
    /// Declared maximum of a store that is created
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub max: Option<u64>,
    /// A TOML file with the same settings
    #[arg(long, env = "EVERBYTE_CONFIG")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub opening: OpenArgs,
}

/// `everbyte media ..`.
#[derive(ClapArgs)]
pub struct MediaArgs {
    /// What to do
    #[command(subcommand)]
    pub command: MediaCommand,
}

/// One variant a `media` command.
#[derive(Subcommand)]
pub enum MediaCommand {
    /// Which backend a path gives, what it survives, which instructions are used, what they cost
    /// there
    Probe {
        /// A directory, or a file whose directory counts
        path: PathBuf,
    },
}

/// `everbyte crash`.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub struct CrashArgs {
    /// The case; absent: all of them
    pub case: Option<String>,
    /// The seed of the samples, as a failure prints it
    #[arg(long, value_parser = crate::text::number)]
    pub seed: Option<u64>,
    /// Only this crash image, as a failure prints it
    #[arg(long)]
    pub image: Option<String>,
    /// Images at a crash point where not all are tried
    #[arg(long)]
    pub images: Option<usize>,
    /// About how many images one profile may cost
    #[arg(long)]
    pub total: Option<u64>,
    /// Only this profile: pmem, file, pmem-lines, file-lines, eadr; may be repeated
    #[arg(long = "profile", value_name = "PROFILE")]
    pub profiles: Vec<String>,
    /// Names the cases
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// A program of one's own instead of a case.
#[cfg(feature = "crash")]
#[derive(ClapArgs)]
pub struct ProgramArgs {
    /// Explores a program that is linked with libeverbyte: the command that runs it, see
    /// everbyte/crash.h
    #[arg(long, value_name = "COMMAND", requires_all = ["check", "store"], conflicts_with_all = ["case", "list"])]
    pub run: Option<String>,
    /// The command that looks at what a crash left; it exits with 0 if the promises are kept
    #[arg(long, value_name = "COMMAND", requires = "run")]
    pub check: Option<String>,
    /// The bound store that both start from; it stays as it is
    #[arg(long, requires = "run")]
    pub store: Option<PathBuf>,
    /// Sees each store by single steps, instead of what pages hold at each flush and fence (x86-64)
    #[arg(long, requires = "run")]
    pub precise: bool,
}

/// `everbyte completion`.
#[derive(ClapArgs)]
pub struct CompletionArgs {
    /// Your shell
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_words_do_not_contradict_each_other() {
        super::Args::command().debug_assert();
    }
}
