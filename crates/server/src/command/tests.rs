//! Commands run by hand, without sockets: what a failing command leaves of its iteration.

mod groups;
mod hashes;
mod sorted_operations;
mod sorted_sets;
mod streams;

use super::{Call, CommandTable, Fail, Flags};
use crate::clients::{Client, Clients};
use crate::keyspace::{Keyspace, Tables, Verdict};
use crate::options::Options;
use crate::resp::parse::{Parser, Step};
use crate::resp::reply::Replies;
use crate::server_state::ServerState;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_store::{CreateOptions, Store};
use std::time::Instant;

/// A table, and one client that may ask.
struct Desk {
    shared: ServerState,
    client: Client,
    out: Replies,
    _folder: tempfile::TempDir,
}

impl Desk {
    fn new(options: Options) -> Desk {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let client = Client::new(1, address, address, 0, Instant::now());
        Desk {
            shared: ServerState::new(options, address, Tables::open(kv).unwrap()),
            client,
            out: Replies::default(),
            _folder: folder,
        }
    }

    /// Executes commands as one iteration; how each ended. Then the iteration is committed and
    /// settled.
    fn iteration(&mut self, commands: &[&[&[u8]]]) -> Vec<Result<(), String>> {
        let (kv, tables) = (self.shared.kv.clone(), std::sync::Arc::clone(&self.shared.tables));
        let remembered = std::mem::take(&mut self.shared.remembered);
        let mut keys = Keyspace::new(&tables, remembered, self.shared.clock(), false, false);
        let ends = commands.iter().map(|words| self.run(&mut keys, words)).collect();
        keys.commit().unwrap();
        if let Some(commit) = keys.committed() {
            kv.settle(commit).unwrap();
        }
        self.shared.remembered = keys.into_remembered();
        ends
    }

    fn run(&mut self, keys: &mut Keyspace<'_>, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let mut parser = Parser::new(1 << 29);
        assert!(matches!(parser.parse(&bytes), Ok(Step::Request { .. })));
        let args = parser.args(&bytes);
        let command = CommandTable::get().rows[CommandTable::get().look_up(&args).expect("a command")];
        keys.begin_command(command.flags.contains(Flags::WRITE));
        keys.select(self.client.database);
        let position = self.out.position();
        let (out, client, others, shared) = (&mut self.out, &mut self.client, &Clients::default(), &mut self.shared);
        let outcome = (command.handler)(&mut Call { args, out, client, others, keys, shared });
        if outcome.is_err() {
            self.out.cut(position);
        }
        match keys.end_command(outcome.is_err()) {
            Verdict::Kept => outcome.map_err(|fail: Fail| String::from_utf8_lossy(&fail.reply()).into_owned()),
            Verdict::Refused(error) => Err(format!("refused: {error}")),
            Verdict::Lost => Err("the iteration is lost".to_string()),
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.kv.get(key).unwrap()
    }
}

/// A command with several keys of which a later one is too long changes nothing, and what others
/// wrote in its iteration stands.
#[test]
fn a_key_that_is_too_long_costs_others_nothing() {
    let mut desk = Desk::new(Options::default());
    let long = vec![b'k'; everbyte_kv::KEY_MAX + 1];
    desk.iteration(&[&[b"SET", b"old", b"1"]]);
    for (round, words) in [
        &[&b"MSET"[..], b"a", b"1", &long, b"2"][..],
        &[b"MSETNX", b"a", b"1", &long, b"2"],
        &[b"DEL", b"old", &long],
        &[b"UNLINK", b"old", &long],
        &[b"RENAME", b"old", &long],
        &[b"RENAMENX", b"old", &long],
        &[b"SET", &long, b"1"],
    ]
    .into_iter()
    .enumerate()
    {
        let other = format!("other {round}");
        let ends = desk.iteration(&[&[b"SET", other.as_bytes(), b"kept"], words]);
        assert!(ends[0].is_ok(), "{ends:?}");
        assert!(matches!(&ends[1], Err(text) if text.contains("a key of 16777217 bytes")), "{ends:?}");
        assert_eq!(desk.get(other.as_bytes()).as_deref(), Some(&b"kept"[..]));
        assert_eq!((desk.get(b"a"), desk.get(b"old")), (None, Some(b"1".to_vec())));
    }
}

/// Lines of MONITOR wait for the end of a script: those above the limit, which end every monitor,
/// are not kept.
#[test]
fn lines_of_monitors_are_bounded_in_a_script() {
    let mut desk = Desk::new(Options { push_size_max: 1 << 20, ..Options::default() });
    desk.shared.monitors.push(crate::server_state::Monitor { client: 2, slot: 1, since: 0 });
    let script = b"local m = string.rep('x', 100000) for i=1,100 do redis.call('ECHO', m) end";
    assert_eq!(desk.iteration(&[&[b"EVAL", script, b"0"]]), [Ok(())]);
    let size = desk.shared.outbox.lines_size();
    assert!((1 << 20..1300 << 10).contains(&size), "{size}");
}

/// A command whose reply is above the output limit changes nothing, and what others wrote in its
/// iteration stands.
#[test]
fn a_reply_above_the_limit_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let large = vec![b'v'; 1001];
    desk.iteration(&[&[b"SET", b"large", &large]]);
    for (round, words) in
        [&[&b"GETDEL"[..], b"large"][..], &[b"GETSET", b"large", b"new"], &[b"SET", b"large", b"new", b"GET"]]
            .into_iter()
            .enumerate()
    {
        let other = format!("other {round}");
        let ends = desk.iteration(&[&[b"SET", other.as_bytes(), b"kept"], words]);
        assert!(ends[0].is_ok(), "{ends:?}");
        assert!(matches!(&ends[1], Err(text) if text.contains("output limit")), "{ends:?}");
        assert_eq!(desk.get(other.as_bytes()).as_deref(), Some(&b"kept"[..]));
        assert_eq!(desk.get(b"large").as_ref(), Some(&large));
    }
}

