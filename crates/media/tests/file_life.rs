//! The `file` backend in a process: forks, memory, threads, time.

use everbyte_media::{BackendChoice, Disk, Durability, Error, Geometry, Media, OpenOptions, Options};
use everbyte_sim::{DiskCall, DiskEvent, RecordedDisk};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DATA: u64 = 8 << 20;

fn options() -> Options {
    Options { backend: BackendChoice::File, ..Options::default() }
}

fn create(log_len: u64, options: &Options) -> (tempfile::TempDir, PathBuf, Media) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: 64 << 20, len: 32 << 20, log_at: 16 << 10, log_len };
    let media = OpenOptions::new(&path).create(geometry, options).unwrap();
    (dir, path, media)
}

fn settle(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
    media.barrier().unwrap();
}

/// A forked child gets an error, cannot settle, and its exit changes nothing; the parent continues.
#[test]
fn a_forked_child_is_refused_and_writes_nothing() {
    let (_dir, path, media) = create(64 << 10, &options());
    settle(&media, DATA, 1);
    let before = std::fs::read(&path).unwrap();
    // SAFETY: the child calls only this crate and `_exit`, and no other thread here holds a lock
    // that it needs.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let owner = std::process::id(); // not ours: the test's process is our parent
        let refused = |result| matches!(result, Err(Error::Forked { owner: told }) if told != owner);
        media.flush(DATA, 64);
        let mark = media.mark();
        let all = [media.barrier(), media.settle(mark), media.checkpoint(), media.close(), media.extend(DATA, 8)];
        let told = all.into_iter().all(refused);
        drop(media.section());
        drop(media);
        // SAFETY: ends the child without running exit handlers of the parent.
        unsafe { libc::_exit(if told { 0 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: waits for our own child, into our own variable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(std::fs::read(&path).unwrap() == before);
    settle(&media, DATA, 2);
    assert_eq!(media.load(DATA), 2);
}

/// Bytes of the store's mapping that are private copies.
fn private_bytes(path: &std::path::Path) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut ours, mut sum) = (false, 0);
    for line in smaps.lines() {
        if line.split_whitespace().next().is_some_and(|word| word.contains('-')) {
            ours = line.ends_with(path.to_str().unwrap());
        } else if let (true, Some(size)) = (ours, line.strip_prefix("Private_Dirty:")) {
            sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
        }
    }
    sum
}

/// After a checkpoint the private copies are released, and the bytes stay the same. A page with a
/// store that was never flushed keeps its copy, and so do all pages of a program that stores
/// outside sections.
#[test]
fn clean_pages_are_released_and_unflushed_stores_are_not() {
    for give_back in [true, false] {
        let (_dir, path, media) = create(4 << 20, &Options { give_back, ..options() });
        let pages = 512;
        for page in 0..pages {
            let _section = media.section();
            media.store(DATA + page * 4096, page + 1);
            media.flush(DATA + page * 4096, 8);
        }
        media.barrier().unwrap();
        {
            let _section = media.section(); // no page is released before it ends, and no release waits
            media.checkpoint().unwrap();
            assert!(private_bytes(&path) >= pages * 4096);
            for page in (0..pages).step_by(64) {
                media.store(DATA + page * 4096 + 2048, 99); // never flushed
            }
        }
        media.checkpoint().unwrap();
        let left = private_bytes(&path) / 4096;
        if give_back {
            assert_eq!(left, pages / 64);
        } else {
            assert!(left >= pages);
        }
        for page in 0..pages {
            assert_eq!(media.load(DATA + page * 4096), page + 1);
            let unflushed = if page % 64 == 0 { 99 } else { 0 };
            assert_eq!(media.load(DATA + page * 4096 + 2048), unflushed);
        }
    }
}

/// While checkpoints release pages all the time, a program never loses a store that it made.
#[test]
fn running_programs_never_lose_a_store_to_a_checkpoint() {
    let (_dir, _, media) = create(64 << 10, &options());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (media, stop) = (&media, &stop);
            scope.spawn(move || {
                let mut values = vec![0; 64];
                for round in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let slot = (round * 7 % 64) as usize;
                    let at = DATA + (slot as u64) * 4096 + thread * 64;
                    {
                        let _section = media.section();
                        assert_eq!(media.load(at), values[slot]);
                        media.store(at, round);
                        if round % 3 != 0 {
                            media.flush(at, 8);
                        }
                        media.store(at + 8, round); // possibly flushed later, with the line
                        if round % 64 == 0 {
                            media.barrier().unwrap();
                        }
                    }
                    assert_eq!((media.load(at), media.load(at + 8)), (round, round));
                    values[slot] = round;
                }
            });
        }
        for _ in 0..200 {
            media.checkpoint().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A disk whose syncs take some time on every machine, and whose writes of pages panic on request.
struct SlowDisk(std::fs::File, Arc<AtomicBool>);

impl Disk for SlowDisk {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(!self.1.load(Ordering::Relaxed), "injected");
        self.0.write_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(2));
        self.0.write_at(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.0)
    }
    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.0.allocate(at, len)
    }
    fn punch(&self, at: u64, len: u64) {
        self.0.punch(at, len);
    }
    fn mappable(&self) -> BorrowedFd<'_> {
        self.0.mappable()
    }
}

