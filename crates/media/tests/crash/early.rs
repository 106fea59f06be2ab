//! The thread that writes a batch which is half full: beside callers, with a disk that fails or
//! panics under it, and while the store is closed. Writes of the log wait until the test says so.

use crate::program::{DATA, LOG_AT, LOG_LEN, fresh, open, options};
use everbyte_media::{Disk, Durability, Error, Media, OpenOptions, Options, museum};
use everbyte_sim::{PowerCut, RecordedDisk};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex};

/// Lines of more than half of a batch, which holds 62 lines in one run.
const HALF: u64 = 32;

#[derive(Default)]
struct Progress {
    /// Writes of the log wait.
    held: bool,
    /// Writes of the log begun and ended.
    begun: usize,
    ended: usize,
    fault: Option<Fault>,
}

/// The end of the next write of the log.
#[derive(Clone, Copy)]
enum Fault {
    Error,
    Panic,
}

/// A disk whose writes of the log are held.
struct Held {
    disk: Arc<RecordedDisk>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Held {
    /// A fresh store and its disk, which holds the first record.
    fn open() -> (Arc<Held>, Media) {
        let disk = RecordedDisk::new(&fresh()).unwrap();
        let progress = Mutex::new(Progress { held: true, ..Progress::default() });
        let held = Arc::new(Held { disk, progress, changed: Condvar::new() });
        let options = Options { background: true, ..options(Durability::Always) };
        let media = OpenOptions::new("held").on_disk(held.clone()).open(&options).unwrap();
        (held, media)
    }

    fn wait(&self, until: impl Fn(&Progress) -> bool) {
        drop(self.changed.wait_while(self.progress.lock().unwrap(), |progress| !until(progress)).unwrap());
    }

    fn change<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let result = change(&mut self.progress.lock().unwrap());
        self.changed.notify_all();
        result
    }

    fn release(&self) {
        self.change(|progress| progress.held = false);
    }
}

impl Disk for Held {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if !(LOG_AT..LOG_AT + LOG_LEN).contains(&at) {
            return self.disk.write_sync_at(at, bytes);
        }
        self.change(|progress| progress.begun += 1);
        self.wait(|progress| !progress.held);
        match self.change(|progress| progress.fault.take()) {
            Some(Fault::Error) => return Err(io::Error::from_raw_os_error(libc::EIO)),
            Some(Fault::Panic) => panic!("the disk's own bug"),
            None => {}
        }
        self.disk.write_sync_at(at, bytes)?;
        self.change(|progress| progress.ended += 1);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(at, len)
    }
    fn punch(&self, at: u64, len: u64) {
        self.disk.punch(at, len);
    }
    fn mappable(&self) -> BorrowedFd<'_> {
        self.disk.mappable()
    }
}

/// Stores to lines one after the other, each ordered behind the last.
fn fill(media: &Media, lines: std::ops::Range<u64>) {
    for line in lines {
        let _section = media.section();
        media.store(DATA + line * 64, line + 1);
        media.flush(DATA + line * 64, 8);
        media.fence();
    }
}

/// The number of lines that a store has of those that [`fill`] has stored to: no line without all
/// before it.
fn filled(media: &Media, lines: u64) -> Result<u64, String> {
    let has = |line: &u64| media.load(DATA + line * 64) == line + 1;
    let first = (0..lines).take_while(has).count() as u64;
    match (first..lines).find(has) {
        Some(line) => Err(format!("line {line} survived, line {first} did not")),
        None => Ok(first),
    }
}

/// Cuts the power at each point: a note is the number of lines acknowledged.
fn cut(test: &str, disk: &Arc<RecordedDisk>, lines: u64) -> Result<(), String> {
    let explored = PowerCut::new(test).explore(&disk.tape(), |cut, image| {
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        let (found, acked) = (filled(&media, lines)?, cut.notes.last().copied().unwrap_or(0));
        media.abandon();
        if found >= acked { Ok(()) } else { Err(format!("{acked} lines were acknowledged, {found} found")) }
    });
    explored.map(drop).map_err(|failure| failure.detail)
}

/// A caller goes on while its half of the batch is written, and the next half is written without a
/// barrier, too; the barrier then has nothing to write. Later batches are written like the first,
/// and the thread ends with the store.
#[test]
fn a_batch_that_is_half_full_is_written_beside_its_callers() {
    let (held, media) = Held::open();
    fill(&media, 0..HALF);
    held.wait(|progress| progress.begun == 1);
    fill(&media, HALF..2 * HALF);
    assert_eq!(held.change(|progress| (progress.begun, progress.ended)), (1, 0), "no caller has written or waited");
    held.release();
    held.wait(|progress| progress.ended == 2);
    media.barrier().unwrap();
    held.disk.note(2 * HALF);
    assert_eq!(held.change(|progress| progress.begun), 2);
    for batch in 2..4 {
        fill(&media, batch * HALF..(batch + 1) * HALF);
        held.wait(|progress| progress.ended == batch as usize + 1);
    }
    media.abandon();
    assert_eq!(Arc::strong_count(&held), 1, "a thread of the store has outlived it");
    cut("a_batch_that_is_half_full_is_written_beside_its_callers", &held.disk, 4 * HALF).unwrap();
}

