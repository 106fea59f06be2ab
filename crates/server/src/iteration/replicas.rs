//! A replica that is given patches by hand, beside commands of its clients, in chosen iterations.

use crate::replication::{Item, Patch, Position, ReplicaOrigin, RunId};
use crate::{
    ExportError, ImportOptions, ImportSource, Options, ReplicaPatch, ServerScript, check, export, import,
    replica_patches,
};
use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Durability};
use everbyte_store::{CreateOptions, FindingKind, Store};
use std::time::Duration;
use tempfile::TempDir;

const READ_ONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
/// Bytes of a part by which a transfer of these tests is several patches.
const SMALL: usize = 100;
const LARGE: usize = 1 << 20;

fn store() -> (Kv, TempDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let create = CreateOptions { max: 4 << 20, ..CreateOptions::default() };
    let kv = Kv::open_or_create(&Store::create(&folder.path().join("store"), &create).unwrap(), "kv").unwrap();
    (kv, folder)
}

fn serve(kv: &Kv, settles_later: bool) -> ServerScript {
    ServerScript::open(kv.clone(), 2, settles_later, Options::default()).unwrap()
}

/// The patches of a primary whose clients have sent these lines up to each version.
fn patches(versions: &[&[&str]], part_size: usize) -> Vec<ReplicaPatch> {
    let (kv, _folder) = store();
    let mut server = serve(&kv, false);
    let mut snapshots = Vec::new();
    for lines in versions {
        lines.iter().for_each(|line| assert!(!ask(&mut server, 0, line).starts_with('-'), "{line}"));
        snapshots.push(kv.snapshot());
    }
    replica_patches(&kv, &snapshots, part_size).unwrap()
}

