//! `mount`: a volume that the kernel mounts through FUSE, used by system calls and by unmodified
//! programs, against ext4 on a loop device on the same memory, tmpfs, a FUSE server that does
//! nothing, libfuse's `passthrough_ll` over that ext4, and fuse2fs. Needs root and `/dev/fuse`.
//!
//! CPUs: a client with one thread is pinned to the last CPU. Metrics with `_one_core` have all
//! threads of the servers on that CPU; elsewhere the servers run where they place themselves. The
//! results tell it with the backend.

use super::mount_systems::{FUSE2FS, PASSED, System};
use super::{Result, mount_calls, mount_personalities, mount_programs, mount_trees};
use crate::harness::Bench;
use crate::host;
use crate::report::Bar;
use std::path::Path;

/// The systems: ours first.
pub(super) struct Systems {
    pub all: Vec<System>,
    pub null: Option<System>,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let disk = tempfile::tempdir_in(&bench.plan.disk)?;
    let can = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = can.map(drop).and_then(|()| is_root()) {
        bench.skipped("all", &format!("no mount can be made: {error}"));
        return Ok(());
    }
    let systems = systems(bench, folder.path())?;
    bench.backend = "shm, servers on any core".into();
    mount_calls::run(bench, &systems)?;
    mount_trees::run(bench, &systems.all, folder.path())?;
    mount_personalities::run(bench, &systems.all)?;
    mount_programs::on_memory(bench, &systems.all)?;
    drop(systems);
    mount_programs::on_disk(bench, disk.path())?;
    host::unpin();
    Ok(())
}

fn is_root() -> std::io::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(std::io::Error::other("root mounts")),
    }
}

/// All systems that this machine has. The smallest runs, which tests do, use no loop device.
fn systems(bench: &mut Bench<'_>, folder: &Path) -> Result<Systems> {
    let mut all = vec![System::ours(folder)?, System::of(super::mount_systems::TMPFS, &folder.join("tmpfs"))?];
    let is_smoke = bench.plan.smoke;
    let mut found = |name: &str, system: Result<System>| match system {
        Ok(system) => Some(system),
        Err(why) => {
            bench.skipped(name, &why.to_string());
            None
        }
    };
    let null = found("null", System::null(folder));
    if is_smoke {
        return Ok(Systems { all, null });
    }
    if let Some(ext4) = found("ext4", System::ext4(folder)) {
        let passthrough = found(PASSED, System::passthrough(folder, &ext4.at));
        all.push(ext4);
        all.extend(passthrough); // dropped, and unmounted, before it would be alone
    }
    all.extend(found(FUSE2FS, System::fuse2fs(folder)));
    Ok(Systems { all, null })
}

/// The bars of work that should be faster than other file systems in user space.
pub(super) fn faster_than_fuse() -> Vec<Bar> {
    vec![Bar::new(PASSED, 1.0), Bar::new(FUSE2FS, 1.0)]
}
