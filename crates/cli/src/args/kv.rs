//! The arguments of the commands of `everbyte kv` that copy all tables.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// `everbyte kv dump`.
#[derive(ClapArgs)]
pub(crate) struct KvDumpArgs {
    /// The new file; standard output if absent
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// A version that has a name alone, instead of the present one and all named ones
    #[arg(long, value_name = "NAME")]
    pub at: Option<String>,
}

/// `everbyte kv load`.
#[derive(ClapArgs)]
pub(crate) struct KvLoadArgs {
    /// The file; standard input if absent
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Creates the store if it is absent
    #[arg(long)]
    pub create: bool,
}

/// `everbyte kv repair`.
#[derive(ClapArgs)]
pub(crate) struct KvRepairArgs {
    /// The name of the new key-value store
    pub name: String,
    /// Another store, in which it is made
    #[arg(long, value_name = "STORE")]
    pub into: Option<PathBuf>,
}
