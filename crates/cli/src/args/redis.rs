//! The arguments of `everbyte import` and `everbyte export`.

use super::OpenArgs;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// `everbyte import`.
#[derive(ClapArgs)]
pub(crate) struct RedisImportArgs {
    /// An RDB file; an AOF, its manifest or the directory in which it is; or the host and port of a
    /// running Redis, as in redis://127.0.0.1:6379
    pub source: String,
    /// The store file; no other process may have it open
    #[arg(env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    /// The name of the key-value store inside it
    #[arg(long, env = "EVERBYTE_TABLE", default_value = "kv")]
    pub table: String,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
    /// Keys of an RDB file replace those of the store; without it a key that is there is an error
    #[arg(long, conflicts_with = "clear")]
    pub replace: bool,
    /// Deletes all keys and functions of the store first
    #[arg(long)]
    pub clear: bool,
    /// Of a running Redis: ends when everything is here that it had acknowledged by the end of its
    /// snapshot; without it its commands are followed until Ctrl-C
    #[arg(long)]
    pub once: bool,
    /// The user of the running Redis [default: default]
    #[arg(long, env = "EVERBYTE_IMPORT_USER")]
    pub user: Option<String>,
    /// The password of the running Redis. Other users of the machine can read the arguments of a
    /// process: better set the environment
    #[arg(long, env = "EVERBYTE_IMPORT_PASSWORD", hide_env_values = true, value_name = "PASSWORD")]
    pub password: Option<String>,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte export`.
#[derive(ClapArgs)]
pub(crate) struct RedisExportArgs {
    /// The store file; no other process may have it open
    pub store: PathBuf,
    /// The new RDB file, which must not exist; `-` is standard output
    pub file: PathBuf,
    /// The name of the key-value store inside the store
    #[arg(long, env = "EVERBYTE_TABLE", default_value = "kv")]
    pub table: String,
    #[command(flatten)]
    pub open: OpenArgs,
}
