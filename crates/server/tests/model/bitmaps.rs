//! Random programs about strings as bits.

use crate::common::{Ours, Redis, Reply, command};
use crate::compare;
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

/// Numbers at the lower end of 64 bits. SET saturates them downwards, where Redis 7.0 adds the
/// largest number of the field to 2^63 and, if that is too much for 64 bits, saturates upwards.
#[test]
fn the_smallest_numbers_are_answered_as_by_redis_or_saturate_downwards() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    const MIN: &str = "-9223372036854775808";
    for parts in [
        &format!("OVERFLOW SAT INCRBY i8 0 {MIN} INCRBY i8 0 {MIN} INCRBY i8 0 127 INCRBY i8 0 {MIN}"),
        &format!("OVERFLOW SAT INCRBY i63 0 {MIN} INCRBY u63 0 {MIN} INCRBY i64 64 {MIN} INCRBY i64 64 {MIN}"),
        &format!("OVERFLOW FAIL INCRBY i8 0 {MIN} SET i8 0 {MIN} SET i64 0 {MIN} INCRBY i64 0 {MIN} GET i64 0"),
        &format!("SET i8 0 {MIN} SET i64 0 {MIN} INCRBY i64 0 {MIN} INCRBY i33 0 {MIN} GET i64 0"),
        &format!("OVERFLOW SAT SET i64 0 {MIN} SET u8 64 {MIN} GET i64 0 GET u8 64"),
        "OVERFLOW SAT SET i8 0 -9223372036854775680 GET i8 0",
    ] {
        let words = ["BITFIELD k"].into_iter().flat_map(|head| head.split(' ')).chain(parts.split(' '));
        let bytes = [command(&["DEL", "k"]), command(&words.collect::<Vec<_>>())].concat();
        compare(&mut ours, &mut theirs, &bytes, parts);
    }
    for number in [MIN, "-9223372036854775681"] {
        let words = ["BITFIELD", "low", "OVERFLOW", "SAT", "SET", "i8", "0", number, "GET", "i8", "0"];
        let replies = [&mut ours, &mut theirs].map(|client| {
            client.call(&["DEL", "low"]);
            client.call(&words).list().pop()
        });
        assert_eq!(replies, [Some(Reply::Integer(-128)), Some(Reply::Integer(127))], "{number}");
    }
}
