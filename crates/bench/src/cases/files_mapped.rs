//! The mapped part of the case `files`: random loads and stores of 64 bytes to 256 KiB, with pages
//! of 4 KiB that the first access maps, with pages of 4 KiB and of 2 MiB that are mapped ahead; and
//! a volume that ages.
//!
//! Stores are durable every 256 KiB: ours are flushed as they are made, and a fence settles them;
//! ext4 and tmpfs get an msync, which does nothing on tmpfs.

use super::Result;
use super::files_bars::bars;
use super::files_systems::{Calls, Files, Ours};
use crate::harness::{Bench, Runner, Unit};
use everbyte_bench_rivals::MappedFile;
use everbyte_fs::{Allocate, FileMap, MapOptions, MapPages, VolumeOptions};
use everbyte_posix::OpenFile;
use everbyte_workload::Random;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of stores that one fence or msync settles.
const SETTLED: u64 = 256 << 10;
const MIB: u64 = 1 << 20;

/// Bytes of an access.
const SIZES: [u64; 5] = [64, 512, 4096, 32 << 10, 256 << 10];

/// How a range is mapped: part of the metric's name, pages, and whether they are mapped ahead.
const HOW: [(&str, MapPages, bool); 3] =
    [("", MapPages::Small, false), ("_populated", MapPages::Small, true), ("_2m", MapPages::Large, true)];

/// The random offsets of accesses to a file.
pub(super) struct Offsets(Random, u64, u64);

impl Offsets {
    pub(super) fn new(len: u64, size: u64) -> Offsets {
        Offsets(Random::new(9), len / size, size)
    }

    fn next(&mut self) -> u64 {
        self.0.below(self.1) * self.2
    }
}

/// Something mapped.
pub(super) trait Mapped {
    fn read(&self, at: u64, into: &mut [u8]) -> Result;
    fn write(&self, at: u64, bytes: &[u8]) -> Result;
    fn settle(&self) -> Result;
}

impl Mapped for FileMap {
    fn read(&self, at: u64, into: &mut [u8]) -> Result {
        Ok(FileMap::read(self, at, into)?)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result {
        FileMap::write(self, at, bytes)?;
        Ok(self.flush(at, bytes.len() as u64)?)
    }

    fn settle(&self) -> Result {
        self.fence();
        Ok(())
    }
}

impl Mapped for MappedFile {
    fn read(&self, at: u64, into: &mut [u8]) -> Result {
        MappedFile::read(self, at, into);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result {
        MappedFile::write(self, at, bytes);
        Ok(())
    }

    fn settle(&self) -> Result {
        Ok(self.sync()?)
    }
}

/// Does `count` accesses; the time that they took.
pub(super) fn access(
    map: &dyn Mapped,
    offsets: &mut Offsets,
    bytes: &mut [u8],
    writes: bool,
    count: u64,
) -> Result<Duration> {
    let mut unsettled = 0;
    let start = Instant::now();
    for _ in 0..count {
        let at = offsets.next();
        if !writes {
            map.read(at, bytes)?;
            black_box(&bytes);
            continue;
        }
        map.write(at, bytes)?;
        unsettled += bytes.len() as u64;
        if unsettled >= SETTLED {
            map.settle()?;
            unsettled = 0;
        }
    }
    Ok(start.elapsed())
}

/// A runner of accesses to what `map` maps: once, or anew for each round, so that pages are mapped
/// as they are met.
fn runner<'a, M: Mapped + 'a>(
    name: &str,
    (len, size): (u64, u64),
    (writes, is_kept): (bool, bool),
    map: impl Fn() -> Result<M> + 'a,
) -> Runner<'a> {
    let (mut offsets, mut bytes, mut kept) = (Offsets::new(len, size), vec![b'm'; size as usize], None);
    Runner::timed(name, move |count| {
        let mapped = kept.take().unwrap_or_else(|| map().expect("a mapping"));
        let took = access(&mapped, &mut offsets, &mut bytes, writes, count).expect("inside of the file");
        kept = is_kept.then_some(mapped);
        took
    })
}

/// A file of `len` bytes, in large pages if it is long enough.
fn ours_of(ours: &Ours, name: &str, len: u64) -> Result<OpenFile> {
    let file = ours.make(ours.root(), name)?;
    ours.volume().allocate(file.ino(), 0, len, Allocate::KeepSize)?;
    let part = vec![b'x'; MIB.min(len) as usize];
    (0..len).step_by(part.len()).try_for_each(|at| ours.append(&file, at, &part))?;
    Ok(file)
}

/// Of a hundred bytes of a mapping, those that pages of 2 MiB map, as the system tells.
fn large_percent(map: &FileMap) -> Result<f64> {
    let address = map.as_ptr().ok_or("the file lies in parts")?.as_ptr().addr();
    let (mut is_inside, mut found) = (false, 0_u64);
    for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let parsed = range
            .and_then(|(from, to)| Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?)));
        if let Some((from, to)) = parsed {
            is_inside = from < address + map.len() as usize && address < to;
        }
        if let (true, Some(rest)) = (is_inside, line.strip_prefix("ShmemPmdMapped:")) {
            found += rest.trim().trim_end_matches(" kB").parse::<u64>()? << 10;
        }
    }
    Ok(found.min(map.len()) as f64 * 100.0 / map.len() as f64)
}

