//! Cases of named tables, of batches over several of them, of savepoints and of deleted ranges.

use crate::kv::{open, value};
use crate::{Case, TOTAL};
use everbyte_kv::raw::Raw as _;
use everbyte_kv::{Batch, Kv};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-tables",
        crate_name: "kv",
        about: "tables made, written to together and dropped: each batch is whole over all of them",
        total: TOTAL,
        program: tables,
    },
    Case {
        name: "kv-savepoints",
        crate_name: "kv",
        about: "batches that go back to savepoints: what was written behind one is never there",
        total: 5000,
        program: savepoints,
    },
    Case {
        name: "kv-merges",
        crate_name: "kv",
        about: "a tree of three levels is thinned out by batches and single deletes: nodes merge, a level goes",
        total: 1500,
        program: merges,
    },
    Case {
        name: "kv-ranges",
        crate_name: "kv",
        about: "deleted ranges of many leaves: whole subtrees end and come back as their batch does",
        total: 6000,
        program: ranges,
    },
];

/// Tables by name, the main one without: each its pairs.
pub(crate) type All = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(crate) fn image(fill: &dyn Fn(&Kv)) -> Image {
    image_up_to(4 << 20, fill)
}

pub(crate) fn image_up_to(max: u64, fill: &dyn Fn(&Kv)) -> Image {
    Image::zeroed(CLUSTER).with_max(max).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let kv = Kv::create(&store, "pairs").expect("room for a tree");
        fill(&kv);
        drop(kv);
        store.close().expect("sim barriers do not fail");
    })
}

pub(crate) fn read(kv: &Kv) -> Result<All, String> {
    let snapshot = kv.snapshot();
    let main = snapshot.range::<[u8]>(..).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let mut all = All::from([(String::new(), main)]);
    for name in kv.tables().map_err(|error| error.to_string())? {
        let table = kv.open_table(&name).and_then(|table| snapshot.table(&table)).map_err(|error| error.to_string())?;
        let pairs: BTreeMap<_, _> =
            table.range::<[u8]>(..).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        if table.len().map_err(|error| error.to_string())? != pairs.len() as u64 {
            return Err(format!("the length of {name} is not that of its pairs"));
        }
        all.insert(name, pairs);
    }
    Ok(all)
}

/// The contents after recovery; then the store must be sound and of use.
pub(crate) fn observe(media: &Media, seen: &Seen) -> Result<All, String> {
    let text = |error: everbyte_kv::Error| error.to_string();
    let kv = open(media)?;
    seen.recovered();
    let all = read(&kv)?;
    let sound = |kv: &Kv| {
        let mut findings = kv.check();
        findings.extend(kv.store().check());
        findings.retain(|finding| finding.kind != FindingKind::Note);
        if findings.is_empty() { Ok(()) } else { Err(format!("check: {findings:?}")) }
    };
    sound(&kv)?;
    // Every table is written to, and the dead are buried.
    let mut expected = all.clone();
    let mut batch = kv.batch();
    for (name, pairs) in &mut expected {
        pairs.insert(b"after".to_vec(), b"the crash".to_vec());
        if name.is_empty() {
            batch.put(b"after", b"the crash").map_err(text)?;
        } else {
            let table = batch.open_table(name).map_err(text)?;
            batch.table(&table).map_err(text)?.put(b"after", b"the crash").map_err(text)?;
        }
    }
    kv.settle(batch.commit().map_err(text)?).map_err(text)?;
    let found = read(&kv)?;
    if found != expected {
        return Err(format!("{expected:?} expected after puts, found {found:?}"));
    }
    sound(&kv)?;
    Ok(all)
}

pub(crate) fn settle(kv: &Kv, batch: Batch<'_>) {
    let commit = batch.commit().expect("room");
    kv.settle(commit).expect("sim barriers do not fail");
}

