//! Commands run by hand, without sockets: what a failing command leaves of its turn.

use std::time::Instant;

use everbyte_kv::Kv;
use everbyte_store::{CreateOptions, Store};

use super::{Call, Fail, Flags, Table};
use crate::clients::{Client, Clients};
use crate::keyspace::{Keyspace, Verdict};
use crate::options::Options;
use crate::resp::parse::{Parser, Step};
use crate::resp::reply::Replies;
use crate::shared::Shared;

/// A table, and one client that may ask.
struct Desk {
    shared: Shared,
    client: Client,
    out: Replies,
    _folder: tempfile::TempDir,
}

impl Desk {
    fn new(options: Options) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let client = Client::new(1, address, address, 0, Instant::now());
        Desk { shared: Shared::new(options, address, kv), client, out: Replies::default(), _folder: folder }
    }

    /// Executes commands as one turn; how each ended. Then the turn is committed and settled.
    fn turn(&mut self, commands: &[&[&[u8]]]) -> Vec<Result<(), String>> {
        let kv = self.shared.kv.clone();
        let mut keys = Keyspace::new(&kv, false, false);
        let ends = commands.iter().map(|words| self.run(&mut keys, words)).collect();
        keys.commit().unwrap();
        if let Some(commit) = keys.committed() {
            kv.settle(commit).unwrap();
        }
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
        let command = Table::get().rows[Table::get().look_up(&args).expect("a command")];
        keys.begin_command(command.flags.contains(Flags::WRITE));
        let mark = self.out.mark();
        let (out, client, others, shared) = (&mut self.out, &mut self.client, &Clients::default(), &mut self.shared);
        let outcome = (command.handler)(&mut Call { args, out, client, others, keys, shared });
        if outcome.is_err() {
            self.out.cut(mark);
        }
        match keys.end_command(outcome.is_err()) {
            Verdict::Kept => outcome.map_err(|fail: Fail| String::from_utf8_lossy(&fail.reply()).into_owned()),
            Verdict::Refused(error) => Err(format!("refused: {error}")),
            Verdict::Lost => Err("the turn is lost".to_string()),
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.kv.get(key).unwrap()
    }
}

/// A command with several keys of which a later one is too long changes nothing, and what others wrote in its turn stands.
#[test]
fn a_key_that_is_too_long_costs_others_nothing() {
    let mut desk = Desk::new(Options::default());
    let long = vec![b'k'; everbyte_kv::KEY_MAX + 1];
    desk.turn(&[&[b"SET", b"old", b"1"]]);
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
        let ends = desk.turn(&[&[b"SET", other.as_bytes(), b"kept"], words]);
        assert!(ends[0].is_ok(), "{ends:?}");
        assert!(matches!(&ends[1], Err(text) if text.contains("a key of 16777217 bytes")), "{ends:?}");
        assert_eq!(desk.get(other.as_bytes()).as_deref(), Some(&b"kept"[..]));
        assert_eq!((desk.get(b"a"), desk.get(b"old")), (None, Some(b"1".to_vec())));
    }
}

/// A command whose reply is above the output limit changes nothing, and what others wrote in its turn stands.
#[test]
fn a_reply_above_the_limit_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let large = vec![b'v'; 1001];
    desk.turn(&[&[b"SET", b"large", &large]]);
    for (round, words) in
        [&[&b"GETDEL"[..], b"large"][..], &[b"GETSET", b"large", b"new"], &[b"SET", b"large", b"new", b"GET"]]
            .into_iter()
            .enumerate()
    {
        let other = format!("other {round}");
        let ends = desk.turn(&[&[b"SET", other.as_bytes(), b"kept"], words]);
        assert!(ends[0].is_ok(), "{ends:?}");
        assert!(matches!(&ends[1], Err(text) if text.contains("output limit")), "{ends:?}");
        assert_eq!(desk.get(other.as_bytes()).as_deref(), Some(&b"kept"[..]));
        assert_eq!(desk.get(b"large").as_ref(), Some(&large));
    }
}
