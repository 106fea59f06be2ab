//! Imports from a server that is played here, and from files that no Redis writes.

use super::{ImportError, ImportFault, ImportOptions, ImportPhase, ImportSource, Imported, Kept, RedisServer, import};
use crate::export::export;
use crate::keyspace::{Keyspace, Tables};
use everbyte_kv::Kv;
use everbyte_store::{CreateOptions, Store};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The offset at the first snapshot.
const START: usize = 100;

fn store() -> (Kv, tempfile::TempDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
    (Kv::open_or_create(&store, "kv").unwrap(), folder)
}

/// A command as bytes.
fn command(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
    bytes
}

fn commands(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| command(line)).collect()
}

/// An RDB file of these bytes between its head and its end.
fn rdb(content: &[u8]) -> Vec<u8> {
    [b"REDIS0010", content, b"\xff\0\0\0\0\0\0\0\0"].concat()
}

fn sized(rdb: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", rdb.len()).as_bytes(), rdb].concat()
}

/// The answer of a played server to PSYNC, on one connection.
enum Answer {
    /// A snapshot at the offset [`START`] or another one, and the end of the connection if it is
    /// cut.
    Full { offset: usize, bytes: Vec<u8>, ends: bool },
    /// The stream from the place that is asked for up to this one, and the end of the connection
    /// if it is not whole.
    Stream(usize),
    /// None.
    Silence,
    /// These bytes.
    Line(&'static str),
}

/// The words of the next request.
fn request(input: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(count) = line.trim_end().strip_prefix('*') {
            let mut words = Vec::new();
            for _ in 0..count.parse().ok()? {
                line.clear();
                input.read_line(&mut line).ok()?;
                let mut word = vec![0; line.trim_end()[1..].parse::<usize>().ok()? + 2];
                input.read_exact(&mut word).ok()?;
                words.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
            }
            return Some(words);
        }
    }
}

/// Plays a server with this stream behind [`START`], one answer for each connection that asks for
/// it. Its thread ends with the last connection.
fn play(stream: Vec<u8>, answers: Vec<Answer>) -> (ImportSource, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        for answer in answers {
            let (mut to, _) = listener.accept().unwrap();
            let mut from = BufReader::new(to.try_clone().unwrap());
            while let Some(words) = request(&mut from) {
                let (bytes, ends) = match (words[0].as_str(), &answer) {
                    ("PING", _) => (b"+PONG\r\n".to_vec(), false),
                    ("REPLCONF", _) if words[1] != "ACK" => (b"+OK\r\n".to_vec(), false),
                    ("PSYNC", Answer::Full { offset, bytes, ends }) => {
                        ([format!("+FULLRESYNC id{offset} {offset}\r\n").as_bytes(), bytes].concat(), *ends)
                    }
                    ("PSYNC", Answer::Stream(end)) => {
                        let from = words[2].parse::<usize>().unwrap() - 1 - START;
                        ([b"+CONTINUE\r\n", &stream[from..*end]].concat(), *end < stream.len())
                    }
                    ("PSYNC", Answer::Line(line)) => (line.as_bytes().to_vec(), false),
                    _ => continue,
                };
                to.write_all(&bytes).unwrap();
                if ends {
                    to.shutdown(Shutdown::Write).unwrap();
                }
            }
        }
    });
    (ImportSource::Server(RedisServer { address, user: None, password: None }), thread)
}

#[expect(clippy::result_large_err, reason = "an import ends once")]
fn until(kv: &Kv, source: &ImportSource, end: usize) -> Result<Imported, ImportError> {
    import(kv, source, &ImportOptions::default(), &mut |state| {
        state.phase != ImportPhase::Following || state.bytes < (START + end) as u64
    })
}

#[expect(clippy::result_large_err, reason = "an import ends once")]
fn read(kv: &Kv, bytes: &[u8], options: ImportOptions) -> Result<Imported, ImportError> {
    import(kv, &ImportSource::Bytes(bytes.into()), &options, &mut |_| true)
}

fn value(kv: &Kv, key: &str) -> Option<String> {
    kv.get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value).unwrap())
}

