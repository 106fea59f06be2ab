//! Objects larger than their memory, on memory that is written in place: page faults report
//! touches.

use everbyte_cold::{OpenMode, RealFiles};
use everbyte_media::{BackendChoice, BackendKind, Disk, Media, Options};
use everbyte_store::{
    Access, CLUSTER, Caller, CreateOptions, Error, Files, FindingKind, Object, ObjectOpen, ObjectOptions, Store,
};
use std::fs::Permissions;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const CLUSTERS: u64 = 64;
const LIMIT: u64 = 12;

struct Home {
    directory: tempfile::TempDir,
    options: Options,
}

impl Home {
    fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        // Persistent memory where there is some; elsewhere a disk's page cache stands in for it.
        let kind = everbyte_media::probe(directory.path()).unwrap().kind;
        let backend = if kind == BackendKind::Pmem { BackendChoice::Pmem } else { BackendChoice::Shm };
        Home { directory, options: Options { backend, ..Options::default() } }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A store with an object `large` of [`CLUSTERS`] clusters behind its first one, of which
    /// [`LIMIT`] may be in memory.
    fn store(&self) -> Store {
        let create = CreateOptions { max: 1 << 30, media: self.options.clone(), ..CreateOptions::default() };
        let store = Store::create(&self.path("store"), &create).unwrap();
        let span = ObjectOptions { span: Some(16 << 20), ..ObjectOptions::default() };
        drop(store.create_object("large", span, |_| Ok::<(), Error>(())).unwrap());
        store.set_resident("large", Some(LIMIT), None).unwrap();
        store
    }

    /// Such a store, and the object with all its clusters.
    fn grown(&self) -> (Store, Object) {
        let store = self.store();
        let object = store.object("large").unwrap();
        object.grow(CLUSTERS * CLUSTER).unwrap();
        (store, object)
    }

    fn reopen(&self, store: Store) -> Store {
        store.close().unwrap();
        drop(store);
        Store::open(&self.path("store"), &self.options).unwrap()
    }

    fn backing(&self) -> PathBuf {
        let mut files = std::fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.to_string_lossy().contains(".swap-")).unwrap()
    }
}

/// The copy of the store's file would lack the clusters that lie in the backing file.
#[test]
fn a_store_with_a_backing_file_is_not_cloned() {
    let home = Home::new();
    let (store, object) = home.grown();
    drop(object);
    store.close().unwrap();
    drop(store);
    let target = home.path("clone");
    let clone = || Store::clone_file(&home.path("store"), &target, &home.options, &mut |_, _| {});
    let refused = clone().unwrap_err();
    assert!(
        matches!(&refused, Error::BadOption { detail } if detail.contains("`large` has a backing file")),
        "{refused}"
    );
    assert!(!target.exists() && !home.path("clone.part").exists());
    Store::open(&home.path("store"), &home.options).unwrap().set_resident("large", None, None).unwrap();
    clone().unwrap();
    assert!(target.exists());
}

fn word(at: u64, round: u64) -> u64 {
    at ^ round << 40
}

/// Words all over every cluster but the first.
fn places(object: &Object) -> impl Iterator<Item = u64> {
    ((object.prime() + CLUSTER).get()..object.backed().get()).step_by(1000 * 8)
}

fn fill(object: &Object, round: u64) {
    for at in places(object) {
        object.media().store(at, word(at, round));
        object.media().flush(at, 8);
    }
    object.media().barrier().unwrap();
}

fn verify(object: &Object, round: u64) {
    for at in places(object) {
        assert_eq!(object.media().load(at), word(at, round), "{at:#x}");
    }
}

fn frames(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap()) * 512 / CLUSTER
}

