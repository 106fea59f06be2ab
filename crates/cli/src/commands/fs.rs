//! `everbyte fs ..`: file volumes.

mod dump;
mod fsck;
mod scrub;
mod served;
mod volumes;

pub(crate) use served::run_served;
pub(crate) use volumes::Volumes;

use super::mount;
use crate::args::{
    FsCommand, FsCommands, FsGrowArgs, FsLsArgs, FsStatArgs, GetArgs, MkfsArgs, PutArgs, QuotaCommand, SnapshotArgs,
    SnapshotCommand,
};
use crate::control;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use crate::progress::{Form, Progress};
use crate::text::escape;
use crate::volume::{self, Copied, Place};
use everbyte_fs::{Attributes, Error, FileKind, Ino, Volume, VolumeOptions};
use everbyte_store::Store;
use serde_json::{Value, json};

pub(crate) fn run(args: &FsCommands, output: &Output) -> Result<(), Failure> {
    match &args.command {
        FsCommand::Mount(mounted) => mount::mount(mounted, &args.open, output),
        FsCommand::Umount(unmounted) => mount::umount(unmounted, output),
        command => {
            let to_read = || open::to_read(&args.store, &args.open);
            let opened = if changes(command) { open::store(&args.store, &args.open) } else { to_read() };
            let store = match opened {
                Err(Failure::InUse(text)) => return control::ask(&args.store, &text, output),
                opened => opened?,
            };
            match command {
                FsCommand::Mkfs(made) => {
                    mkfs(&store, made, (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()))?;
                    store.close()?;
                    made_volume(made, output)
                }
                FsCommand::Fsck(checked) if checked.repair => {
                    fsck::repair(&store, checked, output)?;
                    if checked.dry_run {
                        return Ok(());
                    }
                    store.close()?;
                    drop(store);
                    fsck::check(&Volumes::Own(to_read()?), &checked.volume, output)
                }
                FsCommand::Dump(dumped) => dump::run(&store, dumped, output),
                command => on(Volumes::Own(store), command, output),
            }
        }
    }
}

/// Whether a command changes the volume.
fn changes(command: &FsCommand) -> bool {
    match command {
        FsCommand::Snapshot(snapshots) => !matches!(snapshots.command, SnapshotCommand::List(_)),
        FsCommand::Quota(quotas) => !matches!(quotas.command, QuotaCommand::List(_)),
        FsCommand::Fsck(checked) => checked.repair && !checked.dry_run,
        FsCommand::Mkfs(_) | FsCommand::Grow(_) | FsCommand::Put(_) => true,
        _ => false,
    }
}

/// Runs a command on a volume that is open.
fn on(volumes: Volumes, command: &FsCommand, output: &Output) -> Result<(), Failure> {
    match command {
        FsCommand::Stat(shown) => stat(&volumes, shown, output),
        FsCommand::Ls(listed) => ls(&volumes, listed, output),
        FsCommand::Get(copied) => get(&volumes, copied, output),
        FsCommand::Snapshot(snapshots) => match &snapshots.command {
            SnapshotCommand::Create(made) => snapshot(volumes, made, output),
            SnapshotCommand::List(listed) => list_snapshots(&volumes, &listed.volume, output),
            SnapshotCommand::Remove(removed) => remove_snapshot(volumes, removed, output),
        },
        FsCommand::Quota(quotas) => super::fs_quota::run(volumes, &quotas.command, output),
        FsCommand::Grow(grown) => grow(volumes, grown, output),
        FsCommand::Put(copied) => put(volumes, copied, output),
        FsCommand::Fsck(checked) => fsck::check(&volumes, &checked.volume, output),
        FsCommand::Scrub(scrubbed) => scrub::run(&volumes, &scrubbed.volume, output),
        FsCommand::Sync(synced) => sync(&volumes, &synced.volume, output),
        _ => Err(Failure::Words("this command needs the store for itself".into())),
    }
}

/// The bytes of a snapshot's name.
fn snapshot_name(text: &str) -> Result<Vec<u8>, Failure> {
    crate::text::unescape(text).map_err(Failure::Words)
}

/// The root of a volume's tree, or of that of a snapshot.
fn root(volume: &Volume, name: &str, snapshot: Option<&str>) -> Result<Ino, Failure> {
    let Some(snapshot) = snapshot else { return Ok(Ino::ROOT) };
    match volume.snapshot_root(&snapshot_name(snapshot)?) {
        Err(Error::NotFound) => Err(Failure::No(format!("volume {name} has no snapshot `{snapshot}`"))),
        found => Ok(found?),
    }
}

