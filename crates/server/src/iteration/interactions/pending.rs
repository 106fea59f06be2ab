//! Messages, lines of MONITOR and invalidations of an iteration that is pending: they leave as it
//! is settled, and are taken back if it fails.

use super::Turns;
use crate::error::Error;

/// The first client keeps copies of keys and hears a channel, the second one sees all commands.
fn listening() -> Turns {
    let mut turns = Turns::settling_later();
    turns.ask(0, &["HELLO 3", "CLIENT TRACKING ON BCAST", "SUBSCRIBE c"]);
    turns.ask(1, &["MONITOR"]);
    turns
}

/// PUSH-1
#[test]
fn messages_of_a_pending_iteration_leave_as_it_is_settled() {
    let mut turns = listening();
    assert_eq!(turns.at(0, &[(2, &["SET k v", "PUBLISH c m"])])[..3], ["", "", ""]);
    let left = turns.settle();
    assert!(left[0].contains("invalidate") && left[0].contains("\r\nm\r\n"), "{left:?}");
    assert!(left[1].contains("\"SET\" \"k\"") && left[1].contains("\"PUBLISH\""), "{left:?}");
    assert_eq!(left[2], "+OK\r\n:1\r\n");
}

/// PUSH-3. An invalidation leaves all the same: a copy too few costs one read.
#[test]
fn messages_of_a_pending_iteration_that_fails_are_taken_back() {
    let mut turns = listening();
    assert_eq!(turns.at(0, &[(2, &["SET k v", "PUBLISH c m"])])[..3], ["", "", ""]);
    turns.server.iterations.fail(&Error::Settler);
    turns.server.iterations.reply();
    let left = turns.at(0, &[]);
    assert!(!left[0].contains("\r\nm\r\n") && left[1].is_empty(), "{left:?}");
    assert!(left[2].starts_with("-ERR store") && !left[2].contains("+OK"), "{left:?}");
}
