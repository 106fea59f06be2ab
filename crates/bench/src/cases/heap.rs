//! `heap`: objects of a store against files that are mapped, on tmpfs and on a disk: made and
//! touched, opened and touched, a cluster more, a cluster less. The files are not synced; objects
//! are whole or absent after a crash, on shared memory.
//!
//! The same in fresh space: in stores made just now, of objects after the first MiB; the space
//! prepared in the background is ready, as it is when a program does something else in between.
//!
//! CPU time is measured whole: objects made are removed again, and all threads count. Opened
//! *cold*: by a store that was opened just now, which has seen none of its objects; of files the
//! system has nothing in memory.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host::{self, cpu_time};
use crate::ours::NAME;
use everbyte_bench_rivals::MappedFile;
use everbyte_media::Options;
use everbyte_store::{CLUSTER, CreateOptions, Error, Object, ObjectOptions, Store};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Clusters that an object grows by, one after the other, before it is made anew; and objects made
/// before they are removed. Released space is cleared before the next are timed, as it is when a
/// program does something else in between.
const GROWTH: u64 = 128;

/// Offset of the word that is touched: behind the header, in the first page.
const TOUCHED: u64 = 2048;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Metric {
    Create,
    Attach,
    Expand,
    Shrink,
    CreateNew,
    ExpandNew,
}

const METRICS: [(Metric, &str); 6] = [
    (Metric::Create, "create"),
    (Metric::Attach, "attach"),
    (Metric::Expand, "expand"),
    (Metric::Shrink, "shrink"),
    (Metric::CreateNew, "create_new"),
    (Metric::ExpandNew, "expand_new"),
];

fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *sum += start.elapsed();
    done
}

/// CPU time of all threads for making and removing, or growing and shrinking.
const CPU: [(Metric, &str); 4] = [
    (Metric::Create, "cpu_create"),
    (Metric::Expand, "cpu_expand"),
    (Metric::CreateNew, "cpu_create_new"),
    (Metric::ExpandNew, "cpu_expand_new"),
];

/// Clusters that objects of a new store get before they are timed: after sixteen more are prepared,
/// by a thread that starts then.
const BEFORE: u64 = 20;

/// CPU time of some work, of all threads of this process together.
fn spent(work: impl FnOnce() -> Result<Duration>) -> Result<Duration> {
    let before = cpu_time();
    work()?;
    Ok(cpu_time() - before)
}

struct Objects(Store);

fn options() -> CreateOptions {
    CreateOptions { media: Options::default(), max: 1 << 40, ..CreateOptions::default() }
}

impl Objects {
    /// Those of a store made just now, beside this one; gone with what it returns first.
    fn anew(&self) -> Result<(tempfile::TempDir, Objects)> {
        let beside = self.0.media().path().parent().ok_or("a store lies in a folder")?;
        let folder = tempfile::tempdir_in(beside)?;
        let objects = Objects(Store::create(&folder.path().join("new"), &options())?);
        host::unpin(); // its thread is to have a CPU of its own
        Ok((folder, objects))
    }

    /// Makes those that are opened.
    fn keep(&self) -> Result {
        (0..KEPT).try_for_each(|number| self.create(&format!("old/{number}")).map(drop))
    }

    fn create(&self, name: &str) -> Result<Object> {
        let options =
            ObjectOptions { span: Some((GROWTH + 1).next_power_of_two() * CLUSTER), ..ObjectOptions::default() };
        let object = self.0.create_object(name, options, |_| Ok::<(), Error>(()))?;
        touch(&self.0, (object.prime() + TOUCHED).get());
        Ok(object)
    }

    fn run(&self, metric: Metric, count: u64) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        match metric {
            Metric::Create => {
                for first in (0..count).step_by(GROWTH as usize) {
                    let numbers = first..count.min(first + GROWTH);
                    for number in numbers.clone() {
                        timed(&mut sum, || self.create(&format!("new/{number}")).map(drop))?;
                    }
                    numbers.into_iter().try_for_each(|number| self.0.remove_object(&format!("new/{number}")))?;
                    self.0.clear_released();
                }
            }
            Metric::Attach => {
                for number in 0..count {
                    let name = format!("old/{}", number % KEPT);
                    let object = timed(&mut sum, || {
                        let object = self.0.object(&name)?;
                        touch(&self.0, (object.prime() + TOUCHED).get());
                        Ok::<_, Error>(object)
                    })?;
                    drop(object);
                }
            }
            Metric::Expand | Metric::Shrink => {
                for first in (0..count).step_by(GROWTH as usize) {
                    let (object, steps) = (self.create("grown")?, GROWTH.min(count - first));
                    let mut grown = Vec::new();
                    let (mut growing, mut shrinking) = (Duration::ZERO, Duration::ZERO);
                    timed(&mut growing, || -> Result {
                        for _ in 0..steps {
                            let range = object.grow(CLUSTER)?;
                            touch(&self.0, range.start);
                            grown.push(range);
                        }
                        Ok(())
                    })?;
                    timed(&mut shrinking, || grown.into_iter().rev().try_for_each(|range| object.release(range)))?;
                    sum += if metric == Metric::Expand { growing } else { shrinking };
                    drop(object);
                    self.0.remove_object("grown")?;
                    self.0.clear_released();
                }
            }
            Metric::CreateNew | Metric::ExpandNew => {
                for first in (0..count).step_by(GROWTH as usize) {
                    let (folder, new) = self.anew()?;
                    let object = new.create("grown")?;
                    for number in 0..BEFORE + GROWTH.min(count - first) {
                        if number == BEFORE {
                            host::pin(0);
                        }
                        let mut spent = Duration::ZERO;
                        timed(&mut spent, || -> Result {
                            if metric == Metric::CreateNew {
                                new.create(&format!("new/{number}"))?;
                            } else {
                                touch(&new.0, object.grow(CLUSTER)?.start);
                            }
                            Ok(())
                        })?;
                        sum += if number < BEFORE { Duration::ZERO } else { spent };
                        new.0.clear_released();
                    }
                    drop((object, new, folder));
                }
            }
        }
        Ok(sum)
    }
}