fn snapshot(volumes: Volumes, args: &SnapshotArgs, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(&args.volume)?;
    let made = match volume.snapshot(&snapshot_name(&args.name)?) {
        Err(Error::Exists) => {
            return Err(Failure::Words(format!("volume {} has a snapshot `{}` already", args.volume, args.name)));
        }
        made => made?,
    };
    volumes.done(volume)?;
    let value = json!({ "volume": args.volume, "snapshot": escape(&made.name), "taken_ns": made.taken });
    output.say(format!("made snapshot {} of volume {}", escape(&made.name), args.volume), value)
}

fn list_snapshots(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    for found in volumes.volume(name)?.snapshots()? {
        let value = json!({ "snapshot": escape(&found.name), "root": found.root.0, "taken_ns": found.taken });
        output.say(escape(&found.name), value)?;
    }
    Ok(())
}

fn remove_snapshot(volumes: Volumes, args: &SnapshotArgs, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(&args.volume)?;
    let name = snapshot_name(&args.name)?;
    match volume.remove_snapshot(&name) {
        Err(Error::NotFound) => {
            return Err(Failure::No(format!("volume {} has no snapshot `{}`", args.volume, args.name)));
        }
        removed => removed?,
    }
    volumes.done(volume)?;
    let value = json!({ "volume": args.volume, "snapshot": escape(&name) });
    output.say(format!("removed snapshot {} of volume {}", escape(&name), args.volume), value)
}

/// Makes a volume, which belongs to a user and a group.
fn mkfs(store: &Store, args: &MkfsArgs, owner: (u32, u32)) -> Result<(), Failure> {
    let MkfsArgs { label, lanes, span, page_size, size, checksums, .. } = args;
    let (label, lanes, span, page_size, checksums) = (label.clone(), *lanes, *span, *page_size, *checksums);
    let size = size.unwrap_or(0);
    let options = VolumeOptions { label, lanes, span, page_size, size, owner, checksums, ..Default::default() };
    Ok(Volume::create(store, &args.volume, &options)?.close()?)
}

fn made_volume(args: &MkfsArgs, output: &Output) -> Result<(), Failure> {
    output.say(format!("made volume {}", args.volume), json!({ "volume": args.volume, "label": args.label }))
}

fn grow(volumes: Volumes, args: &FsGrowArgs, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(&args.volume)?;
    volume.set_size(args.size)?;
    let size = volume.usage().pages_max * 4096;
    volumes.done(volume)?;
    let text = format!("volume {} may have {}", args.volume, crate::text::bytes(size));
    output.say(text, json!({ "volume": args.volume, "size": size }))
}

/// Makes durable all that calls on the mount have returned for. A volume that is not in use is so.
fn sync(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(name)?;
    if let Volumes::Served(_, mounted) = volumes
        && mounted.as_ref().is_none_or(|mounted| !mounted.is_read_only())
    {
        if let Some(mounted) = mounted {
            mounted.hand_over().map_err(|error| Failure::system("sync", mounted.path(), error))?;
        }
        volume.settle()?;
    }
    output.say(format!("all changes of volume {name} are durable"), json!({ "volume": name }))
}

fn stat(volumes: &Volumes, args: &FsStatArgs, output: &Output) -> Result<(), Failure> {
    let name = &args.volume;
    let volume = volumes.volume(name)?;
    let snapshots = volume.snapshots()?;
    if let Some(snapshot) = &args.snapshot {
        let root = root(&volume, name, Some(snapshot))?;
        let found = snapshots.iter().find(|found| found.root == root);
        let files = volume::paths(&volume, root).len();
        return output.table(&json!({
            "volume": name,
            "snapshot": snapshot,
            "taken_ns": found.map(|found| found.taken),
            "root": root.0,
            "inodes": files,
        }));
    }
    let (usage, files, sealed) = (volume.usage(), volume.all_pages(), volume.sealed_share());
    let uuid: String = volume.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
    output.table(&json!({
        "volume": name,
        "label": volume.label(),
        "uuid": uuid,
        "page_size": volume.page_size().bytes(),
        "file_bytes": files.allocated,
        "large_percent": (files.aligned * 100).checked_div(files.allocated).unwrap_or(0),
        "pages": usage.pages,
        "free_pages": usage.free_pages,
        "pages_max": usage.pages_max,
        "inodes": usage.inodes,
        "free_inodes": usage.free_inodes,
        "size": volume.size(),
        "available_pages": volume.available_pages(),
        "quotas": volume.quotas()?.len(),
        "checksums": volume.has_checksums(),
        "sealed_percent": sealed.sealed * 100 / sealed.written.max(1),
        "snapshots": snapshots.len(),
        "write_windows": volume.windows().name(),
    }))
}

