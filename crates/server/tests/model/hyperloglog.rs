//! Random programs about estimated counts.

use crate::programs::{Order, Row, agree, pick};
use everbyte_workload::Random;

/// A key and 120 elements.
const MANY: &str = concat!(
    "k",
    "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
    "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
);

#[test]
fn random_programs_of_estimates_are_answered_byte_for_byte() {
    let shapes: &[(&str, &[&str])] = &[
        ("PFADD", &["k", "ke", "kee", "keeee", MANY, MANY]),
        ("PFCOUNT", &["k", "k", "kk", "kkk"]),
        ("PFMERGE", &["k", "kk", "kkk"]),
        ("GET", &["k", "k"]),
        ("STRLEN", &["k"]),
        ("COPY", &["kk", "kkr"]),
        ("RENAME", &["kk"]),
        ("DEL", &["k"]),
        ("RPUSH", &["oe"]),
        ("SET", &["oe"]),
    ];
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"a", b"b", b"b", b"c", b"other"]),
        b'o' => b"other".to_vec(),
        b'r' => b"REPLACE".to_vec(),
        _ => format!("element {}", random.index(6000)).into_bytes(),
    };
    agree("random_programs_of_estimates", 60, &rows(shapes), draw);
}

fn rows(shapes: &[(&'static str, &'static [&'static str])]) -> Vec<Row> {
    shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(|shape| (*name, *shape, Order::Same))).collect()
}

/// Strings that clients have made: the errors of Redis, and its estimates of odd registers.
#[test]
fn odd_estimates_are_answered_byte_for_byte() {
    let header = |form: u8, kept: u8| [b"HYLL", &[form, 0, 0, 0][..], &[5, 0, 0, 0, 0, 0, 0, kept]].concat();
    let with = |head: Vec<u8>, rest: &[u8]| [head, rest.to_vec()].concat();
    let dense = |byte: u8| with(header(0, 0x80), &vec![byte; 12_288]);
    let strings: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"HYLL".to_vec(),
        b"x".repeat(16),
        header(0, 0),
        header(1, 0),
        header(1, 0x80),
        header(2, 0),
        with(header(1, 0x80), &[0x7f, 0xff]),
        with(header(1, 0), &[0x7f, 0xff]),
        with(header(1, 0x80), &[0x7f, 0xff, 0x00]),
        with(header(1, 0x80), &[0x7f, 0xfe]),
        with(header(1, 0x80), &[0x84, 0x7f, 0xfe]),
        with(header(1, 0x80), &[0xff; 100]),
        with(header(1, 0x80), &[0xff; 4096]),
        with(header(1, 0x80), &[0x3f; 256]),
        dense(0),
        dense(0x55),
        with(header(0, 0x80), &[0; 12_287]),
        with(header(0, 0x80), &[0; 12_289]),
        b"y".repeat(100_000),
    ];
    let draw = &mut |letter, random: &mut Random| match letter {
        b'k' => pick(random, &[b"a", b"b"]),
        b'g' => b"good".to_vec(),
        b's' => strings[random.index(strings.len())].clone(),
        _ => format!("element {}", random.index(6000)).into_bytes(),
    };
    let shapes: &[(&str, &[&str])] = &[
        ("SET", &["ks"]),
        ("PFADD", &["ke", "k", "ge"]),
        ("PFCOUNT", &["k", "kk", "gk"]),
        ("PFMERGE", &["gk", "kg", "kk"]),
        ("GET", &["k", "g"]),
    ];
    agree("odd_estimates", 40, &rows(shapes), draw);
}
