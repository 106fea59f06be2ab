//! `interval` mode: written records are synced in time, during a long background task, too.

use crate::program::{DATA, fresh, options};
use crate::traps::settle;
use everbyte_media::{Disk, Durability, OpenOptions, Options};
use everbyte_sim::RecordedDisk;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Progress of a checkpoint, and the events during it.
#[derive(Default)]
struct Progress {
    /// Runs of pages begun.
    runs: usize,
    /// The test has settled a store since the first run began.
    settled: bool,
    /// The disk was synced since then, and before the second run.
    synced: bool,
}

/// A disk whose first write of pages takes until another thread has settled a store.
struct Slow {
    disk: Arc<RecordedDisk>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Slow {
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
        self.disk.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(at, bytes)
    }
    fn write_pages_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|progress| progress.runs += 1);
        self.wait(|progress| progress.settled);
        self.disk.write_pages_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_sync_at(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.change(|progress| progress.synced |= progress.settled && progress.runs == 1);
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
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let slow = Arc::new(Slow { disk, progress: Mutex::default(), changed: Condvar::new() });
    let options = Options { background: true, ..options(Durability::Interval(Duration::ZERO)) };
    let media = OpenOptions::new("slow").on_disk(slow.clone()).open(&options).unwrap();
    // Somewhat more than half of the log, on pages that are not adjacent.
    (0..18).for_each(|put| settle(&media, DATA + put % 4 * 8192, put + 1));
    slow.wait(|progress| progress.runs == 1);
    settle(&media, DATA + 64, 1);
    slow.change(|progress| progress.settled = true);
    slow.wait(|progress| progress.runs >= 2);
    assert!(slow.progress.lock().unwrap().synced, "the second run was begun, and the sync is still due");
}
