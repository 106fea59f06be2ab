//! A model twin: random programs against a `BTreeMap`, with reopening, snapshots that must not
//! change, and `check` after every chapter. Each failure prints its seed; `EVERBYTE_SEED` runs it
//! again.

use everbyte_kv::{Kv, Snapshot};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// How a program behaves: what its keys and values look like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    keys: u64,
    ascending: bool,
    long: bool,
    steps: usize,
}

fn key(random: &mut Random, shape: Shape, step: usize) -> Vec<u8> {
    let number = if shape.ascending { step as u64 / 2 } else { random.below(shape.keys) };
    let mut key = format!("key:{number:08}").into_bytes();
    match number % 17 {
        0 if shape.long => key.resize(300 + (number % 700) as usize, b'x'),
        1 => key.truncate((number % 9) as usize),
        2 => key.insert(0, (number % 256) as u8),
        3 => key.extend_from_slice(&[0; 9][..(number % 10).min(9) as usize]),
        _ => {}
    }
    key
}

fn value(random: &mut Random, shape: Shape) -> Vec<u8> {
    let len = match random.below(20) {
        0 if shape.long => 5000 + random.below(60_000),
        1 if shape.long => 500 + random.below(30),
        2 => 0,
        _ => random.below(120),
    };
    let fill = random.next() as u8;
    vec![fill; len as usize]
}

fn assert_same(snapshot: &Snapshot, model: &Model, random: &mut Random, story: &str) {
    assert_eq!(snapshot.len(), model.len() as u64, "{story}: len");
    let all: Vec<_> = snapshot.range::<[u8]>(..).map(Result::unwrap).collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(all == expected, "{story}: a forward walk differs");
    let mut back: Vec<_> = snapshot.range::<[u8]>(..).rev().map(Result::unwrap).collect();
    back.reverse();
    assert!(back == expected, "{story}: a backward walk differs");
    for _ in 0..10 {
        let pick = |random: &mut Random| match expected.get(random.below(expected.len() as u64 + 1) as usize) {
            Some((key, _)) if random.chance(70) => key.clone(),
            Some((key, _)) => [key.as_slice(), &[1]].concat(),
            None => b"zz".to_vec(),
        };
        let (low, high) = (pick(random), pick(random));
        if low <= high {
            let ours: Vec<_> = snapshot.range(low.as_slice()..high.as_slice()).map(|entry| entry.unwrap().0).collect();
            let theirs: Vec<_> = model.range(low.clone()..high.clone()).map(|(key, _)| key.clone()).collect();
            assert!(ours == theirs, "{story}: range differs");
            let mut range = snapshot.range(low.as_slice()..=high.as_slice());
            let (mut front, mut rear) = (Vec::new(), Vec::new());
            loop {
                let entry = if random.chance(50) {
                    range.next().map(|e| front.push(e.unwrap().0))
                } else {
                    range.next_back().map(|e| rear.push(e.unwrap().0))
                };
                if entry.is_none() {
                    break;
                }
            }
            front.extend(rear.into_iter().rev());
            let theirs: Vec<_> = model.range(low.clone()..=high).map(|(key, _)| key.clone()).collect();
            assert!(front == theirs, "{story}: a range from both ends differs");
        }
        let prefix = &low[..(low.len() / 2).min(6)];
        let ours: Vec<_> = snapshot.prefix(prefix).map(|entry| entry.unwrap().0).collect();
        let theirs: Vec<_> = model.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        assert!(ours == theirs, "{story}: prefix differs");
    }
}

fn assert_sound(kv: &Kv, story: &str) {
    let findings = kv.check();
    assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(5)]);
}

fn run(seed: u64, shape: Shape) {
    let random = &mut Random::new(seed);
    let media = Media::anonymous(1 << 30, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let mut kv = Kv::create(&store, "twin").unwrap();
    let mut model = Model::new();
    let mut old: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..shape.steps {
        let story = format!("seed {seed:#x} {shape:?} step {step}");
        match random.below(100) {
            0..60 => {
                let (key, value) = (key(random, shape, step), value(random, shape));
                kv.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            60..80 => {
                let key = match shape.ascending && random.chance(80) {
                    // a queue: the oldest goes
                    true => model.keys().next().cloned().unwrap_or_default(),
                    false => key(random, shape, step),
                };
                assert_eq!(kv.delete(&key).unwrap(), model.remove(&key).is_some(), "{story}");
            }
            80..90 => {
                let key = key(random, shape, step);
                assert_eq!(kv.get(&key).unwrap(), model.get(&key).cloned(), "{story}");
            }
            90..97 => {
                let mut batch = kv.batch();
                let mut twin = model.clone();
                for _ in 0..random.below(200) {
                    let key = key(random, shape, step);
                    match random.below(10) {
                        0..6 => {
                            let value = value(random, shape);
                            assert_eq!(batch.put(&key, &value).unwrap(), twin.insert(key, value).is_some(), "{story}");
                        }
                        6..9 => assert_eq!(batch.delete(&key).unwrap(), twin.remove(&key).is_some(), "{story}"),
                        _ => assert_eq!(batch.get(&key).unwrap(), twin.get(&key).cloned(), "{story}"),
                    }
                }
                if random.chance(3) {
                    batch.clear().unwrap();
                    twin.clear();
                    for _ in 0..random.below(50) {
                        let (key, value) = (key(random, shape, step), value(random, shape));
                        batch.put(&key, &value).unwrap();
                        twin.insert(key, value);
                    }
                }
                assert_eq!(batch.len(), twin.len() as u64, "{story}");
                if random.chance(20) {
                    batch.abort();
                } else {
                    let commit = batch.commit().unwrap();
                    kv.settle(commit).unwrap();
                    model = twin;
                }
            }
            97 => {
                if old.len() > 4 {
                    let (snapshot, model) = old.remove(random.below(4) as usize);
                    assert_same(&snapshot, &model, random, &format!("{story}: old version"));
                }
                old.push((kv.snapshot(), model.clone()));
            }
            98 if step % 7 == 0 => {
                assert_same(&kv.snapshot(), &model, random, &story);
                assert_sound(&kv, &story);
            }
            99 if random.chance(15) => {
                old.clear();
                drop(kv);
                kv = Kv::open(&store, "twin").unwrap();
                assert_sound(&kv, &format!("{story}: reopened"));
            }
            _ => {}
        }
    }
    let story = format!("seed {seed:#x} {shape:?}");
    for (snapshot, model) in old.drain(..) {
        assert_same(&snapshot, &model, random, &format!("{story}: old version"));
    }
    assert_same(&kv.snapshot(), &model, random, &story);
    assert_sound(&kv, &story);
}

fn seeds(default: std::ops::Range<u64>) -> Vec<u64> {
    match everbyte_workload::given_seed() {
        Some(seed) => vec![seed],
        None => default.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).collect(),
    }
}

#[test]
fn random_keys() {
    for seed in seeds(1..9) {
        run(seed, Shape { keys: 3000, ascending: false, long: false, steps: 6000 });
    }
}

#[test]
fn few_keys_overwritten_often() {
    for seed in seeds(10..18) {
        run(seed, Shape { keys: 20, ascending: false, long: true, steps: 4000 });
    }
}

#[test]
fn long_keys_and_values() {
    for seed in seeds(20..26) {
        run(seed, Shape { keys: 2000, ascending: false, long: true, steps: 4000 });
    }
}

#[test]
fn a_queue() {
    for seed in seeds(30..36) {
        run(seed, Shape { keys: 1, ascending: true, long: false, steps: 8000 });
    }
}
