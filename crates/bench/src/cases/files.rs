//! `files`: a volume through the library of POSIX calls, on shared memory, against tmpfs and ext4
//! through their system calls. ext4 lies in an image on shared memory where this process may mount
//! one, so that no device takes part; its writes are buffered, but for those that fdatasync follows
//! (`write_64`, `write_4k_synced`), and for a file that is open with `O_DSYNC` beside the latter.
//!
//! Phases in which files are made, renamed and removed follow each other in a round, each system
//! in turn. All other metrics use files that a phase before has left.

use super::Result;
use super::files_appends;
use super::files_bars::{TMPFS, bars, dsync};
use super::files_latencies as latencies;
use super::files_mapped;
use super::files_synced as synced;
use super::files_systems::{Calls, Files, Ours};
use super::files_threads;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use everbyte_media::{Counts, Media};
use everbyte_posix::AllocateMode;
use everbyte_workload::Random;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const PAGE: u64 = 4096;

/// Directories that hold the files of a remounted volume.
const FOLDERS: u64 = 100;

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let disk = tempfile::tempdir_in(&bench.plan.disk)?;
    let ours = Ours::create(&folder.path().join("ours"))?;
    bench.on(ours.store.media());
    let files = folder.path().join("files");
    std::fs::create_dir(&files)?;
    let mut rivals = vec![Calls::of(TMPFS, &files, false)?];
    rivals.extend(ext4(bench, folder.path(), disk.path()));
    bytes(bench, &ours, &rivals)?;
    appends(bench, &ours, &rivals)?;
    files_appends::run(bench, &ours)?;
    names(bench, &ours, &rivals)?;
    found(bench, &ours, &rivals)?;
    logged(bench, &ours)?;
    files_threads::threads(bench, &ours, &rivals)?;
    files_mapped::accesses(bench, &ours, &rivals)?;
    latencies::run(bench, &ours, &rivals)?;
    drop(ours);
    files_mapped::aging(bench, folder.path())?;
    files_threads::volumes(bench, folder.path())?;
    remounts(bench, folder.path())?;
    synced::run(bench, disk.path())?;
    latencies::run_on_disk(bench, disk.path())?;
    super::files_windows::run(bench, folder.path())?;
    super::files_barriers::run(bench, folder.path())
}

/// ext4 on shared memory, or the disk's. The smallest runs, which tests do, mount nothing.
fn ext4(bench: &mut Bench<'_>, folder: &Path, disk: &Path) -> Option<Calls> {
    let mounted = if bench.plan.smoke { Err("a tiny run".into()) } else { Calls::ext4_in(folder) };
    let why = match mounted {
        Ok(calls) => return Some(calls),
        Err(why) => why,
    };
    bench.skipped("ext4", &format!("no image on memory is mounted: {why}"));
    Calls::ext4_disk(disk).inspect_err(|why| bench.skipped("ext4 disk", &why.to_string())).ok()
}

/// Offsets of `size`-byte parts of a file, in order or at random.
pub(super) fn offsets(len: u64, size: u64, random: bool) -> impl FnMut() -> u64 {
    let (mut next, mut numbers, count) = (0, Random::new(5), len / size);
    move || {
        next = if random { numbers.below(count) } else { (next + 1) % count };
        next * size
    }
}

/// A file of `len` bytes.
pub(super) fn filled<F: Files>(files: &F, name: &str, len: u64) -> Result<F::File> {
    let (file, part) = (files.make(files.root(), name)?, vec![b'x'; (1 << 20).min(len as usize)]);
    (0..len).step_by(part.len()).try_for_each(|at| files.append(&file, at, &part))?;
    Ok(file)
}

/// The calls of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Settled,
}

/// Reads or writes so many parts of `size` bytes of a file.
pub(super) fn accesses<'a, F: Files>(
    files: &'a F,
    file: &'a F::File,
    (len, size): (u64, u64),
    access: Access,
    random: bool,
) -> impl FnMut(u64) + 'a {
    let (mut offset, mut bytes) = (offsets(len, size, random), vec![b'y'; size as usize]);
    move |count| {
        for _ in 0..count {
            let at = offset();
            match access {
                Access::Read => assert_eq!(files.read(file, at, &mut bytes).expect("a read"), bytes.len()),
                Access::Write => files.write(file, at, &bytes).expect("a write"),
                Access::Settled => {
                    let other = bytes[0].wrapping_add(1);
                    bytes.fill(other); // a volume logs only words that change
                    files.write_settled(file, at, &bytes).expect("a write");
                }
            }
            black_box(&bytes);
        }
    }
}

/// A runner of [`accesses`].
fn access<'a, F: Files>(
    files: &'a F,
    file: &'a F::File,
    (len, size): (u64, u64),
    how: Access,
    random: bool,
) -> Runner<'a> {
    Runner::new(files.name(), accesses(files, file, (len, size), how, random))
}

