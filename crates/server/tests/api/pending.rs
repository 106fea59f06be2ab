//! Writes on their way to the disk: what others see meanwhile, when replies leave, and how long a
//! commit waits for company. The disk's syncs stop at a gate, so a test knows what is settled. Each
//! check runs again with seeded bugs on, and must find them.

use crate::common::{Client, Reply, command, figure};
use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Disk, OpenOptions, museum};
use everbyte_server::{Handle, Options, Server};
use everbyte_store::{CreateOptions, Store};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A file whose syncs by the settler's thread wait while the gate is closed.
pub(crate) struct Gated {
    file: File,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    closed: bool,
    waiting: bool,
    /// One sync may pass, and the next one waits again.
    one: bool,
}

impl Gated {
    fn pass(&self) {
        if std::thread::current().name() != Some("everbyte-settle") {
            return;
        }
        let mut gate = self.gate.lock();
        while gate.closed && !std::mem::take(&mut gate.one) {
            gate.waiting = true;
            self.changed.notify_all();
            self.changed.wait(&mut gate);
        }
        gate.waiting = false;
    }

    pub(crate) fn close(&self) {
        self.gate.lock().closed = true;
    }

    pub(crate) fn open(&self) {
        self.gate.lock().closed = false;
        self.changed.notify_all();
    }

    pub(crate) fn let_one_pass(&self) {
        let mut gate = self.gate.lock();
        (gate.one, gate.waiting) = (true, false);
        self.changed.notify_all();
    }

