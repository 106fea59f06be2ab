//! A part of `mount`: databases whose every insert is durable, on a volume in memory against ext4
//! on a loop device there, and on a volume on a disk against the disk's own file system. SQLite
//! runs as its own program with `synchronous=FULL`, in WAL and in DELETE mode; RocksDB in this
//! process, with synced writes.

use super::Result;
use super::mount_systems::{EXT4, System};
use crate::harness::{Bench, Unit};
use crate::host;
use crate::report::Bar;
use everbyte_bench_rivals::{KV, open_kv};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const DISK: &str = "the disk's own";
const WORK: [&str; 3] = ["sqlite_wal", "sqlite_delete", "rocksdb"];

pub(super) fn on_memory(bench: &mut Bench<'_>, systems: &[System]) -> Result {
    measure(bench, systems, "", &|_| vec![Bar::new(EXT4, 1.2)])
}

pub(super) fn on_disk(bench: &mut Bench<'_>, disk: &Path) -> Result {
    if !WORK.iter().any(|work| bench.wants(&format!("{work}_disk"))) {
        return Ok(());
    }
    let ours = System::ours(disk)?;
    let systems = [ours, System::of(DISK, &disk.join("files"))?];
    let sync = sync_time(&systems[1].at)?;
    // A quick sync leaves less of its time to hide the requests behind.
    let least = if sync < 200.0 { 0.8 } else { 0.95 };
    bench.backend = format!("file, servers on any core, a sync of the disk takes {sync:.0} us");
    measure(bench, &systems, "_disk", &|work| vec![Bar::new(DISK, if work == "sqlite_delete" { 1.2 } else { least })])
}

/// Microseconds of a write of 4 KiB with fdatasync.
fn sync_time(at: &Path) -> Result<f64> {
    let (path, bytes) = (at.join("sync"), [b's'; 4096]);
    let file = File::create(&path)?;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    let mut times = vec![];
    for _ in 0..50 {
        let start = Instant::now();
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(path)?;
    Ok(crate::harness::median(&times))
}

fn measure(bench: &mut Bench<'_>, systems: &[System], suffix: &str, bars: &dyn Fn(&str) -> Vec<Bar>) -> Result {
    let count = bench.plan.pick(3000, 1000, 5);
    for work in WORK {
        let metric = format!("{work}{suffix}");
        if !bench.wants(&metric) {
            continue;
        }
        let missing = match work {
            "rocksdb" => !KV.contains(&"rocksdb"),
            _ => Command::new("sqlite3").arg("-version").stdout(Stdio::null()).status().is_err(),
        };
        if missing {
            bench.skipped(&metric, "it is not installed");
            continue;
        }
        host::unpin();
        let mut values = vec![Vec::new(); systems.len()];
        for round in 0..bench.plan.rounds.min(5) {
            for turn in 0..systems.len() {
                let index = (turn + round) % systems.len();
                let folder = systems[index].at.join("database");
                std::fs::create_dir(&folder)?;
                let seconds = match work {
                    "sqlite_wal" => sqlite(&folder, "WAL", count)?,
                    "sqlite_delete" => sqlite(&folder, "DELETE", count)?,
                    _ => rocksdb(&folder, count)?,
                };
                values[index].push(count as f64 / seconds);
                std::fs::remove_dir_all(&folder)?;
            }
        }
        bench.bars = bars(work);
        let names = systems.iter().map(|system| system.name.clone());
        bench.report(&metric, Unit::PerSecond, names.zip(values).collect(), None);
    }
    Ok(())
}

/// Inserts, each a transaction of its own; the seconds from the first to the end of the program.
fn sqlite(folder: &Path, mode: &str, count: u64) -> Result<f64> {
    let mut child = Command::new("sqlite3")
        .args(["-batch", "-bail"])
        .arg(folder.join("rows.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut text = String::new();
    for row in 0..count {
        writeln!(text, "insert into rows values ({row}, '{}');", "v".repeat(100))?;
    }
    let mut input = child.stdin.take().ok_or("a pipe")?;
    input.write_all(format!("pragma journal_mode={mode}; pragma synchronous=FULL;\n").as_bytes())?;
    input.write_all(b"create table rows (number integer primary key, bytes text);\n")?;
    let start = Instant::now();
    input.write_all(text.as_bytes())?;
    drop(input);
    match child.wait()?.success() {
        true => Ok(start.elapsed().as_secs_f64()),
        false => Err(format!("sqlite3 failed in {}", folder.display()).into()),
    }
}

fn rocksdb(folder: &Path, count: u64) -> Result<f64> {
    let store = open_kv("rocksdb", folder)?;
    let start = Instant::now();
    for row in 0..count {
        store.put(format!("key-{row:020}").as_bytes(), &[b'v'; 100])?;
    }
    let took = start.elapsed().as_secs_f64();
    drop(store);
    Ok(took)
}