fn bytes(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let metrics = [
        ("read_4k", PAGE, Access::Read, false),
        ("read_4k_random", PAGE, Access::Read, true),
        ("write_4k", PAGE, Access::Write, false),
        ("write_4k_random", PAGE, Access::Write, true),
        ("read_4k_scattered", PAGE, Access::Read, true), // pages that were replaced in any order
        ("write_64", 64, Access::Settled, true),
        ("write_4k_synced", PAGE, Access::Settled, false),
    ];
    if !metrics.iter().any(|(metric, ..)| bench.wants(metric)) {
        return Ok(());
    }
    let len = bench.plan.pick(64 << 20, 64 << 20, 64 << 10);
    let mine = filled(ours, "bytes", len)?;
    let theirs = rivals.iter().map(|calls| filled(calls, "bytes", len)).collect::<Result<Vec<_>>>()?;
    let synced = rivals.iter().filter(|calls| calls.syncs());
    let synced = synced.map(|calls| Ok((calls, calls.open_synced("bytes")?))).collect::<Result<Vec<_>>>()?;
    for (metric, size, how, random) in metrics {
        let mut runners = vec![access(ours, &mine, (len, size), how, random).counting(ours.store.media())];
        for (calls, file) in rivals.iter().zip(&theirs) {
            runners.push(access(calls, file, (len, size), how, random));
        }
        if metric == "write_4k_synced" {
            for (calls, file) in &synced {
                let runner = access(*calls, file, (len, size), Access::Write, random);
                runners.push(runner.named(dsync(calls.name())));
            }
        }
        bench.bars = bars(metric);
        bench.metric(metric, Unit::Nanoseconds, 0, runners);
    }
    Ok(())
}

/// The time of one phase, and the counters of ours.
struct Spent(Duration, Counts);

/// The name of a system, and a closure that does all phases once.
type System<'a> = (String, Box<dyn FnMut() -> Result<Vec<Spent>> + 'a>);

fn spend(media: &Media, work: impl FnOnce() -> Result) -> Result<Spent> {
    let before = media.counts();
    let start = Instant::now();
    work()?;
    Ok(Spent(start.elapsed(), media.counts() - before))
}

/// Does the phases of all systems in turn, in each round of `count` operations, and reports them.
fn phases(bench: &mut Bench<'_>, metrics: &[&str], count: u64, mut systems: Vec<System<'_>>) -> Result {
    if !metrics.iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    host::pin(0);
    let mut times = vec![vec![Vec::new(); systems.len()]; metrics.len()];
    let mut counts = vec![Counts::default(); metrics.len()];
    for round in 0..=bench.plan.rounds {
        for turn in 0..systems.len() {
            let index = (turn + round) % systems.len();
            for (phase, Spent(time, counted)) in systems[index].1()?.into_iter().enumerate() {
                if round > 0 {
                    times[phase][index].push(time.as_secs_f64() * 1e9 / count as f64); // after one to warm up
                }
                if index == 0 {
                    counts[phase] = counted;
                }
            }
        }
    }
    for ((metric, times), counts) in metrics.iter().zip(times).zip(counts) {
        let names = systems.iter().map(|(name, _)| name.clone());
        if bench.wants(metric) {
            bench.bars = bars(metric);
            bench.report(metric, Unit::Nanoseconds, names.zip(times).collect(), Some((counts, count)));
        }
    }
    Ok(())
}

fn append_phases<F: Files>(files: &F, media: &Media, count: u64) -> Result<impl FnMut() -> Result<Vec<Spent>>> {
    let file = files.make(files.root(), "appended")?;
    Ok(move || {
        [64, PAGE]
            .into_iter()
            .map(|size| {
                let bytes = vec![b'z'; size as usize];
                let spent = spend(media, || (0..count).try_for_each(|turn| files.append(&file, turn * size, &bytes)));
                files.cut(&file)?;
                spent
            })
            .collect()
    })
}

fn appends(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let (count, media) = (bench.plan.pick(16_384, 16_384, 100), ours.store.media());
    let mut systems: Vec<System<'_>> = vec![(ours.name().into(), Box::new(append_phases(ours, media, count)?))];
    for calls in rivals {
        systems.push((calls.name().into(), Box::new(append_phases(calls, media, count)?)));
    }
    phases(bench, &["append_64", "append_4k"], count, systems)
}

fn name_phases<F: Files>(files: &F, media: &Media, count: u64) -> Result<impl FnMut() -> Result<Vec<Spent>>> {
    let directory = files.make_directory(files.root(), "names")?;
    let names: Vec<String> = (0..count).map(|index| format!("message-{index:06}")).collect();
    let others: Vec<String> = (0..count).map(|index| format!("seen-{index:06}")).collect();
    Ok(move || {
        Ok(vec![
            spend(media, || names.iter().try_for_each(|name| files.create(&directory, name)))?,
            spend(media, || {
                names.iter().zip(&others).try_for_each(|(name, other)| files.rename(&directory, name, other))
            })?,
            spend(media, || others.iter().try_for_each(|name| files.unlink(&directory, name)))?,
        ])
    })
}