/// The replies of one iteration to lines of clients.
fn iteration(server: &mut ServerScript, lines: &[(usize, &str)]) -> Vec<String> {
    let requests: Vec<_> = lines.iter().map(|(client, line)| (*client, format!("{line}\r\n").into_bytes())).collect();
    server.iteration(&requests).unwrap().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

fn ask(server: &mut ServerScript, client: usize, line: &str) -> String {
    iteration(server, &[(client, line)]).swap_remove(client)
}

fn replica(settles_later: bool) -> (ServerScript, Kv, TempDir) {
    let (kv, folder) = store();
    let mut server = serve(&kv, settles_later);
    server.become_replica().unwrap();
    (server, kv, folder)
}

/// REPL-4
#[test]
fn a_patch_of_another_origin_changes_nothing() {
    let patches = patches(&[&["SET a 1"], &["SET b 2"], &["SET c 3"]], LARGE);
    let (mut server, ..) = replica(false);
    server.apply(&patches[0]).unwrap();
    // The second one was lost.
    server.apply(&patches[2]).unwrap();
    assert_eq!(server.origin(), patches[0].origin());
    assert_eq!(ask(&mut server, 0, "DBSIZE"), ":1\r\n");
    server.apply(&patches[1]).unwrap();
    server.apply(&patches[2]).unwrap();
    assert_eq!((server.origin(), ask(&mut server, 0, "DBSIZE")), (patches[2].origin(), ":3\r\n".into()));
}

#[test]
fn a_whole_copy_takes_back_an_exchange_of_databases() {
    let patches = patches(&[&["SET a 1"]], LARGE);
    let (kv, _folder) = store();
    let mut server = serve(&kv, false);
    ask(&mut server, 0, "SWAPDB 0 1");
    server.become_replica().unwrap();
    server.apply(&patches[0]).unwrap();
    assert_eq!(ask(&mut server, 0, "GET a"), "$1\r\n1\r\n");
}

/// A server that becomes a replica has no writes to come, and none of its clients waits for one.
#[test]
fn commands_that_wait_end_as_the_server_becomes_a_replica() {
    let (kv, _folder) = store();
    let mut server = serve(&kv, false);
    assert_eq!(ask(&mut server, 1, "BLPOP list 0"), "");
    assert_eq!(ask(&mut server, 0, "REPLICAOF 127.0.0.1 1"), "+OK\r\n");
    let replies = iteration(&mut server, &[(0, "RPUSH list x")]);
    assert_eq!(replies[0], READ_ONLY);
    assert!(replies[1].starts_with("-UNBLOCKED "), "{replies:?}");
    // One that still waits reads an error in place of an element.
    let patches = patches(&[&["RPUSH list x"]], LARGE);
    let (kv, _folder) = store();
    let mut server = serve(&kv, false);
    assert_eq!(ask(&mut server, 1, "BLPOP list 0"), "");
    server.become_replica().unwrap();
    server.iterations.shared.replication.injected.push_back(patches[0].0.clone());
    assert_eq!(iteration(&mut server, &[(0, "LLEN list")]), [":1\r\n", READ_ONLY]);
}

/// Writes before the promotion would count as the old primary's.
#[test]
fn a_replica_refuses_writes_until_it_is_a_primary() {
    let patches = patches(&[&["SET a 1"]], LARGE);
    let (mut server, ..) = replica(false);
    server.apply(&patches[0]).unwrap();
    let replies = iteration(&mut server, &[(0, "REPLICAOF NO ONE\r\nSET mine 1"), (1, "SET other 1")]);
    assert_eq!(replies, ["+OK\r\n", READ_ONLY]);
    // The next command of the client that asked for it finds a primary.
    assert_eq!(iteration(&mut server, &[(1, "SET other 1")]), ["+OK\r\n", "+OK\r\n"]);
    assert_eq!(server.origin(), [0]);
    assert!(ask(&mut server, 0, "ROLE").contains("master"));
}

#[test]
fn a_mixture_is_not_read_before_the_rest_of_its_version_is_settled() {
    let lines = &["SET a 11111111111111111111", "SET b 2222222222222222222222222", "SET c 3333333333333333333333333"];
    let patches = patches(&[lines], SMALL);
    assert!(patches.len() > 2 && patches[patches.len() - 2].is_between());
    let (mut server, ..) = replica(true);
    for patch in &patches {
        server.apply(patch).unwrap();
    }
    // Everything is applied, and nothing is settled.
    assert!(ask(&mut server, 0, "GET a").starts_with("-LOADING "));
    for _ in 1..patches.len() {
        server.settle().unwrap();
        server.iteration(&[]).unwrap();
    }
    server.settle().unwrap();
    assert_eq!(ask(&mut server, 0, "DBSIZE"), ":3\r\n");
}

#[test]
fn a_mixture_is_neither_executed_nor_saved_nor_promoted() {
    let lines = &["SET a 11111111111111111111", "SET b 2222222222222222222222222", "XADD st 1-1 f v"];
    let patches = patches(&[&["SET a 0"], lines], SMALL);
    let (mut server, kv, _folder) = replica(false);
    let whole = patches.iter().position(|patch| !patch.is_between()).unwrap();
    for patch in &patches[..=whole] {
        server.apply(patch).unwrap();
    }
    assert_eq!(ask(&mut server, 0, "MULTI\r\nGET a"), "+OK\r\n+QUEUED\r\n");
    assert_eq!(ask(&mut server, 1, "XREAD BLOCK 0 STREAMS st 0"), "");
    let first = whole + 1;
    assert!(patches[first].is_between());
    server.apply(&patches[first]).unwrap();
    let refusal = ask(&mut server, 0, "EXEC");
    assert!(refusal.starts_with("-EXECABORT ") && refusal.contains("LOADING"), "{refusal}");
    for line in ["SAVE", "BGSAVE", "GET a", "EVAL return(1) 0"] {
        assert!(ask(&mut server, 0, line).starts_with("-LOADING "), "{line}");
    }
    assert!(ask(&mut server, 0, "REPLICAOF NO ONE").starts_with("-ERR the keys are a mixture"));
    let keep = std::time::Duration::MAX;
    assert!(matches!(server.iterations.shared.replication.promote(keep), Ok(false)));
    assert!(matches!(export(&kv, &mut Vec::new(), &mut |_| ()), Err(ExportError::Mixture)));
    let mut findings = Vec::new();
    check(&kv, &mut |finding| findings.push(finding));
    assert!(matches!(&findings[..], [one] if one.kind == FindingKind::Note && one.rule == "replica"), "{findings:?}");
    // A client that waits tries once the version is whole.
    let mut replies = String::new();
    for patch in &patches[first + 1..] {
        assert_eq!(replies, "");
        server.iterations.shared.replication.injected.push_back(patch.0.clone());
        replies = iteration(&mut server, &[]).swap_remove(1);
    }
    assert!(replies.contains("1-1"), "{replies}");
    assert!(ask(&mut server, 0, "REPLICAOF NO ONE").starts_with("+OK"));
    assert_eq!(ask(&mut server, 0, "SET c 1"), "+OK\r\n");
}

/// After an import the keys are at no position of the primary.
#[test]
fn an_import_forgets_the_origin() {
    let copied = patches(&[&["SET a 1"]], LARGE);
    let (mut server, kv, folder) = replica(false);
    server.apply(&copied[0]).unwrap();
    assert_eq!(server.origin(), copied[0].origin());
    let path = folder.path().join("dump.rdb");
    let (source, _source_folder) = store();
    ask(&mut serve(&source, false), 0, "SET b 2");
    export(&source, &mut std::fs::File::create(&path).unwrap(), &mut |_| ()).unwrap();
    drop(server);
    import(&kv, &ImportSource::File(path), &ImportOptions::default(), &mut |_| true).unwrap();
    let mut server = serve(&kv, false);
    assert_eq!((server.origin(), ask(&mut server, 0, "DBSIZE")), (vec![0], ":2\r\n".into()));
}

/// Random patches of a primary are applied or refused, and the replica goes on.
#[test]
fn any_patch_is_applied_or_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |end: u64| {
        state = state.wrapping_mul(0xd129_0212_a0b6_37b5).rotate_left(29) ^ 0x5851_f42d_4c95_7f2d;
        (state >> 17) % end
    };
    let (mut server, ..) = replica(false);
    ask(&mut server, 0, "HELLO 3\r\nCLIENT TRACKING ON BCAST");
    assert_eq!(ask(&mut server, 1, "XREAD BLOCK 0 STREAMS st 0"), "");
    let (mut applied, words) = (0, [&b"spaces"[..], b"layout", b"library", b"k", b"", &[0; 12], &[255; 9], &[7; 5000]]);
    for version in 1..400 {
        let mut key = || [&[random(7) as u8, random(3) as u8][..], words[random(8) as usize]].concat();
        let keys: Vec<_> = (0..16).map(|_| key()).collect();
        let item = |index: usize| match index % 4 {
            0 => Item::Delete(keys[index].clone()),
            1 => Item::Clear(keys[index].clone(), keys[index + 1].clone()),
            _ => Item::Put(keys[index].clone(), keys[index + 1].clone()),
        };
        let at = Position { run: RunId([1; 20]), version };
        let origin = match random(3) {
            0 => ReplicaOrigin::Between { target: at, base: None, cursor: keys[15].clone() },
            _ => ReplicaOrigin::At(at),
        };
        let from = ReplicaOrigin::parse(&server.origin()).unwrap();
        let items = (0..1 + random(3) as usize).map(|_| item(random(15) as usize)).collect();
        server.apply(&ReplicaPatch(Patch { items, from, origin: origin.clone() })).unwrap();
        server.iteration(&[]).unwrap();
        applied += u32::from(server.origin() == origin.bytes());
    }
    assert!(applied > 50, "{applied} were applied");
}

