//! Random programs about strings as bits.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

#[test]
fn random_programs_of_bitmaps_are_answered_byte_for_byte() {
    let shapes: &[(&str, &[&str])] = &[
        ("SETBIT", &["kob", "kob"]),
        ("GETBIT", &["ko"]),
        ("BITCOUNT", &["k", "knn", "knnu", "kn"]),
        ("BITPOS", &["kb", "kbn", "kbnn", "kbnnu"]),
        ("BITOP", &["Pkk", "Pkkk", "Pkkkk", "Nkk", "Nkkk"]),
        ("BITFIELD", &["kgtf", "kstfv", "kitfv", "kOmstfvitfv", "kOmitfvgtf", "kOmitfvOmitfvstfv", "k"]),
        ("BITFIELD_RO", &["kgtf", "kgtfgtf", "kstfv"]),
        ("SET", &["kV"]),
        ("GET", &["k"]),
        ("APPEND", &["kV"]),
        ("PEXPIREAT", &["kT"]),
        ("PEXPIRETIME", &["k"]),
        ("DEL", &["k"]),
        ("SADD", &["kV"]),
        ("STRLEN", &["k"]),
    ];
    let rows: Vec<Row> =
        shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(|shape| (*name, *shape, Order::Same))).collect();
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"b", b"c", b"d", b"nosuch"]),
        b'o' => pick(random, &[b"0", b"1", b"7", b"8", b"13", b"40", b"100", b"1000", b"-1", b"x", b"4294967296"]),
        b'b' => pick(random, &[b"0", b"1", b"1", b"0", b"1", b"2", b"-1", b"x"]),
        b'n' => pick(
            random,
            &[
                b"0",
                b"1",
                b"2",
                b"9",
                b"20",
                b"-1",
                b"-2",
                b"-9",
                b"100",
                b"x",
                b"9223372036854775807",
                b"-9223372036854775808",
            ],
        ),
        b'u' => pick(random, &[b"BIT", b"bit", b"BYTE", b"byte", b"bogus"]),
        b'P' => pick(random, &[b"AND", b"or", b"XOR", b"bogus"]),
        b'N' => b"NOT".to_vec(),
        b'g' => b"GET".to_vec(),
        b's' => b"SET".to_vec(),
        b'i' => b"INCRBY".to_vec(),
        b'O' => b"OVERFLOW".to_vec(),
        b'm' => pick(random, &[b"WRAP", b"sat", b"FAIL", b"FAIL", b"bogus"]),
        b't' => pick(
            random,
            &[
                b"u1", b"i1", b"u4", b"i5", b"u8", b"i8", b"u16", b"i33", b"u63", b"i64", b"i63", b"u64", b"i65",
                b"u0", b"x8", b"u",
            ],
        ),
        b'f' => pick(random, &[b"0", b"1", b"3", b"8", b"#0", b"#1", b"#2", b"60", b"200", b"-1", b"#-1", b"x", b"#"]),
        // Redis 7.0 saturates the smallest number of 64 bits to the largest of the field.
        b'v' => pick(
            random,
            &[b"0", b"1", b"-1", b"7", b"100", b"-100", b"255", b"9223372036854775807", b"-4611686018427387904", b"x"],
        ),
        b'T' => pick(random, &[b"99999999999999"]),
        _ => pick(random, &[b"", b"x", b"\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0f\0\xf0", b"hello"]),
    };
    agree("random_programs_of_bitmaps", 60, &rows, draw);
}