fn slow_disk(path: &Path, panics: Arc<AtomicBool>) -> Arc<dyn Disk> {
    Arc::new(SlowDisk(std::fs::File::options().read(true).write(true).open(path).unwrap(), panics))
}

/// A panic inside a checkpoint: its pages count as clean and are not written, so no other
/// checkpoint may follow.
#[test]
fn a_panic_inside_a_checkpoint_is_the_last_that_is_written() {
    let options = Options { background: false, ..options() };
    let (_dir, path, media) = create(1 << 20, &options);
    drop(media);
    let panics = Arc::new(AtomicBool::new(false));
    let media = OpenOptions::new(&path).on_disk(slow_disk(&path, panics.clone())).open(&options).unwrap();
    settle(&media, DATA, 7);
    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| media.checkpoint())).is_err());
    panics.store(false, Ordering::Relaxed);
    assert!(matches!(media.checkpoint(), Err(Error::Poisoned { .. })));
    media.flush(DATA, 8);
    assert!(matches!(media.barrier(), Err(Error::Poisoned { .. })));
    drop(media);
    assert_eq!(OpenOptions::new(&path).open(&options).unwrap().load(DATA), 7);
}

/// Threads that wait together share a sync.
#[test]
fn eight_threads_share_syncs() {
    let (_dir, path, media) = create(1 << 20, &options());
    drop(media);
    let media = OpenOptions::new(&path).on_disk(slow_disk(&path, Arc::default())).open(&options()).unwrap();
    let before = media.counts();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let media = &media;
            scope.spawn(move || (1..=25).for_each(|value| settle(media, DATA + thread * 64, value)));
        }
    });
    let counts = media.counts() - before;
    assert_eq!(counts.barriers, 200);
    assert!(counts.syncs * 3 < counts.barriers, "{counts:?}");
}

/// Waits for another thread's work. The limit is generous, for a busy machine: it only ends a test
/// that would hang.
fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(600), "it is never done");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `interval` syncs by itself, and even with a short interval the newest record is not left out.
#[test]
fn an_interval_passes_and_written_records_are_synced() {
    for interval in [Duration::ZERO, Duration::from_millis(10)] {
        let (disk, media) = recorded(Durability::Interval(interval));
        for value in 1..100 {
            settle(&media, 48 << 10, value);
            // A checkpoint may follow the sync, so the sync need not be the last that happens.
            wait_until(|| unsynced(&disk) == 0);
        }
    }
}

