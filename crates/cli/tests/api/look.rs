//! `check` and `info` do not change the file: its bytes are the same afterwards, in every state of
//! the store.

use crate::common::{Place, flip, said};
use everbyte_hkv::raw::Raw as _;
use everbyte_media::Offset;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// The bytes of a sparse file and when they last changed.
fn state(path: &Path) -> (Vec<u8>, i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), metadata.mtime(), metadata.mtime_nsec())
}

/// Runs a command that must leave the store and its directory unchanged; returns its output.
#[track_caller]
fn untouched(place: &Place, words: &[&str]) -> crate::common::Said {
    let path = place.path("everbyte.store");
    let before = state(&path);
    let said = place.run(words);
    assert!(state(&path) == before, "everbyte {words:?} changed the store: {said:?}");
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1, "and made nothing beside it");
    said
}

/// A store whose process was killed when it had put 300 keys, which is too little for a checkpoint,
/// and waited for more.
fn killed(backend: &str) -> Place {
    let place = Place::new();
    place.good(&["create", "--max", "64MiB", "--log", "1MiB", "--backend", backend]);
    let mut command = place.command(&["kv", "import", "-", "--batch", "1", "--backend", backend]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for key in 0..300 {
        writeln!(input, "{{\"key\":\"{key:06}\",\"value\":\"{key}\"}}").unwrap();
    }
    // More empty lines than the pipe and the program's buffers hold: when the last is on its way,
    // all keys are put.
    input.write_all(&[b'\n'; 1 << 18]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    place
}

#[test]
fn a_closed_store_stays_as_it_is() {
    let place = Place::with_store();
    place.good(&["kv", "put", "a", "1"]);
    for words in
        [&["info"][..], &["info", "--json"], &["check"], &["check", "--json"], &["check", "--repair", "--dry-run"]]
    {
        let said = untouched(&place, words);
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert!(place.good(&["info"]).contains("in good order"));
}

#[test]
fn a_store_that_was_killed_stays_as_it_is_and_can_be_read() {
    for backend in ["file", "shm"] {
        let place = killed(backend);
        for words in [&["info", "--backend", backend][..], &["check", "--backend", backend]] {
            let said = untouched(&place, words);
            assert_eq!(said.code, 0, "{said:?}");
            assert!(said.out.contains("did not close") || said.out.contains("will recover"), "{backend}: {said:?}");
        }
        // An opening finds what the command reported.
        let info = |place: &Place| place.good(&["info", "--json", "--backend", backend]);
        let objects = |info: &str| serde_json::from_str::<serde_json::Value>(info).unwrap()["objects"].clone();
        let before = objects(&info(&place));
        assert_eq!(before[0]["name"], "kv");
        let done = place.good(&["check", "--repair", "--backend", backend]);
        assert_eq!(done.contains("records of the log brought to their places"), backend == "file", "{done}");
        assert_eq!(objects(&info(&place)), before);
        let said = untouched(&place, &["check", "--backend", backend]);
        assert_eq!(said.out.lines().count(), 1, "closed by the repair: {said:?}");
        place.good(&["kv", "get", "000000", "--backend", backend]);
    }
}

#[test]
fn a_torn_copy_of_the_superblock_is_reported_and_repaired_when_asked() {
    let place = Place::with_store();
    place.good(&["kv", "put", "a", "1"]);
    for at in [16_u64, 4096 + 16] {
        flip(&place.path("everbyte.store"), at);
        for words in [&["check"][..], &["check", "--repair", "--dry-run"]] {
            let said = untouched(&place, words);
            assert_eq!(said.code, 1, "{said:?}");
            assert!(said.out.contains(&format!("damage at {:#x}", at & !4095)), "{said:?}");
            assert!(said.err.contains("--repair"), "{said:?}");
        }
        assert_eq!(untouched(&place, &["info"]).code, 0);
        let done = place.good(&["check", "--repair"]);
        assert!(done.contains(&format!("done: the superblock's copy at {:#x} written again", at & !4095)), "{done}");
        assert_eq!(untouched(&place, &["check"]).out.lines().count(), 1);
    }
    // Both copies torn: no repair is possible, and nothing is changed.
    for at in [40, 4096 + 40] {
        flip(&place.path("everbyte.store"), at);
    }
    assert_eq!(untouched(&place, &["check", "--repair"]).code, 3);
}

#[test]
fn a_directory_and_a_file_without_write_permission_are_enough() {
    let place = killed("file");
    let path = place.path("everbyte.store");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    // An ordinary user has other permissions than root.
    let binary = place.path("program");
    // Copied by another process: what this one has open for writing, the children that other tests
    // start meanwhile have, too, until they execute, and such a file cannot be executed.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_everbyte")).arg(&binary).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let before = state(&path);
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for words in [["info", "--json"], ["check", "--json"]] {
        let mut command = std::process::Command::new(&binary);
        command.args(words).current_dir(place.folder.path());
        if root {
            command.uid(65534).gid(65534);
        }
        let said = said(command.output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert!(state(&path) == before);
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn readers_share_a_store_and_a_writer_has_it_alone() {
    let place = Place::with_store();
    place.good(&["kv", "put", "a", "1"]);
    let path = place.path("everbyte.store");
    let before = fs::read(&path).unwrap();
    let mut writer = place.command(&["kv", "import", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    while fs::read(&path).unwrap() == before {
        assert!(writer.try_wait().unwrap().is_none(), "the writer waits for its input");
        std::thread::yield_now(); // until it records in the file that the log is in use
    }
    let said = place.bad(&["check"], 4, &[]);
    assert!(said.err.contains(&format!("pid {}", writer.id())), "{said:?}");
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
}

/// Objects that no command makes are walked, too: a heap, transactions over one, and HEAPO's
/// stores.
#[test]
fn every_engine_is_walked() {
    use everbyte_fs::layout as volume;
    use everbyte_heap::Heap;
    use everbyte_store::{CustomEngine, Engine, ObjectOptions, Store};
    use everbyte_tx::{Undo, layout};
    let place = Place::with_store();
    let path = place.path("everbyte.store");
    let store = Store::open(&path, &Default::default()).unwrap();
    let options = |engine| ObjectOptions { engine, fingerprint: 0, span: Some(1 << 20) };
    let blocks = store.create_object("blocks", options(Engine::Heap), Heap::format).unwrap();
    let accounts = store.create_object("accounts", options(Engine::Undo), Undo::format).unwrap();
    let strange = Engine::Custom(CustomEngine::new(0x1_0001));
    store.create_object("strange", options(strange), |_| Ok::<_, everbyte_store::Error>(())).unwrap();
    let lanes = everbyte_fs::VolumeOptions { lanes: 1, span: Some(1 << 20), ..Default::default() };
    let files = everbyte_fs::Volume::create(&store, "files", &lanes).unwrap();
    let root = (volume::LANES_PAGE + 1 + 2) * volume::PAGE + volume::INODE; // inode 1 of the first group
    let pairs = everbyte_hkv::Hash::create(&store, "pairs", Some(1 << 20)).unwrap();
    pairs.insert(b"key", b"value").unwrap();
    let tree = everbyte_hkv::Tree::create(&store, "tree", Some(1 << 20)).unwrap();
    tree.insert(b"key", b"value").unwrap();
    // A word that says what a cluster is for, the lane table's checksum, those of the hash store
    // and of the tree, and that of an inode's owner.
    let table = blocks.prime() + everbyte_heap::layout::FIRST_TABLE;
    let places = [
        table,
        accounts.prime() + layout::TABLE + 8,
        Offset::new(pairs.object().root() + 8),
        Offset::new(tree.object().root() + 8),
        files.object().prime() + (root + volume::inode::OWNER),
    ];
    store.close().unwrap();
    drop((store, blocks, accounts, pairs, tree, files));
    let said = untouched(&place, &["check"]);
    assert!(said.code == 0 && said.out.contains("`strange`: this program has no engine `custom 0x10001`"), "{said:?}");
    let ways = [
        ("blocks", "heap: damage"),
        ("accounts", "tx: damage"),
        ("pairs", "hkv: damage"),
        ("tree", "hkv: damage"),
        ("files", "fs: damage"),
    ];
    for (at, (object, way)) in places.into_iter().zip(ways).rev() {
        flip(&path, at.get());
        let said = untouched(&place, &["check"]);
        assert_eq!(said.code, 1, "{said:?}");
        let place = format!("{way} at {:#x} in `{object}`", at.align_down(64));
        assert!(said.out.contains(&place), "`{place}`: {said:?}");
    }
}