/// A count of keys beside a pending patch remembers nothing of the settled version: the first
/// record of another database was not there.
#[test]
fn keys_are_counted_by_database_beside_pending_patches() {
    let versions: [&[&str]; 3] = [&["SET a 1"], &["SELECT 1", "RPUSH l x"], &["SELECT 0", "SET b 2"]];
    let patches = patches(&versions, LARGE);
    // On a disk the settled version is not the newest one.
    let folder = tempfile::tempdir().unwrap();
    let durability = Durability::Interval(Duration::from_secs(3600));
    let media = everbyte_media::Options { backend: BackendChoice::File, durability, ..Default::default() };
    let create = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let kv = Kv::open_or_create(&Store::create(&folder.path().join("store"), &create).unwrap(), "kv").unwrap();
    let mut server = serve(&kv, true);
    server.become_replica().unwrap();
    server.apply(&patches[0]).unwrap();
    server.settle().unwrap();
    server.apply(&patches[1]).unwrap();
    assert_eq!(ask(&mut server, 0, "DBSIZE"), ":1\r\n");
    server.settle().unwrap();
    server.apply(&patches[2]).unwrap();
    assert_eq!(ask(&mut server, 0, "DBSIZE"), ":1\r\n");
    assert_eq!(ask(&mut server, 1, "SELECT 1\r\nDBSIZE"), "+OK\r\n:1\r\n");
    server.settle().unwrap();
    assert_eq!((ask(&mut server, 0, "DBSIZE"), ask(&mut server, 1, "DBSIZE")), (":2\r\n".into(), ":1\r\n".into()));
}
