//! CLIENT PAUSE and FAILOVER hold commands back for reasons of their own.

use super::{START, Turns};
use crate::replication::{Failover, PrimaryAddress};
use std::time::Duration;

/// A server that is about to hand its part over to a replica, which has not got everything.
fn failing_over(deadline: Option<u64>) -> Turns {
    let mut turns = Turns::new();
    turns.server.iterations.shared.replication.failover = Some(Failover { to: None, force: false, deadline });
    turns
}

/// The replies of an iteration without requests, and of one behind it.
fn later(turns: &mut Turns, time: u64) -> Vec<String> {
    let (one, two) = (turns.at(time, &[]), turns.at(time, &[]));
    one.iter().zip(&two).map(|(one, two)| one.clone() + two).collect()
}

#[test]
fn the_end_of_a_pause_lets_no_client_write_in_a_failover() {
    let mut turns = failing_over(None);
    assert_eq!(turns.ask(0, &["GET k"]), "$-1\r\n");
    assert_eq!(turns.ask(0, &["SET k v"]), "");
    assert_eq!(turns.ask(1, &["CLIENT UNPAUSE"]), "+OK\r\n");
    assert_eq!(later(&mut turns, 0)[0], "");
    assert_eq!(turns.ask(1, &["GET k", "FAILOVER ABORT"]), "$-1\r\n+OK\r\n");
    assert_eq!(later(&mut turns, 0)[0], "+OK\r\n");
    assert!(turns.ask(1, &["FAILOVER ABORT"]).starts_with("-ERR No failover"));
}

#[test]
fn the_end_of_a_failover_leaves_the_pause_of_the_operator() {
    let mut turns = failing_over(None);
    assert_eq!(turns.ask(1, &["CLIENT PAUSE 100000 WRITE", "FAILOVER ABORT"]), "+OK\r\n+OK\r\n");
    assert_eq!(turns.ask(0, &["SET k v"]), "");
    assert_eq!(later(&mut turns, 0)[0], "");
    assert_eq!(turns.ask(1, &["CLIENT UNPAUSE"]), "+OK\r\n");
    assert_eq!(later(&mut turns, 0)[0], "+OK\r\n");
}

/// Clients that only read go on as their pause ends, and those that write as the failover is given
/// up.
#[test]
fn a_pause_of_all_in_a_failover_ends_for_those_that_read() {
    let mut turns = failing_over(Some(START + 2000));
    assert_eq!(turns.ask(1, &["CLIENT PAUSE 1000 ALL"]), "+OK\r\n");
    let replies = turns.at(0, &[(0, &["GET k"]), (2, &["SET k v"])]);
    assert_eq!((&*replies[0], &*replies[2]), ("", ""));
    let replies = later(&mut turns, 1001);
    assert_eq!((&*replies[0], &*replies[2]), ("$-1\r\n", ""));
    let replies = later(&mut turns, 2001);
    assert_eq!((&*replies[0], &*replies[2]), ("", "+OK\r\n"));
    assert!(turns.server.iterations.shared.replication.failover.is_none());
}

/// A server that removes no expired keys, because clients are paused or because it is a replica,
/// waits for events all the same.
#[test]
fn a_loop_without_work_sleeps_in_a_pause_and_as_a_replica() {
    let sleeps = |turns: &Turns| !turns.server.iterations.sleep_max(Duration::from_secs(1)).is_zero();
    let mut turns = failing_over(None);
    assert_eq!(turns.at(1000, &[(0, &["SET k v"])])[0], "");
    assert!(sleeps(&turns), "a client waits for the end of the failover");
    turns.at(1000, &[(1, &["FAILOVER ABORT"])]);
    assert!(!sleeps(&turns), "it goes on at once");
    assert_eq!(turns.at(1000, &[])[0], "+OK\r\n");
    turns.at(1000, &[(1, &["CLIENT PAUSE 50000 WRITE"])]);
    assert_eq!(turns.at(2000, &[(0, &["SET k v"])])[0], "");
    assert!(sleeps(&turns));
    let mut turns = Turns::new();
    let primary = PrimaryAddress { host: "127.0.0.1".into(), port: 1 };
    turns.server.iterations.shared.replication.primary = Some(primary);
    turns.at(1000, &[]);
    assert!(sleeps(&turns));
}
