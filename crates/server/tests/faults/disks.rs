//! Disks that fail under a running server.

use crate::common::{self, Client, Reply, command};
use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Disk, Durability, OpenOptions};
use everbyte_server::{Error, Options, Server};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A file whose syncs and allocations fail on demand, or take their time.
pub(crate) struct Failing {
    file: File,
    broken: AtomicBool,
    full: AtomicBool,
    /// Synced writes by the thread that settles begin after 2 ms.
    slow: AtomicBool,
    /// The thread that settles panics where it writes.
    panics: AtomicBool,
}

impl Failing {
    pub(crate) fn new(path: &Path) -> Failing {
        let file = File::options().read(true).write(true).open(path).unwrap();
        Failing { file, broken: false.into(), full: false.into(), slow: false.into(), panics: false.into() }
    }

    pub(crate) fn be_slow(&self) {
        self.slow.store(true, Ordering::SeqCst);
    }

    fn write_result(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) { Err(io::Error::other("injected: the disk is gone")) } else { Ok(()) }
    }
}

impl Disk for Failing {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let settles = std::thread::current().name() == Some("everbyte-settle");
        assert!(!(settles && self.panics.load(Ordering::SeqCst)), "injected");
        if settles && self.slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.write_result()?;
        self.file.write_sync_at(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.write_result()?;
        Disk::sync(&self.file)
    }
    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.file)
    }
    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.file.allocate(at, len)
    }
    fn punch(&self, at: u64, len: u64) {
        self.file.punch(at, len);
    }
    fn mappable(&self) -> BorrowedFd<'_> {
        self.file.mappable()
    }
}

fn media() -> everbyte_media::Options {
    everbyte_media::Options { backend: BackendChoice::File, ..Default::default() }
}

type Running = JoinHandle<everbyte_server::Result<()>>;

/// A server on a disk that can be made to fail.
fn start(path: &Path) -> (Arc<Failing>, std::net::SocketAddr, everbyte_server::Handle, Running) {
    start_with(path, "none")
}

/// The same, with a seeded bug.
fn start_with(
    path: &Path,
    bug: &'static str,
) -> (Arc<Failing>, std::net::SocketAddr, everbyte_server::Handle, Running) {
    start_in(path, bug, &media())
}

fn start_in(
    path: &Path,
    bug: &'static str,
    media: &everbyte_media::Options,
) -> (Arc<Failing>, std::net::SocketAddr, everbyte_server::Handle, Running) {
    Store::create(path, &CreateOptions { media: media.clone(), ..CreateOptions::default() }).unwrap().close().unwrap();
    let disk = Arc::new(Failing::new(path));
    let store = Store::attach(OpenOptions::new(path).on_disk(disk.clone()).open(media).unwrap()).unwrap();
    let kv = Kv::open_or_create(&store, "kv").unwrap();
    let server = Server::bind(kv, Options { address: "127.0.0.1:0".into(), ..Options::default() }).unwrap();
    let (address, handle) = (server.address(), server.handle());
    (disk, address, handle, std::thread::spawn(move || everbyte_media::museum::with(bug, || server.run())))
}

fn is_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("ERR store: "))
}

/// When the store cannot settle, no client reads OK, the server ends with an error that gives
/// advice, and acknowledged writes are there.
#[test]
fn a_failed_sync_acknowledges_nothing_and_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (disk, address, _, thread) = start(&path);
    let (mut one, mut two) = (Client::connect(address), Client::connect(address));
    for number in 0..100 {
        assert_eq!(one.call(&["SET", &format!("k{number}"), "before"]), Reply::Simple("OK".into()));
    }
    disk.broken.store(true, Ordering::SeqCst);
    one.send(&[command(&["SET", "k1", "after"]), command(&["GET", "k1"]), command(&["SET", "new", "after"])].concat());
    let replies = [one.reply(), one.reply(), one.reply()];
    assert!(replies.iter().all(is_error), "{replies:?}");
    let error = thread.join().unwrap().expect_err("the server ends");
    assert!(matches!(error, Error::Store { .. }) && error.to_string().contains("start it again"), "{error}");
    assert!(!two.exchange(b"").0.starts_with(b"+OK"));
    drop(disk);
    let kv = Kv::open(&Store::open(&path, &media()).unwrap(), "kv").unwrap();
    for number in 0..100 {
        let value = kv.get(format!("k{number}").as_bytes()).unwrap().unwrap();
        assert!(value == b"before" || number == 1 && value == b"after", "k{number}");
    }
    assert!(kv.check().is_empty());
}

