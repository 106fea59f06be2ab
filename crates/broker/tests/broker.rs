//! A broker and the programs of several users, some of them hostile. As root the kernel is asked for other users' rights; else
//! the caller is one user, and what concerns others is left to the tests of the store's `access`.

use everbyte_broker::{Broker, Client, Error, Options, Want};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::getuid;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

struct Place {
    folder: tempfile::TempDir,
    broker: Option<Broker>,
}

impl Place {
    fn new(quota: u64) -> Place {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
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

/// Runs `body` in a thread that the kernel takes for another user's.
fn as_user<T: Send>(uid: u32, gid: u32, body: impl FnOnce() -> T + Send) -> T {
    as_member(uid, gid, &[], body)
}

/// [`as_user`] of a user who is in more groups.
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

#[test]
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

#[test]
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

#[test]
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
    // Being in the group is enough, among however many.
    let many: Vec<u32> = (6000..6100).collect();
    assert!(as_member(4003, 5001, &[&many[..], &[5000]].concat(), || client.attach("mine", Want::Read)).is_ok());
    refused(as_member(4003, 5001, &many, || client.attach("mine", Want::Read)), Errno::ACCESS);
    // What was passed for reading stays so: not by writing, not by opening it anew, not by way of the directory.
    let read = as_user(4002, 5000, || client.attach("mine", Want::Read)).unwrap();
    let file = read.file().unwrap();
    assert!(file.write_at(b"x", 4096).is_err() && file.set_len(0).is_err());
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    assert!(as_user(4002, 5000, || File::options().write(true).open(&again)).is_err());
    assert!(as_user(4002, 5000, || std::fs::read_dir(place.dir())).is_err());
    // Only owners change rights, and only root gives away.
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
}

/// Whoever may write may ruin the file; the broker and other domains go on, and the next to open it is told.
#[test]
fn a_writer_that_truncates_its_domain_hurts_nobody_else() {
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

#[test]
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

#[test]
fn files_that_a_crash_left_without_an_entry_go_and_others_stay() {
    let mut place = Place::new(1 << 30);
    place.client().create("kept", 0o600, 1 << 20).unwrap();
    place.broker = None;
    std::fs::write(place.dir().join("00000000000000ff.domain"), b"half made").unwrap();
    std::fs::write(place.dir().join("notes.txt"), b"somebody's").unwrap();
    place.start(1 << 30);
    assert_eq!(place.files().len(), 1);
    assert!(place.dir().join("notes.txt").exists());
    assert!(place.client().attach("kept", Want::Write).is_ok());
}

#[test]
fn without_a_broker_or_beside_another_one_is_told() {
    let error = Client::new(Path::new("/dev/shm/no-broker-here")).list("").unwrap_err().to_string();
    assert!(error.contains("everbyte broker"), "{error}");
    let place = Place::new(1 << 30);
    let second = Broker::start(&place.dir(), &place.folder.path().join("second"), Options::default());
    let error = second.err().unwrap().to_string();
    assert!(error.contains("names.store"), "{error}");
    assert!(place.client().list("").unwrap().is_empty(), "the first goes on");
}

/// What a broker that ends has not read it has not done.
#[test]
fn who_was_not_heard_asks_the_next_broker() {
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
        let accepted = rustix::net::accept(&ending).unwrap(); // the other is left waiting
        place.start(1 << 30);
        drop((accepted, ending));
        asking.into_iter().for_each(|asking| asking.join().unwrap().unwrap());
    });
    assert_eq!(client.list("").unwrap().len(), 2);
}
