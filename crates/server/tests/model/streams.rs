//! Random programs about streams and their consumer groups.

use crate::common::{Ours, Redis, command};
use crate::compare;
use crate::programs::{Order, Row, agree, agree_over, pick};
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
                b" 1-1",
                b"+2-+5",
                b"3- -7",
                b"2-5\0more",
                b"6- *",
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

/// Consumer groups. Times are told of the past or of the far future alone.
#[test]
fn random_programs_of_consumer_groups_are_answered_byte_for_byte() {
    let same: &[(&str, &[&str])] = &[
        ("XADD", &["kJfv", "kJfv", "kJfv", "kJfvfv", "kMnJfv"]),
        ("XDEL", &["ki", "kii"]),
        ("XTRIM", &["kMn"]),
        ("XSETID", &["kI", "kIEnXi"]),
        (
            "XGROUP",
            &["1kgI", "1kgI", "1kgIm", "1kgImEn", "1kgIEnm", "2kgI", "2kgIEn", "3kg", "4kgc", "5kgc", "6", "1kgIo"],
        ),
        (
            "XREADGROUP",
            &[
                "GgcSk>",
                "GgcCnSk>",
                "GgcCnSk>",
                "GgcaSk>",
                "GgcSkk>>",
                "GgcCnSkk>i",
                "GgcSki",
                "GgcCnSki",
                "GgcSkI",
                "gcSk>",
            ],
        ),
        ("XACK", &["kgi", "kgii", "kgiii"]),
        ("XPENDING", &["kg"]),
        (
            "XCLAIM",
            &[
                "kgcti",
                "kgctii",
                "kgctiio",
                "kgctio",
                "kgctioo",
                "kgctiTw",
                "kgctiTwo",
                "kgctiRn",
                "kgctiLi",
                "kgctiioRnLi",
            ],
        ),
        ("XAUTOCLAIM", &["kgctb", "kgctbCn", "kgctbCno", "kgctbo"]),
        ("XINFO", &["7k", "7k", "9kg"]),
        ("XRANGE", &["kbB"]),
        ("SET", &["zv"]),
        ("DEL", &["k"]),
        ("COPY", &["kk", "kkr"]),
        ("RENAME", &["kk"]),
        ("MOVE", &["ks"]),
        ("SELECT", &["s"]),
        ("TYPE", &["k"]),
        ("XLEN", &["k"]),
    ];
    let timeless: &[(&str, &[&str])] = &[
        ("XPENDING", &["kgbBn", "kgbBn", "kgbBnc", "kgDtbBn", "kgDtbBnc", "kgb"]),
        ("XINFO", &["8k", "8kF", "8kF", "8kFCn", "0kg", "0kg"]),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (list, order) in [(same, Order::Same), (timeless, Order::Timeless)] {
        for (name, shapes) in list {
            rows.extend(shapes.iter().map(|shape| (*name, *shape, order)));
        }
    }
    let mut time = 1;
    let mut draw = |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"a", b"a", b"b", b"b", b"other", b"nosuch"]),
        b'z' => b"other".to_vec(),
        b'g' => pick(random, &[b"g", b"g", b"g", b"h", b"gg", b"", b"no\0such"]),
        b'c' => pick(random, &[b"c", b"c", b"d", b"d", b"ee", b"", b"\0\xff\r\n"]),
        b'J' => {
            time += random.index(2);
            format!("{time}-{}", random.index(5)).into_bytes()
        }
        b'i' => {
            let near = time.saturating_sub(random.index(12));
            match random.index(12) {
                0 => pick(random, &[b"0", b"x", b"-", b"1-x", b"5-0"]),
                _ => format!("{near}-{}", random.index(5)).into_bytes(),
            }
        }
        b'I' => {
            let near = time.saturating_sub(random.index(12));
            match random.index(6) {
                0 => pick(random, &[b"-", b"+", b"x"]),
                1 | 2 => b"$".to_vec(),
                3 => b"0".to_vec(),
                _ => format!("{near}-{}", random.index(5)).into_bytes(),
            }
        }
        b'b' => {
            let near = time.saturating_sub(random.index(20));
            match random.index(4) {
                0 => pick(random, &[b"-", b"(1-1", b"x", b"+", b"(18446744073709551615-18446744073709551615"]),
                1 => format!("({near}").into_bytes(),
                2 => b"0".to_vec(),
                _ => near.to_string().into_bytes(),
            }
        }
        b'B' => pick(random, &[b"+", b"+", b"+", b"90", b"(20-0", b"(0-0", b"x"]),
        b'>' => pick(random, &[b">", b">", b">", b">", b">", b">", b"$", b"0"]),
        b'n' => pick(random, &[b"1", b"2", b"2", b"3", b"5", b"0", b"10", b"-1", b"x"]),
        b't' => pick(random, &[b"0", b"0", b"0", b"3600000", b"-5", b"x"]),
        b'w' => pick(random, &[b"1", b"1", b"0", b"-1", b"99999999999999", b"x"]),
        b'C' => pick(random, &[b"COUNT", b"count", b"COUNT", b"bogus"]),
        b'o' => pick(random, &[b"FORCE", b"JUSTID", b"justid", b"force", b"bogus"]),
        b'T' => b"TIME".to_vec(),
        b'R' => b"RETRYCOUNT".to_vec(),
        b'L' => b"LASTID".to_vec(),
        b'G' => b"GROUP".to_vec(),
        b'S' => b"STREAMS".to_vec(),
        b'a' => b"NOACK".to_vec(),
        b'm' => b"MKSTREAM".to_vec(),
        b'E' => pick(random, &[b"ENTRIESREAD", b"entriesread", b"ENTRIESADDED"]),
        b'X' => b"MAXDELETEDID".to_vec(),
        b'D' => b"IDLE".to_vec(),
        b'M' => b"MAXLEN".to_vec(),
        b'F' => b"FULL".to_vec(),
        b'r' => b"REPLACE".to_vec(),
        b's' => pick(random, &[b"0", b"0", b"0", b"1"]),
        b'1' => b"CREATE".to_vec(),
        b'2' => b"SETID".to_vec(),
        b'3' => b"DESTROY".to_vec(),
        b'4' => b"CREATECONSUMER".to_vec(),
        b'5' => b"DELCONSUMER".to_vec(),
        b'6' => b"nosuch".to_vec(),
        b'7' | b'9' => b"GROUPS".to_vec(),
        b'8' => b"STREAM".to_vec(),
        b'0' => b"CONSUMERS".to_vec(),
        b'f' => pick(random, &[b"f", b"g", b""]),
        _ => pick(random, &[b"1", b"", b"\0\xff\r\n", b"value"]),
    };
    for protocol in ["2", "3"] {
        agree_over(protocol, "random_programs_of_consumer_groups", 120, &rows, &mut draw);
    }
}

/// Commands about groups are no changes for clients that watch a stream's key.
#[test]
fn changes_of_groups_are_not_watched() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    for line in [
        "XGROUP CREATE s g 0 MKSTREAM",
        "XADD s 1-1 f v",
        "XADD s 1-2 f v",
        "XGROUP CREATE s h 0",
        "XGROUP SETID s h $",
        "XGROUP CREATECONSUMER s h c",
        "XREADGROUP GROUP g c STREAMS s >",
        "XREADGROUP GROUP g c STREAMS s 0",
        "XCLAIM s g d 0 1-1",
        "XAUTOCLAIM s g e 0 0",
        "XACK s g 1-1",
        "XGROUP DELCONSUMER s g e",
        "XGROUP DESTROY s h",
        "XSETID s 9-9",
        "XDEL s 1-1",
        "XTRIM s MAXLEN 0",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let [multi, ping, exec] = ["MULTI", "PING", "EXEC"].map(|word| command(&[word]));
        let bytes = [command(&["WATCH", "s"]), command(&words), multi, ping, exec].concat();
        compare(&mut ours, &mut theirs, &bytes, line);
    }
}
