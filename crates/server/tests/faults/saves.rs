//! SAVE and BGSAVE where the file does not fit.
//!
//! The file system refuses bytes in a process of its own, this test binary once more: its files may
//! have so many bytes and no more. The system then sends a signal, which that process ignores.

use crate::common::{self, Client, Ours, Reply};
use everbyte_server::Options;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "EVERBYTE_SAVES_CHILD";

/// Bytes that a file of this process may have.
fn limit(size: &str) {
    let pid = std::process::id().to_string();
    let status = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:unlimited")]).status();
    assert!(status.expect("prlimit is of util-linux").success());
}

/// The names in a directory, and the bytes of its RDB file.
fn files(folder: &Path) -> (Vec<String>, Vec<u8>) {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    (names, std::fs::read(folder.join("dump.rdb")).unwrap())
}

/// Waits until no BGSAVE is under way; whether the last one succeeded.
fn background(client: &mut Client) -> bool {
    loop {
        let text = String::from_utf8(client.call(&["INFO", "persistence"]).bytes()).unwrap();
        if text.contains("rdb_bgsave_in_progress:0\r\n") {
            return text.contains("rdb_last_bgsave_status:ok\r\n");
        }
    }
}

/// A save that does not fit is an error, leaves the file before it and no other, and the server
/// goes on; once there is room a save has everything.
#[test]
fn a_save_that_does_not_fit_leaves_the_one_before() {
    if std::env::var_os(CHILD).is_some() {
        return saves();
    }
    let path = std::env::current_exe().unwrap();
    let name = "saves::a_save_that_does_not_fit_leaves_the_one_before";
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ && exec \"$0\" --exact \"$1\" --nocapture"])
        .args([path.as_os_str(), name.as_ref()])
        .env(CHILD, "1")
        .status();
    assert!(status.unwrap().success());
}

fn saves() {
    // In memory, as the limit is for the file of the store, too.
    let memory = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (folder, store) = (tempfile::tempdir().unwrap(), memory());
    let options = Options { backups: Some(folder.path().into()), ..Options::default() };
    let us = Ours::on(common::table(store.path()), store, options);
    let mut client = us.client();
    let ok = Reply::Simple("OK".into());
    assert_eq!(client.call(&["SET", "small", "1"]), ok);
    assert_eq!(client.call(&["SAVE"]), ok);
    let before = files(folder.path());
    for number in 0..64_u8 {
        let value: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8 ^ number).collect();
        assert_eq!(client.call(&[b"SET", format!("k{number}").as_bytes(), &value]), ok);
    }
    limit("65536");
    let reply = client.call(&["SAVE"]);
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("ERR cannot save: ")), "{reply:?}");
    assert_eq!(files(folder.path()), before);
    assert_eq!(client.call(&["BGSAVE"]), Reply::Simple("Background saving started".into()));
    assert!(!background(&mut client), "it has failed");
    assert_eq!(files(folder.path()), before);
    assert_eq!(client.call(&["GET", "small"]), Reply::Bulk(b"1".to_vec()));
    limit("unlimited");
    assert_eq!(client.call(&["SET", "small", "2"]), ok);
    assert_eq!(client.call(&["BGSAVE"]), Reply::Simple("Background saving started".into()));
    assert!(background(&mut client));
    assert!(files(folder.path()).1.len() > 64 * 4096);
    assert_eq!(client.call(&["SAVE"]), ok);
    assert_eq!(files(folder.path()).0, before.0);
}
