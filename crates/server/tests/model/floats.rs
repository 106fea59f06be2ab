//! Random programs about numbers that need not be whole: INCRBYFLOAT and HINCRBYFLOAT.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

/// A number as a text, in one of the ways to write it; now and then none.
fn number(random: &mut Random) -> Vec<u8> {
    let sign = ["", "-", "+", ""][random.index(4)];
    let (bits, small) = (random.next(), random.index(100_000));
    let text = match random.index(12) {
        0 => bits.to_string(),
        1 => (bits >> 40).to_string(),
        2 => format!("{small}.{}", bits >> random.index(60)),
        3 => format!("{small}.{}e{}", bits >> 20, random.index(60) as i64 - 30),
        4 => format!("{small}e{}", random.index(9900) as i64 - 4950),
        5 => format!("0x{bits:x}.{:x}p{}", random.next(), random.index(200) as i64 - 100),
        6 => format!("0x{bits:x}p{}", random.index(33_000) as i64 - 16_500),
        7 => format!("{}.{small}", 1_u64 << random.index(64)),
        8 => format!(".{bits:0>25}"),
        9 => format!("{bits}{}", random.next()),
        10 => format!("0.{}", small % 10),
        _ => {
            return pick(
                random,
                &[b"inf", b"-Infinity", b"nan", b"", b" 1", b"1 ", b"x", b"1e", b"0x", b"-0", b"1e5000"],
            );
        }
    };
    format!("{sign}{text}").into_bytes()
}

#[test]
fn random_programs_of_floats_are_answered_byte_for_byte() {
    let rows: Vec<Row> = [
        ("INCRBYFLOAT", "kn"),
        ("INCRBYFLOAT", "kn"),
        ("INCRBYFLOAT", "kn"),
        ("HINCRBYFLOAT", "hfn"),
        ("HINCRBYFLOAT", "hfn"),
        ("HINCRBYFLOAT", "hfn"),
        ("SET", "kn"),
        ("HSET", "hfn"),
        ("GET", "k"),
        ("HGET", "hf"),
        ("INCR", "k"),
        ("HINCRBY", "hf1"),
        ("DEL", "k"),
        ("HDEL", "hf"),
        ("PEXPIREAT", "kT"),
        ("PEXPIRETIME", "k"),
    ]
    .map(|(name, shape)| (name, shape, Order::Same))
    .to_vec();
    agree("random_programs_of_floats", 150, &rows, &mut |letter, random| match letter {
        b'k' => pick(random, &[b"a", b"a", b"b", b"c", b"h"]),
        b'h' => pick(random, &[b"h", b"h", b"h", b"g", b"a"]),
        b'f' => pick(random, &[b"f", b"g", b"x"]),
        b'T' => pick(random, &[b"99999999999999", b"1"]),
        b'1' => b"1".to_vec(),
        _ => number(random),
    });
}
