//! Cases of HEAPO's key-value stores.

use crate::{Case, TOTAL};
use everbyte_hkv::{Kind, Kv};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "hkv-hash",
        room: "hkv",
        about: "insertions, updates and deletions one by one: each is whole, and an acknowledged one is there",
        total: TOTAL,
        program: |explorer| changes(explorer, Kind::Hash),
    },
    Case {
        name: "hkv-tree",
        room: "hkv",
        about: "the same in a tree",
        total: 6000,
        program: |explorer| changes(explorer, Kind::Tree),
    },
    Case {
        name: "hkv-hash-splits",
        room: "hkv",
        about: "insertions that fill buckets and split them: no pair is lost, doubled or in the wrong place, nothing leaks",
        total: 4000,
        program: splits,
    },
    Case {
        name: "hkv-tree-splits",
        room: "hkv",
        about: "insertions that split leaves and nodes above them and raise the tree: no pair is lost or out of order, nothing leaks",
        total: 3000,
        program: rises,
    },
    Case {
        name: "hkv-tree-joins",
        room: "hkv",
        about: "deletions that join leaves and nodes above them and lower the tree: no other pair is lost, nothing leaks",
        total: 3000,
        program: falls,
    },
];

const MAX: u64 = 4 << 20;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn image(kind: Kind, pairs: &Pairs, prepare: impl FnOnce(&Kv)) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let kv = Kv::create(&store, "pairs", kind, Some(2 << 20)).expect("room for a store");
        prepare(&kv);
        for (key, value) in pairs {
            kv.insert(key, value).expect("room in the store");
        }
        drop(kv);
        store.close().expect("sim barriers do not fail");
    })
}

fn value(seed: u8) -> Vec<u8> {
    vec![seed ^ 0x5a; usize::from(seed % 4) * 11]
}

/// As many pairs, the first keys of `order`.
fn filled(fill: u8, order: fn(u8) -> u8) -> Pairs {
    (0..fill).map(|number| (vec![order(number)], value(order(number)))).collect()
}

fn open(media: &Media) -> Result<Kv, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("pairs").map_err(|error| error.to_string())?;
    Kv::open(object).map_err(|error| error.to_string())
}

/// Recovers, checks everything, and reads out the pairs.
fn observe(media: &Media, seen: &Seen) -> Result<Pairs, String> {
    let kv = open(media)?;
    seen.recovered();
    if let Some(finding) = kv.check().first() {
        return Err(finding.to_string());
    }
    let mut pairs = Pairs::new();
    kv.scan(|key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none()).map_err(|error| error.to_string())?;
    Ok(pairs)
}

/// Explores changes of a store of `pairs`.
fn explore(
    explorer: Explorer,
    image: &Image,
    pairs: &Pairs,
    program: impl Fn(&Kv, &Twin<'_, Pairs>) + Copy,
) -> Result<Report, Box<Failure>> {
    let run = |media: Media, twin: &Twin<'_, Pairs>| program(&open(&media).expect("a whole image"), twin);
    explorer.explore_twin(image, pairs, Order::InOrder, run, |media, seen| observe(&media, seen))
}

fn insert(kv: &Kv, twin: &Twin<'_, Pairs>, key: u8, fresh: u8) {
    let new = move |pairs: &mut Pairs| _ = pairs.entry(vec![key]).or_insert_with(|| value(fresh));
    twin.step(format!("insert {key}"), new, || kv.insert(&[key], &value(fresh)).unwrap());
}

fn delete(kv: &Kv, twin: &Twin<'_, Pairs>, key: u8) {
    let gone = move |pairs: &mut Pairs| drop(pairs.remove(&vec![key]));
    twin.step(format!("delete {key}"), gone, || assert!(kv.delete(&[key]).unwrap()));
}

fn levels(kv: &Kv) -> u32 {
    let Kv::Tree(tree) = kv else { panic!("a tree was made") };
    tree.levels().expect("a whole tree")
}

fn changes(explorer: Explorer, kind: Kind) -> Result<Report, Box<Failure>> {
    let pairs = filled(6, |number| number);
    explore(explorer, &image(kind, &pairs, |_| ()), &pairs, |kv, twin| {
        for (key, fresh) in [(2, 9), (7, 7), (4, 12)] {
            insert(kv, twin, key, fresh);
        }
        let update = |pairs: &mut Pairs| drop(pairs.insert(vec![3], value(99)));
        twin.step("update 3", update, || assert!(kv.update(&[3], &value(99)).unwrap()));
        for key in [7, 0] {
            delete(kv, twin, key);
        }
    })
}

fn splits(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let pairs = filled(70, |number| number);
    explore(explorer, &image(Kind::Hash, &pairs, |_| ()), &pairs, |kv, twin| {
        (70..84).for_each(|key| insert(kv, twin, key, key));
    })
}

/// Keys in an order that fills leaves here and there.
fn scattered(number: u8) -> u8 {
    (u32::from(number) * 101 % 251) as u8
}

fn rises(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 102;
    let pairs = filled(FILL, scattered);
    let prepare = |kv: &Kv| {
        for key in (0..FILL).map(scattered) {
            kv.insert(&[key], &value(key)).expect("room in the tree");
        }
    };
    explore(explorer, &image(Kind::Tree, &pairs, prepare), &pairs, |kv, twin| {
        assert_eq!(levels(kv), 2, "it is to rise");
        (FILL..FILL + 3).map(scattered).for_each(|key| insert(kv, twin, key, key));
        assert_eq!(levels(kv), 3, "it has risen");
    })
}

fn falls(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: u32 = 185;
    const GONE: u32 = 130;
    let all = filled(KEYS as u8, |number| number);
    let order = |number: u32| (number * 7 % KEYS) as u8;
    let pairs: Pairs = (GONE..KEYS).map(|number| (vec![order(number)], value(order(number)))).collect();
    let prepare = |kv: &Kv| {
        for (key, value) in &all {
            kv.insert(key, value).expect("room in the tree");
        }
        (0..GONE).for_each(|number| assert!(kv.delete(&[order(number)]).expect("a key that is there")));
    };
    explore(explorer, &image(Kind::Tree, &pairs, prepare), &pairs, |kv, twin| {
        assert_eq!(levels(kv), 3, "it is to fall");
        (GONE..GONE + 3).for_each(|number| delete(kv, twin, order(number)));
        assert_eq!(levels(kv), 2, "it has fallen");
    })
}
