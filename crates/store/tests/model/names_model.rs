//! Random names against a plain set: prefixes of every length in common, removals, renames,
//! restarts.

use everbyte_media::{Media, Options};
use everbyte_store::{CLUSTER, Error, FormatOptions, NAME_MAX, ObjectOptions, Store};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Remove(prop::sample::Index),
    Rename(prop::sample::Index, String),
    List(String),
    Restart { close: bool },
}

/// Names that share from nothing to all but their last byte, and are prefixes of each other.
fn name() -> impl Strategy<Value = String> {
    let shared = prop_oneof![Just(0), Just(1), Just(16), Just(NAME_MAX - 1), Just(NAME_MAX), 0..=NAME_MAX];
    (shared, "[a-q]{0,3}", any::<bool>()).prop_map(|(shared, rest, other)| {
        let first = if other { "b" } else { "a" };
        let mut name = format!("{first}{}{rest}", "x".repeat(shared));
        name.truncate(NAME_MAX);
        name
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => name().prop_map(Op::Create),
        2 => any::<prop::sample::Index>().prop_map(Op::Remove),
        2 => (any::<prop::sample::Index>(), name()).prop_map(|(index, name)| Op::Rename(index, name)),
        1 => name().prop_map(Op::List),
        1 => any::<bool>().prop_map(|close| Op::Restart { close }),
    ]
}

fn one_of(names: &BTreeSet<String>, index: prop::sample::Index) -> Option<String> {
    (!names.is_empty()).then(|| index.get(&names.iter().collect::<Vec<_>>()).to_string())
}

/// Programs of one run; `cargo xtask soak` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn names_agree_with_a_set(ops in prop::collection::vec(op(), 40..160)) {
        let media = Media::anonymous(256 << 20, &Options::default()).unwrap();
        let mut store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        store.index_names().unwrap();
        let mut names = BTreeSet::new();
        let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
        for op in ops {
            match op {
                Op::Create(name) => match store.create_small_object(&name, options, |_| Ok::<(), Error>(())) {
                    Ok(_) => prop_assert!(names.insert(name)),
                    Err(Error::Exists { .. }) => prop_assert!(names.contains(&name)),
                    Err(error) => panic!("{name}: {error}"),
                },
                Op::Remove(index) => {
                    if let Some(name) = one_of(&names, index) {
                        store.remove_object(&name).unwrap();
                        names.remove(&name);
                    }
                }
                Op::Rename(index, to) => {
                    if let Some(from) = one_of(&names, index) {
                        match store.rename_object(&from, &to) {
                            Ok(()) => prop_assert!(names.remove(&from) && names.insert(to)),
                            Err(Error::Exists { .. }) => prop_assert!(names.contains(&to)),
                            Err(error) => panic!("{from} to {to}: {error}"),
                        }
                    }
                }
                Op::List(prefix) => {
                    let expected = names.iter().filter(|name| name.starts_with(&prefix));
                    prop_assert!(store.names(&prefix).unwrap().iter().eq(expected), "{}", prefix);
                }
                Op::Restart { close } => {
                    if close {
                        store.close().unwrap();
                    }
                    drop(store);
                    store = Store::attach(media.clone()).unwrap();
                }
            }
        }
        prop_assert!(store.names("").unwrap().iter().eq(&names));
        prop_assert!(names.iter().all(|name| matches!(store.find_on_media(name), Ok(Some(_)))));
        prop_assert_eq!(store.check(), []);
    }
}
