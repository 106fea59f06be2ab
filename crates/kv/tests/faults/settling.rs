//! Futures of commits: resolved when the disk has synced and not before, many by one sync, with the
//! error of the store if it fails. The disk's syncs stop at a gate.

use everbyte_kv::{Error, Kv, Settled, Settler};
use everbyte_media::{BackendChoice, Disk, Media, OpenOptions, Options, museum};
use everbyte_sim::{DiskCall, RecordedDisk};
use everbyte_store::{CreateOptions, FormatOptions, Store};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;

/// A file whose syncs by the settler's thread are counted, and wait while the gate is closed.
struct Gated {
    file: File,
    /// Whether it is closed, and whether a sync waits at it.
    gate: Mutex<(bool, bool)>,
    changed: Condvar,
    syncs: AtomicUsize,
}

impl Gated {
    fn pass(&self) {
        if std::thread::current().name() != Some("everbyte-settle") {
            return;
        }
        self.syncs.fetch_add(1, SeqCst);
        let mut gate = self.gate.lock();
        while gate.0 {
            gate.1 = true;
            self.changed.notify_all();
            self.changed.wait(&mut gate);
        }
    }

    fn open(&self) {
        *self.gate.lock() = (false, false);
        self.changed.notify_all();
    }

    fn wait_for_a_sync(&self) {
        let mut gate = self.gate.lock();
        while !gate.1 {
            self.changed.wait(&mut gate);
        }
    }
}

impl Disk for Gated {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.pass();
        self.file.write_sync_at(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        Disk::sync(&self.file)
    }
    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.file)
    }
    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.file.allocate(at, len)
    }
    fn punch(&self, at: u64, len: u64) {
        self.file.punch(at, len);
    }
    fn mappable(&self) -> BorrowedFd<'_> {
        self.file.mappable()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn poll(future: &mut Settled) -> Poll<everbyte_kv::Result<()>> {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    pin!(future).poll(&mut Context::from_waker(&waker))
}

/// The result of a future, for which this thread sleeps.
fn block_on(mut future: Settled) -> everbyte_kv::Result<()> {
    loop {
        match poll(&mut future) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A store on a disk whose gate is open.
fn gated() -> (tempfile::TempDir, Arc<Gated>, Kv) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    Store::create(&path, &options).unwrap().close().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let disk = Arc::new(Gated { file, gate: Mutex::default(), changed: Condvar::new(), syncs: AtomicUsize::new(0) });
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let kv = Kv::open_or_create(&store, "kv").unwrap();
    (folder, disk, kv)
}

/// Whether puts return before they are durable and their futures do not, and share syncs.
fn futures_wait_for_the_disk() -> bool {
    let (_folder, disk, kv) = gated();
    let settler = Settler::start(&kv).unwrap();
    disk.gate.lock().0 = true;
    let mut first = settler.put(b"first", b"1").unwrap();
    disk.wait_for_a_sync();
    let mut others: Vec<Settled> = (0..100_u8).map(|key| settler.put(&[key], b"2").unwrap()).collect();
    let early = std::iter::once(&mut first).chain(&mut others).any(|future| poll(future).is_ready());
    let unseen = !kv.contains(b"first").unwrap() && kv.is_empty();
    // A future that is dropped leaves its commit to the settler.
    drop(others.split_off(99));
    let waiting: Vec<_> = others.into_iter().map(|future| std::thread::spawn(move || block_on(future))).collect();
    disk.open();
    block_on(first).unwrap();
    waiting.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    let seen = kv.contains(b"first").unwrap() && kv.len() >= 100;
    drop(settler);
    !early && unseen && seen && kv.len() == 101 && disk.syncs.load(SeqCst) <= 4
}

#[test]
fn many_futures_wait_for_the_disk_and_share_its_syncs() {
    assert!(futures_wait_for_the_disk());
}

#[test]
fn a_settler_that_resolves_early_is_found() {
    // The switch is one of the thread that starts: the settler's has it from there.
    assert!(!museum::with("kv-settler-early", futures_wait_for_the_disk));
}

/// On media whose fences settle there is no thread, and no future waits.
#[test]
fn futures_are_ready_where_fences_settle() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let settler = Settler::start(&kv).unwrap();
    let mut put = settler.put(b"key", b"value").unwrap();
    assert!(matches!(poll(&mut put), Poll::Ready(Ok(()))));
    assert_eq!((put.version(), kv.len()), (kv.stats().version, 1));
    let mut transaction = kv.transaction();
    transaction.put(b"other", b"value").unwrap();
    let mut commit = settler.future(transaction.commit().unwrap());
    assert!(matches!(poll(&mut commit), Poll::Ready(Ok(()))));
}

