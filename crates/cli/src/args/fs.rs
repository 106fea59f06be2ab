//! The arguments of `everbyte fs ..`.

use super::OpenArgs;
use clap::{Args as ClapArgs, Subcommand};
use everbyte_fs::PageSize;
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
    /// Verifies a volume: inodes, pages, names and links; each finding names the paths of its file.
    /// With --repair: removes the damage, and tells for each what was kept
    Fsck(FsckArgs),
    /// Verifies the checksums of sealed data; each damaged page with its paths and its offset
    Scrub(VolumeArgs),
    /// Prints the properties of a volume, or of a snapshot
    Stat(FsStatArgs),
    /// Prints the structures of a volume on media, decoded, also those of a damaged one
    Dump(FsDumpArgs),
    /// Lists a directory of a volume
    Ls(FsLsArgs),
    /// Copies files and trees into a volume: holes, links, rights, owners and times too
    Put(PutArgs),
    /// Copies files and trees out of a volume
    Get(GetArgs),
    /// Mounts a volume on a directory, for every program; serves it until it is unmounted
    Mount(MountArgs),
    /// Unmounts a volume
    Umount(UmountArgs),
    /// Makes all changes of a mounted volume durable: sync(1) and syncfs(2), which the kernel does
    /// not pass on, do not
    Sync(VolumeArgs),
    /// Makes, lists and removes snapshots: read-only trees that share their pages with the volume
    Snapshot(SnapshotCommands),
    /// Lists, sets and removes limits of users, groups and projects
    Quota(QuotaCommands),
    /// Sets the bytes that a volume may have at most
    Grow(FsGrowArgs),
}

/// `everbyte fs mount`.
#[derive(ClapArgs)]
pub(crate) struct MountArgs {
    /// The store file and the volume, as STORE:VOLUME
    pub source: String,
    /// An empty directory
    pub directory: PathBuf,
    /// Options as of mount(8), separated by commas: ro, sync, noatime, nodiratime, strictatime,
    /// noexec, nosuid, nodev, allow_other, private, nonempty, writeback, commit=SECONDS, threads=N,
    /// errors=continue, errors=remount-ro, errors=stop, pagesize=4K|2M|1G, relaxed,
    /// windows=keys|mprotect|off
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", default_value = "")]
    pub options: String,
    /// Returns as soon as the volume is mounted, and serves it in the background
    #[arg(long)]
    pub background: bool,
    /// Serves for a command with `--background`: closes its outputs when the volume is mounted
    #[arg(long, hide = true, conflicts_with = "background")]
    pub detach: bool,
    /// Threads that answer requests; one a core, and two at least, if absent
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
}

/// `everbyte fs umount`.
#[derive(ClapArgs)]
pub(crate) struct UmountArgs {
    /// The directory that the volume is mounted on
    pub directory: PathBuf,
    /// Also while programs use files of it: the directory is free at once, and the volume when they
    /// close the last file
    #[arg(long)]
    pub lazy: bool,
}

/// A volume by its name.
#[derive(ClapArgs)]
pub(crate) struct VolumeArgs {
    /// The volume
    pub volume: String,
}

/// `everbyte fs fsck`.
#[derive(ClapArgs)]
pub(crate) struct FsckArgs {
    /// The volume
    pub volume: String,
    /// Removes damage in one step, and keeps as much as can be
    #[arg(long)]
    pub repair: bool,
    /// With --repair: only lists the repairs
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
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
    /// Keeps checksums of data that does not change any more
    #[arg(long)]
    pub checksums: bool,
    /// Addresses to reserve, a power of two such as 64GiB; half of the store's if absent
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub span: Option<u64>,
    /// Page size of new files: 4KiB, 2MiB or 1GiB
    #[arg(long, value_parser = page_size, value_name = "SIZE", default_value = "4KiB")]
    pub page_size: PageSize,
    /// Bytes that the volume may have at most; `fs grow` changes it. As many as its span has if
    /// absent
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub size: Option<u64>,
}

/// The page size of so many bytes.
fn page_size(text: &str) -> Result<PageSize, String> {
    let bytes = crate::text::size(text)?;
    let found = PageSize::ALL.into_iter().find(|size| size.bytes() == bytes);
    found.ok_or_else(|| format!("`{text}` is none of 4KiB, 2MiB and 1GiB"))
}

/// `everbyte fs grow`.
#[derive(ClapArgs)]
pub(crate) struct FsGrowArgs {
    /// The volume
    pub volume: String,
    /// The new size, such as 4GiB, not below what is in use; `0` means as far as the span goes
    #[arg(value_parser = crate::text::size)]
    pub size: u64,
}

/// `everbyte fs quota ..`.
#[derive(ClapArgs)]
pub(crate) struct QuotaCommands {
    /// The command
    #[command(subcommand)]
    pub command: QuotaCommand,
}

/// One variant per `fs quota` command.
#[derive(Subcommand)]
pub(crate) enum QuotaCommand {
    /// Lists all limits of a volume, with what their owners use
    List(VolumeArgs),
    /// Sets the limits of a user, a group or a project; those that are not named stay
    Set(QuotaSetArgs),
    /// Removes the limits of a user, a group or a project
    Remove(QuotaArgs),
}

/// A user, a group or a project of a volume.
#[derive(ClapArgs)]
pub(crate) struct QuotaArgs {
    /// The volume
    pub volume: String,
    /// The kind of the owner
    pub kind: QuotaOwner,
    /// The number of the owner
    pub id: u32,
}

/// The kinds of owners.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum QuotaOwner {
    /// The files of a user
    User,
    /// The files of a group
    Group,
    /// The files of a project
    Project,
}

/// `everbyte fs quota set`.
#[derive(ClapArgs)]
pub(crate) struct QuotaSetArgs {
    #[command(flatten)]
    pub owner: QuotaArgs,
    /// Bytes that are not passed, such as 10GiB; 0: no limit
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub bytes: Option<u64>,
    /// Bytes that may be passed for the time of grace
    #[arg(long, value_parser = crate::text::size, value_name = "SIZE")]
    pub soft_bytes: Option<u64>,
    /// Inodes that are not passed; 0: no limit
    #[arg(long, value_name = "COUNT")]
    pub inodes: Option<u64>,
    /// Inodes that may be passed for the time of grace
    #[arg(long, value_name = "COUNT")]
    pub soft_inodes: Option<u64>,
    /// Seconds above a soft limit; a week if absent
    #[arg(long, value_name = "SECONDS")]
    pub grace: Option<u32>,
}

/// `everbyte fs dump`.
#[derive(ClapArgs)]
pub(crate) struct FsDumpArgs {
    /// VOLUME for its head and its inode table, VOLUME:PATH for the inode of a file
    pub place: String,
    /// The inode of this number
    #[arg(long, value_name = "N", conflicts_with = "page")]
    pub inode: Option<u64>,
    /// The words of this page
    #[arg(long, value_name = "N")]
    pub page: Option<u64>,
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
