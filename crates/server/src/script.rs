//! Iterations run by hand, without a network: for programs that are crashed at each step.
//!
//! The clients are pairs of connected sockets of this process. [`ServerScript::iteration`] is one
//! iteration of the event loop, which settles on the calling thread before its replies leave. In a
//! script that settles later iterations stay pending, and [`ServerScript::settle`] does the work of
//! the settler's thread.

use crate::clients::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::iteration::Iterations;
use crate::keyspace::Tables;
use crate::options::Options;
use crate::server_state::ServerState;
use crate::settler::Settler;
use everbyte_kv::Kv;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// See the head of this file. The clock and the limits are those of the options.
#[doc(hidden)]
pub struct ServerScript {
    pub(crate) iterations: Iterations,
    peers: Vec<UnixStream>,
}

impl ServerScript {
    /// Opens the tables, and makes them where there are none. So many clients are connected. A
    /// further one, which is silent, keeps iterations pending if they settle later.
    ///
    /// # Errors
    /// As [`Server::bind`](crate::Server::bind), of the tables.
    pub fn open(kv: Kv, clients: usize, settles_later: bool, options: Options) -> Result<ServerScript> {
        let system = |source| Error::System { action: "connect a client of a script", source };
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let settler = settles_later.then(|| Settler::by_hand(&kv));
        let mut shared = ServerState::new(options, address, Tables::open(kv)?);
        shared.load_replication()?;
        let mut iterations = Iterations::with_settler(shared, settler);
        let mut peers = Vec::new();
        for id in 0..clients + usize::from(settles_later) {
            let (peer, ours) = UnixStream::pair().map_err(system)?;
            for end in [&peer, &ours] {
                end.set_nonblocking(true).map_err(system)?;
            }
            let stream = mio::net::TcpStream::from_std(TcpStream::from(OwnedFd::from(ours)));
            let client = Client::new(id as u64 + 1, address, address, 0, Instant::now());
            let limit = iterations.shared.options.bulk_size_max;
            iterations.clients.insert(Box::new(Connection::new(stream, client, limit)));
            peers.push(peer);
        }
        iterations.shared.clients = iterations.clients.count();
        Ok(ServerScript { iterations, peers })
    }

    /// One iteration, in which each of these clients, in this order, has sent these bytes: whole
    /// requests, fewer bytes than a socket takes. Returns the replies that have left for each
    /// client since the last call.
    ///
    /// # Errors
    /// The store could not settle.
    ///
    /// # Panics
    /// If the bytes are too many.
    pub fn iteration(&mut self, requests: &[(usize, Vec<u8>)]) -> Result<Vec<Vec<u8>>> {
        for (client, bytes) in requests {
            self.peers[*client].write_all(bytes).expect("few bytes");
            self.iterations.ready(*client, true);
        }
        self.iterations.begin(Instant::now());
        self.iterations.iteration()?;
        Ok(self.replies())
    }

    /// Does what the settler's thread would do now, if anything. Returns replies as an iteration.
    ///
    /// # Errors
    /// The store could not settle.
    pub fn settle(&mut self) -> Result<Vec<Vec<u8>>> {
        self.iterations.settle_by_hand()?;
        Ok(self.replies())
    }

    fn replies(&self) -> Vec<Vec<u8>> {
        let read = |mut peer: &UnixStream| {
            let mut bytes = Vec::new();
            match peer.read_to_end(&mut bytes) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("a pair of sockets: {error}"),
                _ => bytes,
            }
        };
        self.peers.iter().map(read).collect()
    }
}
