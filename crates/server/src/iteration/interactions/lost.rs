//! An iteration that another client's command spoils: each client reads as many errors as it
//! expects replies, and one that does not know its own state any more is disconnected.

use super::{FULL, Turns};

/// The lines that two clients read whose commands share an iteration, which the second one spoils;
/// and what the first one reads as it sends PING then.
fn spoiled(first: &[&str], second: &[&str]) -> (Vec<String>, Vec<String>, String) {
    let mut turns = Turns::nearly_full();
    let replies = turns.at(0, &[(0, first), (1, second)]);
    let lines = |client: usize| replies[client].lines().map(str::to_string).collect();
    let ping = turns.ask(0, &["PING"]);
    assert_eq!(turns.ask(2, &["EXISTS a b", "STRLEN big"]), ":0\r\n:1\r\n", "nothing was done");
    (lines(0), lines(1), ping)
}

#[test]
fn each_reply_that_was_due_is_an_error_and_no_other_is() {
    let pong = "+PONG\r\n";
    for (first, second, counts, then) in [
        (&["SET a 1", "GET a"][..], &[FULL][..], [2, 1], pong),
        (&["CLIENT REPLY SKIP", "SET a 1", "GET a"], &[FULL], [1, 1], pong),
        (&["SET a 1", "CLIENT REPLY SKIP", "BLPOP q 0"], &[FULL], [1, 1], pong),
        (&["SET a 1", "BLPOP q 0"], &[FULL], [2, 1], pong),
        (&["SET a 1", "GET a", "CLIENT REPLY OFF"], &[FULL], [2, 1], ""),
        (&["CLIENT REPLY OFF", "SET a 1", "PUBLISH c m"], &[FULL], [0, 1], ""),
        (&["CLIENT REPLY OFF", "SET a 1", "CLIENT REPLY ON", "GET a"], &[FULL], [2, 1], pong),
        (&["SET a 1"], &["CLIENT REPLY SKIP", FULL], [1, 0], pong),
        (&["SET a 1"], &["SET b 1", "CLIENT REPLY SKIP", FULL, "PING"], [1, 1], pong),
        (&["SET a 1"], &["SET b 1", "CLIENT REPLY SKIP", "GET b", FULL], [1, 2], pong),
    ] {
        let (one, other, ping) = spoiled(first, second);
        let errors = |lines: &[String]| lines.iter().filter(|line| line.starts_with("-ERR store")).count();
        assert_eq!([errors(&one), errors(&other)], counts, "{first:?} {second:?}: {one:?} {other:?}");
        let others = usize::from(second.last() == Some(&"PING"));
        assert_eq!([one.len(), other.len()], [counts[0], counts[1] + others], "{first:?} {second:?}");
        assert_eq!(ping, then, "{first:?}");
    }
}

/// Whether a client is still connected that has sent these lines, the last one in an iteration
/// which another client spoils.
fn stays(prepare: &[&str], line: &str) -> bool {
    let mut turns = Turns::nearly_full();
    turns.ask(0, prepare);
    let replies = turns.at(0, &[(2, &["SET before 1"]), (0, &[line]), (1, &[FULL])]);
    assert!(replies[0].starts_with("-ERR store: nothing was done"), "{line}: {replies:?}");
    turns.server.iterations.clients.get(0).is_some()
}

/// The user, the database and tracking are those after a command which, as the client reads, was
/// not done.
#[test]
fn a_client_whose_state_is_not_what_it_reads_is_disconnected() {
    const USER: &str = "ACL SETUSER u on nopass ~* +@all";
    assert!(!stays(&[], "RESET"));
    assert!(!stays(&["CLIENT TRACKING ON"], "CLIENT TRACKING OFF"));
    assert!(!stays(&[], "SELECT 1"));
    assert!(!stays(&[USER], "AUTH u p"));
    assert!(!stays(&[USER], "HELLO 2 AUTH u p"));
    assert!(!stays(&["MULTI", "SELECT 1"], "EXEC"));
    assert!(!stays(&["CLIENT DURABILITY always"], "CLIENT DURABILITY process"));
    // These change nothing.
    assert!(stays(&[], "SELECT 0"));
    assert!(stays(&[], "CLIENT TRACKING OFF"));
    assert!(stays(&[], "HELLO 2"));
    assert!(stays(&["CLIENT DURABILITY process"], "CLIENT DURABILITY process"));
    assert!(stays(&["MULTI", "SELECT 1", "SELECT 0"], "EXEC"));
    assert!(stays(&[], "EVAL \"return redis.call('SELECT','1')\" 0"));
}

/// A transaction or script that is taken back alone takes its SELECT back too.
#[test]
fn a_refused_transaction_leaves_its_client_in_its_database() {
    let script = "EVAL \"redis.call('SELECT','1') return redis.call('SETRANGE','big','3500000','x')\" 0";
    for lines in [&["MULTI", "SELECT 1", FULL, "EXEC"][..], &[script]] {
        let mut turns = Turns::nearly_full();
        let replies = turns.ask(0, lines);
        assert!(replies.lines().last().unwrap().starts_with('-'), "{replies}");
        assert_eq!(turns.ask(0, &["STRLEN big"]), ":1\r\n", "{lines:?}");
    }
}