#[test]
fn an_object_larger_than_its_memory_keeps_everything() {
    let home = Home::new();
    let store = home.store();
    let before = frames(&home.path("store"));
    let object = store.object("large").unwrap();
    assert_eq!(object.grow(CLUSTERS * CLUSTER).unwrap().end, object.backed().get());
    assert!(frames(&home.path("store")) <= before + 1, "untouched clusters take no memory");
    for at in ((object.prime() + CLUSTER).get()..object.backed().get()).step_by(4096) {
        assert_eq!(object.media().load(at), 0);
    }
    fill(&object, 1);
    verify(&object, 1);
    let residency = object.residency().unwrap();
    assert!(residency.resident <= LIMIT && residency.resident + residency.cold == CLUSTERS + 2, "{residency:?}");
    assert!(frames(&home.path("store")) <= before + LIMIT, "cold clusters take no memory");
    drop(object);
    assert_eq!(store.check(), []);
    let store = home.reopen(store);
    let object = store.object("large").unwrap();
    verify(&object, 1);
    fill(&object, 2);
    verify(&object, 2);
    drop(object);
    // The limit is lifted: everything is back, and the backing file is gone.
    let backing = home.backing();
    store.set_resident("large", None, None).unwrap();
    assert!(!backing.exists());
    assert_eq!(store.stat("large").unwrap().residency, None);
    verify(&store.object("large").unwrap(), 2);
    assert_eq!(store.check(), []);
}

/// A backing file holds what the store's file may hide from other users.
#[test]
fn a_backing_file_has_the_rights_of_its_store() {
    let home = Home::new();
    let store = home.store();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    assert_eq!((mode(&home.path("store")), mode(&home.backing())), (0o600, 0o600));
    set(&home.backing(), 0o644); // by an earlier program
    drop(store.object("large").unwrap());
    assert_eq!(mode(&home.backing()), 0o600);
    set(&home.path("store"), 0o660);
    drop(store.object("large").unwrap());
    assert_eq!(mode(&home.backing()), 0o600, "an opening gives no access");
    let limit = |clusters| store.set_resident("large", clusters, None).unwrap();
    limit(None);
    limit(Some(LIMIT));
    assert_eq!(mode(&home.backing()), 0o660);
    limit(None);
    set(&home.path("store"), 0o600);
    let beside = home.path(&format!("store.swap-{:x}", store.stat("large").unwrap().id));
    std::fs::write(&beside, "").unwrap(); // an empty file is taken
    set(&beside, 0o666);
    limit(Some(LIMIT));
    assert_eq!(mode(&home.backing()), 0o600);
    limit(None);
    // Not one that another user may have open, or that has a second name.
    let refused = || {
        let refused = store.set_resident("large", Some(LIMIT), None).unwrap_err().to_string();
        assert!(refused.contains("that another user owns"), "{refused}");
    };
    std::fs::write(&beside, "").unwrap();
    std::fs::hard_link(&beside, home.path("second")).unwrap();
    refused();
    std::fs::remove_file(home.path("second")).unwrap();
    if std::os::unix::fs::chown(&beside, Some(4001), None).is_ok() {
        refused();
        std::os::unix::fs::chown(&beside, Some(0), None).unwrap();
    }
    limit(Some(LIMIT));
}

/// The files of the system. When one is made or removed, another thread could open the object, give
/// it another name, or remove it.
#[derive(Default)]
struct AskingFiles {
    store: Mutex<Option<Store>>,
    asked: AtomicU32,
}

impl AskingFiles {
    fn ask(&self) {
        let store = self.store.lock().unwrap();
        let store = store.as_ref().unwrap();
        assert!(matches!(store.object("large"), Err(Error::Open { .. })));
        assert!(matches!(store.rename_object("large", "larger"), Err(Error::Open { .. })));
        assert!(matches!(store.remove_object("large"), Err(Error::Open { .. })));
        assert!(matches!(store.set_resident("large", Some(20), None), Err(Error::Open { .. })));
        self.asked.fetch_add(1, Ordering::Relaxed);
    }
}

impl Files for AskingFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        self.ask();
        RealFiles.create(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        RealFiles.open(path, mode)
    }

    fn remove(&self, path: &Path, disk: &dyn Disk) {
        self.ask();
        RealFiles.remove(path, disk);
    }
}

/// A limit zeroes clusters behind the end of the object, where an opened one could grow to.
#[test]
fn an_object_is_not_opened_while_its_limit_changes() {
    let home = Home::new();
    let store = home.store();
    store.set_resident("large", None, None).unwrap();
    let files = Arc::new(AskingFiles::default());
    store.set_files(Arc::clone(&files) as Arc<dyn Files>);
    *files.store.lock().unwrap() = Some(store.clone());
    store.set_resident("large", Some(LIMIT), None).unwrap();
    store.set_resident("large", None, None).unwrap();
    files.store.lock().unwrap().take();
    assert_eq!(files.asked.load(Ordering::Relaxed), 2);
    drop(store.object("large").unwrap());
}

