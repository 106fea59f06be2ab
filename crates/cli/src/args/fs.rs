//! The arguments of `everbyte fs ..`.

use super::OpenArgs;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `everbyte fs ..`.
#[derive(ClapArgs)]
pub(crate) struct FsCommands {
    /// The store file
    #[arg(long, global = true, env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
    /// The command
    #[command(subcommand)]
    pub command: FsCommand,
}

/// One variant per `fs` command.
#[derive(Subcommand)]
pub(crate) enum FsCommand {
    /// Makes an empty file volume
    Mkfs(MkfsArgs),
    /// Verifies a volume: inodes, pages, names and links; each finding names the paths of its file
    Fsck(VolumeArgs),
    /// Prints the properties of a volume, or of a snapshot
    Stat(FsStatArgs),
    /// Lists a directory of a volume
    Ls(FsLsArgs),
    /// Copies files and trees into a volume: holes, links, rights, owners and times too
    Put(PutArgs),
    /// Copies files and trees out of a volume
    Get(GetArgs),
    /// Makes, lists and removes snapshots: read-only trees that share their pages with the volume
    Snapshot(SnapshotCommands),
}

/// A volume by its name.
#[derive(ClapArgs)]
pub(crate) struct VolumeArgs {
    /// The volume
    pub volume: String,
}

/// `everbyte fs stat`.
#[derive(ClapArgs)]
pub(crate) struct FsStatArgs {
    /// The volume
    pub volume: String,
    /// A snapshot of it
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
}

/// `everbyte fs snapshot ..`.
#[derive(ClapArgs)]
pub(crate) struct SnapshotCommands {
    /// The command
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// One variant per `fs snapshot` command.
#[derive(Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Makes a snapshot of a volume
    Create(SnapshotArgs),
    /// Lists the snapshots of a volume
    List(VolumeArgs),
    /// Removes a snapshot, and frees the pages that nothing else shares
    Remove(SnapshotArgs),
}

/// A snapshot by its name.
#[derive(ClapArgs)]
pub(crate) struct SnapshotArgs {
    /// The volume
    pub volume: String,
    /// The name of the snapshot; escapes as in paths
    pub name: String,
}

/// `everbyte fs mkfs`.
#[derive(ClapArgs)]
pub(crate) struct MkfsArgs {
    /// The name of the new volume
    pub volume: String,
    /// A label of up to 64 bytes
    #[arg(long, default_value = "")]
    pub label: String,
    /// Changes that may run at a time, 1 to 256
    #[arg(long, default_value_t = 8)]
    pub lanes: u32,
    /// Addresses to reserve, a power of two such as 64GiB; half of the store's if absent
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub span: Option<u64>,
}

/// `everbyte fs ls`.
#[derive(ClapArgs)]
pub(crate) struct FsLsArgs {
    /// A directory or a file, as VOLUME:PATH
    pub place: String,
    /// Reads a snapshot of the volume
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Also rights, links, owner, size and time
    #[arg(long, short)]
    pub long: bool,
}

/// `everbyte fs put`.
#[derive(ClapArgs)]
pub(crate) struct PutArgs {
    /// Files and directories of this machine
    #[arg(required = true)]
    pub sources: Vec<PathBuf>,
    /// The directory that they go to, as VOLUME:PATH
    pub target: String,
    /// Replaces files that exist
    #[arg(long)]
    pub replace: bool,
}

/// `everbyte fs get`.
#[derive(ClapArgs)]
pub(crate) struct GetArgs {
    /// A file or a directory, as VOLUME:PATH
    pub source: String,
    /// Reads a snapshot of the volume
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// The directory of this machine that it goes to
    pub target: PathBuf,
    /// Replaces files that exist
    #[arg(long)]
    pub replace: bool,
}
