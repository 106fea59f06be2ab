//! The case of a compaction: it changes no entry, and a crash leaves the steps done until then. A
//! second run, on what a crash left, compacts again and turns the writes round.

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
                // The first write to a full leaf; and half of the leaves thinned out, or filled
                // again where a second run finds them thin.
                let odd = move || (0..KEYS).filter(move |key| key % 2 == 1 && key / 30 == round);
                let thins = odd().next_back().is_some_and(|key| twin.model()[""].contains_key([key].as_slice()));
                let change = move |all: &mut All| {
                    let pairs = all.get_mut("").expect("always there");
                    for key in odd() {
                        drop(if thins { pairs.remove([key].as_slice()) } else { pairs.insert(vec![key], pair(key)) });
                    }
                    pairs.insert(vec![round], value(round + 70, 30));
                };
                let what = if thins { "thin out" } else { "fill" };
                twin.step(format!("{what} {round}"), change, || {
                    let mut batch = kv.batch();
                    for key in odd() {
                        let written = if thins { batch.delete(&[key]) } else { batch.put(&[key], &pair(key)) };
                        written.expect("room");
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
