//! The arguments of `everbyte store ..`.

use super::{OpenArgs, StoreArgs};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte store ..`.
#[derive(ClapArgs)]
pub(crate) struct StoreCommands {
    /// The command
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// One variant per `store` command.
#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Copies a store to a new file with a new identity, whole or not at all; no process may write
    /// the source meanwhile
    Clone(CloneArgs),
    /// Copies the tables and typed pools of stores into another store; after a crash each is whole
    /// or absent
    Merge(MergeArgs),
    /// Gives a store a new identity, and a manual copy the disk space that it lacks
    Rebase(StoreArgs),
}

/// `everbyte store clone`.
#[derive(ClapArgs)]
pub(crate) struct CloneArgs {
    /// The store file; it is only read, even if it was never closed
    pub source: PathBuf,
    /// The new file, which must not exist
    pub target: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte store merge`.
#[derive(ClapArgs)]
pub(crate) struct MergeArgs {
    /// The store file that receives the objects
    pub target: PathBuf,
    /// The store files that contain the objects; they are only read
    #[arg(required = true)]
    pub sources: Vec<PathBuf>,
    /// Prefix for every name, such as west/
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// New name for an object; may be repeated
    #[arg(long, value_name = "NAME=NEW", value_parser = crate::text::pair)]
    pub rename: Vec<(String, String)>,
    /// Leaves an object out; may be repeated
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<String>,
    /// Continues an interrupted merge: objects that it has copied stay unchanged
    #[arg(long)]
    pub resume: bool,
    /// Only lists the copies
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte backup`.
#[derive(ClapArgs)]
pub(crate) struct BackupArgs {
    /// The store file; no other process may have it open
    pub store: PathBuf,
    /// The new file, which must not exist
    pub file: PathBuf,
    /// An earlier backup of this store, or an increment: writes only the pages that differ
    #[arg(long, value_name = "BACKUP")]
    pub since: Option<PathBuf>,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte restore`.
#[derive(ClapArgs)]
pub(crate) struct RestoreArgs {
    /// A backup, and its increments in order
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The new store file, which must not exist
    #[arg(required = true)]
    pub store: PathBuf,
    /// Gives the store a new identity, so that it opens beside the original
    #[arg(long)]
    pub new_identity: bool,
    #[command(flatten)]
    pub open: OpenArgs,
}
