//! Backups of a store that is being served.

use crate::common::{Client, Ours, Reply};
use everbyte_backup::{RestoreOptions, restore};
use everbyte_kv::Kv;
use everbyte_server::Options;
use everbyte_store::Store;
use std::path::Path;

/// Waits for the backup to end: its state, and the whole answer.
fn end(client: &mut Client) -> (String, String) {
    loop {
        let Reply::List(words) = client.call(&["BACKUP", "STATUS"]) else { panic!("a list") };
        let words: Vec<String> =
            words.into_iter().map(|word| String::from_utf8_lossy(&word.bytes()).into_owned()).collect();
        if words[1] != "running" {
            return (words[1].clone(), words.join(" "));
        }
    }
}

fn restored(files: &[&Path], to: &Path) -> Kv {
    let files: Vec<_> = files.iter().map(|file| file.to_path_buf()).collect();
    let options = RestoreOptions { new_identity: true, ..RestoreOptions::default() };
    assert!(restore(&files, to, &options, &mut |_| {}).unwrap().findings.is_empty());
    Kv::open(&Store::open(to, &Default::default()).unwrap(), "kv").unwrap()
}

#[test]
fn a_client_backs_up_the_store_that_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let us = Ours::with(Options { backups: Some(folder.path().into()), ..Options::default() });
    let (mut client, mut writer) = (us.client(), us.client());
    assert_eq!(end(&mut client).0, "none");
    for count in 0..200 {
        client.call(&["SET", &format!("key {count}"), &"v".repeat(5000)]);
    }
    assert_eq!(client.call(&["BACKUP", "START", "monday"]), Reply::Simple("Backup started".into()));
    for count in 0..50 {
        assert_eq!(writer.call(&["SET", "count", &count.to_string()]), Reply::Simple("OK".into()), "is served");
    }
    let (state, text) = end(&mut client);
    assert_eq!(state, "done", "{text}");
    client.call(&["SET", "key 7", "new"]);
    client.call(&["BACKUP", "START", "tuesday", "SINCE", "monday"]);
    let (state, text) = end(&mut client);
    assert_eq!(state, "done", "{text}");
    let [monday, tuesday] = ["monday", "tuesday"].map(|name| folder.path().join(name));
    let kv = restored(&[&monday], &folder.path().join("a.store"));
    assert_eq!(kv.get(b"key 7").unwrap().unwrap().len(), 5000);
    assert!(kv.len() >= 200);
    let kv = restored(&[&monday, &tuesday], &folder.path().join("b.store"));
    assert_eq!(kv.get(b"key 7").unwrap().unwrap(), b"new");
    assert_eq!(kv.get(b"count").unwrap().unwrap(), b"49");
    client.call(&["BACKUP", "START", "monday"]);
    let (state, text) = end(&mut client);
    assert!(state == "failed" && text.contains("monday"), "{text}");
}

#[test]
fn a_client_names_no_path_and_needs_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let us = Ours::with(Options { backups: Some(folder.path().into()), ..Options::default() });
    let mut client = us.client();
    for name in ["../x", "/tmp/x", ".x", ""] {
        let Reply::Error(text) = client.call(&["BACKUP", "START", name]) else { panic!("{name} is refused") };
        assert!(text.contains("plain file name"), "{text}");
    }
    for words in [&["BACKUP", "START", "a", "b"][..], &["BACKUP", "START", "a", "AFTER", "b"], &["BACKUP"]] {
        assert!(matches!(client.call(words), Reply::Error(_)));
    }
    let without = Ours::start();
    let Reply::Error(text) = without.client().call(&["BACKUP", "START", "x"]) else { panic!("is refused") };
    assert!(text.contains("`backups`"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