/// A panic in the thread that settles leaves no client waiting: clients without an acknowledgement
/// read an error, the server ends and says why, and acknowledged writes are there.
#[test]
fn a_panic_of_the_thread_that_settles_leaves_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (disk, address, _, thread) = start(&path);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["SET", "k", "before"]), Reply::Simple("OK".into()));
    }
    disk.panics.store(true, Ordering::SeqCst);
    // An iteration that serves one of three leaves settling to the thread.
    for number in 0.. {
        let (said, ended) = clients[number % 3].exchange(&command(&["SET", "k", "after"]));
        if !said.starts_with(b"+OK") {
            let text = String::from_utf8_lossy(&said);
            assert!(ended && text.is_empty() || text.starts_with("-ERR store: nothing is settled any more"), "{text}");
            break;
        }
    }
    let error = thread.join().unwrap().expect_err("the server ends");
    assert!(matches!(error, Error::Settler) && error.to_string().contains("start it again"), "{error}");
    drop((clients, disk));
    let kv = Kv::open(&Store::open(&path, &media()).unwrap(), "kv").unwrap();
    let value = kv.get(b"k").unwrap().unwrap();
    assert!(value == b"before" || value == b"after", "{value:?}");
    assert!(kv.check().is_empty());
}

/// Six clients write at once, each in pending iterations with some of the others, when the disk
/// fails: each receives OK for what is there, then an error or the end of its connection, and never
/// OK again.
#[test]
fn clients_of_pending_iterations_read_the_truth_when_the_disk_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (disk, address, _, thread) = start(&path);
    let acked: [AtomicU64; 6] = Default::default();
    std::thread::scope(|scope| {
        for (number, acked) in acked.iter().enumerate() {
            let disk = &disk;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for value in 1_u64.. {
                    // The disk fails in the midst of the others' pending iterations.
                    if number == 0 && value == 200 {
                        disk.broken.store(true, Ordering::SeqCst);
                    }
                    let (said, ended) = client.exchange(&command(&["SET", &number.to_string(), &value.to_string()]));
                    if !said.starts_with(b"+OK\r\n") {
                        let text = String::from_utf8_lossy(&said);
                        assert!(ended && text.is_empty() || text.starts_with("-ERR store: "), "{text}");
                        assert!(!client.exchange(&command(&["SET", "x", "1"])).0.starts_with(b"+OK"));
                        return;
                    }
                    acked.store(value, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(matches!(thread.join().unwrap(), Err(Error::Store { .. })));
    drop(disk);
    let kv = Kv::open(&Store::open(&path, &media()).unwrap(), "kv").unwrap();
    for (number, acked) in acked.iter().enumerate() {
        let found = kv
            .get(number.to_string().as_bytes())
            .unwrap()
            .map_or(0, |value| String::from_utf8(value).unwrap().parse::<u64>().unwrap());
        let acked = acked.load(Ordering::SeqCst);
        assert!((acked..=acked + 1).contains(&found), "client {number} was told {acked}, {found} found");
    }
}

/// A full disk refuses writes that do not fit, with an error and no change, and takes those that
/// fit, deletions above all. Writes answered with OK are there; writes answered with an error are
/// not.
#[test]
fn a_full_disk_refuses_and_every_answer_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut random = Random::new(common::seed("a_full_disk_refuses"));
    let (disk, address, handle, thread) = start(&path);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
    let mut expect = std::collections::BTreeMap::new();
    let (mut refused, mut done, mut deleted) = (0, 0, 0);
    for round in 0..120 {
        // Ten rounds with room, ten without, and so on.
        disk.full.store(round / 10 % 2 == 1, Ordering::SeqCst);
        let mut asked = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let mut bytes = Vec::new();
            for _ in 0..20 {
                let key = format!("{number}:{}", random.index(2000));
                if random.index(4) == 0 {
                    bytes.extend(command(&["DEL", &key]));
                    asked.push((number, key, None));
                } else {
                    let size = [10, 300, 5_000, 60_000][random.index(4)];
                    let value = vec![b'a' + (round % 26) as u8; size];
                    bytes.extend(command(&[b"SET", key.as_bytes(), &value]));
                    asked.push((number, key, Some(value)));
                }
            }
            client.send(&bytes);
        }
        for (number, key, value) in asked {
            let reply = clients[number].reply();
            match (&reply, value) {
                (Reply::Simple(_), Some(value)) => {
                    expect.insert(key, value);
                    done += 1;
                }
                (Reply::Integer(count), None) => {
                    assert_eq!(*count == 1, expect.remove(&key).is_some(), "{key}");
                    deleted += 1;
                }
                _ if is_error(&reply) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        let key = format!("0:{}", random.index(2000));
        let found = clients[1].call(&["GET", &key]);
        assert_eq!(
            found,
            expect.get(&key).map_or(Reply::Null, |value| Reply::Bulk(value.clone())),
            "round {round}, {key}"
        );
    }
    assert!(refused > 100 && done > 100 && deleted > 100, "{refused} refused, {done} done, {deleted} deleted");
    let mut found = std::collections::BTreeMap::new();
    let list = clients[0].call(&["RANGE", "-", "+"]).list();
    for pair in list.chunks(2) {
        found.insert(String::from_utf8(pair[0].clone().bytes()).unwrap(), pair[1].clone().bytes());
    }
    assert!(found == expect, "{} keys found, {} expected", found.len(), expect.len());
    handle.stop();
    thread.join().unwrap().unwrap();
}

/// A transaction that does not fit is taken back whole and told so; what others wrote in the same
/// iterations stands, and so do transactions that fit.
fn transactions_on_a_full_disk(bug: &'static str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (disk, address, handle, thread) = start_with(&path, bug);
    let mut listener = Client::connect(address);
    listener.call(&["SUBSCRIBE", "done"]);
    let mut told = std::collections::BTreeSet::new();
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
    let (mut expect, mut done, mut refused) = ([0; 4], 0, 0);
    for round in 1..=120_u64 {
        disk.full.store(round / 10 % 2 == 1, Ordering::SeqCst);
        let number = round.to_string();
        for (index, client) in clients.iter_mut().enumerate() {
            let [first, large, last] = ["first", "large", "last"].map(|name| format!("{index}:{name}:{}", round % 16));
            let value = vec![b'v'; [100, 60_000][(round as usize + index) % 2]];
            let mut bytes = command(&["SET", &format!("{index}:before"), &number]);
            bytes.extend(command(&["MULTI"]));
            bytes.extend(command(&["PUBLISH", "done", &format!("{index}:{round}")]));
            bytes.extend(command(&["SET", &first, &number]));
            bytes.extend(command(&[b"SET", large.as_bytes(), &value]));
            bytes.extend(command(&["SET", &last, &number]));
            bytes.extend(command(&["EXEC"]));
            bytes.extend(command(&["MGET", &first, &last]));
            client.send(&bytes);
        }
        for (index, client) in clients.iter_mut().enumerate() {
            let replies: Vec<Reply> = (0..8).map(|_| client.reply()).collect();
            match &replies[6] {
                Reply::List(list) => {
                    assert_eq!(list.len(), 4);
                    told.insert(format!("{index}:{round}"));
                    done += 1;
                    expect[index] = round;
                }
                Reply::Error(text) => {
                    let refusal =
                        text.starts_with("EXECABORT Transaction discarded because of: ") || is_error(&replies[6]);
                    assert!(refusal, "{text}");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
            let Reply::List(found) = &replies[7] else {
                assert!(is_error(&replies[7]), "{replies:?}");
                continue;
            };
            assert_eq!(found[0], found[1], "half of a transaction of round {round}");
            let mine = Reply::Bulk(number.clone().into_bytes());
            assert_eq!(found[0] == mine, matches!(replies[6], Reply::List(_)), "{replies:?}");
        }
    }
    assert!(done > 100 && refused > 10, "{done} done, {refused} refused");
    // PUSH-3: what was published is what was done.
    Client::connect(address).call(&["PUBLISH", "done", "end"]);
    let mut heard = std::collections::BTreeSet::new();
    loop {
        let text = String::from_utf8(listener.reply().list().pop().unwrap().bytes()).unwrap();
        if text == "end" {
            break;
        }
        assert!(heard.insert(text), "a message comes twice");
    }
    handle.stop();
    thread.join().unwrap().unwrap();
    if heard != told {
        return Err(format!("{} messages of {} transactions", heard.len(), told.len()));
    }
    let kv = Kv::open(&Store::open(&path, &media()).unwrap(), "kv").unwrap();
    for (index, round) in expect.into_iter().enumerate() {
        for name in ["first", "last"] {
            let found = kv.get(format!("{index}:{name}:{}", round % 16).as_bytes()).unwrap().unwrap();
            assert_eq!(found, round.to_string().as_bytes());
        }
    }
    Ok(())
}

#[test]
fn a_full_disk_takes_back_whole_transactions() {
    transactions_on_a_full_disk("none").unwrap();
}

/// PUSH-3, with a seeded bug.
#[test]
fn messages_of_refused_transactions_are_found() {
    println!("{}", transactions_on_a_full_disk("server-push-of-refused").expect_err("found"));
}

/// Clients wait for elements while the disk is full now and then: every element whose push was
/// acknowledged is given to one client, no other one is, and no client waits while there are some.
#[test]
fn a_full_disk_gives_each_element_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (disk, address, handle, thread) = start(&path);
    let (mut pushers, mut takers): (Vec<_>, Vec<_>) =
        (0..3).map(|_| (Client::connect(address), Client::connect(address))).unzip();
    let mut control = Client::connect(address);
    let wait = command(&["BLPOP", "q", "0"]);
    takers.iter_mut().for_each(|taker| taker.send(&wait));
    let (mut pushed, mut taken) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let (mut refused, mut errors, mut maybe) = (0, 0, 0);
    let mut collect = |takers: &mut Vec<Client>, errors: &mut usize| {
        for taker in takers {
            loop {
                taker.stream.set_nonblocking(true).unwrap();
                let found = matches!(taker.stream.peek(&mut [0]), Ok(1..));
                taker.stream.set_nonblocking(false).unwrap();
                if !found {
                    break;
                }
                match taker.reply() {
                    Reply::List(pair) => assert!(taken.insert(pair[1].clone().bytes()), "{pair:?} is given twice"),
                    Reply::Error(_) => *errors += 1,
                    other => panic!("{other:?}"),
                }
                taker.send(&wait);
            }
        }
        taken.len()
    };
    for round in 0..200 {
        disk.full.store(round / 10 % 2 == 1, Ordering::SeqCst);
        for (number, pusher) in pushers.iter_mut().enumerate() {
            let element = format!("{round}:{number}");
            let large = vec![b'v'; [100, 60_000][(round + number) % 2]];
            let key = format!("{number}:{}", round % 16);
            pusher.send(&[command(&["RPUSH", "q", &element]), command(&[b"SET", key.as_bytes(), &large])].concat());
        }
        for (number, pusher) in pushers.iter_mut().enumerate() {
            match (pusher.reply(), pusher.reply()) {
                (Reply::Integer(_), _) => {
                    pushed.insert(format!("{round}:{number}").into_bytes());
                }
                (reply, _) if is_error(&reply) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        collect(&mut takers, &mut errors);
        maybe += 1;
    }
    disk.full.store(false, Ordering::SeqCst);
    // The clients that still wait are served now; no other element is there.
    for number in 0..6 {
        let element = format!("last:{number}");
        assert!(matches!(control.call(&["RPUSH", "q", &element]), Reply::Integer(_)));
        pushed.insert(element.into_bytes());
        collect(&mut takers, &mut errors);
    }
    while collect(&mut takers, &mut errors) < pushed.len() {}
    assert_eq!(control.call(&["LLEN", "q"]), Reply::Integer(0));
    println!("{maybe} rounds, {refused} refused, {errors} takers read an error");
    assert!(refused > 0, "the disk was full");
    assert!(taken == pushed, "{} taken, {} pushed", taken.len(), pushed.len());
    handle.stop();
    thread.join().unwrap().unwrap();
}

/// A sync for WAITAOF that fails is an error for the client that waits for it.
#[test]
fn a_failed_sync_answers_waitaof() {
    let folder = tempfile::tempdir().unwrap();
    let hourly = Durability::Interval(Duration::from_secs(3600));
    let media = everbyte_media::Options { durability: hourly, ..media() };
    let (disk, address, _, _thread) = start_in(&folder.path().join("store"), "none", &media);
    let mut client = Client::connect(address);
    client.send(&[command(&["SET", "k", "1"]), command(&["WAITAOF", "1", "0", "0"])].concat());
    assert_eq!(
        (client.reply(), client.reply()),
        (Reply::Simple("OK".into()), Reply::List(vec![Reply::Integer(1), Reply::Integer(0)]))
    );
    disk.broken.store(true, Ordering::SeqCst);
    client.send(&[command(&["SET", "k", "2"]), command(&["WAITAOF", "1", "0", "0"])].concat());
    assert_eq!(client.reply(), Reply::Simple("OK".into()));
    let reply = client.reply();
    assert!(is_error(&reply), "{reply:?}");
}

/// A sync that fails is an error for the connection in `always` whose replies wait for it, and for
/// no other.
#[test]
fn a_failed_sync_answers_a_connection_in_always() {
    let folder = tempfile::tempdir().unwrap();
    let hourly = Durability::Interval(Duration::from_secs(3600));
    let media = everbyte_media::Options { durability: hourly, ..media() };
    let (disk, address, _, _thread) = start_in(&folder.path().join("store"), "none", &media);
    let (mut sure, mut quick) = (Client::connect(address), Client::connect(address));
    assert_eq!(sure.call(&["CLIENT", "DURABILITY", "always"]), Reply::Simple("OK".into()));
    assert_eq!(sure.call(&["SET", "k", "1"]), Reply::Simple("OK".into()));
    disk.broken.store(true, Ordering::SeqCst);
    assert_eq!(quick.call(&["GET", "k"]), Reply::Bulk(b"1".to_vec()));
    let reply = sure.call(&["SET", "k", "2"]);
    assert!(is_error(&reply), "{reply:?}");
}
