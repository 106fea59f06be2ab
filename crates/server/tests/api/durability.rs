//! A connection's own durability mode.

use crate::common::{Client, Ours, Reply, command};
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::{BackendChoice, Durability, museum};
use everbyte_server::{ClientDurability, Options};
use everbyte_store::{CreateOptions, Store};
use std::time::Duration;

/// A server on a store that syncs no write by itself.
fn relaxed(client_durability: ClientDurability) -> (Ours, Kv) {
    let dir = tempfile::tempdir().unwrap();
    let durability = Durability::Interval(Duration::from_secs(3600));
    let media = everbyte_media::Options { backend: BackendChoice::File, durability, ..Default::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&dir.path().join("store"), &options).unwrap();
    let kv = Kv::open_or_create(&store, "kv").unwrap();
    (Ours::on(kv.clone(), dir, Options { client_durability, ..Options::default() }), kv)
}

fn ok(client: &mut Client, words: &[&str]) {
    assert_eq!(client.call(words), Reply::Simple("OK".into()), "{words:?}");
}

/// The syncs that go on until a client has the replies to these requests.
fn syncs(kv: &Kv, client: &mut Client, requests: &[&[&str]]) -> u64 {
    let before = kv.store().media().counts().syncs;
    requests.iter().for_each(|words| client.send(&command(words)));
    requests.iter().for_each(|_| drop(client.reply()));
    kv.store().media().counts().syncs - before
}

/// Whether each reply to a client in `always` has a sync behind what it tells of, written by itself
/// or by others, and no other client waits for one.
fn always_waits() -> bool {
    let (us, kv) = relaxed(ClientDurability::Store);
    let (mut sure, mut quick, mut hears) = (us.client(), us.client(), us.client());
    ok(&mut sure, &["CLIENT", "DURABILITY", "always"]);
    ok(&mut hears, &["CLIENT", "DURABILITY", "always"]);
    hears.call(&["SUBSCRIBE", "news"]);
    (0..10).all(|round| {
        let round = round.to_string();
        let own = syncs(&kv, &mut sure, &[&["SET", "own", &round], &["INCR", "n"]]);
        let again = syncs(&kv, &mut sure, &[&["GET", "own"], &["PING"]]);
        let none = syncs(&kv, &mut quick, &[&["SET", "k", &round], &["GET", "k"], &["GET", "own"]]);
        let others = syncs(&kv, &mut sure, &[&["GET", "k"]]);
        // A write, and a message behind it.
        let before = kv.store().media().counts().syncs;
        quick.call(&["SET", "k", "told"]);
        quick.call(&["PUBLISH", "news", &round]);
        assert_eq!(hears.reply().list().len(), 3);
        let pushed = kv.store().media().counts().syncs - before;
        assert_eq!((again, none), (0, 0));
        own > 0 && others > 0 && pushed > 0
    })
}

#[test]
fn a_client_in_always_is_told_what_the_disk_has() {
    assert!(always_waits());
    assert!(!museum::with("server-always-early", always_waits));
}

/// A server whose clients are in `always` by default, and one that is not.
#[test]
fn one_client_may_wait_less_than_the_others() {
    let (us, kv) = relaxed(ClientDurability::Always);
    let (mut sure, mut quick) = (us.client(), us.client());
    ok(&mut quick, &["CLIENT", "DURABILITY", "interval"]);
    assert_eq!(sure.call(&["CLIENT", "DURABILITY"]), Reply::Bulk(b"always".to_vec()));
    assert_eq!(quick.call(&["CLIENT", "DURABILITY"]), Reply::Bulk(b"interval".to_vec()));
    assert!(syncs(&kv, &mut sure, &[&["SET", "a", "1"]]) > 0);
    assert_eq!(syncs(&kv, &mut quick, &[&["SET", "b", "1"], &["MULTI"], &["GET", "a"], &["EXEC"]]), 0);
    // In one iteration with the other, and with a wait that the other ends.
    sure.send(&command(&["BLPOP", "q", "0"]));
    assert_eq!(syncs(&kv, &mut quick, &[&["RPUSH", "q", "e"]]), 0);
    assert_eq!(sure.reply().list().len(), 2);
    // Replies keep their order over many requests of both.
    for round in 0..200 {
        sure.send(&command(&["INCR", "n"]));
        quick.send(&command(&["SET", "b", &round.to_string()]));
    }
    for round in 1..=200 {
        assert_eq!((sure.reply(), quick.reply()), (Reply::Integer(round), Reply::Simple("OK".into())));
    }
    ok(&mut quick, &["CLIENT", "DURABILITY", "default"]);
    assert!(syncs(&kv, &mut quick, &[&["SET", "b", "2"]]) > 0);
    let unknown = quick.call(&["CLIENT", "DURABILITY", "never"]);
    assert_eq!(unknown, Reply::Error("ERR CLIENT DURABILITY is always, interval, process or default".into()));
    ok(&mut quick, &["CONFIG", "SET", "client-durability", "store"]);
    assert_eq!(quick.call(&["CLIENT", "DURABILITY"]), Reply::Bulk(b"interval".to_vec()));
}