/// `process` syncs at a checkpoint and never before.
#[test]
fn records_written_for_the_process_alone_wait_for_a_checkpoint() {
    let (disk, media) = recorded(Durability::Process);
    (1..10).for_each(|value| settle(&media, 48 << 10, value));
    assert_eq!(unsynced(&disk), 9, "so few do not crowd the log");
    media.checkpoint().unwrap();
    assert_eq!(unsynced(&disk), 0);
}

/// [`Media::sync`] syncs in every mode, and at most once for what is synced.
#[test]
fn a_sync_is_one_in_every_mode() {
    let often = Duration::from_secs(3600);
    for durability in [Durability::Process, Durability::Interval(often), Durability::Always] {
        let (disk, media) = recorded(durability);
        // A write of the mode `always` is synced by itself.
        let missing = |disk| if durability == Durability::Always { 0 } else { unsynced(disk) };
        settle(&media, 48 << 10, 7);
        assert_eq!(missing(&disk), usize::from(durability != Durability::Always));
        let mark = media.mark();
        media.sync(mark).unwrap();
        assert_eq!(missing(&disk), 0);
        let calls = disk.calls(DiskCall::Sync);
        media.sync(mark).unwrap();
        assert_eq!(disk.calls(DiskCall::Sync), calls);
        media.store(48 << 10, 8);
        media.flush(48 << 10, 8);
        media.fence();
        media.sync(media.mark()).unwrap();
        assert_eq!(missing(&disk), 0, "what was ordered alone is written, too");
        assert!(disk.calls(DiskCall::Sync) > calls);
    }
}

/// Media with a log of 16 KiB at 16 KiB, on a disk that records.
fn recorded(durability: Durability) -> (Arc<RecordedDisk>, Media) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small");
    let geometry = Geometry { max: 64 << 10, len: 64 << 10, log_at: 16 << 10, log_len: 16 << 10 };
    drop(OpenOptions::new(&path).create(geometry, &options()).unwrap());
    let disk = RecordedDisk::new(&std::fs::read(path).unwrap()).unwrap();
    let media = OpenOptions::new("recorded").on_disk(disk.clone()).open(&Options { durability, ..options() }).unwrap();
    (disk, media)
}

/// Writes to the log without a later sync.
fn unsynced(disk: &RecordedDisk) -> usize {
    let events = disk.tape().events;
    let synced = events.iter().rposition(|event| matches!(event, DiskEvent::Sync)).map_or(0, |at| at + 1);
    let to_log = |event: &&DiskEvent| matches!(event, DiskEvent::Write { at, .. } if (16 << 10..32 << 10).contains(at));
    events[synced..].iter().filter(to_log).count()
}

/// A mark is settled later, possibly by another thread, and then passed by a checkpoint.
#[test]
fn a_mark_is_settled_and_then_checkpointed() {
    let (_dir, path, media) = create(64 << 10, &options());
    assert!(media.checkpointed(media.mark()), "nothing was flushed");
    media.store(DATA, 5);
    media.flush(DATA, 8);
    media.fence();
    let mark = media.mark();
    assert!(!media.checkpointed(mark));
    std::thread::scope(|scope| drop(scope.spawn(|| media.settle(mark).unwrap())));
    assert!(!media.checkpointed(mark));
    media.checkpoint().unwrap();
    assert!(media.checkpointed(mark));
    media.flush(DATA, 8);
    assert!(!media.checkpointed(media.mark()), "the first record behind a checkpoint is not in its place");
    media.checkpoint().unwrap();
    media.punch(DATA, 4096);
    assert_eq!(media.load(DATA), 0, "a private copy of a punched page is not kept");
    drop(media);
    assert_eq!(OpenOptions::new(&path).open(&options()).unwrap().load(DATA), 0);
}

