//! The part of the case `files` for several threads: the same operations by one thread and by two,
//! each in a directory and on files of its own; and by two threads on one volume against two
//! processes that have a store and a volume each.
//!
//! A process with a volume of its own reads lines from its input. Each names an operation and a
//! count; the process prepares, answers `ready`, waits for a line more, does the operations, and
//! answers with the nanoseconds that they took.

use super::Result;
use super::files::{Access, PAGE, accesses, filled};
use super::files_bars::TWO_THREADS;
use super::files_mapped::{Offsets, access};
use super::files_systems::{Calls, Files, Ours};
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::report::Bar;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The hidden word that makes this program a process with a volume of its own: `STORE THREAD LEN
/// NAMES`.
pub(super) const WORKER: &str = "__files";
/// The runner of two processes that have a volume each.
const APART: &str = "a volume each";

/// An operation; those on names have a number of their own for each turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Access(Access, u64, bool),
    Append(u64),
    Create,
    Rename,
    Unlink,
    Open,
    List,
    Load,
    Store,
}

/// The operations, by the end of their metrics' names.
const WORKS: [(&str, Work); 14] = [
    ("read_4k", Work::Access(Access::Read, PAGE, false)),
    ("read_4k_random", Work::Access(Access::Read, PAGE, true)),
    ("write_4k", Work::Access(Access::Write, PAGE, false)),
    ("write_4k_random", Work::Access(Access::Write, PAGE, true)),
    ("write_64", Work::Access(Access::Settled, 64, true)),
    ("append_64", Work::Append(64)),
    ("append_4k", Work::Append(PAGE)),
    ("create", Work::Create),
    ("rename", Work::Rename),
    ("unlink", Work::Unlink),
    ("open", Work::Open),
    ("readdir_1k", Work::List),
    ("mapped_read_4k", Work::Load),
    ("mapped_write_4k", Work::Store),
];

impl Work {
    fn makes_names(self) -> bool {
        matches!(self, Work::Create | Work::Rename | Work::Unlink)
    }

    /// The most operations of a round; 0: no bound.
    fn most(self, bench: &Bench<'_>) -> u64 {
        let is_bounded = self.makes_names() || matches!(self, Work::Append(_));
        if is_bounded { bench.plan.pick(20_000, 10_000, 20) } else { 0 }
    }
}

/// The files of one thread.
struct Share<F: Files> {
    names: F::File,
    file: F::File,
    len: u64,
    appended: F::File,
    listed: F::File,
    paths: Vec<String>,
}

impl<F: Files> Share<F> {
    /// A file of `len` bytes, and a directory of `names` names.
    fn make(files: &F, thread: usize, (len, names): (u64, u64)) -> Result<Share<F>> {
        let home = files.make_directory(files.root(), &format!("thread-{thread}"))?;
        let listed = files.make_directory(&home, "listed")?;
        let message = |index: u64| format!("message-{index:06}");
        (0..names).try_for_each(|index| files.create(&listed, &message(index)))?;
        Ok(Share {
            file: filled(files, &format!("of-thread-{thread}"), len)?,
            len,
            appended: files.make(&home, "appended")?,
            names: files.make_directory(&home, "names")?,
            paths: (0..names).map(|index| format!("thread-{thread}/listed/{}", message(index))).collect(),
            listed,
        })
    }

    /// Does so many operations when `start` returns; the time that they took.
    fn work(&self, files: &F, work: Work, count: u64, start: impl FnOnce() -> Result) -> Result<Duration> {
        let prepared = self.prepare(files, work, count);
        start()?;
        let mut run = prepared?;
        let begun = Instant::now();
        run()?;
        let took = begun.elapsed();
        drop(run);
        match work {
            Work::Create => numbered("message", count).try_for_each(|name| files.unlink(&self.names, &name))?,
            Work::Rename => numbered("seen", count).try_for_each(|name| files.unlink(&self.names, &name))?,
            Work::Append(_) => files.cut(&self.appended)?,
            _ => (),
        }
        Ok(took)
    }

