//! Random programs about streams.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

#[test]
fn random_programs_of_streams_are_answered_byte_for_byte() {
    let shapes: &[(&str, &[&str])] = &[
        (
            "XADD",
            &[
                "kifv", "kifv", "kJfv", "kJfvfv", "kAfv", "kNifv", "kMnifv", "kMenJfv", "kDeiJfv", "kifvf", "kMnDiJfv",
                "kCnJfv",
            ],
        ),
        ("XLEN", &["k"]),
        ("XRANGE", &["kbB", "kbBCn", "kbBCnCn", "kbBx"]),
        ("XREVRANGE", &["kBb", "kBbCn"]),
        ("XDEL", &["ki", "kii", "kiii"]),
        ("XTRIM", &["kMn", "kMen", "kDi", "kDei", "kMnCn", "kn"]),
        ("XSETID", &["ki", "kiEn", "kiEnXi"]),
        ("XREAD", &["SkkII", "CnSkkII", "SkI", "SkkI", "CnSkI"]),
        ("SET", &["ov"]),
        ("DEL", &["k"]),
        ("TYPE", &["k"]),
        ("COPY", &["kk", "kkr"]),
        ("RENAME", &["kk"]),
        ("PEXPIREAT", &["kT"]),
    ];
    let rows: Vec<Row> =
        shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(|shape| (*name, *shape, Order::Same))).collect();
    let mut time = 1;
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"b", b"c", b"other", b"nosuch"]),
        b'o' => b"other".to_vec(),
        b'i' => pick(
            random,
            &[
                b"1-1",
                b"1-2",
                b"2",
                b"2-5",
                b"90000-18446744073709551615",
                b"5-0",
                b"7",
                b"0",
                b"0-0",
                b"x",
                b"1-x",
                b"-",
                b"+",
                b"18446744073709551616",
            ],
        ),
        b'J' => {
            time += random.index(2);
            format!("{time}-{}", random.index(5)).into_bytes()
        }
        b'A' => {
            time += random.index(2);
            format!("{time}-*").into_bytes()
        }
        b'I' => pick(
            random,
            &[b"0", b"1-1", b"2", b"5", b"$", b"20-3", b">", b"x", b"18446744073709551615-18446744073709551615"],
        ),
        b'b' => pick(
            random,
            &[
                b"-",
                b"1",
                b"(1-1",
                b"2-1",
                b"(2",
                b"5",
                b"10",
                b"+",
                b"x",
                b"(",
                b"(18446744073709551615-18446744073709551615",
            ],
        ),
        b'B' => pick(random, &[b"+", b"2", b"(5-0", b"9", b"40", b"(0-0", b"-", b"x", b"(-"]),
        b'N' => b"NOMKSTREAM".to_vec(),
        b'M' => b"MAXLEN".to_vec(),
        b'D' => b"MINID".to_vec(),
        b'e' => b"=".to_vec(),
        b'C' => pick(random, &[b"COUNT", b"count", b"LIMIT", b"COUNT"]),
        b'E' => b"ENTRIESADDED".to_vec(),
        b'X' => b"MAXDELETEDID".to_vec(),
        b'S' => b"STREAMS".to_vec(),
        b'n' => pick(random, &[b"0", b"1", b"2", b"3", b"5", b"-1", b"x", b"100"]),
        b'r' => b"REPLACE".to_vec(),
        b'T' => b"99999999999999".to_vec(),
        b'f' => pick(random, &[b"f", b"g", b""]),
        _ => pick(random, &[b"1", b"", b"\0\xff\r\n", b"value"]),
    };
    agree("random_programs_of_streams", 60, &rows, draw);
}
