//! CLIENT DURABILITY: connections of two modes that meet in one iteration.

use super::Turns;
use crate::disk_sync::DiskSync;
use everbyte_kv::raw::Raw as _;
use everbyte_media::museum;
use std::time::{Duration, Instant};

/// The replies that leave for the first client once a sync has ended.
fn later(turns: &mut Turns) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = turns.at(0, &[]).swap_remove(0);
        if !left.is_empty() {
            return left;
        }
        assert!(Instant::now() < end, "no reply came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the replies to the client in `always` wait for one sync, in iterations in which another
/// client writes what it reads, and its own order holds.
fn waits_alone() -> bool {
    let mut turns = Turns::on_disk();
    if turns.ask(0, &["CLIENT DURABILITY always"]).is_empty() {
        later(&mut turns);
    }
    for round in 0..5 {
        let before = turns.syncs();
        let left = turns.at(0, &[(1, &[&format!("SET k {round}")]), (0, &["GET k", "SET own 1"]), (2, &["GET k"])]);
        assert_eq!((&*left[1], &*left[2]), ("+OK\r\n", &*format!("$1\r\n{round}\r\n")));
        if !left[0].is_empty() {
            return false;
        }
        // It is not served meanwhile, and others are.
        let more = turns.at(0, &[(0, &["GET own"]), (1, &["GET own"])]);
        assert_eq!(more[1], "$1\r\n1\r\n");
        let told = if more[0].is_empty() { later(&mut turns) } else { more[0].clone() };
        assert!(told.starts_with(&format!("$1\r\n{round}\r\n+OK\r\n")), "{told}");
        assert!(turns.syncs() > before);
        if !told.ends_with("$1\r\n1\r\n") {
            assert_eq!(later(&mut turns), "$1\r\n1\r\n");
        }
    }
    true
}

#[test]
fn in_one_iteration_only_the_client_in_always_waits() {
    assert!(waits_alone());
    assert!(!museum::with("server-always-early", waits_alone));
}

/// A wait that another client ends, and a message, wait for the sync as replies do.
#[test]
fn answers_and_messages_wait_for_the_disk_too() {
    let mut turns = Turns::on_disk();
    if turns.ask(0, &["CLIENT DURABILITY always"]).is_empty() {
        later(&mut turns);
    }
    assert_eq!(turns.ask(0, &["BLPOP q 0"]), "");
    let left = turns.at(0, &[(1, &["RPUSH q e"])]);
    assert_eq!((&*left[0], &*left[1]), ("", ":1\r\n"));
    assert_eq!(later(&mut turns), "*2\r\n$1\r\nq\r\n$1\r\ne\r\n");
    turns.ask(0, &["SUBSCRIBE c"]);
    let left = turns.at(0, &[(1, &["SET k v", "PUBLISH c m"])]);
    assert_eq!((&*left[0], &*left[1]), ("", "+OK\r\n:1\r\n"));
    assert!(later(&mut turns).ends_with("$1\r\nm\r\n"));
}

/// A reply waits as the mode was when its command was executed, whatever changes the mode before it
/// leaves (DISK-1).
#[test]
fn a_later_mode_takes_no_reply_out_of_its_wait() {
    for lines in [
        &["CLIENT DURABILITY always", "SET own 1", "CLIENT DURABILITY default"][..],
        &["CLIENT DURABILITY always", "SET own 1", "RESET"],
        &["MULTI", "CLIENT DURABILITY always", "SET own 1", "CLIENT DURABILITY process", "EXEC"],
    ] {
        let mut turns = Turns::on_disk();
        let before = turns.syncs();
        assert_eq!(turns.ask(0, lines), "", "{lines:?}");
        assert!(later(&mut turns).contains("+OK\r\n"));
        assert!(turns.syncs() > before, "{lines:?}");
        assert_eq!(turns.ask(0, &["SET own 2"]), "+OK\r\n", "it has the mode of the store now");
    }
    // The operator's change meets the reply of another client.
    let always = || {
        let mut turns = Turns::on_disk();
        if turns.ask(1, &["CONFIG SET client-durability always"]).is_empty() {
            while turns.at(0, &[])[1].is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        turns
    };
    let mut turns = always();
    let left = turns.at(0, &[(0, &["SET own 1"]), (1, &["CONFIG SET client-durability store"])]);
    assert_eq!(left[0], "");
    assert_eq!(later(&mut turns), "+OK\r\n");
    // And that of a command that has waited since.
    let mut turns = always();
    assert_eq!(turns.ask(0, &["BLPOP q 0"]), "");
    let left = turns.at(0, &[(2, &["RPUSH q e"]), (1, &["CONFIG SET client-durability store"])]);
    assert_eq!(left[0], "");
    assert_eq!(later(&mut turns), "*2\r\n$1\r\nq\r\n$1\r\ne\r\n");
}

/// A client in `always`, on a disk whose syncs end by hand.
fn sure() -> Turns {
    let mut turns = Turns::on_disk();
    let sync = DiskSync::by_hand(turns.kv.store().media(), None);
    turns.server.iterations.shared.disk_sync = Some(sync);
    assert_eq!(turns.ask(0, &["CLIENT DURABILITY always"]), "");
    assert_eq!(synced(&mut turns), "+OK\r\n");
    turns
}

fn sync(turns: &Turns) -> &DiskSync {
    turns.server.iterations.shared.disk_sync.as_ref().unwrap()
}

/// The replies that leave for the first client as its sync ends.
fn synced(turns: &mut Turns) -> String {
    sync(turns).land();
    turns.at(0, &[]).swap_remove(0)
}

fn failed(turns: &mut Turns) -> String {
    sync(turns).fail();
    turns.at(0, &[]).swap_remove(0)
}

fn is_one_error(reply: &str) -> bool {
    reply.starts_with("-ERR store: injected") && reply.lines().count() == 1
}

/// An element that another client has pushed does not leave if its sync fails: the client that
/// waited for it reads one error, whether it was parked meanwhile or not.
#[test]
fn a_failed_sync_is_one_error_for_each_client_that_waited() {
    let mut turns = sure();
    assert_eq!(turns.ask(0, &["BLPOP q 0"]), "");
    assert_eq!(turns.at(0, &[(1, &["RPUSH q e"])])[0], "");
    assert!(is_one_error(&failed(&mut turns)));
    assert!(turns.server.iterations.clients.get(0).is_some());
    // The answer comes while its client waits for a sync of an earlier reply.
    for first_fails in [false, true] {
        let mut turns = sure();
        assert_eq!(turns.ask(0, &["SET own 1", "BLPOP q 0"]), "");
        assert_eq!(turns.at(0, &[(1, &["RPUSH q e"])])[0], "");
        match first_fails {
            false => assert_eq!(synced(&mut turns), "+OK\r\n"),
            true => assert!(is_one_error(&failed(&mut turns))),
        }
        assert!(is_one_error(&failed(&mut turns)), "{first_fails}");
        assert_eq!(turns.at(0, &[])[0], "");
    }
    // It comes behind the failure.
    let mut turns = sure();
    assert_eq!(turns.ask(0, &["SET own 1", "BLPOP q 0"]), "");
    assert!(is_one_error(&failed(&mut turns)));
    assert_eq!(turns.at(0, &[(1, &["RPUSH q e"])])[0], "");
    assert!(is_one_error(&turns.at(0, &[])[0]));
    // It comes in the iteration of its command, and CLIENT REPLY is respected.
    for (lines, errors) in [(&["BLPOP q 0"][..], 1), (&["SET own 1", "CLIENT REPLY SKIP", "BLPOP q 0"], 1)] {
        let mut turns = sure();
        assert_eq!(turns.at(0, &[(0, lines), (1, &["RPUSH q e"])])[0], "");
        let told = failed(&mut turns);
        assert_eq!(told.matches("-ERR store: injected").count(), errors, "{lines:?}: {told}");
        assert_eq!(told.lines().count(), errors);
    }
}

/// WAITAOF whose time is over before its sync says that nothing is on the disk, and 1 once it is.
#[test]
fn waitaof_that_ends_before_its_sync_says_so() {
    let mut turns = Turns::on_disk();
    turns.server.iterations.shared.disk_sync = Some(DiskSync::by_hand(turns.kv.store().media(), None));
    for replicas in [0, 1] {
        assert_eq!(turns.ask(0, &["SET own 1", &format!("WAITAOF 1 {replicas} 5")]), "+OK\r\n");
        assert_eq!(turns.at(6, &[])[0], "*2\r\n:0\r\n:0\r\n");
    }
    assert_eq!(turns.ask(0, &["SET own 2", "WAITAOF 1 1 5"]), "+OK\r\n");
    assert_eq!(synced(&mut turns), "");
    assert_eq!(turns.at(6, &[])[0], "*2\r\n:1\r\n:0\r\n");
}

/// A message whose sync fails is not sent, and its subscriber is disconnected.
#[test]
fn a_failed_sync_sends_no_message() {
    let mut turns = sure();
    assert_eq!(turns.at(0, &[(1, &["SET k v"]), (0, &["SUBSCRIBE c"])])[0], "");
    assert!(synced(&mut turns).contains("subscribe"));
    assert_eq!(turns.at(0, &[(1, &["SET k w", "PUBLISH c m"])])[0], "");
    assert_eq!(failed(&mut turns), "");
    assert!(turns.server.iterations.clients.get(0).is_none());
}
