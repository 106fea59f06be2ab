//! Limits of idle time, and of what waits for a client to be read.

use super::Turns;
use crate::Options;
use crate::options::SoftLimit;
use std::time::{Duration, Instant};

#[test]
fn clients_that_listen_or_wait_are_not_idle() {
    let mut turns = Turns::with(Options { idle_max: Duration::from_secs(5), ..Options::default() });
    for (client, line) in [(0, "SUBSCRIBE c"), (1, "BLPOP q 0"), (2, "PING")] {
        turns.ask(client, &[line]);
    }
    turns.server.iterations.shared.now = Instant::now() + Duration::from_secs(3600);
    turns.server.iterations.drop_stalled();
    turns.at(0, &[]);
    let left = [0, 1, 2].map(|slot| turns.server.iterations.clients.get(slot).is_some());
    assert_eq!(left, [true, true, false]);
}

/// Less than the soft limit ends the time for which more has waited.
#[test]
fn the_time_above_the_soft_limit_begins_anew() {
    let reply_soft = SoftLimit { size: 100, time: Duration::from_secs(10) };
    let mut turns = Turns::with(Options { reply_soft, ..Options::default() });
    let (iterations, start) = (&mut turns.server.iterations, Instant::now());
    for (seconds, waiting, is_over) in
        [(0, 100, false), (9, 150, false), (10, 99, false), (12, 100, false), (22, 100, false), (23, 100, true)]
    {
        let mut connection = iterations.clients.take(0).unwrap();
        connection.held = vec![b'x'; waiting];
        iterations.shared.now = start + Duration::from_secs(seconds);
        assert_eq!(iterations.is_over_limit(&mut connection), is_over, "{waiting} bytes at {seconds} s");
        iterations.clients.restore(0, connection);
    }
}
