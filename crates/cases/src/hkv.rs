//! Cases of HEAPO's key-value stores.

use crate::{Case, TOTAL};
use everbyte_hkv::{Kv, KvKind};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "hkv-hash",
        crate_name: "hkv",
        about: "insertions, updates and deletions one by one: each is whole, and an acknowledged one is there",
        total: TOTAL,
        program: |explorer| changes(explorer, KvKind::Hash),
    },
    Case {
        name: "hkv-tree",
        crate_name: "hkv",
        about: "the same in a tree",
        total: 6000,
        program: |explorer| changes(explorer, KvKind::Tree),
    },
    Case {
        name: "hkv-hash-splits",
        crate_name: "hkv",
        about: "insertions that fill buckets and split them: no pair is lost, doubled or in the wrong place, nothing leaks",
        total: 3000,
        program: groups,
    },
    Case {
        name: "hkv-hash-chains",
        crate_name: "hkv",
        about: "insertions that add a second bucket to a full one, and splits that gather both in one again",
        total: 2000,
        program: chains,
    },
    Case {
        name: "hkv-hash-gathers",
        crate_name: "hkv",
        about: "deletions and insertions in the first bucket of two, and a split that gathers both in one at once",
        total: 2000,
        program: gathers,
    },
    Case {
        name: "hkv-hash-segments",
        crate_name: "hkv",
        about: "insertions that take a segment more, for which buckets are split in transactions",
        total: 2000,
        program: segments,
    },
    Case {
        name: "hkv-tree-splits",
        crate_name: "hkv",
        about: "insertions that split leaves and nodes above them and raise the tree: no pair is lost or out of order, nothing leaks",
        total: 3000,
        program: rises,
    },
    Case {
        name: "hkv-tree-rebuilds",
        crate_name: "hkv",
        about: "insertions that split leaves of keys that begin alike: two new nodes take the place of one",
        total: 1500,
        program: rebuilds,
    },
    Case {
        name: "hkv-tree-joins",
        crate_name: "hkv",
        about: "deletions that join leaves and nodes above them and lower the tree: no other pair is lost, nothing leaks",
        total: 3000,
        program: falls,
    },
    Case {
        name: "hkv-tree-joins-anew",
        crate_name: "hkv",
        about: "a deletion that joins leaves of keys that begin alike and of others: a new node takes the place of two",
        total: 500,
        program: joins_anew,
    },
];

const MAX: u64 = 4 << 20;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn image(kind: KvKind, pairs: &Pairs, prepare: impl FnOnce(&Kv)) -> Image {
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
    insert_at(kv, twin, vec![key], fresh);
}

fn insert_at(kv: &Kv, twin: &Twin<'_, Pairs>, key: Vec<u8>, fresh: u8) {
    let (name, at) = (format!("insert {key:?}"), key.clone());
    let new = move |pairs: &mut Pairs| _ = pairs.entry(at.clone()).or_insert_with(|| value(fresh));
    twin.step(name, new, || kv.insert(&key, &value(fresh)).unwrap());
}

fn delete(kv: &Kv, twin: &Twin<'_, Pairs>, key: u8) {
    let gone = move |pairs: &mut Pairs| drop(pairs.remove(&vec![key]));
    let is_there = twin.model().contains_key(&vec![key]);
    twin.step(format!("delete {key}"), gone, || assert_eq!(kv.delete(&[key]).unwrap(), is_there));
}

fn levels(kv: &Kv) -> u32 {
    let Kv::Tree(tree) = kv else { panic!("a tree was made") };
    tree.levels().expect("a whole tree")
}

fn changes(explorer: Explorer, kind: KvKind) -> Result<Report, Box<Failure>> {
    let pairs = filled(6, |number| number);
    explore(explorer, &image(kind, &pairs, |_| ()), &pairs, |kv, twin| {
        for (key, fresh) in [(2, 9), (7, 7), (4, 12)] {
            insert(kv, twin, key, fresh);
        }
        let update = |pairs: &mut Pairs| drop(pairs.insert(vec![3], value(99)));
        // no step deletes it
        twin.step("update 3", update, || assert!(kv.update(&[3], &value(99)).unwrap()));
        for key in [7, 0] {
            delete(kv, twin, key);
        }
    })
}

/// Fourteen insertions into a store that has a number of pairs already.
fn splits(explorer: Explorer, image: &Image, fill: u8, order: fn(u8) -> u8) -> Result<Report, Box<Failure>> {
    explore(explorer, image, &filled(fill, order), |kv, twin| {
        (fill..fill + 14).map(order).for_each(|key| insert(kv, twin, key, key));
    })
}

fn groups(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 70;
    splits(explorer, &image(KvKind::Hash, &filled(FILL, |number| number), |_| ()), FILL, |number| number)
}

fn segments(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 48; // 32 buckets
    splits(explorer, &image(KvKind::Hash, &filled(FILL, scattered), |_| ()), FILL, scattered)
}

