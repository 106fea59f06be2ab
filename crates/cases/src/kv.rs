//! Cases of the key-value store and the versioned tree under it.

use crate::{Case, TOTAL};
use everbyte_heap::Heap;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-puts",
        crate_name: "kv",
        about: "puts, replacements and deletes one by one: each is whole, and an acknowledged one is there",
        total: TOTAL,
        program: puts,
    },
    Case {
        name: "kv-batches",
        crate_name: "kv",
        about: "batches over several keys, one aborted: all of a batch or nothing of it",
        total: TOTAL,
        program: batches,
    },
    Case {
        name: "kv-splits",
        crate_name: "kv",
        about: "batches that split leaves and empty them again: old versions give their space back, nothing leaks",
        total: 6000,
        program: splits,
    },
    Case {
        name: "kv-reopen",
        crate_name: "kv",
        about: "a batch too long for the ledger's place, the table opened again, another batch: both whole or absent",
        total: 400,
        program: reopen,
    },
    Case {
        name: "kv-late-settle",
        crate_name: "kv",
        about: "batches committed in pairs, each pair settled together: a crash keeps the first so many of them",
        total: TOTAL,
        program: late_settle,
    },
    Case {
        name: "kv-repair",
        crate_name: "kv",
        about: "blocks without an owner are freed, all of them or none, between puts",
        total: 8000,
        program: repair,
    },
];

const MAX: u64 = 4 << 20;

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn image(fill: u8) -> Image {
    image_up_to(fill, MAX)
}

pub(crate) fn image_up_to(fill: u8, max: u64) -> Image {
    Image::zeroed(CLUSTER).with_max(max).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let kv = Kv::create(&store, "pairs").expect("room for a tree");
        (0..fill).for_each(|key| kv.put(&[key], &value(key, 20)).expect("room in the tree"));
        drop(kv);
        store.close().expect("sim barriers do not fail");
    })
}

pub(crate) fn filled(fill: u8) -> Pairs {
    (0..fill).map(|key| (vec![key], value(key, 20))).collect()
}

pub(crate) fn value(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| seed.wrapping_mul(31).wrapping_add(index as u8)).collect()
}

pub(crate) fn open(media: &Media) -> Result<Kv, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    Kv::open(&store, "pairs").map_err(|error| error.to_string())
}

pub(crate) fn read(kv: &Kv) -> Result<Pairs, String> {
    kv.range::<[u8]>(..).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The contents after recovery; then it must be sound and of use.
pub(crate) fn observe(media: &Media, seen: &Seen) -> Result<Pairs, String> {
    let kv = open(media)?;
    seen.recovered();
    let pairs = read(&kv)?;
    let mut findings = kv.check();
    findings.extend(kv.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if !findings.is_empty() {
        return Err(format!("check: {findings:?}"));
    }
    kv.put(b"after", b"the crash").map_err(|error| error.to_string())?;
    let mut expected = pairs.clone();
    expected.insert(b"after".to_vec(), b"the crash".to_vec());
    let found = read(&kv)?;
    if found == expected { Ok(pairs) } else { Err(format!("{expected:?} expected after a put, found {found:?}")) }
}

/// Two blocks without an owner are freed; acknowledged writes stay.
fn repair(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const NOWHERE: u64 = 3072; // in the prime page, behind what the tree keeps there
    const LOST: usize = 2;
    let leaky = image(3).then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let heap = Heap::open(store.object("pairs").expect("a table")).expect("a whole heap");
        let target = heap.object().prime() + NOWHERE;
        for size in [100, 9000] {
            heap.alloc_into(size, target.get()).expect("room");
        }
        drop(heap);
        store.close().expect("sim barriers do not fail");
    });
    let put = |pairs: &mut (Pairs, usize)| drop(pairs.0.insert(vec![9], value(9, 3000)));
    explorer.explore_twin(
        &leaky,
        &(filled(3), LOST),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            twin.step("put", put, || kv.put(&[9], &value(9, 3000)).expect("room"));
            let (pairs, lost) = twin.model();
            let free = |pairs: &mut (Pairs, usize)| pairs.1 = 0;
            twin.step("free", free, || assert_eq!(kv.free_leaks().expect("no damage").len(), lost));
            let delete = |pairs: &mut (Pairs, usize)| drop(pairs.0.remove(&vec![1]));
            let is_there = pairs.contains_key(&vec![1]);
            twin.step("delete 1", delete, || assert_eq!(kv.delete(&[1]).expect("room"), is_there));
            assert_eq!(kv.free_leaks().expect("no damage"), []);
        },
        |media, seen| {
            let kv = open(&media)?;
            seen.recovered();
            let leaks = kv.free_leaks().map_err(|error| error.to_string())?.len();
            drop(kv);
            Ok((observe(&media, seen)?, leaks))
        },
    )
}

