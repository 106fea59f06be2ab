//! Fuzzers for every parser of outside bytes: what media, a network or a file may hold must never
//! panic or hang us.
//!
//! A target takes any bytes and returns the *class* of what happened (an error without its numbers,
//! or what was read). An input that makes a new class joins the corpus: no instrumentation, and yet
//! the search goes where behaviour is.
//!
//! Targets over media take a list of patches to a good image; checksums can be put right afterwards
//! (first byte), so that the search gets behind them.
//!
//! Invariant FUZZ-1: no input makes a target panic, abort or run for longer than [`HANG`].
//!
//! Design: docs/design/fuzz-by-class.md

#![forbid(unsafe_code)]

pub mod mutate;
pub mod patch;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

/// An input that takes longer is a finding.
pub const HANG: Duration = Duration::from_secs(20);

/// One parser of outside bytes.
pub struct Target {
    /// Its name on the command line, and of its folder in the corpus.
    pub name: &'static str,
    /// The parser that it covers.
    pub what: &'static str,
    /// Takes anything; returns the class of what happened.
    pub run: fn(&[u8]) -> String,
    /// Inputs to start from when the corpus is empty.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "store",
        what: "superblock, words, object table and headers of a store",
        run: targets::store::run,
        seeds: patch::seeds,
    },
    Target {
        name: "file",
        what: "media head and log records of the `file` backend",
        run: targets::file::run,
        seeds: patch::seeds,
    },
    Target {
        name: "backup",
        what: "head, chunks, table and end mark of a backup",
        run: targets::backup::run,
        seeds: patch::seeds,
    },
    Target { name: "kv", what: "heap and tree of a key-value store", run: targets::kv::run, seeds: patch::seeds },
    Target {
        name: "typed",
        what: "the description of a typed table, and keys of what it describes",
        run: targets::typed::run,
        seeds: targets::typed::seeds,
    },
    Target {
        name: "kv-dump",
        what: "the dump of a key-value store, of which one is made",
        run: targets::kv_dump::run,
        seeds: patch::seeds,
    },
    Target {
        name: "volume",
        what: "inodes, extents, names and attributes of a file volume",
        run: targets::volume::run,
        seeds: targets::volume::seeds,
    },
    Target { name: "journal", what: "a lane of the undo journal", run: targets::journal::run, seeds: patch::seeds },
    Target {
        name: "object",
        what: "blocks and description of a typed pool: the deep check with and without its program",
        run: targets::object::run,
        seeds: targets::object::seeds,
    },
    Target {
        name: "dump",
        what: "the text of a typed pool, of which a pool is made",
        run: targets::dump::run,
        seeds: targets::dump::seeds,
    },
    Target {
        name: "words",
        what: "a word log of either form, used on after its recovery",
        run: targets::words::run,
        seeds: targets::words::seeds,
    },
    Target {
        name: "protocol",
        what: "requests of the Redis protocol, whole and in pieces, and glob patterns",
        run: everbyte_server::fuzz_protocol,
        seeds: protocol_seeds,
    },
    Target {
        name: "rdb",
        what: "a value as RESTORE takes it, in each form of RDB files, and an estimated count",
        run: everbyte_server::fuzz_rdb,
        seeds: || vec![b"HYLL\x01".to_vec(), vec![0x12, 1, 2, 0]],
    },
    Target {
        name: "import",
        what: "an RDB file or an AOF, imported into a store and exported again",
        run: targets::import::run,
        seeds: targets::import::seeds,
    },
    Target {
        name: "lua",
        what: "scripts, and what the libraries of scripts read: JSON, MessagePack, formats, patterns",
        run: everbyte_server::fuzz_lua,
        seeds: lua_seeds,
    },
];

/// One of each kind.
fn lua_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 6] = [
        b"\x00local t = redis.call('get', ARGV[1]) return {t, #t, string.rep('x', 3)}",
        b"\x01[1, {\"a\": \"\\u00e9\"}, null, -1.5e3]",
        b"\x02\x93\x01\xa1a\x81\xa1k\xcb\x3f\xf8\0\0\0\0\0\0",
        b"\x03>i2Bs!4c0|\x01\x02\x03abc\0",
        b"\x04(%w+)%s*=-[^a-c]?%f[%d]%b()|key = (3)",
        b"\x05return coroutine.wrap(function(...) for i = 1, 3 do coroutine.yield(i) end end)()",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}

/// The server's own samples of its protocol.
fn protocol_seeds() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/server/testdata/protocol");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// The corpus of a target, kept in the repository.
pub fn corpus(target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// Reads a corpus in the order of its names.
pub fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(corpus(target)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// A text without what varies: numbers, and what stands in quotes.
pub fn class(text: &str) -> String {
    let mut class = String::new();
    for word in text.split_whitespace() {
        let varies = word.contains(|c: char| c.is_ascii_digit() || c == '/' || c == '`');
        class.push_str(if varies { "#" } else { word });
        class.push(' ');
    }
    class
}
