//! `everbyte fs fsck`: verifies a volume, and repairs it. The plan of the repair is the one that
//! `everbyte check --repair` makes.

use super::volumes::Volumes;
use crate::args::FsckArgs;
use crate::commands::check::repair::mended;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Form;
use crate::volume::all_paths;
use everbyte_fs::{Volume, VolumeRepair, system_clock};
use everbyte_store::{RepairStep, Store};
use serde_json::json;

/// `fsck --repair` of a volume that is not open.
pub(super) fn repair(store: &Store, checked: &FsckArgs, output: &Output) -> Result<(), Failure> {
    let name = &checked.volume;
    let planned = plan(store, name, output)?;
    if !checked.dry_run {
        let done = if planned.is_empty() { Vec::new() } else { planned.run()? };
        return tell("done", name, &done, output);
    }
    tell("to be done", name, planned.steps(), output)?;
    match planned.steps().len() {
        0 => output.say(format!("volume {name} needs no repair"), json!({ "volume": name, "whole": true })),
        steps => Err(Failure::No(format!("volume {name}: {steps} repairs; `everbyte fs fsck --repair` makes them"))),
    }
}

fn plan(store: &Store, name: &str, output: &Output) -> Result<VolumeRepair, Failure> {
    let progress = output.progress("reading inodes", Form::Items);
    let planned = VolumeRepair::plan(store.object(name)?, system_clock(), &|met, total| {
        let _ = progress.set(met, total.or(Some(met))); // a plan has no end before its own
    });
    progress.finish();
    Ok(planned?)
}

fn tell(when: &str, name: &str, steps: &[RepairStep], output: &Output) -> Result<(), Failure> {
    steps.iter().filter_map(|step| mended(when, name, step)).try_for_each(|(text, value)| output.say(text, value))
}

/// Verifies a volume that no other thread changes.
pub(super) fn check(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(name)?;
    let progress = output.progress("checking inodes", Form::Items);
    let findings = volume.check_files_with(&|met, total| {
        let _ = progress.set(met, Some(total)); // a check has no end before its own
    });
    progress.finish();
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