fn tables(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = All::from([
        (String::new(), BTreeMap::from([(vec![1], value(1, 20))])),
        ("first".into(), BTreeMap::from([(vec![1], value(2, 20))])),
    ]);
    let image = image(&|kv| {
        kv.put(&[1], &value(1, 20)).expect("room");
        kv.create_table("first").expect("room").put(&[1], &value(2, 20)).expect("room");
    });
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..3_u8 {
                let there = twin.model().contains_key("second");
                let change = move |all: &mut All| {
                    if there {
                        all.remove("second");
                    } else {
                        all.insert("second".into(), BTreeMap::from([(vec![round], value(round, 3000))]));
                    }
                    all.get_mut("first").expect("never dropped").insert(vec![1], value(round + 10, 30));
                    all.get_mut("").expect("always there").insert(vec![round], value(round, 30));
                };
                twin.step(format!("batch {round}"), change, || {
                    let first = kv.open_table("first").expect("never dropped");
                    let mut batch = kv.batch();
                    if there {
                        batch.drop_table("second").expect("room");
                    } else {
                        let second = batch.create_table("second").expect("room");
                        batch.table(&second).expect("of this batch").put(&[round], &value(round, 3000)).expect("room");
                    }
                    batch.table(&first).expect("live").put(&[1], &value(round + 10, 30)).expect("room");
                    batch.put(&[round], &value(round, 30)).expect("room");
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn savepoints(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // The last one, which is deleted and lives again, owns a block.
    let fill = || (0..6_u8).map(|key| (vec![key], value(key, if key == 5 { 700 } else { 20 })));
    let start = All::from([(String::new(), fill().collect())]);
    let image = image(&|kv| fill().for_each(|(key, value)| kv.put(&key, &value).expect("room")));
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..4_u8 {
                let gives_up = round == 1;
                let change = move |all: &mut All| {
                    if !gives_up {
                        let pairs = all.get_mut("").expect("always there");
                        pairs.insert(vec![round], value(round + 50, 40));
                        pairs.remove(&vec![round + 1]);
                        pairs.insert(vec![100 + round], value(round, 700));
                    }
                };
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = kv.batch();
                    batch.put(&[round], &value(round + 50, 40)).expect("room");
                    let first = batch.savepoint().expect("few savepoints");
                    // Replaces what this batch wrote, ends what it did not, splits the leaf.
                    batch.put(&[round], b"never").expect("room");
                    batch.delete(&[5]).expect("room");
                    for key in 0..24 {
                        batch.put(&[50, key], &value(key, 600)).expect("room");
                    }
                    batch.roll_back(first).expect("of this batch");
                    batch.delete(&[round + 1]).expect("room");
                    let second = batch.savepoint().expect("few savepoints");
                    batch.put(&[100 + round], b"never").expect("room");
                    let third = batch.savepoint().expect("few savepoints");
                    batch.delete(&[round]).expect("room");
                    batch.roll_back(second).expect("of this batch");
                    assert!(batch.roll_back(third).is_err(), "it is behind the second");
                    batch.put(&[100 + round], &value(round, 700)).expect("room");
                    if gives_up { batch.abort() } else { settle(&kv, batch) }
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn ranges(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // Some leaves of ten entries each, and long values that deleted subtrees own.
    let fill = || (0..100_u8).map(|key| (vec![key], value(key, if key % 8 == 0 { 900 } else { 500 })));
    let start = All::from([(String::new(), fill().collect())]);
    let image = image(&|kv| fill().for_each(|(key, value)| kv.put(&key, &value).expect("room")));
    let explorer = explorer.recovery(64, 4);
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for (round, (low, high)) in [(5_u8, 47_u8), (0, 12), (30, 100)].into_iter().enumerate() {
                let change = move |all: &mut All| {
                    let pairs = all.get_mut("").expect("always there");
                    pairs.retain(|key, _| !(low..high).contains(&key[0]) || key == b"after");
                    pairs.insert(vec![20 + round as u8], value(high, 40));
                    if round == 1 {
                        pairs.extend((0..20).map(|key| (vec![70, key], value(key, 20))));
                    }
                };
                if round == 1 {
                    // Leaves its marks on subtrees that stay.
                    let mut batch = kv.batch();
                    batch.delete_range([47]..).expect("room");
                    batch.abort();
                }
                twin.step(format!("range {round}"), change, || {
                    let mut batch = kv.batch();
                    let after = batch.get(b"after").expect("no damage");
                    batch.delete_range([low]..[high]).expect("room");
                    if let Some(after) = after {
                        batch.put(b"after", &after).expect("room");
                    }
                    batch.put(&[20 + round as u8], &value(high, 40)).expect("room");
                    // The leaf is replaced, in which the range that was given up has left marks.
                    for key in (0..20).filter(|_| round == 1) {
                        batch.put(&[70, key], &value(key, 20)).expect("room");
                    }
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn merges(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: u16 = 2400;
    // Leaves in the middle of an inner node were here, which is split when keys come back; and the
    // first ones of an inner node, whose next one covers what came back.
    const GAPS: [(std::ops::Range<u16>, usize); 2] = [(500..900, 2), (1120..1320, 8)];
    let key = |number: u16| number.to_be_bytes().to_vec();
    let fill = || (0..KEYS).map(|number| (key(number), value(number as u8, if number % 64 == 0 { 900 } else { 480 })));
    let anew = || {
        let numbers = GAPS.into_iter().flat_map(|(gap, step)| gap.step_by(step));
        numbers.map(|number| (key(number), value(3, 480)))
    };
    let old = fill().filter(|(pair, _)| GAPS.iter().all(|(gap, _)| !(key(gap.start)..key(gap.end)).contains(pair)));
    let start = All::from([(String::new(), old.chain(anew()).collect())]);
    let image = image_up_to(16 << 20, &|kv| {
        let mut batch = kv.batch();
        fill().for_each(|(key, value)| drop(batch.put(&key, &value).map(drop)));
        for (gap, _) in &GAPS {
            batch.delete_range(key(gap.start)..key(gap.end)).expect("room");
        }
        anew().for_each(|(key, value)| drop(batch.put(&key, &value).map(drop)));
        settle(kv, batch);
    });
    // Each recovery reads some hundred values.
    let explorer = explorer.recovery(32, 2);
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let kept = |round: u16, number: u16| number.is_multiple_of([12, 48, 96][usize::from(round)]);
            for round in 0..2 {
                let gone = move |number: &u16| !kept(round, *number);
                let change = move |all: &mut All| {
                    let pairs = all.get_mut("").expect("always there");
                    (0..KEYS).filter(gone).for_each(|number| drop(pairs.remove(&key(number))));
                };
                twin.step(format!("thin out {round}"), change, || {
                    let mut batch = kv.batch();
                    for number in (0..KEYS).filter(gone) {
                        batch.delete(&key(number)).expect("room");
                    }
                    settle(&kv, batch);
                });
            }
            for number in (0..KEYS).step_by(48).filter(|&number| !kept(2, number)).take(4) {
                let delete = move |all: &mut All| drop(all.get_mut("").expect("always there").remove(&key(number)));
                twin.step(format!("delete {number}"), delete, || {
                    kv.delete(&key(number)).expect("room");
                });
            }
            twin.step(
                "reclaim",
                |_| {},
                || {
                    for _ in 0..3 {
                        kv.reclaim().expect("room");
                    }
                },
            );
        },
        |media, seen| observe(&media, seen),
    )
}
