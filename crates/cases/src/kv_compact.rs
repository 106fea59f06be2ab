//! The case of a compaction: it changes no entry, and a crash leaves the steps done until then.

use crate::kv::{open, value};
use crate::kv_tables::{All, image, observe, settle};
use crate::{Case, TOTAL};
use everbyte_sim::{Explorer, Failure, Order, Report};

pub(crate) const CASES: &[Case] = &[Case {
    name: "kv-compact",
    crate_name: "kv",
    about: "leaves half full are written anew as full ones between writes: no entry changes, nothing leaks",
    total: TOTAL,
    program: compact,
}];

fn compact(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: u8 = 60;
    // In no order, so that leaves split in their middle; some values own a block.
    let fill = || (0..KEYS).map(|at| at.wrapping_mul(37) % KEYS).map(|key| (vec![key], pair(key)));
    let start = All::from([(String::new(), fill().collect())]);
    let image = image(&|kv| fill().for_each(|(key, value)| kv.put(&key, &value).expect("room")));
    let explorer = explorer.recovery(64, 4);
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            for round in 0..2_u8 {
                let kv = open(&media).expect("a whole store");
                twin.step(
                    format!("compact {round}"),
                    |_| {},
                    || {
                        kv.compact(&mut |_| {}).expect("room");
                    },
                );
                // The first write to a full leaf, and half of the leaves thinned out.
                let gone = move |key: &u8| !key.is_multiple_of(2) && key / 30 == round;
                let change = move |all: &mut All| {
                    let pairs = all.get_mut("").expect("always there");
                    (0..KEYS).filter(gone).for_each(|key| drop(pairs.remove(&vec![key])));
                    pairs.insert(vec![round], value(round + 70, 30));
                };
                twin.step(format!("thin out {round}"), change, || {
                    let mut batch = kv.batch();
                    for key in (0..KEYS).filter(gone) {
                        batch.delete(&[key]).expect("room");
                    }
                    batch.put(&[round], &value(round + 70, 30)).expect("room");
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn pair(key: u8) -> Vec<u8> {
    value(key, if key.is_multiple_of(16) { 900 } else { 480 })
}
