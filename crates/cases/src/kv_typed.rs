//! The case of typed tables: a table is there with its description, or is not there.

use crate::kv::open;
use crate::kv_tables::{All, image, observe, settle};
use crate::{Case, TOTAL};
use everbyte_kv::{TypedTable, encode};
use everbyte_sim::{Explorer, Failure, Order, Report};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[Case {
    name: "kv-typed",
    crate_name: "kv",
    about: "typed tables made, written to and dropped: each has its description whenever it is there",
    total: TOTAL,
    program: typed,
}];

type Key = (String, u64);

fn key(round: u8) -> Key {
    (format!("round\0{round}"), u64::from(round))
}

fn typed(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = All::from([(String::new(), BTreeMap::new())]);
    explorer.explore_twin(
        &image(&|_| {}),
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let make = |all: &mut All| {
                all.entry("alone".into()).or_default();
            };
            twin.step("create", make, || drop(kv.open_or_create_typed::<Key, bool>("alone").expect("room")));
            for round in 0..2_u8 {
                let there = twin.model().contains_key("rounds");
                let pairs = move || BTreeMap::from([(encode(&key(round)), encode(&true))]);
                let change = move |all: &mut All| {
                    all.insert("rounds".into(), pairs());
                    all.insert("alone".into(), pairs());
                };
                twin.step(format!("batch {round}"), change, || {
                    let alone = kv.open_typed::<Key, bool>("alone").expect("never dropped");
                    let mut batch = kv.batch();
                    if there {
                        batch.drop_table("rounds").expect("room");
                    }
                    batch.typed(&alone).expect("live").delete_range(..).expect("room");
                    let rounds: TypedTable<Key, bool> = batch.create_typed("rounds").expect("room");
                    for table in [&rounds, &alone] {
                        batch.typed(table).expect("live").put(&key(round), &true).expect("room");
                    }
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| {
            let all = observe(&media, seen)?;
            let kv = open(&media)?;
            for name in all.keys().filter(|name| !name.is_empty()) {
                kv.open_typed::<Key, bool>(name).map_err(|error| error.to_string())?;
            }
            Ok(all)
        },
    )
}
