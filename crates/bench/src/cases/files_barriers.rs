//! A part of `files`: the price of a slow barrier (PMFS, figure 8c). A tree of files of 4 KiB is
//! made and removed, and a file server's files are made, appended to, read and removed, on memory
//! of the profile `pmep` whose barrier takes 100, 500 or 1000 ns more.

use super::Result;
use super::files_systems::{Files, Ours};
use crate::harness::{Bench, Unit};
use crate::host;
use everbyte_media::{Options, Profile};
use everbyte_posix::OpenFile;
use std::path::Path;
use std::time::Instant;

const LATENCIES: [u32; 3] = [100, 500, 1000];
const WORK: [&str; 3] = ["make", "remove", "server"];
const FOLDERS: u64 = 20;

pub(super) fn run(bench: &mut Bench<'_>, folder: &Path) -> Result {
    let metric = |latency: u32, work: &str| format!("sensitivity_{latency}_{work}");
    let is_wanted = |latency: &u32| WORK.iter().any(|work| bench.wants(&metric(*latency, work)));
    let wanted: Vec<u32> = LATENCIES.into_iter().filter(is_wanted).collect();
    let before = std::mem::replace(&mut bench.profile, Profile::PMEP.name.into());
    let volumes = wanted.iter().map(|&latency| {
        let media = Options { profile: Profile { fence_ns: latency, ..Profile::PMEP }, ..Options::default() };
        Ours::create_on(&folder.join(format!("barrier-{latency}")), media)
    });
    let volumes = volumes.collect::<Result<Vec<_>>>()?;
    let each = bench.plan.pick(500, 100, 2);
    let (calls, bytes) = (bench.plan.pick(2000, 500, 2), bench.plan.pick(128 << 10, 128 << 10, 8 << 10));
    let mut times = vec![[const { Vec::new() }; WORK.len()]; volumes.len()];
    host::pin(0);
    for round in 0..=bench.plan.rounds {
        for (ours, times) in volumes.iter().zip(&mut times) {
            let per = |start: Instant, count: u64| start.elapsed().as_secs_f64() * 1e9 / count as f64;
            let start = Instant::now();
            let folders = make(ours, each)?;
            let made = per(start, FOLDERS * each);
            let start = Instant::now();
            remove(ours, &folders, each)?;
            let removed = per(start, FOLDERS * each);
            let start = Instant::now();
            serve(ours, bytes)(calls);
            let served = per(start, calls);
            if round > 0 {
                times.iter_mut().zip([made, removed, served]).for_each(|(times, time)| times.push(time));
            }
        }
    }
    for (&latency, times) in wanted.iter().zip(times) {
        for (work, times) in WORK.iter().zip(times) {
            let metric = metric(latency, work);
            if bench.wants(&metric) {
                bench.report(&metric, Unit::Nanoseconds, vec![(crate::ours::NAME.into(), times)], None);
            }
        }
    }
    bench.profile = before;
    Ok(())
}

/// Folders with `each` files of a page.
fn make(ours: &Ours, each: u64) -> Result<Vec<OpenFile>> {
    let page = [b'p'; 4096];
    let folder = |index: u64| {
        let folder = ours.make_directory(ours.root(), &format!("folder-{index}"))?;
        (0..each).try_for_each(|file| ours.append(&ours.make(&folder, &format!("file-{file:06}"))?, 0, &page))?;
        Ok(folder)
    };
    (0..FOLDERS).map(folder).collect()
}

fn remove(ours: &Ours, folders: &[OpenFile], each: u64) -> Result {
    for (index, folder) in folders.iter().enumerate() {
        (0..each).try_for_each(|file| ours.unlink(folder, &format!("file-{file:06}")))?;
        ours.remove_directory(ours.root(), &format!("folder-{index}"))?;
    }
    Ok(())
}

/// The work of a file server, so many times: a file of `bytes` is made, appended to by an eighth,
/// read, and removed.
pub(super) fn serve(ours: &Ours, bytes: usize) -> impl FnMut(u64) + '_ {
    let (whole, part) = (vec![b's'; bytes], vec![b't'; bytes / 8]);
    let mut into = vec![0; whole.len() + part.len()];
    move |count| {
        for _ in 0..count {
            let file = ours.make(ours.root(), "served").expect("a new file");
            ours.append(&file, 0, &whole).expect("room");
            ours.append(&file, bytes as u64, &part).expect("room");
            assert_eq!(ours.read(&file, 0, &mut into).expect("a file"), into.len());
            ours.unlink(ours.root(), "served").expect("a file");
        }
    }
}
