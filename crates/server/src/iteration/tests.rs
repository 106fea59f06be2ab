//! Iterations run by hand: which connections are served in one iteration, and in which order, is
//! the test's choice.

use super::*;
use crate::clients::Client;
use crate::keyspace::Tables;
use crate::loops::Loops;
use crate::options::Options;
use everbyte_kv::{Clock, Kv};
use everbyte_media::BackendChoice;
use everbyte_store::{CreateOptions, Store};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Iterations on a store whose syncs the settler waits for, and clients of them.
struct TestLoop {
    iterations: Iterations,
    peers: Vec<TcpStream>,
    listener: TcpListener,
    _poll: mio::Poll,
    _folder: tempfile::TempDir,
}

impl TestLoop {
    fn new(options: Options) -> TestLoop {
        TestLoop::with(options, CreateOptions::default().max)
    }

    /// On a store of at most `max` bytes.
    fn with(options: Options, max: u64) -> TestLoop {
        let folder = tempfile::tempdir().unwrap();
        let media = everbyte_media::Options { backend: BackendChoice::File, ..Default::default() };
        let create = CreateOptions { media, max, ..CreateOptions::default() };
        let kv = Kv::open_or_create(&Store::create(&folder.path().join("store"), &create).unwrap(), "kv").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let shared = ServerState::new(options, listener.local_addr().unwrap(), Tables::open(kv).unwrap());
        TestLoop {
            iterations: Iterations::new(shared, waker),
            peers: Vec::new(),
            listener,
            _poll: poll,
            _folder: folder,
        }
    }

    /// Another client; its number is its slot.
    fn connect(&mut self) -> usize {
        self.peers.push(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap());
        let (stream, peer) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let client = Client::new(self.peers.len() as u64, peer, peer, 0, Instant::now());
        let bulk = self.iterations.shared.options.bulk_size_max;
        let connection = Connection::new(mio::net::TcpStream::from_std(stream), client, bulk);
        self.iterations.clients.insert(Box::new(connection));
        self.iterations.shared.clients = self.iterations.clients.count();
        self.peers.len() - 1
    }

    /// A client sends, and its bytes have come before this returns; then it is queued.
    fn send(&mut self, slot: usize, bytes: &[u8]) {
        self.peers[slot].write_all(bytes).unwrap();
        let connection = self.iterations.clients.get_mut(slot).unwrap();
        while connection.stream.peek(&mut [0]).is_err() {}
        self.iterations.ready(slot, true);
    }

    fn held(&self, slot: usize) -> usize {
        self.iterations.clients.get(slot).map_or(0, Connection::input_size)
    }
}

/// One client is served at the head of an iteration, and its write waits for a sync; then others'
/// requests in the same iteration need room, and it is the one that holds most. It was queued a
/// second time, and the event loop ended with the assertion of PEND-1.
#[test]
fn a_client_served_in_an_iteration_may_be_the_one_that_frees_memory_in_it() {
    const VALUE: usize = 100_000;
    const READ: usize = 64 << 10; // what a client holds that has sent a few bytes
    let mut test_loop = TestLoop::new(Options::default());
    let slots = Vec::from_iter((0..2 * GROUP_MAX + 1).map(|_| test_loop.connect()));
    let (large, small, late) = (slots[0], &slots[1..GROUP_MAX], &slots[GROUP_MAX..2 * GROUP_MAX]);
    let header = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE}\r\n");
    test_loop.send(large, &[header.as_bytes(), &vec![b'v'; VALUE]].concat());
    while test_loop.held(large) < header.len() + VALUE {
        test_loop.iterations.ready(large, true);
        test_loop.iterations.iteration().unwrap();
    }
    while !test_loop.iterations.idle() {
        test_loop.iterations.iteration().unwrap();
    }
    // Room for the first group of connections that is read together, and not for the second one.
    test_loop.iterations.shared.options.input_total_max =
        test_loop.held(large) + READ + (GROUP_MAX - 1) * READ + READ / 2;
    test_loop.send(large, b"\r\n*2\r\n$4\r\nECHO\r\n$60000\r\nand the next request");
    small.iter().for_each(|&slot| test_loop.send(slot, b"PING\r\n"));
    late.iter().for_each(|&slot| test_loop.send(slot, b"PI"));
    test_loop.iterations.iteration().unwrap();
    assert_eq!(test_loop.iterations.shared.metrics.connections_over_limit, 1);
    test_loop.iterations.drain().unwrap();
    test_loop.iterations.iteration().unwrap();
    assert!(test_loop.iterations.clients.get(large).is_none(), "it held most");
    assert_eq!(test_loop.iterations.clients.count(), slots.len() - 1);
    for &slot in small {
        let mut reply = [0; 7];
        test_loop.peers[slot].read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
    assert_eq!(
        test_loop.iterations.shared.kv.len_of(b"k").unwrap(),
        Some(VALUE as u64),
        "what it wrote before is kept"
    );
}

