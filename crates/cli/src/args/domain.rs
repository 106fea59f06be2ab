//! The words of `everbyte broker` and `everbyte domain`.

use super::names::{Owner, mode, owner};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte broker`.
#[derive(ClapArgs)]
pub struct BrokerArgs {
    /// The directory of domains; made if it is not there, closed to all other users
    pub dir: PathBuf,
    /// Where programs reach the broker; DIR.socket unless told otherwise
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// What the domains of one user may grow to together, such as 10GiB; root has no quota
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE", default_value = "1TiB")]
    pub quota: u64,
}

/// `everbyte domain`.
#[derive(ClapArgs)]
pub struct DomainCommands {
    /// Where the broker listens
    #[arg(long, env = "EVERBYTE_BROKER", global = true, default_value = "./everbyte.socket")]
    pub socket: PathBuf,
    /// What to do
    #[command(subcommand)]
    pub command: DomainCommand,
}

/// One variant a command.
#[derive(Subcommand)]
pub enum DomainCommand {
    /// Lists domains, with owner, group, mode, size and address
    Ls {
        /// Only names that begin so
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Makes a domain: a store of its own, whose rights the kernel enforces
    Create {
        /// Its name
        name: String,
        /// Who may read (4) and write (2): a digit each for owner, group and others
        #[arg(long, value_parser = mode, default_value = "660")]
        mode: u16,
        /// What it may grow to
        #[arg(long, value_parser = crate::text::size, value_name = "SIZE", default_value = "1GiB")]
        max: u64,
    },
    /// Removes a domain; who has it attached keeps what is mapped
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
    /// Gives a domain to a user, a group or both, by their numbers; users for root alone
    Chown {
        /// The owner's number, the group's, or both, such as 1000:1000
        #[arg(value_parser = owner)]
        owner: Owner,
        /// Its name
        name: String,
    },
}