pub(super) fn accesses(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let sizes: &[u64] = bench.plan.pick(&SIZES, &SIZES, &[64, 4096]);
    if !bench.wants("mapped") && !bench.plan.only.starts_with("mapped") {
        return Ok(());
    }
    let len = bench.plan.pick(256 * MIB, 64 * MIB, 64 << 10);
    let mine = ours_of(ours, "mapped", len)?;
    let theirs: Vec<_> = rivals.iter().map(|calls| calls.make(calls.root(), "mapped")).collect::<Result<_>>()?;
    let part = vec![b'x'; MIB.min(len) as usize];
    for (calls, file) in rivals.iter().zip(&theirs) {
        (0..len).step_by(part.len()).try_for_each(|at| calls.append(file, at, &part))?;
    }
    let options = |pages, populate| MapOptions { writable: true, populate, pages, ..MapOptions::default() };
    let map = |pages, populate| Ok(ours.volume().map(mine.ino(), 0, len, &options(pages, populate))?);
    for (verb, writes) in [("read", false), ("write", true)] {
        for &size in sizes {
            for (how, pages, populate) in HOW {
                let shape = ((len, size), (writes, populate));
                let mut runners = vec![runner(ours.name(), shape.0, shape.1, move || map(pages, populate))];
                for (calls, file) in rivals.iter().zip(&theirs) {
                    let map = move || Ok(MappedFile::of(file.try_clone()?, populate)?);
                    runners.push(runner(calls.name(), shape.0, shape.1, map));
                }
                let metric = format!("mapped_{verb}_{size}{how}");
                bench.bars = bars(&metric);
                bench.metric(&metric, Unit::Nanoseconds, 0, runners);
            }
        }
    }
    if len < 2 * MIB {
        bench.skipped("mapped_large_percent", "the file is shorter than a page of 2 MiB");
    } else if bench.wants("mapped_large_percent") {
        let share = vec![large_percent(&map(MapPages::Large, true)?)?];
        bench.report("mapped_large_percent", Unit::Percent, vec![(ours.name().into(), share)], None);
    }
    Ok(())
}

/// The figures of a volume: nanoseconds of a read and of a write of 4 KiB at random, and the share
/// of pages that lie in aligned runs of 2 MiB.
fn figures(ours: &Ours, files: &[OpenFile], len: u64, count: u64) -> Result<[f64; 3]> {
    let (mut random, mut bytes) = (Random::new(3), vec![b'q'; 4096]);
    let mut spend = |work: &mut dyn FnMut(&OpenFile, u64, &mut [u8]) -> Result| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            work(&files[random.index(files.len())], random.below(len / 4096) * 4096, &mut bytes)?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
    };
    let read = spend(&mut |file, at, bytes| ours.read(file, at, bytes).map(drop))?;
    let write = spend(&mut |file, at, bytes| ours.write(file, at, bytes))?;
    let pages = ours.volume().all_pages();
    Ok([read, write, pages.aligned as f64 * 100.0 / pages.allocated as f64])
}

/// Fills a volume to four fifths, seven eighths of them in files of 2 MiB pages, and writes ten
/// times its size: bytes of these at random, whole ones anew, and files of small pages that come
/// and go.
pub(super) fn aging(bench: &mut Bench<'_>, folder: &Path) -> Result {
    let metrics = ["aged_read", "aged_write", "aged_large_percent"];
    if !metrics.iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    let size = bench.plan.pick(1024 * MIB, 256 * MIB, 16 * MIB);
    let options = VolumeOptions { span: Some(size), ..VolumeOptions::default() };
    let ours = Ours::create_with(&folder.join("aged"), &options)?;
    let (len, mut files, mut small) = (4 * MIB, Vec::new(), Vec::new());
    let fill = |name: &str| ours_of(&ours, name, len);
    while (files.len() as u64 + 1) * len <= size / 10 * 7 {
        files.push(fill(&format!("large-{}", files.len()))?);
    }
    let make_small = |index: u64| -> Result<OpenFile> {
        let file = ours.make(ours.root(), &format!("small-{index}"))?;
        ours.append(&file, 0, &vec![b's'; 100_000])?;
        Ok(file)
    };
    for index in 0..size / 10 / 100_000 {
        small.push(make_small(index)?);
    }
    let count = bench.plan.pick(100_000, 50_000, 200);
    let fresh = figures(&ours, &files, len, count)?;
    let (mut random, mut written) = (Random::new(4), 0);
    let bytes = vec![b'r'; MIB as usize];
    while written < bench.plan.pick(10, 10, 1) * size {
        let index = random.index(files.len());
        match random.below(10) {
            0 => {
                ours.unlink(ours.root(), &format!("large-{index}"))?;
                files[index] = fill(&format!("large-{index}"))?;
                written += len;
            }
            1 if !small.is_empty() => {
                let index = random.index(small.len());
                ours.unlink(ours.root(), &format!("small-{index}"))?;
                small[index] = make_small(index as u64)?;
                written += 100_000;
            }
            _ => {
                let most = random.pick(&[4096, 64 << 10, MIB]);
                let part = 1 + random.below(most);
                ours.write(&files[index], random.below(len - part), &bytes[..part as usize])?;
                written += part;
            }
        }
    }
    let aged = figures(&ours, &files, len, count)?;
    for (index, metric) in metrics.into_iter().enumerate() {
        if bench.wants(metric) {
            let unit = if index == 2 { Unit::Percent } else { Unit::Nanoseconds };
            let values = vec![(ours.name().into(), vec![aged[index]]), ("fresh".into(), vec![fresh[index]])];
            bench.bars = bars(metric);
            bench.report(metric, unit, values, None);
        }
    }
    Ok(())
}