fn touch(store: &Store, at: u64) {
    store.media().store(at, store.media().load(at) + 1);
}

/// Objects, and files, that are there to be opened.
const KEPT: u64 = 64;

struct Files(PathBuf);

impl Files {
    fn run(&self, metric: Metric, count: u64) -> Result<Duration> {
        let (mut sum, path) = (Duration::ZERO, |name: &str, number: u64| self.0.join(format!("{name}{number}")));
        match metric {
            Metric::Create | Metric::CreateNew => {
                for number in 0..count {
                    let path = path("new", number);
                    timed(&mut sum, || MappedFile::create(&path, CLUSTER).map(drop))?;
                }
                (0..count).try_for_each(|number| std::fs::remove_file(path("new", number)))?;
            }
            Metric::Attach => {
                for number in 0..count {
                    let path = path("old", number % KEPT);
                    timed(&mut sum, || MappedFile::open(&path).map(drop))?;
                }
            }
            Metric::Expand | Metric::Shrink | Metric::ExpandNew => {
                for first in (0..count).step_by(GROWTH as usize) {
                    let (path, steps) = (path("grown", 0), GROWTH.min(count - first));
                    let mut file = MappedFile::create(&path, CLUSTER)?;
                    let (mut growing, mut shrinking) = (Duration::ZERO, Duration::ZERO);
                    timed(&mut growing, || (0..steps).try_for_each(|_| file.grow(CLUSTER)))?;
                    timed(&mut shrinking, || (0..steps).try_for_each(|_| file.shrink(CLUSTER)))?;
                    sum += if metric == Metric::Shrink { shrinking } else { growing };
                    drop(file);
                    std::fs::remove_file(path)?;
                }
            }
        }
        Ok(sum)
    }
}

fn files(folder: &Path) -> Result<Files> {
    let files = Files(folder.into());
    for number in 0..KEPT {
        MappedFile::create(&folder.join(format!("old{number}")), CLUSTER)?;
    }
    Ok(files)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let memory = tempfile::tempdir_in(&bench.plan.memory)?;
    let disk = tempfile::tempdir_in(&bench.plan.disk)?;
    let objects = Objects(Store::create(&memory.path().join("store"), &options())?);
    objects.keep()?;
    host::unpin(); // the thread that clears starts here, and is to have a CPU of its own
    objects.run(Metric::Shrink, GROWTH)?;
    let (on_memory, on_disk) = (files(memory.path())?, files(disk.path())?);
    bench.on(objects.0.media());
    let most = bench.plan.pick(2000, 500, 4);
    for (metric, name) in METRICS {
        let failed = "an object, or a file, that can be had";
        let runners = vec![
            Runner::timed(NAME, |count| objects.run(metric, count).expect(failed)).counting(objects.0.media()),
            Runner::timed("mmap-tmpfs", |count| on_memory.run(metric, count).expect(failed)),
            Runner::timed("mmap-disk", |count| on_disk.run(metric, count).expect(failed)),
        ];
        bench.metric(name, Unit::Microseconds, most, runners);
    }
    for (metric, name) in CPU {
        let failed = "an object, or a file, that can be had";
        let runners = vec![
            Runner::timed(NAME, |count| spent(|| objects.run(metric, count)).expect(failed)),
            Runner::timed("mmap-tmpfs", |count| spent(|| on_memory.run(metric, count)).expect(failed)),
            Runner::timed("mmap-disk", |count| spent(|| on_disk.run(metric, count)).expect(failed)),
        ];
        bench.metric(name, Unit::Microseconds, most, runners);
    }
    drop(objects);
    cold(bench, &memory.path().join("store"), &on_disk)
}

/// Opened after a cold start, once each: objects on memory, and those of a store on the disk, which
/// it has to be asked for as for the files.
fn cold(bench: &mut Bench<'_>, on_memory: &Path, files: &Files) -> Result {
    let on_disk = files.0.join("store");
    let objects = Objects(Store::create(&on_disk, &options())?);
    objects.keep()?;
    objects.0.close()?;
    drop(objects);
    let folder = File::open(&files.0)?;
    let tiny = bench.plan.smoke;
    let forget = || if tiny { Ok(()) } else { forget_files(&folder) };
    if let Err(error) = forget() {
        bench.skipped("attach_cold", &format!("the system's caches cannot be dropped: {error}"));
        return Ok(());
    }
    let opened = |count: u64| {
        forget()?;
        files.run(Metric::Attach, count)
    };
    let reopened = |path: &Path, count: u64| {
        forget()?;
        Objects(Store::open(path, &Options::default())?).run(Metric::Attach, count)
    };
    let runners = |path: PathBuf| {
        let failed = "an object, or a file, that can be had";
        vec![
            Runner::timed(NAME, move |count| reopened(&path, count).expect(failed)),
            Runner::timed("mmap-disk", move |count| opened(count).expect(failed)),
        ]
    };
    let (memory, disk) = (runners(on_memory.into()), runners(on_disk));
    bench.metric("attach_cold", Unit::Microseconds, KEPT, memory);
    bench.backend = "file".into();
    bench.metric("attach_cold_disk", Unit::Microseconds, KEPT, disk);
    Ok(())
}

/// Has the system drop its cache of a disk's files: pages, inodes, names. Files that only memory
/// holds stay.
fn forget_files(folder: &File) -> Result {
    rustix::fs::syncfs(folder)?;
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "3")?)
}
