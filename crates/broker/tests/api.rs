//! A broker and the programs of several users, some of them hostile. As root, tests take the
//! credentials of other users; else there is one user, and the tests of the store's `access` cover
//! the others.

use everbyte_broker::raw::Raw as _;
use everbyte_broker::{Broker, Client, Error, Options, Want};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::getuid;
use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

thread_local! {
    /// The directory of the domains of the test that this thread runs.
    static BASE: Cell<&'static str> = const { Cell::new("/dev/shm") };
}

/// Each test runs with its domains in memory and on a disk, which have different backends.
macro_rules! in_memory_and_on_a_disk {
    ($($(#[doc = $story:literal])* fn $name:ident() $body:block)*) => {
        mod in_memory {
            use super::*;
            $(#[test] fn $name() { BASE.set("/dev/shm"); $body })*
        }
        mod on_a_disk {
            use super::*;
            $(#[test] fn $name() { BASE.set("/var/tmp"); $body })*
        }
    };
}

struct Place {
    folder: tempfile::TempDir,
    broker: Option<Broker>,
}

impl Place {
    fn new(quota: u64) -> Place {
        let folder = tempfile::tempdir_in(BASE.get()).unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut place = Place { folder, broker: None };
        place.start(quota);
        place
    }

    fn start(&mut self, quota: u64) {
        self.broker = None; // one at a time
        self.broker = Some(Broker::start(&self.dir(), &self.socket(), Options { quota }).unwrap());
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("domains")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::new(&self.socket())
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.dir()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "domain")).collect()
    }
}

fn is_root() -> bool {
    getuid().is_root()
}

/// Runs `body` in a thread with the credentials of another user.
fn as_user<T: Send>(uid: u32, gid: u32, body: impl FnOnce() -> T + Send) -> T {
    as_member(uid, gid, &[], body)
}

/// [`as_user`] with further groups.
fn as_member<T: Send>(uid: u32, gid: u32, groups: &[u32], body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            use rustix::process::{Gid, Uid};
            let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
            rustix::thread::set_thread_groups(&groups).unwrap();
            let gid = Gid::from_raw(gid);
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            let uid = Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            body()
        });
        thread.join().unwrap()
    })
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, wanted: Errno) {
    match result.unwrap_err() {
        Error::Refused { errno, said } => {
            assert!(errno == wanted.raw_os_error() && !said.is_empty(), "{errno}: {said}");
        }
        other => panic!("{other}"),
    }
}