#[test]
fn threads_that_store_while_clusters_grow_cold_lose_nothing() {
    let home = Home::new();
    let (_store, object) = home.grown();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let object = &object;
            scope.spawn(move || {
                // Each has words of its own in every cluster, and counts in them.
                for step in 0..1000_u64 {
                    let cluster = 1 + (step * 7 + thread * 3) % CLUSTERS;
                    let at = object.prime() + cluster * CLUSTER + thread * 8;
                    object.media().store(at, object.media().load(at) + 1);
                }
            });
        }
    });
    let first = object.prime().get() + CLUSTER;
    for thread in 0..3 {
        let counts =
            (first..object.backed().get()).step_by(CLUSTER as usize).map(|at| object.media().load(at + thread * 8));
        assert_eq!(counts.sum::<u64>(), 1000);
    }
}

/// Runs `body` in a process of its own: a signal would end the other tests, too, and mappings that
/// it uses up are theirs.
fn in_a_process_of_its_own(name: &str, body: impl FnOnce()) {
    const CHILD: &str = "EVERBYTE_TEST_COLD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &format!("cold::{name}"), "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

/// Uses up the mappings of this process but for `left`: of every two pages one cannot be read.
/// `None`: the kernel allows more than the test would use up.
fn use_up_mappings(left: u64) -> Option<Media> {
    const PAGES: u64 = 1 << 17;
    let media = Media::anonymous(PAGES * 4096, &Options::default()).unwrap();
    let mut pages = (1..PAGES).step_by(2);
    let last = pages.find(|page| media.protect(page * 4096, 4096, (false, false)).is_err())?;
    for page in (1..last).step_by(2).take(left as usize / 2) {
        media.protect(page * 4096, 4096, (true, true)).unwrap();
    }
    Some(media)
}

/// Each cluster in memory between two hidden ones costs the process two mappings.
#[test]
fn clusters_touched_here_and_there_use_no_more_mappings_than_there_are() {
    in_a_process_of_its_own("clusters_touched_here_and_there_use_no_more_mappings_than_there_are", || {
        const MANY: u64 = 600;
        let home = Home::new();
        let store = home.store();
        let span = ObjectOptions { span: Some(64 << 20), ..ObjectOptions::default() };
        // One range of the file: ranges apart cost mappings of their own.
        drop(store.create_object("scattered", span, |object| object.grow(MANY * CLUSTER).map(drop)).unwrap());
        store.set_resident("scattered", Some(250), None).unwrap();
        let object = store.object("scattered").unwrap();
        object.cool(object.prime() + CLUSTER..object.backed()).unwrap();
        let Some(_used_up) = use_up_mappings(200) else {
            eprintln!("skipped: this kernel allows many more mappings than the usual 65530");
            return;
        };
        // First those without neighbours in memory, then all.
        let touched = (2..MANY).step_by(2).map(|cluster| (object.prime() + cluster * CLUSTER).get());
        touched.clone().for_each(|at| object.media().store(at, at));
        touched.clone().for_each(|at| assert_eq!(object.media().load(at), at));
        let all = (object.prime() + CLUSTER).get()..object.backed().get();
        all.clone().step_by(CLUSTER as usize).for_each(|at| object.media().store(at + 8, at));
        all.step_by(CLUSTER as usize).for_each(|at| assert_eq!(object.media().load(at + 8), at));
        touched.clone().for_each(|at| assert_eq!(object.media().load(at), at));
    });
}

/// The files of the system, in which no slot can be written.
struct NoSlots;

struct NoSlot(Arc<dyn Disk>);

impl Files for NoSlots {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(NoSlot(RealFiles.create(path)?)))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(NoSlot(RealFiles.open(path, mode)?)))
    }

    fn remove(&self, path: &Path, disk: &dyn Disk) {
        RealFiles.remove(path, disk);
    }
}

