//! Kill -9 during a backup, and a store that two processes have open.

mod common;

use common::{Folder, again, object, put, word};
use everbyte_backup::{Options, backup};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind};
use everbyte_store::Store;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Run by the tests below in a process of its own.
#[test]
fn has_a_store_open_for_another_test() {
    let Some(path) = std::env::var_os("EVERBYTE_TEST_STORE") else { return };
    let task = std::env::var("EVERBYTE_TEST_TASK").unwrap();
    let backend = if task == "shared" { BackendChoice::Shm } else { BackendChoice::File };
    let media = everbyte_media::Options { backend, ..everbyte_media::Options::default() };
    let path = Path::new(&path);
    let mut out = std::io::stdout().lock();
    if task == "shared" {
        let _store = Store::options(path).shared().open(&media).unwrap();
        writeln!(out, "acknowledged").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let store = Store::open(path, &media).unwrap();
    let at = store.object("a").unwrap().prime().get();
    for round in 1.. {
        let options = Options { step: Some(1), ..Options::default() };
        let done = backup(&store, &path.with_extension(format!("{round}")), &options, &mut |progress| {
            put(&store, at + 8192, round);
            store.media().barrier().unwrap();
            writeln!(out, "acknowledged {round} {}", progress.done).unwrap();
        });
        done.unwrap();
    }
}

fn start(path: &Path, task: &str) -> (Child, impl FnMut() -> String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "has_a_store_open_for_another_test", "--nocapture"])
        .env("EVERBYTE_TEST_STORE", path)
        .env("EVERBYTE_TEST_TASK", task)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = move || loop {
        let line = lines.next().expect("the process speaks").unwrap();
        if let Some(at) = line.find("acknowledged") {
            return line[at..].into();
        }
    };
    (child, next)
}

#[test]
fn a_process_killed_during_a_backup_harms_neither_the_store_nor_an_older_backup() {
    let [_, folder] = Folder::both();
    let path = folder.path("store");
    let store = folder.create("store");
    object(&store, "a", 4);
    store.close().unwrap();
    drop(store);
    for lines in [1, 12, 60] {
        let (mut child, mut next) = start(&path, "backup");
        let mut acked = 0;
        for _ in 0..lines {
            acked = next().split(' ').nth(1).unwrap().parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(&path, &folder.options()).unwrap();
        assert!(store.check().is_empty());
        assert!(word(&store, "a", 8192) >= acked);
        drop(store);
        for round in 1..=acked {
            let file = path.with_extension(format!("{round}"));
            if file.exists() {
                assert!(word(&again(&folder, std::slice::from_ref(&file), lines * 100 + round), "a", 8192) >= round);
                std::fs::remove_file(file).unwrap();
            } else {
                assert!(round + 1 >= acked, "a backup that was reported");
            }
        }
    }
}

#[test]
fn a_store_that_another_process_has_open_is_refused() {
    let [folder, _] = Folder::both();
    let path = folder.path("store");
    let store = folder.create("store");
    store.close().unwrap();
    drop(store);
    let (mut child, mut next) = start(&path, "shared");
    next();
    let store = Store::options(&path).shared().open(&folder.options()).unwrap();
    let error = backup(&store, &folder.path("backup"), &Options::default(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&child.id().to_string()), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    backup(&store, &folder.path("backup"), &Options::default(), &mut |_| {}).unwrap();
}