in_memory_and_on_a_disk! {
fn a_domain_is_made_shared_and_found_again_by_the_next_broker() {
    let mut place = Place::new(1 << 30);
    let client = place.client();
    client.create("shop/orders", 0o640, 64 << 20).unwrap();
    refused(client.create("shop/orders", 0o640, 64 << 20), Errno::EXIST);
    refused(client.create("//", 0o640, 64 << 20), Errno::INVAL);
    refused(client.create("x", 0o111, 64 << 20), Errno::INVAL);
    refused(client.create("x", 0o600, 1), Errno::INVAL);
    refused(client.attach("nowhere", Want::Read), Errno::NOENT);
    {
        let store = client.attach("shop/orders", Want::Write).unwrap().open(&Default::default()).unwrap();
        assert_eq!(store.info().binding, Some(client.about("shop/orders").unwrap().base));
        store.create_object("o", Default::default(), |_| Ok::<(), everbyte_store::Error>(())).unwrap();
        store.close().unwrap();
    }
    client.chmod("shop/orders", 0o600).unwrap();
    place.start(1 << 30);
    let about = client.about("shop/orders").unwrap();
    assert_eq!((about.access.mode, about.access.owner, about.max), (0o600, getuid().as_raw(), 64 << 20));
    let store = client.attach("shop/orders", Want::Read).unwrap().open(&Default::default()).unwrap();
    assert!(store.object("o").is_ok());
    drop(store);
    client.remove("shop/orders").unwrap();
    refused(client.about("shop/orders"), Errno::NOENT);
    assert_eq!(place.files(), Vec::<PathBuf>::new());
}

fn many_names_are_listed_in_order_by_prefix() {
    let place = Place::new(1 << 40);
    let client = place.client();
    for number in (0..40).rev() {
        client
            .create(&format!("{}/{number:02}", if number % 2 == 0 { "even" } else { "odd" }), 0o600, 1 << 20)
            .unwrap();
    }
    let names = |prefix| client.list(prefix).unwrap().into_iter().map(|about| about.name).collect::<Vec<_>>();
    assert_eq!((names("").len(), names("odd/").len(), names("none").len()), (40, 20, 0));
    assert!(names("").is_sorted() && names("even/")[1] == "even/02");
    let mut bases: Vec<u64> = client.list("").unwrap().iter().map(|about| about.base).collect();
    bases.sort();
    assert!(bases.windows(2).all(|two| two[1] - two[0] >= 1 << 20), "addresses overlap");
}

fn the_kernel_gives_each_user_what_the_mode_says() {
    if !is_root() {
        return;
    }
    let place = Place::new(128 << 20);
    let client = place.client();
    as_user(4001, 5000, || client.create("mine", 0o640, 64 << 20)).unwrap();
    assert!(as_user(4001, 5000, || client.attach("mine", Want::Write)).is_ok());
    assert!(as_user(4002, 5000, || client.attach("mine", Want::Read)).is_ok());
    refused(as_user(4002, 5000, || client.attach("mine", Want::Write)), Errno::ACCESS);
    refused(as_user(4003, 5001, || client.attach("mine", Want::Read)), Errno::ACCESS);
    // One group of many is enough.
    let many: Vec<u32> = (6000..6100).collect();
    assert!(as_member(4003, 5001, &[&many[..], &[5000]].concat(), || client.attach("mine", Want::Read)).is_ok());
    refused(as_member(4003, 5001, &many, || client.attach("mine", Want::Read)), Errno::ACCESS);
    // A descriptor for reading stays so: by a write, by opening it again, through the directory.
    let read = as_user(4002, 5000, || client.attach("mine", Want::Read)).unwrap();
    let file = read.file().unwrap();
    assert!(file.write_at(b"x", 4096).is_err() && file.set_len(0).is_err());
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    assert!(as_user(4002, 5000, || File::options().write(true).open(&again)).is_err());
    assert!(as_user(4002, 5000, || std::fs::read_dir(place.dir())).is_err());
    // Only owners change rights, and only root changes owners.
    refused(as_user(4002, 5000, || client.chmod("mine", 0o666)), Errno::PERM);
    refused(as_user(4002, 5000, || client.remove("mine")), Errno::PERM);
    refused(as_user(4001, 5000, || client.chown("mine", 4002, 5000)), Errno::PERM);
    as_user(4001, 5000, || client.chmod("mine", 0o600)).unwrap();
    refused(as_user(4002, 5000, || client.attach("mine", Want::Read)), Errno::ACCESS);
    client.chown("mine", 4003, 5001).unwrap();
    assert!(as_user(4003, 5001, || client.attach("mine", Want::Write)).is_ok());
    refused(as_user(4001, 5000, || client.attach("mine", Want::Read)), Errno::ACCESS);
    // A quota is one user's.
    as_user(4001, 5000, || client.create("a", 0o600, 100 << 20)).unwrap();
    refused(as_user(4001, 5000, || client.create("b", 0o600, 64 << 20)), Errno::DQUOT);
    as_user(4002, 5000, || client.create("b", 0o600, 64 << 20)).unwrap();
    // Rights that an owner gave to the file itself end when the domain gets another owner.
    as_user(4001, 5000, || {
        client.create("given", 0o640, 1 << 20).unwrap();
        let domain = client.attach("given", Want::Write).unwrap();
        domain.file().unwrap().set_permissions(PermissionsExt::from_mode(0o666)).unwrap();
    });
    client.chown("given", 4003, 5000).unwrap();
    let read = as_user(4002, 5000, || client.attach("given", Want::Read)).unwrap();
    let again = format!("/proc/self/fd/{}", read.file().unwrap().as_raw_fd());
    assert!(as_user(4002, 5000, || File::options().write(true).open(&again)).is_err());
}

/// A client with the right to write may ruin the file; the broker and other domains go on, and the
/// next client that opens the file gets an error.
fn a_writer_that_truncates_its_domain_harms_no_other() {
    let place = Place::new(1 << 30);
    let client = place.client();
    client.create("victim", 0o600, 64 << 20).unwrap();
    client.create("other", 0o600, 64 << 20).unwrap();
    let domain = client.attach("victim", Want::Write).unwrap();
    domain.file().unwrap().set_len(8192 + 512).unwrap();
    drop(domain);
    let error = client.attach("victim", Want::Write).unwrap().open(&Default::default()).err().unwrap().to_string();
    assert!(error.contains("domain victim") && error.contains("truncated from outside"), "{error}");
    client.attach("other", Want::Write).unwrap().open(&Default::default()).unwrap();
    client.remove("victim").unwrap();
}

fn hostile_messages_are_answered_and_change_nothing() {
    let place = Place::new(1 << 30);
    let client = place.client();
    client.create("d", 0o600, 1 << 20).unwrap();
    let say = |message: &[u8]| {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        let _ = rustix::net::send(&socket, message, SendFlags::NOSIGNAL);
        let mut answer = [0; 256];
        let (len, _) = rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap_or((0, 0));
        String::from_utf8_lossy(&answer[..len]).into_owned()
    };
    for message in
        [&b"\0\0\0\0"[..], b"attach", b"create 600 -1 x", b"chown 0 d", &[b'a'; 40_000], b"list d", b"remove"]
    {
        assert!(say(message).starts_with("no "), "{:?}", String::from_utf8_lossy(&message[..message.len().min(20)]));
    }
    assert!(say(b"remove ../names.store").starts_with("no 2 "));
    assert!(say(&[b"create 600 1048576 ", &[b'n'; 200][..]].concat()).starts_with("no 22 "));
    assert_eq!(client.list("").unwrap().len(), 1);
}

fn files_that_a_crash_left_without_an_entry_go_and_others_stay() {
    let mut place = Place::new(1 << 30);
    place.client().create("kept", 0o600, 1 << 20).unwrap();
    place.broker = None;
    std::fs::write(place.dir().join("00000000000000ff.domain"), b"half made").unwrap();
    std::fs::write(place.dir().join("notes.txt"), b"another file").unwrap();
    place.start(1 << 30);
    assert_eq!(place.files().len(), 1);
    assert!(place.dir().join("notes.txt").exists());
    assert!(place.client().attach("kept", Want::Write).is_ok());
}

fn without_a_broker_or_beside_another_one_is_told() {
    let error = Client::new(Path::new("/dev/shm/no-broker-here")).list("").unwrap_err().to_string();
    assert!(error.contains("everbyte broker"), "{error}");
    let place = Place::new(1 << 30);
    let second = Broker::start(&place.dir(), &place.folder.path().join("second"), Options::default());
    let error = second.err().unwrap().to_string();
    assert!(error.contains("names.store"), "{error}");
    assert!(place.client().list("").unwrap().is_empty(), "the first goes on");
}

/// The broker reaches its directory by a descriptor; messages name its path.
fn errors_name_the_directory_as_the_user_did() {
    let place = Place::new(1 << 30);
    let names = place.dir().join("names.store").display().to_string();
    let second = Broker::start(&place.dir(), &place.folder.path().join("second"), Options::default());
    let error = second.err().unwrap().to_string();
    assert!(error.contains(&names) && !error.contains("/proc/"), "{error}");
    place.client().create("gone", 0o600, 1 << 20).unwrap();
    let file = place.files().pop().unwrap();
    std::fs::remove_file(place.dir().join(&file)).unwrap();
    let error = place.client().attach("gone", Want::Write).unwrap_err().to_string();
    assert!(error.contains(&place.dir().display().to_string()) && !error.contains("/proc/"), "{error}");
}

/// A request that an ending broker has not read has no effect.
fn a_request_that_no_broker_read_goes_to_the_next_one() {
    let mut place = Place::new(1 << 30);
    place.broker = None;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let ending = socket.unwrap();
    rustix::net::bind(&ending, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    rustix::net::listen(&ending, 8).unwrap();
    let client = place.client();
    std::thread::scope(|scope| {
        let asking = ["one", "two"].map(|name| {
            let client = &client;
            scope.spawn(move || client.create(name, 0o600, 1 << 20))
        });
        // the other connection stays in the queue
        let accepted = rustix::net::accept(&ending).unwrap();
        place.start(1 << 30);
        drop((accepted, ending));
        asking.into_iter().for_each(|asking| asking.join().unwrap().unwrap());
    });
    assert_eq!(client.list("").unwrap().len(), 2);
}

/// A domain that another user may write to opens for writing in that user's process.
fn a_domain_opens_for_writing_in_the_process_of_another_user() {
    if !is_root() {
        return;
    }
    let place = Place::new(1 << 30);
    let program = place.folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = std::process::Command::new(&program)
        .args(["--exact", "as_another_user"])
        .env("EVERBYTE_TEST_SOCKET", place.socket())
        .uid(4001)
        .gid(4001)
        .current_dir("/")
        .status();
    assert!(status.unwrap().success());
    assert_eq!(place.client().about("mine").unwrap().access.owner, 4001);
}

/// A client may write to its file, and so grow it without bounds: its blocks count in the quota,
/// and the part behind the store is cut.
fn growth_of_a_file_by_its_client_counts_and_is_cut() {
    if !is_root() {
        return;
    }
    let place = Place::new(64 << 20);
    let client = place.client();
    as_user(4001, 5000, || client.create("small", 0o600, 1 << 20)).unwrap();
    let domain = as_user(4001, 5000, || client.attach("small", Want::Write)).unwrap();
    let file = domain.file().unwrap();
    assert_eq!(file.metadata().unwrap().uid(), 4001, "quotas of the file system count it for its user");
    let chunk = vec![1; 1 << 20];
    (8..100).for_each(|at| file.write_all_at(&chunk, at << 20).unwrap());
    refused(as_user(4001, 5000, || client.create("more", 0o600, 60 << 20)), Errno::DQUOT);
    let len = file.metadata().unwrap().len();
    assert!(len <= 18 << 20, "{len} bytes are left");
    as_user(4001, 5000, || client.create("more", 0o600, 32 << 20)).unwrap();
    as_user(4002, 5000, || client.create("other", 0o600, 48 << 20)).unwrap();
    drop(domain);
    as_user(4001, 5000, || client.attach("small", Want::Write)).unwrap().open(&Default::default()).unwrap();
}

/// A directory that another user made beforehand, or can write to, holds that user's files; a link
/// leads to another user's directory.
fn directories_that_others_control_are_refused() {
    if !is_root() {
        return;
    }
    let place = Place::new(1 << 30);
    let folder = place.folder.path();
    let planted = |name: &str, mode: u32, uid: u32| {
        let dir = folder.join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&dir, Some(uid), None).unwrap();
        dir
    };
    let target = planted("target", 0o755, 0);
    let link = folder.join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for (dir, why) in [
        (planted("foreign", 0o700, 4002), "belongs to user 4002"),
        (planted("open", 0o777, 0), "others may write"),
        (link, "symbolic link"),
    ] {
        let before = std::fs::metadata(&dir).unwrap().mode();
        let error = Broker::start(&dir, &folder.join("s"), Options::default()).err().expect(why).to_string();
        assert!(error.contains(why) && error.contains(&*dir.to_string_lossy()), "{error}");
        assert_eq!(std::fs::metadata(&dir).unwrap().mode(), before, "nothing has changed");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    }
}

/// A directory that is moved away while its broker runs is still the one that it uses.
fn a_directory_that_is_replaced_is_not_followed() {
    let place = Place::new(1 << 30);
    let client = place.client();
    client.create("first", 0o600, 1 << 20).unwrap();
    std::fs::rename(place.dir(), place.folder.path().join("moved")).unwrap();
    std::fs::create_dir(place.dir()).unwrap();
    client.create("second", 0o600, 1 << 20).unwrap();
    assert!(client.attach("first", Want::Write).is_ok());
    assert_eq!(std::fs::read_dir(place.dir()).unwrap().count(), 0);
}

/// The broker's own old socket is removed, a file at its path never.
fn the_path_of_a_socket_is_not_cleared_of_other_things() {
    let mut place = Place::new(1 << 30);
    place.broker = None;
    let notes = place.folder.path().join("notes.txt");
    std::fs::write(&notes, b"text").unwrap();
    let error = Broker::start(&place.dir(), &notes, Options::default()).err().unwrap().to_string();
    assert!(error.contains("something else than a socket") && error.contains("notes.txt"), "{error}");
    assert_eq!(std::fs::read(&notes).unwrap(), b"text");
    // The socket of a broker that was killed.
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    drop(socket);
    place.start(1 << 30);
    assert!(place.client().list("").unwrap().is_empty());
}

/// In a shared directory any user may listen first. The client sends no request to a broker that
/// could pass it any file.
fn a_broker_of_a_stranger_is_not_believed() {
    if !is_root() {
        return;
    }
    let place = Place::new(1 << 30);
    let shared = place.folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    let (dir, socket) = (shared.join("domains"), shared.join("socket"));
    let broker = as_user(4002, 4002, || {
        let broker = Broker::start(&dir, &socket, Options::default());
        // The kernel noted the listener's user at that time.
        broker.unwrap()
    });
    let client = Client::new(&socket);
    for uid in [0, 4001] {
        let error = as_user(uid, uid, || client.list("")).unwrap_err().to_string();
        assert!(error.contains("is of user 4002"), "{error}");
    }
    as_user(4002, 4002, || client.list("")).unwrap();
    drop(broker);
    // In a directory of its own a user's broker serves every process that its rights admit.
    std::os::unix::fs::chown(&shared, Some(4002), None).unwrap();
    let broker = as_user(4002, 4002, || Broker::start(&dir, &socket, Options::default()).unwrap());
    as_user(4001, 4001, || client.list("")).unwrap();
    drop(broker);
}

/// Silent clients occupy their own user's threads and no others.
fn silent_clients_of_one_user_do_not_delay_another() {
    if !is_root() {
        return;
    }
    let place = Place::new(1 << 30);
    let client = place.client();
    let silent: Vec<_> = (0..140)
        .filter_map(|_| {
            as_user(4001, 4001, || {
                let kind = SocketType::SEQPACKET;
                let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
                let address = SocketAddrUnix::new(place.socket()).unwrap();
                rustix::net::connect(&socket, &address).ok().map(|()| socket)
            })
        })
        .collect();
    assert!(client.list("").unwrap().is_empty());
    let is_open = |socket: &std::os::fd::OwnedFd| {
        let mut byte = [0];
        let read = rustix::net::recv(socket, &mut byte[..], rustix::net::RecvFlags::DONTWAIT);
        matches!(read, Err(Errno::AGAIN))
    };
    let open = silent.iter().filter(|socket| is_open(socket)).count();
    assert!(open > 0, "all silent clients had to be waited for");
    assert!(open < 140, "no user has all the memory of the broker");
}
}

