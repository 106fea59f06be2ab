//! What can be chosen when a server starts.

use std::time::Duration;

/// How a [`Server`](crate::Server) listens and what it bounds. The defaults are meant for use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port to listen on; port 0 takes a free one.
    pub address: String,
    /// Connections at a time; one more is told so and closed.
    pub clients_max: usize,
    /// Bytes of one argument or value, as Redis's `proto-max-bulk-len`.
    pub bulk_size_max: usize,
    /// Bytes of one request that is not complete yet; a client that sends more is disconnected.
    pub input_size_max: usize,
    /// Bytes of replies waiting for a client above which nothing more is read from it or executed for it.
    pub output_size_soft: usize,
    /// Bytes of replies waiting for a client at most; a command whose reply would not fit is answered with an error.
    pub output_size_max: usize,
    /// A client above the soft limit that takes no byte for so long is disconnected.
    pub output_stall: Duration,
    /// Commands executed under one settlement of the store.
    pub turn_commands_max: usize,
    /// Bytes of arguments executed under one settlement of the store; one larger command is a turn of its own.
    pub turn_size_max: usize,
    /// Whether SIGTERM and SIGINT end [`Server::run`](crate::Server::run) in good order.
    pub signals: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: "127.0.0.1:6380".into(),
            clients_max: 10_000,
            bulk_size_max: 512 << 20,
            input_size_max: 1 << 30,
            output_size_soft: 1 << 20,
            output_size_max: 1 << 30,
            output_stall: Duration::from_secs(60),
            turn_commands_max: 8192,
            turn_size_max: 4 << 20,
            signals: false,
        }
    }
}
