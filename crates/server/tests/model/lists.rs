//! Random programs over lists, with strings and commands of any type among them.

use crate::programs::{Order, Row, agree, pick};

#[test]
fn random_programs_over_lists_are_answered_byte_for_byte() {
    let large = vec![b'L'; 70_000];
    let values: &[&[u8]] = &[b"", b"a", b"b", b"c", b"a", b"\0\r\n\xff", b"17", &large];
    let numbers: &[&[u8]] = &[
        b"0",
        b"1",
        b"-1",
        b"2",
        b"-2",
        b"5",
        b"-5",
        b"100",
        b"9223372036854775807",
        b"-9223372036854775807",
        b"-9223372036854775808",
        b"x",
    ];
    let shapes: &[(&str, &[&str])] = &[
        ("LPUSH", &["kv", "kvvv", "kvvvvvv"]),
        ("RPUSH", &["kv", "kvvv", "kvvvvvv"]),
        ("LPUSHX", &["kvv"]),
        ("RPUSHX", &["kvv"]),
        ("LPOP", &["k", "kn"]),
        ("RPOP", &["k", "kn"]),
        ("LLEN", &["k"]),
        ("LINDEX", &["kn"]),
        ("LRANGE", &["knn"]),
        ("LSET", &["knv"]),
        ("LINSERT", &["kwvv", "kwvv"]),
        ("LREM", &["knv", "knv"]),
        ("LTRIM", &["knn"]),
        ("LPOS", &["kv", "kvRn", "kvCn", "kvRnCn", "kvRnCnMn", "kvMn"]),
        ("LMOVE", &["kkee"]),
        ("RPOPLPUSH", &["kk"]),
        ("LMPOP", &["1ke", "2kke", "2kkeCn", "nkke"]),
        ("SET", &["kv"]),
        ("GET", &["k"]),
        ("APPEND", &["kv"]),
        ("TYPE", &["k"]),
        ("EXISTS", &["kk"]),
        ("DEL", &["k"]),
        ("RENAME", &["kk"]),
        ("COPY", &["kk", "kkr"]),
        ("EXPIREAT", &["kT"]),
        ("EXPIRETIME", &["k"]),
        ("PERSIST", &["k"]),
    ];
    let rows: Vec<Row> =
        shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(move |shape| (*name, *shape, Order::Same))).collect();
    agree("random_programs_over_lists", 80, &rows, &mut |letter, random| match letter {
        b'k' => pick(random, &[b"l", b"l", b"l", b"m", b"m", b"", b"s"]),
        b'v' => pick(random, values),
        b'n' => pick(random, numbers),
        b'w' => pick(random, &[b"BEFORE", b"after", b"bogus"]),
        b'e' => pick(random, &[b"LEFT", b"right", b"LEFT", b"RIGHT", b"bogus"]),
        b'R' => b"RANK".to_vec(),
        b'C' => pick(random, &[b"COUNT", b"count", b"bogus"]),
        b'M' => b"MAXLEN".to_vec(),
        b'r' => b"REPLACE".to_vec(),
        b'T' => pick(random, &[b"99999999990", b"1", b"x"]),
        digit => vec![digit],
    });
}
