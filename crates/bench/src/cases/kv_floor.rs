//! `kv-floor`: durable puts on a disk beside the least that one can cost there, a synced write of
//! as many bytes as a put logs. With several threads that write is shared by all that wait
//! meanwhile; nothing else is done, so what remains is the disk, the kernel and the switches
//! between threads.

use super::Result;
use super::kv::{load, put, put_many};
use crate::harness::{Bench, Runner, Unit};
use crate::ours::{self, Ours};
use everbyte_workload::Random;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Condvar, Mutex};

/// Bytes that a put of 24 and 100 bytes logs, in whole sectors.
const RECORD: u64 = 1024;
/// Bytes of the file, which is written in a circle.
const FILE: u64 = 16 << 20;
/// Records that one write carries at most.
const MOST: usize = 64;

/// Memory that a disk takes without a copy.
#[repr(align(4096))]
struct Pages([u8; MOST * RECORD as usize]);

/// A log of records that mean nothing: each append returns when a write that carries it is synced.
struct EmptyLog {
    file: File,
    pages: Box<Pages>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Appends that were asked for.
    asked: u64,
    /// Those that are synced.
    synced: u64,
    /// A thread writes.
    is_writing: bool,
}

impl EmptyLog {
    /// A file of zeros that is written past the cache where the file system allows it.
    fn create(folder: &Path) -> Result<EmptyLog> {
        let path = folder.join("log");
        let pages = Box::new(Pages([0; MOST * RECORD as usize]));
        let plain = File::create(&path)?;
        for at in (0..FILE).step_by(pages.0.len()) {
            plain.write_all_at(&pages.0, at)?;
        }
        plain.sync_all()?;
        let open = |flags: OFlags| OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(&path);
        let file = open(OFlags::DIRECT | OFlags::DSYNC).or_else(|_| open(OFlags::DSYNC))?;
        Ok(EmptyLog { file, pages, queue: Mutex::default(), changed: Condvar::new() })
    }

    fn append(&self) {
        let mut queue = self.queue.lock().expect("no append panics under the lock");
        queue.asked += 1;
        let mine = queue.asked;
        while queue.synced < mine {
            if queue.is_writing {
                queue = self.changed.wait(queue).expect("no append panics under the lock");
                continue;
            }
            queue.is_writing = true;
            let from = queue.synced;
            let to = queue.asked.min(from + MOST as u64);
            drop(queue);
            let len = (to - from) * RECORD;
            let at = (from * RECORD) % (FILE - self.pages.0.len() as u64);
            self.file.write_all_at(&self.pages.0[..len as usize], at).expect("a synced write that must succeed");
            queue = self.queue.lock().expect("no append panics under the lock");
            (queue.synced, queue.is_writing) = (to, false);
            self.changed.notify_all();
        }
    }

    fn append_many(&self, count: u64, threads: u64) {
        crate::host::unpin();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let share = count / threads + u64::from(thread < count % threads);
                scope.spawn(move || (0..share).for_each(|_| self.append()));
            }
        });
        crate::host::pin(0);
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(200_000, 20_000, 100);
    let most = bench.plan.pick(20_000, 4_000, 8);
    let folder = tempfile::tempdir_in(&bench.plan.disk)?;
    let ours = Ours::open(folder.path())?;
    load(&ours, keys)?;
    let log = EmptyLog::create(folder.path())?;
    bench.on(ours.store.media());
    for threads in [1, 8, 16] {
        let mut random = Random::new(7);
        let puts = Runner::new(ours::NAME, |count| match threads {
            1 => put(&ours, &mut random, keys, count),
            _ => put_many(&ours, &mut random, keys, count, threads),
        });
        let writes = Runner::new("synced write", |count| match threads {
            1 => (0..count).for_each(|_| log.append()),
            _ => log.append_many(count, threads),
        });
        let runners = vec![puts.counting(ours.store.media()), writes];
        bench.metric(&format!("put_disk_{threads}_floor"), Unit::PerSecond, most, runners);
    }
    Ok(())
}
