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
