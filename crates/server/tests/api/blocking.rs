//! Clients that wait for an element: when it leaves, who gets it, and when a client gives up.

use crate::common::{Client, Ours, Reply, command, figure};
use crate::pending::{self, ensure, has_reply};
use everbyte_kv::ManualClock;
use everbyte_server::Options;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn pair(key: &str, element: &str) -> Reply {
    Reply::List(vec![bulk(key), bulk(element)])
}

/// Waits until so many clients wait.
fn await_waiting(control: &mut Client, count: u64) {
    while figure(control, "blocked_clients") != count {}
}

/// The same beside a closed disk, by other clients: one that is served in the iteration of a write
/// has no reply before the disk has it.
fn await_waiting_beside(ours: &pending::Ours, count: u64) {
    let found = |client: &mut Client| client.reply().bytes();
    loop {
        let mut client = Client::connect(ours.address);
        client.send(&command(&["INFO", "clients"]));
        let end = Instant::now() + Duration::from_millis(200);
        while !has_reply(&client) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let line = format!("blocked_clients:{count}\r\n");
        if has_reply(&client) && String::from_utf8_lossy(&found(&mut client)).contains(&line) {
            return;
        }
    }
}

/// WAIT-2: an element leaves once it is settled, and so does the news that there is none.
fn elements_wait_for_their_sync(bug: Option<&'static str>) -> Result<(), String> {
    let ours = pending::Ours::start(bug);
    let [mut waiter, mut pusher, mut reader, mut late] = std::array::from_fn(|_| ours.client());
    waiter.send(&command(&["BLPOP", "q", "0"]));
    await_waiting(&mut reader, 1);
    ours.disk.close();
    pusher.send(&command(&["RPUSH", "q", "v"]));
    ours.disk.wait_for_a_sync();
    ensure("it waits no more", figure(&mut reader, "blocked_clients") == 0)?;
    ensure("an unsettled element left", !has_reply(&waiter) && !has_reply(&pusher))?;
    ensure("settled state", reader.call(&["EXISTS", "q"]) == Reply::Integer(0))?;
    ours.disk.open();
    ensure("the element", waiter.reply() == pair("q", "v") && pusher.reply() == Reply::Integer(1))?;
    ensure("and one more", waiter.call(&["LLEN", "q"]) == Reply::Integer(0))?;
    // A client gives up because of a removal that is not settled.
    ensure("an element", pusher.call(&["RPUSH", "q", "w"]) == Reply::Integer(1))?;
    ours.disk.close();
    pusher.send(&command(&["LPOP", "q"]));
    ours.disk.wait_for_a_sync();
    late.send(&command(&["BLPOP", "q", "0.05"]));
    std::thread::sleep(Duration::from_millis(200));
    await_waiting_beside(&ours, 0);
    ensure("an unsettled removal is told", !has_reply(&late))?;
    ours.disk.open();
    ensure("null", late.reply() == Reply::Null && pusher.reply() == bulk("w"))
}

#[test]
fn an_element_leaves_once_it_is_settled() {
    elements_wait_for_their_sync(None).unwrap();
}

/// A client that waits has written before, in one pipeline, and is parked as its element comes:
/// both replies leave in order.
#[test]
fn a_client_that_waits_for_the_disk_and_for_an_element_gets_both() {
    let ours = pending::Ours::start(None);
    let [mut waiter, mut pusher, mut other, _idle] = std::array::from_fn(|_| ours.client());
    let mut id = waiter.call(&["CLIENT", "ID"]);
    for round in 0..2 {
        ours.disk.close();
        waiter.send(&[command(&["SET", "k", "v"]), command(&["BLPOP", "q", "0"]), command(&["PING"])].concat());
        ours.disk.wait_for_a_sync();
        await_waiting_beside(&ours, 1);
        if round == 0 {
            pusher.send(&command(&["RPUSH", "q", "v", "w"]));
        } else {
            let Reply::Integer(id) = std::mem::replace(&mut id, Reply::Null) else { panic!("an id") };
            assert_eq!(other.call(&["CLIENT", "UNBLOCK", &id.to_string()]), Reply::Integer(1));
        }
        await_waiting_beside(&ours, 0);
        assert!(!has_reply(&waiter), "its write is not settled");
        ours.disk.let_one_pass();
        assert_eq!(waiter.reply(), Reply::Simple("OK".into()));
        if round == 0 {
            ours.disk.wait_for_a_sync();
            assert!(!has_reply(&waiter) && !has_reply(&pusher), "the element is not settled");
        }
        ours.disk.open();
        assert_eq!(waiter.reply(), if round == 0 { pair("q", "v") } else { Reply::Null });
        assert_eq!(waiter.reply(), Reply::Simple("PONG".into()));
        if round == 0 {
            assert_eq!([pusher.reply(), pusher.call(&["LPOP", "q"])], [Reply::Integer(2), bulk("w")]);
        }
    }
}