fn ls(volumes: &Volumes, args: &FsLsArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.place)?;
    let volume = volumes.volume(&place.volume)?;
    let root = root(&volume, &place.volume, args.snapshot.as_deref())?;
    let ino = volume::resolve(&volume, &place, root)?;
    let found = volume.attributes(ino)?;
    if found.kind != FileKind::Directory {
        let name = place.path.last().expect("the root is a directory");
        return line(&volume, name, &found, args.long, output);
    }
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let entries = volume.entries(ino, cookie, 1000)?;
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        names.extend(entries.into_iter().map(|entry| (entry.name, entry.ino)));
    }
    names.sort_unstable();
    names.iter().try_for_each(|(name, ino)| line(&volume, name, &volume.attributes(*ino)?, args.long, output))
}

/// One line of a listing.
fn line(volume: &Volume, name: &[u8], found: &Attributes, long: bool, output: &Output) -> Result<(), Failure> {
    let target = match found.kind {
        FileKind::Link => Some(escape(&volume.read_link(found.ino)?)),
        _ => None,
    };
    let name = escape(name);
    let value = json!({
        "name": name,
        "inode": found.ino.0,
        "kind": kind(found.kind),
        "permissions": format!("{:04o}", found.permissions),
        "links": found.links,
        "uid": found.uid,
        "gid": found.gid,
        "size": found.size,
        "allocated": found.allocated,
        "modified_ns": found.modified,
        "target": target,
    });
    if !long {
        return output.say(name, value);
    }
    let target = target.map_or(String::new(), |target| format!(" -> {target}"));
    let Attributes { permissions, links, uid, gid, size, .. } = found;
    let text = format!("{:9} {permissions:04o} {links:3} {uid:5} {gid:5} {size:12} {name}{target}", kind(found.kind));
    output.say(text, value)
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Pipe => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character",
        FileKind::BlockDevice => "block",
    }
}

fn show(progress: &Progress, copied: &Copied) -> Result<(), Failure> {
    progress.set(copied.bytes, None)
}

fn put(volumes: Volumes, args: &PutArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.target)?;
    let volume = volumes.volume(&place.volume)?;
    let directory = volume::resolve(&volume, &place, Ino::ROOT)?;
    let progress = output.progress("copying", Form::Bytes);
    let mut all = Copied::default();
    let copied = args.sources.iter().try_for_each(|source| {
        let Copied { files, directories, links, bytes } =
            volume::put(&volume, source, directory, args.replace, &|copied| show(&progress, copied), &|change| {
                volumes.changed(change)
            })?;
        all.files += files;
        all.directories += directories;
        all.links += links;
        all.bytes += bytes;
        Ok(())
    });
    // Whole files that were copied before a failure stay.
    volumes.done(volume)?;
    progress.finish();
    copied.and_then(|()| say(&all, output))
}

fn get(volumes: &Volumes, args: &GetArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.source)?;
    let volume = volumes.volume(&place.volume)?;
    let root = root(&volume, &place.volume, args.snapshot.as_deref())?;
    let source = volume::resolve(&volume, &place, root)?;
    let target = match place.path.last() {
        Some(name) if args.target.is_dir() && source != root => {
            use std::os::unix::ffi::OsStrExt;
            args.target.join(std::ffi::OsStr::from_bytes(name))
        }
        _ => args.target.clone(),
    };
    let progress = output.progress("copying", Form::Bytes);
    let copied = volume::get(&volume, source, &target, args.replace, &|copied| show(&progress, copied))?;
    progress.finish();
    say(&copied, output)
}

fn say(copied: &Copied, output: &Output) -> Result<(), Failure> {
    let Copied { files, directories, links, bytes } = *copied;
    let value: Value = json!({ "files": files, "directories": directories, "links": links, "bytes": bytes });
    output.say(format!("copied {files} files, {directories} directories, {links} links, {bytes} bytes"), value)
}
