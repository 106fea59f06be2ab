//! Entries that a range counts or passes over leaf by leaf are those that it returns one by one.

#![forbid(unsafe_code)]

use everbyte_kv::{Kv, Range};
use everbyte_sim::Image;
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Keys with common beginnings, some of them longer than a leaf holds.
fn key(random: &mut Random) -> Vec<u8> {
    let number = random.index(3000);
    match random.index(20) {
        0 => [&[b'l'; 300][..], &number.to_be_bytes()].concat(),
        1 => Vec::new(),
        _ => format!("key {number:06}").into_bytes(),
    }
}

fn bounds(random: &mut Random) -> Bounds {
    let mut bound = || match random.index(4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key(random)),
        _ => Bound::Included(key(random)),
    };
    (bound(), bound())
}

/// Compares what `range` makes of the bounds with the model.
fn compare<'r>(random: &mut Random, model: &Model, range: &dyn Fn(&Bounds) -> Range<'r>) {
    let bounds = bounds(random);
    let within: Vec<&Vec<u8>> = model.keys().filter(|key| std::ops::RangeBounds::contains(&bounds, *key)).collect();
    assert_eq!(range(&bounds).count_entries().unwrap(), within.len() as u64, "{bounds:?}");
    let (mut parts, mut counted, mut more) = (range(&bounds), 0, true);
    while more {
        let part = parts.count_part().unwrap();
        (counted, more) = (counted + part.0, part.1);
    }
    assert_eq!(counted, within.len() as u64, "{bounds:?}");
    if let Some((weight, key)) = range(&bounds).sample(&mut || random.next()).unwrap() {
        assert!(weight > 0 && within.contains(&&key), "{bounds:?}");
    }
    let skip = [0, 1, random.index(40), random.index(within.len() + 2), usize::MAX][random.index(5)];
    let taken = random.index(3);
    let mut forward = range(&bounds);
    forward.skip_entries(skip as u64).unwrap();
    let rest = within.get(skip..).unwrap_or_default();
    for expect in rest.iter().take(taken) {
        assert_eq!(forward.next_ref().unwrap().map(|(key, _)| key), Some(&***expect), "{skip} of {bounds:?}");
    }
    assert_eq!(forward.count_entries().unwrap(), rest.len().saturating_sub(taken) as u64, "{skip} of {bounds:?}");
    let mut backward = range(&bounds);
    backward.skip_back_entries(skip as u64).unwrap();
    let rest = &within[..within.len().saturating_sub(skip)];
    for expect in rest.iter().rev().take(taken) {
        assert_eq!(backward.next_back_ref().unwrap().map(|(key, _)| key), Some(&***expect), "{skip} of {bounds:?}");
    }
    // From both ends, they do not cross, whichever of them passes over entries.
    let mut both = range(&bounds);
    both.skip_entries(skip as u64).unwrap();
    let rest = within.get(skip..).unwrap_or_default();
    for expect in rest.iter().rev() {
        assert_eq!(both.next_back_ref().unwrap().map(|(key, _)| key), Some(&***expect), "{skip} of {bounds:?}");
    }
    assert!(both.next_back_ref().unwrap().is_none(), "{skip} of {bounds:?}");
    let mut both = range(&bounds);
    both.skip_back_entries(skip as u64).unwrap();
    let rest = &within[..within.len().saturating_sub(skip)];
    for expect in rest {
        assert_eq!(both.next_ref().unwrap().map(|(key, _)| key), Some(&***expect), "{skip} of {bounds:?}");
    }
    assert!(both.next_ref().unwrap().is_none(), "{skip} of {bounds:?}");
    let mut both = range(&bounds);
    both.skip_back_entries(skip as u64).unwrap();
    let last = both.next_back_ref().unwrap().map(|(key, _)| key.to_vec());
    assert_eq!(last.as_ref(), rest.last().copied());
    assert_eq!(both.count_entries().unwrap(), rest.len().saturating_sub(1) as u64, "{skip} of {bounds:?}");
}

