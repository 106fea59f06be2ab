//! `rbtree`: inserting a node of 128 bytes into a persistent red-black tree, under the profile
//! `pcm`, against writing the whole tree to a file with Boost.Serialization, on tmpfs and on a
//! disk, where nothing is slowed down.
//!
//! Result: how many inserts one may do between two such writes before writing is the cheaper way.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::ours::NAME;
use crate::structures::rbtree::{NODE, RbTree};
use everbyte_bench_rivals::{BoostTree, Payload};
use everbyte_media::{Options, Profile};
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_workload::mix;
use std::time::{Duration, Instant};

/// Nodes of the trees.
const SIZES: [(u64, &str); 4] = [(1 << 10, "1k"), (8 << 10, "8k"), (64 << 10, "64k"), (256 << 10, "256k")];

fn payload(number: u64) -> Payload {
    std::array::from_fn(|word| number + word as u64)
}

/// A tree that is emptied when it has become an eighth larger than `nodes`, and then filled until
/// it is an eighth smaller.
struct Growing {
    nodes: u64,
    tree: RbTree,
    len: u64,
}

impl Growing {
    fn new(store: &Store, name: &str, nodes: u64) -> Result<Growing> {
        let span = Some((nodes * NODE * 2).next_power_of_two().max(32 << 20));
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span };
        let tree = RbTree::new(&Redo::open(store.create_object(name, options, Redo::format)?)?);
        let mut growing = Growing { nodes, tree, len: 0 };
        growing.renew()?;
        Ok(growing)
    }

    fn insert(&mut self, until: u64) -> Result<Duration> {
        let start = Instant::now();
        for number in self.len..until {
            assert!(self.tree.insert(mix(number), &payload(number))?, "a new key");
        }
        self.len = until;
        Ok(start.elapsed())
    }

    fn renew(&mut self) -> Result {
        self.tree.clear()?;
        self.len = 0;
        self.insert(self.nodes - self.nodes / 8).map(drop)
    }

    fn run(&mut self, mut count: u64) -> Result<Duration> {
        let (most, mut sum) = (self.nodes + self.nodes / 8, Duration::ZERO);
        while count > 0 {
            if self.len == most {
                self.renew()?;
            }
            let step = count.min(most - self.len);
            sum += self.insert(self.len + step)?;
            count -= step;
        }
        Ok(sum)
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let (memory, disk) = (tempfile::tempdir_in(&bench.plan.memory)?, tempfile::tempdir_in(&bench.plan.disk)?);
    let media = Options { profile: Profile::PCM, ..Options::default() };
    let create = CreateOptions { media, max: 1 << 30, ..CreateOptions::default() };
    let store = Store::create(&memory.path().join("ours"), &create)?;
    bench.on(store.media());
    bench.profile = Profile::PCM.name.into();
    for (nodes, size) in SIZES {
        let insert = format!("insert_{size}");
        if !bench.wants(&insert) {
            continue;
        }
        let nodes = bench.plan.pick(nodes, nodes, nodes / 64);
        let mut rival = BoostTree::new();
        match &mut rival {
            Some(tree) => (0..nodes).for_each(|number| tree.insert(mix(number), &payload(number))),
            None => bench.skipped(&insert, "Boost.Serialization is not installed: `cargo xtask rivals`"),
        }
        let mut ours = Growing::new(&store, size, nodes)?;
        let insert_ours = move |count| ours.run(count).expect("a store with room");
        let mut runners = vec![Runner::timed(NAME, insert_ours)];
        for (folder, name) in [(&memory, "boost tmpfs"), (&disk, "boost disk")] {
            let (file, tree) = (folder.path().join("boost"), rival.as_ref());
            runners.extend(tree.map(|tree| {
                let save = move |count| (0..count).for_each(|_| tree.save(&file).expect("a file with room"));
                Runner::new(name, save)
            }));
        }
        let outcome = bench.metric(&insert, Unit::Microseconds, 0, runners);
        if let Some(inserts) = outcome.ratio() {
            bench.report(&format!("break_even_{size}"), Unit::Inserts, vec![(NAME.into(), vec![inserts])], None);
        }
    }
    Ok(())
}
