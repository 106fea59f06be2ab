//! The arguments of `everbyte object ..`.

use super::OpenArgs;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte object ..`.
#[derive(ClapArgs)]
pub(crate) struct ObjectCommands {
    /// The store file
    #[arg(long, global = true, env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
    /// The command
    #[command(subcommand)]
    pub command: ObjectCommand,
}

/// One variant per `object` command.
#[derive(Subcommand)]
pub(crate) enum ObjectCommand {
    /// Writes a typed pool as lines of JSON, by the description stored in it; its program is not
    /// needed
    Dump(DumpArgs),
    /// Makes a typed pool of the lines that dump has written; after a crash it is whole or absent
    Load(LoadArgs),
}

/// `everbyte object dump`.
#[derive(ClapArgs)]
pub(crate) struct DumpArgs {
    /// The pool
    pub name: String,
    /// The new file; standard output if absent
    #[arg(default_value = "-")]
    pub file: PathBuf,
}

/// `everbyte object load`.
#[derive(ClapArgs)]
pub(crate) struct LoadArgs {
    /// The name of the new pool
    pub name: String,
    /// The file; standard input if absent
    #[arg(default_value = "-")]
    pub file: PathBuf,
}