#[test]
fn entries_that_are_passed_over_are_those_that_are_there() {
    let store = Store::format(
        Image::zeroed(2 << 20).with_max(64 << 20).media(),
        &FormatOptions { log_len: 0, identity: Some([7; 16]) },
    )
    .unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let mut random = Random::new(everbyte_workload::seed(3, "-p everbyte-kv entries_that_are_passed"));
    let (mut model, mut older) = (Model::new(), None);
    for round in 0..60 {
        let mut batch = kv.batch();
        for _ in 0..random.index(300) {
            let key = key(&mut random);
            if random.index(3) == 0 {
                assert_eq!(batch.delete(&key).unwrap(), model.remove(&key).is_some());
            } else {
                batch.put(&key, b"value").unwrap();
                model.insert(key, b"value".to_vec());
            }
        }
        for _ in 0..20 {
            compare(&mut random, &model, &|bounds| {
                batch.range::<[u8]>((bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice)))
            });
        }
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
        let snapshot = kv.snapshot();
        let (snapshot, model) = older.get_or_insert((snapshot, model.clone()));
        for _ in 0..10 {
            compare(&mut random, model, &|bounds| {
                snapshot.range::<[u8]>((bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice)))
            });
        }
        if round % 7 == 0 {
            older = None;
        }
    }
}

/// Each key in turn is a border, the first and the last of every leaf among them.
#[test]
fn a_count_takes_the_borders_that_are_included() {
    let store = Store::format(
        Image::zeroed(2 << 20).with_max(64 << 20).media(),
        &FormatOptions { log_len: 0, identity: Some([7; 16]) },
    )
    .unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let keys: Vec<[u8; 2]> = (0..300_u16).map(u16::to_be_bytes).collect();
    let mut batch = kv.batch();
    keys.iter().for_each(|key| _ = batch.put(key, b"value").unwrap());
    kv.settle(batch.commit().unwrap()).unwrap();
    for (before, key) in (0_u64..).zip(&keys) {
        let count = |bounds: (Bound<&[u8]>, Bound<&[u8]>)| kv.range::<[u8]>(bounds).count_entries().unwrap();
        assert_eq!(count((Bound::Unbounded, Bound::Excluded(key))), before, "{key:?}");
        assert_eq!(count((Bound::Unbounded, Bound::Included(key))), before + 1, "{key:?}");
        assert_eq!(count((Bound::Included(key), Bound::Unbounded)), 300 - before, "{key:?}");
        assert_eq!(count((Bound::Excluded(key), Bound::Unbounded)), 299 - before, "{key:?}");
    }
}

/// Both ends pass over more than is there between them.
#[test]
fn ends_that_pass_over_each_other_leave_nothing() {
    let store = Store::format(
        Image::zeroed(2 << 20).with_max(64 << 20).media(),
        &FormatOptions { log_len: 0, identity: Some([7; 16]) },
    )
    .unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    for key in [b"a", b"b", b"c"] {
        kv.put(key, b"").unwrap();
    }
    let keys = |range: Range<'_>| -> Vec<Vec<u8>> { range.rev().map(|entry| entry.unwrap().0).collect() };
    let mut range = kv.range::<[u8]>(..);
    range.skip_entries(2).unwrap();
    assert_eq!(keys(range), [b"c"]);
    let mut range = kv.range::<[u8]>(..);
    range.skip_entries(2).unwrap();
    range.skip_back_entries(2).unwrap();
    assert!(range.next_entry().unwrap().is_none());
    let mut range = kv.range::<[u8]>(..);
    range.skip_back_entries(2).unwrap();
    range.skip_entries(2).unwrap();
    assert!(range.next_back_entry().unwrap().is_none());
}

/// The mean weight of drawn entries is the number of entries, of each part of them too, whatever
/// room they take in their leaves. A draw lists one leaf.
#[test]
fn weights_of_samples_make_every_entry_as_likely() {
    let store = Store::format(
        Image::zeroed(2 << 20).with_max(64 << 20).media(),
        &FormatOptions { log_len: 0, identity: Some([7; 16]) },
    )
    .unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let mut batch = kv.batch();
    for number in 0..6000 {
        let long = if number < 2000 { 300 } else { 3 };
        batch.put(format!("{number:06}").as_bytes(), &vec![b'v'; long]).unwrap();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut random = Random::new(everbyte_workload::seed(5, "-p everbyte-kv weights_of_samples"));
    const DRAWS: u64 = 4000;
    let range = kv.range(&b"001000"[..]..b"005000");
    let mut weights = [0; 4];
    let before = everbyte_kv::listed();
    for _ in 0..DRAWS {
        if let Some((weight, key)) = range.sample(&mut || random.next()).unwrap() {
            weights[usize::from(key[2] - b'1')] += weight;
        }
    }
    assert_eq!(everbyte_kv::listed() - before, DRAWS);
    for weight in weights {
        assert!((850..1150).contains(&(weight / DRAWS)), "{weights:?}, not 1000 each of {DRAWS}");
    }
}