fn puts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(3),
        &filled(3),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            // Inline values, one out of line, a replacement of each kind, a delete.
            for (key, len) in [(9, 10), (1, 30), (7, 9000), (7, 5), (9, 6000)] {
                let put = move |pairs: &mut Pairs| drop(pairs.insert(vec![key], value(key, len)));
                twin.step(format!("put {key}"), put, || kv.put(&[key], &value(key, len)).expect("room"));
            }
            let delete = |pairs: &mut Pairs| drop(pairs.remove(&vec![2]));
            let is_there = twin.model().contains_key(&vec![2]);
            twin.step("delete 2", delete, || assert_eq!(kv.delete(&[2]).expect("room"), is_there));
        },
        |media, seen| observe(&media, seen),
    )
}

fn batches(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(6),
        &filled(6),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..4_u8 {
                let change = move |pairs: &mut Pairs| {
                    pairs.remove(&vec![round]);
                    pairs.insert(vec![round + 1], value(round, 40));
                    pairs.insert(vec![100 + round], value(round, 3000));
                };
                if round == 2 {
                    let mut batch = kv.batch();
                    batch.put(&[50], b"never").expect("room");
                    batch.abort(); // the version is void, and nothing of it is seen
                }
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = kv.batch();
                    batch.delete(&[round]).expect("room");
                    batch.put(&[round + 1], &value(round, 40)).expect("room");
                    batch.put(&[100 + round], &value(round, 3000)).expect("room");
                    let commit = batch.commit().expect("room");
                    kv.settle(commit).expect("sim barriers do not fail");
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn splits(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(4),
        &filled(4),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..5_u8 {
                let fills = round % 2 == 0;
                let change = move |pairs: &mut Pairs| {
                    for key in 10..40 {
                        if fills {
                            pairs.insert(vec![key, round], value(key, 50));
                        } else {
                            pairs.remove(&vec![key, round - 1]);
                        }
                    }
                };
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = kv.batch();
                    for key in 10..40 {
                        if fills {
                            batch.put(&[key, round], &value(key, 50)).expect("room");
                        } else {
                            batch.delete(&[key, round - 1]).expect("room");
                        }
                    }
                    let commit = batch.commit().expect("room");
                    kv.settle(commit).expect("sim barriers do not fail");
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn late_settle(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(2),
        &filled(2),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for turn in 0..2_u8 {
                let mut open_ops = Vec::new();
                let mut last = None;
                for part in 0..2_u8 {
                    let key = turn * 2 + part;
                    let put = move |pairs: &mut Pairs| drop(pairs.insert(vec![key % 4], value(key, 25)));
                    open_ops.push(twin.begin(format!("put {key}"), put));
                    last = Some(twin.on_its_thread(|| {
                        let mut batch = kv.batch();
                        batch.put(&[key % 4], &value(key, 25)).expect("room");
                        batch.commit().expect("room")
                    }));
                }
                kv.settle(last.expect("two batches")).expect("sim barriers do not fail");
                open_ops.into_iter().for_each(|op| twin.acked(op));
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn reopen(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let many = |first: u16| (first..first + 280).map(|key| key.to_be_bytes().to_vec());
    // Each recovery reads some hundred values.
    let explorer = explorer.recovery(64, 4);
    let put = move |kv: &Kv, first: u16| {
        let mut batch = kv.batch();
        for key in many(first) {
            batch.put(&key, &value(key[1], 700)).expect("room");
        }
        let commit = batch.commit().expect("room");
        kv.settle(commit).expect("sim barriers do not fail");
    };
    explorer.explore_twin(
        &image_up_to(2, 2 * MAX), // room for a second run
        &filled(2),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for round in 0..2_u16 {
                let first = 1000 + round % 2 * 100;
                let change =
                    move |pairs: &mut Pairs| pairs.extend(many(first).map(|key| (key.clone(), value(key[1], 700))));
                let kv = Kv::open(&store, "pairs").expect("a whole table");
                twin.step(format!("batch {round}"), change, || put(&kv, first));
            }
        },
        |media, seen| observe(&media, seen),
    )
}
