//! The arguments of `everbyte bridge ..`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte bridge ..`.
#[derive(ClapArgs)]
pub(crate) struct BridgeCommands {
    /// The command
    #[command(subcommand)]
    pub command: BridgeCommand,
}

/// One variant per `bridge` command.
#[derive(Subcommand)]
pub(crate) enum BridgeCommand {
    /// Begins a crate with a persistent type, a C++ program that uses it, and a CMake file
    New(BridgeNewArgs),
    /// Compiles the crate and writes its C++ headers
    Build(BridgeArgs),
    /// Compares C++ headers with what the library exports now; exit code 1 if they differ
    Check(BridgeArgs),
}

/// `everbyte bridge new`.
#[derive(ClapArgs)]
pub(crate) struct BridgeNewArgs {
    /// The new directory; its name is the library's
    pub directory: PathBuf,
    /// The directory of Everbyte's crates, for a crate that is built from its source
    #[arg(long, value_name = "DIRECTORY")]
    pub crates: Option<PathBuf>,
}

/// `everbyte bridge build` and `check`.
#[derive(ClapArgs)]
pub(crate) struct BridgeArgs {
    /// The directory of the crate
    #[arg(default_value = ".")]
    pub directory: PathBuf,
    /// The directory of the headers [default: include in the directory of the crate]
    #[arg(long, value_name = "DIRECTORY")]
    pub headers: Option<PathBuf>,
    /// A library that is compiled already; cargo is not called
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Compiles in the release profile
    #[arg(long, conflicts_with = "library")]
    pub release: bool,
}
