//! A failed sync of the store's file is a failure for every thread that has written it: the system
//! reports the failure once.

use everbyte_media::{BackendChoice, Disk, Error, Geometry, OpenOptions, Options, museum};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

const FAR: u64 = 1 << 30;

/// While armed, the first sync waits until `enough` have ended, and then gets the failure of a
/// write that the second covers, too.
struct OneReport {
    file: File,
    armed: AtomicBool,
    enough: u32,
    /// Syncs begun and ended.
    syncs: Mutex<(u32, u32)>,
    changed: Condvar,
}

impl OneReport {
    fn wait(&self, until: impl Fn(&(u32, u32)) -> bool) {
        drop(self.changed.wait_while(self.syncs.lock().unwrap(), |syncs| !until(syncs)).unwrap());
    }
}

impl Disk for OneReport {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Disk::read_at(&self.file, at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_at(&self.file, at, bytes)
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_sync_at(&self.file, at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        if !self.armed.load(SeqCst) {
            return Disk::sync(&self.file);
        }
        let number = {
            let mut syncs = self.syncs.lock().unwrap();
            syncs.0 += 1;
            syncs.0
        };
        self.changed.notify_all();
        if number == 1 {
            self.wait(|syncs| syncs.1 >= self.enough);
        }
        self.syncs.lock().unwrap().1 += 1;
        self.changed.notify_all();
        if number == 1 { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }

    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.file)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        Disk::allocate(&self.file, at, len)
    }

    fn punch(&self, at: u64, len: u64) {
        Disk::punch(&self.file, at, len);
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        Disk::mappable(&self.file)
    }
}

/// A growth gets the failure. The checkpoint beside it gets none, and must not believe that its
/// pages are on the medium.
#[test]
fn a_failed_sync_of_a_growth_fails_the_checkpoint_beside_it() {
    // Until the second sync has ended, or until the checkpoint has.
    let checkpoint = |enough| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let options = Options { backend: BackendChoice::File, background: false, ..Options::default() };
        let geometry = Geometry { max: 1 << 40, len: 64 << 10, log_at: 16 << 10, log_len: 16 << 10 };
        drop(OpenOptions::new(&path).create(geometry, &options).unwrap());
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (armed, syncs) = (AtomicBool::new(false), Mutex::default());
        let disk = Arc::new(OneReport { file, armed, enough, syncs, changed: Condvar::new() });
        let media = OpenOptions::new(&path).on_disk(Arc::clone(&disk) as _).open(&options).unwrap();
        media.store(48 << 10, 7);
        media.flush(48 << 10, 8);
        media.barrier().unwrap();
        disk.armed.store(true, SeqCst);
        let done = std::thread::scope(|scope| {
            let growth = scope.spawn(|| media.extend(FAR, 4096));
            disk.wait(|syncs| syncs.0 > 0);
            let done = media.checkpoint();
            disk.syncs.lock().unwrap().1 += 100;
            disk.changed.notify_all();
            growth.join().unwrap().unwrap_err();
            done
        });
        media.abandon();
        done
    };
    let believed = museum::with("media-chunk-sync-believed", || checkpoint(100));
    assert!(believed.is_ok(), "the seeded bug is found: {believed:?}");
    let refused = checkpoint(1).unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
}