/// WAIT-1: first come, first served.
fn first_come_first_served(bug: Option<&'static str>) -> Result<(), String> {
    let ours = pending::Ours::start(bug);
    let [mut pusher, mut control] = std::array::from_fn(|_| ours.client());
    let mut waiters = Vec::from_iter((0..20).map(|_| ours.client()));
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&command(&["BLPOP", "other", "q", "0"]));
        await_waiting(&mut control, number as u64 + 1);
    }
    pusher.call(&["RPUSH", "q", "0", "1", "2"]);
    pusher.call(&["RPUSH", "other", "3"]);
    for number in 4..20 {
        pusher.send(&command(&["RPUSH", "q", &number.to_string()]));
    }
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let key = if number == 3 { "other" } else { "q" };
        ensure("the first waits longest", waiter.reply() == pair(key, &number.to_string()))?;
    }
    Ok(())
}

#[test]
fn elements_go_to_those_who_wait_longest() {
    first_come_first_served(None).unwrap();
}

#[test]
fn seeded_bugs_of_waiting_clients_are_found() {
    println!("{}", elements_wait_for_their_sync(Some("server-push-early")).expect_err("found"));
    println!("{}", first_come_first_served(Some("server-wake-last")).expect_err("found"));
    println!("{}", entries_on_their_way_are_not_missed(Some("server-read-settled-and-wait")).expect_err("found"));
}

/// Clients give up at their time, by the clock of the server, and in its order.
#[test]
fn clients_give_up_by_the_clock() {
    const START: u64 = 1_000_000_000_000;
    let clock = ManualClock::default();
    let at = |millis: u64| clock.set(UNIX_EPOCH + Duration::from_millis(millis));
    at(START);
    let us = Ours::with(Options { clock: Arc::new(clock.clone()), ..Options::default() });
    let [mut first, mut second, mut never, mut control] = std::array::from_fn(|_| us.client());
    second.send(&command(&["BLPOP", "q", "2.5"]));
    first.send(&command(&["BLMOVE", "q", "r", "LEFT", "LEFT", "1"]));
    never.send(&command(&["BLMPOP", "0", "1", "q", "LEFT"]));
    await_waiting(&mut control, 3);
    at(START + 999);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(figure(&mut control, "blocked_clients"), 3);
    at(START + 1000);
    await_waiting(&mut control, 2);
    assert_eq!(first.reply(), Reply::Null);
    assert!(!has_reply(&second));
    at(START + 100_000_000);
    assert_eq!(second.reply(), Reply::Null);
    assert_eq!(figure(&mut control, "blocked_clients"), 1);
    // A clock that jumps back makes clients wait longer.
    second.send(&command(&["BLPOP", "q", "1"]));
    await_waiting(&mut control, 2);
    at(START);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(figure(&mut control, "blocked_clients"), 2);
    control.call(&["RPUSH", "q", "a", "b"]);
    assert_eq!(never.reply(), Reply::List(vec![bulk("q"), Reply::List(vec![bulk("a")])]));
    assert_eq!(second.reply(), pair("q", "b"));
}

/// Without other clients the server wakes by itself.
#[test]
fn a_lonely_client_gives_up_in_time() {
    let us = Ours::start();
    let mut client = us.client();
    let start = Instant::now();
    assert_eq!(client.call(&["BLPOP", "q", "0.3"]), Reply::Null);
    assert!(start.elapsed() >= Duration::from_millis(295));
}

/// Waiting clients cost memory for what they ask, are listed, and leave nothing behind.
#[test]
fn waiting_clients_are_counted_and_forgotten() {
    let us = Ours::start();
    let mut control = us.client();
    let keys: Vec<String> = (0..1000).map(|number| format!("{number}:{}", "k".repeat(100))).collect();
    let mut words = vec!["BLPOP"];
    words.extend(keys.iter().map(String::as_str));
    words.push("0");
    let mut waiters = Vec::from_iter((0..50).map(|_| us.client()));
    waiters.iter_mut().for_each(|waiter| waiter.send(&command(&words)));
    await_waiting(&mut control, 50);
    assert!(figure(&mut control, "clients_input_memory") > 50 * 1000 * 100);
    let list = String::from_utf8(control.call(&["CLIENT", "LIST"]).bytes()).unwrap();
    assert_eq!(list.matches("flags=b ").count(), 50, "{list}");
    control.call(&["RPUSH", &keys[500], "x"]);
    assert_eq!(waiters[0].reply(), pair(&keys[500], "x"));
    waiters.truncate(25);
    await_waiting(&mut control, 24);
    drop(waiters);
    await_waiting(&mut control, 0);
    while figure(&mut control, "clients_input_memory") > 1 << 20 {}
    assert_eq!(control.call(&["RPUSH", &keys[1], "x"]), Reply::Integer(1));
    assert_eq!(control.call(&["LLEN", &keys[1]]), Reply::Integer(1));
}

