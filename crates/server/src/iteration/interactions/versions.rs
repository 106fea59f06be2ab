//! SNAPSHOT and CURSOR: what they see of their own iteration, of others', and of what is pending.

use super::{FULL, Turns};
use everbyte_media::museum;

/// The words of a reply of lists and strings, without their heads.
fn words(reply: &str) -> Vec<String> {
    reply.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty()).map(Into::into).collect()
}

fn filled() -> Turns {
    let mut turns = Turns::new();
    turns.ask(0, &["MSET a 1 b 2 c 3 d 4 e 5", "HSET h f v"]);
    turns
}

/// Reads a range to its end while another client writes between the parts.
fn walk(turns: &mut Turns, first: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut part = words(&turns.ask(0, &[first]));
    for round in 0.. {
        let number = part.remove(0);
        all.append(&mut part);
        if number == "0" {
            break;
        }
        turns.ask(1, &["DEL d", "SET a new", &format!("SET b{round} new"), "FLUSHDB"]);
        part = words(&turns.ask(2, &[&format!("CURSOR NEXT {number} LIMIT 2")]));
    }
    all
}

fn a_cursor_keeps_its_version() -> bool {
    ["CURSOR RANGE - + LIMIT 2", "CURSOR REVRANGE + - LIMIT 2", "CURSOR PREFIX c LIMIT 2"].into_iter().all(|first| {
        let found = walk(&mut filled(), first);
        let mut all = vec!["a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "h"];
        match first {
            _ if first.contains("REV") => {
                all = vec!["h", "e", "5", "d", "4", "c", "3", "b", "2", "a", "1"];
            }
            _ if first.contains("PREFIX") => all = vec!["c", "3"],
            _ => {}
        }
        found.iter().filter(|word| *word != "-1").eq(all)
    })
}

#[test]
fn the_parts_of_a_cursor_are_of_one_version() {
    assert!(a_cursor_keeps_its_version());
    assert!(!museum::with("server-cursor-unpinned", a_cursor_keeps_its_version));
}

/// The version of SNAPSHOT CREATE has what its client and others wrote in the iteration, whatever
/// happens later; the name is gone with SNAPSHOT DROP.
#[test]
fn a_snapshot_has_all_before_it() {
    let mut turns = filled();
    let replies = turns.at(0, &[(1, &["SET other 1"]), (0, &["SET own 1", "SNAPSHOT CREATE noon", "GET own"])]);
    assert_eq!(replies[0], "+OK\r\n+OK\r\n", "the next command is executed behind the name");
    assert_eq!(turns.at(0, &[])[0], "$1\r\n1\r\n");
    turns.ask(0, &["FLUSHALL", "SET later 1", "SWAPDB 0 3"]);
    let seen = words(&turns.ask(2, &["CURSOR RANGE - + AT noon"]));
    let seen: Vec<&str> = seen.iter().map(String::as_str).filter(|word| word.parse::<i64>().is_err()).collect();
    assert_eq!(seen, ["a", "b", "c", "d", "e", "h", "other", "own"]);
    assert!(turns.ask(0, &["SNAPSHOT LIST"]).starts_with("*1\r\n*3\r\n$4\r\nnoon\r\n:"));
    assert_eq!(turns.ask(0, &["SNAPSHOT CREATE noon"]), "-ERR a snapshot has this name already\r\n");
    assert_eq!(turns.ask(0, &["SNAPSHOT DROP noon"]), ":1\r\n");
    assert_eq!(turns.ask(0, &["SNAPSHOT DROP noon"]), ":0\r\n");
    assert_eq!(turns.ask(0, &["SNAPSHOT LIST"]), "*0\r\n");
    assert_eq!(turns.ask(0, &["CURSOR RANGE - + AT noon"]), "-ERR no snapshot has this name; see SNAPSHOT LIST\r\n");
}

fn a_snapshot_is_readable() -> bool {
    let mut turns = filled();
    turns.ask(0, &["SNAPSHOT CREATE noon", "FLUSHALL"]);
    words(&turns.ask(1, &["CURSOR PREFIX a AT noon"])) == ["0", "a", "1"]
}

#[test]
fn a_snapshot_without_its_name_is_found() {
    assert!(a_snapshot_is_readable());
    assert!(!museum::with("server-snapshot-unnamed", a_snapshot_is_readable));
}

/// WAITAOF is answered once the iteration of its client's write is settled, and not before.
#[test]
fn waitaof_of_a_pending_iteration_waits() {
    let mut turns = Turns::settling_later();
    assert_eq!(turns.ask(0, &["SET a 1", "WAITAOF 1 0 0"]), "");
    assert_eq!(turns.ask(1, &["PING"]), "+PONG\r\n");
    let mut told = turns.settle().swap_remove(0);
    told.push_str(&turns.ask(0, &[]));
    assert_eq!(told, "+OK\r\n*2\r\n:1\r\n:0\r\n");
}

/// While iterations are pending, a cursor and a snapshot have all that their client was told, and
/// the reply of SNAPSHOT CREATE leaves when the version is settled.
#[test]
fn a_snapshot_of_pending_iterations_is_settled() {
    let mut turns = Turns::settling_later();
    assert_eq!(turns.ask(0, &["SET a 1"]), "");
    assert_eq!(turns.ask(1, &["SNAPSHOT CREATE noon"]), "+OK\r\n");
    assert_eq!(turns.settle()[0], "+OK\r\n");
    let seen = turns.ask(1, &["CURSOR RANGE - + AT noon"]);
    assert_eq!(words(&seen), ["0", "a", "1"]);
}

/// SNAPSHOT CREATE whose iteration is taken back names nothing.
#[test]
fn a_snapshot_that_is_taken_back_is_none() {
    let mut turns = Turns::nearly_full();
    let replies = turns.at(0, &[(2, &["SET before 1"]), (0, &["SNAPSHOT CREATE noon"]), (1, &[FULL])]);
    assert!(replies[0].starts_with("-ERR store: nothing was done"), "{replies:?}");
    assert_eq!(turns.ask(0, &["SNAPSHOT LIST"]), "*0\r\n");
}

#[test]
fn wrong_words_of_versions_are_refused() {
    let mut turns = filled();
    for (line, error) in [
        ("SNAPSHOT CREATE server/x", "-ERR names that begin with server/"),
        ("CURSOR NEXT 7", "-ERR no such cursor"),
        ("CURSOR NEXT x", "-ERR no such cursor"),
        ("CURSOR RANGE - + LIMIT 0", "-ERR LIMIT must be positive"),
        ("CURSOR RANGE - + LIMIT", "-ERR syntax error"),
        ("CURSOR RANGE - + AT a AT b", "-ERR syntax error"),
        ("CURSOR NEXT 7 AT a", "-ERR syntax error"),
        ("CURSOR NOSUCH", "-ERR unknown subcommand"),
    ] {
        let reply = turns.ask(0, &[line]);
        assert!(reply.starts_with(error), "{line}: {reply}");
    }
    assert_eq!(turns.ask(0, &["CURSOR CLOSE 7"]), ":0\r\n");
    assert_eq!(words(&turns.ask(0, &["CURSOR RANGE + -"])), ["0"]);
    assert_eq!(turns.ask(0, &["MULTI", "CURSOR RANGE - +"]).split("\r\n").nth(1).map(|line| &line[..4]), Some("-ERR"));
}
