//! Subscribers: pushes that wait for the disk, subscribers that do not read, and many of them.

use crate::common::{Client, Ours, Reply, command, figure};
use crate::pending::{self, ensure, has_reply};
use everbyte_server::Options;
use std::io::Read;
use std::time::Duration;

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn message(channel: &str, text: &str) -> Reply {
    Reply::List(vec![bulk("message"), bulk(channel), bulk(text)])
}

fn subscribe(client: &mut Client, channel: &str) {
    let reply = client.call(&["SUBSCRIBE", channel]).list();
    assert_eq!(reply[..2], [bulk("subscribe"), bulk(channel)]);
}

/// PUSH-1 and PUSH-2: a message leaves once what its publisher did before it is settled; those of
/// publishers that wait for nothing are not held up; and no push takes a held reply with it.
fn pushes_wait_for_their_sync(bug: Option<&'static str>) -> Result<(), String> {
    let ours = pending::Ours::start(bug);
    let [mut hearer, mut writer, mut other, mut third] = std::array::from_fn(|_| ours.client());
    subscribe(&mut hearer, "c");
    let ok = Reply::Simple("OK".into());
    for transaction in [false, true] {
        ours.disk.close();
        let publish = command(&["PUBLISH", "c", "written"]);
        let set = command(&["SET", "k", "v"]);
        writer.send(&match transaction {
            false => [&set[..], &publish].concat(),
            true => [&command(&["MULTI"])[..], &publish, &set, &command(&["EXEC"])].concat(),
        });
        ours.disk.wait_for_a_sync();
        ensure("a message of unsettled writes was delivered", !has_reply(&hearer))?;
        // A publisher that reads the settled state, in a later iteration, is not held up.
        ensure("a message that waits for nothing", other.call(&["PUBLISH", "c", "free"]) == Reply::Integer(1))?;
        ensure("is delivered", hearer.reply() == message("c", "free"))?;
        ensure("a message of unsettled writes was delivered", !has_reply(&hearer))?;
        ours.disk.open();
        ensure("a message is delivered once it is settled", hearer.reply() == message("c", "written"))?;
        let replies: Vec<Reply> = (0..if transaction { 4 } else { 2 }).map(|_| writer.reply()).collect();
        ensure("the publisher's replies", replies.last() != Some(&Reply::Null))?;
    }
    // A subscriber that itself waits for the disk.
    third.call(&["HELLO", "3"]);
    subscribe(&mut third, "c");
    ours.disk.close();
    third.send(&command(&["SET", "x", "1"]));
    ours.disk.wait_for_a_sync();
    ensure("two subscribers", other.call(&["PUBLISH", "c", "free"]) == Reply::Integer(2))?;
    ensure("the other one hears at once", hearer.reply() == message("c", "free"))?;
    other.call(&["PING"]); // everything that was due has been sent
    ensure("a push took an unsettled reply along", !has_reply(&third))?;
    ours.disk.open();
    ensure("first the reply, then the push", third.reply() == ok && third.reply() == message("c", "free"))
}

#[test]
fn a_push_waits_for_what_its_publisher_wrote() {
    pushes_wait_for_their_sync(None).unwrap();
}

#[test]
fn early_pushes_are_found() {
    for bug in ["server-push-early", "server-push-overtakes"] {
        println!("{bug}: {}", pushes_wait_for_their_sync(Some(bug)).expect_err(bug));
    }
}

/// A message reaches those who had subscribed when it was published: not those who subscribe while
/// it waits, and not those who have left the channel.
#[test]
fn a_waiting_message_reaches_its_subscribers_alone() {
    let ours = pending::Ours::start(None);
    let [mut hearer, mut late, mut leaver, mut writer] = std::array::from_fn(|_| ours.client());
    subscribe(&mut hearer, "c");
    subscribe(&mut leaver, "c");
    ours.disk.close();
    writer.send(&[command(&["SET", "k", "v"]), command(&["PUBLISH", "c", "m"])].concat());
    ours.disk.wait_for_a_sync();
    subscribe(&mut late, "c");
    assert_eq!(leaver.call(&["UNSUBSCRIBE", "c"]).list()[2], Reply::Integer(0));
    ours.disk.open();
    assert_eq!(hearer.reply(), message("c", "m"));
    assert_eq!([writer.reply(), writer.reply()], [Reply::Simple("OK".into()), Reply::Integer(2)]);
    assert_eq!(late.exchange_by("PING", b"").0, b"");
    assert_eq!(leaver.exchange(b"").0, b"");
}

