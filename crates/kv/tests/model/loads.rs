//! Bulk loads among puts, deleted ranges and savepoints, into gaps of any size and of several
//! tables, beside a map.

use everbyte_kv::{Error, Kv, KvTable, Snapshot};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn kv() -> Kv {
    let media = Media::anonymous(1 << 28, &Options::default()).unwrap();
    Kv::create(&Store::format(media, &FormatOptions::default()).unwrap(), "kv").unwrap()
}

/// Keys of many lengths, some in blocks of their own, whose order is that of their numbers.
fn key(number: u64) -> Vec<u8> {
    let mut key = format!("{number:06}").into_bytes();
    match number % 41 {
        0 => key.resize(300, b'x'),
        1..9 => key.resize(30, b'y'),
        _ => {}
    }
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    vec![random.next() as u8; random.pick(&[0, 1, 8, 100, 100, 100, 511, 513, 2000])]
}

/// `count` ascending entries behind `first`, as far as no key of `pairs` is in their way.
fn run(random: &mut Random, pairs: &Pairs, first: u64, count: u64) -> Pairs {
    let mut number = first;
    let bound = pairs.range(key(first)..).next().map(|(key, _)| key.clone());
    let mut entries = Pairs::new();
    while (entries.len() as u64) < count && bound.as_ref().is_none_or(|bound| key(number) < *bound) {
        entries.insert(key(number), value(random));
        number += 1 + random.below(3);
    }
    entries
}

fn assert_same(kv: &Kv, table: &KvTable, [main, named]: &[Pairs; 2], snapshot: &Snapshot, story: &str) {
    let findings = kv.check();
    assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(3)]);
    let all: Pairs = snapshot.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
    assert!(all == *main && snapshot.len() == main.len() as u64, "{story}");
    let table = snapshot.table(table).unwrap();
    let all: Pairs = table.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
    assert!(all == *named && table.len().unwrap() == named.len() as u64, "{story}");
    for (key, value) in main.iter().step_by(7) {
        assert_eq!(snapshot.get(key).unwrap().as_ref(), Some(value), "{story}");
    }
}

fn program(seed: u64) {
    let random = &mut Random::new(seed);
    let kv = kv();
    let table = kv.create_table("named").unwrap();
    let mut model = [Pairs::new(), Pairs::new()];
    let mut held = Vec::new();
    for step in 0..40 {
        let story = format!("seed {seed:#x} step {step}");
        let (mut batch, mut next) = (kv.batch(), model.clone());
        for _ in 0..1 + random.below(4) {
            let which = random.index(2);
            let pairs = &mut next[which];
            let first = random.below(6000);
            match random.below(10) {
                0..5 => {
                    let count = random.pick(&[0, 1, 30, 47, 48, 49, 97, 400, 3000]);
                    let entries = run(random, pairs, first, count);
                    let loaded = match which {
                        0 => batch.load(&entries),
                        _ => batch.table(&table).unwrap().load(&entries),
                    };
                    assert_eq!(loaded.unwrap(), entries.len() as u64, "{story}");
                    pairs.extend(entries);
                }
                5 => {
                    // A load that is given up, before or behind its first leaves.
                    let count = random.pick(&[20, 60, 300]);
                    let entries = run(random, &next[0], first, count);
                    let mut load = batch.begin_load().unwrap();
                    entries.iter().for_each(|(key, value)| load.push(key, value).unwrap());
                }
                6..8 => {
                    let (low, high) = (key(first), key(first + random.below(3000)));
                    let range = low.as_slice()..high.as_slice();
                    match which {
                        0 => batch.delete_range(range).unwrap(),
                        _ => batch.table(&table).unwrap().delete_range(range).unwrap(),
                    };
                    pairs.retain(|key, _| !(low.clone()..high.clone()).contains(key));
                }
                8 => {
                    let savepoint = batch.savepoint().unwrap();
                    let entries = run(random, &next[0], first, 200);
                    batch.load(&entries).unwrap();
                    batch.roll_back(savepoint).unwrap();
                }
                _ => {
                    for number in (first..).step_by(5).take(60) {
                        let value = value(random);
                        match which {
                            0 => batch.put(&key(number), &value).unwrap(),
                            _ => batch.table(&table).unwrap().put(&key(number), &value).unwrap(),
                        };
                        pairs.insert(key(number), value);
                    }
                }
            }
        }
        if random.chance(20) {
            batch.abort();
        } else {
            kv.settle(batch.commit().unwrap()).unwrap();
            model = next;
        }
        assert_same(&kv, &table, &model, &kv.snapshot(), &story);
        if random.chance(20) {
            held.push((kv.snapshot(), model.clone(), story));
        }
    }
    for (snapshot, model, story) in held {
        assert_same(&kv, &table, &model, &snapshot, &format!("held since {story}"));
    }
}

