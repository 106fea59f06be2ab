//! `everbyte fs fsck`: verifies a volume, and repairs it. The plan of the repair is the one that
//! `everbyte check --repair` makes.

use super::Volumes;
use crate::args::{FsCommands, FsckArgs};
use crate::commands::check::repair::mended;
use crate::failure::Failure;
use crate::output::Output;
use crate::volume::all_paths;
use crate::{open, progress};
use everbyte_fs::{Volume, VolumeRepair, system_clock};
use everbyte_store::{RepairStep, Store};
use serde_json::json;

/// `fsck --repair`.
pub(super) fn repair(args: &FsCommands, checked: &FsckArgs, output: &Output) -> Result<(), Failure> {
    let name = &checked.volume;
    if !checked.dry_run {
        let store = open::store(&args.store, &args.open)?;
        let planned = plan(&store, name)?;
        let done = if planned.is_empty() { Vec::new() } else { planned.run()? };
        tell("done", name, &done, output)?;
        store.close()?;
        drop(store);
        return check(&Volumes::Own(open::to_read(&args.store, &args.open)?), name, output);
    }
    let store = open::to_read(&args.store, &args.open)?;
    let planned = plan(&store, name)?;
    tell("to be done", name, planned.steps(), output)?;
    match planned.steps().len() {
        0 => output.say(format!("volume {name} needs no repair"), json!({ "volume": name, "whole": true })),
        steps => Err(Failure::No(format!("volume {name}: {steps} repairs; `everbyte fs fsck --repair` makes them"))),
    }
}

fn plan(store: &Store, name: &str) -> Result<VolumeRepair, Failure> {
    let bar = progress::bar("reading inodes", Some(0));
    let planned = VolumeRepair::plan(store.object(name)?, system_clock(), &|met, total| {
        bar.set_length(total.unwrap_or(met));
        bar.set_position(met);
    });
    bar.finish_and_clear();
    Ok(planned?)
}

fn tell(when: &str, name: &str, steps: &[RepairStep], output: &Output) -> Result<(), Failure> {
    steps.iter().filter_map(|step| mended(when, name, step)).try_for_each(|(text, value)| output.say(text, value))
}

/// Verifies a volume that no other thread changes.
pub(super) fn check(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(name)?;
    let bar = progress::bar("checking inodes", Some(0));
    let findings = volume.check_files_with(&|met, total| {
        bar.set_length(total);
        bar.set_position(met);
    });
    bar.finish_and_clear();
    let paths = if findings.is_empty() { Default::default() } else { all_paths(&volume) };
    for (ino, finding) in &findings {
        let paths: &[String] = paths.get(ino).map_or(&[], |paths| paths);
        let places = if paths.is_empty() { String::new() } else { format!(" ({})", paths.join(", ")) };
        let value = json!({ "inode": ino.0, "paths": paths, "at": finding.at, "detail": finding.detail });
        output.say(format!("{finding}{places}"), value)?;
    }
    let damaged = volume.recovery().damaged.len();
    if findings.is_empty() && damaged == 0 {
        let text = format!("volume {name} is whole: {}", recovered(&volume));
        return output.say(text, json!({ "volume": name, "whole": true }));
    }
    let count = findings.len();
    Err(Failure::No(format!(
        "volume {name}: {count} findings, {damaged} files that cannot be used; `everbyte fs fsck --repair` repairs them (add `--dry-run` to list the repairs)"
    )))
}

/// The work of opening a volume, as a sentence.
fn recovered(volume: &Volume) -> String {
    let recovery = volume.recovery();
    match (recovery.undone, recovery.orphans.len() as u64 + recovery.snapshot_files, recovery.trimmed) {
        (0, 0, 0) => "nothing was interrupted".into(),
        (undone, orphans, trimmed) => {
            format!(
                "opening undoes {undone} changes, frees {orphans} files that no name leads to and trims {trimmed} runs"
            )
        }
    }
}
