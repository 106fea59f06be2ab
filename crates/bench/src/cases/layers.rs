//! `layers`: the cost of durability and of versions. The durable tree, the same without flushes and
//! fences (the volatile mode), and a plain B+-tree of ours without versions and checksums.
//! Every put is a batch of its own where there are batches.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::pairs::{VALUE, key, value};
use crate::structures::plain::PlainTree;
use everbyte_kv::{Kv, raw};
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::cell::RefCell;
use std::path::Path;

/// A tree of one of the three kinds.
enum Layer {
    Kv(Kv),
    Plain(RefCell<PlainTree>),
}

impl Layer {
    fn put(&self, number: u64, version: u64) {
        match self {
            Layer::Kv(kv) => kv.put(&key(number), &value(number, version)).expect("a put that must succeed"),
            Layer::Plain(tree) => tree.borrow_mut().put(&key(number), &value(number, version)),
        }
    }

    fn get(&self, number: u64, found: &mut Vec<u8>) {
        found.clear();
        match self {
            Layer::Kv(kv) => found.extend(kv.get(&key(number)).expect("no damage").expect("a loaded key is there")),
            Layer::Plain(tree) => {
                found.extend_from_slice(tree.borrow().get(&key(number)).expect("a loaded key is there"));
            }
        }
    }

    fn scan(&self, number: u64, values: &mut Vec<u8>) {
        values.clear();
        match self {
            Layer::Kv(kv) => {
                let mut range = kv.range(key(number).as_slice()..);
                for _ in 0..100 {
                    let Some(entry) = range.next_entry().expect("no damage") else { break };
                    values.extend_from_slice(entry.read().expect("no damage").1);
                }
            }
            Layer::Plain(tree) => {
                tree.borrow().scan(&key(number), 100, |_, value| values.extend_from_slice(value));
            }
        }
    }
}

fn store(folder: &Path, media: Options) -> Result<Store> {
    Ok(Store::create(&folder.join("store"), &CreateOptions { media, max: 16 << 30, ..CreateOptions::default() })?)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 300);
    let folders = [tempfile::tempdir_in(&bench.plan.memory)?, tempfile::tempdir_in(&bench.plan.memory)?];
    let durable = store(folders[0].path(), Options::default())?;
    let volatile = store(folders[1].path(), Options { flush_on_fail: true, ..Options::default() })?;
    drop(Kv::create(&volatile, "kv")?);
    let layers = [
        ("durable", Layer::Kv(Kv::create(&durable, "kv")?)),
        ("volatile mode", Layer::Kv(raw::open_volatile(&volatile, "kv")?)),
        ("plain B+-tree", Layer::Plain(RefCell::default())),
    ];
    for (_, layer) in &layers {
        (0..keys).for_each(|number| layer.put(number, 0));
    }
    bench.on(durable.media());
    let runners = |body: fn(&Layer, &mut Random, u64, u64)| {
        layers
            .iter()
            .map(|(name, layer)| {
                let mut random = Random::new(7);
                let runner = Runner::new(*name, move |count| body(layer, &mut random, keys, count));
                if *name == "durable" { runner.counting(durable.media()) } else { runner }
            })
            .collect::<Vec<_>>()
    };
    let put = |layer: &Layer, random: &mut Random, keys: u64, count: u64| {
        (0..count).for_each(|version| layer.put(random.below(keys), version));
    };
    bench.metric("put", Unit::Microseconds, 0, runners(put));
    let get = |layer: &Layer, random: &mut Random, keys: u64, count: u64| {
        let mut found = Vec::new();
        for _ in 0..count {
            let number = random.below(keys);
            layer.get(number, &mut found);
            assert_eq!((found.len(), &found[..8]), (VALUE, &number.to_le_bytes()[..]));
        }
    };
    bench.metric("get", Unit::Microseconds, 0, runners(get));
    let scan = |layer: &Layer, random: &mut Random, keys: u64, count: u64| {
        let mut values = Vec::new();
        (0..count).for_each(|_| layer.scan(random.below(keys), &mut values));
    };
    bench.metric("scan_100_read", Unit::Microseconds, 0, runners(scan));
    Ok(())
}
