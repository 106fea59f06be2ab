//! Iterations run by hand: which connections are served in one iteration, and in which order, is
//! the test's choice.

use super::*;
use crate::clients::Client;
use crate::options::Options;
use everbyte_kv::Kv;
use everbyte_media::BackendChoice;
use everbyte_store::{CreateOptions, Store};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

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
        let folder = tempfile::tempdir().unwrap();
        let media = everbyte_media::Options { backend: BackendChoice::File, ..Default::default() };
        let create = CreateOptions { media, ..CreateOptions::default() };
        let kv = Kv::open_or_create(&Store::create(&folder.path().join("store"), &create).unwrap(), "kv").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let shared = ServerState::new(options, listener.local_addr().unwrap(), kv);
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