/// A barrier waits for the record that the thread writes, and for the lines behind it.
#[test]
fn a_barrier_waits_for_the_record_that_a_thread_writes() {
    let test = "a_barrier_waits_for_the_record_that_a_thread_writes";
    // With the seeded bugs the barrier returns although the write is held, or has nothing to write.
    let run = |lines: u64, held_by_barrier: bool| {
        let (held, media) = Held::open();
        fill(&media, 0..HALF);
        held.wait(|progress| progress.begun == 1);
        if !held_by_barrier {
            held.release();
            held.wait(|progress| progress.ended == 1);
        }
        fill(&media, HALF..lines);
        media.barrier().unwrap();
        held.disk.note(lines);
        held.release();
        drop(media);
        cut(test, &held.disk, lines)
    };
    run(HALF, false).unwrap();
    run(HALF + 1, false).unwrap();
    let early = museum::with("media-early-acknowledged", || run(HALF, true));
    println!("media-early-acknowledged: {}", early.expect_err("the seeded bug was not found"));
    let open = museum::with("media-early-open-acknowledged", || run(HALF + 1, false));
    println!("media-early-open-acknowledged: {}", open.expect_err("the seeded bug was not found"));
}

/// The thread's write fails, or panics, while one caller waits for a buffer and another in a
/// barrier: the barrier gets the error, the flush ends, and nothing is written any more.
#[test]
fn a_write_of_the_thread_that_fails_or_panics_poisons() {
    for fault in [Fault::Error, Fault::Panic] {
        let (held, media) = Held::open();
        fill(&media, 0..HALF);
        held.wait(|progress| progress.begun == 1);
        held.change(|progress| progress.fault = Some(fault));
        std::thread::scope(|scope| {
            let barrier = scope.spawn(|| media.barrier());
            // More than the other buffer takes: it waits for the record.
            scope.spawn(|| fill(&media, HALF..4 * HALF));
            held.release();
            let poisoned = barrier.join().unwrap().unwrap_err();
            let told = match fault {
                Fault::Error => "os error 5",
                Fault::Panic => "panicked",
            };
            assert!(matches!(poisoned, Error::Poisoned { .. }) && poisoned.to_string().contains(told), "{poisoned}");
        });
        assert!(matches!(media.barrier(), Err(Error::Poisoned { .. })));
        let events = held.disk.tape().events.len();
        drop(media);
        assert_eq!(held.disk.tape().events.len(), events, "a poisoned store writes nothing");
        cut("a_write_of_the_thread_that_fails_or_panics_poisons", &held.disk, 4 * HALF).unwrap();
    }
}

/// Callers fill both buffers, and the store is closed or dropped, while the thread writes: all that
/// was flushed is in its place.
#[test]
fn a_store_is_closed_while_the_thread_writes() {
    for (lines, close) in [(HALF, true), (HALF, false), (6 * HALF, true), (6 * HALF, false)] {
        let (held, media) = Held::open();
        fill(&media, 0..HALF);
        held.wait(|progress| progress.begun == 1);
        let closing = std::thread::spawn(move || {
            fill(&media, HALF..lines);
            if close {
                media.close().unwrap();
                media.abandon();
            }
        });
        held.release();
        closing.join().unwrap();
        let media = open(&RecordedDisk::new(&held.disk.content()).unwrap(), Durability::Always).unwrap();
        assert_eq!(filled(&media, lines), Ok(lines));
        media.abandon();
        cut("a_store_is_closed_while_the_thread_writes", &held.disk, lines).unwrap();
    }
}

/// The thread does not share the one CPU of the caller whose flush has started it.
#[test]
fn a_thread_runs_where_the_store_was_opened() {
    let (held, media) = Held::open();
    let cpus = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).unwrap();
            fill(&media, 0..HALF);
        });
    });
    held.wait(|progress| progress.begun == 1);
    let mut seen = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap) {
        // Threads of other tests may end meanwhile.
        let Ok(name) = std::fs::read_to_string(task.path().join("comm")) else { continue };
        let thread = Pid::from_raw(task.file_name().to_str().unwrap().parse().unwrap());
        if name.trim() == "everbyte-log"
            && let Ok(found) = sched_getaffinity(thread)
        {
            assert!(found == cpus, "{found:?}");
            seen += 1;
        }
    }
    assert!(seen > 0, "the thread is inside its write");
    held.release();
}