    /// Waits until a sync has come to the closed gate: the iteration that asked for it has ended by
    /// then.
    pub(crate) fn wait_for_a_sync(&self) {
        let mut gate = self.gate.lock();
        while !gate.waiting {
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

/// A server on a gated disk, with a seeded bug on or none.
pub(crate) struct Ours {
    pub(crate) disk: Arc<Gated>,
    pub(crate) address: std::net::SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<everbyte_server::Result<()>>>,
    _folder: tempfile::TempDir,
}

impl Ours {
    pub(crate) fn start(bug: Option<&'static str>) -> Ours {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let media = everbyte_media::Options { backend: BackendChoice::File, ..Default::default() };
        let options = CreateOptions { media: media.clone(), ..CreateOptions::default() };
        Store::create(&path, &options).unwrap().close().unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let disk = Arc::new(Gated { file, gate: Mutex::default(), changed: Condvar::new() });
        let store = Store::attach(OpenOptions::new(&path).on_disk(disk.clone()).open(&media).unwrap()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let server = Server::bind(kv, Options { address: "127.0.0.1:0".into(), ..Options::default() }).unwrap();
        let (address, handle) = (server.address(), server.handle());
        let run = move || match bug {
            Some(bug) => museum::with(bug, || server.run()),
            None => server.run(),
        };
        Ours { disk, address, handle, thread: Some(std::thread::spawn(run)), _folder: folder }
    }

    /// A client that the server has accepted.
    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(self.address);
        assert_eq!(client.call(&["PING"]), Reply::Simple("PONG".into()));
        client
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.disk.open();
        self.handle.stop();
        let result = self.thread.take().expect("once").join();
        if !std::thread::panicking() {
            result.expect("the server does not panic").expect("the server ends well");
        }
    }
}

/// Whether unread bytes have arrived.
pub(crate) fn has_reply(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let mut byte = [0];
    let found = client.stream.peek(&mut byte);
    client.stream.set_nonblocking(false).unwrap();
    matches!(found, Ok(1))
}

pub(crate) fn ensure(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_string()) }
}

/// One client writes, and its sync is stopped. No reply leaves for what it did, nor for what builds
/// on that, until the sync ends; clients that only read are answered from the settled state at
/// once.
fn replies_wait_for_their_sync(bug: Option<&'static str>) -> Result<(), String> {
    let ours = Ours::start(bug);
    let [mut writer, mut other, mut reader, _idle] = std::array::from_fn(|_| ours.client());
    assert_eq!(writer.call(&["SET", "k", "old"]), Reply::Simple("OK".into()));
    ours.disk.close();
    writer.send(&[command(&["SET", "k", "newer"]), command(&["SET", "n", "5"])].concat());
    ours.disk.wait_for_a_sync();
    ensure("an unsettled value was read", reader.call(&["GET", "k"]) == Reply::Bulk(b"old".to_vec()))?;
    ensure("the size of an unsettled value", reader.call(&["STRLEN", "k"]) == Reply::Integer(3))?;
    ensure("an unsettled key exists", reader.call(&["EXISTS", "n"]) == Reply::Integer(0))?;
    ensure("unsettled keys are counted", reader.call(&["DBSIZE"]) == Reply::Integer(1))?;
    let keys = reader.call(&["KEYS", "*"]);
    ensure("an unsettled key is listed", keys == Reply::List(vec![Reply::Bulk(b"k".to_vec())]))?;
    ensure("a reply left before its sync", !has_reply(&writer))?;
    // Commands that build on what is on its way see it, and wait for a sync of their own.
    other.send(&[command(&["INCR", "n"]), command(&["SETNX", "k", "x"])].concat());
    ours.disk.let_one_pass();
    let ok = Reply::Simple("OK".into());
    ensure("the first reply", writer.reply() == ok && writer.reply() == ok)?;
    ours.disk.wait_for_a_sync();
    ensure("what was acknowledged is seen", reader.call(&["GET", "k"]) == Reply::Bulk(b"newer".to_vec()))?;
    ensure("an unsettled number was read", reader.call(&["GET", "n"]) == Reply::Bulk(b"5".to_vec()))?;
    ensure("a reply left that builds on what is not settled", !has_reply(&other))?;
    ours.disk.open();
    ensure("an increment is lost", other.reply() == Reply::Integer(6) && other.reply() == Reply::Integer(0))
}

/// A client that leaves while its reply waits for the disk takes nothing with it: its write
/// happens, its place is given to the next client, which gets no reply that is not its own.
fn a_client_may_leave_before_its_reply(bug: Option<&'static str>) -> Result<(), String> {
    let ours = Ours::start(bug);
    let [mut reader, _idle] = std::array::from_fn(|_| ours.client());
    let mut leaver = ours.client();
    ours.disk.close();
    leaver.send(&command(&["SET", "k", "left"]));
    ours.disk.wait_for_a_sync();
    drop(leaver);
    let mut next = ours.client();
    let before = next.call(&["GET", "k"]);
    ours.disk.open();
    while figure(&mut reader, "connected_clients") > 3 {}
    let mut last = ours.client();
    let after = [next.call(&["GET", "k"]), last.call(&["GET", "k"])];
    ensure("an unsettled value was read", before == Reply::Null)?;
    ensure("its write is lost", after.iter().all(|reply| *reply == Reply::Bulk(b"left".to_vec())))
}

/// Readers that keep the loop busy do not hold a writer's commit back: it waits for at most two
/// syncs and one iteration.
fn a_write_beside_saturating_readers_is_sent_off(bug: Option<&'static str>) -> Result<(), String> {
    const COMMANDS: usize = 30_000;
    let ours = Ours::start(bug);
    let (mut writer, mut burst) = (ours.client(), Vec::from_iter((0..20).map(|_| ours.client())));
    let mut readers = Vec::from_iter((0..8).map(|_| ours.client()));
    let (request, mut replies) = (command(&["EXISTS", "k"]).repeat(COMMANDS), vec![0; 4 * COMMANDS]);
    let set = command(&["SET", "w", "1"]);
    for _ in 0..2 {
        // Requests for many iterations wait in the sockets from here on. Many connections write at
        // once, then one alone, which must not wait for the others.
        readers.iter_mut().for_each(|reader| reader.send(&request));
        burst.iter_mut().for_each(|client| client.send(&set));
        for client in &mut burst {
            assert_eq!(client.reply(), Reply::Simple("OK".into()));
        }
        for _ in 0..5 {
            writer.send(&set);
            assert_eq!(writer.reply(), Reply::Simple("OK".into()));
        }
        for reader in &mut readers {
            reader.stream.read_exact(&mut replies).unwrap();
        }
    }
    let (iterations, syncs) = (figure(&mut writer, "gather_iterations_max"), figure(&mut writer, "pending_syncs_max"));
    println!("{iterations} iterations, {syncs} syncs");
    assert!(syncs > 0, "no pending iteration: the test shows nothing");
    ensure(&format!("a commit waited for {iterations} iterations and {syncs} syncs"), iterations <= 1 && syncs <= 2)
}

#[test]
fn a_reply_waits_for_its_sync_and_readers_do_not() {
    replies_wait_for_their_sync(None).unwrap();
}

#[test]
fn a_client_that_leaves_during_its_sync_loses_its_reply_alone() {
    a_client_may_leave_before_its_reply(None).unwrap();
}

#[test]
fn a_write_beside_saturating_readers_waits_for_two_syncs_and_one_iteration() {
    a_write_beside_saturating_readers_is_sent_off(None).unwrap();
}

/// Every seeded bug is found by the check named here.
#[test]
fn seeded_bugs_are_found() {
    type Check = fn(Option<&'static str>) -> Result<(), String>;
    let exhibits: [(&str, Check); 4] = [
        ("server-reply-early", replies_wait_for_their_sync),
        ("server-landed-early", replies_wait_for_their_sync),
        ("server-unsettled-read", replies_wait_for_their_sync),
        ("server-gather-forever", a_write_beside_saturating_readers_is_sent_off),
    ];
    for (bug, check) in exhibits {
        println!("{bug}: {}", check(Some(bug)).expect_err(bug));
    }
}