/// Requests that a client sends while it waits are executed behind its reply; too many end it.
#[test]
fn a_client_may_send_while_it_waits_within_its_limit() {
    let us = Ours::with(Options { input_size_max: 1 << 20, ..Options::default() });
    let [mut waiter, mut flooder, mut control] = std::array::from_fn(|_| us.client());
    waiter.send(&command(&["BLPOP", "q", "0"]));
    await_waiting(&mut control, 1);
    waiter.send(&[command(&["PING"]), command(&["BLPOP", "r", "0"]), command(&["PING"])].concat());
    flooder.send(&command(&["BLPOP", "q", "0"]));
    await_waiting(&mut control, 2);
    use std::io::Write;
    let ping = command(&["PING"]).repeat(1000);
    while flooder.stream.write_all(&ping).is_ok() {}
    await_waiting(&mut control, 1);
    control.call(&["RPUSH", "q", "a", "b"]);
    assert_eq!([waiter.reply(), waiter.reply()], [pair("q", "a"), Reply::Simple("PONG".into())]);
    await_waiting(&mut control, 1);
    control.call(&["RPUSH", "r", "c"]);
    assert_eq!([waiter.reply(), waiter.reply()], [pair("r", "c"), Reply::Simple("PONG".into())]);
    assert_eq!(control.call(&["LPOP", "q"]), bulk("b"));
}

/// An XREAD that waits sees entries that are on their way to the disk: those come before it begins
/// to wait, so that no change tells of them later.
fn entries_on_their_way_are_not_missed(bug: Option<&'static str>) -> Result<(), String> {
    let ours = pending::Ours::start(bug);
    let [mut reader, mut member, mut writer, _idle] = std::array::from_fn(|_| ours.client());
    writer.call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    ours.disk.close();
    writer.send(&command(&["XADD", "s", "1-1", "f", "v"]));
    ours.disk.wait_for_a_sync();
    reader.send(&command(&["XREAD", "BLOCK", "1000", "STREAMS", "s", "0"]));
    member.send(&command(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
    std::thread::sleep(Duration::from_millis(50));
    ensure("an entry left before its sync", !has_reply(&reader) && !has_reply(&member))?;
    ours.disk.open();
    ensure("an entry is added", writer.reply() == bulk("1-1"))?;
    let entry = Reply::List(vec![bulk("1-1"), Reply::List(vec![bulk("f"), bulk("v")])]);
    let all = Reply::List(vec![Reply::List(vec![bulk("s"), Reply::List(vec![entry])])]);
    ensure("the entry is missed", reader.reply() == all)?;
    ensure("the entry is not delivered", member.reply() == all)
}

#[test]
fn an_entry_on_its_way_is_not_missed() {
    entries_on_their_way_are_not_missed(None).unwrap();
}

/// The reply to a client that waited leaves once the write that feeds it is settled, and with it
/// the delivery.
#[test]
fn entries_for_waiting_clients_leave_once_they_are_settled() {
    let ours = pending::Ours::start(None);
    let [mut reader, mut member, mut writer, mut other] = std::array::from_fn(|_| ours.client());
    writer.call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    reader.send(&command(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
    member.send(&command(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
    await_waiting(&mut other, 2);
    ours.disk.close();
    writer.send(&command(&["XADD", "s", "1-1", "f", "v"]));
    ours.disk.wait_for_a_sync();
    assert_eq!(figure(&mut other, "blocked_clients"), 0);
    assert!(!has_reply(&reader) && !has_reply(&member) && !has_reply(&writer));
    let none = Reply::List(vec![Reply::Integer(0), Reply::Null, Reply::Null, Reply::Null]);
    assert_eq!(other.call(&["XPENDING", "s", "g"]), none, "the settled state");
    ours.disk.open();
    let entry = Reply::List(vec![bulk("1-1"), Reply::List(vec![bulk("f"), bulk("v")])]);
    let all = Reply::List(vec![Reply::List(vec![bulk("s"), Reply::List(vec![entry])])]);
    assert_eq!([reader.reply(), member.reply(), writer.reply()], [all.clone(), all, bulk("1-1")]);
    let one = Reply::List(vec![bulk("c"), bulk("1")]);
    let pending = Reply::List(vec![Reply::Integer(1), bulk("1-1"), bulk("1-1"), Reply::List(vec![one])]);
    assert_eq!(other.call(&["XPENDING", "s", "g"]), pending);
}

/// An XREADGROUP that waits ends when its stream expires.
#[test]
fn a_client_that_waits_is_told_that_its_stream_has_expired() {
    let us = Ours::start();
    let [mut member, mut control] = std::array::from_fn(|_| us.client());
    control.call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    member.send(&command(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
    await_waiting(&mut control, 1);
    control.call(&["PEXPIRE", "s", "10"]);
    assert_eq!(member.reply(), Reply::Error("UNBLOCKED the stream key no longer exists".into()));
}
