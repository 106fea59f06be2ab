//! Slots that a ledger empties: their entries owned blocks, which the same ledger frees.

use crate::Case;
use crate::kv::{Pairs, image, observe, open, value};
use everbyte_kv::Kv;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-drops",
        crate_name: "kv",
        about: "long values die in one leaf and later commits of other threads, in another leaf, empty their slots",
        total: 6000,
        program: drops,
    },
    Case {
        name: "kv-drops-reused",
        crate_name: "kv",
        about: "one long value, replaced until its leaf fills the slots that ledgers have emptied: each entry is whole",
        total: 4000,
        program: reused,
    },
];

/// A step of a thread of its own.
fn elsewhere(step: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(step).join().expect("a writer"));
}

fn put(twin: &Twin<'_, Pairs>, kv: &Kv, key: &[u8], value: Vec<u8>) {
    let (in_model, stored) = (key.to_vec(), value.clone());
    let change = move |pairs: &mut Pairs| drop(pairs.insert(in_model.clone(), stored.clone()));
    twin.step("put", change, || kv.put(key, &value).expect("room"));
}

fn drops(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: u8 = 96; // several leaves
    let key = |number: u8| vec![number; 20];
    let pairs: Pairs =
        (0..KEYS).map(|number| (key(number), value(number, if number < 8 { 700 } else { 100 }))).collect();
    let image = image(0).then(|media| {
        let kv = open(&media).expect("a whole store");
        pairs.iter().for_each(|(key, value)| kv.put(key, value).expect("room"));
    });
    explorer.recovery(64, 2).explore_twin(
        &image,
        &pairs,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..2_u8 {
                let gone = key(round * 2);
                let is_there = twin.model().contains_key(&gone);
                let in_model = gone.clone();
                elsewhere(|| {
                    let change = move |pairs: &mut Pairs| drop(pairs.remove(&in_model));
                    twin.step("delete", change, || assert_eq!(kv.delete(&gone).expect("room"), is_there));
                });
                // The first one writes a ledger. The others write none, and that of the first is
                // theirs to order. Seeded bugs are those of this thread: it has each part in turn.
                for again in 0..3 {
                    let overwrite = || put(twin, &kv, &key(KEYS - 1), value(round * 3 + again, 100));
                    if (round + again) % 2 == 0 { elsewhere(overwrite) } else { overwrite() }
                }
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn reused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.recovery(16, 2).explore_twin(
        &image(2),
        &crate::kv::filled(2),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            // More than a leaf has slots for entries that come later.
            (0..22_u8).for_each(|round| put(twin, &kv, b"long", value(round, 600 + usize::from(round % 3) * 300)));
        },
        |media, seen| observe(&media, seen),
    )
}