/// A library whose name is too long for the store is none, and costs others nothing.
#[test]
fn a_library_with_a_name_that_is_too_long_is_none() {
    let mut desk = Desk::new(Options::default());
    let library = |name: &[u8], function: &str| {
        let code = format!("\nredis.register_function('{function}', function() return 7 end)");
        [b"#!lua name=", name, code.as_bytes()].concat()
    };
    let (short, long) = (library(b"a", "f"), library(&vec![b'l'; everbyte_kv::KEY_MAX], "g"));
    let mut parts = Vec::new();
    for code in [&short, &long] {
        let mut part = crate::rdb::Output::new(crate::rdb::kind::LIBRARY);
        part.string(code);
        parts.extend(part.into_bytes());
    }
    let payload = crate::rdb::wrap_payload(parts);
    for words in [&[&b"FUNCTION"[..], b"LOAD", &long][..], &[b"FUNCTION", b"RESTORE", &payload]] {
        let ends = desk.iteration(&[&[b"SET", b"other", b"kept"], words, &[b"FUNCTION", b"LIST"]]);
        assert!(matches!(&ends[1], Err(text) if text.contains("a key of")), "{ends:?}");
        let mut out = Vec::new();
        desk.out.send(&mut out).unwrap();
        assert_eq!(out, b"+OK\r\n*0\r\n");
        assert_eq!(desk.get(b"other").as_deref(), Some(&b"kept"[..]));
        assert_eq!(desk.iteration(&[&[b"FCALL", b"g", b"0"]]), [Err("ERR Function not found".to_string())]);
        assert_eq!(desk.iteration(&[&[b"DEL", b"other"], &[b"FUNCTION", b"FLUSH"]]), [Ok(()), Ok(())]);
        desk.out.send(&mut Vec::new()).unwrap();
    }
}

