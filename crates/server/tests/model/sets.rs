//! Random programs about sets, mixed with strings, hashes and commands about keys of any type.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

#[test]
fn random_programs_of_sets_are_answered_byte_for_byte() {
    use Order::{Any, Same};
    let rows: Vec<Row> = vec![
        ("SADD", "km", Same),
        ("SADD", "kmmm", Same),
        ("SREM", "km", Same),
        ("SREM", "kmmm", Same),
        ("SISMEMBER", "km", Same),
        ("SMISMEMBER", "kmmm", Same),
        ("SCARD", "k", Same),
        ("SMEMBERS", "k", Any),
        ("SRANDMEMBER", "knm", Any),
        ("SMOVE", "kkm", Same),
        ("SMOVE", "kkm", Same),
        ("SINTER", "kk", Any),
        ("SINTER", "kkk", Any),
        ("SUNION", "kkk", Any),
        ("SDIFF", "kk", Any),
        ("SDIFF", "kkk", Any),
        ("SINTERSTORE", "kkk", Same),
        ("SUNIONSTORE", "kkk", Same),
        ("SDIFFSTORE", "kkk", Same),
        ("SINTERCARD", "Nkk", Same),
        ("SINTERCARD", "NkkLN", Same),
        ("HSET", "Smm", Same),
        ("HGET", "km", Same),
        ("HLEN", "k", Same),
        ("SET", "Sm", Same),
        ("GET", "k", Same),
        ("DEL", "k", Same),
        ("TYPE", "k", Same),
        ("RENAME", "kk", Same),
        ("COPY", "kkr", Same),
        ("MOVE", "ks", Same),
        ("SELECT", "s", Same),
        ("PEXPIREAT", "kT", Same),
        ("PERSIST", "k", Same),
        ("DBSIZE", "", Same),
    ];
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"b", b"c", b"other", b"nosuch"]),
        b'S' => pick(random, &[b"other", b"other", b"other", b"a"]),
        b'n' => b"100".to_vec(),
        b'N' => pick(random, &[b"2", b"2", b"2", b"1", b"0", b"3", b"-1", b"x"]),
        b'L' => pick(random, &[b"LIMIT", b"limit", b"LIMIT", b"bogus"]),
        b's' => pick(random, &[b"0", b"0", b"0", b"1"]),
        b'T' => pick(random, &[b"99999999999999", b"1"]),
        b'r' => b"REPLACE".to_vec(),
        _ => pick(random, &[b"1", b"2", b"x", b"", b"\0\xff\r\n", b"member:1", b"member:2"]),
    };
    agree("random_programs_of_sets", 60, &rows, draw);
}
