//! Compare-and-set, counters and updates: against a map, from several threads, and at their limits.

use everbyte_kv::{Compared, Error, Kv, KvTable};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::{Random, programs};
use std::collections::BTreeMap;

fn tables() -> (Kv, KvTable) {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let table = kv.create_table("t").unwrap();
    (kv, table)
}

fn value(random: &mut Random) -> Option<Vec<u8>> {
    let len = random.pick(&[0, 1, 8, 513]);
    random.chance(70).then(|| vec![random.below(2) as u8; len])
}

/// Whether a random program on each face does what a map does.
fn is_like_a_map(random: &mut Random) -> bool {
    let (kv, table) = tables();
    let mut model = BTreeMap::<(bool, u8), Vec<u8>>::new();
    for _ in 0..300 {
        let (named, key, batched) = (random.chance(50), random.below(5) as u8, random.chance(50));
        let before = model.get(&(named, key)).cloned();
        let mut after = before.clone();
        // The same call on a table, or on a table in a batch.
        macro_rules! call {
            ($method:ident $args:tt) => {
                match (named, batched) {
                    (false, false) => kv.$method $args,
                    (true, false) => table.$method $args,
                    (named, true) => {
                        let mut batch = kv.batch();
                        let result = if named { batch.table(&table).unwrap().$method $args } else { batch.$method $args };
                        kv.settle(batch.commit().unwrap()).unwrap();
                        result
                    }
                }
            };
        }
        let is_right = match random.below(3) {
            0 => {
                let expected = if random.chance(60) { before.clone() } else { value(random) };
                let new = value(random);
                let compared = call!(compare_and_set(&[key], expected.as_deref(), new.as_deref())).unwrap();
                if expected == before {
                    after = new;
                    compared.is_set()
                } else {
                    compared == Compared::Differs(before.clone())
                }
            }
            1 => {
                let new = value(random);
                after.clone_from(&new);
                let mut seen = None;
                let returned = call!(update(&[key], |old| {
                    seen = Some(old.map(<[u8]>::to_vec));
                    new.clone()
                }));
                returned.unwrap() == before && seen == Some(before.clone())
            }
            _ => {
                let number = match &before {
                    None => Some(0),
                    Some(value) => <[u8; 8]>::try_from(&**value).ok().map(u64::from_le_bytes),
                };
                let by = random.pick(&[1, -1, i64::MAX, i64::MIN]);
                let sum = number.and_then(|number| number.checked_add_signed(by));
                after = sum.map(|sum| sum.to_le_bytes().to_vec()).or(after);
                let counted: Result<u64, Error> = call!(increment(&[key], by));
                match (counted, number) {
                    (Ok(found), _) => sum == Some(found),
                    (Err(Error::NotACounter { len, .. }), None) => {
                        before.is_some_and(|value| len == value.len() as u64)
                    }
                    (Err(Error::CounterOverflow { key: found, table }), Some(_)) => {
                        sum.is_none() && found == [key] && table.is_empty() != named
                    }
                    (Err(error), _) => panic!("{error}"),
                }
            }
        };
        if !is_right {
            return false;
        }
        match after {
            Some(value) => drop(model.insert((named, key), value)),
            None => drop(model.remove(&(named, key))),
        }
        let found = if named { table.get(&[key]) } else { kv.get(&[key]) };
        assert_eq!(found.unwrap().as_ref(), model.get(&(named, key)));
    }
    assert_eq!(kv.check(), []);
    true
}

#[test]
fn updates_do_what_a_map_does() {
    programs(20, |random, _| assert!(is_like_a_map(random)));
}

#[test]
fn a_compare_that_compares_nothing_is_found() {
    assert!(!museum::with("kv-compare-nothing", || is_like_a_map(&mut Random::new(1))));
}

/// Updates of several threads, each by another call, lose nothing.
#[test]
fn updates_of_several_threads_lose_nothing() {
    const EACH: u64 = 200;
    let (kv, table) = tables();
    let next = |old: Option<&[u8]>| {
        let number = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
        (number + 1).to_le_bytes().to_vec()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..EACH).for_each(|_| assert!(table.increment::<u64>(b"n", 1).unwrap() > 0)));
        scope.spawn(|| (0..EACH).for_each(|_| drop(table.update(b"n", |old| Some(next(old))).unwrap())));
        scope.spawn(|| {
            for _ in 0..EACH {
                let mut seen = table.get(b"n").unwrap();
                while let Compared::Differs(now) =
                    table.compare_and_set(b"n", seen.as_deref(), Some(&next(seen.as_deref()))).unwrap()
                {
                    seen = now;
                }
            }
        });
    });
    assert_eq!(table.increment::<u64>(b"n", 0).unwrap(), 3 * EACH);
    assert!(kv.is_empty());
}

/// A write that changes nothing makes no version; signed counters end at both ends of their range.
#[test]
fn what_changes_nothing_makes_no_version() {
    let (kv, _) = tables();
    kv.put(b"key", b"value").unwrap();
    let version = kv.stats().version;
    assert!(!kv.compare_and_set(b"key", Some(b"other"), Some(b"new")).unwrap().is_set());
    assert_eq!(kv.update(b"key", |old| old.map(<[u8]>::to_vec)).unwrap().as_deref(), Some(&b"value"[..]));
    assert!(matches!(kv.increment::<i64>(b"key", 1), Err(Error::NotACounter { len: 5, .. })));
    assert_eq!(kv.stats().version, version);
    assert_eq!(kv.increment::<i64>(b"low", i64::MIN).unwrap(), i64::MIN);
    assert!(matches!(kv.increment::<i64>(b"low", -1), Err(Error::CounterOverflow { .. })));
    assert_eq!(kv.increment::<i64>(b"low", i64::MAX).unwrap(), -1);
}
