//! The arguments of `everbyte broker` and `everbyte domain`.

use super::names::{Owner, mode, owner};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte broker`.
#[derive(ClapArgs)]
pub(crate) struct BrokerArgs {
    /// The directory of domains; created if it is absent, closed to all other users
    pub dir: PathBuf,
    /// The socket of the broker [default: DIR.socket]
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// Maximum size of all domains of one user together, such as 10GiB; root has no quota
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE", default_value = "1TiB")]
    pub quota: u64,
}

/// `everbyte domain`.
#[derive(ClapArgs)]
pub(crate) struct DomainCommands {
    /// The socket of the broker
    #[arg(long, env = "EVERBYTE_BROKER", global = true, default_value = "./everbyte.socket")]
    pub socket: PathBuf,
    /// The command
    #[command(subcommand)]
    pub command: DomainCommand,
}

/// One variant per command.
#[derive(Subcommand)]
pub(crate) enum DomainCommand {
    /// Lists domains, with owner, group, mode, size and address
    Ls {
        /// Only names with this prefix
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Creates a domain: a separate store, whose rights the kernel enforces
    Create {
        /// Its name
        name: String,
        /// Rights to read (4) and write (2): a digit each for owner, group and others
        #[arg(long, value_parser = mode, default_value = "660")]
        mode: u16,
        /// Its maximum size
        #[arg(long, value_parser = crate::text::size, value_name = "SIZE", default_value = "1GiB")]
        max: u64,
    },
    /// Removes a domain; a process that has attached it keeps its mapping
    Rm {
        /// Its name
        name: String,
    },
    /// Changes the mode of a domain, from the next attach on
    Chmod {
        /// The mode, such as 640
        #[arg(value_parser = mode)]
        mode: u16,
        /// Its name
        name: String,
    },
    /// Changes the owner or group of a domain, by number; only root changes the owner
    Chown {
        /// The owner's number, the group's, or both, such as 1000:1000
        #[arg(value_parser = owner)]
        owner: Owner,
        /// Its name
        name: String,
    },
}
