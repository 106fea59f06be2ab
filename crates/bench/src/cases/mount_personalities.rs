//! A part of `mount`: the work of Filebench's personalities, with generators of our own (PMFS,
//! figure 8a). Threads, directories, sizes and calls are those of the personality; the number of
//! files is scaled to the plan, and sizes are even around their mean. A thread has files of its
//! own in directories that all share.
//!
//! | personality | threads | files | one turn of a thread |
//! |---|---|---|---|
//! | fileserver | 50 | 128 KiB, 20 a directory | make and write whole; append 16 KiB; read whole; remove; stat |
//! | webserver | 100 | 16 KiB, 20 a directory | ten files read whole; 16 KiB appended to a log |
//! | webproxy | 100 | 16 KiB, one directory | remove; make and write; five files read whole; append to a log |
//! | varmail | 16 | 16 KiB, one directory | remove; make, append, fsync; read, append, fsync; read |
//! | oltp | 1, 10, 200 | ten of 10 MiB | the log 256 KiB, writers 2 KiB, both `O_DSYNC`; readers 2 KiB |

use super::Result;
use super::mount::faster_than_fuse;
use super::mount_systems::System;
use crate::harness::{Bench, Unit};
use crate::host;
use everbyte_workload::Random;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const APPENDED: u64 = 16 << 10;
const DATABASE: u64 = 10 << 20;
const DATABASES: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PersonalityKind {
    FileServer,
    WebServer,
    WebProxy,
    VarMail,
    Oltp,
}

struct Personality {
    name: &'static str,
    kind: PersonalityKind,
    threads: usize,
    /// Files in all.
    files: u64,
    /// Files of a directory.
    width: u64,
    /// The mean size.
    size: u64,
}

pub(super) fn run(bench: &mut Bench<'_>, systems: &[System]) -> Result {
    let count = |full, quick| bench.plan.pick(full, quick, 210);
    let all = [
        Personality {
            name: "fileserver",
            kind: PersonalityKind::FileServer,
            threads: 50,
            files: count(10_000, 2000),
            width: 20,
            size: 128 << 10,
        },
        Personality {
            name: "webserver",
            kind: PersonalityKind::WebServer,
            threads: 100,
            files: count(20_000, 2000),
            width: 20,
            size: 16 << 10,
        },
        Personality {
            name: "webproxy",
            kind: PersonalityKind::WebProxy,
            threads: 100,
            files: count(20_000, 2000),
            width: u64::MAX,
            size: 16 << 10,
        },
        Personality {
            name: "varmail",
            kind: PersonalityKind::VarMail,
            threads: 16,
            files: count(10_000, 1000),
            width: u64::MAX,
            size: 16 << 10,
        },
        Personality { name: "oltp", kind: PersonalityKind::Oltp, threads: 211, files: 0, width: 1, size: 0 },
    ];
    let rounds = bench.plan.rounds.min(5);
    let time = bench.plan.pick(Duration::from_secs(2), Duration::from_millis(400), Duration::ZERO);
    for of in &all {
        if !bench.wants(of.name) {
            continue;
        }
        host::unpin();
        let mut shares = systems.iter().map(|system| of.make(&system.at)).collect::<Result<Vec<_>>>()?;
        let mut values = vec![Vec::new(); systems.len()];
        for round in 0..rounds {
            for turn in 0..systems.len() {
                let index = (turn + round) % systems.len();
                let start = Instant::now();
                let calls = of.turns(&systems[index].at, &mut shares[index], time);
                values[index].push(calls as f64 / start.elapsed().as_secs_f64());
            }
        }
        for system in systems {
            std::fs::remove_dir_all(system.at.join(of.name))?;
        }
        bench.bars = faster_than_fuse();
        let names = systems.iter().map(|system| system.name.clone());
        bench.report(of.name, Unit::PerSecond, names.zip(values).collect(), None);
    }
    Ok(())
}

/// The files of a thread, and its numbers.
struct Share {
    paths: Vec<PathBuf>,
    random: Random,
    /// Room for what is read and written.
    bytes: Vec<u8>,
}

/// One turn of a thread: the operations that it has done.
type OneTurn = dyn FnMut(&mut Share) -> Result<u64>;

impl Personality {
    fn database(root: &Path, number: u64) -> PathBuf {
        root.join(format!("database-{number}"))
    }

    /// Makes the files, and deals them out to the threads.
    fn make(&self, at: &Path) -> Result<Vec<Share>> {
        let root = at.join(self.name);
        std::fs::create_dir(&root)?;
        let (mut random, bytes) = (Random::new(7), vec![b'f'; 1 << 20]);
        let mut shares: Vec<Share> = (0..self.threads)
            .map(|thread| Share { paths: vec![], random: Random::new(thread as u64 + 1), bytes: bytes.clone() })
            .collect();
        for number in 0..self.files {
            let folder = root.join(format!("folder-{}", number / self.width));
            if number % self.width == 0 {
                std::fs::create_dir(&folder)?;
            }
            let path = folder.join(format!("file-{number:06}"));
            File::create_new(&path)?.write_all(&bytes[..size(&mut random, self.size)])?;
            shares[number as usize % self.threads].paths.push(path);
        }
        if self.kind == PersonalityKind::Oltp {
            for number in 0..DATABASES {
                (0..DATABASE >> 20)
                    .try_fold(File::create_new(Personality::database(&root, number))?, |mut file, _| {
                        file.write_all(&bytes).map(|()| file)
                    })?;
            }
        }
        Ok(shares)
    }