fn names(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let (count, media) = (bench.plan.pick(10_000, 5000, 50), ours.store.media());
    let mut systems: Vec<System<'_>> = vec![(ours.name().into(), Box::new(name_phases(ours, media, count)?))];
    for calls in rivals {
        systems.push((calls.name().into(), Box::new(name_phases(calls, media, count)?)));
    }
    phases(bench, &["create", "rename", "unlink"], count, systems)
}

/// Runners that open files by paths of three names, and that list a directory.
fn found_by<'a, F: Files>(files: &'a F, count: u64) -> Result<(Runner<'a>, Runner<'a>)> {
    let home = files.make_directory(files.root(), "home")?;
    let mail = files.make_directory(&home, "mail")?;
    let mut paths = Vec::new();
    for index in 0..count {
        let name = format!("message-{index:06}");
        files.create(&mail, &name)?;
        paths.push(format!("home/mail/{name}"));
    }
    let mut next = 0;
    let open = Runner::new(files.name(), move |opened| {
        for _ in 0..opened {
            files.open(&paths[next]).expect("a file that was made");
            next = if next + 1 < paths.len() { next + 1 } else { 0 };
        }
    });
    let list = Runner::new(files.name(), move |lists| {
        for _ in 0..lists {
            assert_eq!(files.list(&mail).expect("a directory"), count as usize);
        }
    });
    Ok((open, list))
}

fn found(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let count = bench.plan.pick(1000, 1000, 100);
    let (open, list) = found_by(ours, count)?;
    let (mut opens, mut lists) = (vec![open.counting(ours.store.media())], vec![list.counting(ours.store.media())]);
    for calls in rivals {
        let (open, list) = found_by(calls, count)?;
        opens.push(open);
        lists.push(list);
    }
    bench.bars = bars("open");
    bench.metric("open", Unit::Nanoseconds, 0, opens);
    bench.metric("readdir_1k", Unit::Microseconds, 0, lists);
    Ok(())
}

/// Bytes that single operations log.
fn logged(bench: &mut Bench<'_>, ours: &Ours) -> Result {
    let directory = ours.make_directory(ours.root(), "logged")?;
    ours.create(&directory, "first")?; // the directory has a page
    let operations: [(&str, &dyn Fn() -> Result); 4] = [
        ("log_create", &|| ours.create(&directory, "file")),
        ("log_mkdir", &|| ours.make_directory(&directory, "folder").map(drop)),
        ("log_rename", &|| ours.rename(&directory, "file", "other")),
        ("log_unlink", &|| ours.unlink(&directory, "other")),
    ];
    for (metric, operation) in operations {
        let before = ours.volume().logged();
        operation()?;
        let bytes = (ours.volume().logged() - before) as f64;
        if bench.wants(metric) {
            bench.report(metric, Unit::Bytes, vec![(ours.name().into(), vec![bytes])], None);
        }
    }
    Ok(())
}

/// Opening a volume of many files: store and volume, after a clean end, and as a process that died
/// left them; and closing both. Each file has a page, and each fourth one an extent of four more:
/// a million files take 8 GiB, of which no byte is stored.
fn remounts(bench: &mut Bench<'_>, folder: &Path) -> Result {
    let metrics = ["remount_clean", "remount_crash", "unmount"];
    if !metrics.iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    let files: u64 = bench.plan.pick(1_000_000, 100_000, 200);
    let path = folder.join("remounted");
    let ours = Ours::create(&path)?;
    for index in 0..FOLDERS {
        let directory = ours.make_directory(ours.root(), &format!("folder-{index}"))?;
        for file in 0..files / FOLDERS {
            let made = ours.make(&directory, &format!("message-{file:06}"))?;
            made.allocate(AllocateMode::empty(), 0, PAGE)?;
            if file % 4 == 0 {
                made.allocate(AllocateMode::empty(), PAGE, 4 * PAGE)?;
            }
        }
    }
    let rounds = bench.plan.pick(5, 5, 1);
    let open = |is_clean: bool| -> Result<(f64, Ours)> {
        let start = Instant::now();
        let opened = Ours::open_again(&path)?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!(opened.volume().recovery().saved, is_clean);
        assert_eq!(opened.list(opened.root())?, FOLDERS as usize);
        Ok((took, opened))
    };
    let close = |ours: Ours| -> Result<f64> {
        let start = Instant::now();
        ours.close()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let (mut crashed, mut clean, mut closed) = (Vec::new(), Vec::new(), vec![]);
    drop(ours); // not closed, as by a process that died
    for _ in 0..rounds {
        let (took, opened) = open(false)?;
        crashed.push(took);
        drop(opened);
    }
    closed.push(close(open(false)?.1)?);
    for _ in 0..rounds {
        let (took, opened) = open(true)?;
        clean.push(took);
        closed.push(close(opened)?);
    }
    for (metric, values) in metrics.into_iter().zip([clean, crashed, closed]) {
        if bench.wants(metric) {
            bench.bars = bars(metric);
            bench.report(metric, Unit::Milliseconds, vec![(crate::ours::NAME.into(), values)], None);
        }
    }
    Ok(())
}