/// The part of a test above that runs in the process of another user; without it the test does
/// nothing.
#[test]
fn as_another_user() {
    let Ok(socket) = std::env::var("EVERBYTE_TEST_SOCKET") else { return };
    let client = Client::new(Path::new(&socket));
    client.create("mine", 0o600, 64 << 20).unwrap();
    let open = || client.attach("mine", Want::Write).unwrap().open(&Default::default()).unwrap();
    open().create_object("o", Default::default(), |_| Ok::<(), everbyte_store::Error>(())).unwrap();
    assert!(open().object("o").is_ok());
    let read = client.attach("mine", Want::Read).unwrap().open(&Default::default()).unwrap();
    assert!(read.object("o").is_ok());
}

/// With a limit on the size of files (`ulimit -f`), which belongs to a process, the cut of an
/// overgrown file is no signal.
#[test]
fn a_limit_on_the_size_of_files_ends_no_broker() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    if std::env::var_os("EVERBYTE_TEST_LIMIT").is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_limit_on_the_size_of_files_ends_no_broker"]).env("EVERBYTE_TEST_LIMIT", "1");
        let child = child.output().unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && text.contains("1 passed"), "{}: {text}", child.status);
        return;
    }
    let place = Place::new(1 << 30);
    let client = place.client();
    client.create("small", 0o600, 1 << 20).unwrap();
    let domain = client.attach("small", Want::Write).unwrap();
    let file = domain.file().unwrap();
    let unlimited = getrlimit(Resource::Fsize);
    // A limit above the longest file of the domain's store, and one below.
    for (name, limit, left) in [("a", 64 << 20, 18 << 20), ("b", 17 << 20, 32 << 20)] {
        // Again if the broker, which looks each second, was faster than the limit.
        loop {
            file.set_len(32 << 20).unwrap();
            setrlimit(Resource::Fsize, rustix::process::Rlimit { current: Some(limit), ..unlimited }).unwrap();
            if left < 32 << 20 || file.metadata().unwrap().len() == 32 << 20 {
                break;
            }
            setrlimit(Resource::Fsize, unlimited).unwrap();
        }
        client.create(name, 0o600, 1 << 20).unwrap();
        let len = file.metadata().unwrap().len();
        setrlimit(Resource::Fsize, unlimited).unwrap();
        assert_eq!(len, left);
    }
    assert_eq!(client.list("").unwrap().len(), 3);
}
