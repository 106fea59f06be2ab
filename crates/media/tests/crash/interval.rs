//! `interval` mode: written records are synced in time, during a long background task, too.

use crate::program::{DATA, LEN, fresh, options};
use crate::traps::settle;
use everbyte_media::{Disk, Durability, Media, OpenOptions, Options};
use everbyte_sim::RecordedDisk;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Progress of a task of the background thread, and the events during it.
#[derive(Default)]
struct Progress {
    /// Steps begun: runs of pages written, or pages read.
    steps: usize,
    /// The test has settled a store since the first step began.
    settled: bool,
    /// The disk was synced since then, and before the second step.
    synced: bool,
}

/// A disk whose first write of pages, or first read of one in a range, takes until another thread
/// has settled a store.
struct Slow {
    disk: Arc<RecordedDisk>,
    /// The steps are reads of pages there, if it is not empty.
    reads: Range<u64>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Slow {
    fn open(reads: Range<u64>) -> (Arc<Slow>, Media) {
        let disk = RecordedDisk::new(&fresh()).unwrap();
        let slow = Arc::new(Slow { disk, reads, progress: Mutex::default(), changed: Condvar::new() });
        let options = Options { background: true, ..options(Durability::Interval(Duration::ZERO)) };
        let media = OpenOptions::new("slow").on_disk(slow.clone()).open(&options).unwrap();
        (slow, media)
    }

    /// A step of the task.
    fn step(&self) {
        self.change(|progress| progress.steps += 1);
        self.wait(|progress| progress.settled);
    }

    /// Settles a store during the first step. The second step then finds the disk synced.
    fn settle_during_the_first_step(&self, media: &Media) {
        self.wait(|progress| progress.steps == 1);
        settle(media, DATA + 64, 1);
        self.change(|progress| progress.settled = true);
        self.wait(|progress| progress.steps >= 2);
        assert!(self.progress.lock().unwrap().synced, "the second step was begun, and the sync is still due");
    }

    fn wait(&self, until: impl Fn(&Progress) -> bool) {
        drop(self.changed.wait_while(self.progress.lock().unwrap(), |progress| !until(progress)).unwrap());
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Disk for Slow {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        if self.reads.contains(&at) {
            self.step();
        }
        self.disk.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(at, bytes)
    }
    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.reads.is_empty() {
            self.step();
        }
        self.disk.write_pages_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_sync_at(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.change(|progress| progress.synced |= progress.settled && progress.steps == 1);
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

/// The background thread is inside a checkpoint when a record is written whose sync is due. It
/// syncs after the present run of pages, not after the last one.
#[test]
fn a_sync_that_is_due_waits_for_no_whole_checkpoint() {
    let (slow, media) = Slow::open(0..0);
    // Somewhat more than half of the log, on pages that are not adjacent.
    (0..18).for_each(|put| settle(&media, DATA + put % 4 * 8192, put + 1));
    slow.settle_during_the_first_step(&media);
}

/// As above, while the thread gives pages back that the newest checkpoint did not find dirty again.
#[test]
fn a_sync_that_is_due_waits_for_no_release_of_many_pages() {
    let (slow, media) = Slow::open(DATA..LEN);
    let mut mark = media.mark();
    for put in 0..18 {
        settle(&media, DATA + put % 4 * 8192, put + 1);
        if put == 8 {
            mark = media.mark();
        }
    }
    while !media.checkpointed(mark) {
        std::thread::yield_now();
    }
    (0..18).for_each(|put| settle(&media, DATA + 4096, put + 1));
    slow.settle_during_the_first_step(&media);
}

/// The system refuses to start the thread, so barriers do the syncs.
#[test]
fn an_interval_passes_without_a_thread_and_written_records_are_synced() {
    everbyte_media::museum::with("media-no-thread", || {
        let (_, media) = Slow::open(DATA..LEN);
        for put in 0..3 {
            settle(&media, DATA, put);
            let before = media.counts();
            settle(&media, DATA, put);
            assert_eq!((media.counts() - before).syncs, 1);
        }
    });
}