/// A subscriber that reads nothing is disconnected above its limit, and the others hear everything.
#[test]
fn a_slow_subscriber_is_closed_and_others_are_not_held_up() {
    let us = Ours::with(Options { push_size_max: 4 << 20, ..Options::default() });
    let [mut deaf, mut hearer, mut publisher] = std::array::from_fn(|_| us.client());
    subscribe(&mut deaf, "c");
    subscribe(&mut hearer, "c");
    let text = "x".repeat(100_000);
    let mut receivers = 2;
    for round in 0..400 {
        match publisher.call(&["PUBLISH", "c", &text]) {
            Reply::Integer(count) => receivers = count,
            other => panic!("{other:?}"),
        }
        assert_eq!(hearer.reply(), message("c", &text), "{round}");
    }
    assert_eq!(receivers, 1, "the deaf one is gone");
    assert_eq!(figure(&mut publisher, "over_limit_connections"), 1);
    assert!(figure(&mut publisher, "clients_output_bytes") < 4 << 20);
    let mut sink = Vec::new();
    deaf.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = deaf.stream.read_to_end(&mut sink);
    assert!(sink.len() > 100_000);
}

/// Subscriptions cost memory, which counts as the client's input; it is given back.
#[test]
fn subscriptions_count_as_input_and_end_with_their_client() {
    let us = Ours::with(Options { input_total_max: 8 << 20, ..Options::default() });
    let [mut hoarder, mut other] = std::array::from_fn(|_| us.client());
    subscribe(&mut other, "mine");
    let mut watcher = us.client();
    let mut sent = 0;
    while figure(&mut watcher, "over_limit_connections") == 0 {
        let names: Vec<String> = (0..100).map(|number| format!("{sent}:{number}:{}", "n".repeat(1000))).collect();
        let mut words = vec!["SUBSCRIBE"];
        words.extend(names.iter().map(String::as_str));
        hoarder.stream.set_nonblocking(false).unwrap();
        use std::io::Write;
        let _ = hoarder.stream.write_all(&command(&words));
        let _ = hoarder.stream.set_read_timeout(Some(Duration::from_millis(20)));
        let mut sink = [0; 1 << 16];
        while matches!(hoarder.stream.read(&mut sink), Ok(1..)) {}
        sent += 1;
        assert!(sent < 200, "subscriptions cost nothing");
    }
    while figure(&mut watcher, "pubsub_channels") != 1 {}
    assert!(figure(&mut watcher, "clients_input_memory") < 1 << 20);
    assert_eq!(watcher.call(&["PUBLISH", "mine", "m"]), Reply::Integer(1));
    assert_eq!(other.reply(), message("mine", "m"));
}

/// 300 subscribers hear 300 messages, in order.
#[test]
fn many_subscribers_hear_every_message_in_order() {
    let us = Ours::start();
    let mut hearers = Vec::from_iter((0..300).map(|_| us.client()));
    hearers.iter_mut().for_each(|client| subscribe(client, "c"));
    let mut publisher = us.client();
    for number in 0..300 {
        publisher.send(&command(&["PUBLISH", "c", &number.to_string()]));
    }
    for hearer in &mut hearers {
        for number in 0..300 {
            assert_eq!(hearer.reply(), message("c", &number.to_string()));
        }
    }
    assert!((0..300).all(|_| publisher.reply() == Reply::Integer(300)));
    let list = String::from_utf8(publisher.call(&["CLIENT", "LIST", "TYPE", "pubsub"]).bytes()).unwrap();
    assert!(list.lines().count() == 300 && list.contains("flags=P") && list.contains("sub=1 psub=0 ssub=0"), "{list}");
}