impl Disk for NoSlot {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at < 4096 { self.0.write_at(at, bytes) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_sync_at(at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
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

/// The opening hides all pages before it makes clusters cold.
#[test]
fn an_opening_that_fails_leaves_no_page_hidden() {
    in_a_process_of_its_own("an_opening_that_fails_leaves_no_page_hidden", || {
        let home = Home::new();
        let store = home.store();
        store.set_resident("large", None, None).unwrap();
        let object = store.object("large").unwrap();
        object.grow(CLUSTERS * CLUSTER).unwrap();
        fill(&object, 1);
        let span = object.span();
        drop(object);
        store.set_files(Arc::new(NoSlots));
        let refused = store.set_resident("large", Some(LIMIT), None);
        assert!(matches!(refused, Err(Error::Backing { .. })), "{refused:?}");
        store.remove_object("large").unwrap();
        let options = ObjectOptions { span: Some(16 << 20), ..ObjectOptions::default() };
        let next = store.create_object("next", options, |_| Ok::<(), Error>(())).unwrap();
        assert_eq!(next.span(), span);
        next.grow(CLUSTERS * CLUSTER).unwrap();
        fill(&next, 2);
        verify(&next, 2);
    });
}

#[test]
fn what_was_released_comes_back_as_zeros() {
    let home = Home::new();
    let (store, object) = home.grown();
    fill(&object, 1);
    let prime = object.prime().get();
    let some = prime + 20 * CLUSTER..prime + 40 * CLUSTER;
    object.release(some.clone()).unwrap();
    object.back(some.clone()).unwrap();
    for at in some.clone().step_by(8) {
        assert_eq!(object.media().load(at), 0, "{at:#x}");
    }
    for at in places(&object).filter(|at| !some.contains(at)) {
        assert_eq!(object.media().load(at), word(at, 1), "{at:#x}");
    }
    drop(object);
    assert_eq!(store.check(), []);
}

#[test]
fn a_backing_file_that_is_not_the_right_one_is_refused_and_nothing_is_lost() {
    let home = Home::new();
    let (store, object) = home.grown();
    fill(&object, 1);
    // so that nothing has to, and the file stays as it is
    object.cool(object.prime() + CLUSTER..object.backed()).unwrap();
    drop(object);
    let backing = home.backing();
    let whole = std::fs::read(&backing).unwrap();
    let refused = |bytes: Option<&[u8]>, why: &str| {
        match bytes {
            Some(bytes) => std::fs::write(&backing, bytes).unwrap(),
            None => std::fs::remove_file(&backing).unwrap(),
        }
        let error = store.object("large").map(drop).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("`large`") && error.contains("store"), "{error}");
        assert!(store.check().iter().any(|finding| finding.kind == FindingKind::Damage));
    };
    refused(None, "No such file");
    refused(Some(b"short"), "shorter than its header");
    refused(Some(&vec![7; 8192]), "no backing file");
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    refused(Some(&flipped), "checksum of its header");
    let mut newer = whole.clone();
    newer[12] = 3;
    newer[8..12].fill(0);
    let sum = crc32c::crc32c(&newer[..4096]);
    newer[8..12].copy_from_slice(&sum.to_le_bytes());
    refused(Some(&newer), "use a newer Everbyte");
    // Bytes of clusters: each names its offset, and the others are there.
    let mut flipped = whole.clone();
    flipped[4096..].iter_mut().step_by(CLUSTER as usize).for_each(|byte| *byte ^= 1);
    std::fs::write(&backing, &flipped).unwrap();
    let object = store.object("large").unwrap();
    let all = object.prime() + CLUSTER..object.backed();
    let error = object.warm(all.clone()).unwrap_err().to_string();
    assert!(error.contains("not what was written") && error.contains("0x1000"), "{error}");
    drop(object);
    std::fs::write(&backing, &whole[..4096 + 100]).unwrap();
    let findings = store.check();
    assert!(findings.iter().any(|finding| finding.detail.contains("ends before")), "{findings:?}");
    std::fs::write(&backing, &whole).unwrap();
    verify(&store.object("large").unwrap(), 1);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let home = Home::new();
    let store = home.store();
    let refused = |clusters, why: &str| {
        let error = store.set_resident("large", Some(clusters), None).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(3, "at least 9 clusters");
    let small = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
    drop(store.create_object("small", small, |_| Ok::<(), Error>(())).unwrap());
    assert!(store.set_resident("small", Some(100), None).unwrap_err().to_string().contains("one cluster"));
    let object = store.object("large").unwrap();
    refused(20, "open");
    // The end of the span belongs to the table.
    assert!(matches!(object.grow(255 * CLUSTER), Err(Error::SpanFull { .. })));
    object.grow(254 * CLUSTER).unwrap();
}

/// The file system is asked again for the clusters in memory, and a cold one takes none.
#[test]
fn cold_clusters_stay_cold_when_the_store_gets_another_identity() {
    let home = Home::new();
    let (store, object) = home.grown();
    fill(&object, 1);
    object.cool(object.prime() + CLUSTER..object.backed()).unwrap();
    drop(object);
    let before = frames(&home.path("store"));
    store.rebase([9; 16]).unwrap();
    let after = frames(&home.path("store"));
    assert!(after <= before + 1, "{before} clusters, and {after} after it");
    assert_eq!(store.check(), []);
    let store = home.reopen(store);
    verify(&store.object("large").unwrap(), 1);
}

#[test]
fn other_processes_do_not_share_it_and_removing_it_removes_its_file() {
    let home = Home::new();
    let store = home.store();
    store.close().unwrap();
    drop(store);
    let store = Store::options(home.path("store")).shared().open(&home.options).unwrap();
    let shared = store.open_object("large", &ObjectOpen::shared(everbyte_store::Engine::None, 0));
    assert!(matches!(shared, Err(Error::Unshared { .. })));
    drop(store.object("large").unwrap());
    let backing = home.backing();
    store.remove_object("large").unwrap();
    assert!(!backing.exists());
    assert_eq!(store.check(), []);
}

#[test]
fn who_asks_for_more_than_the_quota_is_refused() {
    let home = Home::new();
    let store = home.store();
    store.set_quota("large", Some(6)).unwrap(); // its cold table counts, too
    assert_eq!(store.stat("large").unwrap().quota, Some(6));
    let object = store.object("large").unwrap();
    object.grow(4 * CLUSTER).unwrap();
    let error = object.grow(2 * CLUSTER).unwrap_err();
    assert!(matches!(error, Error::QuotaExceeded { quota: 6, has: 6, asked: 2, .. }), "{error}");
    // Released clusters do not count.
    let last = object.backed().get() - CLUSTER..object.backed().get();
    object.release(last.clone()).unwrap();
    object.grow(CLUSTER).unwrap();
    assert!(matches!(object.back(last.clone()), Err(Error::QuotaExceeded { .. })));
    store.set_quota("large", None).unwrap();
    object.back(last).unwrap();
    object.grow(8 * CLUSTER).unwrap();
}

#[test]
fn the_objects_of_a_user_have_a_quota_together() {
    let home = Home::new();
    let store = home.store();
    let span = ObjectOptions { span: Some(1 << 20), ..ObjectOptions::default() };
    let root = Caller { user: 0, groups: vec![] };
    for (name, owner) in [("one", 1000), ("two", 1000), ("other", 1001)] {
        drop(store.create_object(name, span, |_| Ok::<(), Error>(())).unwrap());
        store.change_access(&root, name, |_| Access { owner, group: 0, mode: 0o666 }).unwrap();
    }
    store.set_user_quota(Some(6)).unwrap();
    let store = home.reopen(store);
    assert_eq!(store.user_quota(), Some(6));
    let [one, two, other] = ["one", "two", "other"].map(|name| store.object(name).unwrap());
    one.grow(3 * CLUSTER).unwrap();
    let error = two.grow(2 * CLUSTER).unwrap_err();
    assert!(matches!(error, Error::UserQuotaExceeded { user: 1000, quota: 6, has: 5, asked: 2, .. }), "{error}");
    two.grow(CLUSTER).unwrap();
    assert!(one.grow(CLUSTER).is_err());
    other.grow(5 * CLUSTER).unwrap(); // no other object has less for it
    store.set_user_quota(None).unwrap();
    two.grow(CLUSTER).unwrap();
    drop([one, two, other]);
    assert_eq!(store.check(), []);
}
