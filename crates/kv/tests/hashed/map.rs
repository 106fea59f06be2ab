//! Random programs of a hash table against a map: batches, snapshots that stay, openings between.

use everbyte_kv::{HashSnapshot, HashTable};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::{Random, programs};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(snapshot: &HashSnapshot) -> Model {
    let mut entries = Model::new();
    for entry in snapshot.entries() {
        let (key, value) = entry.unwrap();
        assert!(entries.insert(key, value).is_none(), "an entry is listed twice");
    }
    assert_eq!(snapshot.len() as usize, entries.len());
    entries
}

/// Whether a table does what a map does, over one random program.
fn is_like_a_map(random: &mut Random, steps: u64) -> bool {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let mut table = HashTable::create(&store, "t").unwrap();
    let keys = random.pick(&[3, 20, 200, 2000]);
    let (mut model, mut held) = (Model::new(), Vec::<(HashSnapshot, Model)>::new());
    let mut is_right = true;
    for _ in 0..steps {
        match random.below(100) {
            0..4 => {
                held.clear();
                is_right &= table.check().is_empty();
                drop(table);
                table = HashTable::open(&store, "t").unwrap();
            }
            4..10 => held.push((table.snapshot(), model.clone())),
            10..16 if !held.is_empty() => drop(held.remove(random.index(held.len()))),
            16..20 => while table.reclaim().unwrap() {},
            _ => {
                let mut batch = table.begin().unwrap();
                let mut next = model.clone();
                for _ in 0..random.pick(&[1, 1, 3, 40]) {
                    let key = random.below(keys).to_be_bytes()[random.pick(&[5, 5, 0])..].to_vec();
                    if random.chance(35) {
                        assert_eq!(batch.delete(&key).unwrap(), next.remove(&key).is_some());
                    } else {
                        let len = random.pick(&[0, 1, 8, 50, 200, 5000, 9001]);
                        let value: Vec<u8> = (0..len).map(|index| random.below(256) as u8 ^ index as u8).collect();
                        batch.put(&key, &value).unwrap();
                        next.insert(key.clone(), value);
                    }
                    is_right &= batch.get(&key).unwrap().as_ref() == next.get(&key);
                }
                is_right &= batch.len() as usize == next.len();
                if random.chance(85) {
                    batch.commit().unwrap();
                    model = next;
                }
            }
        }
        let key = random.below(keys).to_be_bytes()[5..].to_vec();
        is_right &= table.get(&key).unwrap().as_ref() == model.get(&key);
        is_right &= table.len() as usize == model.len();
        for (snapshot, model) in &held {
            is_right &= snapshot.get(&key).unwrap().as_ref() == model.get(&key);
        }
        if random.chance(10) {
            is_right &= all(&table.snapshot()) == model;
            is_right &= held.iter().all(|(snapshot, model)| all(snapshot) == *model);
        }
        if !is_right {
            return false;
        }
    }
    drop(held);
    while table.reclaim().unwrap() {}
    table.check().is_empty()
}

#[test]
fn a_hash_table_does_what_a_map_does() {
    programs(40, |random, soak| assert!(is_like_a_map(random, if soak { 2000 } else { 250 })));
}

/// An entry is freed while a snapshot sees it.
#[test]
fn a_writer_that_forgets_pins_is_found() {
    let is_found = |seed| !museum::with("hashed-forgets-pins", || is_safe(seed));
    assert!((1..20).any(is_found));
    assert!((1..20).all(is_safe));
}

fn is_safe(seed: u64) -> bool {
    let program = move || is_like_a_map(&mut Random::new(seed), 150);
    std::panic::catch_unwind(program).unwrap_or(false)
}

/// A walk that began before the table grew lists each entry of its version once.
#[test]
fn a_walk_goes_on_while_the_table_grows() {
    for before in [1, 15, 16, 17, 24, 31, 32, 33, 100] {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let table = HashTable::create(&store, "t").unwrap();
        (0..before).for_each(|key: u32| table.put(&key.to_be_bytes(), b"old").unwrap());
        let snapshot = table.snapshot();
        let (mut found, mut new) = (BTreeMap::new(), before);
        for entry in snapshot.entries() {
            let (key, value) = entry.unwrap();
            assert!(found.insert(key, value).is_none(), "an entry is listed twice");
            (0..20).for_each(|turn| table.put(&(new + turn).to_be_bytes(), b"new").unwrap());
            new += 20;
            table.put(&(new % before).to_be_bytes(), b"replaced").unwrap();
        }
        let expected = (0..before).map(|key| (key.to_be_bytes().to_vec(), b"old".to_vec())).collect();
        assert_eq!(found, expected);
        assert!(table.stats().buckets > 16 && table.check().is_empty());
    }
}
