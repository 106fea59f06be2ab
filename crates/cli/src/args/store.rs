//! The words of `everbyte store ..`.

use super::{OpenArgs, StoreArgs};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte store ..`.
#[derive(ClapArgs)]
pub struct StoreCommands {
    /// What to do
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// One variant a `store` command.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Copies a store that nobody writes to a new file, with a new identity: whole or not there
    Clone(CloneArgs),
    /// Copies the tables and typed pools of stores into another; each is whole or absent after a
    /// crash
    Merge(MergeArgs),
    /// Gives a store a new identity, and a copy made by hand the room it lacks
    Rebase(StoreArgs),
}

/// `everbyte store clone`.
#[derive(ClapArgs)]
pub struct CloneArgs {
    /// The store file; it is only read, even if it was never closed
    pub source: PathBuf,
    /// The new file, which must not exist
    pub target: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte store merge`.
#[derive(ClapArgs)]
pub struct MergeArgs {
    /// The store file that takes them
    pub target: PathBuf,
    /// The store files that give them; they are only read
    #[arg(required = true)]
    pub sources: Vec<PathBuf>,
    /// Put before every name, such as west/
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// Another name for an object; may be repeated
    #[arg(long, value_name = "NAME=NEW", value_parser = crate::text::pair)]
    pub rename: Vec<(String, String)>,
    /// Leaves an object out; may be repeated
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<String>,
    /// Goes on with a merge that was interrupted: objects that it has copied stay as they are
    #[arg(long)]
    pub resume: bool,
    /// Only says what would be copied
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub open: OpenArgs,
}
