//! `forms`: the two forms of a versioned store, ordered and hashed, beside HEAPO's stores, which
//! have no versions. Every write is durable when it returns.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::pairs::{VALUE, key, value};
use everbyte_hkv::KvKind;
use everbyte_kv::{HashTable, Kv};
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::cell::Cell;

/// A store of pairs in one of its forms, and how many keys it has.
struct Form {
    name: &'static str,
    store: Store,
    pairs: Pairs,
    keys: Cell<u64>,
}

enum Pairs {
    Hashed(HashTable),
    Ordered(Kv),
    Heapo(Box<everbyte_hkv::Kv>),
}

const SOUND: &str = "a store with room and without damage";

impl Form {
    fn insert(&self) {
        let number = self.keys.replace(self.keys.get() + 1);
        match &self.pairs {
            Pairs::Heapo(kv) => assert!(kv.insert(&key(number), &value(number, 0)).expect(SOUND)),
            _ => self.put(number, 0),
        }
    }

    fn put(&self, number: u64, version: u64) {
        let (key, value) = (key(number), value(number, version));
        match &self.pairs {
            Pairs::Hashed(table) => table.put(&key, &value).expect(SOUND),
            Pairs::Ordered(kv) => kv.put(&key, &value).expect(SOUND),
            Pairs::Heapo(kv) => assert!(kv.update(&key, &value).expect(SOUND)),
        }
    }

    fn get(&self, number: u64) {
        let key = key(number);
        let found = match &self.pairs {
            Pairs::Hashed(table) => table.get(&key).expect(SOUND),
            Pairs::Ordered(kv) => kv.get(&key).expect(SOUND),
            Pairs::Heapo(kv) => kv.get(&key).expect(SOUND),
        };
        let found = found.expect("a loaded key is there");
        assert_eq!((found.len(), &found[..8]), (VALUE, &number.to_le_bytes()[..]));
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 300);
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let names = ["hash table", "ordered", "heapo hash", "heapo tree"];
    let mut forms = Vec::new();
    for name in names {
        let options = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
        let store = Store::create(&folder.path().join(name), &options)?;
        let pairs = match name {
            "hash table" => Pairs::Hashed(HashTable::create(&store, "pairs")?),
            "ordered" => Pairs::Ordered(Kv::create(&store, "pairs")?),
            "heapo hash" => {
                Pairs::Heapo(Box::new(everbyte_hkv::Kv::create(&store, "pairs", KvKind::Hash, Some(4 << 30))?))
            }
            _ => Pairs::Heapo(Box::new(everbyte_hkv::Kv::create(&store, "pairs", KvKind::Tree, Some(4 << 30))?)),
        };
        let form = Form { name, store, pairs, keys: Cell::new(0) };
        (0..keys).for_each(|_| form.insert());
        forms.push(form);
    }
    bench.on(forms[0].store.media());
    // Counters are those of the first runner: each form with versions is first once.
    for first in 0..2 {
        let named = |metric: &str| if first == 0 { metric.to_string() } else { format!("{metric}_ordered") };
        let runners = |body: fn(&Form, &mut Random, u64, u64)| {
            let order = [first, 1 - first, 2, 3];
            let runner = |(place, index): (usize, usize)| {
                let (form, mut random) = (&forms[index], Random::new(7));
                let runner = Runner::new(form.name, move |count| body(form, &mut random, keys, count));
                if place == 0 { runner.counting(form.store.media()) } else { runner }
            };
            order.into_iter().enumerate().map(runner).collect::<Vec<_>>()
        };
        let get = |form: &Form, random: &mut Random, keys: u64, count: u64| {
            (0..count).for_each(|_| form.get(random.below(keys)));
        };
        bench.metric(&named("get"), Unit::Microseconds, 0, runners(get));
        let put = |form: &Form, random: &mut Random, keys: u64, count: u64| {
            (0..count).for_each(|version| form.put(random.below(keys), version));
        };
        bench.metric(&named("put"), Unit::Microseconds, 0, runners(put));
        let most = bench.plan.pick(100_000, 10_000, 100);
        bench.metric(
            &named("insert"),
            Unit::Microseconds,
            most,
            runners(|form, _, _, count| {
                (0..count).for_each(|_| form.insert());
            }),
        );
    }
    Ok(())
}