/// A connection that ends in a transaction, behind commands that MULTI has committed: the stream
/// goes on behind these, wherever it is cut.
#[test]
fn commands_are_executed_once_whatever_the_connection_does() {
    let lines =
        ["INCR a", "INCR b", "MULTI", "INCR c", "INCR d", "EXEC", "SELECT 3", "INCR e", "MULTI", "INCR f", "EXEC"];
    let stream = commands(&[&lines[..], &["SELECT 0", "RPUSH last x"]].concat());
    let places: Vec<usize> = (1..lines.len()).map(|count| commands(&lines[..count]).len()).collect();
    for place in places.iter().flat_map(|place| [*place, place + 7]) {
        let (kv, _folder) = store();
        let first = [sized(&rdb(b"")), stream[..place].to_vec()].concat();
        let whole = Answer::Stream(stream.len());
        let answers = vec![Answer::Full { offset: START, bytes: first, ends: true }, whole];
        let (source, thread) = play(stream.clone(), answers);
        let done = until(&kv, &source, stream.len()).unwrap();
        assert_eq!(done.offset, Some((START + stream.len()) as u64));
        thread.join().unwrap();
        for key in ["a", "b", "c", "d"] {
            assert_eq!(value(&kv, key).as_deref(), Some("1"), "{key}, cut at {place}");
        }
        let tables = Tables::open(kv.clone()).unwrap();
        let mut keys = Keyspace::new(&tables, Box::default(), 0, false, false);
        keys.select(3);
        for key in [b"e", b"f"] {
            assert_eq!(keys.get(key).unwrap().as_deref(), Some(&b"1"[..]), "cut at {place}");
        }
    }
}

/// A snapshot says which database the commands behind it are for, and may name one that is none.
#[test]
fn a_database_beyond_the_last_one_is_refused() {
    for (number, fits) in [("15", true), ("16", false), ("200", false), ("99999", false), ("-1", true)] {
        let (kv, _folder) = store();
        let size = number.len() as u8;
        let about = [b"\xfa\x0erepl-stream-db", &[size][..], number.as_bytes()].concat();
        let stream = command("SET a 1");
        let first = [sized(&rdb(&about)), stream.clone()].concat();
        let (source, thread) = play(stream.clone(), vec![Answer::Full { offset: START, bytes: first, ends: false }]);
        match until(&kv, &source, stream.len()) {
            Ok(_) => assert!(fits, "{number}"),
            Err(error) => assert!(!fits && matches!(error.fault, ImportFault::Unsupported { .. }), "{error}"),
        }
        thread.join().unwrap();
    }
}

/// The keys that were there before a second snapshot are there after it has failed, and reported;
/// a connection that ends within it is made again.
#[test]
fn a_second_snapshot_that_fails_leaves_the_keys_of_before() {
    let stream = commands(&["INCR a", "INCR b"]);
    let first = || {
        let bytes = [sized(&rdb(b"")), stream[..command("INCR a").len()].to_vec()].concat();
        Answer::Full { offset: START, bytes, ends: true }
    };
    let (kv, _folder) = store();
    let second = Answer::Full { offset: 900, bytes: sized(&rdb(b"\xc8\x01x")), ends: false };
    let (source, thread) = play(stream.clone(), vec![first(), second]);
    let error = until(&kv, &source, stream.len()).unwrap_err();
    let offset = (START + command("INCR a").len()) as u64;
    assert!(matches!(error.kept, Kept::Followed(found) if found == offset), "{error}");
    assert!(matches!(error.fault, ImportFault::Damaged { .. }), "{error}");
    assert_eq!((value(&kv, "a").as_deref(), value(&kv, "b")), (Some("1"), None));
    thread.join().unwrap();

    let (kv, _folder) = store();
    let cut = sized(&rdb(b"\0\x01x\x01y"));
    let second = Answer::Full { offset: 900, bytes: cut[..cut.len() - 9].to_vec(), ends: true };
    let (source, thread) = play(stream.clone(), vec![first(), second, Answer::Stream(stream.len())]);
    until(&kv, &source, stream.len()).unwrap();
    assert_eq!((value(&kv, "a").as_deref(), value(&kv, "b").as_deref()), (Some("1"), Some("1")));
    assert_eq!(value(&kv, "x"), None);
    thread.join().unwrap();
}