/// A disk that fails is told to every future, and to the notification.
#[test]
fn futures_of_a_failing_disk_have_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let media = Options { backend: BackendChoice::File, log_bytes: 1 << 20, background: false, ..Options::default() };
    let options = CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() };
    Store::create(&path, &options).unwrap().close().unwrap();
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let (notify, notified) = channel();
    let settler = Settler::start_with(&kv, move || notify.send(()).unwrap_or_default()).unwrap();
    block_on(settler.put(b"settled", b"1").unwrap()).unwrap();
    notified.recv().unwrap(); // the notification follows the futures
    assert!(settler.settled() > 0 && !settler.has_failed());
    disk.fail(DiskCall::Sync, 0, 5);
    let error = block_on(settler.put(b"unknown", b"1").unwrap()).unwrap_err().to_string();
    assert!(error.contains("poisoned") && error.contains("open it again"), "{error}");
    assert!(settler.has_failed() && settler.take_error().is_some() && settler.take_error().is_none());
    disk.heal();
    let later = settler.put(b"later", b"1").and_then(block_on);
    assert!(later.is_err_and(|error| error.to_string().contains("poisoned")));
    assert_eq!((kv.get(b"settled").unwrap().as_deref(), kv.len()), (Some(&b"1"[..]), 1));
}

/// A future of another store's commit has an error, and all others go on. A notification that
/// panics costs no future its wake-up.
#[test]
fn futures_are_woken_whatever_the_others_are() {
    let dir = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&dir.path().join("store"), &options).unwrap();
    let (kv, other) = (Kv::create(&store, "t").unwrap(), Kv::create(&store, "other").unwrap());
    let mut batch = other.batch();
    batch.put(b"key", b"1").unwrap();
    let foreign = batch.commit().unwrap();
    let settler = Settler::start(&kv).unwrap();
    assert!(matches!(settler.ask(foreign), Err(Error::OtherTree)));
    assert!(matches!(block_on(settler.future(foreign)), Err(Error::OtherTree)));
    block_on(settler.put(b"key", b"1").unwrap()).unwrap();
    assert!(!settler.has_failed());
    drop(settler);
    let settler = Settler::start_with(&kv, || panic!("a notification that fails")).unwrap();
    let puts: Vec<Settled> = (0..10_u8).map(|key| settler.put(&[key], b"1").unwrap()).collect();
    puts.into_iter().for_each(|put| block_on(put).unwrap());
    assert_eq!(kv.len(), 11);
}

/// SETTLER-2: the commit that is asked for last is the older one of two that wait; both are settled
/// when their tickets are.
#[test]
fn an_older_commit_that_is_asked_for_later_keeps_none_back() {
    let (_folder, disk, kv) = gated();
    let settler = Settler::start(&kv).unwrap();
    disk.gate.lock().0 = true;
    let first = settler.put(b"first", b"1").unwrap();
    disk.wait_for_a_sync();
    let commit = |key: &[u8]| {
        let mut batch = kv.batch();
        batch.put(key, b"2").unwrap();
        batch.commit().unwrap()
    };
    let (older, newer) = (commit(b"older"), commit(b"newer"));
    let (newer, older) = (settler.future(newer), settler.future(older));
    disk.open();
    [first, older, newer].into_iter().for_each(|future| block_on(future).unwrap());
    assert_eq!((kv.len(), kv.get(b"newer").unwrap().as_deref()), (3, Some(&b"2"[..])));
}

