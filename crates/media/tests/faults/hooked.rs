//! Events in the middle of a sync or of an allocation: a sync vouches for the records that were
//! written before it, and the log names no range that the file system refused.

use everbyte_media::{BackendChoice, Disk, Durability, Geometry, Media, OpenOptions, Options};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Runs once, at the next sync.
type Hook = Box<dyn FnOnce() + Send>;

struct Hooked {
    file: File,
    in_sync: Mutex<Option<Hook>>,
    syncs: AtomicU32,
    /// Allocations are refused.
    full: AtomicBool,
}

impl Disk for Hooked {
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
        Disk::sync(&self.file)?;
        self.syncs.fetch_add(1, SeqCst);
        let hook = self.in_sync.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.file)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        if self.full.load(SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Disk::allocate(&self.file, at, len)
        }
    }

    fn punch(&self, at: u64, len: u64) {
        Disk::punch(&self.file, at, len);
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        Disk::mappable(&self.file)
    }
}

fn open(path: &Path, durability: Durability) -> (Arc<Hooked>, Media) {
    let options = Options { backend: BackendChoice::File, background: false, durability, ..Options::default() };
    let geometry = Geometry { max: 1 << 20, len: 128 << 10, log_at: 16 << 10, log_len: 64 << 10 };
    drop(OpenOptions::new(path).create(geometry, &options).unwrap());
    let file = File::options().read(true).write(true).open(path).unwrap();
    let (in_sync, syncs, full) = Default::default();
    let disk = Arc::new(Hooked { file, in_sync, syncs, full });
    let media = OpenOptions::new(path).on_disk(Arc::clone(&disk) as _).open(&options).unwrap();
    (disk, media)
}

fn put(media: &Media, value: u64) {
    let _section = media.section();
    media.store(96 << 10, value);
    media.flush(96 << 10, 8);
}

/// A record that another thread writes while a sync is under way may not be on the medium when the
/// sync ends: the next caller syncs again.
#[test]
fn a_record_written_during_a_sync_is_synced_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, media) = open(&dir.path().join("store"), Durability::Process);
    put(&media, 1);
    media.barrier().unwrap();
    let other = media.clone();
    *disk.in_sync.lock().unwrap() = Some(Box::new(move || {
        put(&other, 2);
        other.barrier().unwrap();
    }));
    media.sync(media.mark()).unwrap();
    let before = disk.syncs.load(SeqCst);
    media.sync(media.mark()).unwrap();
    assert_eq!(disk.syncs.load(SeqCst), before + 1, "the second record was written behind the first sync");
    media.sync(media.mark()).unwrap();
    assert_eq!(disk.syncs.load(SeqCst), before + 1, "nothing is left to sync");
}

/// Lines that a checkpoint did not see have not been passed by it: holes made of their range would
/// take them along.
#[test]
fn a_checkpoint_passes_what_was_flushed_before_it_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (_disk, media) = open(&dir.path().join("store"), Durability::Always);
    put(&media, 1);
    let first = media.mark();
    assert!(!media.checkpointed(first));
    media.checkpoint().unwrap();
    assert!(media.checkpointed(first));
    put(&media, 2);
    let second = media.mark();
    assert!(!media.checkpointed(second));
    media.checkpoint().unwrap();
    assert!(media.checkpointed(second));
}

/// Recovery backs again what the log names, and fails where it cannot.
#[test]
fn a_refused_allocation_leaves_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, media) = open(&dir.path().join("store"), Durability::Always);
    let before = media.counts().log_bytes;
    disk.full.store(true, SeqCst);
    media.extend(512 << 10, 4096).unwrap_err();
    media.barrier().unwrap();
    assert_eq!(media.counts().log_bytes, before);
    disk.full.store(false, SeqCst);
    media.extend(512 << 10, 4096).unwrap();
    media.barrier().unwrap();
    assert!(media.counts().log_bytes > before);
}
