//! A part of `mount`: a tree of sources that tar unpacks, cp copies, find and grep read, and rm
//! removes (PMFS, figure 7). The caches stay as the step before has left them, and no step waits
//! for a disk.
//!
//! The tree: the kernel's sources, of the package linux-source, or the sources of all crates that
//! cargo has unpacked. The quick plan takes a part of either; the smallest runs, which tests do,
//! the sources of this crate.

use super::Result;
use super::mount::faster_than_fuse;
use super::mount_systems::{System, done};
use crate::harness::{Bench, Unit};
use crate::host;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const STEPS: [&str; 5] = ["untar", "cp_r", "find", "grep", "rm_r"];

pub(super) fn run(bench: &mut Bench<'_>, systems: &[System], folder: &Path) -> Result {
    if !STEPS.iter().any(|step| bench.wants(step)) {
        return Ok(());
    }
    let archive = folder.join("sources.tar");
    let name = match packed(bench, folder, &archive) {
        Ok(name) => name,
        Err(why) => {
            bench.skipped("untar", &format!("no tree of sources: {why}"));
            return Ok(());
        }
    };
    let before = std::mem::replace(&mut bench.backend, format!("shm, servers on any core, {name}"));
    let mut times = vec![vec![Vec::new(); systems.len()]; STEPS.len()];
    host::unpin();
    for round in 0..bench.plan.rounds.min(3) {
        for turn in 0..systems.len() {
            let index = (turn + round) % systems.len();
            let at = &systems[index].at;
            for (step, time) in steps(at, &archive)?.into_iter().enumerate() {
                times[step][index].push(time);
            }
        }
    }
    for (step, times) in STEPS.iter().zip(times) {
        let names = systems.iter().map(|system| system.name.clone());
        if bench.wants(step) {
            bench.bars = faster_than_fuse();
            bench.report(step, Unit::Milliseconds, names.zip(times).collect(), None);
        }
    }
    bench.backend = before;
    Ok(std::fs::remove_file(archive)?)
}

/// Does all steps once.
fn steps(at: &Path, archive: &Path) -> Result<Vec<f64>> {
    let (tree, copy) = (at.join("tree"), at.join("copy"));
    std::fs::create_dir(&tree)?;
    let mut untar = Command::new("tar");
    untar.arg("-xf").arg(archive).arg("-C").arg(&tree);
    let mut cp = Command::new("cp");
    cp.arg("-r").args([&tree, &copy]);
    let mut find = Command::new("find");
    find.arg(&copy).args(["-type", "f", "-size", "+16k"]);
    let mut grep = Command::new("grep");
    grep.args(["-r", "-c", "-F", "-m", "1", "e"]).arg(&copy);
    let mut rm = Command::new("rm");
    rm.arg("-r").arg(&copy);
    let mut times = vec![];
    for mut step in [untar, cp, find, grep, rm] {
        let start = Instant::now();
        done(&mut step)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_dir_all(tree)?;
    Ok(times)
}

/// Writes the archive, and tells what it holds.
fn packed(bench: &Bench<'_>, folder: &Path, archive: &Path) -> Result<String> {
    let pack = |at: &Path, parts: &[PathBuf]| {
        let mut tar = Command::new("tar");
        done(tar.arg("-cf").arg(archive).arg("-C").arg(at).args(parts))
    };
    if bench.plan.smoke {
        pack(Path::new(env!("CARGO_MANIFEST_DIR")), &["src".into()])?;
        return Ok("sources of this crate".into());
    }
    if let Some(kernel) = kernel() {
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().replace(".tar.xz", "");
        let unpacked = folder.join("kernel");
        std::fs::create_dir(&unpacked)?;
        let part = bench.plan.pick(name.clone(), format!("{name}/fs"), String::new());
        done(Command::new("tar").arg("-xf").arg(kernel).arg("-C").arg(&unpacked).arg(&part))?;
        pack(&unpacked, &[part.clone().into()])?;
        std::fs::remove_dir_all(unpacked)?;
        return Ok(part);
    }
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registry = home.ok_or("no home")?.join("registry/src");
    let first = std::fs::read_dir(&registry)?.next().ok_or("no sources")??.path();
    let mut crates = std::fs::read_dir(&first)?.map(|entry| Ok(PathBuf::from(entry?.file_name())));
    let mut crates = crates.by_ref().collect::<Result<Vec<_>>>()?;
    crates.sort();
    crates.truncate(bench.plan.pick(usize::MAX, 100, 1));
    pack(&first, &crates)?;
    Ok(format!("{} crates of cargo's registry", crates.len()))
}

/// The kernel's sources, of the newest package that is installed.
fn kernel() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/src").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("linux-source-") && name.ends_with(".tar.xz")
    };
    found.filter(is_kernel).max()
}
