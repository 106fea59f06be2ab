//! Cases of optimistic transactions: each commits over all its tables or not at all, and a refused
//! one is never there.

use crate::kv::{open, value};
use crate::kv_tables::{All, image, observe};
use crate::{Case, TOTAL};
use everbyte_sim::{Explorer, Failure, Order, Report};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[Case {
    name: "kv-optimistic",
    crate_name: "kv",
    about: "transactions over two tables that meet: one of each two is whole over both, the other never there",
    total: TOTAL,
    program: optimistic,
}];

fn optimistic(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let fill = || (0..8_u8).map(|key| (vec![key], value(key, if key == 5 { 700 } else { 20 })));
    let start =
        All::from([(String::new(), fill().collect()), ("first".into(), BTreeMap::from([(vec![1], value(2, 20))]))]);
    let image = image(&|kv| {
        fill().for_each(|(key, value)| kv.put(&key, &value).expect("room"));
        kv.create_table("first").expect("room").put(&[1], &value(2, 20)).expect("room");
    });
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..3_u8 {
                let change = move |all: &mut All| {
                    let pairs = all.get_mut("").expect("always there");
                    pairs.remove(&vec![round]);
                    pairs.insert(vec![30 + round], value(round, 700));
                    all.get_mut("first").expect("never dropped").insert(vec![1], value(round + 10, 30));
                };
                twin.step(format!("round {round}"), change, || {
                    let first = kv.open_table("first").expect("never dropped");
                    let (mut one, mut other) = (kv.transaction(), kv.transaction());
                    other.range([30]..[60]).for_each(|pair| drop(pair.expect("no damage")));
                    other.table(&first).expect("live").put(&[2], b"never").expect("short");
                    other.put(&[0xee], b"never").expect("short");
                    one.table(&first).expect("live").put(&[1], &value(round + 10, 30)).expect("short");
                    assert!(one.contains(&[5]).expect("no damage"));
                    let here = one.savepoint();
                    one.delete_range([3]..[6]).expect("no damage");
                    one.put(&[30 + round], b"never").expect("short");
                    one.roll_back(here).expect("of this transaction");
                    one.delete(&[round]).expect("short");
                    one.put(&[30 + round], &value(round, 700)).expect("short");
                    kv.settle(one.commit().expect("the first to commit")).expect("sim barriers do not fail");
                    // It has read a range in which there is a new key: it is refused.
                    if let Ok(commit) = other.commit() {
                        kv.settle(commit).expect("sim barriers do not fail");
                    }
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}
