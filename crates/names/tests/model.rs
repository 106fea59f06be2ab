//! Random names against a plain set: shared prefixes of every length, insertions and removals.

mod common;

use common::Desk;
use everbyte_names::NAME_MAX;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Op {
    Insert(String),
    Remove(prop::sample::Index),
    List(String),
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
        8 => name().prop_map(Op::Insert),
        3 => any::<prop::sample::Index>().prop_map(Op::Remove),
        1 => name().prop_map(Op::List),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_trie_agrees_with_a_set(ops in prop::collection::vec(op(), 40..160)) {
        let (mut desk, mut names) = (Desk::new(), BTreeSet::new());
        for op in ops {
            match op {
                Op::Insert(name) => {
                    prop_assert_eq!(desk.find(&name).is_some(), names.contains(&name));
                    if names.insert(name.clone()) {
                        desk.insert(&name);
                    }
                }
                Op::Remove(index) if !names.is_empty() => {
                    let name = index.get(&names.iter().collect::<Vec<_>>()).to_string();
                    desk.remove(&name);
                    names.remove(&name);
                    prop_assert_eq!(desk.find(&name), None);
                }
                Op::Remove(_) => {}
                Op::List(prefix) => {
                    let expected = names.iter().filter(|name| name.starts_with(&prefix));
                    prop_assert!(desk.list(&prefix).iter().eq(expected), "{}", prefix);
                }
            }
        }
        prop_assert!(desk.list("").iter().eq(&names));
        prop_assert_eq!(desk.check(), []);
    }
}

/// Names that go one by one leave the name that all of them begin with, whose entry hangs behind
/// the byte zero of the last node.
#[test]
fn the_last_name_below_a_node_may_be_the_one_that_ends_there() {
    let mut desk = Desk::new();
    let longer: Vec<String> = ('a'..='z').map(|last| format!("name{last}")).collect();
    desk.insert("name");
    longer.iter().for_each(|name| desk.insert(name));
    for name in &longer {
        desk.remove(name);
        assert!(desk.find("name").is_some(), "after {name}");
        assert_eq!(desk.check(), []);
    }
}
