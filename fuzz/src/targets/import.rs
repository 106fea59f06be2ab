//! An RDB file or an AOF, imported into a store: it is refused and the store has no key, or it is
//! there, the tables agree, and the RDB file that is made of them is imported again.

#![allow(clippy::result_large_err, reason = "an import ends once")]

use crate::class;
use crate::patch::store;
use everbyte_kv::Kv;
use everbyte_server::{ImportOptions, ImportSource, Imported, Kept, check, export, import};

const LEN: u64 = 8 << 20;
/// Inputs are cut to this size, so that the store has room.
const SIZE_MAX: usize = 16 << 10;

/// Commands of each type, with a transaction and a remark.
const COMMANDS: &[&str] = &[
    "SELECT 0",
    "SET a 1",
    "SET b text PXAT 4000000000000",
    "RPUSH l one two 3",
    "SADD s 1 2 x",
    "HSET h f v g w",
    "ZADD z 1.5 one 2 two",
    "XADD x 1-1 f v",
    "XADD x 2-1 f v g w",
    "XGROUP CREATE x g 0",
    "XCLAIM x g one 0 1-1 TIME 1000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1",
    "MULTI",
    "INCR a",
    "SWAPDB 0 1",
    "EXEC",
    "PFADD p a b",
];

fn aof() -> Vec<u8> {
    let mut bytes = b"#TS:1700000000\r\n".to_vec();
    for line in COMMANDS {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

/// An AOF; an RDB file without a checksum, which is one of a Redis that makes none.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let kv = Kv::create(&store(LEN), "kv").expect("a table");
    read(&kv, &aof()).expect("an AOF");
    let mut bytes = Vec::new();
    export(&kv, &mut bytes, &mut |_| {}).expect("whole tables");
    let size = bytes.len();
    bytes[size - 8..].fill(0);
    vec![aof(), bytes]
}

fn read(kv: &Kv, bytes: &[u8]) -> Result<Imported, everbyte_server::ImportError> {
    let options = ImportOptions { batch_size: 300, ..ImportOptions::default() };
    import(kv, &ImportSource::Bytes(bytes.into()), &options, &mut |_| true)
}

fn whole(kv: &Kv) {
    let mut findings = Vec::new();
    check(kv, &mut |finding| findings.push(finding.to_string()));
    assert!(findings.is_empty(), "{findings:?}");
}

pub(crate) fn run(input: &[u8]) -> String {
    let kv = Kv::create(&store(LEN), "kv").expect("a table");
    let done = read(&kv, &input[..input.len().min(SIZE_MAX)]);
    whole(&kv);
    let mut bytes = Vec::new();
    let exported = export(&kv, &mut bytes, &mut |_| {}).expect("whole tables");
    match done {
        Err(error) => {
            assert!(matches!(error.kept, Kept::Nothing), "{error}");
            assert_eq!(exported.keys, 0, "a key of an import that was taken back");
            class(&error.to_string())
        }
        Ok(done) => {
            let again = Kv::create(&store(LEN), "kv").expect("a table");
            let keys = read(&again, &bytes).expect("an RDB file of ours").keys;
            assert_eq!(keys, exported.keys);
            format!("{} keys, {} commands", keys.min(20), done.commands.min(20))
        }
    }
}
