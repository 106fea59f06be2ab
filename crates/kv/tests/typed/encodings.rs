//! Encodings of composed types: their order, their bytes, and bytes that are none.

use everbyte_kv::{DecodeError, Encoding, TableTypes, Typed, decode, encode};
use proptest::prelude::*;
use std::cmp::Reverse;

type Tail = (Option<Vec<u8>>, [i8; 2], Vec<Kind>, char, u128, i128);

#[derive(Typed, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Inner {
    name: String,
    flag: bool,
    rest: Vec<u8>,
}

#[derive(Typed, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Nothing,
    Text(String),
    Pair { left: i16, right: Option<String> },
    Many(Vec<String>, Reverse<String>),
}

#[derive(Typed, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    back: Reverse<(String, Option<u32>)>,
    inner: Inner,
    tail: Tail,
    last: Option<String>,
}

/// Few characters, so that strings share beginnings and hold zeros.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['\0', '\u{1}', 'a', 'b', '\u{ff}', '\u{10ffff}']), 0..3)
        .prop_map(|text| text.into_iter().collect())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 0xfe, 0xff]), 0..3)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Nothing),
        text().prop_map(Kind::Text),
        (-2..2_i16, prop::option::of(text())).prop_map(|(left, right)| Kind::Pair { left, right }),
        (prop::collection::vec(text(), 0..3), text()).prop_map(|(many, back)| Kind::Many(many, Reverse(back))),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    let inner = (text(), any::<bool>(), bytes()).prop_map(|(name, flag, rest)| Inner { name, flag, rest });
    let number = prop::sample::select(vec![i128::MIN, -1, 0, 1, i128::MAX]);
    let tail = (
        prop::option::of(bytes()),
        [-1..1_i8, -1..1_i8],
        prop::collection::vec(kind(), 0..2),
        prop::sample::select(vec!['a', '\u{10000}']),
        prop::sample::select(vec![0, 255, 256, u128::MAX]),
        number,
    );
    let back = (text(), prop::option::of(prop::sample::select(vec![0, 1, u32::MAX])));
    (kind(), back, inner, tail, prop::option::of(text())).prop_map(|(kind, back, inner, tail, last)| Key {
        kind,
        back: Reverse(back),
        inner,
        tail,
        last,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// TYPED-1.
    #[test]
    fn encodings_have_the_order_of_their_values(one in key(), other in key()) {
        prop_assert_eq!(encode(&one).cmp(&encode(&other)), one.cmp(&other));
        // Alone, each part is last and decides.
        prop_assert_eq!(encode(&one.kind).cmp(&encode(&other.kind)), one.kind.cmp(&other.kind));
        prop_assert_eq!(encode(&one.back).cmp(&encode(&other.back)), one.back.cmp(&other.back));
        prop_assert_eq!(encode(&one.inner).cmp(&encode(&other.inner)), one.inner.cmp(&other.inner));
        prop_assert_eq!(encode(&one.tail).cmp(&encode(&other.tail)), one.tail.cmp(&other.tail));
    }

    /// TYPED-3.
    #[test]
    fn an_encoding_that_is_not_last_begins_no_other(one in key(), other in key()) {
        let inner = |key: &Key| {
            let mut out = Vec::new();
            key.encode(&mut out, false);
            out
        };
        prop_assert!(one == other || !inner(&other).starts_with(&inner(&one)));
    }

    #[test]
    fn floats_are_in_total_order(one in any::<u64>(), other in any::<u64>()) {
        let (one, other) = (f64::from_bits(one), f64::from_bits(other));
        prop_assert_eq!(encode(&one).cmp(&encode(&other)), one.total_cmp(&other));
        prop_assert_eq!(decode::<f64>(&encode(&one)).unwrap().to_bits(), one.to_bits());
    }

    /// TYPED-2: what decodes encodes to the same bytes; the description reads the same.
    #[test]
    fn changed_bytes_are_an_error_or_another_value(key in key(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let good = encode(&key);
        prop_assert_eq!(decode::<Key>(&good).unwrap(), key);
        let mut flipped = good.clone();
        flipped[at.index(good.len())] ^= 1 << bit;
        let longer = [&good[..], &[0]].concat();
        for bytes in [&flipped[..], &good[..at.index(good.len())], &longer] {
            let read = decode::<Key>(bytes);
            prop_assert_eq!(Key::encoding().show(bytes).is_ok(), read.is_ok());
            if let Ok(value) = read {
                prop_assert_ne!(&encode(&value), &good);
                prop_assert_eq!(encode(&value), bytes);
            }
        }
    }
}

#[test]
fn special_floats() {
    let order = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
    assert!(order.windows(2).all(|pair| encode(&pair[0]) < encode(&pair[1])));
    let order = [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::INFINITY];
    assert!(order.windows(2).all(|pair| encode(&pair[0]) < encode(&pair[1])));
    assert!(order.iter().all(|one| decode::<f32>(&encode(one)).unwrap().to_bits() == one.to_bits()));
}

/// Bytes of docs/formats/typed.md: stores hold them.
#[test]
fn golden_encodings() {
    fn golden<T: Typed + PartialEq + std::fmt::Debug>(value: T, bytes: &[u8], shown: &str) {
        assert_eq!(encode(&value), bytes, "{value:?}");
        assert_eq!(decode::<T>(bytes).unwrap(), value);
        assert_eq!(T::encoding().show(bytes).unwrap(), shown);
    }
    golden(7_u8, &[7], "7");
    golden(0x1234_u16, &[0x12, 0x34], "4660");
    golden(1_u32, &[0, 0, 0, 1], "1");
    golden(1_u64, &[0, 0, 0, 0, 0, 0, 0, 1], "1");
    golden(-1_i8, &[0x7f], "-1");
    golden(-2_i16, &[0x7f, 0xfe], "-2");
    golden(5_i32, &[0x80, 0, 0, 5], "5");
    golden(i64::MIN, &[0; 8], "-9223372036854775808");
    golden(u128::MAX, &[0xff; 16], "340282366920938463463374607431768211455");
    golden(i128::MIN, &[0; 16], "-170141183460469231731687303715884105728");
    golden(1.0_f64, &[0xbf, 0xf0, 0, 0, 0, 0, 0, 0], "1.0");
    golden(-1.0_f32, &[0x40, 0x7f, 0xff, 0xff], "-1.0");
    golden(true, &[1], "true");
    golden('a', &[0, 0, 0, 0x61], "'a'");
    golden("a\0".to_string(), b"a\0", "\"a\\0\"");
    golden(("a\0".to_string(), 1_u8), b"a\0\xff\0\0\x01", "(\"a\\0\", 1)");
    golden(vec![0_u8, 0xff], &[0, 0xff], "b\"\\x00\\xff\"");
    golden(vec![1_u16, 2], &[1, 0, 1, 1, 0, 2, 0], "[1, 2]");
    golden([1_u16, 2], &[0, 1, 0, 2], "[1, 2]");
    golden(Some("x".to_string()), b"\x01x", "Some(\"x\")");
    golden(None::<u8>, &[0], "None");
    golden(Reverse("a".to_string()), &[0x9e, 0xff, 0xff], "Reverse(\"a\")");
    golden((), &[], "()");
    golden((7_u8,), &[7], "(7,)");
    golden(Kind::Nothing, &[0], "Nothing");
    golden(Kind::Pair { left: 1, right: None }, &[2, 0x80, 1, 0], "Pair { left: 1, right: None }");
    let inner = Inner { name: "n".into(), flag: true, rest: vec![0] };
    golden(inner, b"n\0\0\x01\0", "Inner { name: \"n\", flag: true, rest: b\"\\x00\" }");
}

#[test]
fn malformed_bytes_say_where_and_why() {
    fn why<T: Typed + std::fmt::Debug>(bytes: &[u8]) -> (usize, &'static str) {
        let DecodeError { at, detail } = decode::<T>(bytes).unwrap_err();
        (at, detail)
    }
    assert_eq!(why::<u32>(&[1, 2]), (0, "the bytes end too early"));
    assert_eq!(why::<u8>(&[1, 2]), (1, "bytes follow the end of the value"));
    assert_eq!(why::<bool>(&[2]), (0, "a `bool` that is neither 0 nor 1"));
    assert_eq!(why::<char>(&[0, 0, 0xd8, 0]), (0, "a number that is no `char`"));
    assert_eq!(why::<String>(&[0xff]), (0, "a string that is not UTF-8"));
    assert_eq!(why::<(String, u8)>(b"a\0\x01"), (2, "a zero byte that is neither escaped nor an end mark"));
    assert_eq!(why::<(String, u8)>(b"abc"), (3, "the bytes end too early"));
    assert_eq!(why::<Option<u8>>(&[3]), (0, "a mark of an option that is neither 0 nor 1"));
    assert_eq!(why::<Vec<u16>>(&[1, 0, 0, 2]), (3, "a mark of a list that is neither 0 nor 1"));
    assert_eq!(why::<Kind>(&[4]), (0, "a variant that the enum does not have"));
}

/// Descriptions on media: their bytes, and damage of them.
#[test]
fn descriptions_are_read_back_and_damage_is_an_error() {
    let types = TableTypes::of::<Key, (f32, f64, u16, i32, i64, Inner)>();
    let bytes = types.to_bytes().unwrap();
    assert_eq!(TableTypes::from_bytes(&bytes).unwrap(), types);
    for end in 0..bytes.len() {
        assert!(TableTypes::from_bytes(&bytes[..end]).is_err());
    }
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        if let Ok(read) = TableTypes::from_bytes(&flipped) {
            assert_ne!(read, types);
            assert_eq!(read.to_bytes().unwrap(), flipped);
        }
    }
    let golden = TableTypes::of::<(String, u64), Inner>().to_bytes().unwrap();
    assert_eq!(golden, b"\x01\x14\x02\x0e\x03\x15Inner\0\0\0\x03name\0\0\x0eflag\0\0\x0crest\0\0\x0f");
    let deep = [&[1][..], &[16; 64], &[0, 0]].concat();
    assert!(TableTypes::from_bytes(&deep).unwrap_err().detail.contains("too deep"));
    let wide = [&[1][..], &[19, 0xff, 0xff, 20, 0, 0]].concat();
    assert!(TableTypes::from_bytes(&wide).unwrap_err().detail.contains("without bytes"));
    assert!(TableTypes::from_bytes(&[2, 0, 0]).unwrap_err().detail.contains("version"));
    assert!(TableTypes::of::<[(); 3], u8>().to_bytes().is_err());
    assert_eq!(TableTypes::of::<[String; 2], Encoded>().to_string(), "[String; 2] -> Renamed");
    assert_eq!(Encoded::encoding(), Encoding::Struct("Renamed".into(), vec![("was".into(), Encoding::U8)]));
}

#[derive(Typed)]
#[typed(name = "Renamed")]
struct Encoded {
    #[typed(name = "was")]
    _is: u8,
}

/// Types with parameters.
#[test]
fn a_generic_type_is_typed() {
    #[derive(Typed, Debug, PartialEq)]
    struct Both<A, B>(A, B);
    assert_eq!(encode(&Both(1_u8, "x".to_string())), b"\x01x");
    assert_eq!(decode::<Both<u8, String>>(b"\x01x").unwrap(), Both(1, "x".into()));
}
