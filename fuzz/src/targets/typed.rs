//! A description of a typed table, and a key of the type that it describes.
//!
//! The first byte of an input is the length of the description; the key follows it. Beyond FUZZ-1:
//! a description that is read is written as the same bytes (TYPED-2).

use crate::class;
use everbyte_kv::{TableTypes, Typed, encode};

#[derive(Typed)]
enum Kind {
    Nothing,
    Text(String),
    Pair { left: i16, right: Option<Vec<u8>> },
}

type Key = (Vec<Kind>, std::cmp::Reverse<String>, [char; 2], f64);

/// Descriptions with a key behind each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let key: Key = (
        vec![Kind::Nothing, Kind::Text("a\0".into()), Kind::Pair { left: -1, right: Some(vec![0]) }],
        std::cmp::Reverse("b".into()),
        ['c', 'd'],
        1.5,
    );
    let seed = |types: TableTypes, key: &[u8]| {
        let description = types.to_bytes().expect("a small description");
        [&[description.len() as u8], &description[..], key].concat()
    };
    vec![
        seed(TableTypes::of::<Key, ()>(), &encode(&key)),
        seed(TableTypes::of::<(bool, u128, Option<i128>), u8>(), &encode(&(true, 7_u128, Some(-1_i128)))),
        seed(TableTypes::of::<String, Vec<u8>>(), b"text"),
    ]
}

pub(crate) fn run(input: &[u8]) -> String {
    let Some((&len, rest)) = input.split_first() else { return "empty".into() };
    let (description, key) = rest.split_at(rest.len().min(usize::from(len)));
    match TableTypes::from_bytes(description) {
        Err(error) => class(&error.to_string()),
        Ok(types) => {
            assert_eq!(types.to_bytes().as_deref(), Ok(description), "FUZZ: one description, one form");
            match types.key.show(key) {
                Ok(_) => "shown".into(),
                Err(error) => class(&error.to_string()),
            }
        }
    }
}