#[test]
fn loads_into_gaps_of_any_size() {
    for seed in everbyte_workload::given_seed().map_or((1..9).collect(), |seed| vec![seed]) {
        program(seed);
    }
}

/// A bulk load is overwritten, thinned out and deleted like puts, and its space comes back.
#[test]
fn a_loaded_table_is_used_like_any_other() {
    let kv = kv();
    let mut model: Pairs = (0..20_000).map(|number| (key(number), vec![1; 100])).collect();
    let mut batch = kv.batch();
    assert_eq!(batch.load(&model).unwrap(), 20_000);
    kv.settle(batch.commit().unwrap()).unwrap();
    let random = &mut Random::new(3);
    for _ in 0..60 {
        let mut batch = kv.batch();
        for _ in 0..300 {
            let key = key(random.below(21_000));
            if random.chance(60) {
                let value = value(random);
                assert_eq!(batch.put(&key, &value).unwrap(), model.insert(key, value).is_some());
            } else {
                assert_eq!(batch.delete(&key).unwrap(), model.remove(&key).is_some());
            }
        }
        kv.settle(batch.commit().unwrap()).unwrap();
    }
    let all: Pairs = kv.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
    assert!(all == model && kv.check().is_empty());
    let mut batch = kv.batch();
    assert_eq!(batch.delete_range::<[u8]>(..).unwrap(), model.len() as u64);
    kv.settle(batch.commit().unwrap()).unwrap();
    while kv.reclaim().unwrap() {}
    assert_eq!(kv.check(), []);
}

/// Leaves of a load are full, the last two are of like size, and no level is more than it takes.
#[test]
fn leaves_are_full() {
    for count in [48_u64, 95, 96, 97, 1000, 100_000] {
        let kv = kv();
        let mut batch = kv.batch();
        let entries = (0..count).map(|number| (number.to_be_bytes(), number.to_be_bytes()));
        assert_eq!(batch.load(entries).unwrap(), count);
        kv.settle(batch.commit().unwrap()).unwrap();
        assert_eq!((kv.len(), kv.check()), (count, vec![]));
        let leaves = count.div_ceil(48);
        let levels = 2 + u8::from(leaves > 112);
        assert_eq!(kv.stats().levels, levels, "{count} entries");
    }
}

/// A refused key is named, is not loaded, and spoils neither the load nor the batch.
#[test]
fn keys_out_of_order_and_keys_in_the_way_are_refused() {
    let kv = kv();
    kv.put(b"m", b"there").unwrap();
    let mut batch = kv.batch();
    batch.put(b"before", b"1").unwrap();
    for (keys, bad) in [("xzy", "y"), ("xyy", "y"), ("anz", "before"), ("mno", "m")] {
        let error = batch.load(keys.chars().map(|key| (key.to_string(), "value"))).unwrap_err();
        match (&error, bad) {
            (Error::Unsorted { key, last }, "y") => assert!(key == b"y" && (last == b"z" || last == b"y")),
            (Error::RangeNotEmpty { key }, _) => assert_eq!(key, bad.as_bytes()),
            _ => panic!("{error}"),
        }
        assert!(error.to_string().contains(&format!("key \"{bad}\"")), "{error}");
        assert_eq!(batch.len(), 2, "nothing of it is loaded");
    }
    let mut load = batch.begin_load().unwrap();
    (0..100_u8).for_each(|number| load.push(&[b'c', number], b"value").unwrap());
    assert!(matches!(load.push(&[b'c', 99], b""), Err(Error::Unsorted { .. })));
    assert!(matches!(load.push(b"m", b""), Err(Error::RangeNotEmpty { .. })));
    assert!(matches!(load.push(b"n", b""), Err(Error::RangeNotEmpty { .. })));
    load.push(b"d", b"value").unwrap();
    assert_eq!(load.finish().unwrap(), 101);
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!((kv.len(), kv.check()), (103, vec![]));
}

/// Leaves that were found ahead of puts are not those of the tree any more once a load has replaced
/// them.
#[test]
fn puts_behind_a_load_find_the_new_leaves() {
    let kv = kv();
    (0..20).for_each(|number| kv.put(&key(100 * number), b"old").unwrap());
    let mut batch = kv.batch();
    let late = [key(500), key(510)];
    batch.prefetch(late.iter().map(Vec::as_slice)).unwrap();
    batch.load((520..590).map(|number| (key(number), b"loaded"))).unwrap();
    late.iter().for_each(|key| assert_eq!(batch.put(key, b"new").unwrap(), *key == late[0]));
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(&late[0]).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((kv.len(), kv.check()), (20 + 70 + 1, vec![]));
}