/// The end of a connection within a snapshot, of either kind and at any byte, is no damage.
#[test]
fn a_connection_that_ends_within_a_snapshot_is_lost() {
    let mark = "m".repeat(40);
    let content = rdb(b"\0\x01x\x01y");
    let marked = [format!("$EOF:{mark}\r\n").as_bytes(), &content, mark.as_bytes()].concat();
    for whole in [sized(&content), marked] {
        for end in (0..whole.len()).step_by(5) {
            let (kv, _folder) = store();
            let cut = Answer::Full { offset: START, bytes: whole[..end].to_vec(), ends: true };
            let (source, thread) = play(Vec::new(), vec![cut]);
            let error = until(&kv, &source, 1).unwrap_err();
            let lost = matches!((&error.fault, &error.kept), (ImportFault::Connection { .. }, Kept::Nothing));
            assert!(lost, "{end}: {error}");
            assert_eq!(value(&kv, "x"), None);
            thread.join().unwrap();
        }
    }
}

/// The caller stops an import while a server says nothing: in the handshake, in a snapshot, and
/// when a connection is made again.
#[test]
fn an_import_stops_while_the_server_says_nothing() {
    let stream = command("INCR a");
    let half = Answer::Full { offset: START, bytes: sized(&rdb(b"\0\x01x\x01y"))[..12].to_vec(), ends: false };
    let ended = Answer::Full { offset: START, bytes: [sized(&rdb(b"")), stream.clone()].concat(), ends: true };
    for (answers, stays) in [(vec![Answer::Silence], false), (vec![half], false), (vec![ended, Answer::Silence], true)]
    {
        let (kv, _folder) = store();
        let (source, thread) = play(stream.clone(), answers);
        let start = Instant::now();
        let done =
            import(&kv, &source, &ImportOptions::default(), &mut |_| start.elapsed() < Duration::from_millis(500));
        match done {
            Ok(done) => assert!(stays && done.offset == Some((START + stream.len()) as u64), "{done:?}"),
            Err(error) => assert!(!stays && matches!(error.fault, ImportFault::Stopped), "{error}"),
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(value(&kv, "a").is_some(), stays);
        thread.join().unwrap();
    }
}

/// Numbers that no Redis sends.
#[test]
fn absurd_answers_are_refused() {
    for line in [
        "+FULLRESYNC id 18446744073709551615\r\n",
        "+FULLRESYNC id 9223372036854775807\r\n",
        "+FULLRESYNC id -1\r\n",
        "+FULLRESYNC id 1\r\n$99999999999999999999\r\n",
        "+FULLRESYNC id 1\r\n$EOF:short\r\n",
    ] {
        let (kv, _folder) = store();
        let (source, thread) = play(Vec::new(), vec![Answer::Line(line)]);
        let error = until(&kv, &source, 1).unwrap_err();
        assert!(matches!(error.fault, ImportFault::Answer { .. }), "{line}: {error}");
        thread.join().unwrap();
    }
}

/// Manifests that are cut, empty, or have half a line.
#[test]
fn short_manifests_are_damaged() {
    let (kv, folder) = store();
    std::fs::write(folder.path().join("one"), command("SET a 1")).unwrap();
    let path = folder.path().join("a.manifest");
    let line = "file one seq 1 type i\n";
    for (text, whole) in [
        (line.to_string(), true),
        (format!("# about\n{line}"), true),
        (String::new(), false),
        ("# about\n".to_string(), false),
        ("file one seq 1 type h\n".to_string(), false),
        (line[..line.len() - 1].to_string(), false),
        ("file one seq 1 type\n".to_string(), false),
        ("file one seq 1 type ix\n".to_string(), false),
        (format!("{line}fi"), false),
        (format!("{line}{line}"), false),
    ] {
        std::fs::write(&path, &text).unwrap();
        let options = ImportOptions { clear: true, ..ImportOptions::default() };
        let done = import(&kv, &ImportSource::File(path.clone()), &options, &mut |_| true);
        match done {
            Ok(_) => assert!(whole, "{text:?}"),
            Err(error) => assert!(!whole && matches!(error.fault, ImportFault::Damaged { .. }), "{text:?}: {error}"),
        }
    }
}

/// Hints of a cluster and of an eviction policy are passed over, and keys whose deadlines have
/// passed are left out.
#[test]
fn hints_are_passed_over_and_expired_keys_left_out() {
    let (kv, folder) = store();
    let path = folder.path().join("dump.rdb");
    let (slot, used) = ([0xf4, 5, 1, 0], [0xf8, 7, 0xf9, 9]);
    let expired = [&[0xfc][..], &1000_u64.to_le_bytes(), b"\0\x04gone\x01x"].concat();
    std::fs::write(&path, rdb(&[&slot[..], &expired, &used, b"\0\x01a\x011"].concat())).unwrap();
    let done = import(&kv, &ImportSource::File(path), &ImportOptions::default(), &mut |_| true).unwrap();
    assert_eq!((done.keys, done.expired), (1, 1));
    assert_eq!((kv.len(), kv.get(b"a").unwrap()), (1, Some(b"1".to_vec())));
}

fn libraries(kv: &Kv) -> Vec<Vec<u8>> {
    let tables = Tables::open(kv.clone()).unwrap();
    let mut keys = Keyspace::new(&tables, Box::default(), 0, false, false);
    keys.libraries().unwrap().into_iter().map(|(_, code)| code).collect()
}

fn library(name: &str, number: u8) -> Vec<u8> {
    let code = format!("#!lua name={name}\nredis.register_function('{name}f', function() return {number} end)");
    code.into_bytes()
}

fn load(code: &[u8]) -> Vec<u8> {
    [format!("*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n${}\r\n", code.len()).as_bytes(), code, b"\r\n"].concat()
}

/// Libraries of functions come with an AOF and with an RDB file, leave with an export, and go with
/// an import that fails.
#[test]
fn functions_come_and_go_with_the_keys() {
    let (one, other, third) = (library("one", 1), library("other", 2), library("one", 3));
    let (kv, _folder) = store();
    let done = read(&kv, &[load(&one), command("SET a 1"), load(&other)].concat(), ImportOptions::default()).unwrap();
    assert_eq!((done.commands, libraries(&kv)), (3, vec![one.clone(), other.clone()]));
    let mut file = Vec::new();
    export(&kv, &mut file, &mut |_| {}).unwrap();

    let (kv, _folder) = store();
    let mut damaged = file.clone();
    *damaged.last_mut().unwrap() ^= 1;
    read(&kv, &damaged, ImportOptions::default()).unwrap_err();
    assert_eq!(libraries(&kv), Vec::<Vec<u8>>::new());
    let done = read(&kv, &file, ImportOptions::default()).unwrap();
    assert_eq!((done.keys, done.functions, libraries(&kv)), (1, 2, vec![one.clone(), other.clone()]));

    // Beside a library of the name: refused, or in its place.
    let content = [&[245, 0x40, third.len() as u8][..], &third].concat();
    let error = read(&kv, &rdb(&content), ImportOptions::default()).unwrap_err();
    assert!(matches!(error.fault, ImportFault::Refused { .. }), "{error}");
    assert_eq!(libraries(&kv), [one.clone(), other.clone()]);
    read(&kv, &rdb(&content), ImportOptions { replace: true, ..ImportOptions::default() }).unwrap();
    assert_eq!(libraries(&kv), [third.clone(), other]);
    read(&kv, &rdb(b""), ImportOptions { clear: true, ..ImportOptions::default() }).unwrap();
    assert_eq!(libraries(&kv), Vec::<Vec<u8>>::new());
}

/// An export beside an import is refused and leaves it alone, and so is a second import.
#[test]
fn an_import_has_the_tables_alone() {
    let (kv, _folder) = store();
    let mut others = Vec::new();
    let bytes = commands(&["SET a 1", "SET b 2"]);
    let options = ImportOptions { batch_size: 1, ..ImportOptions::default() };
    let source = ImportSource::Bytes(bytes.as_slice().into());
    import(&kv, &source, &options, &mut |_| {
        others.push(export(&kv, &mut Vec::new(), &mut |_| {}).is_err());
        others.push(read(&kv, b"", ImportOptions::default()).is_err());
        true
    })
    .unwrap();
    assert!(others.len() > 2 && others.iter().all(|refused| *refused), "{others:?}");
    assert_eq!((value(&kv, "a").as_deref(), value(&kv, "b").as_deref()), (Some("1"), Some("2")));
    let tables = Tables::open(kv.clone()).unwrap();
    let error = read(&kv, &bytes, ImportOptions::default()).unwrap_err();
    assert!(matches!(error.fault, ImportFault::Open { source: crate::Error::Served }), "{error}");
    drop(tables);
    assert_eq!(export(&kv, &mut Vec::new(), &mut |_| {}).unwrap().keys, 2);
}

/// Writes of another part of the program end an import; its own tables stay as it left them.
#[test]
fn writes_beside_an_import_end_it_and_keep_their_tables() {
    for before in [false, true] {
        let (kv, _folder) = store();
        if before {
            read(&kv, &commands(&["SET a old", "RPUSH l x"]), ImportOptions::default()).unwrap();
        }
        let bytes = commands(&["SET a 1", "SET b 2", "RPUSH l y"]);
        let options = ImportOptions { batch_size: 1, clear: true, ..ImportOptions::default() };
        let mut made = false;
        let error = import(&kv, &ImportSource::Bytes(bytes.as_slice().into()), &options, &mut |state| {
            if state.commands > 0 && !std::mem::replace(&mut made, true) {
                kv.create_table("mine").unwrap().put(b"k", b"v").unwrap();
            }
            true
        })
        .unwrap_err();
        assert!(matches!((&error.fault, &error.kept), (ImportFault::Disturbed, Kept::Nothing)), "{error}");
        assert_eq!(kv.open_table("mine").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(value(&kv, "a").as_deref(), before.then_some("old"));
        let mut findings = Vec::new();
        crate::check(&kv, &mut |finding| findings.push(finding.to_string()));
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(export(&kv, &mut Vec::new(), &mut |_| {}).unwrap().keys, if before { 2 } else { 0 });
    }
}

/// A mark whose version is gone: reported by a check and by every opening, and an import with
/// `clear` begins anew. Users neither give nor remove the name.
#[test]
fn a_mark_without_its_version_has_a_way_out() {
    let (kv, _folder) = store();
    read(&kv, &commands(&["SET a 1", "RPUSH l x"]), ImportOptions::default()).unwrap();
    for (mark, text) in [(&[2][..], "is gone"), (b"?", "malformed")] {
        Tables::open(kv.clone()).unwrap().state.put(b"import", mark).unwrap();
        let mut findings = Vec::new();
        crate::check(&kv, &mut |finding| findings.push(finding));
        let damage = |finding: &crate::KeyspaceFinding| finding.kind == everbyte_store::FindingKind::Damage;
        assert!(matches!(&findings[..], [one] if damage(one) && one.detail.contains(text)), "{findings:?}");
        let error = Tables::open(kv.clone()).err().unwrap().to_string();
        assert!(error.contains(text) && error.contains("--clear"), "{error}");
        read(&kv, &command("SET a 1"), ImportOptions::default()).unwrap_err();
        read(&kv, &command("SET b 2"), ImportOptions { clear: true, ..ImportOptions::default() }).unwrap();
        assert_eq!((value(&kv, "a"), value(&kv, "b").as_deref()), (None, Some("2")));
    }
    for name in ["server/import", "server/other"] {
        let reserved = |error| matches!(error, everbyte_kv::Error::VersionReserved { .. });
        assert!(reserved(kv.name_version(name).unwrap_err()) && reserved(kv.remove_version(name).unwrap_err()));
        assert!(reserved(kv.rename_versions(&[], name).err().unwrap()));
    }
}