/// A key is watched and then changed by another client, in one iteration; and a key with a deadline
/// is watched, which passes. Whether the transactions are doomed.
fn changes_doom(bug: Option<&'static str>) -> bool {
    let run = || {
        let mut test_loop = TestLoop::new(Options::default());
        let [watcher, other] = [test_loop.connect(), test_loop.connect()];
        test_loop.send(watcher, b"WATCH k\r\nMULTI\r\nSET mine 1\r\n");
        test_loop.send(other, b"SET k changed\r\n");
        test_loop.iterations.iteration().unwrap();
        test_loop.iterations.drain().unwrap();
        test_loop.send(watcher, b"EXEC\r\n");
        test_loop.iterations.iteration().unwrap();
        test_loop.iterations.drain().unwrap();
        let mut reply = [0; 22];
        test_loop.peers[watcher].read_exact(&mut reply).unwrap();
        assert!(test_loop.iterations.shared.watches.is_empty(), "EXEC unwatches");
        &reply == b"+OK\r\n+OK\r\n+QUEUED\r\n*-1"
    };
    match bug {
        Some(bug) => everbyte_media::museum::with(bug, run),
        None => run(),
    }
}

/// WATCHED-1
#[test]
fn a_change_in_the_iteration_of_the_watch_dooms_the_transaction() {
    assert!(changes_doom(None));
    assert!(!changes_doom(Some("server-watch-same-iteration")), "the seeded bug is found");
}

/// A client that leaves watches nothing any more.
#[test]
fn a_client_that_leaves_unwatches() {
    let mut test_loop = TestLoop::new(Options::default());
    let watcher = test_loop.connect();
    test_loop.send(watcher, b"WATCH k\r\nQUIT\r\n");
    test_loop.iterations.iteration().unwrap();
    assert!(test_loop.iterations.shared.watches.is_empty() && test_loop.iterations.clients.count() == 0);
}