    fn prepare<'a>(&'a self, files: &'a F, work: Work, count: u64) -> Result<Box<dyn FnMut() -> Result + 'a>> {
        let names: Vec<String> = numbered("message", if work.makes_names() { count } else { 0 }).collect();
        if matches!(work, Work::Rename | Work::Unlink) {
            names.iter().try_for_each(|name| files.create(&self.names, name))?;
        }
        let directory = &self.names;
        Ok(match work {
            Work::Access(how, size, random) => {
                let mut run = accesses(files, &self.file, (self.len, size), how, random);
                Box::new(move || {
                    run(count);
                    Ok(())
                })
            }
            Work::Append(size) => {
                let bytes = vec![b'z'; size as usize];
                Box::new(move || (0..count).try_for_each(|turn| files.append(&self.appended, turn * size, &bytes)))
            }
            Work::Create => Box::new(move || names.iter().try_for_each(|name| files.create(directory, name))),
            Work::Rename => {
                let others: Vec<String> = numbered("seen", count).collect();
                Box::new(move || {
                    names.iter().zip(&others).try_for_each(|(name, other)| files.rename(directory, name, other))
                })
            }
            Work::Unlink => Box::new(move || names.iter().try_for_each(|name| files.unlink(directory, name))),
            Work::Open => {
                Box::new(move || self.paths.iter().cycle().take(count as usize).try_for_each(|path| files.open(path)))
            }
            Work::List => Box::new(move || {
                (0..count).try_for_each(|_| {
                    assert_eq!(files.list(&self.listed)?, self.paths.len());
                    Ok(())
                })
            }),
            Work::Load | Work::Store => {
                let map = files.map(&self.file, self.len)?;
                let (mut offsets, mut bytes) = (Offsets::new(self.len, PAGE), vec![b'm'; PAGE as usize]);
                Box::new(move || access(&*map, &mut offsets, &mut bytes, work == Work::Store, count).map(drop))
            }
        })
    }
}

fn numbered(word: &str, count: u64) -> impl Iterator<Item = String> {
    (0..count).map(move |index| format!("{word}-{index:06}"))
}

/// The bytes of a thread's file, in the caches of a core: two threads would share the memory's
/// bandwidth otherwise. And the names of its directory.
fn sizes(bench: &Bench<'_>) -> (u64, u64) {
    bench.plan.pick((512 << 10, 1000), (512 << 10, 1000), (64 << 10, 20))
}

fn shares<F: Files>(files: &F, sizes: (u64, u64)) -> Result<Vec<Share<F>>> {
    (0..2).map(|thread| Share::make(files, thread, sizes)).collect()
}

/// A runner with a thread for each of these shares. Its operations are those of all threads
/// together.
fn together<'a, F: Files>(files: &'a F, shares: &'a [Share<F>], work: Work) -> Runner<'a> {
    Runner::timed(files.name(), move |count| {
        let (each, barrier) = (count.div_ceil(shares.len() as u64), Barrier::new(shares.len()));
        let one = |thread: usize| {
            host::pin(thread);
            let start = || {
                barrier.wait();
                Ok(())
            };
            shares[thread].work(files, work, each, start).expect("files of its own")
        };
        std::thread::scope(|scope| {
            let one = &one;
            let running: Vec<_> = (0..shares.len()).map(|thread| scope.spawn(move || one(thread))).collect();
            running.into_iter().map(|thread| thread.join().expect("it does its work")).max().unwrap_or_default()
        })
    })
}