/// The head has the length of the file, on every backend and after every growth.
#[test]
fn truncation_from_outside_is_found_on_every_backend() {
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let options = Options { backend, ..options() };
        let (_dir, path, media) = create(64 << 10, &options);
        let grown = media.len() + (1 << 20);
        media.extend(media.len(), 1 << 20).unwrap();
        drop(media);
        assert_eq!(OpenOptions::new(&path).open(&options).unwrap().len(), grown);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(grown - 4096).unwrap();
        let damaged = OpenOptions::new(&path).open(&options).unwrap_err();
        assert!(matches!(&damaged, Error::Damaged(damage) if damage.offset == Some(grown - 4096)), "{damaged}");
    }
}

/// An orderly close does not save stores that were never flushed.
#[test]
fn closing_saves_no_store_that_was_never_flushed() {
    let (_dir, path, media) = create(64 << 10, &options());
    media.store(DATA, 1);
    media.close().unwrap();
    drop(media);
    assert_eq!(OpenOptions::new(&path).open(&options()).unwrap().load(DATA), 0);
}

/// Holes reach the medium with the close: no later opening would make them again.
#[test]
fn a_close_syncs_holes() {
    let (_dir, path, media) = create(64 << 10, &options());
    settle(&media, DATA, 1);
    media.close().unwrap();
    drop(media);
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let disk_options = Options { background: false, ..options() };
    let media = OpenOptions::new(&path).on_disk(disk.clone()).open(&disk_options).unwrap();
    settle(&media, DATA, 2);
    media.checkpoint().unwrap();
    media.punch(DATA + 4096, 8192);
    media.close().unwrap();
    let events = disk.tape().events;
    let punch = events.iter().rposition(|event| matches!(event, DiskEvent::Punch { .. })).unwrap();
    assert!(events[punch..].iter().any(|event| matches!(event, DiskEvent::Sync)), "{:?}", &events[punch..]);
}

/// Opening after a death reads the log into memory and not to the disk: one sync, one sector that
/// begins a new life of the log, and no page. A checkpoint does the rest; another death before that
/// finds both lives.
#[test]
fn reopening_writes_one_sector_for_a_log_of_any_length() {
    let (_dir, path, media) = create(1 << 20, &options());
    let disk_options = Options { background: false, ..options() };
    for word in 0..2000 {
        let _section = media.section();
        media.store(DATA + word * 4096, word + 1);
        media.flush(DATA + word * 4096, 8);
    }
    media.extend(40 << 20, 4096).unwrap();
    media.barrier().unwrap();
    media.abandon();
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let begun = disk.tape().events.len();
    let media = OpenOptions::new(&path).on_disk(disk.clone()).open(&disk_options).unwrap();
    assert!(media.opened().log_records > 0 && media.len() >= (40 << 20) + 4096);
    let events = disk.tape().events.split_off(begun);
    let written: Vec<usize> = events
        .iter()
        .filter_map(|event| if let DiskEvent::Write { bytes, .. } = event { Some(bytes.len()) } else { None })
        .collect();
    let syncs = events.iter().filter(|event| matches!(event, DiskEvent::Sync)).count();
    assert_eq!((written, syncs), (vec![512], 1), "{events:?}");
    let whole = |media: &Media| (0..2000).all(|word| media.load(DATA + word * 4096) == word + 1);
    assert!(whole(&media));
    settle(&media, DATA + 8, 7);
    media.abandon();
    let media = OpenOptions::new(&path).on_disk(disk.clone()).open(&disk_options).unwrap();
    assert!(whole(&media) && media.load(DATA + 8) == 7);
    settle(&media, DATA + 16, 8);
    media.checkpoint().unwrap();
    settle(&media, DATA + 24, 9);
    media.abandon();
    let media = OpenOptions::new(&path).on_disk(disk).open(&disk_options).unwrap();
    assert!(media.opened().log_records < 3, "the checkpoint passed the earlier lives");
    assert!(whole(&media) && [7, 8, 9] == [8, 16, 24].map(|at| media.load(DATA + at)));
    media.close().unwrap();
}