/// Commands cost what COMMAND DOCS says, counted in bytes fetched out of blocks, with a value of
/// 256 MiB: none but those that return or copy the value read it.
#[test]
fn commands_read_no_more_of_values_than_they_say() {
    const SIZE: usize = 256 << 20;
    // A part costs its chunks of 64 KiB, and the value's table of 4 bytes a chunk.
    const TABLE: u64 = (SIZE / (64 << 10) * 4) as u64;
    const CHUNK: u64 = 64 << 10;
    let mut desk = Desk::new(Options::default());
    let mut value = vec![b'v'; SIZE];
    (value[SIZE / 2], value[SIZE - 1]) = (b'!', b'?');
    desk.iteration(&[&[b"SET", b"large", &value], &[b"SET", b"small", b"1"]]);
    drop(value);
    let middle = (SIZE / 2).to_string();
    let middle = middle.as_bytes();
    let mut cost = |words: &[&[u8]]| {
        let before = everbyte_kv::fetched();
        desk.out.send(&mut Vec::new()).unwrap();
        let ends = desk.iteration(&[words]);
        let mut reply = Vec::new();
        desk.out.send(&mut reply).unwrap();
        (everbyte_kv::fetched() - before, ends, String::from_utf8_lossy(&reply).into_owned())
    };
    for (words, bound, expect) in [
        (&[&b"EXISTS"[..], b"large", b"none"][..], 0, ":1\r\n"),
        (&[b"TOUCH", b"large"], 0, ":1\r\n"),
        (&[b"TYPE", b"large"], 0, "+string\r\n"),
        (&[b"TTL", b"large"], 0, ":-1\r\n"),
        (&[b"PTTL", b"large"], 0, ":-1\r\n"),
        (&[b"EXPIRETIME", b"large"], 0, ":-1\r\n"),
        (&[b"PEXPIRETIME", b"large"], 0, ":-1\r\n"),
        (&[b"PERSIST", b"large"], 0, ":0\r\n"),
        (&[b"EXPIRE", b"large", b"100", b"XX"], 0, ":0\r\n"),
        (&[b"COPY", b"large", b"small"], 0, ":0\r\n"),
        (&[b"STRLEN", b"large"], 0, ":268435456\r\n"),
        (&[b"SETNX", b"large", b"x"], 0, ":0\r\n"),
        (&[b"MSETNX", b"other", b"x", b"large", b"x"], 0, ":0\r\n"),
        (&[b"SET", b"large", b"x", b"NX"], 0, "$-1\r\n"),
        (&[b"RENAMENX", b"large", b"small"], 0, ":0\r\n"),
        (&[b"RENAME", b"large", b"large"], 0, "+OK\r\n"),
        (&[b"SETRANGE", b"large", b"5", b""], 0, ":268435456\r\n"),
        (&[b"DBSIZE"], 0, ":2\r\n"),
        (&[b"KEYS", b"*"], 0, "*2\r\n$5\r\nlarge\r\n$5\r\nsmall\r\n"),
        (&[b"SCAN", b"0"], 0, "*2\r\n$1\r\n0\r\n*2\r\n$5\r\nlarge\r\n$5\r\nsmall\r\n"),
        (&[b"COUNTRANGE", b"-", b"+"], 0, ":2\r\n"),
        (&[b"CURSOR", b"NEXT", b"1"], 0, ""),
        (&[b"GETRANGE", b"large", b"0", b"3"], TABLE + CHUNK, "$4\r\nvvvv\r\n"),
        (&[b"GETRANGE", b"large", b"-2", b"-1"], TABLE + CHUNK, "$2\r\nv?\r\n"),
        (&[b"SUBSTR", b"large", middle, middle], TABLE + CHUNK, "$1\r\n!\r\n"),
        (&[b"GETBIT", b"large", b"7"], TABLE + CHUNK, ":0\r\n"),
        (&[b"BITCOUNT", b"large", b"-1", b"-1"], TABLE + CHUNK, ":6\r\n"),
        (&[b"BITPOS", b"large", b"1"], TABLE + 64 * CHUNK, ":1\r\n"),
        (&[b"BITFIELD", b"large", b"GET", b"u8", b"#1"], TABLE + CHUNK, "*1\r\n:118\r\n"),
        (&[b"BITFIELD_RO", b"large", b"GET", b"i16", b"4"], TABLE + CHUNK, "*1\r\n:26471\r\n"),
        (&[b"INCR", b"large"], TABLE + CHUNK, ""),
        (&[b"OBJECT", b"ENCODING", b"large"], 0, "$3\r\nraw\r\n"),
        (&[b"OBJECT", b"REFCOUNT", b"large"], 0, ":1\r\n"),
        (&[b"OBJECT", b"IDLETIME", b"large"], 0, ":0\r\n"),
        (&[b"OBJECT", b"FREQ", b"none"], 0, "$-1\r\n"),
        (&[b"MEMORY", b"USAGE", b"large"], 0, ":268435477\r\n"),
        (&[b"LCS", b"small", b"none", b"LEN"], 0, ":0\r\n"),
        (&[b"DELRANGE", b"large", b"[large"], 0, ":1\r\n"),
        (&[b"DEL", b"large"], 0, ":0\r\n"),
        (&[b"RANDOMKEY"], 0, "$5\r\nsmall\r\n"),
        (&[b"SWAPDB", b"0", b"1"], 0, "+OK\r\n"),
    ] {
        let (fetched, ends, reply) = cost(words);
        let name = String::from_utf8_lossy(words[0]).into_owned();
        assert!(fetched <= bound, "{name} fetched {fetched} bytes");
        assert_eq!((reply.as_str(), ends[0].is_ok()), (expect, !["INCR", "CURSOR"].contains(&&*name)), "{name}");
    }
}

