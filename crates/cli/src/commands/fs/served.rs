//! `everbyte fs` commands on a store that this process has open for other work: asked for by
//! another process through the control socket.
//!
//! A mounted volume is used as it is, and its mount is told of changes. Another volume of the store
//! is opened for the command. A repair, which needs a volume for itself, is refused while the
//! volume is mounted.

use super::volumes::Volumes;
use super::{changes, dump, fsck, made_volume, mkfs, on};
use crate::args::{FsCommand, QuotaCommand, SnapshotCommand};
use crate::control::Served;
use crate::failure::Failure;
use crate::output::Output;
use everbyte_fs::Volume;
use everbyte_fuse::MountedVolume;
use everbyte_store::Store;

/// The volume of a command, if another process can run it.
fn volume_of(command: &FsCommand) -> Option<&str> {
    fn of_place(text: &str) -> &str {
        text.split_once(':').map_or(text, |(volume, _)| volume)
    }
    Some(match command {
        FsCommand::Mkfs(made) => made.volume.as_str(),
        FsCommand::Stat(shown) => &shown.volume,
        FsCommand::Dump(dumped) => of_place(&dumped.place),
        FsCommand::Ls(listed) => of_place(&listed.place),
        FsCommand::Get(copied) => of_place(&copied.source),
        FsCommand::Put(copied) => of_place(&copied.target),
        FsCommand::Fsck(checked) => &checked.volume,
        FsCommand::Scrub(of) | FsCommand::Sync(of) => &of.volume,
        FsCommand::Grow(grown) => &grown.volume,
        FsCommand::Snapshot(snapshots) => match &snapshots.command {
            SnapshotCommand::Create(of) | SnapshotCommand::Remove(of) => &of.volume,
            SnapshotCommand::List(of) => &of.volume,
        },
        FsCommand::Quota(quotas) => match &quotas.command {
            QuotaCommand::List(of) => &of.volume,
            QuotaCommand::Set(set) => &set.owner.volume,
            QuotaCommand::Remove(of) => &of.volume,
        },
        FsCommand::Mount(_) | FsCommand::Umount(_) => return None,
    })
}

/// Runs a command for another process.
pub(crate) fn run_served(served: &Served<'_>, command: &FsCommand, output: &Output) -> Result<(), Failure> {
    let Some(name) = volume_of(command) else {
        return Err(Failure::Words("the process that serves the store does not run this command".into()));
    };
    let mounted = served.volumes.iter().find(|(mounted, _)| mounted == name).map(|(_, volume)| volume);
    let mounted = mounted.filter(|mounted| mounted.is_mounted());
    if let Some(mounted) = mounted {
        if mounted.is_read_only() && changes(command) {
            return Err(Failure::System(format!("volume {name} is mounted read-only")));
        }
        let work = |volume: &Volume| on(Volumes::Served(volume.clone(), Some(mounted.clone())), command, output);
        let done = match command {
            FsCommand::Fsck(checked) if checked.repair => Some(Err(needs_it_alone(name, mounted))),
            FsCommand::Mkfs(_) => None, // refused: there is such a volume
            FsCommand::Fsck(_) | FsCommand::Dump(_) => in_a_pause(mounted, command, output),
            _ => mounted.with(work),
        };
        // None: the mount has ended meanwhile.
        if let Some(done) = done {
            return done;
        }
    }
    let store = served.store;
    match command {
        FsCommand::Mkfs(made) => {
            mkfs(store, made, served.caller)?;
            made_volume(made, output)
        }
        FsCommand::Dump(dumped) => dump::run(store, dumped, output),
        FsCommand::Fsck(checked) if checked.repair => {
            fsck::repair(store, checked, output)?;
            if checked.dry_run { Ok(()) } else { in_passing(store, name, command, output) }
        }
        command => in_passing(store, name, command, output),
    }
}

/// Looks at a volume while the calls on its mount wait. The output is kept until they go on, so
/// that no reader of it makes them wait; `None`: the mount has ended.
fn in_a_pause(mounted: &MountedVolume, command: &FsCommand, output: &Output) -> Option<Result<(), Failure>> {
    let (in_memory, kept) = output.kept();
    let done = mounted.paused(|volume| match command {
        FsCommand::Dump(dumped) => dump::run_open(volume, dumped, &in_memory),
        command => on(Volumes::Served(volume.clone(), None), command, &in_memory),
    })?;
    let flushed = in_memory.finish().and_then(|()| output.bytes(&kept.take()));
    Some(done.and(flushed))
}

/// Works on a volume that is not mounted, or not any more.
fn in_passing(store: &Store, name: &str, command: &FsCommand, output: &Output) -> Result<(), Failure> {
    let volume = Volume::open(store.object(name)?)?;
    let done = on(Volumes::Served(volume.clone(), None), command, output);
    volume.close()?;
    done
}

fn needs_it_alone(name: &str, mounted: &MountedVolume) -> Failure {
    let at = mounted.path().display();
    Failure::InUse(format!(
        "volume {name} is mounted on {at}, and a repair needs it alone: `everbyte fs umount {at}`, repair it, and mount it again (`everbyte fs fsck {name}` verifies it while it is mounted)"
    ))
}
