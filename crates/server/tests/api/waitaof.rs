//! WAITAOF: the disk has what a client wrote, in every durability mode of the store.

use crate::common::{Ours, Reply, command};
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::{BackendChoice, Durability, museum};
use everbyte_server::Options;
use everbyte_store::{CreateOptions, Store};
use std::time::Duration;

/// A store that does not sync each write, and its disk's count of syncs.
fn in_mode(durability: Durability) -> (Kv, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let media = everbyte_media::Options { backend: BackendChoice::File, durability, ..Default::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&dir.path().join("store"), &options).unwrap();
    (Kv::open_or_create(&store, "kv").unwrap(), dir)
}

/// WAITAOF is answered when a sync has followed its client's writes, whatever the store's mode:
/// whether the disk was synced for each of ten.
fn waitaof_syncs() -> bool {
    [Durability::Process, Durability::Interval(Duration::from_secs(3600)), Durability::Always].into_iter().all(|mode| {
        let (kv, dir) = in_mode(mode);
        let us = Ours::on(kv.clone(), dir, Options::default());
        let mut client = us.client();
        (0..10).all(|round| {
            let before = kv.store().media().counts().syncs;
            client.send(&command(&["SET", "key", &round.to_string()]));
            client.send(&command(&["WAITAOF", "1", "0", "0"]));
            assert_eq!(client.reply(), Reply::Simple("OK".into()));
            assert_eq!(client.reply(), Reply::List(vec![Reply::Integer(1), Reply::Integer(0)]));
            kv.store().media().counts().syncs > before
        })
    })
}

#[test]
fn waitaof_waits_for_the_disk_in_every_mode() {
    assert!(waitaof_syncs());
    assert!(!museum::with("server-waitaof-early", waitaof_syncs));
}

#[test]
fn waitaof_waits_for_replicas_in_vain_and_refuses_odd_words() {
    let us = Ours::start();
    let mut client = us.client();
    let [one, none] = [1, 0].map(Reply::Integer);
    assert_eq!(client.call(&["WAITAOF", "1", "2", "20"]), Reply::List(vec![one, none]));
    for (words, error) in [
        (["WAITAOF", "2", "0", "0"], "ERR value is out of range, value must between 0 and 1"),
        (["WAITAOF", "1", "-1", "0"], "ERR value is out of range, must be positive"),
        (["WAITAOF", "1", "x", "0"], "ERR value is not an integer or out of range"),
        (["WAITAOF", "1", "0", "-1"], "ERR timeout is negative"),
    ] {
        assert_eq!(client.call(&words), Reply::Error(error.into()));
    }
    client.call(&["MULTI"]);
    client.call(&["WAITAOF", "0", "0", "0"]);
    assert_eq!(client.call(&["EXEC"]), Reply::List(vec![Reply::List(vec![Reply::Integer(0), Reply::Integer(0)])]));
}