/// A hash table with pairs of these keys, inserted in this order.
fn chosen(keys: &[u8]) -> (Image, Pairs) {
    let pairs: Pairs = keys.iter().map(|&key| (vec![key], value(key))).collect();
    let prepare = |kv: &Kv| keys.iter().for_each(|&key| assert!(kv.insert(&[key], &value(key)).expect("room")));
    (image(KvKind::Hash, &pairs, prepare), pairs)
}

/// The keys are chosen for where they go: to buckets 8, 12 and 14 of 16.
fn chains(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: [u8; 22] = [16, 160, 3, 22, 34, 35, 40, 27, 59, 84, 92, 112, 19, 45, 11, 15, 18, 30, 31, 49, 6, 8];
    let (image, pairs) = chosen(&KEYS);
    explore(explorer, &image, &pairs, |kv, twin| {
        let Kv::Hash(hash) = kv else { panic!("a hash table was made") };
        let longest = || hash.longest_chain().expect("whole chains");
        let is_first = twin.model() == pairs;
        assert!(!is_first || longest() == 2, "bucket 8 has a second");
        insert(kv, twin, 21, 21); // so has bucket 12 now; of 8 and 24 each has one
        insert(kv, twin, 54, 54); // in bucket 24
        insert(kv, twin, 38, 38); // in the second of 12
        insert(kv, twin, 76, 76); // in a second of 14, which is split at once, as is 12
        delete(kv, twin, 49);
        assert!(!is_first || longest() == 1, "they were split");
    })
}

/// The keys are chosen for where they go: nine to bucket 5 of 16, two of 32 to bucket 21.
fn gathers(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const KEYS: [u8; 9] = [5, 44, 72, 88, 102, 167, 176, 227, 228];
    let (image, pairs) = chosen(&KEYS);
    explore(explorer, &image, &pairs, |kv, twin| {
        let Kv::Hash(hash) = kv else { panic!("a hash table was made") };
        let longest = || hash.longest_chain().expect("whole chains");
        let is_first = twin.model() == pairs;
        assert!(!is_first || longest() == 2, "bucket 5 has a second");
        delete(kv, twin, 5);
        delete(kv, twin, 44);
        [0, 78, 24, 134, 48, 10, 11, 55, 33, 4].into_iter().for_each(|key| insert(kv, twin, key, key));
        // both take a slot that was freed, and go
        insert(kv, twin, 2, 2);
        insert(kv, twin, 96, 96);
        assert!(!is_first || longest() == 1, "it was split, by the twelfth insertion");
        delete(kv, twin, 72);
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
    explore(explorer, &image(KvKind::Tree, &pairs, prepare), &pairs, |kv, twin| {
        let is_first = twin.model() == pairs;
        assert!(!is_first || levels(kv) == 2, "it is to rise");
        (FILL..FILL + 3).map(scattered).for_each(|key| insert(kv, twin, key, key));
        assert!(!is_first || levels(kv) == 3, "it has risen");
    })
}

fn rebuilds(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 20;
    let key = |number: u8| [b"they begin alike", &[scattered(number)][..]].concat();
    let pairs = (0..FILL).map(|number| (key(number), value(number))).collect();
    explore(explorer, &image(KvKind::Tree, &pairs, |_| ()), &pairs, |kv, twin| {
        (FILL..FILL + 6).for_each(|number| insert_at(kv, twin, key(number), number));
    })
}

fn joins_anew(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 30; // in leaves of 13, 13 and 4
    let key = |number: u8| [b"they begin alike", &[number][..]].concat();
    let all: Pairs = (0..FILL).map(|number| (key(number), value(number))).collect();
    let gone = 13..20;
    let pairs = all.iter().filter(|(at, _)| !gone.clone().any(|number| key(number) == **at));
    let pairs: Pairs = pairs.map(|(key, value)| (key.clone(), value.clone())).collect();
    let prepare = |kv: &Kv| {
        all.iter().for_each(|(key, value)| assert!(kv.insert(key, value).expect("room in the tree")));
        gone.clone().for_each(|number| assert!(kv.delete(&key(number)).expect("a key that is there")));
    };
    explore(explorer, &image(KvKind::Tree, &pairs, prepare), &pairs, |kv, twin| {
        let (before, gone) = (kv.logged(), key(20));
        let (at, is_first) = (gone.clone(), twin.model() == pairs);
        let removed = move |pairs: &mut Pairs| drop(pairs.remove(&at));
        twin.step("delete 20", removed, || assert_eq!(kv.delete(&gone).unwrap(), is_first));
        let logged = kv.logged() - before;
        assert!(!is_first || logged > 2 * 64, "a transaction has logged as well, not notes alone: {logged} bytes");
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
    explore(explorer, &image(KvKind::Tree, &pairs, prepare), &pairs, |kv, twin| {
        let is_first = twin.model() == pairs;
        assert!(!is_first || levels(kv) == 3, "it is to fall");
        (GONE..GONE + 3).for_each(|number| delete(kv, twin, order(number)));
        assert!(!is_first || levels(kv) == 2, "it has fallen");
    })
}