/// Commits that are settled together count one by one for the limit of readers.
#[test]
fn a_reader_is_behind_every_commit_of_those_settled_together() {
    let (_folder, _disk, kv) = gated();
    kv.put(b"key", &[1; 900]).unwrap();
    let reader = kv.snapshot();
    kv.set_reader_limit(std::num::NonZeroU64::new(2));
    let commit = |value: u8| {
        let mut batch = kv.batch();
        batch.put(b"key", &[value; 900]).unwrap();
        batch.commit().unwrap()
    };
    let _older = [commit(2), commit(3)];
    kv.settle(commit(4)).unwrap();
    assert!(reader.get(b"key").is_ok(), "no commit has reclaimed since");
    kv.put(b"other", b"1").unwrap();
    assert!(matches!(reader.get(b"key"), Err(Error::Expired { .. })), "three commits behind, and two are allowed");
}

/// A version with a name is shown once its name is settled, not before.
#[test]
fn a_version_is_opened_when_its_name_is_settled() {
    let (_folder, disk, kv) = gated();
    kv.put(b"key", b"1").unwrap();
    kv.name_version("settled").unwrap();
    disk.gate.lock().0 = true;
    let namer = std::thread::Builder::new().name("everbyte-settle".into());
    let naming = namer.spawn({
        let kv = kv.clone();
        move || kv.name_version("new").map(drop)
    });
    disk.wait_for_a_sync();
    // A name that is settled waits for no other commit.
    assert_eq!(kv.open_version("settled").unwrap().get(b"key").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(kv.versions().unwrap().len(), 1);
    let opening = std::thread::spawn(move || {
        (0..1000).for_each(|_| std::thread::yield_now());
        disk.open();
    });
    let version = kv.open_version("new").unwrap();
    assert_eq!(kv.versions().unwrap().len(), 2, "the newest settled version has the name");
    assert_eq!(version.get(b"key").unwrap().as_deref(), Some(&b"1"[..]));
    opening.join().unwrap();
    naming.unwrap().join().unwrap().unwrap();
}

/// A dump leaves out a name that goes meanwhile: nothing holds its version any more.
#[test]
fn a_dump_leaves_out_a_name_whose_removal_is_under_way() {
    let (_folder, disk, kv) = gated();
    kv.put(b"key", b"1").unwrap();
    kv.name_version("gone").unwrap();
    disk.gate.lock().0 = true;
    let remover = std::thread::Builder::new().name("everbyte-settle".into());
    let removing = remover.spawn({
        let kv = kv.clone();
        move || kv.remove_version("gone")
    });
    disk.wait_for_a_sync();
    assert_eq!(kv.versions().unwrap().len(), 1, "the newest settled version has the name");
    let dumped = kv.dump(&mut Vec::new(), &mut |_| {});
    disk.open();
    removing.unwrap().join().unwrap().unwrap();
    let dumped = dumped.unwrap();
    assert_eq!((dumped.versions, dumped.entries), (0, 1));
}

/// As [`a_version_is_opened_when_its_name_is_settled`], by a batch that is under way.
#[test]
fn a_batch_opens_a_version_when_its_name_is_settled() {
    let (_folder, disk, kv) = gated();
    kv.put(b"key", b"1").unwrap();
    disk.gate.lock().0 = true;
    let namer = std::thread::Builder::new().name("everbyte-settle".into());
    let naming = namer.spawn({
        let kv = kv.clone();
        move || kv.name_version("new").map(drop)
    });
    disk.wait_for_a_sync();
    let batch = kv.batch();
    let opening = std::thread::spawn(move || {
        (0..1000).for_each(|_| std::thread::yield_now());
        disk.open();
    });
    let version = batch.open_version("new").unwrap();
    let named = kv.snapshot().version();
    assert!(named > version.version(), "the newest settled version is the one with the name");
    assert_eq!(version.get(b"key").unwrap().as_deref(), Some(&b"1"[..]));
    batch.abort();
    opening.join().unwrap();
    naming.unwrap().join().unwrap().unwrap();
}