pub(super) fn threads(bench: &mut Bench<'_>, ours: &Ours, rivals: &[Calls]) -> Result {
    let metric = |threads: usize, name: &str| format!("threads_{threads}_{name}");
    if !WORKS.iter().any(|(name, _)| [1, 2].iter().any(|&count| bench.wants(&metric(count, name)))) {
        return Ok(());
    }
    let sizes = sizes(bench);
    let mine = shares(ours, sizes)?;
    let theirs = rivals.iter().map(|calls| shares(calls, sizes)).collect::<Result<Vec<_>>>()?;
    for (name, work) in WORKS {
        let mut of_one = f64::NAN;
        for threads in [1, 2] {
            let mut runners = vec![together(ours, &mine[..threads], work)];
            let theirs = rivals.iter().zip(&theirs);
            runners.extend(theirs.map(|(calls, shares)| together(calls, &shares[..threads], work)));
            if threads == 2 {
                bench.bars = vec![Bar::than("one thread", of_one, TWO_THREADS)];
            }
            of_one = bench.metric(&metric(threads, name), Unit::PerSecond, work.most(bench), runners).ours;
        }
    }
    Ok(())
}

/// A process with a volume of its own.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(store: &Path, thread: usize, (len, names): (u64, u64)) -> Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORKER).arg(store).args([thread as u64, len, names].map(|number| number.to_string()));
        host::unpin();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("a pipe")?);
        Ok(Worker { input: child.stdin.take(), child, answers })
    }

    fn tell(&mut self, words: &str) -> Result {
        Ok(self.input.as_mut().ok_or("a pipe")?.write_all(format!("{words}\n").as_bytes())?)
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("a process with a volume of its own has ended".into()),
            _ => Ok(line.trim().into()),
        }
    }
}

/// The process ends with its input.
impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// The life of a process with a volume of its own.
///
/// # Errors
/// Those of the volume.
pub(super) fn worker(words: &[String]) -> Result {
    let [store, thread, len, names] = words else { return Err("a worker is STORE THREAD LEN NAMES".into()) };
    let thread = thread.parse()?;
    host::pin(thread);
    let ours = Ours::create(Path::new(store))?;
    let share = Share::make(&ours, thread, (len.parse()?, names.parse()?))?;
    let mut lines = stdin().lines();
    while let Some(line) = lines.next() {
        let line = line?;
        let (name, count) = line.split_once(' ').ok_or("an operation and a count")?;
        let (_, work) = WORKS.iter().find(|(other, _)| *other == name).ok_or("no such operation")?;
        let took = share.work(&ours, *work, count.parse()?, || {
            println!("ready");
            lines.next().ok_or("no word to start")??;
            Ok(())
        })?;
        println!("{}", took.as_nanos());
    }
    Ok(())
}

/// The time that so many operations took in processes that began together.
fn apart(workers: &mut [Worker], name: &str, count: u64) -> Result<Duration> {
    let each = count.div_ceil(workers.len() as u64);
    workers.iter_mut().try_for_each(|worker| worker.tell(&format!("{name} {each}")))?;
    for worker in &mut *workers {
        assert_eq!(worker.answer()?, "ready");
    }
    workers.iter_mut().try_for_each(|worker| worker.tell("start"))?;
    let mut most = 0;
    for worker in workers {
        most = worker.answer()?.parse::<u64>()?.max(most);
    }
    Ok(Duration::from_nanos(most))
}

/// Two threads on one volume, against two processes with stores and volumes of their own.
pub(super) fn volumes(bench: &mut Bench<'_>, folder: &Path) -> Result {
    let metric = |name: &str| format!("volumes_2_{name}");
    if !WORKS.iter().any(|(name, _)| bench.wants(&metric(name))) {
        return Ok(());
    }
    let sizes = sizes(bench);
    let start = |thread| Worker::start(&folder.join(format!("of-process-{thread}")), thread, sizes);
    let mut workers = [start(0)?, start(1)?];
    let ours = Ours::create(&folder.join("shared"))?;
    let shares = shares(&ours, sizes)?;
    for (name, work) in WORKS {
        let shared = together(&ours, &shares, work);
        let apart = Runner::timed(APART, |count| apart(&mut workers, name, count).expect("two processes that work"));
        bench.bars = vec![Bar::new(APART, 0.95)];
        bench.metric(&metric(name), Unit::PerSecond, work.most(bench), vec![shared, apart]);
    }
    Ok(())
}