/// The replies to a client whose lines share an iteration that another one spoils; it is the first
/// loss, so that the iteration is not careful.
fn beside_a_loss(prepare: &[&str], lines: &[&str]) -> (Turns, String) {
    let mut turns = Turns::nearly_full();
    turns.ask(0, prepare);
    let told = turns.at(0, &[(2, &["SET before 1"]), (0, lines), (1, &[FULL])]).swap_remove(0);
    assert_eq!(turns.ask(2, &["EXISTS before a"]), ":0\r\n");
    (turns, told)
}

/// A command for operators acts as it is executed: it has been done though the batch of its
/// iteration was not, and says so.
#[test]
fn commands_for_operators_stand() {
    let lost = "-ERR store: nothing was done";
    let (mut turns, told) = beside_a_loss(&[], &["ACL SETUSER bob on"]);
    assert_eq!(told, "+OK\r\n");
    assert!(turns.ask(0, &["ACL LIST"]).contains("user bob on"));
    // Its place among the replies is its own.
    let lines = ["SET a 1", "CONFIG SET slowlog-max-len 7", "CLIENT LIST ID 2", "GET a", "ACL DELUSER bob"];
    let (mut turns, told) = beside_a_loss(&["ACL SETUSER bob on"], &lines);
    let found: Vec<&str> = told.lines().collect();
    assert!(found[0].starts_with(lost) && found[1] == "+OK" && found[3].starts_with("id=2 "), "{told}");
    assert!(found[5].starts_with(lost) && found[6] == ":1" && found.len() == 7, "{told}");
    assert!(turns.ask(0, &["CONFIG GET slowlog-max-len"]).ends_with("$1\r\n7\r\n"));
    // So does a transaction of such commands alone.
    let (_, told) = beside_a_loss(&["MULTI", "CONFIG SET slowlog-max-len 8", "CLIENT UNPAUSE"], &["EXEC"]);
    assert_eq!(told, "*2\r\n+OK\r\n+OK\r\n");
    // One of which some commands have acted reads no more than that.
    let mixed = ["MULTI", "SET a 1", "CONFIG SET slowlog-max-len 9", "GET a"];
    let (mut turns, told) = beside_a_loss(&mixed, &["EXEC", "GET a"]);
    let found: Vec<&str> = told.lines().collect();
    assert!(found[0].starts_with("-ERR store: the batch was taken back") && found[0].ends_with("have run"), "{told}");
    assert!(found[1].starts_with(lost) && found.len() == 2, "{told}");
    assert!(turns.ask(0, &["CONFIG GET slowlog-max-len"]).ends_with("$1\r\n9\r\n"));
    let (_, told) = beside_a_loss(&["MULTI", "PING", "GET a"], &["EXEC"]);
    assert!(told.starts_with(lost), "{told}");
    // One that is not executed has done nothing.
    let doomed = ["WATCH before", "MULTI", "CONFIG SET slowlog-max-len 9", "GET a"];
    let (mut turns, told) = beside_a_loss(&doomed, &["EXEC"]);
    assert!(told.starts_with(lost), "{told}");
    assert!(!turns.ask(0, &["CONFIG GET slowlog-max-len"]).ends_with("$1\r\n9\r\n"));
}

/// An EXEC whose command for operators has failed, or is no longer permitted, has done nothing.
#[test]
fn a_command_for_operators_that_was_refused_has_not_run() {
    let lost = "-ERR store: nothing was done";
    let (_, told) = beside_a_loss(&["MULTI", "SET a 1", "CONFIG SET slowlog-max-len x"], &["EXEC"]);
    assert!(told.starts_with(lost), "{told}");
    let mut turns = Turns::nearly_full();
    turns.ask(0, &["MULTI", "SET a 1", "CONFIG SET slowlog-max-len 9"]);
    assert_eq!(turns.ask(2, &["ACL SETUSER default -config"]), "+OK\r\n");
    let told = turns.at(0, &[(2, &["SET before 1"]), (0, &["EXEC"]), (1, &[FULL])]).swap_remove(0);
    assert!(told.starts_with(lost), "{told}");
}

/// REPLICAOF of an EXEC that is taken back has not happened.
#[test]
fn a_refused_transaction_makes_no_replica() {
    let mut turns = Turns::nearly_full();
    let told = turns.ask(0, &["MULTI", "REPLICAOF 127.0.0.1 1", FULL, "EXEC"]);
    assert!(told.lines().last().unwrap().starts_with("-EXECABORT"), "{told}");
    assert!(turns.ask(0, &["ROLE"]).contains("master"));
    assert_eq!(turns.ask(0, &["SET a 1"]), "+OK\r\n");
}