/// Commands that return or copy values read and write each of them once, and nothing else: counted
/// in bytes fetched out of blocks and in lines that were stored. Values of 8 MiB; of 256 MiB with
/// `EVERBYTE_SOAK` set.
#[test]
fn commands_read_and_write_values_once() {
    let size: usize = if everbyte_workload::is_long() { 256 << 20 } else { 8 << 20 };
    // The table of a value's chunks, the leaf, its neighbours, ledgers; and a few times the first
    // chunk of a string with a deadline, which begins with it.
    let few = (size / (64 << 10) * 4 + (512 << 10)) as u64;
    let mut desk = Desk::new(Options::default());
    let (value, numbers) = (vec![b'v'; size], [&b"5"[..], b"n"]);
    let mut dumped = crate::rdb::Output::new(crate::rdb::kind::STRING);
    dumped.string(&value);
    let payload = crate::rdb::wrap_payload(dumped.into_bytes());
    desk.iteration(&[&[b"SET", b"large", &value], &[b"SET", numbers[1], numbers[0]]]);
    let lines = |desk: &Desk| desk.shared.kv.store().media().counts().lines;
    let (start, mut due, mut commands) = (lines(&desk), 0, 0);
    for (words, read, written) in [
        (&[&b"GET"[..], b"large"][..], 1, 0),
        (&[b"GETEX", b"large"], 1, 0),
        (&[b"MGET", b"large", b"none", b"large"], 2, 0),
        (&[b"RANGE", b"-", b"+"], 1, 0),
        (&[b"REVRANGE", b"+", b"-"], 1, 0),
        (&[b"PREFIX", b"l"], 1, 0),
        (&[b"CURSOR", b"RANGE", b"-", b"+"], 1, 0),
        (&[b"CURSOR", b"REVRANGE", b"+", b"-"], 1, 0),
        (&[b"CURSOR", b"PREFIX", b"l"], 1, 0),
        (&[b"SET", b"large", &value], 0, 1),
        (&[b"SET", b"large", &value, b"GET"], 1, 1),
        (&[b"GETSET", b"large", &value], 1, 1),
        (&[b"APPEND", b"large", b"and more"], 1, 1),
        (&[b"SETRANGE", b"large", b"5", b"other"], 1, 1),
        (&[b"SETBIT", b"large", b"4", b"1"], 1, 1),
        (&[b"BITFIELD", b"large", b"SET", b"u8", b"#1", b"1", b"INCRBY", b"u8", b"#1", b"1"], 1, 1),
        (&[b"BITOP", b"AND", b"large", b"large", b"large"], 2, 1),
        (&[b"BITCOUNT", b"large", b"0", b"-2"], 1, 0),
        (&[b"SETNX", b"new", &value], 0, 1),
        (&[b"MSET", b"a", &value, b"b", &value], 0, 2),
        (&[b"MSETNX", b"c", &value, b"d", b"small"], 0, 1),
        (&[b"RENAME", b"large", b"other"], 1, 1),
        (&[b"RENAMENX", b"other", b"large"], 1, 1),
        (&[b"GETDEL", b"large"], 1, 0),
        (&[b"INCR", b"n"], 0, 0),
        (&[b"DECR", b"n"], 0, 0),
        (&[b"INCRBY", b"n", b"3"], 0, 0),
        (&[b"INCRBYFLOAT", b"n", b"3"], 0, 0),
        (&[b"DECRBY", b"n", b"3"], 0, 0),
        (&[b"PERSIST", b"a"], 0, 0),
        (&[b"EXPIRE", b"a", b"100"], 1, 1),
        (&[b"PEXPIRE", b"a", b"100000"], 1, 1),
        (&[b"TTL", b"a"], 0, 0),
        (&[b"STRLEN", b"a"], 0, 0),
        (&[b"GET", b"a"], 1, 0),
        (&[b"EXPIREAT", b"a", b"99999999999"], 1, 1),
        (&[b"PEXPIREAT", b"a", b"99999999999999"], 1, 1),
        (&[b"COPY", b"a", b"e"], 1, 1),
        (&[b"MOVE", b"e", b"1"], 1, 1),
        (&[b"PERSIST", b"a"], 1, 1),
        (&[b"SETEX", b"b", b"100", &value], 0, 1),
        (&[b"PSETEX", b"b", b"100000", &value], 0, 1),
        (&[b"SET", b"b", &value], 0, 1),
        (&[b"DUMP", b"a"], 1, 0),
        (&[b"RESTORE", b"restored", b"0", &payload], 0, 1),
        (&[b"UNLINK", b"a", b"c"], 0, 0),
        (&[b"FLUSHDB"], 0, 0),
        (&[b"SET", b"large", &value], 0, 1),
        (&[b"FLUSHALL"], 0, 0),
    ] {
        let name = String::from_utf8_lossy(words[0]).into_owned();
        let (fetched, stored) = (everbyte_kv::fetched(), lines(&desk));
        let ends = desk.iteration(&[words]);
        assert!(ends[0].is_ok(), "{name}: {ends:?}");
        let (fetched, stored) = (everbyte_kv::fetched() - fetched, (lines(&desk) - stored) * 64);
        desk.out.send(&mut std::io::sink()).unwrap();
        let values = |count: u64| count * size as u64..=count * size as u64 + few;
        assert!(values(read).contains(&fetched), "{name} fetched {fetched} bytes, {read} values are due");
        assert!(*values(written).start() <= stored, "{name} stored {stored} bytes, {written} values are due");
        (due, commands) = (due + written * size as u64, commands + 1);
    }
    // In all, because another thread clears what was freed, once, at a time of its own.
    let stored = (lines(&desk) - start) * 64;
    assert!(stored <= 2 * due + commands * few, "{stored} bytes stored, {due} are due");
}

/// Every command about strings or about keys of any type is in one of the two tables of costs
/// above, so that a new one cannot be forgotten.
#[test]
fn every_command_about_keys_has_its_cost_counted() {
    let here = include_str!("tests.rs");
    for command in CommandTable::get()
        .rows
        .iter()
        .filter(|row| ["string", "bitmap"].contains(&row.group) || row.flags.contains(Flags::KEYSPACE))
        .filter(|row| !row.name.ends_with("|help"))
    {
        let name = command.name.to_uppercase().replace('|', "\", b\"");
        let row = format!("[b\"{name}\"");
        let first = format!("[&b\"{name}\"[..]");
        assert!(here.contains(&row) || here.contains(&first), "{}: what does it cost?", command.name);
    }
}

mod copies;
mod dumps;
mod lists;
mod ranges;
mod set_operations;
