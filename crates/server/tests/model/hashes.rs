//! Random programs about hashes, mixed with strings and commands about keys of any type.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

const KEYS: &[&[u8]] = &[b"a", b"b", b"c", b"string", b"nosuch"];
const FIELDS: &[&[u8]] = &[b"f", b"g", b"h", b"", b"\0\xff\r\n", b"field:1", b"field:10"];

#[test]
fn random_programs_of_hashes_are_answered_byte_for_byte() {
    use Order::{Any, AnyPairs, Same};
    let large = vec![b'L'; 5000];
    let values: &[&[u8]] =
        &[b"", b"x", b"1", b"-5", b"9223372036854775807", b"-9223372036854775808", b"1.5", b"\r\n$5\r\n", &large];
    let rows: Vec<Row> = vec![
        ("HSET", "kfv", Same),
        ("HSET", "kfvfv", Same),
        ("HSET", "kfvfvfvfv", Same),
        ("HMSET", "kfvfv", Same),
        ("HSETNX", "kfv", Same),
        ("HGET", "kf", Same),
        ("HMGET", "kfff", Same),
        ("HDEL", "kf", Same),
        ("HDEL", "kffff", Same),
        ("HLEN", "k", Same),
        ("HEXISTS", "kf", Same),
        ("HSTRLEN", "kf", Same),
        ("HINCRBY", "kfn", Same),
        ("HINCRBY", "kfn", Same),
        ("HGETALL", "k", AnyPairs),
        ("HKEYS", "k", Any),
        ("HVALS", "k", Any),
        ("HRANDFIELD", "kNw", Any),
        ("SET", "Sv", Same),
        ("GET", "k", Same),
        ("MGET", "kk", Same),
        ("APPEND", "kv", Same),
        ("INCR", "k", Same),
        ("SETRANGE", "knv", Same),
        ("STRLEN", "k", Same),
        ("GETDEL", "k", Same),
        ("DEL", "k", Same),
        ("TYPE", "k", Same),
        ("EXISTS", "kk", Same),
        ("RENAME", "kk", Same),
        ("RENAMENX", "kk", Same),
        ("COPY", "kkr", Same),
        ("COPY", "kk", Same),
        ("MOVE", "ks", Same),
        ("SELECT", "s", Same),
        ("PEXPIREAT", "kT", Same),
        ("PEXPIRETIME", "k", Same),
        ("PERSIST", "k", Same),
        ("DBSIZE", "", Same),
        ("FLUSHDB", "", Same),
    ];
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, KEYS),
        b'S' => pick(random, &[b"string", b"string", b"string", b"a"]),
        b'f' => pick(random, FIELDS),
        b'v' => pick(random, values),
        b'n' => pick(random, &[b"1", b"-1", b"100", b"9223372036854775807", b"x"]),
        // All of them, so that both servers choose the same.
        b'N' => pick(random, &[b"100", b"0", b"x", b"9223372036854775807"]),
        b's' => pick(random, &[b"0", b"0", b"0", b"1"]),
        b'w' => b"WITHVALUES".to_vec(),
        b'T' => pick(random, &[b"99999999999999", b"1", b"-1"]),
        _ => b"REPLACE".to_vec(),
    };
    agree("random_programs_of_hashes", 60, &rows, draw);
}
