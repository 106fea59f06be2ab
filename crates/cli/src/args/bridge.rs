//! The arguments of `everbyte bridge ..`.

use clap::{Args as ClapArgs, Subcommand};
use std::ffi::OsString;
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
    /// Compares C++ headers with what the library exports now, and checks programs that use them;
    /// exit code 1 if the headers differ or a program is refused
    Check(BridgeCheckArgs),
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

/// `everbyte bridge check`.
#[derive(ClapArgs)]
pub(crate) struct BridgeCheckArgs {
    #[command(flatten)]
    pub bridge: BridgeArgs,
    /// A C++ program to check for bugs that no compiler refuses; may be given again
    #[arg(long = "program", value_name = "FILE")]
    pub programs: Vec<PathBuf>,
    /// The clang that reads programs
    #[arg(long, value_name = "COMMAND", default_value = "clang++")]
    pub clang: OsString,
    /// Words for clang: paths of headers, definitions
    #[arg(last = true, value_name = "WORDS")]
    pub words: Vec<OsString>,
}

/// `everbyte bridge build`, and the first part of `check`.
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