/// The memory of queued commands counts, and the client that holds most of it makes room.
#[test]
fn queued_commands_count_as_input() {
    let mut test_loop = TestLoop::new(Options { input_total_max: 3 << 20, ..Options::default() });
    let [hoarder, other] = [test_loop.connect(), test_loop.connect()];
    let value = vec![b'v'; 50_000];
    test_loop.send(hoarder, b"MULTI\r\n");
    for _ in 0..100 {
        if test_loop.iterations.clients.get(hoarder).is_none() {
            break;
        }
        test_loop.send(hoarder, &[b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$50000\r\n", &value[..], b"\r\n"].concat());
        test_loop.iterations.iteration().unwrap();
        test_loop.iterations.iteration().unwrap();
    }
    test_loop.send(other, b"PING\r\n");
    test_loop.iterations.iteration().unwrap();
    test_loop.iterations.iteration().unwrap();
    assert!(test_loop.iterations.clients.get(hoarder).is_none() && test_loop.iterations.clients.count() == 1);
    assert!(test_loop.iterations.shared.input_memory < 1 << 20);
}

/// A request of these words.
fn request(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    [format!("*{}\r\n", words.len()), words.collect()].concat().into_bytes()
}

/// Whether a client that sends these requests is ended by its input limit of 128 KiB.
fn ends_by_input(requests: impl IntoIterator<Item = Vec<u8>>) -> bool {
    let mut test_loop = TestLoop::new(Options { input_size_max: 128 << 10, ..Options::default() });
    let client = test_loop.connect();
    for request in requests {
        if test_loop.iterations.clients.get(client).is_none() {
            break;
        }
        test_loop.send(client, &request);
        while !test_loop.iterations.idle() {
            test_loop.iterations.iteration().unwrap();
        }
    }
    let ended = test_loop.iterations.clients.get(client).is_none();
    assert_eq!(test_loop.iterations.shared.metrics.connections_over_limit, u64::from(ended));
    assert!(test_loop.iterations.shared.input_memory <= 512 << 10);
    ended
}

/// The server keeps some words of a client from one command to the next. They count as its input.
#[test]
fn words_that_are_kept_for_a_client_count_as_input() {
    let keys = |number: usize| Vec::from_iter((0..10).map(|key| format!("{number}-{key}-{}", "k".repeat(1000))));
    let of_keys = |number: usize, head: &[&str]| {
        let keys = keys(number);
        request(&[head, &Vec::from_iter(keys.iter().map(String::as_str))].concat())
    };
    assert!(ends_by_input((0..100).map(|number| of_keys(number, &["WATCH"]))));
    let unwatched = |number| [of_keys(number, &["WATCH"]), request(&["UNWATCH"])].concat();
    assert!(!ends_by_input((0..100).map(unwatched)));
    assert!(!ends_by_input((0..100).map(|_| of_keys(1, &["WATCH"]))), "a key is watched once");
    let prefixes = (0..1000).map(|number| {
        let prefix = format!("{number:04}{}", "p".repeat(1000));
        request(&["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", &prefix])
    });
    assert!(ends_by_input(prefixes));
    let name = "n".repeat(60_000);
    let names = [&["CLIENT", "SETNAME"][..], &["CLIENT", "SETINFO", "LIB-NAME"], &["CLIENT", "SETINFO", "LIB-VER"]];
    let named = |words: &[&str]| request(&[words, &[&name]].concat());
    assert!(ends_by_input(names.map(named)));
    assert!(!ends_by_input((0..10).map(|_| [named(names[0]), request(&["RESET"])].concat())));
}

/// One client's EXEC writes a key, and another's, which watches it, is served before that is
/// settled; a third one begins to watch then, and reads. Whether all of their replies wait.
fn transactions_wait(bug: &'static str) -> bool {
    everbyte_media::museum::with(bug, || {
        let mut test_loop = TestLoop::new(Options::default());
        let [writer, watcher, late, _idle] = std::array::from_fn(|_| test_loop.connect());
        for round in 0..10_000 {
            test_loop.send(watcher, b"WATCH k\r\nMULTI\r\n");
            test_loop.iterations.iteration().unwrap();
            test_loop.send(writer, b"MULTI\r\nINCR k\r\nEXEC\r\n");
            test_loop.iterations.iteration().unwrap();
            let parked = |test_loop: &TestLoop, slot| test_loop.iterations.clients.get(slot).unwrap().parked;
            let mut wait = parked(&test_loop, writer);
            test_loop.send(watcher, b"EXEC\r\n");
            test_loop.send(late, b"WATCH k\r\nGET k\r\nUNWATCH\r\n");
            test_loop.iterations.iteration().unwrap();
            // Its sync may have ended before this iteration: then another round.
            let shown = !test_loop.iterations.pending.is_empty();
            wait &= !shown || parked(&test_loop, watcher) && parked(&test_loop, late);
            test_loop.iterations.drain().unwrap();
            let expect = format!("+OK\r\n${}\r\n{}\r\n+OK\r\n", (round + 1).to_string().len(), round + 1);
            let mut reply = vec![0; expect.len()];
            test_loop.peers[late].read_exact(&mut reply).unwrap();
            assert_eq!(String::from_utf8(reply).unwrap(), expect, "WATCHED-2");
            let mut reply = [0; 15];
            test_loop.peers[watcher].read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"+OK\r\n+OK\r\n*-1\r\n");
            if !wait || shown {
                return wait;
            }
        }
        panic!("no sync took longer than an iteration");
    })
}

/// ITER-1, of EXEC and of the null of one that is doomed.
#[test]
fn a_transaction_waits_for_its_sync_and_its_null_for_that_of_the_change() {
    assert!(transactions_wait("none"));
    for bug in ["server-exec-early", "server-null-early"] {
        assert!(!transactions_wait(bug), "{bug} is found");
    }
}

/// Two clients wait, and the first leaves behind bytes that were not read; then an element comes,
/// before the event loop has heard of the leaving. The elements that are there, and the second
/// client's reply.
fn element_after_a_death(bug: &'static str) -> (u64, Vec<u8>) {
    everbyte_media::museum::with(bug, || {
        let mut test_loop = TestLoop::new(Options::default());
        let [dead, alive, pusher] = std::array::from_fn(|_| test_loop.connect());
        for waiter in [dead, alive] {
            test_loop.send(waiter, b"BLPOP q 0\r\n");
            test_loop.iterations.iteration().unwrap();
        }
        test_loop.peers[dead].write_all(b"PING\r\n").unwrap();
        test_loop.peers[dead].shutdown(std::net::Shutdown::Both).unwrap();
        test_loop.send(pusher, b"RPUSH q v\r\n");
        test_loop.iterations.iteration().unwrap();
        test_loop.iterations.drain().unwrap();
        test_loop.iterations.iteration().unwrap();
        let mut reply = vec![0; 4];
        test_loop.peers[pusher].read_exact(&mut reply).unwrap();
        assert_eq!(reply, b":1\r\n");
        let peer = &mut test_loop.peers[alive];
        peer.set_nonblocking(true).unwrap();
        let mut reply = [0; 64];
        let count = peer.read(&mut reply).unwrap_or(0);
        (test_loop.iterations.clients.count() as u64, reply[..count].to_vec())
    })
}

/// WAIT-3
#[test]
fn nothing_is_taken_for_a_client_that_has_left() {
    assert_eq!(element_after_a_death("none"), (2, b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n".to_vec()));
    assert!(element_after_a_death("server-pop-for-the-dead").1.is_empty(), "the seeded bug is found");
}

/// A client publishes and writes, and another one's write, in the same iteration, spoils the batch
/// for want of space: the publisher reads an error. The bytes that a subscriber has received.
fn message_of_a_lost_iteration(bug: &'static str) -> Vec<u8> {
    everbyte_media::museum::with(bug, || {
        let mut test_loop = TestLoop::with(Options::default(), 8 << 20);
        let [hearer, publisher, writer] = std::array::from_fn(|_| test_loop.connect());
        let run = |test_loop: &mut TestLoop| {
            test_loop.iterations.iteration().unwrap();
            test_loop.iterations.drain().unwrap();
            test_loop.iterations.iteration().unwrap();
        };
        test_loop.send(hearer, b"SUBSCRIBE c\r\n");
        run(&mut test_loop);
        let mut subscribed = [0; 30];
        test_loop.peers[hearer].read_exact(&mut subscribed).unwrap();
        let set = |key: usize| {
            let value = [b'v'; 20_000];
            [format!("*3\r\n$3\r\nSET\r\n$5\r\n{key:05}\r\n$20000\r\n").as_bytes(), &value, b"\r\n"].concat()
        };
        let mut first = [0; 1];
        for key in 0.. {
            test_loop.send(writer, &set(key));
            run(&mut test_loop);
            test_loop.peers[writer].read_exact(&mut first).unwrap();
            let mut rest = [0; 4096];
            let _ = test_loop.peers[writer].read(&mut rest).unwrap();
            if first[0] == b'-' {
                break;
            }
        }
        test_loop.iterations.careful = 0;
        test_loop.send(publisher, b"PUBLISH c m\r\nSET s 1\r\n");
        // Its first key fits, its second one does not.
        let half = b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$20000\r\n";
        test_loop.send(writer, &[&half[..], &[b'v'; 20_000], b"\r\n"].concat());
        run(&mut test_loop);
        let mut reply = [0; 300];
        let count = test_loop.peers[publisher].read(&mut reply).unwrap();
        let text = String::from_utf8_lossy(&reply[..count]);
        assert!(text.starts_with("-ERR store: nothing was done"), "{text}");
        let peer = &mut test_loop.peers[hearer];
        peer.set_nonblocking(true).unwrap();
        let count = peer.read(&mut reply).unwrap_or(0);
        reply[..count].to_vec()
    })
}

/// PUSH-3
#[test]
fn a_message_of_what_was_taken_back_reaches_no_client() {
    assert_eq!(message_of_a_lost_iteration("none"), b"");
    assert!(message_of_a_lost_iteration("server-push-of-lost").ends_with(b"$1\r\nm\r\n"), "the bug is found");
}

/// A server without requests removes expired keys all the same, ten times a second.
#[test]
fn the_loop_sleeps_no_longer_than_to_the_next_sweep() {
    let mut test_loop = TestLoop::new(Options::default());
    test_loop.iterations.iteration().unwrap();
    assert!(test_loop.iterations.sleep_max(Duration::from_secs(1)) <= Duration::from_millis(100));
}

/// A clock that settles everything as it is asked for the second time: behind an iteration's
/// beginning.
struct SettlingClock(Kv, AtomicU32);

impl Clock for SettlingClock {
    fn now(&self) -> SystemTime {
        if self.1.fetch_add(1, Relaxed) == 1 {
            self.0.put(b"beside", b"").unwrap();
        }
        UNIX_EPOCH + Duration::from_secs(1000)
    }
}

/// Beside another loop a write is pending, and is settled after the first group of requests was
/// received: a client of this group and one of the next group read the key.
fn reads_of_two_groups(bug: &'static str) -> [String; 2] {
    everbyte_media::museum::with(bug, || {
        let mut test_loop = TestLoop::new(Options { loops: 2, ..Options::default() });
        let slots = Vec::from_iter((0..GROUP_MAX + 2).map(|_| test_loop.connect()));
        let iterations = &mut test_loop.iterations;
        iterations.settler = Some(Settler::by_hand(&iterations.shared.kv));
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let loops = Loops::start(&iterations.shared, poll.registry(), &waker, mio::Token(0)).unwrap();
        iterations.lend_to(loops.expect("two loops"));
        let writer = slots[GROUP_MAX + 1];
        test_loop.send(writer, b"SET k old\r\n");
        test_loop.iterations.iteration().unwrap();
        test_loop.iterations.settle_by_hand().unwrap();
        test_loop.send(writer, b"SET k new\r\n");
        test_loop.iterations.iteration().unwrap();
        let shared = &mut test_loop.iterations.shared;
        shared.options.clock = Arc::new(SettlingClock(shared.kv.clone(), AtomicU32::new(0)));
        test_loop.send(slots[0], b"GET k\r\n");
        slots[1..GROUP_MAX - 1].iter().for_each(|&slot| test_loop.send(slot, b"PING\r\n"));
        test_loop.send(slots[GROUP_MAX - 1], b"CLIENT PAUSE 1 WRITE\r\n"); // asks the clock
        test_loop.send(slots[GROUP_MAX], b"GET k\r\n");
        test_loop.iterations.iteration().unwrap();
        [slots[0], slots[GROUP_MAX]].map(|slot| {
            let mut reply = [0; 9];
            test_loop.peers[slot].read_exact(&mut reply).unwrap();
            String::from_utf8_lossy(&reply[4..7]).into_owned()
        })
    })
}

/// LOOP-2: another loop may have told of the write before the second request came.
#[test]
fn requests_that_come_later_read_what_was_settled_meanwhile() {
    assert_eq!(reads_of_two_groups("none"), ["old", "new"]);
    assert_eq!(reads_of_two_groups("server-loop-late-version"), ["old", "old"], "the seeded bug is found");
}