    /// All threads take turns for so long, and one at least; the calls that they made.
    fn turns(&self, at: &Path, shares: &mut [Share], time: Duration) -> u64 {
        let (root, barrier) = (at.join(self.name), Barrier::new(shares.len()));
        std::thread::scope(|scope| {
            let (root, barrier) = (&root, &barrier);
            let running: Vec<_> = shares
                .iter_mut()
                .enumerate()
                .map(|(thread, share)| {
                    scope.spawn(move || {
                        let mut turn = self.turn(root, thread).expect("a file to work on");
                        barrier.wait();
                        let (start, mut calls) = (Instant::now(), 0);
                        loop {
                            calls += turn(share).expect("a call that succeeds");
                            if start.elapsed() >= time {
                                return calls;
                            }
                        }
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("it does its work")).sum()
        })
    }

    /// One turn of a thread, which tells how many calls of the personality it was.
    fn turn(&self, root: &Path, thread: usize) -> Result<Box<OneTurn>> {
        let mean = self.size;
        let log = || OpenOptions::new().append(true).create(true).open(root.join("log"));
        Ok(match self.kind {
            PersonalityKind::FileServer => Box::new(move |share| {
                share.remake(mean, false)?;
                append(share.any(), false)?;
                share.read()?;
                std::fs::metadata(share.any())?;
                Ok(10) // make, write, close; open, append, close; open, read, close; stat
            }),
            PersonalityKind::WebServer => {
                let mut log = log()?;
                Box::new(move |share| {
                    (0..10).try_for_each(|_| share.read())?;
                    log.write_all(&share.bytes[..APPENDED as usize])?;
                    Ok(31)
                })
            }
            PersonalityKind::WebProxy => {
                let mut log = log()?;
                Box::new(move |share| {
                    share.remake(mean, false)?;
                    (0..5).try_for_each(|_| share.read())?;
                    log.write_all(&share.bytes[..APPENDED as usize])?;
                    Ok(20)
                })
            }
            PersonalityKind::VarMail => Box::new(move |share| {
                share.remake(mean, true)?;
                let path = share.any().to_owned();
                let read = share.read_of(&path)?;
                append(&path, true)?;
                if read > 20 * mean {
                    File::options().write(true).open(&path)?.set_len(mean)?;
                }
                share.read()?;
                Ok(13)
            }),
            PersonalityKind::Oltp => {
                let synced = OFlags::DSYNC.bits() as i32;
                let flags = if thread > 10 { 0 } else { synced };
                let open = |path: &Path| File::options().read(true).write(true).custom_flags(flags).open(path);
                let databases = (0..DATABASES).map(|number| open(&Personality::database(root, number)));
                let databases = databases.collect::<std::io::Result<Vec<_>>>()?;
                let mut log = OpenOptions::new();
                log.write(true).create(true).truncate(false).custom_flags(synced);
                let (log, mut at) = (log.open(root.join("log"))?, 0);
                Box::new(move |share| {
                    let file = &databases[share.random.below(DATABASES) as usize];
                    let offset = share.random.below(DATABASE / 2048) * 2048;
                    match thread {
                        0 => {
                            log.write_all_at(&share.bytes[..256 << 10], at)?;
                            at = (at + (256 << 10)) % DATABASE;
                        }
                        1..=10 => file.write_all_at(&share.bytes[..2048], offset)?,
                        _ => file.read_exact_at(&mut share.bytes[..2048], offset)?,
                    }
                    Ok(1)
                })
            }
        })
    }
}

impl Share {
    fn any(&mut self) -> &Path {
        let index = self.random.index(self.paths.len());
        &self.paths[index]
    }

    /// Removes a file and makes it again, with other bytes.
    fn remake(&mut self, mean: u64, syncs: bool) -> Result {
        let len = size(&mut self.random, mean);
        let path = self.any().to_owned();
        std::fs::remove_file(&path)?;
        let mut file = File::create_new(&path)?;
        file.write_all(&self.bytes[..len])?;
        if syncs {
            file.sync_all()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result {
        let path = self.any().to_owned();
        self.read_of(&path).map(drop)
    }

    /// Reads a file whole.
    fn read_of(&mut self, path: &Path) -> Result<u64> {
        let (mut file, mut all) = (File::open(path)?, 0);
        loop {
            match file.read(&mut self.bytes)? {
                0 => return Ok(all),
                read => all += read as u64,
            }
        }
    }
}

fn append(path: &Path, syncs: bool) -> Result {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(&[b'a'; APPENDED as usize])?;
    if syncs {
        file.sync_all()?;
    }
    Ok(())
}

/// A size around the mean.
fn size(random: &mut Random, mean: u64) -> usize {
    (mean / 2 + random.below(mean)) as usize
}
